"""The end of the messages in process, when a broker stops."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.in_process import GRACE, MessagesInProcess


class InProcessTests(SynchronousTestCase):
    """A stop waits for coroutines, and those of them that ask for it wait for the others."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.messages = MessagesInProcess(self.clock)
        self.events: list[str] = []

    def process(self, name: str, *waits: Deferred[None], asks: bool = False) -> None:
        """Begin to process a message: its coroutine may ask for the stop, and waits for each of these."""

        async def run() -> None:
            processing = self.messages.begin()
            try:
                processing.running = Deferred.fromCoroutine(coroutine())
                await processing.running
            except CancelledError:
                self.events.append(f"{name} is cancelled")
            finally:
                self.messages.end(processing)

        async def coroutine() -> None:
            if asks:
                others = self.messages.others_ended()
                assert others is not None, "it is called by a coroutine in process"
                self.events.append(f"{name} asks")
                await others
                self.events.append(f"{name} goes on")
            for wait in waits:
                await wait
            self.events.append(f"{name} ends")

        Deferred.fromCoroutine(run())

    def stop(self) -> Deferred[bool]:
        return Deferred.fromCoroutine(self.messages.stop())

    def test_nothing_is_in_process(self) -> None:
        """It ends at once, and leaves no timer."""
        self.assertTrue(self.successResultOf(self.stop()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_call_from_elsewhere(self) -> None:
        """What is not called by a coroutine in process has no others."""
        self.process("1", Deferred())
        self.assertIsNone(self.messages.others_ended())

    def test_one_that_asks_goes_on_when_the_others_have_ended(self) -> None:
        """The stop ends when it has ended, too."""
        gate: Deferred[None] = Deferred()
        last: Deferred[None] = Deferred()
        self.process("1", gate)
        self.process("2", last, asks=True)
        stopping = self.stop()
        self.assertEqual(self.events, ["2 asks"])
        gate.callback(None)
        self.assertEqual(self.events, ["2 asks", "1 ends", "2 goes on"])
        self.assertNoResult(stopping)
        last.callback(None)
        self.assertTrue(self.successResultOf(stopping))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_two_that_ask(self) -> None:
        """Neither waits for the other."""
        self.process("1", asks=True)
        self.process("2", asks=True)
        self.assertTrue(self.successResultOf(self.stop()))
        self.assertEqual(self.events, ["1 asks", "1 goes on", "1 ends", "2 asks", "2 goes on", "2 ends"])

    def test_two_that_ask_one_after_the_other(self) -> None:
        """The first goes on when the second asks, while the stop waits for both."""
        gate: Deferred[None] = Deferred()
        self.process("1", gate, asks=False)
        self.process("2", asks=True)
        stopping = self.stop()
        late: Deferred[None] = Deferred()
        self.process("3", late, asks=True)
        self.assertEqual(self.events, ["2 asks", "3 asks"])
        gate.callback(None)
        self.assertEqual(self.events[2:], ["1 ends", "2 goes on", "2 ends", "3 goes on"])
        self.assertNoResult(stopping)
        late.callback(None)
        self.assertTrue(self.successResultOf(stopping))

    def test_the_time_of_the_others(self) -> None:
        """They are cancelled, and the one that asks goes on."""
        self.process("1", Deferred())
        self.process("2", asks=True)
        stopping = self.stop()
        self.clock.advance(GRACE)
        self.assertEqual(self.events, ["2 asks", "1 is cancelled", "2 goes on", "2 ends"])
        self.assertTrue(self.successResultOf(stopping))

    def test_the_time_of_one_that_asks(self) -> None:
        """It has that time after the others have ended; then it is cancelled as well."""
        gate: Deferred[None] = Deferred()
        self.process("1", gate)
        self.process("2", Deferred(), asks=True)
        stopping = self.stop()
        self.clock.advance(GRACE / 2)
        gate.callback(None)
        self.clock.advance(GRACE / 2)
        self.assertEqual(self.events, ["2 asks", "1 ends", "2 goes on"])
        self.clock.advance(GRACE / 2)
        self.assertEqual(self.events[3:], ["2 is cancelled"])
        self.assertTrue(self.successResultOf(stopping))

    def test_one_that_does_not_end(self) -> None:
        """One that ignores its cancellation is left, and the one that asks goes on."""
        stubborn: Deferred[None] = Deferred(lambda cancelled: cancelled.callback(None))
        self.process("1", stubborn, Deferred())
        self.process("2", asks=True)
        stopping = self.stop()
        self.clock.advance(GRACE)
        self.assertEqual(self.events, ["2 asks"])
        self.clock.advance(GRACE)
        self.assertEqual(self.events, ["2 asks", "2 goes on", "2 ends"])
        self.clock.advance(GRACE)
        self.clock.advance(GRACE)
        self.assertEqual(self.events[3:], ["1 is cancelled"])
        self.assertTrue(self.successResultOf(stopping))

    def test_one_that_never_ends(self) -> None:
        """The stop ends all the same, and reports it."""

        def ignore(cancelled: Deferred[None]) -> None:
            cancelled.callback(None)

        self.process("1", *(Deferred(ignore) for _ in range(9)))
        stopping = self.stop()
        for _ in range(4):
            self.assertNoResult(stopping)
            self.clock.advance(GRACE)
        self.assertIs(self.successResultOf(stopping), False)
        self.assertEqual((self.events, self.clock.getDelayedCalls()), ([], []))

    def test_a_wait_that_is_cancelled(self) -> None:
        """A coroutine that waits no longer for the others is waited for as the last, as it has asked."""
        gate: Deferred[None] = Deferred()
        self.process("1", gate)
        waits: list[Deferred[None]] = []

        async def run() -> None:
            processing = self.messages.begin()
            others = self.messages.others_ended()
            assert others is not None, "it is called by a coroutine in process"
            waits.append(others)
            try:
                await others
            except CancelledError:
                self.events.append("2 waits no longer")
            self.messages.end(processing)

        Deferred.fromCoroutine(run())
        stopping = self.stop()
        waits[0].cancel()
        self.assertEqual(self.events, ["2 waits no longer"])
        gate.callback(None)
        self.assertTrue(self.successResultOf(stopping))
