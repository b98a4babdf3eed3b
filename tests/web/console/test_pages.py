"""The pages of the console, rendered without a browser."""

from __future__ import annotations

import zlib
from html.parser import HTMLParser
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.packet_fields import packet_fields
from msmq.queues.arriving.message import Message
from msmq.web.console.rendering import ASSETS, CONTENT_SECURITY_POLICY
from tests.web.support import ORDERS, TOKEN, WebTestCase

ELSEWHERE = "DIRECT=OS:GAMMA\\private$\\elsewhere"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.exe"
PAGES = (
    "/",
    "/queues",
    "/queues?system=true&sort=messages&order=down",
    "/queue?path=.%5Cprivate$%5Corders",
    "/messages?queue=.%5Cprivate$%5Corders",
    "/journals",
    "/deadletters",
    "/outgoing",
    "/sessions",
    "/events",
    "/explain",
    "/transactions",
    "/enterprise",
)


class Elements(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an element."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        """Collect text, and that of scripts apart."""
        if self.cdata_elem == "script":
            self.scripts += data
        else:
            self.text += data

    def values(self, name: str) -> list[str]:
        """The values of an attribute."""
        return [value for key, value in self.attributes if key == name]


class ConsoleTestCase(WebTestCase):
    """ALPHA has a console."""

    def lookup_ids(self) -> list[int]:
        """The LookupIdentifiers of the messages in C{ORDERS}."""
        page = self.run_now(self.alpha.service.inspection.browse(ORDERS))
        return [message.lookup_id for message in page.messages]

    def page(self, path: str, status: int = 200) -> Elements:
        """One page."""
        answer = self.get(path)
        self.assertEqual(answer.status, status, answer.body.decode())
        self.assertTrue(answer.headers["Content-Type"].startswith("text/html"))
        return Elements(answer.body.decode())


class PageTests(ConsoleTestCase):
    """Each page shows what the command line shows."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue(label="from the shop")
        self.put(ORDERS, b"<order><number>7</number></order>", label="seven")

    def test_every_page(self) -> None:
        """Every page has a heading, one current entry at most, one script, and nothing from another host."""
        [lookup_id] = self.lookup_ids()
        for path in (*PAGES, f"/messages?queue=.%5Cprivate$%5Corders&id={lookup_id}"):
            page = self.page(path)
            self.assertEqual(page.tags.count("h1"), 1, path)
            self.assertEqual((page.tags.count("script"), page.values("src")), (1, ["/assets/live.js"]))
            self.assertEqual(page.scripts, "")
            self.assertNotIn("style", page.tags)
            for link in (*page.values("href"), *page.values("action"), *page.values("src")):
                self.assertRegex(link, r"\A[/#](?!/)", path)
            self.assertFalse([name for name, _ in page.attributes if name.startswith("on")], path)

    def test_protection(self) -> None:
        """A page may not be framed, cached, or extended; refusals and the style sheet neither."""
        for path in ("/", "/nothing", "/assets/console.css", "/assets/live.js"):
            headers = self.get(path).headers
            self.assertEqual(headers["Content-Security-Policy"], CONTENT_SECURITY_POLICY, path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["X-Frame-Options"], "DENY")
        self.assertEqual(self.get("/").headers["Cache-Control"], "no-store")

    def test_overview(self) -> None:
        """The overview has the state, the figures, and the fullest queues."""
        page = self.page("/")
        self.assertIn("ready", page.text)
        self.assertIn(ORDERS, page.text)
        self.assertIn(f"/messages?queue={quote(ORDERS, safe='')}", page.values("href"))

    def test_fullest_queues(self) -> None:
        """The overview lists the ten fullest queues, the fullest first, and counts the messages of all."""
        for number in range(12):
            path = self.make_queue(f"full-{number:02}")
            self.put(path, *[b"x"] * (number + 1))
        text = self.page("/").text
        positions = [text.index(f"full-{number:02}") for number in range(11, 1, -1)]
        self.assertEqual(positions, sorted(positions))
        self.assertNotIn("full-01", text)
        self.assertIn("79", text)

    def test_alarm(self) -> None:
        """What keeps the queue manager from being ready stands above the figures."""
        self.alpha.model.storage.throttled = True
        self.assertIn("the store is full", self.page("/").text)

    def test_queue(self) -> None:
        """The page of a queue has its label, properties and access list; why explains a decision."""
        page = self.page("/queue?path=.%5Cprivate$%5Corders")
        self.assertIn("from the shop", page.text)
        self.assertIn("no limit", page.text)

    def test_queues_are_found(self) -> None:
        """The filter finds queues by path and label; the columns sort."""
        self.make_queue("invoices")
        self.assertNotIn("invoices", self.page("/queues?filter=SHOP").text)
        text = self.page("/queues?sort=messages&order=down").text
        self.assertLess(text.index("orders"), text.index("invoices"))

    def test_messages(self) -> None:
        """A message has its properties, its body as text and bytes, and a link to its explanation."""
        self.put(ORDERS, bytes(range(256)), label="binary")
        page = self.page("/messages?queue=.%5Cprivate$%5Corders")
        self.assertIn("seven", page.text)
        self.assertIn("binary", page.text)
        [identifier] = [link.rpartition("id=")[2] for link in page.values("href") if "id=" in link][:1]
        page = self.page(f"/messages?queue=.%5Cprivate$%5Corders&id={identifier}")
        self.assertIn("<order><number>7</number></order>", page.text)
        self.assertIn("3c 6f 72 64 65 72 3e", page.text)
        answer = self.get(f"/body?queue=.%5Cprivate$%5Corders&id={identifier}")
        self.assertEqual(answer.body, b"<order><number>7</number></order>")
        self.assertIn("attachment", answer.headers["Content-Disposition"])

    def test_search(self) -> None:
        """Messages are found by an expression and by a text in the body."""
        self.put(ORDERS, b"eight", label="eighth", priority=5)
        for query in ("where=priority+%3E+%604%60", "body=eight"):
            text = self.page(f"/messages?queue=.%5Cprivate$%5Corders&{query}").text
            self.assertIn("eighth", text)
            self.assertNotIn("seven", text)

    def test_search_is_repeated(self) -> None:
        """A search has what was typed in its fields, with joiners that are not seen."""
        typed = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
        for page in (
            f"/messages?queue=.%5Cprivate$%5Corders&body={quote(typed)}",
            f"/queues?filter={quote(typed)}",
            f"/events?text={quote(typed)}",
        ):
            self.assertIn(typed, self.page(page).values("value"), page)

    def test_packet(self) -> None:
        """The bytes of a packet are linked with its fields, as msmq decode finds them."""
        self.make_queue("packets")
        self.put(".\\private$\\packets", b"x" * 5000, label="long")
        page = self.run_now(self.alpha.service.inspection.browse(".\\private$\\packets"))
        [message] = page.messages
        shown = self.page(f"/messages?queue=.%5Cprivate$%5Cpackets&id={message.lookup_id}")
        fields = packet_fields(message.view.packet)
        names = [f"{field.header}.{field.name}" for field in fields if field.offset < 4096]
        titles = [title for title in shown.values("title") if "Header." in title]
        self.assertEqual(list(dict.fromkeys(titles)), names)
        anchors = {link[1:] for link in shown.values("href") if link.startswith(("#byte-", "#field-"))}
        self.assertEqual(len(anchors), 2 * len(names))
        self.assertLess(anchors, set(shown.values("id")))
        label = next(field for field in fields if field.name == "Label")
        self.assertEqual(label.offset % 16, 12)
        self.assertIn(f"{label.offset & ~15:08x}", shown.text)
        self.assertIn("\n00000ff0 ", shown.text)
        self.assertNotIn("\n00001000 ", shown.text)

    def test_events_and_explanation(self) -> None:
        """An event leads to everything known about its message."""
        self.run_now(self.alpha.service.purge_queue(ORDERS))
        page = self.page("/events")
        links = [link for link in page.values("href") if link.startswith("/explain?message=")]
        self.assertTrue(links)
        self.assertIn(ORDERS, self.page(links[0]).text)

    def test_filtered_events(self) -> None:
        """Events are found by kind, queue and text; the page goes on from its last entry with these."""
        self.make_queue("invoices")
        self.put(".\\private$\\invoices", b"1")
        for queue in (ORDERS, ".\\private$\\invoices"):
            self.run_now(self.alpha.service.purge_queue(queue))
        self.alpha.service.note("administered", "token desk: done: queue set")
        self.clock.advance(1)
        for query, has, has_not in (
            ("event=administered", "queue set", "purged"),
            ("queue=INVOI", "invoices", "private$\\orders"),
            ("text=Desk", "queue set", "invoices"),
            ("event=purged&queue=orders", "private$\\orders", "invoices"),
        ):
            page = self.page(f"/events?{query}")
            [shown] = [part for part in [page.text.partition("Reason")[2]] if part]
            self.assertIn(has, shown, query)
            self.assertNotIn(has_not, shown, query)
            [stream] = page.values("data-stream")
            self.assertIn(query.replace("queue=", "event_queue=").replace("text=", "event_text="), stream)

    def test_events_that_are_not_compared(self) -> None:
        """Entries to which an expression could not be applied are counted, with the reason."""
        self.run_now(self.alpha.service.purge_queue(ORDERS))
        self.clock.advance(1)
        text = self.page("/events?where=" + quote("starts_with(sequence, '1')")).text
        self.assertRegex(text, r"\d+ entr(y|ies) could not be compared: ")
        self.assertNotIn("could not be compared", self.page("/events").text)

    def test_links_to_events(self) -> None:
        """Each entry has an address of its own, which shows it first."""
        self.run_now(self.alpha.service.purge_queue(ORDERS))
        self.clock.advance(1)
        page = self.page("/events")
        link = [link for link in page.values("href") if "#event-" in link][-1]
        address, _, anchor = link.partition("#")
        shown = [each for each in self.page(address).values("id") if each.startswith("event-")]
        self.assertEqual(shown[0], anchor)

    def test_pages_of_events(self) -> None:
        """Without a number the page has the last entries, and with it those that follow."""
        for number in range(250):
            self.alpha.service.note("administered", f"change {number:03}")
        self.clock.advance(1)
        latest = self.page("/events").text
        self.assertIn("change 249", latest)
        self.assertNotIn("change 100", latest)
        first = self.page("/events?after=0&event=administered")
        self.assertIn("change 000", first.text)
        [following] = [
            link for link in first.values("href") if link.startswith("/events?event=administered&after=")
        ]
        self.assertIn("change 150", self.page(following).text)
        self.assertIn("change 249", self.page("/events?event=administered&text=change").text)
        self.assertIn("change 007", self.page("/events?text=change+007").text)

    def test_transactions(self) -> None:
        """An open transaction is listed, and its page has its messages."""
        self.make_queue("ledger", transactional=True)
        transaction = self.alpha.service.begin()
        self.run_now(
            self.alpha.service.send(
                ".\\private$\\ledger", [Message(body=b"1", transactional=True)], transaction=transaction
            )
        )
        page = self.page("/transactions")
        self.assertIn(str(transaction.identifier), page.text.lower())
        page = self.page(f"/transaction?id={transaction.identifier}")
        self.assertIn("private$\\ledger", page.text)

    def test_long_transaction(self) -> None:
        """Of a transaction the first thousand messages are listed, and it is said how many there are."""
        self.make_queue("ledger", transactional=True)
        transaction = self.alpha.service.begin()
        messages = [Message(body=b"1", transactional=True)] * 1001
        self.run_now(self.alpha.service.send(".\\private$\\ledger", messages, transaction=transaction))
        text = self.page(f"/transaction?id={transaction.identifier}").text
        self.assertIn("The first 1000 of 1001 messages.", text)

    def test_outgoing(self) -> None:
        """An outgoing queue has its state, and its page the history of its connections."""
        self.put(ELSEWHERE, b"1")
        self.assertIn(ELSEWHERE, self.page("/outgoing").text)
        self.assertIn("Connection history", self.page(f"/outgoing_queue?name={quote(ELSEWHERE)}").text)

    def test_no_directory(self) -> None:
        """Without a directory the page of the enterprise says so."""
        self.assertIn("no directory is configured", self.page("/enterprise").text)


class AssetTests(SynchronousTestCase):
    """Style sheet, scripts and licences."""

    def test_size(self) -> None:
        """All together are under 300 KB, and under 100 KB compressed."""
        content = b"".join(file.read_bytes() for file in sorted(ASSETS.rglob("*")) if file.is_file())
        self.assertLess(len(content), 300_000)
        self.assertLess(len(zlib.compress(content)), 100_000)

    def test_licences(self) -> None:
        """Each library has its licence beside it."""
        libraries = sorted((ASSETS / "d3").glob("*.min.js"))
        self.assertTrue(libraries)
        for library in libraries:
            licence = library.with_name(library.name.replace(".min.js", ".LICENSE"))
            self.assertIn("Permission to use, copy, modify", licence.read_text(encoding="utf-8"))


class DeadLetterTests(ConsoleTestCase):
    """Dead letters are explained."""

    def test_groups(self) -> None:
        """Messages that an operator purged are one group, with the reason in words."""
        self.put(ELSEWHERE, b"1", b"2", dead_letter=True, label="lost")
        self.run_now(self.alpha.service.purge_outgoing(ELSEWHERE))
        text = self.page("/deadletters").text
        self.assertIn("2 in both dead-letter queues", text)
        self.assertIn("An administrator deleted the message before it arrived.", text)
        self.assertIn(ELSEWHERE, text)


class HostileContentTests(ConsoleTestCase):
    """What peers and applications choose is shown as text."""

    def test_labels_and_bodies(self) -> None:
        """Markup stays text, and what turns the direction of text is escaped."""
        self.make_queue(label=HOSTILE)
        self.put(ORDERS, HOSTILE.encode(), label=HOSTILE)
        [lookup_id] = self.lookup_ids()
        for path in (
            "/queues",
            "/queue?path=.%5Cprivate$%5Corders",
            f"/messages?queue=.%5Cprivate$%5Corders&id={lookup_id}",
        ):
            page = self.page(path)
            self.assertEqual((page.tags.count("script"), page.scripts), (1, ""), path)
            self.assertNotIn("img", page.tags, path)
            self.assertIn("<script>alert(1)</script>", page.text, path)
            self.assertNotIn("\u202e", page.text, path)
            self.assertIn("\\u202e", page.text, path)

    def test_parameters(self) -> None:
        """A refusal, and a form that repeats what was typed, show it as text."""
        typed = quote(HOSTILE)
        for path, status in (
            (f"/queue?path={typed}", 400),
            (f"/{typed}", 404),
            (f"/queues?filter={typed}", 200),
            (f"/queues?sort={typed}", 400),
            (f"/events?where={typed}", 400),
        ):
            answer = self.get(path)
            self.assertEqual(answer.status, status, path)
            page = Elements(answer.body.decode())
            self.assertEqual((page.tags.count("script"), page.scripts), (1, ""), path)
            self.assertNotIn("img", page.tags, path)

    def test_large_bodies(self) -> None:
        """Of a body of 4 MB the page shows a part; deep XML is refused by its decoder and shown as text."""
        self.make_queue()
        self.put(ORDERS, b"x" * 0x3F0000, b"<a>" * 20_000)
        for number in self.lookup_ids():
            answer = self.get(f"/messages?queue=.%5Cprivate$%5Corders&id={number}")
            self.assertEqual(answer.status, 200)
            self.assertLess(len(answer.body), 0x60000)
        self.assertIn(
            "xxxx", self.page(f"/messages?queue=.%5Cprivate$%5Corders&id={self.lookup_ids()[0]}").text
        )

    def test_bad_requests(self) -> None:
        """A missing queue, a message that is gone, and unknown parameters are refused in words."""
        self.make_queue()
        for path, status, text in (
            ("/queue?path=.%5Cprivate$%5Cnone", 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ("/messages?queue=.%5Cprivate$%5Corders&id=9", 404, "MQ_ERROR_MESSAGE_NOT_FOUND"),
            ("/messages", 400, "queue is missing"),
            ("/queues?colour=red", 400, "there is no parameter"),
            ("/explain?message=seven", 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            ("/nothing", 404, "there is no resource /nothing"),
        ):
            self.assertIn(text, self.page(path, status).text)


class AccessTests(ConsoleTestCase):
    """Where tokens are configured, every page needs one."""

    tokens = (f"desk reader {TOKEN.decode()[7:]}",)

    def test_a_token_is_needed(self) -> None:
        """Without a token no page is shown, on loopback too; health stays open."""
        for path in (*PAGES, "/body?queue=.%5Cprivate$%5Corders&id=0", "/nothing"):
            answer = self.get(path)
            self.assertEqual((answer.status, answer.json["error"]), (401, "MQ_ERROR_ACCESS_DENIED"), path)
        self.assertEqual(self.get("/", headers={"Authorization": TOKEN.decode()}).status, 200)
        self.assertEqual(self.get("/health/live").status, 200)


class OtherSiteTests(ConsoleTestCase):
    """Pages of other sites in a browser of this machine."""

    def test_other_hosts(self) -> None:
        """A request that names another host (DNS rebinding) reads nothing."""
        for path in PAGES:
            self.assertEqual(self.get(path, headers={"Host": "evil.example"}).status, 403, path)

    def test_changes_are_refused(self) -> None:
        """The console only reads."""
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get("/queues", method).status, 405)
