"""Values of the configuration in the environment: C{MSMQ_LIMITS_QUOTA=65536} is C{quota} of C{[limits]}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.service.keys import TABLES
from msmq.toml.value_kinds import Array, Flag, Seconds, Size, ValueKind, WholeNumber

PREFIX: Final = "MSMQ_"

_FILE: Final = "_file"
_LONGEST: Final = 0x10000
_OPEN: Final = ("hosts", "control_servers")
"""The tables whose keys are names."""


@attrs.frozen
class EnvironmentValue:
    """One variable that sets a key.

    @ivar variable: its name.
    @ivar value: as a file would have it; text of the wrong type stays text, and is refused.
    @ivar problem: why there is no value: a file that cannot be read; empty if there is one.
    """

    variable: str
    table: str
    key: str
    value: object = attrs.field(repr=False)
    problem: str = ""


def environment_values(environment: Mapping[str, str]) -> Iterator[EnvironmentValue]:
    """The variables that set a key, by their names; other variables with the prefix are ignored.

    C{MSMQ_SECTION_KEY_FILE} names a file with the value, unless the key itself ends so; it excludes the
    variable of the key.
    """
    for name in sorted(environment):
        table = _table_of(name)
        if table is None:
            continue
        rest = name[len(PREFIX) + len(table) + 1 :]
        key = rest if table in _OPEN else rest.lower()
        text = environment[name]
        if key not in TABLES[table] and key.removesuffix(_FILE) in TABLES[table] and key.endswith(_FILE):
            key = key.removesuffix(_FILE)
            if (other := name[: -len(_FILE)]) in environment:
                # One of them is left over, and the value of the wrong one may be a secret of another server.
                problem = f"excludes the variable {other}, which is set too"
                yield EnvironmentValue(name, table, key, None, problem)
                continue
            try:
                text = _content(Path(text))
            except (OSError, ValueError) as error:
                problem = f"names the file {text}: {getattr(error, 'strerror', None) or error}"
                yield EnvironmentValue(name, table, key, None, problem)
                continue
        known = TABLES[table].get(key)
        yield EnvironmentValue(name, table, key, text if known is None else _typed(known.kind, text))


def _table_of(name: str) -> str | None:
    """The table that a variable means; the longest name that fits."""
    fitting = [table for table in TABLES if name.startswith(f"{PREFIX}{table.upper()}_")]
    return max(fitting, key=len, default=None)


def _content(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"has more than {_LONGEST} characters")
    return text.strip()


def _typed(kind: ValueKind, text: str) -> object:
    if isinstance(kind, Array):
        return [_typed(kind.element, each.strip()) for each in text.split(",") if each.strip()]
    try:
        if isinstance(kind, Flag):
            return {"true": True, "false": False}.get(text.strip().lower(), text)
        if isinstance(kind, WholeNumber | Size):
            return int(text)
        if isinstance(kind, Seconds):
            return float(text)
    except ValueError:
        pass
    return text
