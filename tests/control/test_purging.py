"""Purging a queue through the control API: progress, disconnection, and what the log says of it."""

from __future__ import annotations

from twisted.logger import LogLevel, capturedLogs, formatEvent

from msmq.queues.arriving.message import Delivery
from tests.control.support import ORDERS, ControlTestCase, resource


class PurgeProgressTests(ControlTestCase):
    """C{POST .../purge?progress=true}."""

    PURGE = resource("queues", ORDERS, "purge")

    def test_quick_purge(self) -> None:
        """A purge that ends within a second is answered with its result alone."""
        self.put(b"1", b"2")
        answer = self.call("POST", self.PURGE, b"", progress="true")
        self.assertEqual((answer.status, answer.json), (200, {"purged": 2}))

    def test_slow_purge(self) -> None:
        """A line each second says how many are left, and the last one how many were removed."""
        self.put(b"1", b"2", delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        caller.ask("POST", self.PURGE, b"", progress="true")
        self.assertFalse(caller.is_answered)
        self.clock.advance(1)
        self.clock.advance(1)
        self.assertEqual(caller.answer.lines, [{"messages": 2}, {"messages": 2}])
        self.disk.is_slow = False
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(caller.answer.lines[2:], [{"purged": 2}])

    def test_failure(self) -> None:
        """A purge that fails late ends with the refusal, and what was not removed is there again."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        caller.ask("POST", self.PURGE, b"", progress="true")
        self.clock.advance(1)
        self.disk.fail_late()
        self.clock.advance(0)
        self.assertEqual(caller.answer.lines[1]["error"], "MQ_ERROR_MESSAGE_STORAGE_FAILED")
        self.assertEqual(self.bodies(), [b"1"])

    def test_caller_goes_away(self) -> None:
        """The purge goes on without the caller; asking again waits for it."""
        self.put(b"1", b"2", delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        caller.ask("POST", self.PURGE, b"", progress="true")
        self.clock.advance(1)
        caller.hang_up()
        again = self.caller()
        again.ask("POST", self.PURGE, b"", progress="true")
        self.disk.is_slow = False
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual((again.answer.json, self.bodies()), ({"purged": 0}, []))

    def test_lines_of_the_log(self) -> None:
        """However many messages are removed, there is a line of the purge, and one of its caller."""
        self.put(*(b"%d" % number for number in range(500)))
        with capturedLogs() as logged:
            caller = self.caller()
            caller.ask("POST", self.PURGE, b"")
            while not caller.is_answered:
                self.clock.advance(0)
        lines = [formatEvent(each) for each in logged if each["log_level"] >= LogLevel.info]
        self.assertEqual(len(lines), 2, lines)
        for line in lines:
            self.assertIn("500 message", line)
