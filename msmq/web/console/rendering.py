"""Renders the templates of the console; every value in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from twisted.web.server import Request

from msmq import quantities
from msmq.decoding.values import unix_time
from msmq.web.console import presentation
from msmq.web.console.alarm_pages import alarm_page
from msmq.web.console.page_roles import offers

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but the style sheet and the script of this server is loaded, and no script within a page runs."""

ASSETS: Final = Path(__file__).parent / "assets"

_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    # With "no-referrer" browsers send the Origin of a form as "null", which the server refuses.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}


def protect(request: Request) -> None:
    """Set the headers that keep other sites from framing, loading and extending a response."""
    for name, value in _HEADERS.items():
        request.setHeader(name.encode(), value.encode())


class CompiledTemplates(BytecodeCache):
    """Keeps the code of compiled templates for all renderers of the process."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """See L{BytecodeCache.load_bytecode}."""
        if (code := self._code.get(bucket.key)) is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """See L{BytecodeCache.dump_bytecode}."""
        self._code[bucket.key] = bucket.bytecode_to_string()


_COMPILED: Final = CompiledTemplates()


def compile_templates() -> None:
    """Compile all templates, which takes a fifth of a second; a thread does it before the first request."""
    PageRenderer("", None).compile()


class PageRenderer:
    """Renders pages.

    @param name: the name of the queue manager, shown on every page.
    @param zone: the time zone of the times shown; C{None} for that of the process.
    """

    def __init__(self, name: str, zone: tzinfo | None) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            auto_reload=False,
            bytecode_cache=_COMPILED,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalized,
        )
        self._environment.globals |= {
            "manager_name": name,
            "alarm_page": alarm_page,
            "offers": offers,
            "utc_offset": lambda: presentation.utc_offset(datetime.now(UTC), zone),
        }
        self._environment.filters |= {
            "segment": partial(quote, safe="", errors="replace"),
            "count": quantities.count,
            "size": quantities.size,
            "kilobytes": quantities.kilobytes,
            "duration": quantities.duration,
            "seconds": quantities.seconds,
            "when": partial(presentation.shown_time, zone=zone),
            "moment": unix_time,
        }

    def compile(self) -> None:
        """Compile all templates."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def page(self, request: Request, template: str, values: dict[str, Any], status: int = 200) -> bytes:
        """Set status and headers of a page, and return its body."""
        return self.finished(request, self.parts(template, values), status)

    def parts(self, template: str, values: dict[str, Any]) -> Iterator[str]:
        """The parts of a page, for a caller that pauses in between."""
        return self._environment.get_template(template).generate(values)

    def finished(self, request: Request, parts: Iterable[str], status: int = 200) -> bytes:
        """Set status and headers of a page, and return its body."""
        body = "".join(parts).encode("utf-8", "backslashreplace")
        request.setResponseCode(status)
        protect(request)
        request.setHeader(b"content-type", b"text/html; charset=utf-8")
        request.setHeader(b"content-length", b"%d" % len(body))
        return body


def _finalized(value: object) -> object:
    """A missing value is a dash; text has its hidden characters escaped."""
    if value is None:
        return "\u2013"
    return presentation.visible(value) if type(value) is str else value
