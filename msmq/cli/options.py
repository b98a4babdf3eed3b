"""Common options of all verbs, before or after the verb."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from msmq.cli.output import Output
from msmq.quantities import DURATION_FORM, KIBIBYTE, SIZE_FORM, parse_duration, parse_size
from msmq.quoting import quoted
from msmq.spelling import closest
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.control.client.client import ControlClient

_C = TypeVar("_C", bound=Callable[..., object])


@attrs.define
class Settings:
    """The values of the common options.

    @ivar control: the endpoint of the server, from the last option that sets it.
    @ivar token_file: the file with the token for a remote server.
    @ivar utc: print times in UTC.
    @ivar on: the member of the estate on which the verb runs, by its control endpoint.
    @ivar patience: seconds without a byte of a response after which a server counts as lost.
    """

    control: str | None = None
    token_file: str | None = None
    as_json: bool = False
    utc: bool = False
    on: str | None = None
    patience: float | None = None
    _member: ControlClient | None = attrs.field(default=None, init=False)

    @property
    def output(self) -> Output:
        """The output."""
        return Output(self.as_json, self.utc)

    @property
    def client(self) -> ControlClient:
        """The server of the options, the environment or the data directory, or the member of C{--on}.

        @raise MQError: MQ_ERROR_MACHINE_NOT_FOUND if the server knows no control endpoint of that member.
        """
        server = self._client_at(self._control_location, "--control")
        if self.on is None:
            return server
        if self._member is None:
            self._member = self._client_on(self.on, server)
        return self._member

    def client_of(self, host: str, option: str = "--ask") -> ControlClient:
        """The client of another server: an endpoint as for C{--control}, a data directory, or a member as for
        C{--on}.

        @param host: a member, unless it has a slash or begins with C{ssl:}, C{tls:}, C{tcp:} or C{unix:}.
        @param option: the option that names it, for errors.
        @raise MQError: as of L{client}.
        """
        if is_remote(host):
            return self._client_at(host, f"{option} {host}")
        if "/" in host or host.startswith("unix:"):
            return self._client_at(local_endpoint(host), f"{option} {host}")
        return self._client_on(host, self._client_at(self._control_location, "--control"), option)

    def _client_on(self, name: str, server: ControlClient, option: str = "--on") -> ControlClient:
        endpoint = server.control_server(name).get("endpoint")
        if endpoint is None:
            return server
        if str(endpoint).startswith("unix:") and self._is_remote:
            raise click.UsageError(
                f"{option}: {name} is at {endpoint}, on the computer of {self._control_location}"
            )
        return self._client_at(str(endpoint), f"{option} {name}")

    def _client_at(self, endpoint: str, option: str) -> ControlClient:
        from msmq.control.client.client import ControlClient
        from msmq.control.client.locations import LocationError, parse_location

        token_file = self.token_file or os.environ.get("MSMQ_TOKEN_FILE")
        if token_file is None and (context := self._context) is not None and context[0] == endpoint:
            token_file = context[1]
        try:
            location = parse_location(endpoint, token_file=token_file)
        except LocationError as error:
            hint = "; --token-file or MSMQ_TOKEN_FILE does" if "requires a token" in str(error) else ""
            raise click.UsageError(f"{option}: {error}{hint}") from error
        return ControlClient(location, patience=self.patience)

    def refuse_on(self) -> None:
        """Refuse --on for a command that works without a server.

        @raise click.UsageError: C{--on} is given.
        """
        if self.on is not None:
            raise click.UsageError(f"--on {self.on}: this command works without a server")

    @contextlib.contextmanager
    def naming(self, name: str, *, is_new: bool = False) -> Iterator[None]:
        """Add a suggestion to the refusal of an unknown queue name.

        @param name: a path, a format name or a destination, as it was typed; empty if a file has it.
        @param is_new: whether there is no such queue yet.
        """
        try:
            yield
        except MQError as error:
            if error.status not in _NO_QUEUE:
                raise
            # It may be about another argument, such as the administration queue; several names are no queue.
            is_about = _last_part(name).lower() in error.detail.lower() and "," not in name
            meant = self._meant(name) if is_about and not is_new else None
            if meant is not None:
                raise MQError(error.status, f"{error.detail}; did you mean {meant}?") from error
            if is_about and name and "\\" not in name and "=" not in name:
                raise MQError(error.status, f"{error.detail}; {_PATH_SYNTAX}") from error
            raise

    def _meant(self, name: str) -> str | None:
        """The path of a similar queue that the caller may see."""
        try:
            paths = [str(queue["path"]) for queue in self.client.queues(system=True)]
        except MQError:
            return None
        wanted = _last_part(name)
        for path in paths:
            if wanted and _last_part(path) == wanted and path != name:
                return path
        by_name = {_last_part(path): path for path in paths}
        close = closest(wanted, by_name)
        return None if close is None else by_name[close]

    @property
    def data(self) -> str:
        """The data directory of that server, if its socket is there."""
        if self._is_remote or self.on is not None:
            raise click.UsageError("the store is read directly: give it with --store or --data")
        return os.path.dirname(self._control_location.removeprefix("unix:")) or "."

    @property
    def _is_remote(self) -> bool:
        return is_remote(self._control_location)

    @property
    def _control_location(self) -> str:
        named = self.control or os.environ.get("MSMQ_CONTROL")
        if named:
            return named if is_remote(named) else local_endpoint(named)
        context = self._context
        return _socket_in("msmq-data") if context is None else context[0]

    @property
    def _context(self) -> tuple[str, str | None] | None:
        """The server of the context in use, and the file with its token."""
        if self.control or os.environ.get("MSMQ_CONTROL"):
            return None
        from msmq.cli.contexts import read_contexts

        contexts = read_contexts()
        current = os.environ.get("MSMQ_CONTEXT") or contexts.current
        if current is None:
            return None
        if current not in contexts.endpoints:
            raise click.UsageError(f"MSMQ_CONTEXT: there is no context {current}; see msmq context list")
        return contexts.endpoints[current]


_PATH_SYNTAX: Final = r"write a path with its backslashes, and with quotes in a shell: '.\private$\orders'"
"""What to do about a name without backslashes, which a shell may have removed."""

_NO_QUEUE: Final = frozenset(
    {
        Status.MQ_ERROR_ILLEGAL_FORMATNAME,
        Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME,
        Status.MQ_ERROR_NO_DS,
        Status.MQ_ERROR_QUEUE_NOT_FOUND,
    }
)
"""The refusals of an unknown queue name."""


def _last_part(name: str) -> str:
    r"""The name of the queue itself: C{orders} of C{.\private$\orders} and of C{DIRECT=OS:BETA\orders}."""
    return name.rpartition("\\")[2].casefold()


_LONGEST: Final = 1e9
"""Seconds that stand for any longer time: the system's functions for waiting refuse some of these."""

