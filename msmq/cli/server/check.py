"""C{msmq check}: a Nagios plugin that reports the state of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import click

from msmq.alarm_limits import EXPIRES_SOON, FORWARDS_NOTHING, TOKEN_EXPIRES_SOON
from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.cli.output import OutputError, complain, system_error
from msmq.cli.quota_use import held_bytes
from msmq.cli.suggestions import usage_error
from msmq.errors import MsmqError
from msmq.quantities import parse_duration
from msmq.structures.status import MQError

_NAMES: Final = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_CRITICAL: Final = 2
_UNKNOWN: Final = 3
_SHOWN: Final = 5
_DAY: Final = 86400.0
_STANDBY: Final = "standby"
_WAITING: Final = ("active elsewhere", "behind another standby")
"""What a standby waits for while all is well."""

_PATIENCE: Final = 8.0
"""Seconds without an answer; plugins of Nagios are ended after ten."""


@attrs.frozen
class Thresholds:
    """Thresholds of a figure for WARNING and CRITICAL; C{None} for never."""

    warning: float | None
    critical: float | None

    def severity(self, value: float) -> int:
        """The severity of a value: 0, 1 or 2."""
        if self.critical is not None and value >= self.critical:
            return _CRITICAL
        return int(self.warning is not None and value >= self.warning)

    def perfdata(self, name: str, value: float, unit: str = "") -> str:
        """A figure in the performance data format of the Nagios plugin guidelines."""
        limits = ";".join("" if each is None else _figure(each) for each in (self.warning, self.critical))
        # A label has no equals sign, a quote in it is doubled, and a vertical bar would start other data.
        label = name.replace("'", "''").replace("=", "-").replace("|", "/")
        return f"'{label}'={_figure(value)}{unit};{limits};0"


def _figure(value: float) -> str:
    """A number of the performance data, which has digits and a point alone: no exponent."""
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


class _ThresholdsOption(click.ParamType[Thresholds]):
    """Option type: C{WARNING}, C{WARNING,CRITICAL} or C{,CRITICAL}."""

    name = "thresholds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Thresholds:
        """Parse both thresholds."""
        if isinstance(value, Thresholds):
            return value
        warning, _, critical = str(value).partition(",")
        try:
            found = [self._parse(text) if text.strip() else None for text in (warning, critical)]
        except ValueError:
            self.fail(f"{value} is not WARNING,CRITICAL", param, ctx)
        if any(each is not None and not 0 <= each < float("inf") for each in found) or found == [None, None]:
            self.fail(f"{value} is not WARNING,CRITICAL", param, ctx)
        low, high = found
        if low is not None and high is not None and low > high:
            self.fail(
                f"{value}: WARNING {low:g} is above CRITICAL {high:g}, and would never be shown", param, ctx
            )
        return Thresholds(low, high)

    def _parse(self, text: str) -> float:
        return float(text)


class _AgesOption(_ThresholdsOption):
    """Option type: thresholds that are numbers of seconds, or texts with a unit."""

    def _parse(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return parse_duration(text)


_OPTION: Final = _ThresholdsOption()
_NEVER: Final = Thresholds(None, None)
_FULL: Final = Thresholds(None, 100.0)
"""Of a quota: no message is accepted."""


def _of_quota(chosen: Thresholds) -> Thresholds:
    """The thresholds of a quota; a full one is critical, unless another critical threshold is chosen."""
    if chosen.critical is not None:
        return chosen
    assert chosen.warning is not None
    return attrs.evolve(chosen, critical=max(100.0, chosen.warning))


@attrs.define
class _Findings:
    """The findings of a check, the worst first, and its figures."""

    problems: list[tuple[int, str]] = attrs.field(factory=list)
    figures: list[str] = attrs.field(factory=list)

    def report(self, severity: int, problem: str) -> None:
        if severity:
            self.problems.append((severity, problem))

    @property
    def severity(self) -> int:
        return max((severity for severity, _ in self.problems), default=0)


class _PluginCommand(click.Command):
    """A command that reports wrong usage and its own failures as UNKNOWN, as the guidelines for plugins of
    Nagios want: the statuses of other commands would be CRITICAL and WARNING.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments."""
        if parent is not None and "--json" in args:
            # An argument before it may be wrong, and is reported in the form that it asks for.
            parent.ensure_object(Settings).as_json = True
        with _failing_as_unknown():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the check."""
        with _failing_as_unknown():
            return super().invoke(ctx)


