"""What a broker does otherwise than it is meant: hooks of another kind, and a stop that is its server's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.outcomes import Outcome, accept
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.session import ISession
from msmq.net.hooks import HookError
from msmq.testing import MemoryEstate
from tests.broker.scripted_broker import BrokerTestCase, Scripted

TO_BETA = "DIRECT=OS:BETA\\private$\\orders"


class MistakenHooksTests(BrokerTestCase):
    """BETA runs a broker with a hook that is written differently."""

    def run_broker(self, make: type[Scripted], **options: Any) -> None:
        self.make, self.options = make, options
        self.addCleanup(self.clock.advance, 20)
        self.beta.deaf()
        self.beta.service.stopService()
        self.beta = self.node("BETA", UUID(int=5))
        self.beta.start()

    def test_a_lane_that_is_a_coroutine(self) -> None:
        """The error names the method, and messages stay in the order of their queue."""

        class Customers(Scripted):
            def lane(self, message: ReceivedMessage) -> Any:
                async def customer() -> str:
                    return message.label

                return customer()

        gates: dict[bytes, Deferred[None]] = {}

        async def process(message: ReceivedMessage) -> Outcome:
            gates[message.body] = Deferred()
            await gates[message.body]
            return accept()

        self.process = process
        self.run_broker(Customers, concurrency=2)
        self.sent(b"1", b"2", label="x")
        self.assertEqual(self.broker.seen, [b"1"])
        gates[b"1"].callback(None)
        self.clock.advance(1)
        self.assertEqual(self.broker.seen, [b"1", b"2"])
        gates[b"2"].callback(None)
        errors = self.flushLoggedErrors(LocalProtocolError)
        self.assertIn("Customers.lane returned a coroutine", str(errors[0].value))

    def test_session_hooks_that_are_plain_methods(self) -> None:
        """They are called, and the session stays open."""

        class Plain(Scripted):
            def session_opened(self, session: ISession) -> Any:
                self.events.append("opened")

        self.run_broker(Plain)
        self.sent(b"1")
        self.assertEqual((self.broker.events, self.broker.seen), (["opened"], [b"1"]))

    def test_session_hooks_that_return_deferreds(self) -> None:
        """They are waited for."""

        class Slow(Scripted):
            def session_opened(self, session: ISession) -> Any:
                return succeed(None).addCallback(lambda _: self.events.append("opened"))

        self.run_broker(Slow)
        self.sent(b"1")
        self.assertEqual((self.broker.events, self.broker.seen), (["opened"], [b"1"]))

    def test_session_hooks_with_another_result(self) -> None:
        """The session closes, and the error names the method."""

        class Mistaken(Scripted):
            def session_opened(self, session: ISession) -> Any:
                return True

        # Of the sessions that follow.
        self.addCleanup(self.flushLoggedErrors, HookError)
        self.run_broker(Mistaken)
        self.sent(b"1")
        self.assertEqual(self.broker.seen, [])
        (error,) = self.flushLoggedErrors(HookError)
        self.assertIn("Mistaken.session_opened returned a bool", str(error.value))

    def test_a_session_hook_that_does_not_end(self) -> None:
        """A stop cancels it after 5 seconds, without an error, as it does messages in process."""

        class Endless(Scripted):
            async def session_opened(self, session: ISession) -> None:
                try:
                    await Deferred()
                finally:
                    self.events.append("cancelled")

        self.run_broker(Endless)
        self.sent(b"1")
        # What would be called after it is, when it has ended.
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        assert self.beta.program is not None
        ended = self.beta.program.end()
        self.clock.advance(4)
        self.assertNoResult(ended)
        self.assertEqual(self.broker.events, [])
        self.clock.advance(1)
        self.successResultOf(ended)
        self.assertEqual(self.broker.events, ["cancelled", "127.0.0.2 closed, CONNECTION_LOST"])

    def test_a_session_hook_that_ends_in_time(self) -> None:
        """A stop waits for it."""
        gate: Deferred[None] = Deferred()

        class Slow(Scripted):
            async def session_opened(self, session: ISession) -> None:
                await gate
                self.events.append("opened")

        self.run_broker(Slow)
        self.sent(b"1")
        assert self.beta.program is not None
        ended = self.beta.program.end()
        self.assertNoResult(ended)
        gate.callback(None)
        self.successResultOf(ended)
        self.assertEqual(self.broker.events, ["opened"])

    def test_a_session_hook_that_waits_for_the_stop(self) -> None:
        """It gets the end of the others, as a message that stops its broker does."""

        class Stopping(Scripted):
            async def session_opened(self, session: ISession) -> None:
                await gate
                others = program.others_ended()
                assert others is not None
                await others
                self.events.append("stopped")

        gate: Deferred[None] = Deferred()
        self.run_broker(Stopping)
        assert self.beta.program is not None
        program = self.beta.program
        self.sent(b"1")
        ended = program.end()
        gate.callback(None)
        self.successResultOf(ended)
        self.assertEqual(self.broker.events, ["stopped"])


class HostedTests(SynchronousTestCase):
    """A broker in a server that it has not started, as that of C{twistd msmq --broker}."""

    def test_a_stop_by_a_message(self) -> None:
        """It is refused, and messages are processed as before; it paused them, while the server went on."""
        estate = MemoryEstate()
        self.addCleanup(estate.close)
        errors: list[str] = []

        async def process(message: ReceivedMessage) -> Outcome:
            try:
                await broker.stopService()
            except LocalProtocolError as error:
                errors.append(str(error))
            return accept()

        broker = Scripted(process, queues=["orders"])
        alpha, beta = estate.add("ALPHA"), estate.add("BETA", broker=broker)
        for body in (b"1", b"2"):
            alpha.send(TO_BETA, body)
            estate.advance(1)
        self.assertEqual(broker.seen, [b"1", b"2"])
        self.assertIn("Scripted is the program of a server that it has not started", errors[0])
        beta.stop()
        self.assertIsNone(self.successResultOf(broker.stopService()))
