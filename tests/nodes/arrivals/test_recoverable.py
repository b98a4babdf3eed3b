"""Recoverable and transactional messages, without a durable store and with one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA, establish, parameters, user_packet
from tests.nodes.support import Node, NodesTestCase
from tests.session.support import acks

HANDSHAKE = 572 + 32
"""Bytes with which an acceptor answers a handshake."""

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
RECOVERABLE = Message(body=b"r", delivery=Delivery.RECOVERABLE)
TRANSACTIONAL = Message(body=b"t", transactional=True)


class WithoutDurableStoreTests(NodesTestCase):
    """The store in memory, which keeps nothing over a restart."""

    def test_sending_is_refused(self) -> None:
        """A guarantee that cannot be kept is refused, for any destination."""
        here = self.queue(self.alpha, "here")
        for message in (RECOVERABLE, TRANSACTIONAL):
            for destination in (here, TO_BETA):
                sending = self.deferred(self.alpha.service.send(destination, [message]))
                failure = self.failureResultOf(sending, MQError)
                self.assertEqual(failure.value.status, Status.MQ_ERROR_UNSUPPORTED_OPERATION)
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)

    def test_one_that_arrives_closes_its_session_unacknowledged(self) -> None:
        """Its sender keeps it; what came before it was delivered, and what happened is counted."""
        path = self.queue(self.beta)
        peer = self.network.host("127.0.0.9")
        packets = (
            establish(ALPHA),
            parameters(window_size=2),
            user_packet(b"express"),
            user_packet(b"keep me", recoverable=True),
        )
        written = self.converse(peer, b"".join(packets))
        self.assertEqual(acks(written[HANDSHAKE:]), [(1, 0, 0, 0, 0, 64)])
        self.assertEqual(self.bodies(self.beta, path), [b"express"])
        self.assertEqual(self.beta.service.inspection.status().refused, {"UNSUPPORTED_RECOVERABLE": 1})
        self.assertEqual(self.beta.service.inspection.sessions(), [])


class DurableStoreTests(NodesTestCase):
    """A store that keeps what was committed."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def test_recoverable_messages_are_stored_and_acknowledged(self) -> None:
        """They arrive, in order, and their sender forgets them once they are named as stored."""
        path = self.queue(self.beta)
        messages = [Message(body=b"%d" % n, delivery=Delivery.RECOVERABLE) for n in range(200)]
        self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(5)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 0)
        self.assertEqual(self.bodies(self.beta, path), [b"%d" % n for n in range(200)])
        [session] = self.beta.service.inspection.sessions()
        self.assertEqual(session.statistics.recoverable_received, 200)

    def test_an_acknowledgement_names_what_is_stored(self) -> None:
        """The SessionAck names each recoverable message once it is in the store."""
        self.queue(self.beta)
        packets = (
            establish(ALPHA, BETA),
            parameters(window_size=2),
            user_packet(b"r", recoverable=True),
        )
        written = self.converse(self.network.host("127.0.0.9"), b"".join(packets))
        counted, named = (1, 0, 0, 0, 0, 64), (1, 1, 1, 0, 0, 64)
        self.assertEqual(acks(written[HANDSHAKE:]), [counted, named])

    def test_a_transactional_queue_takes_no_others(self) -> None:
        """A recoverable message is not one of a transaction."""
        path = self.queue(self.beta, transactional=True)
        sending = self.deferred(self.beta.service.send(path, [RECOVERABLE]))
        failure = self.failureResultOf(sending, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_TRANSACTION_USAGE)
