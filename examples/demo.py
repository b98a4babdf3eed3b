"""Two queue managers exchange two thousand messages, one of them is killed, and nothing is lost.

C{make demo} runs this.  It starts ALPHA on 127.0.0.2 and BETA on 127.0.0.3 (or on two other addresses that
are given as arguments), both on port 1801, sends 500 express messages each way at the same time, and ends
with status 0 only if every guarantee was kept:

  - each message arrives exactly once, with the body that was sent, compared by SHA-256;
  - within a priority, messages arrive in the order in which they were sent;
  - the largest body that fits is delivered, and one byte more is refused;
  - no message is left in any queue of either side;
  - the witness, a proxy that counts the packets between them, counts as many of each kind as both
    servers say.

Then ALPHA sends 500 recoverable and 500 transactional messages to BETA, which is killed with SIGKILL in the
middle and started again: each of them arrives exactly once, and in order.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import demo_crash
from demo_messages import QUEUE, Arrival, Parcel, broken_promises, largest_body, make_parcels, receive, send
from demo_servers import QueueManager, ServerFailed, queue_manager
from demo_witness import Witness

from msmq import MQError, Status

ADDRESSES = ("127.0.0.2", "127.0.0.3")
COUNT = 500
ACKNOWLEDGEMENT_TIMEOUT = 25.0
"""A peer may hold its last acknowledgement back for 10 seconds, half the time that a sender waits for it."""


@attrs.frozen(eq=False)
class Way:
    """One direction: its sender, its receiver and their queues."""

    sender: QueueManager
    receiver: QueueManager
    parcels: Sequence[Parcel] = attrs.field(repr=False)

    @property
    def destination(self) -> str:
        """The queue of the receiver, as the sender names it."""
        return destination(self.receiver.address)

    def __str__(self) -> str:
        return f"{self.sender.name} -> {self.receiver.name}"


def destination(address: str) -> str:
    """The direct format name of the queue at an address."""
    return rf"DIRECT=TCP:{address}\private$\orders"


def exchange(ways: Sequence[Way], threads: ThreadPoolExecutor) -> list[list[Arrival]]:
    """Send and receive everything in both directions at once; return the arrivals by direction."""
    arriving = [threads.submit(receive, way.receiver.client, len(way.parcels)) for way in ways]
    leaving = [threads.submit(send, way.sender.client, way.destination, way.parcels) for way in ways]
    for sending in leaving:
        sending.result()
    return [receiving.result() for receiving in arriving]


def wait_for_acknowledgements(ways: Sequence[Way]) -> list[str]:
    """Wait until no outgoing queue holds a message; return those that still do after the time-out."""
    deadline = time.monotonic() + ACKNOWLEDGEMENT_TIMEOUT
    while True:
        waiting = {way: sum(queue["messages"] for queue in way.sender.client.outgoing()) for way in ways}
        if not any(waiting.values()) or time.monotonic() > deadline:
            return [f"{way}: {count} messages never acknowledged" for way, count in waiting.items() if count]
        time.sleep(0.1)


def left_behind(way: Way) -> list[str]:
    """Messages that are in the queue although everything was received."""
    count = way.receiver.client.queue(QUEUE)["messages"]
    return [f"{way}: {count} messages more than were sent"] if count else []


def too_large_is_refused(way: Way) -> list[str]:
    """Check that a body of one byte more than the maximum is refused."""
    label = way.parcels[0].label
    body = bytes(largest_body(label, way.destination) + 1)
    try:
        send(way.sender.client, way.destination, [Parcel(label, 3, body)])
    except MQError as error:
        if error.status is Status.MQ_ERROR_INSUFFICIENT_RESOURCES:
            return []
        return [f"{way}: a body of {len(body)} bytes was refused, but with {error}"]
    return [f"{way}: a body of {len(body)} bytes was taken, which no packet can hold"]


def show_arrivals(way: Way, arrivals: Sequence[Arrival]) -> None:
    """Print the messages that arrived, in order."""
    sizes = [arrival.size for arrival in arrivals]
    print(
        f"\n{way}: {len(arrivals)} messages, {sum(sizes):,} bytes,"
        f" bodies from {min(sizes, default=0):,} to {max(sizes, default=0):,} bytes"
    )
    for priority in range(7, -1, -1):
        labels = [arrival.label for arrival in arrivals if arrival.priority == priority]
        if labels:
            # The number in a label has leading zeros.
            order = "in the order of sending" if labels == sorted(labels) else "OUT OF ORDER"
            print(f"  priority {priority}: {len(labels):3} messages {order}, {labels[0]} to {labels[-1]}")


def check_arrivals(ways: Sequence[Way], arrivals: Sequence[Sequence[Arrival]]) -> list[str]:
    """Print the messages that arrived, and return the violated guarantees."""
    broken: list[str] = []
    for way, arrived in zip(ways, arrivals, strict=True):
        show_arrivals(way, arrived)
        broken += [f"{way}: {problem}" for problem in broken_promises(way.parcels, arrived)]
        broken += too_large_is_refused(way)
    times = Counter(arrival.label for arrived in arrivals for arrival in arrived)
    print()
    for often, messages in sorted(Counter(times.values()).items()):
        print(f"{messages} messages arrived {'once' if often == 1 else f'{often} times'}.")
    return broken


def compare_packets(way: Way, seen: Mapping[str, int]) -> list[str]:
    """Print the number of packets by kind, and return the differences between the witness and the servers."""
    sent = way.sender.client.status()["packets"]["sent"]
    received = way.receiver.client.status()["packets"]["received"]
    print(f"\npackets {way!s:<15} {'witness':>9} {'sent':>9} {'received':>9}")
    broken: list[str] = []
    for kind in [*sent, *(kind for kind in seen if kind not in sent)]:
        counts = (seen.get(kind, 0), sent.get(kind, 0), received.get(kind, 0))
        print(f"  {kind:<21} {counts[0]:>9,} {counts[1]:>9,} {counts[2]:>9,}")
        if len(set(counts)) != 1:
            broken.append(
                f"{way}: the witness saw {counts[0]} packets of kind {kind}, "
                f"{way.sender.name} sent {counts[1]} and {way.receiver.name} received {counts[2]}"
            )
    return broken


def run(directory: Path, here: str, there: str) -> list[str]:
    """Run all steps between two addresses, and return the violated guarantees."""
    with (
        Witness() as witness,
        ThreadPoolExecutor() as threads,
        queue_manager("ALPHA", here, {there: witness.tap(here, there)}, directory) as alpha,
        queue_manager("BETA", there, {here: witness.tap(there, here)}, directory) as beta,
    ):
        ways = []
        for sender, receiver in ((alpha, beta), (beta, alpha)):
            receiver.client.create_queue(QUEUE, {})
            parcels = make_parcels(sender.name, destination(receiver.address), COUNT)
            ways.append(Way(sender, receiver, parcels))
        print(
            f"{alpha.name} on {alpha.address} and {beta.name} on {beta.address} run; "
            f"{COUNT} messages leave each for the other."
        )
        started = time.monotonic()
        arrivals = exchange(ways, threads)
        duration = time.monotonic() - started
        broken = check_arrivals(ways, arrivals)
        print(f"\nThe exchange took {duration:.1f} s.  Waiting for the last acknowledgements ...", flush=True)
        broken += wait_for_acknowledgements(ways)
        for way in ways:
            broken += left_behind(way)
            broken += compare_packets(way, witness.seen[way.sender.address, way.receiver.address])
        broken += demo_crash.run(alpha, beta, threads)
        print("\nWaiting for the last acknowledgements ...", flush=True)
        broken += wait_for_acknowledgements(ways[:1])
        return broken


def main(arguments: Sequence[str]) -> int:
    """Run the demo, print its result, and return the exit status."""
    if len(arguments) not in (0, 2):
        print("usage: demo.py [ADDRESS ADDRESS]", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="msmq-demo-") as directory:
            broken = run(Path(directory), *(arguments or ADDRESSES))
    except (ServerFailed, MQError, OSError) as error:
        broken = [str(error)]
    except KeyboardInterrupt:
        broken = ["interrupted"]
    for problem in broken:
        print(f"demo: {problem}", file=sys.stderr)
    if not broken:
        print(f"\nEvery promise held.  The demo took {time.monotonic() - started:.1f} s.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
