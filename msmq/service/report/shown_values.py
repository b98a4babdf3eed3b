"""Values of the configuration as text for operators, without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.net.endpoints import OFF, DatagramEndpoint, StreamEndpoint, join_description
from msmq.service.configuration import ConfigurationProblem
from msmq.service.keys import TABLES
from msmq.service.settings import Configuration

DESCRIPTIONS: Final = frozenset(
    {
        "storage.backend",
        "directory.backend",
        "routing.backend",
        "security.access",
        "security.session_policy",
    }
)
"""The keys with descriptions C{NAME:ARGUMENT}, where the argument of a plugin or a URL may be a secret."""

HIDDEN: Final = "(not shown)"
"""What is shown instead of an argument that may be a secret."""

_OPEN: Final = frozenset({"file", "ldap", "ldaps", "log", "sqlite"})
"""The names whose arguments are paths and addresses."""

_OPTIONS: Final = ("--storage", "--directory")
"""The options with descriptions."""

_SECRET_SIGNS: Final = frozenset("@?")

_SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "queue_manager": ("queue_manager", "session"),
    "log": ("log",),
    "web": ("web",),
    "archive": ("archive",),
    "queues": ("queues",),
    "limits": ("session", "limits"),
    "timers": ("session", "timers"),
    "security": ("session", "security"),
    "storage": ("storage_sharing",),
}
"""The settings that have the keys of each table."""

BRIDGE: Final = "bridge"
SHADOW: Final = "shadow"


def shown_values(configuration: Configuration) -> dict[str, Any]:
    """The value of each key that is in effect, by the key with its table, as JSON has it."""
    keys = [(table, key) for table, keys in TABLES.items() for key in keys]
    keys += [(table, key) for table in ("hosts", "control_servers") for key in configuration.values[table]]
    found: dict[str, Any] = {}
    for table, key in keys:
        name = f"{table}.{key}"
        value = _in_effect(configuration, table, key)
        found[name] = shown_description(str(value)) if name in DESCRIPTIONS else plain(value)
    if configuration.bridges:
        found[BRIDGE] = [route.name for route in configuration.bridges]
    if configuration.shadows:
        found[SHADOW] = [shadow.queue for shadow in configuration.shadows]
    return found


def shown_description(description: str) -> str:
    """A description, without an argument that may be a secret."""
    name, colon, argument = description.partition(":")
    if not colon or (name in _OPEN and not _SECRET_SIGNS & set(argument)):
        return description
    return f"{name}:{HIDDEN}"


def shown_problem(problem: ConfigurationProblem) -> str:
    """A problem as text; that of a description would quote it."""
    if problem.key in DESCRIPTIONS or problem.key in _OPTIONS:
        problem = attrs.evolve(
            problem, problem="cannot be used; msmq config check and the log of a reload say why"
        )
    return str(problem)


def plain(value: object) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    return str(value)


def _in_effect(configuration: Configuration, table: str, key: str) -> object:
    if table == "listen":
        return _endpoint(getattr(configuration.listen, key))
    for name in _SETTINGS.get(table, ()):
        settings = getattr(configuration, name)
        if getattr(settings, key, None) is not None:
            return getattr(settings, key)
    return configuration.values[table].get(key)


def _endpoint(endpoint: StreamEndpoint | DatagramEndpoint | Path | None) -> str:
    if endpoint is None:
        return OFF
    if isinstance(endpoint, Path):
        return f"unix:{endpoint}"
    if isinstance(endpoint, DatagramEndpoint):
        interface = {"interface": endpoint.interface} if endpoint.interface else {}
        return join_description(["udp", str(endpoint.port)], interface)
    # One of a plugin has arguments of its own, and no port that is known.
    return (
        endpoint.description
        if endpoint.port is not None
        else f"{endpoint.description.partition(':')[0]}:{HIDDEN}"
    )
