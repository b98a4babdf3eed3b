"""The configuration of a running server next to the one that its files have now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msmq.control.server.server_configuration import (
    ConfigurationEntry,
    ConfigurationReport,
    FollowingConfiguration,
)
from msmq.service.keys import TABLES
from msmq.service.reload import differences, is_reloaded
from msmq.service.report.shown_values import DESCRIPTIONS, plain, shown_description, shown_values
from msmq.service.settings import DEFAULT, Configuration


def configuration_report(running: Configuration, later: FollowingConfiguration) -> ConfigurationReport:
    """Describe a configuration.

    @param running: the one that the server uses.
    @param later: the one that its files and the environment have now.
    """
    read = later.configuration
    assert read is None or isinstance(read, Configuration)
    now = shown_values(running)
    following = {} if read is None else shown_values(read)
    differing = set() if read is None else set(differences(running, read))
    return ConfigurationReport(
        files=running.files,
        entries=[
            _entry(running, key, now.get(key), key in differing, following.get(key))
            for key in _ordered({**now, **following})
        ],
        reload=later.reload,
    )


def _entry(running: Configuration, key: str, value: Any, differs: bool, following: Any) -> ConfigurationEntry:
    table, _, name = key.partition(".")
    known = TABLES.get(table, {}).get(name)
    default = None if known is None else plain(known.default)
    origin = running.origins.get(key, DEFAULT)
    return ConfigurationEntry(
        key=key,
        value=value,
        default=shown_description(default) if key in DESCRIPTIONS and default is not None else default,
        unit="" if known is None else known.unit,
        origin=origin.kind.value,
        source=origin.source,
        line=origin.line,
        applied_by="reload" if is_reloaded(key) else "restart",
        differs=differs,
        next=following if differs else None,
    )


def _ordered(keys: Iterable[str]) -> list[str]:
    """The keys, those of one table together, the tables in the order of the reference."""
    tables = [*TABLES, "bridge", "shadow"]
    return sorted(keys, key=lambda key: tables.index(key.partition(".")[0]))
