"""Limit on outgoing queues created on behalf of peers, by the address of their answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Final, Protocol

from twisted.logger import Logger

from msmq.line_limit import LineLimit
from msmq.manager.peers.peer_table import Peers
from msmq.manager.performer import Performer
from msmq.queues.outgoing import OutgoingQueue
from msmq.quoting import shown
from msmq.structures.internal.order_queue import ORDER_QUEUE_NUMBER, ORDER_QUEUE_PATH
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName, PrivateFormatName
from msmq.wire.addresses import counted_host

MOST_OUTGOING_QUEUES = 10_000
"""Outgoing queues beyond which none is made for a name that came from outside, until an idle one can go."""

MOST_DIALLED_FOR_A_HOST = 1000
"""Direct names among them in which something waits because of what came from one host."""

MARGIN: Final = 100
"""Once it is crowded, this part of all queues is forgotten together, if nothing waits in them."""

PAUSE: Final = 0.1
"""Seconds for which a host that was refused is not looked at again."""

LINES: Final = 1
"""Lines of the log in a second about queues that are not made."""


class ForgottenQueueListener(Protocol):
    """Is notified of outgoing queues that are forgotten to make room for others."""

    def outgoing_forgotten(self, queue: OutgoingQueue) -> None:
        """This queue, in which nothing waits, is about to go."""


class AnswerLimits:
    """Decides whether an outgoing queue is created for a name that a peer chose.

    Such names are those of administration and report queues, of the sender of a transactional message, and of
    the next receiver of a forwarded message. Each causes connections or look-ups, so one host cannot use all
    of them: its queues with pending messages never exceed the number left for others, and those with direct
    names, which may be any address, are limited further. Queues without messages are dropped first, with
    their history.
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
        """Make room for an outgoing queue of this name; false if the limit is reached, which is logged.

        @param source: the queue manager that sent the message because of which it would be made.
        @param address: where that came from, if it is known better than by C{source}.
        """
        collection = self._performer.model.collection
        if collection.find_outgoing(name) is not None:
            return True
        host = counted_host(self._peers.came_from(source) if address is None else address)
        names = self._by_host.get(host, {})
        is_scarce = collection.outgoing_count + len(names) >= MOST_OUTGOING_QUEUES
        is_dialled_much = _is_dialled(name, host) and len(names) >= MOST_DIALLED_FOR_A_HOST
        if (is_scarce or is_dialled_much) and not self._look(name, host, names):
            return False
        self._note(name, host)
        return True

    def is_answered(self, name: FormatName) -> bool:
        """Whether a peer chose this name: an order queue, or a name that L{make} was asked for."""
        return name in self._hosts or _is_order_queue(name)

    def _look(self, name: FormatName, host: str, names: Collection[FormatName]) -> bool:
        """Whether there is room if idle queues go; those go that have to."""
        now = self._performer.clock.now()
        refused = self._refused.get(host)
        if refused is not None and now.monotonic - refused < PAUSE:
            return False
        model = self._performer.model
        queues = list(model.outgoing_queues())
        idle = [queue for queue in queues if not queue.positions and not queue.users]
        found = (model.collection.find_outgoing(each) for each in names)
        busy = [queue.destination for queue in found if queue is not None and queue.positions]
        free = MOST_OUTGOING_QUEUES - (len(queues) - len(idle))
        dialled = sum(isinstance(each, DirectFormatName) for each in busy)
        is_dialled_much = _is_dialled(name, host) and dialled >= MOST_DIALLED_FOR_A_HOST
        if free <= 0 or len(busy) > free or is_dialled_much:
            self._refuse(name, host, len(busy))
            return False
        self._refused.pop(host, None)
        # Somewhat more than have to go, so that it is not looked for each one.
        excess = max(len(queues) + 1 - MOST_OUTGOING_QUEUES, MOST_OUTGOING_QUEUES // MARGIN)
        for queue in idle[:excess]:
            self._listener.outgoing_forgotten(queue)
            self._performer.perform(model.delete_queue(queue).effects)
            self._lose(queue.destination)
        return True

    def _refuse(self, name: FormatName, host: str, busy: int) -> None:
        now = self._performer.clock.now()
        self._refused = {each: when for each, when in self._refused.items() if now.monotonic - when < PAUSE}
        self._refused[host] = now.monotonic
        if (others := self._lines.take(now)) is not None:
            self.log.warn(
                "nothing is sent to {name}: there are too many outgoing queues, in {busy} of which something "
                "waits because of what came from {host}{others}",
                name=shown(str(name)),
                busy=busy,
                host=host or "who is not known any more",
                others=others,
            )

    def _note(self, name: FormatName, host: str) -> None:
        self._lose(name)
        self._hosts[name] = host
        self._by_host.setdefault(host, {})[name] = None
        if len(self._hosts) > 2 * MOST_OUTGOING_QUEUES:
            # Of some no queue was made in the end.
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


def _is_dialled(name: FormatName, host: str) -> bool:
    """Whether a name contains the address to connect to, and its sender is known."""
    return bool(host) and isinstance(name, DirectFormatName)


def _is_order_queue(name: FormatName) -> bool:
    """Whether FinalAcks and OrderAcks go to this name ([MS-MQQB] 3.1.7.2)."""
    if isinstance(name, PrivateFormatName):
        return name.number == ORDER_QUEUE_NUMBER
    return isinstance(name, DirectFormatName) and str(name).lower().endswith(ORDER_QUEUE_PATH.lower())
