"""C{msmq token}: the tokens with which callers of the control API and the console authenticate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import click

from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.times import parse_time
from msmq.control.authentication.roles import Role
from msmq.quantities import parse_duration

_BYTES: Final = 32
"""The random bytes of a token."""


@click.group
@common_options
def token() -> None:
    """Create tokens for callers of the control API and the console."""


@token.command("new")
@click.argument("name", type=GIVEN)
@click.option(
    "--role",
    type=click.Choice([role.name.lower() for role in Role]),
    default="reader",
    show_default=True,
    help="What its caller may do.",
)
@click.option(
    "--expires",
    metavar="TIME",
    help="When it ends: a time of UTC, or a duration from now: 90d.  [default: never]",
)
@common_options
@pass_settings
def token_new(settings: Settings, name: str, role: str, expires: str | None) -> None:
    """Generate a token, and print it once, with the line for the server's token file.

    The line has the digest of the token alone, so the file of the server does not reveal it.  The caller
    keeps the token in a file of its own (--token-file).
    """
    import secrets
    from hashlib import sha256

    from msmq.control.authentication.tokens import TokenError, parse_token_line

    settings.refuse_on()
    text = secrets.token_hex(_BYTES)
    line = f"{name} {role} sha256:{sha256(text.encode('ascii')).hexdigest()}"
    if expires is not None:
        line = f"{line} expires={_end(expires)}"
    try:
        parse_token_line(line.encode("utf-8", "surrogateescape"))
    except TokenError as error:
        raise click.UsageError(str(error)) from error
    settings.output.one({"token": text, "line": line})
    settings.output.flush()


def _end(text: str) -> str:
    """The end of a token as its line has it, in UTC."""
    now = datetime.now(UTC)
    try:
        moment = now + timedelta(seconds=parse_duration(text))
    except (OverflowError, ValueError):
        # An age is in the past, where no token ends.
        try:
            moment = datetime.fromisoformat(parse_time(text)).replace(tzinfo=UTC)
        except ValueError:
            raise click.UsageError(
                f"--expires: {text} is neither a time as 2027-01-31T12:00:00 nor a duration as 90d"
            ) from None
    if moment <= now:
        raise click.UsageError(f"--expires: {text} is in the past")
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
