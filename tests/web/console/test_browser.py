"""The console of a real server in Chromium."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from playwright.sync_api import BrowserContext, Page, expect
from twisted.trial.unittest import SynchronousTestCase

from msmq.web.console.pages.messages import LOOKED_AT
from tests.patience import DEADLINE
from tests.web.console.browser import ABSENT, HOSTILE, ORDERS, TOKEN, shared_server, start_browser

PURGED: Final = "event == 'purged'"
PURGED_WORD: Final = "purged"
PATIENCE: Final = 1000 * DEADLINE
POINTS: Final = re.compile(r"^[\d., ]+$")
"""Of a line with at least two points."""
AXE: Final = Path(__file__).parent / "axe-core" / "axe.min.js"
_VIOLATIONS: Final = """async rules =>
    (await axe.run({runOnly: rules, resultTypes: ["violations"]})).violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => each.id + ": " + each.nodes[0].html)"""
_MARK_FOCUSABLE: Final = """() => {
    const kinds = "a[href], button, input, select, textarea, summary, [tabindex]";
    const all = [...document.querySelectorAll(kinds)].filter(
        each => each.type !== "hidden" && !each.disabled && each.checkVisibility());
    all.forEach((each, number) => { each.dataset.number = number; });
    return all.length;
}"""
_FOCUSED: Final = """() => {
    const style = getComputedStyle(document.activeElement);
    return [Number(document.activeElement.dataset.number), style.outlineStyle !== "none"];
}"""
# The library gives up after five seconds by default.
expect.set_options(timeout=PATIENCE)
_WIDE: Final = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


class ConsoleInBrowserTests(SynchronousTestCase):
    """Pages as an operator sees them, compared with the command."""

    def setUp(self) -> None:
        self.browser = start_browser(self)
        self.server = shared_server()

    def open(self, path: str, *, scheme: Any = "light", width: int = 1280) -> Page:
        """Open a page; requests to other hosts and errors of the page fail the test."""
        return self.visit(self.context(scheme, width), path)

    def context(self, scheme: Any, width: int) -> BrowserContext:
        """A window of its own, of an operator who has logged in."""
        # axe-core is a script, which the policy of the pages would not let run.
        context = self.browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": 800},
            bypass_csp=True,
            storage_state=self.server.cookies(self.browser),
        )
        self.addCleanup(context.close)
        return context

    def visit(self, context: BrowserContext, path: str) -> Page:
        """Open a page in a window, and note what it requests."""
        page = context.new_page()
        self.requests: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.requests.append(f"error: {error}"))
        page.goto(self.server.base + path)
        return page

    def pages(self) -> list[str]:
        """Every page, with objects that exist."""
        [first, *_] = self.server.msmq("queue", "browse", ORDERS, "--limit", "1")
        orders = quote(ORDERS)
        return [
            "/",
            "/queues?system=true",
            f"/queue?path={orders}&principal=Everyone&right=send",
            # One row, since axe-core takes long for many that are alike.
            f"/messages?queue={orders}&body=order%3E59&id={first['lookup_id']}",
            "/journals",
            f"/log?path={orders}&from=1",
            "/deadletters",
            f"/deadletters/requeue?queue=.%5Csystem$;deadletter&class=32769&destination={quote(ABSENT)}",
            f"/message/resend?queue={orders}&id={first['lookup_id']}",
            "/outgoing",
            f"/outgoing_queue?name={quote(ABSENT)}",
            "/sessions",
            f"/session?id={self.server.open_session()}",
            f"/explain?message={quote(first['id'])}",
            f"/events?after=0&where={quote(PURGED)}",
            "/transactions",
            "/enterprise?source=ALPHA&destination=LUCA",
            "/configuration?all=true",
            "/nothing",
            "/login",
        ]

    def test_accessibility(self) -> None:
        """axe-core finds no serious violation on any page, in both colour schemes and widths.

        No page is wider than the window, and nothing is requested from another host.
        """
        axe = AXE.read_text(encoding="utf-8")
        paths = self.pages()
        everything = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
        # The elements are the same in both schemes.
        for scheme, width, rules in (("light", 1280, everything), ("dark", 390, ["color-contrast"])):
            page = self.visit(self.context(scheme, width), paths[0])
            for path in paths:
                page.goto(self.server.base + path)
                # Forms of changes are folded.
                page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
                page.evaluate(axe)
                self.assertEqual(page.evaluate(_VIOLATIONS, rules), [], (path, scheme))
                self.assertFalse(page.evaluate(_WIDE), (path, width))
            self.assertEqual([url for url in self.requests if not url.startswith(self.server.base)], [])

    def test_an_operator_finds_a_message(self) -> None:
        """Links and forms lead from the overview to one message, which is the one that the command shows."""
        page = self.open("/")
        page.get_by_role("link", name="Queues", exact=True).click()
        page.get_by_label("Path or label contains").fill("SHOP")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name=ORDERS).click()
        page.get_by_role("link", name="60", exact=True).click()
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_role("link", name="Continue after").click()
        expect(page.locator("tbody tr")).to_have_count(10)
        page.get_by_label("Body contains").fill("<order>57<")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="order 57").click()
        [found] = self.server.msmq("queue", "browse", ORDERS, "--body", "<order>57<")[:1]
        properties = page.locator(".panels .properties").inner_text()
        self.assertIn(found["id"], properties)
        self.assertIn(str(found["lookup_id"]), properties)
        self.assertIn('"order": "57"', page.get_by_text('"format": "xml"').inner_text())

    def test_the_rest_of_a_queue_is_searched(self) -> None:
        """A search goes on beyond what one page looks at, with its progress, and leads to the message."""
        path = ".\\private$\\long"
        self.server.msmq("queue", "create", path)
        self.addCleanup(self.server.msmq, "queue", "delete", path, "--yes")
        self.server.msmq("send", path, "--body", "hay", "--count", str(LOOKED_AT + 500))
        page = self.open(f"/messages?queue={quote(path)}&body=needle")
        button = page.get_by_role("button", name="Search the rest of the queue")
        button.click()
        status = page.locator(".search").get_by_role("status")
        expect(status).to_contain_text("more messages looked at: none matches.")
        self.server.msmq("send", path, "--body", "needle", "--label", "found")
        button.click()
        page.get_by_role("link", name="found", exact=True).click()
        [found] = self.server.msmq("queue", "browse", path, "--body", "needle")[:1]
        self.assertIn(found["id"], page.locator(".panels .properties").inner_text())

    def test_an_operator_changes_queues(self) -> None:
        """A queue is created, set, paused, purged and deleted; the command sees each change."""
        path = ".\\private$\\made"
        page = self.open("/queues")
        page.get_by_text("Create a queue").click()
        page.get_by_label("Path", exact=True).fill(path)
        page.get_by_role("button", name="Create").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("The queue is created.")
        page.get_by_text("Set properties").click()
        page.get_by_label("Label").fill("by hand")
        page.get_by_label("journal", exact=True).check()
        page.get_by_role("button", name="Set", exact=True).click()
        expect(page.locator("main").get_by_role("status")).to_have_text("The properties are set.")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("It is paused.")
        self.assertEqual(self.queue(path, "label", "journal", "paused"), ["by hand", True, True])
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("It is resumed.")
        self.server.msmq("send", path, "--body", "1", "--count", "3")
        page.reload()
        page.get_by_text("Purge", exact=True).first.click()
        page.get_by_label("To remove all messages").fill("3")
        page.get_by_role("button", name="Purge").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("3 messages were purged.")
        self.assertEqual(self.queue(path, "messages"), [0])
        page.get_by_text("Delete", exact=True).first.click()
        page.get_by_label("To delete the queue").fill(path)
        page.get_by_role("button", name="Delete").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("The queue is deleted.")
        self.assertNotIn(path, [each["path"] for each in self.server.msmq("queue", "list")])

    def test_an_operator_changes_messages(self) -> None:
        """Selected messages are copied and removed, and a group of dead letters is sent again."""
        path = ".\\private$\\changed"
        self.server.msmq("queue", "create", path)
        self.addCleanup(self.server.msmq, "queue", "delete", path, "--yes")
        for label in ("one", "two", "three"):
            self.server.msmq("send", path, "--label", label, "--body", label)
        page = self.open(f"/messages?queue={quote(path)}")
        page.get_by_role("row", name="one").get_by_role("checkbox").check()
        page.get_by_label("Selected messages to").fill(path)
        page.get_by_role("button", name="Copy").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("1 message was copied.")
        page.get_by_role("row", name="two").get_by_role("checkbox").check()
        page.get_by_role("row", name="three").get_by_role("checkbox").check()
        page.get_by_role("button", name="Remove").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("2 messages were removed.")
        self.assertEqual(self.labels(path), ["one", "one"])
        self.server.lose("found")
        page.goto(self.server.base + "/deadletters")
        page.get_by_role("link", name="Send again").click()
        page.get_by_label("To", exact=True).fill(path)
        page.get_by_role("button", name="Send again").click()
        expect(page.locator("main").get_by_role("status")).to_contain_text("sent again")
        self.assertIn("found", self.labels(path))
        # The other tests expect the one that was lost before.
        self.server.lose("lost")

    def queue(self, path: str, *keys: str) -> list[Any]:
        """Properties of a queue, as the command prints them."""
        [found] = self.server.msmq("queue", "show", path)
        return [found[key] for key in keys]

    def labels(self, path: str) -> list[str]:
        """The labels of the messages in a queue, as the command prints them."""
        return [each["label"] for each in self.server.msmq("queue", "browse", path) if "label" in each]

    def test_dead_letters_in_words(self) -> None:
        """The page counts the dead letters that the command lists, and says what happened."""
        page = self.open("/deadletters")
        listed = self.server.msmq("deadletter", "list")
        self.assertEqual([each["label"] for each in listed if "label" in each], ["lost"])
        text = page.locator("main").inner_text()
        self.assertIn("An administrator deleted the message before it arrived.", text)
        self.assertIn(ABSENT, text)

    def test_an_operator_closes_a_session_and_reloads(self) -> None:
        """A session is closed, and the configuration reloaded after a look at what changes."""
        identifier = self.server.open_session()
        page = self.open(f"/session?id={identifier}")
        page.get_by_text("Close", exact=True).click()
        page.get_by_role("button", name="Close the session").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("The session is closed.")
        sessions = [each["identifier"] for each in self.server.msmq("session", "list")]
        self.assertNotIn(identifier, sessions)
        former = self.server.configuration.read_text()
        self.addCleanup(self.server.msmq, "config", "reload")
        self.addCleanup(self.server.configuration.write_text, former)
        self.server.configuration.write_text(f"{former}[limits]\nevents = 77777\n")
        page.goto(self.server.base + "/configuration")
        row = page.get_by_role("region", name="A reload applies these values.").get_by_role("row").last
        expect(row).to_have_text(re.compile(r"limits\.events\s*100000\s*77777"))
        page.get_by_role("button", name="Reload").click()
        expect(page.locator("main").get_by_role("status")).to_have_text("The configuration is reloaded.")
        [shown] = self.server.msmq("config", "show", "limits.events")
        self.assertEqual((shown["value"], shown["differs"]), (77777, False))

    def test_live_figures(self) -> None:
        """The figures of an open page change without another request for it, also after a restart."""
        path = ".\\private$\\live"
        self.server.msmq("queue", "create", path)
        context = self.browser.new_context(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
        self.addCleanup(context.close)
        page = self.visit(context, f"/queue?path={quote(path)}")
        live = page.locator("#live")
        messages = page.locator("[data-live=queue][data-key=messages]")
        expect(live).to_have_text("Live.")
        expect(messages).to_have_text("0")
        self.server.send(path, [{"label": "one", "body": "1"}])
        expect(messages).to_have_text("1")
        pause, resume = (page.get_by_role("button", name=name) for name in ("Pause", "Resume"))
        self.server.msmq("queue", "pause", path)
        expect(resume).to_be_visible()
        expect(pause).to_be_hidden()
        self.server.msmq("queue", "resume", path)
        expect(pause).to_be_visible()
        expect(resume).to_be_hidden()
        self.assertEqual([url for url in self.requests if "/queue?" in url and "stream" not in url][1:], [])
        self.server.stop()
        expect(live).to_contain_text("Disconnected since")
        self.server.start()
        expect(live).to_have_text("Live.")
        self.server.send(path, [{"label": HOSTILE, "body": "2", "delivery": "recoverable"}])
        expect(page.locator("[data-live=queue][data-key=sent_total]")).to_have_text("1")
        shown = {
            each.get_attribute("data-key"): each.inner_text() for each in page.locator("[data-live]").all()
        }
        page.reload()
        again = {
            each.get_attribute("data-key"): each.inner_text() for each in page.locator("[data-live]").all()
        }
        self.assertEqual(shown, again)
        page.locator("h1").click()
        self.server.msmq("queue", "delete", path, "--yes")
        expect(page.get_by_text("This queue no longer exists.")).to_be_visible()

    def test_last_hour_and_events(self) -> None:
        """The overview draws the last hour, and the event log shows what is recorded."""
        page = self.open("/events?event=purged")
        expect(page.locator("#live")).to_have_text("Live.")
        self.server.lose(HOSTILE)
        row = page.locator("tbody tr", has_text=PURGED_WORD).last
        [entry] = self.server.msmq("events", "--where", PURGED)[-1:]
        expect(row).to_contain_text(entry["message"])
        self.assertEqual(set(page.locator("tbody td:nth-child(3)").all_inner_texts()), {PURGED_WORD})
        page = self.open("/")
        line = page.locator("[data-spark=messages] polyline")
        expect(line).to_have_attribute("points", POINTS)
        label = page.locator("[data-spark=messages] svg").get_attribute("aria-label")
        self.assertRegex(label or "", r"^now \d+, at most \d+ in the last \d+ min$")

    def test_route_on_the_map(self) -> None:
        """Two of them are chosen, by mouse and by keyboard, for their route; what is down is marked."""
        page = self.open("/enterprise")
        machines = page.locator(".map .machine")
        expect(machines).to_have_count(4)
        expect(page.locator(".map .down.machine")).to_have_text(re.compile("IRIS ✕"))
        expect(page.locator(".map .down.link")).to_have_text(re.compile("7 ✕"))
        machines.filter(has_text="ALPHA").click()
        expect(page.locator("#map").get_by_role("status")).to_contain_text("Route from ALPHA")
        goal = machines.filter(has_text="LUCA")
        # What is hidden takes no focus, and a map is until it has been laid out.
        expect(goal).to_be_visible()
        goal.focus()
        page.keyboard.press("Enter")
        [found] = self.server.msmq("route", "ALPHA", "LUCA")
        expect(page.locator("#route li strong")).to_have_text([hop["name"] for hop in found["hops"]])
        expect(page.locator("#route li").first).to_contain_text(found["hops"][0]["reason"])
        expect(page.locator(".map .step")).to_have_count(len(found["hops"]))
        self.assertEqual([each for each in self.requests if each.startswith("error")], [])
        page.get_by_label("while these are down").fill("IRIS")
        page.get_by_role("button", name="Route").click()
        expect(page.locator("#route")).to_contain_text("the message waits at ALPHA for IRIS")

    def test_hostile_content(self) -> None:
        """A label and a body with markup are shown as text, and no script runs."""
        path = quote(".\\private$\\hostile")
        for address in ("/queues", f"/queue?path={path}", f"/messages?queue={path}", "/enterprise"):
            page = self.open(address)
            self.assertNotEqual(page.title(), "taken", address)
            self.assertIn(HOSTILE[:39], page.locator("main").inner_text(), address)
            self.assertEqual(page.locator("main img, main script").count(), 0, address)
        self.assertNotIn("taken", json.dumps(self.requests))

    def test_scripts_are_forbidden(self) -> None:
        """A script that got into a page would not run: the policy of the pages forbids it."""
        context = self.browser.new_context()
        self.addCleanup(context.close)
        page = self.visit(context, "/login")
        page.evaluate(
            "() => { const script = document.createElement('script'); script.textContent = \"document.title ="
            " 'taken'\"; document.body.append(script); }"
        )
        self.assertEqual(page.title(), "Log in")

    def test_keyboard(self) -> None:
        """The first key leads past the navigation, and the focus is visible."""
        page = self.open("/queues")
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        self.assertEqual(focused.inner_text(), "Skip to the content")
        self.assertEqual(focused.evaluate("each => getComputedStyle(each).outlineStyle"), "solid")
        page.keyboard.press("Enter")
        page.wait_for_url("**/queues#content")

    def test_everything_is_reached_by_keys(self) -> None:
        """Tab leads to every link, button and field of a page in turn, each visibly, and out of it again."""
        orders = quote(ORDERS)
        context = self.context("light", 1280)
        page = self.visit(context, "/")
        for path in ("/", f"/queue?path={orders}", f"/messages?queue={orders}&body=order%3E59", "/events"):
            page.goto(self.server.base + path)
            page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            reached = set()
            expected = page.evaluate(_MARK_FOCUSABLE)
            for _ in range(expected):
                page.keyboard.press("Tab")
                number, is_visible = page.evaluate(_FOCUSED)
                self.assertTrue(is_visible, (path, page.locator(":focus").inner_html()))
                reached.add(number)
            self.assertEqual(reached, set(range(expected)), path)

    def test_a_queue_is_purged_by_keys(self) -> None:
        """An operator finds a queue, types the number of its messages and purges it without a mouse."""
        path = ".\\private$\\by-keys"
        self.server.msmq("queue", "create", path)
        self.addCleanup(self.server.msmq, "queue", "delete", path, "--yes")
        self.server.msmq("send", path, "--body", "1", "--count", "2")
        page = self.open("/queues")
        page.get_by_label("Path or label contains").focus()
        page.keyboard.type("BY-KEYS")
        page.keyboard.press("Enter")
        page.wait_for_url("**filter=BY-KEYS**")
        page.get_by_role("link", name=path).focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/queue?path=**")
        page.locator("summary", has_text="Purge").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("2")
        page.keyboard.press("Enter")
        expect(page.locator("main").get_by_role("status")).to_have_text("2 messages were purged.")
        self.assertEqual(self.queue(path, "messages"), [0])
