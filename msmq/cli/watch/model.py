"""From samples of a server to the rows, totals and alarms of the monitor; no clock, no terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from msmq.cli.quota_use import quota_used
from msmq.cli.units import age_text, rate_text, size_text
from msmq.cli.watch.alarms import Alarm, Alarms
from msmq.cli.wildcards import is_pattern, matches

_TREND: Final = 12
"""Samples in the trend of a queue."""

_BARS: Final = "▁▂▃▄▅▆▇█"


@attrs.frozen
class Sample:
    """One sample of a server.

    @ivar time: when, in seconds of a monotonic clock.
    @ivar wall: the same in seconds since 1970-01-01 UTC.
    @ivar status: the status; C{queues}, C{outgoing} and C{sessions}: the lists, as the control API returns
        them; C{alarms}: its alarms, and how many more there are about queues.
    """

    time: float
    wall: float
    status: Mapping[str, Any]
    queues: Sequence[Mapping[str, Any]]
    outgoing: Sequence[Mapping[str, Any]]
    sessions: Sequence[Mapping[str, Any]]
    alarms: Mapping[str, Any]


@attrs.frozen
class ViewColumn:
    """A column of a view.

    @ivar ascends: whether it is sorted in ascending order first: texts are, numbers are not.
    """

    title: str
    ascends: bool = False


VIEWS: Final[Mapping[str, tuple[ViewColumn, ...]]] = {
    "queues": (
        ViewColumn("queue", ascends=True),
        ViewColumn("in/s"),
        ViewColumn("out/s"),
        ViewColumn("messages"),
        ViewColumn("bytes"),
        ViewColumn("age"),
        ViewColumn("quota"),
        ViewColumn("journal"),
        ViewColumn("trend"),
    ),
    "outgoing": (
        ViewColumn("destination", ascends=True),
        ViewColumn("state", ascends=True),
        ViewColumn("next hop", ascends=True),
        ViewColumn("messages"),
        ViewColumn("bytes"),
        ViewColumn("unacked"),
        ViewColumn("retry"),
        ViewColumn("trend"),
    ),
    "sessions": (
        ViewColumn("peer", ascends=True),
        ViewColumn("direction", ascends=True),
        ViewColumn("state", ascends=True),
        ViewColumn("in/s"),
        ViewColumn("out/s"),
        ViewColumn("unacked"),
        ViewColumn("window"),
        ViewColumn("silent"),
    ),
}
"""The views and their columns; the first names a row."""


@attrs.frozen
class ViewRow:
    """A row of a view.

    @ivar key: identifies the row in later samples.
    @ivar cells: a text for each column; C{values} is what a column is sorted by.
    @ivar severity: of the worst alarm about it: 0, 1 or 2.
    @ivar weight: its rates, or its messages; the largest come first unless a column is chosen.
    """

    key: str
    cells: tuple[str, ...]
    values: tuple[float | str, ...]
    severity: int
    weight: float


@attrs.frozen
class ViewOrder:
    """ViewOrder and selection of the rows of a view.

    @ivar column: the number of the column to sort by; C{None} for rows with alarms first, then the busiest.
    @ivar descends: whether the largest come first.
    @ivar pattern: only rows whose name contains this text, or matches it if it has C{*} or C{?}.
    """

    column: int | None = None
    descends: bool = True
    pattern: str = ""

    def next_column(self, columns: Sequence[ViewColumn], step: int = 1) -> ViewOrder:
        """Sort by the next column, in its own direction."""
        number = (-1 if self.column is None else self.column) + step
        if number >= len(columns) or number < 0:
            return attrs.evolve(self, column=None, descends=True)
        return attrs.evolve(self, column=number, descends=not columns[number].ascends)


@attrs.frozen
class Totals:
    """What the head of the screen shows."""

    name: str
    state: str
    in_rate: float
    out_rate: float
    messages: int
    bytes: int
    waiting: int
    sessions: int
    dead_letters: int
    transactions: int


class WatchModel:
    """Rates, trends and alarms of one server, from one sample after another.

    A server that restarts counts from 0 again; its rates are those since then.
    """

    def __init__(self) -> None:
        self._sample: Sample | None = None
        self._seconds = 0.0
        self._before: dict[str, float] = {}
        self._rates: dict[str, float] = {}
        self._trends: dict[str, deque[int]] = {}
        self._alarms = Alarms()
        self._lost: tuple[float, str] | None = None

    def take(self, sample: Sample) -> None:
        """Take the next sample."""
        before, self._sample, self._lost = self._sample, sample, None
        seconds = 0.0 if before is None else sample.time - before.time
        counters = dict(_counters(sample))
        self._rates = {}
        if seconds > 0:
            for key, count in counters.items():
                old = self._before.get(key, count)
                self._rates[key] = (count - old if count >= old else count) / seconds
        self._before = counters
        depths = {key: int(value["messages"]) for key, value in _queues(sample)}
        self._trends = {key: self._trends.get(key) or deque(maxlen=_TREND) for key in depths}
        for key, depth in depths.items():
            self._trends[key].append(depth)
        self._alarms.take(sample.time, sample.status, sample.alarms)

    def lose(self, time: float, reason: str) -> None:
        """Note that the server does not answer; rows and totals stay as they were."""
        since = time if self._lost is None else self._lost[0]
        self._lost = since, reason

    def alarms(self, time: float) -> list[Alarm]:
        """What needs attention, the worst first."""
        if self._lost is not None:
            since, reason = self._lost
            return [Alarm(2, "", f"no answer for {age_text(time - since)}: {reason}")]
        return self._alarms.current

    @property
    def totals(self) -> Totals | None:
        """The figures of the whole server; C{None} before the first sample."""
        if self._sample is None:
            return None
        status = self._sample.status
        paths = [f"queue {queue['path']}" for queue in self._sample.queues]
        return Totals(
            name=str(status["name"]),
            state=str(status["state"]),
            in_rate=sum(self._rates.get(f"{path} in", 0.0) for path in paths),
            out_rate=sum(self._rates.get(f"{path} out", 0.0) for path in paths),
            messages=int(status["messages"]),
            bytes=int(status["bytes"]),
            waiting=sum(int(queue["messages"]) for queue in self._sample.outgoing),
            sessions=int(status["sessions"]),
            dead_letters=int(status["dead_letters"]),
            transactions=int(status["transactions"]),
        )

    def rows(self, view: str, order: ViewOrder) -> list[ViewRow]:
        """The rows of a view, selected and sorted.

        @param view: a key of L{VIEWS}.
        """
        if self._sample is None:
            return []
        made = {"queues": self._queue, "outgoing": self._outgoing, "sessions": self._session}[view]
        values = {
            "queues": self._sample.queues,
            "outgoing": self._sample.outgoing,
            "sessions": self._sample.sessions,
        }[view]
        rows = [row for row in map(made, values) if _matches(row.cells[0], order.pattern)]
        if order.column is None:
            rows.sort(key=_busiest)
        else:
            number = order.column
            # Equal values keep the order of the names, whatever the direction.
            rows.sort(key=lambda row: row.cells[0])
            rows.sort(key=lambda row: row.values[number], reverse=order.descends)
        return rows

    def _queue(self, queue: Mapping[str, Any]) -> ViewRow:
        assert self._sample is not None
        path = str(queue["path"])
        key = f"queue {path}"
        came, left = self._rates.get(f"{key} in", 0.0), self._rates.get(f"{key} out", 0.0)
        oldest = queue.get("oldest_message_time")
        age = (
            0.0
            if oldest is None
            else max(0.0, self._sample.wall - datetime.fromisoformat(oldest).timestamp())
        )
        used = quota_used(queue)
        values = (
            path,
            came,
            left,
            queue["messages"],
            queue["bytes"],
            age,
            used or 0.0,
            queue["journal_messages"],
            self._change(key),
        )
        cells = (
            path,
            rate_text(came),
            rate_text(left),
            str(queue["messages"]),
            size_text(queue["bytes"]),
            "" if oldest is None else age_text(age),
            "" if used is None else f"{used:.0%}",
            str(queue["journal_messages"] or ""),
            self._trend(key),
        )
        return ViewRow(
            key, cells, values, self._alarms.severity(path), came + left + queue["messages"] * 1e-9
        )

    def _outgoing(self, queue: Mapping[str, Any]) -> ViewRow:
        assert self._sample is not None
        name = str(queue["format_name"])
        key = f"outgoing {name} {queue['transit']}"
        due = queue["next_attempt"]
        left = 0.0 if due is None else max(0.0, datetime.fromisoformat(due).timestamp() - self._sample.wall)
        hops = ", ".join(queue["next_hops"])
        values = (
            name,
            queue["state"],
            hops,
            queue["messages"],
            queue["bytes"],
            queue["unacknowledged"],
            left,
            self._change(key),
        )
        cells = (
            name,
            str(queue["state"]),
            hops,
            str(queue["messages"]),
            size_text(queue["bytes"]),
            str(queue["unacknowledged"]),
            "" if due is None else f"in {age_text(left)}",
            self._trend(key),
        )
        return ViewRow(key, cells, values, self._alarms.severity(name), queue["messages"])

    def _session(self, session: Mapping[str, Any]) -> ViewRow:
        assert self._sample is not None
        key = _session_key(session)
        came, left = self._rates.get(f"{key} in", 0.0), self._rates.get(f"{key} out", 0.0)
        heard = session["last_heard"]
        silent = (
            0.0 if heard is None else max(0.0, self._sample.wall - datetime.fromisoformat(heard).timestamp())
        )
        peer = str(session["remote_address"])
        unacknowledged, window = session["unacknowledged"], session["window"]
        values = (peer, session["direction"], session["state"], came, left, unacknowledged, window, silent)
        cells = (
            peer,
            str(session["direction"]),
            str(session["state"]),
            rate_text(came),
            rate_text(left),
            str(unacknowledged),
            str(window),
            "" if heard is None else age_text(silent),
        )
        return ViewRow(key, cells, values, 0, came + left)

    def _change(self, key: str) -> float:
        trend = self._trends.get(key)
        return float(trend[-1] - trend[0]) if trend else 0.0

    def _trend(self, key: str) -> str:
        trend = self._trends.get(key, ())
        top = max(trend, default=0)
        if not top:
            return ""
        return "".join(_BARS[(len(_BARS) - 1) * depth // top] for depth in trend)


def _counters(sample: Sample) -> Iterable[tuple[str, float]]:
    for queue in sample.queues:
        yield f"queue {queue['path']} in", queue["sent_total"]
        yield f"queue {queue['path']} out", queue["received_total"]
    for session in sample.sessions:
        key = _session_key(session)
        yield f"{key} in", session["received"]
        yield f"{key} out", session["sent"]


def _queues(sample: Sample) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for queue in sample.queues:
        yield f"queue {queue['path']}", queue
    for queue in sample.outgoing:
        yield f"outgoing {queue['format_name']} {queue['transit']}", queue


def _session_key(session: Mapping[str, Any]) -> str:
    return f"session {session['direction']} {session['remote_address']} {session['opened']}"


def _busiest(row: ViewRow) -> tuple[int, float, str]:
    return -row.severity, -row.weight, row.cells[0]


def _matches(name: str, pattern: str) -> bool:
    return matches(name, pattern) if is_pattern(pattern) else pattern.casefold() in name.casefold()
