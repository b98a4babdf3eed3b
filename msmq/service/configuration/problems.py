"""Problems of a configuration, each with its file, line and key."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.errors import MsmqError
from msmq.toml.lines import Path as KeyPath


@attrs.frozen
class ConfigurationProblem:
    """One problem of a configuration.

    @ivar path: the file; C{None} for an option of the command line.
    @ivar line: the line of the file, counted from 1; C{None} if it has none.
    @ivar key: the key with its table (C{limits.quota}) or the option (C{--address}); empty for the
        file as a whole.
    @ivar problem: what is wrong, in words that finish "the value ...".
    @ivar is_warning: the configuration is valid all the same.
    """

    path: str | None
    line: int | None
    key: str
    problem: str
    is_warning: bool = False

    def __str__(self) -> str:
        where = [] if self.path is None else [self.path if self.line is None else f"{self.path}:{self.line}"]
        return ": ".join([*where, *([self.key] if self.key else []), self.problem])


class ConfigurationError(MsmqError):
    """A configuration cannot be used.

    @ivar problems: every problem, in the order of the file's lines.
    """

    def __init__(self, problems: Sequence[ConfigurationProblem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def dotted(path: KeyPath) -> str:
    """A key with its tables, as text."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
