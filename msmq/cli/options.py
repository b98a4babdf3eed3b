"""The options that every verb takes, before the verb and after it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from msmq.cli.output import Output

if TYPE_CHECKING:
    from msmq.control.client import ControlClient

_C = TypeVar("_C", bound=Callable[..., object])


@attrs.define
class Settings:
    """What the common options say so far.

    @ivar control: where the server is, as the last option that names it has it.
    @ivar token_file: what a server over the network wants to see.
    """

    control: str | None = None
    token_file: str | None = None
    as_json: bool = False

    @property
    def output(self) -> Output:
        """Where to write."""
        return Output(self.as_json)

    @property
    def client(self) -> ControlClient:
        """The server that the options, the environment or the place point to."""
        from msmq.control.client import ControlClient
        from msmq.control.locations import LocationError, parse_location

        control = self._place
        token_file = self.token_file or os.environ.get("MSMQ_TOKEN_FILE")
        try:
            return ControlClient(parse_location(control, token_file=token_file))
        except LocationError as error:
            raise click.UsageError(f"--control: {error}") from error

    @property
    def data(self) -> str:
        """The data directory of that server, if its socket is there."""
        kind, _, rest = self._place.partition(":")
        if kind in ("tcp", "ssl", "tls") and rest:
            raise click.UsageError("a store is read where it is: name it with --store, or with --data")
        return os.path.dirname(self._place.removeprefix("unix:")) or "."

    @property
    def _place(self) -> str:
        return self.control or os.environ.get("MSMQ_CONTROL") or _socket_in("msmq-data")


class Seconds(click.FloatRange):
    """A time, which is a number that has an end: what is none would never be over."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return found


pass_settings = click.make_pass_decorator(Settings, ensure=True)
"""Hands a verb its L{Settings}."""


def common_options(command: _C) -> _C:
    """Let a verb, or the command itself, take C{--data}, C{--control}, C{--token-file} and C{--json}."""
    for option in (
        click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            callback=_take_json,
            help="Print one JSON object a line, and nothing else.",
        ),
        click.option(
            "--token-file",
            metavar="F",
            expose_value=False,
            callback=_take_token_file,
            help="The file with the token of a server over the network.  [env: MSMQ_TOKEN_FILE]",
        ),
        click.option(
            "--control",
            metavar="PLACE",
            expose_value=False,
            callback=_take_control,
            help="The control socket of the server, or ssl:HOST:PORT.  [env: MSMQ_CONTROL]",
        ),
        click.option(
            "--data",
            metavar="DIR",
            expose_value=False,
            callback=_take_data,
            help="The data directory of the server.  [default: ./msmq-data]",
        ),
    ):
        command = option(command)
    return command


def _socket_in(directory: str) -> str:
    return "unix:" + os.path.join(directory, "control.sock")


def _take_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Settings).as_json = True


def _take_control(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).control = value


def _take_token_file(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).token_file = value


def _take_data(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).control = _socket_in(value)
