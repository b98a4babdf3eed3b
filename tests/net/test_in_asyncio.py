"""Awaitables of the package in tasks of asyncio: results, errors and cancellations, in every order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq import in_asyncio
from msmq.background import completed
from msmq.errors import LocalProtocolError
from msmq.net.coroutines import run_coroutine


class InAsyncioTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.events: list[str] = []
        self.deferred: Deferred[str] = Deferred(lambda _: self.events.append("the operation is cancelled"))

    def run_task(self, *calls: Callable[[asyncio.Task[str]], object], **options: Any) -> None:
        """Run a task that waits for the Deferred, and these calls, one after the other, while it waits."""

        async def main() -> None:
            task = asyncio.ensure_future(self.program(**options))
            await asyncio.sleep(0)
            for call in calls:
                call(task)
            await asyncio.wait([task], timeout=5)
            self.assertTrue(task.done())
            self.events.append("is cancelled" if task.cancelled() else task.result())

        with asyncio.Runner() as runner:
            runner.run(main())

    async def program(self) -> str:
        """Wait for the Deferred, and once more."""
        result = await in_asyncio(self.deferred)
        self.events.append(f"got {result}")
        await asyncio.sleep(0)
        return "ends"

    def fire(self, _: object) -> None:
        self.deferred.callback("a message")

    def cancel(self, task: asyncio.Task[str]) -> None:
        task.cancel()

    def test_result(self) -> None:
        """The result of a Deferred, and of a coroutine."""
        self.run_task(self.fire)
        self.assertEqual(self.events, ["got a message", "ends"])

        async def coroutine() -> str:
            return await self.deferred

        self.deferred = Deferred()
        deferred = Deferred.fromCoroutine(coroutine())
        self.events, fire, self.deferred = [], self.deferred, deferred
        self.run_task(lambda _: fire.callback("another"))
        self.assertEqual(self.events, ["got another", "ends"])

    def test_cancelled(self) -> None:
        """The operation is cancelled with its task."""
        self.run_task(self.cancel)
        self.assertEqual(self.events, ["the operation is cancelled", "is cancelled"])

    def test_cancelled_after_the_result(self) -> None:
        """Neither the result nor the cancellation is lost."""
        self.run_task(self.fire, self.cancel)
        self.assertEqual(self.events, ["got a message", "is cancelled"])

    def test_cancelled_before_the_result(self) -> None:
        """The same in the other order, before the task runs again."""
        self.run_task(self.cancel, self.fire)
        self.assertEqual(self.events, ["got a message", "is cancelled"])

    def test_cancelled_too_late(self) -> None:
        """An operation that completes in spite of the cancellation has its result returned; the
        cancellation follows. A failure in place of the result is the cancellation.
        """
        for result, events in (
            ("a message", ["got a message", "is cancelled"]),
            (Failure(RuntimeError("no message")), ["is cancelled"]),
        ):
            storing: Deferred[Any] = Deferred()
            self.events, self.deferred = [], Deferred.fromCoroutine(completed(_await(storing)))

            def end(
                task: asyncio.Task[str], storing: Deferred[Any] = storing, result: object = result
            ) -> None:
                loop = task.get_loop()
                loop.call_soon(loop.call_soon, storing.callback, result)

            self.run_task(self.cancel, end)
            self.assertEqual(self.events, events)

    def test_cancelled_too_late_in_a_coroutine_of_an_application(self) -> None:
        """The same for one that awaits it without C{in_asyncio}, such as that of a broker."""
        storing: Deferred[str] = Deferred()

        async def program() -> None:
            self.events.append(await completed(_await(storing)))
            await asyncio.sleep(0)
            self.events.append("continues")

        async def main() -> None:
            running = run_coroutine(program())
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.sleep(0)
            storing.callback("a message")
            for _ in range(5):
                await asyncio.sleep(0)
            self.failureResultOf(running, CancelledError)

        with asyncio.Runner() as runner:
            runner.run(main())
        self.assertEqual(self.events, ["a message"])

    def test_a_time_out_that_has_ended(self) -> None:
        """A time-out that expired together with the result does not cancel what comes after its block."""

        async def program() -> str:
            async with asyncio.timeout(None) as timeout:
                self.timeout = timeout
                self.events.append(await in_asyncio(self.deferred))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "ends"

        def expire(_: object) -> None:
            loop = asyncio.get_running_loop()
            self.timeout.reschedule(loop.time() - 1)
            # The time-out cancels the task in this iteration of the loop, and the result comes in it, too.
            loop.call_soon(self.fire, None)

        self.patch(self, "program", program)
        self.run_task(expire)
        self.assertEqual(self.events, ["a message", "ends"])

    def test_error(self) -> None:
        """An error of the operation is raised."""

        async def program() -> str:
            try:
                return await in_asyncio(self.deferred)
            except ZeroDivisionError:
                return "failed"

        self.patch(self, "program", program)
        self.run_task(lambda _: self.deferred.errback(ZeroDivisionError()))
        self.assertEqual(self.events, ["failed"])

    def test_an_operation_that_is_cancelled_elsewhere(self) -> None:
        """Its error is Twisted's: the task itself is not cancelled."""

        async def program() -> str:
            try:
                return await in_asyncio(self.deferred)
            except CancelledError:
                return "the operation was cancelled"

        self.deferred = Deferred()
        self.patch(self, "program", program)
        self.run_task(lambda _: self.deferred.cancel())
        self.assertEqual(self.events, ["the operation was cancelled"])

    def test_elsewhere(self) -> None:
        """Without a task of asyncio it says what to do."""
        waiting: Coroutine[Any, Any, str] = in_asyncio(self.deferred)
        failed = self.failureResultOf(Deferred.fromCoroutine(waiting), LocalProtocolError)
        self.assertIn("await the awaitable itself", str(failed.value))


async def _await(deferred: Deferred[Any]) -> Any:
    return await deferred
