"""The console of a real server in Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from playwright.sync_api import BrowserContext, Page, expect
from twisted.trial.unittest import SynchronousTestCase

from tests.web.console.browser import ABSENT, HOSTILE, ORDERS, shared_server, start_browser

PURGED: Final = "event == 'purged'"
AXE: Final = Path(__file__).parent / "axe-core" / "axe.min.js"
_VIOLATIONS: Final = """async rules =>
    (await axe.run({runOnly: rules, resultTypes: ["violations"]})).violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => each.id + ": " + each.nodes[0].html)"""
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
        """A window of its own."""
        # axe-core is a script, which the policy of the pages would not let run.
        context = self.browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True
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
            "/deadletters",
            "/outgoing",
            f"/outgoing_queue?name={quote(ABSENT)}",
            "/sessions",
            f"/explain?message={quote(first['id'])}",
            f"/events?where={quote(PURGED)}",
            "/transactions",
            "/enterprise",
            "/nothing",
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
            context = self.context(scheme, width)
            for path in paths:
                page = self.visit(context, path)
                page.evaluate(axe)
                self.assertEqual(page.evaluate(_VIOLATIONS, rules), [], (path, scheme))
                self.assertFalse(page.evaluate(_WIDE), (path, width))
                self.assertEqual([url for url in self.requests if not url.startswith(self.server.base)], [])
                page.close()

    def test_an_operator_finds_a_message(self) -> None:
        """Links and forms lead from the overview to one message, which is the one that the command shows."""
        page = self.open("/")
        page.get_by_role("link", name="Queues", exact=True).click()
        page.get_by_label("Path or label contains").fill("SHOP")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name=ORDERS).click()
        page.get_by_role("link", name="60").click()
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

    def test_dead_letters_in_words(self) -> None:
        """The page counts the dead letters that the command lists, and says what happened."""
        page = self.open("/deadletters")
        listed = self.server.msmq("deadletter", "list")
        self.assertEqual([each["label"] for each in listed if "label" in each], ["lost"])
        text = page.locator("main").inner_text()
        self.assertIn("An administrator deleted the message before it arrived.", text)
        self.assertIn(ABSENT, text)

    def test_hostile_content(self) -> None:
        """A label and a body with markup are shown as text, and no script runs."""
        path = quote(".\\private$\\hostile")
        for address in ("/queues", f"/queue?path={path}", f"/messages?queue={path}"):
            page = self.open(address)
            self.assertNotEqual(page.title(), "taken", address)
            self.assertIn(HOSTILE[:39], page.locator("main").inner_text(), address)
            self.assertEqual(page.locator("main img, main script").count(), 0, address)
        self.assertNotIn("taken", json.dumps(self.requests))

    def test_scripts_are_forbidden(self) -> None:
        """A script that got into a page would not run: the policy of the pages forbids it."""
        context = self.browser.new_context()
        self.addCleanup(context.close)
        page = self.visit(context, "/")
        page.evaluate(
            "() => { const script = document.createElement('script'); script.textContent = \"document.title ="
            " 'taken'\"; document.body.append(script); }"
        )
        self.assertEqual(page.title(), "Overview \u2013 ALPHA")

    def test_keyboard(self) -> None:
        """The first key leads past the navigation, and the focus is visible."""
        page = self.open("/queues")
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        self.assertEqual(focused.inner_text(), "Skip to the content")
        self.assertEqual(focused.evaluate("each => getComputedStyle(each).outlineStyle"), "solid")
        page.keyboard.press("Enter")
        page.wait_for_url("**/queues#content")
