"""Hooks of sessions that are coroutines, and hooks that must not be."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import directlyProvides

from msmq.interfaces.broker import IBroker
from msmq.net.hooks import HookError
from msmq.net.session import SessionProtocol
from msmq.session.effects import CloseReason
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, establish, established, user_packet
from tests.net.test_session_trouble import HALF_A_WINDOW, TroubleTestCase


class CoroutineTests(TroubleTestCase):
    """A broker that does slow work with each batch."""

    def slow(self, gate: Deferred[None], batches: list[int]) -> type[SessionProtocol]:
        """Sessions whose hook for batches is a coroutine."""

        class Slow(SessionProtocol):
            async def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> None:
                await gate
                batches.append(len(messages))
                self.persisted(first_recoverable + len(messages) - 1)

        return Slow

    def test_a_coroutine_suspends_the_session_until_it_is_done(self) -> None:
        """Its batch is acknowledged afterwards, and the messages behind it are delivered then."""
        gate: Deferred[None] = Deferred()
        batches: list[int] = []
        self.use(self.slow(gate, batches))
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True) * HALF_A_WINDOW)
        protocol.dataReceived(user_packet(recoverable=True) * 2)
        self.assertEqual((transport.value(), batches), (b"", []))
        self.assertTrue(protocol.is_suspended)
        gate.callback(None)
        self.assertEqual(batches, [HALF_A_WINDOW, 2])
        self.assertIn(b"LIOR", transport.value())
        self.assertFalse(protocol.is_suspended)
        self.assertTrue(protocol.is_open)

    def test_a_coroutine_that_does_not_wait_is_done_at_once(self) -> None:
        """The session is not suspended."""
        batches: list[int] = []
        self.use(self.slow(succeed(None), batches))
        protocol, _ = self.open()
        protocol.dataReceived(user_packet(recoverable=True))
        self.assertEqual(batches, [1])
        self.assertFalse(protocol.is_suspended)

    def test_a_coroutine_that_raises_ends_the_session(self) -> None:
        """Later too, with one report, and nothing is acknowledged."""
        gate: Deferred[None] = Deferred()
        self.use(self.slow(gate, []))
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True) * HALF_A_WINDOW)
        gate.errback(RuntimeError("the warehouse is closed"))
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.connected)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_broker_with_a_coroutine(self) -> None:
        """A broker object for many sessions may have one too."""
        gate: Deferred[None] = Deferred()

        class Warehouse(Idle):
            async def messages_arrived(self, session: Any, messages: Any, first_recoverable: int) -> None:
                await gate
                session.persisted(first_recoverable + len(messages) - 1)

        self.factory.broker = broker(Warehouse())
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True) * HALF_A_WINDOW)
        self.assertEqual(transport.value(), b"")
        gate.callback(None)
        self.assertIn(b"LIOR", transport.value())

    def test_a_deferred_that_waits_for_another_suspends_too(self) -> None:
        """A Deferred that has fired with one that has not is not done."""
        gate: Deferred[None] = Deferred()
        outer: Deferred[None] = succeed(None)
        outer.addCallback(lambda _: gate)

        class Chained(SessionProtocol):
            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return outer

        self.use(Chained)
        protocol, _ = self.open()
        protocol.dataReceived(user_packet())
        self.assertTrue(protocol.is_suspended)
        gate.callback(None)
        self.assertFalse(protocol.is_suspended)


class RefusedResultTests(TroubleTestCase):
    """What a hook returns by mistake would be lost, so it is an error with the name of the hook."""

    def assert_refused(self, *words: str) -> None:
        """There is one report, with these words, and no complaint of Python about a forgotten await."""
        gc.collect()
        failures = self.flushLoggedErrors(HookError)
        self.assertEqual(len(failures), 1)
        for word in words:
            self.assertIn(word, str(failures[0].value))
        self.assertEqual(self.flushWarnings(), [])

    def test_a_coroutine_for_one_message(self) -> None:
        """The session ends, and the peer keeps the message."""

        class Wrong(SessionProtocol):
            async def message_arriving(self, message: UserMessageView) -> None:  # type: ignore[override]
                raise AssertionError("not called")

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.message_arriving returned a coroutine", "plain call")

    def test_a_deferred_for_one_message(self) -> None:
        """The same, whether or not it has fired."""

        class Wrong(SessionProtocol):
            def message_arriving(self, message: UserMessageView) -> Deferred[None]:  # type: ignore[override]
                return succeed(None)

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet())
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.message_arriving returned a Deferred")

    def test_a_coroutine_does_not_open_a_session(self) -> None:
        """A check of the peer that is a coroutine refuses every peer instead of accepting each."""

        class Wrong(SessionProtocol):
            async def may_open(self) -> bool:  # type: ignore[override]
                return False

        self.use(Wrong)
        protocol = self.factory.build(is_initiator=False)
        transport = self.connect(protocol)
        protocol.dataReceived(establish(ALPHA))
        self.assertEqual(transport.value(), established(ALPHA, BETA, refused=True))
        self.assert_refused("Wrong.may_open returned a coroutine")

    def test_a_check_that_raises_refuses(self) -> None:
        """The peer gets the refusal of the documents."""

        class Broken(SessionProtocol):
            def may_open(self) -> bool:
                raise RuntimeError("this broker has a bug")

        self.use(Broken)
        protocol = self.factory.build(is_initiator=False)
        transport = self.connect(protocol)
        protocol.dataReceived(establish(ALPHA))
        self.assertEqual(transport.value(), established(ALPHA, BETA, refused=True))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_broker_whose_other_calls_are_coroutines(self) -> None:
        """The default hooks pass on what the broker returned."""

        class Wrong(Idle):
            async def session_opened(self, session: Any) -> None:  # type: ignore[override]
                raise AssertionError("not called")

        self.factory.broker = broker(Wrong())
        _, transport = self.open()
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.session_opened returned a coroutine")

    def test_a_rejection_that_is_reported_to_a_coroutine(self) -> None:
        """The broker that rejects a message goes on; the session ends."""

        class Wrong(SessionProtocol):
            async def message_rejected(  # type: ignore[override]
                self, message: UserMessageView, reason: str
            ) -> None:
                raise AssertionError("not called")

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.report_rejection(UserMessageView(user_packet()), "no such queue")
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.message_rejected returned a coroutine")

    def test_a_batch_hook_that_returns_something_else(self) -> None:
        """A value that is neither a Deferred nor a coroutine is named."""

        class Wrong(SessionProtocol):
            def messages_arriving(  # type: ignore[override]
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> bool:
                return True

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet())
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.messages_arriving returned a bool", "None or a Deferred")


class Idle:
    """A broker that does nothing."""

    def session_opened(self, session: Any) -> None:
        """Nothing."""

    def session_progress(self, session: Any, progress: Any) -> None:
        """Nothing."""

    def messages_acknowledged(self, session: Any, messages: Any) -> None:
        """Nothing."""

    def room_for_messages(self, session: Any) -> None:
        """Nothing."""

    def session_closed(self, session: Any, reason: CloseReason, unacknowledged: Any, error: Any) -> None:
        """Nothing."""

    def connection_lost(self, session: Any) -> None:
        """Nothing."""

    def reconnect(self, session: Any) -> None:
        """Nothing."""


def broker(provider: Idle) -> Any:
    """The broker as what it provides."""
    directlyProvides(provider, IBroker)
    return provider
