"""Command lines of C{msmq} on the pages and on those of the examples: their verbs and options exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.command import command
from tests.project.example_files import EXAMPLES, PROJECT

PAGES = sorted(
    [
        *PROJECT.glob("*.md"),
        *(PROJECT / "docs").rglob("*.md"),
        *EXAMPLES.rglob("*.md"),
        *EXAMPLES.rglob("*.py"),
    ]
)
_COMMAND = re.compile(r"(?:^ *|`|\$\()(?:\.venv/bin/)?msmq (?P<rest>[^\n`]*)", re.MULTILINE)
_END = frozenset("|;&<>()")


def command_lines(text: str) -> Iterator[str]:
    """What follows C{msmq} at the start of a line, or in code."""
    for found in _COMMAND.finditer(text.replace("\\\n", " ")):
        yield found["rest"]


def fault(line: str) -> str | None:
    """The word of a command line that the command does not know."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.escape = ""
    try:
        words = list(lexer)
    except ValueError:
        # A piece of a command that ends on another line.
        words = line.split()
    current: click.Command = command
    options = dict(_options(command))
    is_value = False
    for word in words:
        if is_value:
            # The value of an option may be the name of a verb: --token-file token.
            is_value = False
            continue
        if set(word) <= _END:
            return None
        if word.startswith("--") and len(word) > 2:
            name, assigned, _ = word.partition("=")
            if name not in options:
                return word
            is_value = options[name] and not assigned
        elif isinstance(current, click.Group) and re.fullmatch(r"[a-z][a-z-]+", word):
            verb = current.get_command(click.Context(current), word)
            if verb is not None:
                current = verb
                options |= dict(_options(verb))
    return None


def _options(verb: click.Command) -> Iterator[tuple[str, bool]]:
    """The options of a verb, and whether each takes a value."""
    yield "--help", False
    for parameter in verb.params:
        takes_value = isinstance(parameter, click.Option) and not parameter.is_flag
        for name in (*parameter.opts, *parameter.secondary_opts):
            yield name, takes_value


class CommandListingTests(SynchronousTestCase):
    """Each command line, without running it."""

    def test_options(self) -> None:
        """No page names an option that its verb does not have."""
        faults = [
            f"{path.relative_to(PROJECT)}: {wrong} in msmq {line}"
            for path in PAGES
            for line in command_lines(_text(path))
            if (wrong := fault(line)) is not None
        ]
        self.assertEqual(faults, [])

    def test_wrong_option(self) -> None:
        """An option that the verb lacks is found, before and after others, and in a pipe only before it."""
        self.assertEqual(fault("--data x send QUEUE --body 1 --delivery recoverable"), "--delivery")
        self.assertEqual(fault("decode FILE --fields --anonymous | grep --color x"), "--anonymous")
        self.assertIsNone(fault("--data x send QUEUE --body=1 --recoverable | sort --unique"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
