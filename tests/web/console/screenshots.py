"""Makes the pictures of the documentation, from a server with an example of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import UUID

from playwright.sync_api import sync_playwright

from tests.web.console.browser import ABSENT, CHROMIUM, ENTERPRISE, OPTIONS, ORDERS, TOKEN, ConsoleServer

_TARGET: Final = Path(__file__).resolve().parents[3] / "docs" / "guide" / "images"
_SIZE: Final = 1120
_HEIGHT: Final = 640


class ShopServer(ConsoleServer):
    """The queue manager of a shop, one of whose customers is not reached."""

    enterprise = ENTERPRISE

    def _fill(self) -> None:
        for name, label in (("orders", "from the shop"), ("invoices", "for billing"), ("returns", "")):
            self.msmq("queue", "create", f".\\private$\\{name}", "--label", label, "--journal")
            kind = name.removesuffix("s")
            lines = [
                {"label": f"{kind} {number}", "body": f"<{kind} number='{number}'><item>tea</item></{kind}>"}
                for number in range(1, 2 * len(name))
            ]
            self.send(f".\\private$\\{name}", lines)
        self.lose("order 17")
        self.lose("order 18")
        self.send(ABSENT, [{"label": "order 19", "body": "19", "delivery": "recoverable"}])
        routed = {"label": "order 20", "body": "20", "delivery": "recoverable"}
        self.send(f"PRIVATE={UUID(int=0xE4)}\\00000001", [routed])


def main() -> None:
    """Write the pictures."""
    _TARGET.mkdir(parents=True, exist_ok=True)
    server = ShopServer()
    [first, *_] = server.msmq("queue", "browse", ORDERS, "--limit", "1")
    pages = {
        "overview": "/",
        "messages": f"/messages?queue={quote(ORDERS)}&id={first['lookup_id']}",
        "dead-letters": "/deadletters",
        "enterprise": "/enterprise?source=ALPHA&destination=LUCA",
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        context = browser.new_context(
            viewport={"width": _SIZE, "height": _HEIGHT},
            extra_http_headers={"Authorization": f"Bearer {TOKEN}"},
            reduced_motion="reduce",
        )
        page = context.new_page()
        for name, path in pages.items():
            page.goto(server.base + path)
            page.locator("#live:not([hidden]), body[data-stream='']").first.wait_for(state="attached")
            page.screenshot(path=_TARGET / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
