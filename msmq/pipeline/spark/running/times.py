"""Command-line options that are times."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime

from msmq.quoting import quoted


def add_times(parser: ArgumentParser, what: str) -> None:
    """The options C{--since} and C{--until}.

    @param what: the rows that they select, for the help, such as C{what was sent}.
    """
    parser.add_argument("--since", type=time_of, metavar="TIME", help=f"only {what} at TIME or later")
    parser.add_argument("--until", type=time_of, metavar="TIME", help=f"only {what} before TIME")


def time_of(text: str) -> int:
    """Parse a time in ISO 8601, UTC unless it has an offset, as microseconds since 1970-01-01 UTC.

    @raise ArgumentTypeError: the text is not a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{quoted(text[:100])} is not a time in ISO 8601, such as 2026-01-31T12:00"
        ) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000)
