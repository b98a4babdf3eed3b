"""The second part of the demo: recoverable and transactional messages, while their receiver is killed.

Recoverable and transactional messages are sent by ALPHA while BETA is killed with SIGKILL and started again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from demo_servers import QueueManager

from msmq.control.client.client import Delivered, Receipt
from msmq.control.protocol.records import StreamRecord

LETTERS = r".\private$\letters"
PAYMENTS = r".\private$\payments"
COUNT = 500
TOGETHER = 5
"""Messages in one transaction, and in one call that sends recoverable ones."""
PAUSE = 0.01
"""Seconds between two such calls."""
PATIENCE = 60.0
"""The longest wait for the next message, in seconds: senders try a dead receiver again now and then."""


def run(sender: QueueManager, receiver: QueueManager, threads: ThreadPoolExecutor) -> list[str]:
    """Send both kinds, kill the receiver in the middle, and return the violated guarantees."""
    receiver.client.create_queue(LETTERS, {})
    receiver.client.create_queue(PAYMENTS, {"transactional": True})
    print(
        f"\n{COUNT} recoverable and {COUNT} transactional messages leave {sender.name} for"
        f" {receiver.name}, which is killed in the middle."
    )
    sending = [
        threads.submit(_send, sender, receiver, LETTERS, {"delivery": "recoverable"}),
        threads.submit(_send, sender, receiver, PAYMENTS, {"transactional": True}),
    ]
    while _taken(receiver) < COUNT // 2:
        time.sleep(0.01)
    receiver.kill()
    print(f"{receiver.name} was killed with SIGKILL, and is started again.", flush=True)
    receiver.start()
    for each in sending:
        each.result()
    broken: list[str] = []
    for queue, name in ((LETTERS, "recoverable"), (PAYMENTS, "transactional")):
        labels = _receive(receiver, queue)
        broken += judge(labels, name)
        in_order = "in the order of sending" if labels == sorted(labels) else "OUT OF ORDER"
        print(f"  {name}: {len(labels)} messages, {len(set(labels))} of them different, {in_order}")
    return broken


def judge(labels: Sequence[str], name: str) -> list[str]:
    """The violations among arrived messages: each has to be there once, and in order."""
    broken = []
    expected = [_label(number) for number in range(COUNT)]
    times = Counter(labels)
    missing = [label for label in expected if label not in times]
    if missing:
        broken.append(f"{len(missing)} {name} messages never arrived, {missing[0]} the first of them")
    twice = [label for label, often in times.items() if often > 1]
    if twice:
        broken.append(f"{len(twice)} {name} messages arrived more than once, {twice[0]} the first of them")
    if not broken and list(labels) != expected:
        broken.append(f"{name} messages arrived out of order")
    return broken


def _label(number: int) -> str:
    return f"{number:04}"


def _send(sender: QueueManager, receiver: QueueManager, queue: str, properties: dict[str, object]) -> None:
    """Send a few messages at a time, so that the kill falls into the transfer."""
    destination = rf"DIRECT=TCP:{receiver.address}\{queue[2:]}"

    def records(first: int) -> Iterator[StreamRecord]:
        for number in range(first, first + TOGETHER):
            yield StreamRecord({"destination": destination, "label": _label(number), **properties}, b"")

    for first in range(0, COUNT, TOGETHER):
        for _ in sender.client.send(records(first)):
            pass
        time.sleep(PAUSE)


def _taken(receiver: QueueManager) -> int:
    """The number of messages in both queues."""
    return sum(int(receiver.client.queue(queue)["messages"]) for queue in (LETTERS, PAYMENTS))


def _receive(receiver: QueueManager, queue: str) -> list[str]:
    """The labels of all messages that arrived, with a short wait for duplicates."""
    labels: list[str] = []
    for count, timeout in ((COUNT, PATIENCE), (COUNT, 0.0)):
        if timeout == 0.0 and not receiver.client.queue(queue)["messages"]:
            break
        with receiver.client.receive(queue, count=count, timeout=timeout) as stream:
            for item in stream:
                match item:
                    case Delivered(properties, _):
                        labels.append(properties["label"])
                    case Receipt():
                        item.confirm()
    return labels
