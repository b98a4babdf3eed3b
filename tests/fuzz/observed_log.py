"""What a target logs as an error, which no input may cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from zope.interface import provider

from tests.fuzz.finding import Finding


@contextmanager
def without_failures() -> Iterator[None]:
    """Report a critical line, and a failure that was logged and not handled."""
    failed: list[str] = []

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        failure = event.get("log_failure")
        if event.get("log_level") is LogLevel.critical or failure is not None:
            text = event.get("log_format") if failure is None else failure.getTraceback()
            failed.append(str(text)[-3000:])

    globalLogPublisher.addObserver(observe)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observe)
    if failed:
        raise Finding(f"nothing fails unexpectedly: {failed[0]}")
