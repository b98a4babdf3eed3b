"""Manual pages of the command, made from its help: C{python -m msmq.cli.manual DIRECTORY}."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator

import click

from msmq.cli.command import command
from msmq.version import VERSION

_SECTION = "1"


def pages() -> Iterator[tuple[str, str]]:
    """The name of each page, and the page in troff: one of the command, and one of each verb."""
    context = click.Context(command, info_name="msmq")
    yield "msmq", _page(context, command)
    for name in command.list_commands(context):
        verb = command.get_command(context, name)
        assert verb is not None
        inner = click.Context(verb, info_name=name, parent=context)
        yield f"msmq-{name}", _page(inner, verb)


def _page(context: click.Context, verb: click.Command) -> str:
    name = context.command_path.replace(" ", "-")
    lines = [
        f'.TH "{name.upper()}" "{_SECTION}" "" "msmq {VERSION}" "msmq"',
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(_summary(verb))}",
        ".SH SYNOPSIS",
        f".B {_plain(context.command_path)}",
        _plain(" ".join(verb.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(verb),
        *_options(context, verb),
    ]
    if isinstance(verb, click.Group):
        lines.append(".SH COMMANDS")
        for each in verb.list_commands(context):
            inner = verb.get_command(context, each)
            assert inner is not None
            below = click.Context(inner, info_name=each, parent=context)
            if context.parent is None:
                lines += [".TP", f".BR msmq-{_plain(each)} ({_SECTION})", _plain(_summary(inner))]
            else:
                usage = " ".join(inner.collect_usage_pieces(below))
                lines += [f".SS {_plain(below.command_path)} {_plain(usage)}", *_paragraphs(inner)]
                lines += _options(below, inner, title=False)
    if context.parent is not None:
        lines += [".SH SEE ALSO", f".BR msmq ({_SECTION})"]
    return "\n".join(lines) + "\n"


def _summary(verb: click.Command) -> str:
    return verb.get_short_help_str(1000)


def _paragraphs(verb: click.Command) -> list[str]:
    lines: list[str] = []
    for paragraph in inspect.cleandoc(verb.help or "").split("\n\n"):
        lines += [".PP", _plain(" ".join(paragraph.split()))]
    return lines


def _options(context: click.Context, verb: click.Command, *, title: bool = True) -> list[str]:
    lines = [".SH OPTIONS"] if title else []
    for parameter in verb.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            lines += [".TP", f".B {_plain(record[0])}", _plain(" ".join(record[1].split()))]
    return lines


def _plain(text: str) -> str:
    """A text in which troff sees no requests and no escapes."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def main(directory: str) -> None:
    """Write every page."""
    os.makedirs(directory, exist_ok=True)
    for name, text in pages():
        with open(os.path.join(directory, f"{name}.{_SECTION}"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
