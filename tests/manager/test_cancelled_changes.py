"""Changes and receives whose caller is cancelled while the store commits them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.status import MQError
from tests.manager.support import ManagerTestCase

THERE = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class CancelledChangeTests(ManagerTestCase):
    """What the store has takes effect at once, and not only after a restart."""

    def cancel(self, change: Callable[[], Deferred[Any]]) -> None:
        """Make a change, whose caller is gone before it is stored."""
        self.store.is_slow = True
        changing = change()
        self.clock.advance(0)
        changing.cancel()
        self.failureResultOf(changing, CancelledError)
        self.store.catch_up()
        self.clock.advance(1)

    def assert_kept(self, paused_by: list[str], redirected_to: str | None = None) -> None:
        """The state of the queue, before and after a restart."""
        for restarts in (False, True):
            if restarts:
                self.restart()
            shown = self.service.inspection.outgoing_queue(THERE)
            self.assertEqual((list(shown.paused_by), shown.redirected_to), (paused_by, redirected_to))

    def test_pauses(self) -> None:
        """The pause of a name, of a next hop, and of all queues, and their ends."""
        self.put(THERE, b"1")
        for reason, pause, resume in (
            ("name", lambda: self.service.pause_outgoing(THERE), lambda: self.service.resume_outgoing(THERE)),
            (
                "next_hop",
                lambda: self.service.pause_next_hop("127.0.0.3"),
                lambda: self.service.resume_next_hop("127.0.0.3"),
            ),
            ("all", lambda: self.service.pause_all_outgoing(), lambda: self.service.resume_all_outgoing()),
        ):
            self.cancel(pause)
            self.assert_kept([reason])
            self.cancel(resume)
            self.assert_kept([])

    def test_redirect(self) -> None:
        """A redirect, and its end."""
        self.put(THERE, b"1")
        self.cancel(lambda: self.service.redirect_outgoing(THERE, "127.0.0.4"))
        self.assert_kept([], "127.0.0.4")
        self.cancel(lambda: self.service.redirect_outgoing(THERE, None))
        self.assert_kept([])


class CancelledReceiveTests(ManagerTestCase):
    """A receive that is cancelled loses no message: it is in the queue, or with the caller."""

    def receives(self) -> Iterator[Coroutine[Any, Any, Any]]:
        """One message is received by each interface that has a C{receive}."""
        queue = self.service.open_queue(self.orders)
        yield self.service.receive(self.orders)
        yield queue.receive()
        yield queue.read(action=MessageSeekAction.FIRST)
        yield queue.cursor().receive()

    def test_during_the_commit(self) -> None:
        """The message comes, once its removal is stored."""
        for receiving in self.receives():
            self.put(self.orders, b"1")
            self.store.is_slow = True
            receiver = Deferred.fromCoroutine(receiving)
            receiver.cancel()
            receiver.cancel()
            self.assertNoResult(receiver)
            self.store.catch_up()
            received = self.successResultOf(receiver)
            view = received.view if isinstance(received, ReceivedMessage) else received
            self.assertEqual(bytes(view.body), b"1")
            self.assertEqual(self.seen(self.orders), [])

    def test_commit_that_fails(self) -> None:
        """The caller gets the error, and the message is in the queue again."""
        self.put(self.orders, b"1")
        for receiving in self.receives():
            self.store.is_slow = True
            receiver = Deferred.fromCoroutine(receiving)
            receiver.cancel()
            self.store.break_down()
            self.store.catch_up()
            self.failureResultOf(receiver, MQError)
            self.store.recover()
            self.assertEqual(self.seen(self.orders), [b"1"])

    def test_while_waiting(self) -> None:
        """Without a message it ends at once, and takes no later one."""
        for receiving in [self.service.receive(self.orders), self.service.open_queue(self.orders).receive()]:
            receiver = Deferred.fromCoroutine(receiving)
            receiver.cancel()
            self.failureResultOf(receiver, CancelledError)
        self.put(self.orders, b"1")
        self.assertEqual(self.seen(self.orders), [b"1"])
