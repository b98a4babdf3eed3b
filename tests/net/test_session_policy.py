"""Session policies: which peers may open sessions, and which messages they may send."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces.session_policy import ISessionPolicy, SessionPeer
from msmq.net.session_factory import SessionFactory
from msmq.session.effects import CloseReason
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, GAMMA, establish, established, parameters, user_packet
from tests.net.test_session_hooks import Idle, broker
from tests.net.test_session_trouble import HALF_A_WINDOW, TroubleTestCase


@implementer(ISessionPolicy)
class LabelPolicy:
    """Refuses GAMMA, and messages with the label "drop".

    @ivar peers: the peers that were checked.
    @ivar answers: replaces the answers, with an error or something that is not a text.
    """

    def __init__(self) -> None:
        self.peers: list[SessionPeer] = []
        self.answers: Any = None

    def session_refusal(self, peer: SessionPeer) -> str:
        self.peers.append(peer)
        return self.answer("GAMMA is retired" if peer.identifier == GAMMA else "")

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str:
        return self.answer("the label drop is forbidden" if message.label == "drop" else "")

    def answer(self, otherwise: str) -> str:
        if isinstance(self.answers, Exception):
            raise self.answers
        answer: str = otherwise if self.answers is None else self.answers
        return answer


class Recorded(Idle):
    """A broker that stores what arrives."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.opened = 0
        self.closed: list[CloseReason] = []

    def session_opened(self, session: Any) -> None:
        self.opened += 1

    def messages_arrived(self, session: Any, messages: Any, first_recoverable: int) -> None:
        self.labels += [message.label for message in messages]

    def session_closed(self, session: Any, reason: CloseReason, unacknowledged: Any, error: Any) -> None:
        self.closed.append(reason)


class SessionPolicyTests(TroubleTestCase):
    """A queue manager BETA with a policy."""

    def setUp(self) -> None:
        super().setUp()
        self.policy = LabelPolicy()
        self.broker = Recorded()
        self.factory = SessionFactory(
            BETA,
            reactor=self.clock.reactor,
            clock=self.clock,
            broker=broker(self.broker),
            policy=self.policy,
        )

    def test_accepted(self) -> None:
        """The policy is asked about the address and the identifier of a peer, and what it accepts arrives."""
        protocol, _ = self.open()
        protocol.dataReceived(user_packet(label="keep"))
        self.assertEqual(
            self.policy.peers, [SessionPeer("127.0.0.9", ALPHA, is_initiator=False, is_encrypted=False)]
        )
        self.assertEqual((self.broker.opened, self.broker.labels), (1, ["keep"]))

    def test_refused_peer(self) -> None:
        """A refused peer learns it in the handshake, and the refusal is counted by its setting."""
        protocol = self.factory.build(is_initiator=False)
        self.connect(protocol)
        protocol.dataReceived(establish(GAMMA) + parameters())
        self.assertFalse(protocol.is_open)
        self.assertEqual(self.factory.refused["session_policy"], 1)
        self.assertEqual((self.broker.opened, self.broker.labels), (0, []))

    def test_refused_peer_that_was_dialled(self) -> None:
        """A peer that this side dials is refused when it has stated its identifier."""
        protocol = self.factory.build(is_initiator=True)
        transport = self.connect(protocol)
        protocol.dataReceived(established(BETA, GAMMA) + parameters())
        self.assertFalse(transport.connected)
        self.assertEqual((self.broker.opened, self.broker.closed), (0, [CloseReason.REFUSED]))

    def test_refused_message(self) -> None:
        """A broker that cannot refuse single messages gets nothing of the batch, and the session closes."""
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(label="keep") * (HALF_A_WINDOW - 1) + user_packet(label="drop"))
        self.assertEqual((self.broker.labels, transport.value()), ([], b""))
        self.assertFalse(transport.connected)
        self.assertEqual(self.broker.closed, [CloseReason.REFUSED])

    def test_policy_that_fails(self) -> None:
        """An error in a policy refuses, and the log has its traceback."""
        self.policy.answers = ZeroDivisionError("a mistake in a policy")
        protocol = self.factory.build(is_initiator=False)
        self.connect(protocol)
        protocol.dataReceived(establish(ALPHA) + parameters())
        self.assertFalse(protocol.is_open)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_policy_that_fails_for_many(self) -> None:
        """Each peer is refused, and the log has two tracebacks a minute."""
        self.policy.answers = ZeroDivisionError("a mistake in a policy")
        for _ in range(20):
            protocol = self.factory.build(is_initiator=False)
            self.connect(protocol)
            protocol.dataReceived(establish(ALPHA) + parameters())
            self.assertFalse(protocol.is_open)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_answer_of_another_type(self) -> None:
        """C{None}, C{True} and C{False} are not answers of a policy, and refuse: fail closed."""
        for answer in (True, False, 0, b"", ()):
            protocol, transport = self.open()
            self.policy.answers = answer
            protocol.dataReceived(user_packet(label="keep"))
            self.assertFalse(transport.connected, answer)
            self.policy.answers = None
        self.assertEqual(self.broker.labels, [])

    def test_policy_without_a_method(self) -> None:
        """An object that is not a policy is refused by name where it comes in."""
        error = self.assertRaises(LocalProtocolError, SessionFactory, BETA, policy=object())
        self.assertIn("policy is an object", str(error))
        self.assertIn("ISessionPolicy", str(error))

    def test_default_reactor_and_clock(self) -> None:
        """A factory needs neither a reactor nor a clock of its program."""
        factory = SessionFactory(BETA)
        self.assertGreater(factory.clock.now().wall, 1_000_000_000)
        self.assertTrue(hasattr(factory.reactor, "callLater"))
