"""Hooks of sessions that are coroutines, and hooks that must not be."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import TestCase
from zope.interface import directlyProvides

from msmq.interfaces.broker import IBroker
from msmq.net.coroutines import run_coroutine
from msmq.net.hooks import HookError
from msmq.net.session import SessionProtocol
from msmq.session.effects import CloseReason
from msmq.session.outgoing import OutgoingPacket
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, establish, established, user_packet
from tests.net.test_session_trouble import HALF_A_WINDOW, TroubleTestCase
from tests.session.support import acks


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


class SlowWorkTests(TroubleTestCase):
    """Work with messages that takes longer than the peer waits for an acknowledgement."""

    def test_what_is_stored_is_acknowledged_while_the_rest_is_under_way(self) -> None:
        """C{persisted} inside the hook leads to an acknowledgement that names just these messages."""
        gates = [Deferred[None]() for _ in range(3)]

        class Slow(SessionProtocol):
            async def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> None:
                for number, gate in enumerate(gates):
                    await gate
                    self.persisted(first_recoverable + number)

        self.use(Slow)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True) * 3)
        for number, gate in enumerate(gates):
            transport.clear()
            gate.callback(None)
            self.clock.advance(1)
            self.assertEqual(
                acks(transport.value()), [(3, number + 1, 1, 0, 0, 64)], "each has an acknowledgement"
            )
        self.assertFalse(protocol.is_suspended)

    def test_what_waits_behind_the_batch_is_not_counted(self) -> None:
        """An acknowledgement under way counts no message that the hook was not given."""
        gate: Deferred[None] = Deferred()

        class Slow(SessionProtocol):
            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return gate

        self.use(Slow)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * (HALF_A_WINDOW + 5))
        self.clock.advance(11)
        self.assertEqual({counted for counted, *_ in acks(transport.value())}, {HALF_A_WINDOW})
        gate.callback(None)
        self.clock.advance(11)
        self.assertEqual(acks(transport.value())[-1][0], HALF_A_WINDOW + 5)

    def test_the_peer_hears_something_in_time(self) -> None:
        """Half of the peer's AckWaitTimeout passes at most between two acknowledgements."""
        gate: Deferred[None] = Deferred()

        class Slow(SessionProtocol):
            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return gate

        self.use(Slow)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True))
        for _ in range(60):
            transport.clear()
            self.clock.advance(10)
            self.assertNotEqual(acks(transport.value()), [])
        self.assertTrue(protocol.is_open)
        gate.callback(None)
        transport.clear()
        self.clock.advance(100)
        self.assertEqual(acks(transport.value()), [])

    def test_answers_leave_while_the_hook_is_at_work(self) -> None:
        """Messages that it sends, and acknowledgements, are in the order of their counts."""
        gate: Deferred[None] = Deferred()

        class AcknowledgementBuilder(SessionProtocol):
            async def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> None:
                await gate
                self.send([OutgoingPacket(user_packet(b"answer"))])
                self.persisted(first_recoverable)
                await Deferred()

        self.use(AcknowledgementBuilder)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True))
        gate.callback(None)
        self.assertIn(b"answer", transport.value())
        transport.clear()
        self.clock.advance(1)
        self.assertEqual(acks(transport.value())[-1], (1, 1, 1, 1, 0, 64))

    def test_each_message_is_awaited(self) -> None:
        """C{message_arriving} as a coroutine gets one message after the other, and then the batch comes."""
        gates = [Deferred[None]() for _ in range(2)]
        done: list[str] = []

        class Slow(SessionProtocol):
            async def message_arriving(self, message: UserMessageView) -> None:
                await gates[len(done)]
                done.append(bytes(message.body).decode())

            def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
                done.append(f"{len(messages)} together")

        self.use(Slow)
        protocol, _ = self.open()
        protocol.dataReceived(user_packet(b"one") + user_packet(b"two"))
        self.assertEqual(done, [])
        gates[0].callback(None)
        self.assertEqual(done, ["one"])
        gates[1].callback(None)
        self.assertEqual(done, ["one", "two", "2 together"])

    def test_a_malformed_packet_behind_the_batch(self) -> None:
        """The messages before it are delivered first, and then the session ends."""
        gate: Deferred[None] = Deferred()
        bodies: list[bytes] = []

        class Slow(SessionProtocol):
            async def message_arriving(self, message: UserMessageView) -> None:
                bodies.append(bytes(message.body))
                await gate

        self.use(Slow)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(b"1"))
        protocol.dataReceived(user_packet(b"2") + b"rubbish" * 20)
        self.assertTrue(transport.connected)
        gate.callback(None)
        self.assertEqual(bodies, [b"1", b"2"])
        self.assertFalse(transport.connected)


