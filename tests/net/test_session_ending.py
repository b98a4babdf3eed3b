"""Sessions that end while a slow hook is at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from msmq.errors import RemoteProtocolError
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.effects import CloseReason
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA, user_packet
from tests.net.test_session_hooks import Idle, broker
from tests.net.test_session_trouble import TroubleTestCase
from tests.shares import SHARES


class EndingTests(TroubleTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.gate: Deferred[None] = Deferred()
        self.events: list[str] = []
        self.cancels = self.raises = self.fails = self.closes = False
        case = self

        class Slow(SessionProtocol):
            async def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> None:
                if case.closes:
                    self.close()
                try:
                    await case.gate
                    case.events.append("stored")
                except CancelledError:
                    case.events.append("given up")
                    if case.raises:
                        raise

            def session_ending(self, reason: CloseReason) -> None:
                case.events.append(f"ending, {reason.name}")
                if case.cancels:
                    case.gate.cancel()

            def room_for_messages(self) -> None:
                if case.fails:
                    raise RuntimeError("another hook failed")

            def session_closed(
                self,
                reason: CloseReason,
                unacknowledged: Sequence[OutgoingMessage],
                error: RemoteProtocolError | None,
            ) -> None:
                case.events.append(f"closed, {reason.name}")

        self.use(Slow)
        self.protocol, self.transport = self.open()

    def arrive(self) -> None:
        """A message, for which the hook begins its work."""
        self.protocol.dataReceived(user_packet(recoverable=True))
        self.assertTrue(self.protocol.is_suspended)

    def test_a_connection_that_is_lost(self) -> None:
        """The hook gets it at once, and the session is closed when the hook has ended."""
        self.arrive()
        self.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.events, ["ending, CONNECTION_LOST"])
        self.gate.callback(None)
        self.assertEqual(self.events[1:], ["stored", "closed, CONNECTION_LOST"])

    def test_a_hook_that_stops_its_work(self) -> None:
        """What it waits for can be cancelled."""
        self.cancels = True
        self.arrive()
        self.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.events, ["ending, CONNECTION_LOST", "given up", "closed, CONNECTION_LOST"])
        self.assertFalse(self.protocol.is_suspended)

    def test_a_hook_that_raises_the_cancellation(self) -> None:
        """It has done as it was asked to, so that is no failure."""
        self.cancels = self.raises = True
        self.arrive()
        self.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.events, ["ending, CONNECTION_LOST", "given up", "closed, CONNECTION_LOST"])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_cancellation_in_an_open_session(self) -> None:
        """It is a failure of the hook, as any other error."""
        self.raises = True
        self.arrive()
        self.gate.cancel()
        self.assertEqual(self.events, ["given up", "closed, INTERNAL_ERROR"])
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 1)

    def test_a_peer_that_does_not_read(self) -> None:
        """The connection is cut after a time, although the hook never ends."""
        cut: list[float] = []
        self.patch(self.transport, "loseConnection", lambda: None)
        self.patch(self.transport, "abortConnection", lambda: cut.append(self.clock.now().monotonic))
        self.arrive()
        closed = self.clock.now().monotonic
        self.protocol.close()
        self.clock.advance(60)
        self.assertEqual(cut, [closed + self.factory.settings.linger])

    def test_closed_by_the_application(self) -> None:
        """The connection ends at once, although the hook never does, and nothing is acknowledged."""
        self.arrive()
        self.factory.close_all(CloseReason.STOPPED)
        self.assertEqual(self.events, ["ending, STOPPED"])
        self.assertFalse(self.transport.connected)
        self.assertEqual(self.transport.value(), b"")
        self.gate.callback(None)
        self.assertEqual(self.events[1:], ["stored", "closed, STOPPED"])

    def test_another_hook_fails(self) -> None:
        """The session ends, which the hook at work gets at once, and so does the connection."""
        self.arrive()
        self.fails = True
        self.protocol.pauseProducing()
        self.protocol.resumeProducing()
        self.assertEqual(self.events, ["ending, INTERNAL_ERROR"])
        self.assertFalse(self.transport.connected)
        self.gate.callback(None)
        self.assertEqual(self.events[1:], ["stored", "closed, INTERNAL_ERROR"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_closed_twice(self) -> None:
        """The hook gets it once."""
        self.arrive()
        self.protocol.close()
        self.protocol.close()
        self.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(self.events, ["ending, STOPPED"])

    def test_no_hook_is_at_work(self) -> None:
        """Only the end itself is reported."""
        self.protocol.close()
        self.assertEqual(self.events, ["closed, STOPPED"])

    def test_closed_by_the_hook_itself(self) -> None:
        """Before it waits for something: it gets the end, and the connection ends at once, too."""
        self.closes = True
        self.arrive()
        self.assertEqual(self.events, ["ending, STOPPED"])
        self.assertFalse(self.transport.connected)
        self.gate.callback(None)
        self.assertEqual(self.events[1:], ["stored", "closed, STOPPED"])


class BrokerTests(TroubleTestCase):
    """A broker whose store is slow."""

    def test_a_connection_that_is_lost(self) -> None:
        """It gets the end of the session first, as otherwise, when it has stored what has arrived."""
        gate: Deferred[None] = Deferred()
        events: list[str] = []

        class Storing(Idle):
            async def messages_arrived(self, session: Any, messages: Any, first_recoverable: int) -> None:
                await gate

            def session_closed(
                self, session: Any, reason: CloseReason, unacknowledged: Any, error: Any
            ) -> None:
                events.append("closed")

            def connection_lost(self, session: Any) -> None:
                events.append("lost")

        self.factory = SessionFactory(
            BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES, broker=broker(Storing())
        )
        protocol, _ = self.open()
        protocol.dataReceived(user_packet(recoverable=True))
        protocol.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(events, [])
        gate.callback(None)
        self.assertEqual(events, ["closed", "lost"])
