"""Limit on outgoing queues created on behalf of peers, by the address of their answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Final, Protocol

from twisted.logger import Logger

from msmq.line_limit import LineLimit
from msmq.manager.peers.peer_table import Peers
from msmq.manager.performer import Performer
from msmq.persistence.changes import Change
from msmq.queues.outgoing import OutgoingQueue
from msmq.quoting import shown
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName
from msmq.transfer.acknowledgements import is_order_queue
from msmq.transfer.decisions.peer_queue_decision import (
    PAUSE,
    PeerQueueCheck,
    PeerQueueCounts,
    PeerQueueFacts,
    check_room,
    decide_room,
    has_too_many_names,
    is_dialled_name,
)
from msmq.wire.addresses import counted_host

LINES: Final = 1
"""Log lines in a minute about refused queues."""


class ForgottenQueueListener(Protocol):
    """Is notified of outgoing queues that are removed because they are idle."""

    def is_awaiting(self, queue: OutgoingQueue) -> bool:
        """Whether an acknowledgement is expected for messages that were sent from a queue."""

    def outgoing_forgotten(self, queue: OutgoingQueue) -> None:
        """This empty queue is about to be removed."""


class PeerQueueLimits:
    """Decides whether an outgoing queue is created for a name that a peer chose.

    The decision is L{check_room} and L{decide_room}; queues without messages are dropped first, with their
    history.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, peers: Peers, listener: ForgottenQueueListener) -> None:
        self._performer = performer
        self._peers = peers
        self._listener = listener
        self._hosts: dict[FormatName, str] = {}
        self._by_host: dict[str, dict[FormatName, None]] = {}
        self._refused: dict[str, float] = {}
        self._lines = LineLimit.a_minute(LINES)

    def make(self, name: FormatName, source: bytes, address: str | None = None) -> bool:
        """Admit an outgoing queue of this name, dropping idle ones; false if the limit is reached, which is
        logged.

        @param source: the queue manager whose message requires the queue.
        @param address: the address that the message came from, if known.
        """
        collection = self._performer.model.collection
        if collection.find_outgoing(name) is not None:
            return True
        host = counted_host(self._peers.came_from(source) if address is None else address)
        is_dialled = is_dialled_name(name, host)
        names = self._by_host.get(host, {})
        refused = self._refused.get(host)
        check = check_room(
            PeerQueueFacts(
                queues=collection.outgoing_count,
                of_host=len(names),
                is_dialled=is_dialled,
                refused_for=None if refused is None else self._performer.clock.now().monotonic - refused,
            )
        )
        if check is PeerQueueCheck.REFUSED:
            return False
        if check is PeerQueueCheck.COUNTED and not self._drop_idle(name, host, names, is_dialled=is_dialled):
            return False
        self._note(name, host)
        return True

    def is_answered(self, name: FormatName) -> bool:
        """Whether a peer chose this name: an order queue, or a name passed to L{make}."""
        return name in self._hosts or is_order_queue(name)

    def _drop_idle(
        self, name: FormatName, host: str, names: Collection[FormatName], *, is_dialled: bool
    ) -> bool:
        """Count the queues, and drop idle ones if this name can then have one."""
        model = self._performer.model
        queues = list(model.outgoing_queues())
        idle = [queue for queue in queues if self._is_idle(queue)]
        # Those first that no message has been for since the last check of idle queues.
        idle.sort(key=lambda queue: queue.idle_since is None)
        found = (model.collection.find_outgoing(each) for each in names)
        busy = [queue.destination for queue in found if queue is not None and queue.positions]
        excess = decide_room(
            PeerQueueCounts(
                queues=len(queues),
                idle=len(idle),
                busy_of_host=len(busy),
                dialled_of_host=sum(isinstance(each, DirectFormatName) for each in busy),
                is_dialled=is_dialled,
            )
        )
        if excess is None:
            self._refuse(name, host, len(busy))
            return False
        self._refused.pop(host, None)
        changes = [change for queue in idle[:excess] for change in self.remove(queue)]
        self._performer.commit_later(changes, "the removal of idle outgoing queues")
        return True

    def _is_idle(self, queue: OutgoingQueue) -> bool:
        return not queue.positions and not queue.users and not self._listener.is_awaiting(queue)

    def remove(self, queue: OutgoingQueue) -> Sequence[Change]:
        """Remove an empty outgoing queue.

        @return: the changes that remove it from the store. They have to be committed in this iteration of the
            reactor, and once: later a queue of the same name may be stored.
        @raise MQError: MQ_ERROR_ILLEGAL_OPERATION if it is not empty.
        """
        self._listener.outgoing_forgotten(queue)
        deletion = self._performer.model.delete_queue(queue)
        self._performer.perform(deletion.effects)
        self._lose(queue.destination)
        return deletion.changes

    def _refuse(self, name: FormatName, host: str, busy: int) -> None:
        now = self._performer.clock.now()
        self._refused = {each: when for each, when in self._refused.items() if now.monotonic - when < PAUSE}
        self._refused[host] = now.monotonic
        if (others := self._lines.take(now)) is not None:
            self.log.warn(
                "nothing is sent to {name}: the limit on outgoing queues is reached, {busy} of them with "
                "pending messages on behalf of {host}{others}",
                name=shown(str(name)),
                busy=busy,
                host=host or "an unknown host",
                others=others,
            )

    def _note(self, name: FormatName, host: str) -> None:
        self._lose(name)
        self._hosts[name] = host
        self._by_host.setdefault(host, {})[name] = None
        if has_too_many_names(len(self._hosts)):
            # For some of them no queue was created.
            find = self._performer.model.collection.find_outgoing
            for each in [each for each in self._hosts if find(each) is None]:
                self._lose(each)

    def _lose(self, name: FormatName) -> None:
        host = self._hosts.pop(name, None)
        if host is not None:
            names = self._by_host[host]
            del names[name]
            if not names:
                del self._by_host[host]