_MOST: Final = 0xFFFFFFFF


class SecondsOption(click.FloatRange):
    """A finite number of seconds, or text with a unit; one of more than 30 years is that long."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number or the text."""
        found = super().convert(_seconds_of(self, value, param, ctx), param, ctx)
        if not math.isfinite(found):
            self.fail(f"{quoted(value)} is not a number of seconds", param, ctx)
        return min(found, _LONGEST)


class WholeSecondsOption(click.IntRange):
    """A whole number of seconds up to 4294967295, or text with a unit."""

    def __init__(self) -> None:
        super().__init__(0, _MOST)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number or the text."""
        found = _seconds_of(self, value, param, ctx)
        if isinstance(found, float):
            if not found.is_integer():
                self.fail(f"{quoted(value)} is not a whole number of seconds", param, ctx)
            found = int(found)
        return super().convert(found, param, ctx)


class KibibytesOption(click.IntRange):
    """A number of units of 1,024 bytes up to 4294967295, or text with a unit, which is rounded up."""

    def __init__(self) -> None:
        super().__init__(0, _MOST)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number or the text."""
        if isinstance(value, str) and _has_unit(value):
            try:
                value = -(-parse_size(value) // KIBIBYTE)
            except ValueError:
                self.fail(f"{quoted(value)} is neither a number of KiB nor {SIZE_FORM}", param, ctx)
        return super().convert(value, param, ctx)


def _seconds_of(
    option: click.ParamType[Any], value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> Any:
    """The seconds of a text with a unit; another value as it is."""
    if not isinstance(value, str) or not _has_unit(value):
        return value
    try:
        return parse_duration(value)
    except ValueError:
        option.fail(f"{quoted(value)} is neither a number of seconds nor {DURATION_FORM}", param, ctx)


def _has_unit(text: str) -> bool:
    """Whether a text is not a bare number, nor one that click refuses: C{nan}, C{1e3}."""
    try:
        float(text)
    except ValueError:
        return True
    return False


class GivenText(click.ParamType[str]):
    """Option type: a text that is not empty.

    An empty one, of a variable of a script that is not set, would be taken for the working directory, or for
    an option that is not given.
    """

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an empty text."""
        if not str(value).strip():
            self.fail("the value is empty", param, ctx)
        return str(value)


GIVEN: Final = GivenText()
"""Type of options and arguments that may not be empty."""

pass_settings = click.make_pass_decorator(Settings, ensure=True)
"""Decorator that passes the L{Settings} to a verb."""


def common_options(command: _C) -> _C:
    """Add the common options to a verb or to the command itself."""
    for option in (
        click.option(
            "--on",
            metavar="NAME",
            expose_value=False,
            callback=_take_on,
            help="Run the verb on another member of the estate, by its control endpoint.",
        ),
        click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            callback=_take_json,
            help="Print only JSON, one object a line.",
        ),
        click.option(
            "--utc",
            is_flag=True,
            expose_value=False,
            callback=_take_utc,
            help="Print times in UTC, not in local time; JSON always has UTC.",
        ),
        click.option(
            "--token-file",
            metavar="F",
            type=GIVEN,
            expose_value=False,
            callback=_take_token_file,
            help="The file with the token for a remote server.  [env: MSMQ_TOKEN_FILE]",
        ),
        click.option(
            "--control",
            metavar="ENDPOINT",
            type=GIVEN,
            expose_value=False,
            callback=_take_control,
            help="The control socket or data directory of the server, or ssl:HOST:PORT.  [env: MSMQ_CONTROL]",
        ),
        click.option(
            "--data",
            metavar="DIR",
            type=GIVEN,
            expose_value=False,
            callback=_take_data,
            help="The data directory of the server.  [default: ./msmq-data]",
        ),
    ):
        command = option(command)
    return command


def is_remote(endpoint: str) -> bool:
    """Whether an endpoint has a host and a port: C{ssl:HOST:PORT}."""
    kind, _, rest = endpoint.partition(":")
    return kind in ("tcp", "ssl", "tls") and bool(rest)


def local_endpoint(text: str) -> str:
    """The endpoint of a server whose control socket or data directory is at a path.

    @param text: the path, also after C{unix:}.
    """
    path = text.removeprefix("unix:")
    return _socket_in(path) if os.path.isdir(path) else f"unix:{path}"


def _socket_in(directory: str) -> str:
    return "unix:" + os.path.join(directory, "control.sock")


def _take_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Settings).as_json = True


def _take_utc(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Settings).utc = True


def _take_control(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).control = value


def _take_token_file(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).token_file = value


def _take_on(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).on = value


def _take_data(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).control = _socket_in(value)