class AsyncioTests(TestCase):
    """Hooks and handlers on a reactor that runs on an asyncio loop."""

    def run_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def run() -> Any:
            return await run_coroutine(coroutine).asFuture(asyncio.get_running_loop())

        return asyncio.run(run())

    def test_deferreds_and_futures(self) -> None:
        """Both can be awaited in one coroutine, and failures of both are raised in it."""

        async def work() -> list[object]:
            found: list[object] = [await succeed(1)]
            later: Deferred[int] = Deferred()
            asyncio.get_running_loop().call_soon(later.callback, 2)
            found.append(await later)
            found.append(await asyncio.wait_for(asyncio.sleep(0, 3), 10))
            broken: Deferred[int] = Deferred()
            asyncio.get_running_loop().call_soon(broken.errback, KeyError("four"))
            try:
                await broken
            except KeyError as error:
                found.append(error.args[0])
            return found

        self.assertEqual(self.run_in_loop(work()), [1, 2, 3, "four"])

    def test_a_cancelled_task(self) -> None:
        """It is reported as a cancelled Deferred is."""

        async def work() -> None:
            raise asyncio.CancelledError

        with self.assertRaises(CancelledError):
            self.run_in_loop(work())

    def test_a_time_out_cancels_a_deferred(self) -> None:
        """A time-out of asyncio ends the wait, and the Deferred is cancelled."""
        waited: Deferred[None] = Deferred()

        async def work() -> bool:
            try:
                async with asyncio.timeout(0):
                    await waited
            except TimeoutError:
                return waited.called
            return False

        self.assertTrue(self.run_in_loop(work()))

    def test_a_result_together_with_a_cancellation(self) -> None:
        """The coroutine gets the result, which may be a locked message; the next wait is cancelled, whether
        that is for a Deferred or for a future of asyncio.
        """

        async def work(wait: Callable[[], Awaitable[object]]) -> list[str]:
            found: list[str] = []
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            waited: Deferred[str] = Deferred()
            loop.call_soon(waited.callback, "result")
            loop.call_soon(task.cancel)
            found.append(await waited)
            try:
                await wait()
            except asyncio.CancelledError:
                found.append("cancelled")
            return found

        ways: tuple[Callable[[], Awaitable[object]], ...] = (
            Deferred,
            lambda: asyncio.get_running_loop().create_future(),
            lambda: asyncio.sleep(0),
        )
        for wait in ways:
            self.assertEqual(self.run_in_loop(work(wait)), ["result", "cancelled"])

    def test_a_time_out_together_with_a_result(self) -> None:
        """A time-out that ends with a result cancels nothing that comes after it."""

        async def work() -> list[str]:
            loop = asyncio.get_running_loop()
            waited: Deferred[str] = Deferred()
            later: Deferred[str] = Deferred()
            async with asyncio.timeout(None) as limit:
                loop.call_soon(waited.callback, "result")
                loop.call_soon(limit.reschedule, 0)
                found = [await waited]
            loop.call_soon(later.callback, "later")
            return [*found, await later]

        self.assertEqual(self.run_in_loop(work()), ["result", "later"])


class RefusedResultTests(TroubleTestCase):
    """A result returned by mistake by a hook would be lost, so it is an error with the name of the hook."""

    def assert_refused(self, *words: str) -> None:
        """There is one report, with these words, and no complaint of Python about a forgotten await."""
        # What the test made is young; a full collection takes long in a process with all tests loaded.
        gc.collect(1)
        failures = self.flushLoggedErrors(HookError)
        self.assertEqual(len(failures), 1)
        for word in words:
            self.assertIn(word, str(failures[0].value))
        self.assertEqual(self.flushWarnings(), [])

    def test_a_value_for_one_message(self) -> None:
        """The session ends, and the peer keeps the message."""

        class Wrong(SessionProtocol):
            def message_arriving(self, message: UserMessageView) -> bool:  # type: ignore[override]
                return True

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.message_arriving returned a bool", "None or a Deferred")

    def test_a_coroutine_for_a_message_that_was_sent(self) -> None:
        """Only hooks for arriving messages may take time."""

        class Wrong(SessionProtocol):
            async def message_sent(self, message: Any) -> None:  # type: ignore[override]
                raise AssertionError("not called")

        self.use(Wrong)
        protocol, transport = self.open()
        protocol.send([OutgoingPacket(user_packet())])
        self.assertFalse(transport.connected)
        self.assert_refused("Wrong.message_sent returned a coroutine", "plain call")

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
        """Do nothing."""

    def session_progress(self, session: Any, progress: Any) -> None:
        """Do nothing."""

    def messages_acknowledged(self, session: Any, messages: Any) -> None:
        """Do nothing."""

    def room_for_messages(self, session: Any) -> None:
        """Do nothing."""

    def session_closed(self, session: Any, reason: CloseReason, unacknowledged: Any, error: Any) -> None:
        """Do nothing."""

    def connection_lost(self, session: Any) -> None:
        """Do nothing."""

    def reconnect(self, session: Any) -> None:
        """Do nothing."""


def broker(provider: Idle) -> Any:
    """The broker as what it provides."""
    directlyProvides(provider, IBroker)
    return provider
