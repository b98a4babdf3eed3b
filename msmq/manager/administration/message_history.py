"""History of one message: copies, events, hand-overs, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from msmq.decoding.values import unix_time
from msmq.interfaces.manager.received_messages import Explanation
from msmq.manager.applications.search import Search
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.peers.peer_table import Peers
from msmq.persistence.changes import ADMINISTERED, AppendEvent
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.name_text import is_outgoing_path
from msmq.structures.packet.message_class import MessageClass, class_name
from msmq.transfer.deliveries.records import NO_GUID, DeliveryRecord, DeliveryStep
from msmq.wire.guid import braced, guid_from_bytes

EVENTS_OF_STEPS: Final = {
    DeliveryStep.HANDED_OVER: "handed_over",
    DeliveryStep.ORDERED: "order_acknowledged",
    DeliveryStep.SETTLED: "final_acknowledged",
    DeliveryStep.ANSWERED: "acknowledged",
}
"""Event names of the steps of a delivery."""


class MessageHistory:
    """Joins the copies, events and delivery records of a message."""

    def __init__(self, search: Search, deliveries: DeliveryLog, peers: Peers) -> None:
        self._search = search
        self._deliveries = deliveries
        self._peers = peers

    async def explain(self, message: MessageIdentifier) -> Explanation:
        """Everything that is known of a message."""
        found = await self._search.explain(message)
        deliveries = await self._deliveries.find(message)
        steps = [_event(message, record) for record in deliveries]
        events = sorted([*found.events, *steps], key=lambda event: event.time)
        is_known = bool(events or found.places or found.unreadable or found.reports)
        return attrs.evolve(
            found,
            events=[*events, *self._peers.notices(message)],
            deliveries=deliveries,
            records_since=self._deliveries.since,
            is_known=is_known,
            summary=_summary(found, events, deliveries, self._deliveries.since),
        )


def _event(message: MessageIdentifier, record: DeliveryRecord) -> AppendEvent:
    """A step of a delivery as an event."""
    where, run = record.where, record.runs[0]
    peer = where.address or "an unknown address"
    if where.peer != NO_GUID:
        peer += f", queue manager {braced(guid_from_bytes(where.peer))}"
    number = ""
    if record.sequence:
        number = f" of sequence {record.sequence}"
        in_it = run.sequence_number
        number = f"number {in_it}{number}" if in_it else number.removeprefix(" of ")
    if record.step is DeliveryStep.HANDED_OVER:
        parts = [f"session acknowledgement of {peer}"]
        if run.number:
            opened = f", opened {unix_time(where.opened)}" if where.opened else ""
            parts.append(f"message {run.number} of the session{opened}")
        if run.sent:
            parts.append(f"sent {unix_time(run.sent)}")
    elif record.step is DeliveryStep.ORDERED:
        parts = [f"order acknowledgement of {peer}: it arrived, in order"]
    elif record.step is DeliveryStep.SETTLED:
        parts = [f"final acknowledgement {class_name(record.message_class)} of {peer}"]
    else:
        parts = [f"administration acknowledgement {class_name(record.message_class)} of {peer}"]
    if number:
        parts.append(number)
    return AppendEvent(
        record.time,
        message.to_bytes(),
        EVENTS_OF_STEPS[record.step],
        "; ".join(parts),
        record.message_class,
        where.queue,
    )


def _summary(
    found: Explanation,
    events: Sequence[AppendEvent],
    deliveries: Sequence[DeliveryRecord],
    since: float | None,
) -> str:
    """The summary of a message's history, in one sentence."""
    locations = found.places
    held = [number for number in locations if not _is_copy(number.queue)]
    if held:
        waiting = [number.queue for number in held]
        outgoing = [queue for queue in waiting if is_outgoing_path(queue)]
        if outgoing and deliveries:
            return (
                f"was handed over to {deliveries[-1].where.address}, and is kept in outgoing queue"
                f" {outgoing[0]} until it is acknowledged by its receiver"
            )
        if outgoing:
            return f"waits in outgoing queue {waiting[0]}"
        return f"is in queue {waiting[0]}"
    damaged = [each for each in found.unreadable if not _is_copy(each.queue)]
    if damaged:
        return f"is in queue {damaged[0].queue}, and cannot be read: {damaged[0].reason}"
    failures = [event for event in events if event.message_class and event.event != ADMINISTERED]
    if failures:
        last = failures[-1]
        name = class_name(last.message_class)
        if last.message_class == MessageClass.ACK_REACH_QUEUE:
            return f"reached its queue, according to {name}; whether it was received is not recorded here"
        if last.message_class == MessageClass.ACK_RECEIVE:
            return f"was received, according to {name}"
        again = [event.reason for event in events if event.event == "requeued"]
        return f"failed: {name}; was {again[-1]}" if again else f"failed: {name}"
    steps = [record for record in deliveries if record.step is DeliveryStep.HANDED_OVER]
    if any(record.step is DeliveryStep.ORDERED for record in deliveries):
        return "arrived at its queue manager, in order; its later history is recorded there"
    if steps:
        where = steps[-1].where
        return (
            f"was handed over to {where.address}, which acknowledged it {unix_time(steps[-1].time)};"
            " its later history is recorded there (msmq explain --ask)"
        )
    if events:
        return f"the last event is {events[-1].event}, {unix_time(events[-1].time)}"
    if locations:
        return f"a copy of it is in {locations[0].queue}"
    began = "there are no records of hand-overs"
    if since is not None:
        began = f"records of hand-overs begin {unix_time(since)}"
    return (
        "unknown: no copy and no record of a message with this identifier exists here;"
        f" {began}, and a message that was received from a local queue leaves none"
    )


def _is_copy(queue: str) -> bool:
    """Whether messages in a queue with this path are copies: it is a journal or a system queue."""
    return queue.startswith(".\\system$;") or queue.endswith(";journal")
