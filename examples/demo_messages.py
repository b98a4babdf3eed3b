"""The messages of the demo: generation, sending, receiving, and verification."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import uuid4

import attrs

from msmq import Message, build_packet
from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.base_header import BaseHeader

QUEUE = r".\private$\orders"
PATIENCE = 20.0
"""The longest wait for the next message, in seconds."""


@attrs.frozen
class Parcel:
    """Message to send; its label is unique."""

    label: str
    priority: int
    body: bytes = attrs.field(repr=False)


@attrs.frozen
class Arrival:
    """Received message."""

    label: str
    priority: int
    size: int
    sha256: bytes = attrs.field(repr=False)


def largest_body(label: str, destination: str) -> int:
    """The size of the largest body that fits into a packet of 4 MiB after the headers of such a message.

    The offset of the body is taken from a packet with one byte.
    """
    packet = build_packet(
        Message(body=b"x", label=label),
        parse_format_name(destination),
        source=uuid4(),
        message_id=1,
        sent_time=0,
    )
    return BaseHeader.MAXIMUM_PACKET_SIZE - packet.rindex(b"x")


def make_parcels(sender: str, destination: str, count: int) -> list[Parcel]:
    """Messages of random sizes and priorities, the same in each run."""
    chance = random.Random(sender)
    largest = largest_body(f"{sender} {0:04}", destination)
    sizes = [0, 0, largest, largest - 1, largest]
    sizes += [int(2 ** chance.uniform(0, 20)) for _ in range(count - len(sizes))]
    chance.shuffle(sizes)
    return [
        Parcel(f"{sender} {number:04}", chance.randrange(8), chance.randbytes(size))
        for number, size in enumerate(sizes)
    ]


def send(client: ControlClient, destination: str, parcels: Sequence[Parcel]) -> int:
    """Send all messages in this order; return the number of accepted messages."""

    def records() -> Iterator[StreamRecord]:
        for parcel in parcels:
            properties = {"destination": destination, "label": parcel.label, "priority": parcel.priority}
            yield StreamRecord(properties, parcel.body)

    return sum(1 for _ in client.send(records()))


def receive(client: ControlClient, count: int) -> list[Arrival]:
    """Receive this number of messages, or all that arrive until a pause."""
    arrivals: list[Arrival] = []
    with client.receive(QUEUE, count=count, timeout=PATIENCE) as stream:
        for item in stream:
            match item:
                case Delivered(properties, body):
                    sha256 = hashlib.sha256(body).digest()
                    arrivals.append(Arrival(properties["label"], properties["priority"], len(body), sha256))
                case Receipt():
                    # Only now are the messages before it removed from the queue.
                    item.confirm()
    return arrivals


def broken_promises(parcels: Sequence[Parcel], arrivals: Sequence[Arrival]) -> list[str]:
    """The violations among arrived messages, as texts; empty if every guarantee was kept."""
    broken: list[str] = []
    sent = {parcel.label: parcel for parcel in parcels}
    place = {label: number for number, label in enumerate(sent)}
    times = Counter(arrival.label for arrival in arrivals)
    broken += [f"{label} never arrived" for label in sent if label not in times]
    broken += [f"{label} arrived {often} times" for label, often in times.items() if often > 1]
    broken += [f"{label} was never sent" for label in times if label not in sent]
    latest: dict[int, str] = {}
    for arrival in arrivals:
        parcel = sent.get(arrival.label)
        if parcel is None:
            continue
        if arrival.sha256 != hashlib.sha256(parcel.body).digest():
            broken.append(f"{arrival.label} arrived with another body")
        if arrival.priority != parcel.priority:
            broken.append(f"{arrival.label} arrived with priority {arrival.priority}, not {parcel.priority}")
        before = latest.get(parcel.priority)
        if before is not None and place[before] > place[arrival.label]:
            broken.append(f"{before} overtook {arrival.label} within priority {parcel.priority}")
        latest[parcel.priority] = arrival.label
    return broken
