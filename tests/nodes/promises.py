"""Comparison of the guarantees given to senders with the fate of each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from msmq.queues.arriving.message import Acknowledge
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.nodes.any_network import (
    ADMIN,
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    LETTERS,
    PAYMENTS,
    Batch,
    Host,
    World,
    is_journaled,
    is_mourned,
    wish,
)

_REACHED, _RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE
_LATE = MessageClass.NACK_REACH_QUEUE_TIMEOUT
_NOWHERE = MessageClass.NACK_BAD_DST_Q
_PURGED, _TIMED_OUT = MessageClass.NACK_Q_PURGED, MessageClass.NACK_RECEIVE_TIMEOUT

_ARRIVED = {"received", "purged", "timed out"}
"""The fates of what was in its queue."""

_CLASSES = {
    "expired": _LATE,
    "late": _LATE,
    "nowhere": _NOWHERE,
    "purged": _PURGED,
    "timed out": _TIMED_OUT,
}
"""The class that a dead letter has, by the fate of its message; the first one decides."""


class Broken(Exception):
    """A promise was not kept."""


@attrs.define
class Found:
    """Contents of the queues of one host that report on messages that it sent.

    Each is listed by the numbers of the messages; acknowledgements and dead letters with their class.
    """

    acknowledgements: Counter[tuple[int, int]] = attrs.field(factory=Counter)
    journal: Counter[int] = attrs.field(factory=Counter)
    deadletter: Counter[tuple[int, int]] = attrs.field(factory=Counter)
    deadxact: Counter[tuple[int, int]] = attrs.field(factory=Counter)


class PromiseChecker:
    """Receives all remaining messages, and compares them with what should remain.

    While a store is full, copies and acknowledgements are not made, which its log records; so after a full
    store
    there may be fewer of them, but still no others.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._ids: dict[int, int] = {}
        self._seen: dict[Host, dict[str, dict[int, int]]] = {}
        self._found: dict[Host, Found] = {host: Found() for host in world.hosts}
        self._expected: dict[Host, Found] = {host: Found() for host in world.hosts}

    def check(self) -> None:
        """Hold everything against each other.

        @raise Broken: something is not as it was promised.
        """
        self._collect()
        self._events = {host: self._world.events(host) for host in self._world.hosts}
        self._check_queues()
        for batch in self._world.batches:
            self._check_batch(batch)
        for host in self._world.hosts:
            self._check_order(host)
            for name in ("acknowledgements", "journal", "deadletter", "deadxact"):
                self._compare(host, name)

    # What is there

    def _collect(self) -> None:
        world = self._world
        for host in world.hosts:
            for queue in (PAYMENTS, LETTERS):
                for _ in world.drain(host, queue):
                    pass
        world.clock.advance(300)
        for host in world.hosts:
            _check(world.was_full or not host.waiting, f"{host.name}: something never left")
            found = self._found[host]
            for view in self._drain(host, ADMIN):
                number = view.application_tag
                self._ids[number] = int.from_bytes(view.correlation_id[16:], "little")
                found.acknowledgements[number, view.message_class] += 1
            found.journal.update(view.application_tag for view in self._copies(host, JOURNAL))
            for queue, counter in ((DEADLETTER, found.deadletter), (DEADXACT, found.deadxact)):
                copies = self._copies(host, queue)
                counter.update((view.application_tag, view.message_class) for view in copies)
            self._seen[host] = {queue: self._look_at_receipts(host, queue) for queue in host.receipts}
            _check(
                world.was_full or not host.service.inspection.status().bytes, f"{host.name}: bytes of nothing"
            )

    def _drain(self, host: Host, queue: str) -> list[UserMessageView]:
        return list(self._world.drain(host, queue))

    def _copies(self, host: Host, queue: str) -> Iterable[UserMessageView]:
        """The copies of messages in a queue of the system."""
        for view in self._note(self._drain(host, queue)):
            _check_body(view)
            yield view

    def _note(self, views: Iterable[UserMessageView]) -> Iterable[UserMessageView]:
        for view in views:
            self._ids[view.application_tag] = view.message_id
            yield view

    def _look_at_receipts(self, host: Host, queue: str) -> dict[int, int]:
        """The numbers of all messages that were in this queue, by LookupIdentifier."""
        seen: dict[int, int] = {}
        received: set[int] = set()
        for receipt in host.receipts[queue]:
            for lookup_id, view in receipt.views.items():
                number = view.application_tag
                _check_body(view)
                _check(lookup_id not in received, f"{number}: received, and there again")
                _check(seen.setdefault(lookup_id, number) == number, f"{number}: in the place of another")
                list(self._note((view,)))
            if receipt.is_confirmed:
                received |= receipt.views.keys()
        twice = [number for number, count in Counter(seen.values()).items() if count > 1]
        _check(not twice, f"came twice: {twice}")
        return seen

    # What should be there

    def _check_batch(self, batch: Batch) -> None:
        for number in batch.numbers:
            if number in self._ids:
                batch.first_id = self._ids[number] - (number - batch.first)
        fates = {number: self._fates(batch, number) for number in batch.numbers}
        lost = [number for number, fate in fates.items() if not fate]
        if batch.is_confirmed is False:
            _check(len(lost) == batch.count, f"refused, but there: {fates}")
        elif batch.is_confirmed:
            _check(not lost, f"taken, but lost: {lost}")
        else:
            _check(len(lost) in (0, batch.count), f"half of a batch: {fates}")
        for number, fate in fates.items():
            if batch.reach == INFINITE:
                _check(len(fate) <= 1, f"{number}: {fate}")
            if fate:
                self._expect(batch, number, fate)

    def _fates(self, batch: Batch, number: int) -> set[str]:
        """The permitted fates of a message; more than one only if it expired in transit."""
        if batch.first_id is None:
            return set()
        identity = batch.sender.guid.bytes_le + (batch.first_id + number - batch.first).to_bytes(4, "little")
        there, here = self._events[batch.receiver], self._events[batch.sender]
        fates = set()
        for fate, events, event in (
            ("expired", here, ("expired", int(_LATE))),
            ("late", there, ("refused", int(_LATE))),
            ("nowhere", there, ("refused", int(_NOWHERE))),
            ("purged", there, ("purged", int(_PURGED))),
            ("timed out", there, ("expired", int(_TIMED_OUT))),
        ):
            count = events[(identity, *event)]
            _check(count <= 1, f"{number}: {fate} {count} times")
            if count:
                fates.add(fate)
        in_queue = self._seen[batch.receiver].get(batch.queue, {})
        lookup_ids = [lookup_id for lookup_id, seen in in_queue.items() if seen == number]
        if lookup_ids:
            [lookup_id] = lookup_ids
            states = [
                receipt.is_confirmed
                for receipt in batch.receiver.receipts[batch.queue]
                if lookup_id in receipt.views
            ]
            # A receiver that lost its power does not know; then it was received if nothing else is reported.
            if True in states or (None in states and not fates & _ARRIVED):
                fates.add("received")
            _check(bool(fates & _ARRIVED), f"{number}: was in its queue, and is nowhere")
        return fates

    def _expect(self, batch: Batch, number: int, fates: set[str]) -> None:
        wanted = wish(number)
        here = self._expected[batch.sender]
        tell = here.acknowledgements
        has_arrived = bool(fates & _ARRIVED)
        tell[number, _REACHED] += has_arrived and Acknowledge.POSITIVE_ARRIVAL in wanted
        tell[number, _RECEIVED] += "received" in fates and Acknowledge.POSITIVE_RECEIVE in wanted
        for fate, message_class, bit in (
            ("purged", _PURGED, Acknowledge.NEGATIVE_RECEIVE),
            ("timed out", _TIMED_OUT, Acknowledge.NEGATIVE_RECEIVE),
            ("expired", _LATE, Acknowledge.NEGATIVE_ARRIVAL),
            ("late", _LATE, Acknowledge.NEGATIVE_ARRIVAL),
        ):
            tell[number, message_class] += fate in fates and bit in wanted
        if batch.is_transactional:
            here.journal[number] += is_journaled(number) and fates == {"received"}
            failed = [fate for fate in _CLASSES if fate in fates]
            if is_mourned(number) and failed:
                here.deadxact[number, _CLASSES[failed[0]]] += 1
        else:
            here.journal[number] += is_journaled(number) and "expired" not in fates
            there = self._expected[batch.receiver].deadletter
            # What the receiver refuses is kept where it failed (reading 64).
            for fate, letters in (
                ("expired", here.deadletter),
                ("timed out", there),
                ("late", there),
                ("nowhere", there),
            ):
                letters[number, _CLASSES[fate]] += is_mourned(number) and fate in fates

    def _check_queues(self) -> None:
        """No message is in another queue than its own, on any host."""
        own = {
            number: (batch.receiver, batch.queue) for batch in self._world.batches for number in batch.numbers
        }
        for host, queues in self._seen.items():
            for queue, seen in queues.items():
                astray = [number for number in seen.values() if own.get(number) != (host, queue)]
                _check(not astray, f"{host.name}, {queue}: messages for another queue: {astray}")

    def _check_order(self, host: Host) -> None:
        for sender in self._world.hosts:
            sent = {n for batch in self._world.batches if batch.sender is sender for n in batch.numbers}
            arrived = [number for _, number in sorted(self._seen[host][PAYMENTS].items()) if number in sent]
            _check(arrived == sorted(arrived), f"{sender.name} to {host.name}, not in order: {arrived}")

    def _compare(self, host: Host, name: str) -> None:
        found, expected = getattr(self._found[host], name), getattr(self._expected[host], name)
        _check(not found - expected, f"{host.name}: {name} that was not requested: {found - expected}")
        missing = expected - found
        _check(self._world.was_full or not missing, f"{host.name}: {name} that are missing: {missing}")


def _check_body(view: UserMessageView) -> None:
    number = view.application_tag
    _check(bytes(view.body) == b"%06d" % number, f"{number}: has another body")


def _check(is_kept: bool, what: str) -> None:
    if not is_kept:
        raise Broken(what)
