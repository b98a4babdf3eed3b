"""The log lines that the code writes, and docs/events.md, which is made from them: C{make events}."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from msmq.service.process.event_ids import EVENT_IDS, EVENT_WORDS, WHOLE_LINES, event_id
from tests.test_architecture.sources import PROJECT, module_name, parsed_package, python_files
from tests.wiring import nodes_of

PAGE: Final = PROJECT / "docs" / "events.md"

_LEVELS: Final = {"debug": "debug", "info": "info", "warn": "warn", "error": "error", "critical": "critical"}
_LOGGERS: Final = ("log", "_log", "_LOG")

WRITTEN: Final = {
    "msmq/net/connector.py": "{others}",
    "msmq/net/ping.py": "{omitted}",
}
"""Modules whose method of L{WRITERS} takes the texts of lines, and what it adds to them."""

WRITERS = ("_log_failure", "_log_datagram")


@attrs.frozen(order=True)
class LogLine:
    """A line that the code may write."""

    room: str
    text: str
    level: str
    module: str

    @property
    def number(self) -> int | None:
        """Its identifier."""
        return event_id(self.room, self.text)


@cache
def log_lines() -> tuple[LogLine, ...]:
    """Every line of the package."""
    return tuple(line for path in python_files("msmq") for line in _lines_of(path))


def _lines_of(path: Path) -> Iterator[LogLine]:
    name = str(path.relative_to(PROJECT))
    tree = parsed_package()[module_name(path)]
    for node in nodes_of(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        is_written = name in WRITTEN and node.func.attr in WRITERS
        if is_written or (_logger(node.func.value) in _LOGGERS and node.func.attr in (*_LEVELS, "failure")):
            level = "debug" if name == "msmq/net/ping.py" else _LEVELS.get(node.func.attr, "critical")
            if is_written and name == "msmq/net/connector.py":
                level = "info"
            for text in _texts(tree, node, is_written=is_written):
                yield LogLine(
                    name.split("/")[1].removesuffix(".py"),
                    text + (WRITTEN[name] if is_written else ""),
                    level,
                    name,
                )


def _logger(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _texts(tree: ast.Module, call: ast.Call, *, is_written: bool) -> list[str]:
    found = call.args[1 if is_written else 0]
    if isinstance(found, ast.Constant):
        return [str(found.value)]
    if isinstance(found, ast.Name):
        # The text was named just before.
        return [
            str(node.value.value)
            for node in nodes_of(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and any(isinstance(target, ast.Name) and target.id == found.id for target in node.targets)
        ]
    assert isinstance(found, ast.BinOp), ast.unparse(call)
    return []


def page() -> str:
    """docs/events.md."""
    rows: dict[int, list[LogLine]] = {}
    for line in log_lines():
        if line.number is not None:
            rows.setdefault(line.number, []).append(line)
    lines = "\n".join(
        f"| {number} | {_levels(same)} | {same[0].room} | {_described(same[0])} |"
        for number, same in sorted(rows.items())
    )
    words = "\n".join(f"| `{word}` | {meaning} |" for word, meaning in sorted(EVENT_WORDS.items()))
    return f"""# Events

Each line of the server's log and each entry of its event log has an identifier for alerts and filters.
It stays when the text changes. This page is generated from the code by `make events`.

## The log

In the text format and in that of the journal the identifier stands behind the level,
`[msmq.net.connector.Connector#info 3001]`, and in JSON under `event_id`; see [`[log]`](configuration.md#log).
A number is never used for another event; the hundreds say which part of the server it is from.
Words in braces stand for the values of the event, which JSON has under these keys too.

| `event_id` | level | room | text |
|---|---|---|---|
{lines}

## The event log

`msmq explain` shows the entries of a message, `msmq events` all of them.
The metric `msmq_events_total` counts them by these words.

| `event` | meaning |
|---|---|
{words}
"""


def _levels(lines: list[LogLine]) -> str:
    """The levels of one event, the most important first."""
    found = {line.level for line in lines}
    return ", ".join(level for level in reversed(_LEVELS.values()) if level in found)


def _described(line: LogLine) -> str:
    return WHOLE_LINES.get(f"{line.room}|{line.text}") or _cell(line.text)


def _cell(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(set(EVENT_IDS.values()))} events")
