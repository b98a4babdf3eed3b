"""Search for the senders of unreachable addresses, so that their acknowledgements can be sent (reading
60).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.manager.peers.ack_sessions import AckSessions
from msmq.manager.performer import Performer, PerformerListener
from msmq.manager.routes.next_hop import NextHop
from msmq.manager.routes.next_hops import NextHops
from msmq.manager.routes.waiting_acknowledgements import WaitingAcknowledgements
from msmq.queues.queue import MessagePosition
from msmq.structures.status import MQError


class SenderSearch:
    """Reads the addressees of acknowledgements, and dials those with another address in the directory.

    @param listener: is notified of queues from which acknowledgements may leave now.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        hops: NextHops,
        waiting: WaitingAcknowledgements,
        acks: AckSessions,
        performer: Performer,
        listener: PerformerListener,
    ) -> None:
        self._hops = hops
        self._waiting = waiting
        self._acks = acks
        self._performer = performer
        self._listener = listener

    def begin(self, hop: NextHop) -> None:
        """A next hop was not reached, or has lost its session."""
        unread = self._waiting.unread(hop)
        if unread:
            # After a restart their addressees are only in the store.
            Deferred.fromCoroutine(self._read(hop, unread)).addErrback(
                lambda failure: self.log.failure("acknowledgements could not be read", failure)
            )
        else:
            self._dial(hop)

    def _dial(self, hop: NextHop) -> None:
        now = self._performer.clock.now().wall
        self._waiting.report_requested(hop, now)
        for elsewhere in self._waiting.seek_senders(hop, now):
            if elsewhere.connector is not None:
                elsewhere.connector.connect()

    async def _read(self, hop: NextHop, unread: Sequence[MessagePosition]) -> None:
        for position in unread:
            try:
                [view] = await self._performer.load([position])
            except MQError as error:
                self.log.error("an acknowledgement could not be read: {error}", error=error)
                return
            self._acks.learn(position, view)
        if self._performer.is_stopped:
            return
        for queue in self._hops.busy(hop):
            self._listener.outgoing_ready(queue)
        self._dial(hop)
