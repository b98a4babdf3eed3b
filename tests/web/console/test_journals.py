"""Journals and message logs."""

from __future__ import annotations

from urllib.parse import quote

from msmq.web.console.pages.journals import LISTED
from tests.web.console.test_changes import ChangeTestCase
from tests.web.console.test_pages import HOSTILE
from tests.web.support import ORDERS

LOGGED = ".\\private$\\logged"
LOG = f"/log?path={quote(LOGGED)}"


class JournalTests(ChangeTestCase):
    """Two of three queues keep copies."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue("copied", journal=True)
        self.make_queue("logged", log=True)

    def test_list(self) -> None:
        """The queues with a journal or a log are listed, with links to both."""
        self.put(".\\private$\\copied", b"1", b"2")
        self.run_now(self.alpha.service.receive(".\\private$\\copied"))
        page = self.shown("/journals")
        self.assertIn("copied", page.text)
        self.assertIn("logged", page.text)
        self.assertNotIn("orders", page.text)
        links = page.values("href")
        journal = f"/messages?queue={quote('.')}%5Cprivate%24%5Ccopied%3Bjournal"
        [found] = [link for link in links if "journal" in link and link.startswith("/messages")]
        self.assertEqual(found.replace("$", "%24"), journal)
        self.assertIn("found in 1", self.shown(found).text)
        self.assertIn(
            "The log is empty.", self.shown(next(link for link in links if link.startswith("/log"))).text
        )

    def test_entries_and_replay(self) -> None:
        """Entries are listed page by page; links fill in the bounds, between which a replay sends copies."""
        self.put(LOGGED, *(b"%d" % number for number in range(LISTED)), label="early")
        self.put(LOGGED, b"late", label=HOSTILE)
        page = self.shown(LOG)
        self.assertNotIn("<script>alert", page.text)
        [further] = [link for link in page.values("href") if "after=50" in link and "from=&" in link]
        page = self.shown(further)
        self.assertIn("<script>alert(1)</script>", page.text)
        [begin] = [link for link in page.values("href") if "from=51&to=" in link]
        page = self.shown(begin)
        self.assertIn(("value", "51"), page.attributes)
        fields = (("from", "51"), ("to", ""), ("into", ORDERS))
        self.assertIn(
            "1 message was sent from the log.", self.done(f"/queue/replay?path={quote(LOGGED)}", *fields)
        )
        self.assertEqual(self.bodies_of(ORDERS), [b"one", b"two", b"three", b"late"])

    def test_large_entries(self) -> None:
        """A page that has fewer entries, since they are large, is continued too; the last page is not."""
        self.put(LOGGED, b"1", b"2", b"3")
        self.disk.log_entries = 2
        [further] = [
            link for link in self.shown(LOG).values("href") if "after=2&" in link and "from=&" in link
        ]
        page = self.shown(further)
        self.assertIn("from 3", page.text)
        self.assertNotIn("Continue", page.text)

    def test_no_log(self) -> None:
        """The page of a queue without a log says so."""
        answer = self.get(f"/log?path={quote(ORDERS)}", headers=self.headers())
        self.assertEqual(answer.status, 501)
        self.assertIn("MQ_ERROR_UNSUPPORTED_OPERATION", answer.body.decode())
