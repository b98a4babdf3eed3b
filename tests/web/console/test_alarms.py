"""Alarms of the overview: what needs an operator, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.alarm_limits import OLD
from msmq.interfaces.storage import IStoreFiles
from msmq.manager.administration.metered_store import RECENT
from msmq.queues.arriving.message import Delivery, Message
from msmq.web.console.pages.overview import ALARMS
from tests.control.support import Disk
from tests.nodes.support import Node
from tests.web.console.test_pages import ELSEWHERE, ConsoleTestCase
from tests.web.support import ORDERS


class AlarmTests(ConsoleTestCase):
    """The first page of ALPHA."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue()

    def test_calm(self) -> None:
        """Without anything to do there is no list of alarms."""
        self.put(ORDERS, b"1")
        self.assertNotIn("Alarms", self.page("/").text)

    def test_queues(self) -> None:
        """A queue over its quota, a paused one and one that is not read are named, with their pages."""
        self.make_queue("full", quota=1)
        self.put(".\\private$\\full", bytes(900))
        self.put(ORDERS, b"1")
        self.run_now(self.alpha.service.pause_queue(ORDERS))
        self.clock.advance(OLD)
        page = self.page("/")
        self.assertRegex(page.text, r"private\$\\full: \d+% of the quota is used")
        self.assertIn("orders is paused", page.text)
        self.assertIn("orders is not read: its oldest message is 1 h old", page.text)
        self.assertIn("Look at the application that reads it.", page.text)
        self.assertIn(f"/queue?path={quote(self.path('orders'), safe='')}", page.values("href"))

    def path(self, name: str) -> str:
        """The path of a queue, as summaries have it."""
        return self.alpha.service.inspection.queue(f".\\private$\\{name}").path

    def test_outgoing(self) -> None:
        """A destination that is not reached has its number of messages and a link."""
        self.put(ELSEWHERE, b"1", b"2")
        self.clock.advance(5)
        page = self.page("/")
        self.assertIn("is not reached: 2 messages wait", page.text)
        self.assertIn(f"/outgoing_queue?name={quote(ELSEWHERE, safe='')}", page.values("href"))

    def test_dead_letters(self) -> None:
        """Dead letters are an alarm that leads to their reasons."""
        self.put(ELSEWHERE, b"1", dead_letter=True)
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        self.assertIn("1 dead letter", self.page("/").text)

    def test_many(self) -> None:
        """Of many alarms about queues the worst are listed, and the rest is counted."""
        for number in range(ALARMS + 5):
            path = self.make_queue(f"paused{number:02}")
            self.run_now(self.alpha.service.pause_queue(path))
        self.make_queue("full", quota=1)
        self.put(".\\private$\\full", bytes(900))
        page = self.page("/")
        self.assertIn("6 more about queues.", page.text)
        self.assertIn("of the quota is used", page.text)

    def test_a_full_store(self) -> None:
        """A store that is full says what to do."""
        self.alpha.model.storage.throttled = True
        self.assertIn("Free disk space, or extend the disk", self.page("/").text)


class StoreFigureTests(ConsoleTestCase):
    """The store on the first page, in the status and on the stream."""

    def test_commits(self) -> None:
        """Durations of commits are measured from the request to the end, and shown with their unit."""
        self.make_queue()
        self.disk.is_slow = True
        self.clock.advance(0)
        for delay in (0.25, *[0.75] * 10):
            self.send_slowly(delay)
        times = self.get("/v1/status").json["store"]["commit_times"]
        self.assertEqual(times["longest"], 0.75)
        self.assertEqual(times["failures"], 0)
        text = self.page("/").text
        self.assertIn("750 ms", text)
        self.assertIn(f"half of the latest {times['measured']} commits took more than 0.8 s", text)
        self.disk.is_slow = False
        self.clock.advance(RECENT + 1)
        self.assertNotIn("commits took more than", self.page("/").text)

    def send_slowly(self, delay: float) -> None:
        """Send a message whose commit takes this time."""
        message = Message(body=b"1", delivery=Delivery.RECOVERABLE)
        done = Deferred.fromCoroutine(self.alpha.service.send(ORDERS, [message]))
        self.clock.advance(delay)
        self.disk.catch_up()
        self.clock.advance(0)
        self.successResultOf(done)

    def test_without_files(self) -> None:
        """A store that is not in files has no size, and the page does not invent one."""
        store = self.get("/v1/status").json["store"]
        self.assertEqual((store["bytes"], store["free_bytes"], store["capacity_bytes"]), (None, None, None))
        self.assertNotIn("Free space", self.page("/").text)


@implementer(IStoreFiles)
class AbsentDisk(Disk):
    """A store whose directory cannot be examined, as that of a disk that is away."""

    def files(self) -> Sequence[Path]:
        """See L{IStoreFiles.files}."""
        return [Path("/nonexistent/messages")]


class AbsentDiskTests(ConsoleTestCase):
    """The overview is needed most while something is wrong."""

    def node(self, name: str, identifier: Any, **kwargs: Any) -> Node:
        """ALPHA's store is on such a disk."""
        if name == "ALPHA":
            self.disk = AbsentDisk()
        return super().node(name, identifier, **kwargs)

    def test_overview(self) -> None:
        """The page is shown, without the free space."""
        self.assertRegex(self.page("/").text, r"Free space\s*\u2013")
