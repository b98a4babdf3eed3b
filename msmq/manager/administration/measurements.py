"""Measurements of a queue manager, for metrics and status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from msmq.interfaces.manager.summaries import DirectoryStatus
from msmq.manager.administration.summaries import queue_path
from msmq.manager.assembly.parts import Parts
from msmq.manager.membership.directory_health import DirectoryMeasurement
from msmq.manager.peers.awaited_destinations import AwaitingMessages
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.session.connection_limits import ConnectionRefusal
from msmq.session.descriptor_shares import DescriptorUse
from msmq.session.packet_counts import TrafficCounts
from msmq.session.state import SessionState
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.message_class import MessageClass

NAMED_OUTGOING: Final = 1000
"""Outgoing queues that are measured one by one; the others of each state are measured together."""

TRANSIT: Final = "transit"
"""Label for all outgoing queues with messages of other queue managers."""

ANSWERS: Final = "answers"
"""Label for all outgoing queues whose names peers chose: administration and order queues."""

OTHERS: Final = "others"
"""Label for the outgoing queues beyond L{NAMED_OUTGOING}."""

NEGATIVE_CLASSES: Final = tuple(each.name for each in MessageClass if each.name.startswith("NACK_"))
"""Why a message was refused or became a dead letter; each is counted from 0 on."""

EXPIRY_CLASSES: Final = ("NACK_REACH_QUEUE_TIMEOUT", "NACK_RECEIVE_TIMEOUT")
"""Which of the two time limits of a message has expired."""


@attrs.frozen
class QueueMeasurement:
    """One local queue.

    @ivar path: C{.\\private$\\orders}.
    @ivar oldest: when the oldest message arrived, in seconds since 1970-01-01 UTC; C{None} without one.
    @ivar arrived: messages that arrived in it since the process began.
    @ivar received: messages that were received from it since then.
    @ivar poisoned: messages that were moved to its subqueue C{poison} since then.
    @ivar quota_used: the used part of its quota, 1.0 for all of it; C{None} without a quota.
    @ivar is_paused: an operator has paused it for its readers.
    """

    path: str
    messages: int
    bytes: int
    oldest: float | None
    subqueue_messages: int
    journal_messages: int
    journal_bytes: int
    arrived: int
    received: int
    poisoned: int
    quota_used: float | None
    is_paused: bool


@attrs.define
class OutgoingMeasurement:
    """One outgoing queue, or several that are measured together.

    @ivar queue: its format name, or L{TRANSIT}, L{ANSWERS}, L{OTHERS}.
    @ivar unacknowledged: messages that were sent and not acknowledged.
    @ivar awaiting_final_acks: messages that have arrived and wait for their FinalAck.
    """

    queue: str
    state: str
    messages: int = 0
    bytes: int = 0
    unacknowledged: int = 0
    awaiting_final_acks: int = 0


@attrs.frozen
class StorageMeasurement:
    """Use and quota of all queues together.

    @ivar quota: bytes; C{None} without a limit.
    @ivar throttled: the store is full, and no message is accepted.
    """

    used: int
    quota: int | None
    journal_used: int
    journal_quota: int | None
    express_memory: int
    throttled: bool


class Measurements:
    """Reads the current measurements of one queue manager.

    No method waits or queries the store.
    Counters begin with the process and never fall.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def is_running(self) -> bool:
        """Whether the queue manager is open: before L{open} and after it has stopped there are no
        measurements.
        """
        return not self._parts.core.performer.is_stopped

    @property
    def is_offline(self) -> bool:
        """Whether sessions are refused, because an application took it offline or because it is hardened."""
        return self._parts.core.sessions.is_offline

    @property
    def clone_suspicion(self) -> str:
        """Why this queue manager may be a clone, and sends nothing; empty if it is none."""
        return self._parts.transfer.outgoing_holds.suspicion

    def now(self) -> float:
        """The time, in seconds since 1970-01-01 UTC."""
        return self._parts.core.runtime.clock.now().wall

    def local_queues(self) -> list[Queue]:
        """Every queue that L{queue} measures: the system queues, then those of applications."""
        return [*self._parts.core.model.names.system_queues(), *self._parts.core.model.queues()]

    def queue(self, queue: Queue) -> QueueMeasurement:
        """One of L{local_queues}; messages of open transactions count in their destination."""
        journal, quota = queue.journal, queue.quota_bytes
        held = queue.total_bytes + queue.subqueue_bytes
        return QueueMeasurement(
            queue_path(queue),
            queue.message_count,
            queue.total_bytes,
            queue.oldest_arrival,
            sum(subqueue.message_count for subqueue in queue.subqueues.values()),
            0 if journal is None else journal.message_count,
            0 if journal is None else journal.total_bytes,
            queue.arrived_count,
            queue.received_count,
            self._parts.applications.transactions.poisoned[queue_path(queue)],
            None if quota is None else held / quota if quota else 1.0,
            queue.is_paused,
        )

    def outgoing(self) -> list[OutgoingMeasurement]:
        """The outgoing queues, in a number of entries that peers cannot increase.

        Those of applications have an entry each, up to L{NAMED_OUTGOING}; the others share an entry for each
        state under L{TRANSIT}, L{ANSWERS} or L{OTHERS}.
        """
        named: list[OutgoingMeasurement] = []
        shared: dict[tuple[str, str], OutgoingMeasurement] = {}
        for queue in self._parts.core.model.outgoing_queues():
            name, state = self._name(queue), queue.state.value
            if not name and len(named) < NAMED_OUTGOING:
                measured = OutgoingMeasurement(str(queue.destination), state)
                named.append(measured)
            else:
                name = name or OTHERS
                measured = shared.setdefault((name, state), OutgoingMeasurement(name, state))
            measured.messages += queue.message_count
            measured.bytes += queue.total_bytes
            measured.unacknowledged += queue.message_count - queue.available_count
            measured.awaiting_final_acks += self._parts.outgoing.sequences.awaited.count(queue.destination)
        return [*named, *shared.values()]

    def _name(self, queue: OutgoingQueue) -> str:
        if queue.is_transit:
            return TRANSIT
        return ANSWERS if self._parts.outgoing.peer_queues.is_answered(queue.destination) else ""

    def awaiting_final_acks(self) -> AwaitingMessages:
        """Messages of all outgoing queues that have arrived and wait for their FinalAck."""
        return self._parts.outgoing.sequences.awaited.all()

    def dead_letters(self) -> Mapping[str, int]:
        """Messages in each of the two dead-letter queues, by their paths."""
        model = self._parts.core.model
        queues = (model.system_queue(each) for each in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT))
        return {queue_path(queue): queue.message_count for queue in queues}

    def dead_letter_counts(self) -> Mapping[str, int]:
        """Messages that were put into a dead-letter queue, by the name of their class."""
        counts = Counter(dict.fromkeys(NEGATIVE_CLASSES, 0))
        for number, n in self._parts.core.model.dead_letter_counts.items():
            counts[_class_name(number)] += n
        return counts

    def sessions(self) -> Mapping[tuple[str, str], int]:
        """Sessions by direction (C{incoming}, C{outgoing}) and state; every pair is included."""
        found = {
            (direction, state.value): 0 for direction in ("incoming", "outgoing") for state in SessionState
        }
        for session in self._parts.core.sessions.connections:
            found["outgoing" if session.is_initiator else "incoming", session.state.value] += 1
        return found

    @property
    def packets(self) -> TrafficCounts:
        """Packets that all sessions have sent and received, ended ones included."""
        return self._parts.core.sessions.counts

    def acknowledgements(self) -> Mapping[str, int]:
        """Acknowledgements that were sent: C{session}, C{order}, C{final}, C{administration}."""
        made = self._parts.outgoing.outbox.acknowledgements
        return {
            "session": self.packets.sent.session_ack,
            **{kind: made[kind] for kind in ("order", "final", "administration")},
        }

    def refused_messages(self) -> Mapping[str, int]:
        """Messages of peers that were not accepted, by reason."""
        return {**dict.fromkeys(NEGATIVE_CLASSES, 0), **self._parts.transfer.messages.arrivals.refused}

    def refused_sessions(self) -> Mapping[str, int]:
        """Connections that did not become sessions, by the limit or setting."""
        refused = {refusal.value: 0 for refusal in ConnectionRefusal}
        return {**refused, **self._parts.core.sessions.refused}

    @property
    def descriptors(self) -> DescriptorUse:
        """Connections and their limits."""
        return self._parts.core.sessions.descriptors

    def expired(self) -> Mapping[str, int]:
        """Messages that were not received or delivered in time, by class."""
        return {**dict.fromkeys(EXPIRY_CLASSES, 0), **self._parts.outgoing.departures.expired}

    def events(self) -> Mapping[str, int]:
        """Events for the event log, by name, stored or not."""
        return self._parts.core.events.totals()

    @property
    def events_dropped(self) -> int:
        """Events that were not stored."""
        return self._parts.core.events.dropped

    @property
    def copies_dropped(self) -> int:
        """Journal copies and dead letters that were not kept for lack of space."""
        return self._parts.core.model.copying.dropped

    @property
    def transactions(self) -> int:
        """Transactions that have not ended."""
        return sum(1 for _ in self._parts.core.model.transacting.transactions)

    def storage(self) -> StorageMeasurement:
        """The quotas of the queue manager."""
        storage = self._parts.core.model.storage
        return StorageMeasurement(
            storage.used,
            storage.limit,
            storage.journaled,
            storage.journal_limit,
            storage.express,
            storage.throttled,
        )

    def directory(self) -> DirectoryMeasurement | None:
        """The directory; C{None} in workgroup mode."""
        integration = self._parts.integration
        return None if integration is None else integration.health.measure()

    def directory_status(self) -> DirectoryStatus | None:
        """The value of L{ManagerStatus.directory}."""
        integration = self._parts.integration
        return None if integration is None else integration.health.status

    def directory_differences(self) -> Sequence[str]:
        """Changes in the directory that this queue manager does not apply, as C{msmq status} shows them."""
        return () if self._parts.integration is None else self._parts.directory.divergences.described()


def _class_name(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return "OTHER"
