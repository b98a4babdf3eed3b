"""Receives messages with the faults of a script, and reports how the sender has dealt with them::

    python unreliable_receiver.py faults.toml 127.0.0.9 10

It ends when so many messages were received, with status 1 if the sender lost one or changed their order.
The label of each message is its number: 1, 2, 3 and so on.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from twisted.internet.task import deferLater, react

from msmq.testing import FaultInjectingDouble


class Report:
    """Counts what arrives and what is received."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arrivals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.received: list[str] = []

    def note(self, event: Any) -> None:
        """One event of the double."""
        label = "" if event.message is None else str(event.message["label"])
        if event.kind == "arrived":
            self.arrivals[label] += 1
        elif event.kind == "received":
            self.received.append(label)
        if event.action:
            self.faults[f"{event.kind} {event.action}"] += 1

    def is_done(self) -> bool:
        """Whether all messages were received, or refused for good."""
        return len(self.received) + self.faults["arrived refuse"] >= self.count

    def lines(self) -> list[str]:
        """The report."""
        again = {label: times for label, times in self.arrivals.items() if times > 1}
        return [
            *(f"{fault}: {times}" for fault, times in sorted(self.faults.items())),
            f"sent again: {', '.join(again) or 'none'}",
            f"received: {', '.join(self.received) or 'none'}",
            f"missing: {', '.join(self.missing()) or 'none'}",
        ]

    def missing(self) -> list[str]:
        """The numbers that have not arrived."""
        return [str(number) for number in range(1, self.count + 1) if str(number) not in self.arrivals]

    def is_in_order(self) -> bool:
        """Whether the numbers that were received only rise."""
        numbers = [int(label) for label in self.received]
        return numbers == sorted(numbers)


async def main(reactor: Any, script: str, address: str = "127.0.0.1", count: str = "10") -> None:
    """Receive so many messages, and report."""
    report = Report(int(count))
    double = FaultInjectingDouble(Path(script).read_text(encoding="utf-8"), address=address, reactor=reactor)
    double.observers.append(report.note)
    double.startService()
    await double.started
    print(f"receives at {address}", flush=True)
    await double.when(lambda event: report.is_done())
    # The acknowledgement of the last message is still to be sent.
    await deferLater(reactor, 0.5)
    await double.stopService()
    print("\n".join(report.lines()), flush=True)
    if report.missing() or not report.is_in_order():
        raise SystemExit(1)


if __name__ == "__main__":
    react(main, sys.argv[1:])