@contextmanager
def _failing_as_unknown() -> Iterator[None]:
    try:
        yield
    except (click.exceptions.Exit, click.Abort):
        raise
    except OutputError as error:
        complain(str(error), "msmq check")
    except click.ClickException as error:
        _report_unknown(usage_error(error), getattr(error, "ctx", None))
    except MsmqError as error:
        _report_unknown(str(error))
    except OSError as error:
        _report_unknown(system_error(error))
    except Exception as error:
        _report_unknown(f"internal error in this command: {type(error).__name__}: {error}")
    else:
        return
    raise click.exceptions.Exit(_UNKNOWN)


def _report_unknown(reason: str, context: click.Context | None = None) -> None:
    """Print that nothing could be checked, in the form that the options want as far as they were read."""
    chosen = context or click.get_current_context(silent=True)
    settings = None if chosen is None else chosen.find_object(Settings)
    found = _Findings()
    found.report(_UNKNOWN, " ".join(reason.split()))
    try:
        _print(settings or Settings(), found, {})
    except OutputError as error:
        complain(str(error), "msmq check")


@click.command(cls=_PluginCommand)
@click.option(
    "--queue", "paths", metavar="PATH", multiple=True, help="A queue to check; repeatable.  [default: all]"
)
@click.option("--messages", metavar="W,C", type=_OPTION, help="Messages in one queue.")
@click.option(
    "--age", metavar="W,C", type=_AgesOption(), help="Age of the oldest message of one queue: 300 or 5min,2h."
)
@click.option(
    "--quota",
    metavar="W,C",
    type=_OPTION,
    default=",100",
    show_default=True,
    help="Used percent of the quota of one queue; without a C, 100 is critical.",
)
@click.option("--outgoing", metavar="W,C", type=_OPTION, help="Pending messages for one destination.")
@click.option(
    "--dead-letters", metavar="W,C", type=_OPTION, default="1", show_default=True, help="Dead letters."
)
@click.option(
    "--refused",
    metavar="W,C",
    type=_OPTION,
    default="1",
    show_default=True,
    help="Messages of peers that were refused in the last 15 minutes.",
)
@click.option(
    "--certificate-days",
    metavar="DAYS",
    type=click.IntRange(0, 36500),
    default=int(EXPIRES_SOON // _DAY),
    show_default=True,
    help="Days before the expiry of a TLS certificate of the server from which on it is a WARNING.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=SecondsOption(min=0, min_open=True),
    default=_PATIENCE,
    show_default=True,
    help="Seconds without an answer of the server after which it is CRITICAL.",
)
@common_options
@pass_settings
def check(
    settings: Settings,
    /,
    paths: tuple[str, ...],
    messages: Thresholds | None,
    age: Thresholds | None,
    quota: Thresholds,
    outgoing: Thresholds | None,
    dead_letters: Thresholds,
    refused: Thresholds,
    certificate_days: int,
    timeout: float,
) -> int:
    """Check the server for a monitoring system: print one line with the problems and the performance data.

    W,C are the thresholds of WARNING and CRITICAL.  Exit status: 0 OK, 1 WARNING,
    2 CRITICAL, 3 UNKNOWN (wrong usage).  A server that does not answer or accepts no
    messages is CRITICAL, and so are a full quota of all queues, journals or one queue, and
    an expired TLS certificate of the server.  A route to another broker that waits, is
    blocked or has stopped is a WARNING.  A token needs the role reader.
    """
    found = _Findings()
    quota = _of_quota(quota)
    # With --on a server is asked for the endpoint of another one.
    settings.patience = timeout
    try:
        client = settings.client
        status = client.status()
        if status["state"] == _STANDBY:
            _check_standby(found, status)
        else:
            _check_server(found, status, client.quotas(), dead_letters)
            _check_refusals(found, status, refused)
            _check_certificates(found, status, certificate_days)
            _check_tokens(found, status)
            _check_routes(found, client.bridges())
            queues = [client.queue(path) for path in paths] if paths else client.queues()
            for queue in queues:
                _check_queue(found, queue, messages or _NEVER, age, quota, bool(paths))
            for each in client.outgoing() if outgoing is not None else ():
                found.report(
                    (outgoing or _NEVER).severity(each["messages"]),
                    f"{each['messages']} messages are pending for {each['format_name']} ({each['state']})",
                )
    except MQError as error:
        found.report(_CRITICAL, str(error))
        status = {}
    found.problems.sort(key=lambda problem: -problem[0])
    _print(settings, found, status)
    return found.severity


def _check_standby(found: _Findings, status: dict[str, Any]) -> None:
    """A standby that waits for an active server is as it should be; all else is checked at that server."""
    if status["waits"] not in _WAITING:
        problem = f": {status['problem']}" if status["problem"] else ""
        found.report(1, f"standby: {status['waits']}{problem}")
    found.figures.append(_NEVER.perfdata("holder_silent", float(status["holder_silent_seconds"]), "s"))


def _check_quota(
    found: _Findings, name: str, used: int, quota: int | None, thresholds: Thresholds
) -> float | None:
    """The used percentage of a quota in kilobytes, which is reported; C{None} without a quota."""
    if quota is None:
        return None
    percent = used / (quota * 1024) * 100 if quota else 100.0
    found.report(thresholds.severity(percent), f"{percent:.0f} % of {name} used")
    return percent


def _check_server(
    found: _Findings, status: dict[str, Any], quotas: dict[str, Any], dead_letters: Thresholds
) -> None:
    if status["state"] != "running":
        found.report(_CRITICAL, f"the server is {status['state']}")
    if status["throttled"]:
        found.report(_CRITICAL, "the store is full, no messages are accepted")
    if status.get("clone_suspicion"):
        found.report(
            _CRITICAL,
            f"may be a clone, and sends nothing: {status['clone_suspicion']}; see msmq identity",
        )
    if status.get("queues_paused"):
        found.report(1, f"{status['queues_paused']} queue(s) paused for their readers")
    if (archive := status.get("archive")) is not None:
        if archive["condition"] in ("waiting", "failed"):
            found.report(1, f"the archive is not written: {archive['reason']}")
        elif archive["is_late"]:
            found.report(1, f"the archive is complete up to {archive['lag']:.0f} seconds ago")
    for name, used, limit in (
        ("all messages", quotas["used"], quotas["quota"]),
        # With a quota of 0 no copies are kept, which refuses no message.
        ("all journals and dead letters", quotas["journal_used"], quotas["journal_quota"] or None),
    ):
        _check_quota(found, f"the quota of {name}", used, limit, _FULL)
    letters = status["dead_letters"]
    found.report(dead_letters.severity(letters), f"{letters} dead letter(s)")
    directory = status.get("directory")
    if directory is not None and not directory["reached"]:
        found.report(1, f"the directory is unreachable: {directory['problem']}")
    found.figures += [
        _NEVER.perfdata("messages", status["messages"]),
        _NEVER.perfdata("bytes", status["bytes"], "B"),
        _NEVER.perfdata("sessions", status["sessions"]),
        dead_letters.perfdata("dead_letters", letters),
    ]


def _check_refusals(found: _Findings, status: dict[str, Any], refused: Thresholds) -> None:
    # A server of an older version does not report them.
    counts = status.get("refused_recently", {})
    total = sum(counts.values())
    reasons = ", ".join(sorted(counts, key=lambda reason: (-counts[reason], reason)))
    found.report(refused.severity(total), f"{total} message(s) of peers refused in 15 minutes: {reasons}")
    found.figures.append(refused.perfdata("refused", total))


def _check_certificates(found: _Findings, status: dict[str, Any], days: int) -> None:
    # A server of an older version does not report them.
    for each in status.get("certificates", ()):
        remaining, what = each["remaining"], f"the TLS certificate of {each['endpoint']}"
        if remaining < 0:
            found.report(_CRITICAL, f"{what} expired at {each['not_after']}")
        elif remaining < days * _DAY:
            found.report(1, f"{what} expires in {remaining / _DAY:.0f} day(s), at {each['not_after']}")


def _check_tokens(found: _Findings, status: dict[str, Any]) -> None:
    for each in status.get("tokens", ()):
        remaining, what = each["remaining"], each["token"]
        if remaining <= 0:
            found.report(1, f"{what} expired at {each['not_after']}")
        elif remaining < TOKEN_EXPIRES_SOON:
            found.report(1, f"{what} expires in {remaining / _DAY:.0f} day(s), at {each['not_after']}")


def _check_routes(found: _Findings, routes: list[dict[str, Any]]) -> None:
    for route in routes:
        if route["condition"] in FORWARDS_NOTHING:
            # A broker may have written it; the result is one line.
            reason = " ".join(route["reason"].split())
            found.report(1, f"route {route['name']} is {route['condition']}" + (reason and f": {reason}"))


def _check_queue(
    found: _Findings,
    queue: dict[str, Any],
    messages: Thresholds,
    age: Thresholds | None,
    quota: Thresholds,
    shows_figures: bool,
) -> None:
    path, count = queue["path"], queue["messages"]
    found.report(messages.severity(count), f"{count} messages in {path}")
    if shows_figures:
        found.figures.append(messages.perfdata(f"messages {path}", count))
    used = _check_quota(found, f"the quota of {path}", held_bytes(queue), queue["quota"], quota)
    if used is not None and shows_figures:
        found.figures.append(quota.perfdata(f"quota {path}", used, "%"))
    if age is not None:
        seconds = _age(queue)
        found.report(age.severity(seconds), f"the oldest message of {path} is {seconds:.0f} s old")
        if shows_figures:
            found.figures.append(age.perfdata(f"age {path}", seconds, "s"))


def _age(queue: dict[str, Any]) -> float:
    """Age in seconds of the oldest receivable message of a queue; 0 for none."""
    import time
    from datetime import datetime

    oldest = queue["oldest_message_time"]
    if oldest is None:
        return 0.0
    return max(0.0, round(time.time() - datetime.fromisoformat(oldest).timestamp(), 1))


def _summary(status: dict[str, Any]) -> str:
    if status["state"] == _STANDBY:
        return f"standby, {status['waits']}" + (f", at {status['holder']}" if status["holder"] else "")
    return f"{status['queues']} queues, {status['messages']} messages"


def _print(settings: Settings, found: _Findings, status: dict[str, Any]) -> None:
    output = settings.output
    problems = [problem for _, problem in found.problems]
    if output.as_json:
        output.object({"status": _NAMES[found.severity], "problems": problems, "perfdata": found.figures})
    else:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        said = "; ".join([*problems[:_SHOWN], *more])
        if not problems:
            said = f"{status['name']}: {_summary(status)}"
        figures = f" | {' '.join(found.figures)}" if found.figures else ""
        # A vertical bar would start the performance data.
        output.write(f"MSMQ {_NAMES[found.severity]} - {said.replace('|', '/')}{figures}")
    output.flush()
