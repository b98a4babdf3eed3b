"""The headers of a request, whose values may be any bytes."""

from __future__ import annotations

from twisted.web.http import Request


def header_values(request: Request, name: str) -> list[str]:
    """The values of a header, in their order; empty without it.

    What is not UTF-8 is replaced by U+FFFD, which is in no value that means anything: Twisted's own decoding
    raises, and the connection would end with a traceback in the log and without an answer.
    """
    return [
        value.decode("utf-8", "replace") for value in request.requestHeaders.getRawHeaders(name.encode(), [])
    ]


def header_value(request: Request, name: str) -> str:
    """The last value of a header; empty without it. See L{header_values}."""
    return header_values(request, name)[-1] if request.requestHeaders.hasHeader(name.encode()) else ""
