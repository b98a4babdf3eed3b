"""Reload of the configuration of a running server.

Everything is read and checked first: the file, the rules, the tokens, the certificates, the enterprise file.
Only then are the parts configured, which cannot fail, so a reload is applied as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from msmq.control.authentication.token_file import TokenFile
from msmq.directory.enterprise_file import read_enterprise
from msmq.errors import MsmqError
from msmq.interfaces.security.tls import IReloadableTls
from msmq.security.access.rules import Rules
from msmq.service.security_parts import read_rules
from msmq.service.settings import Configuration

_FILE: Final = "file:"

TABLES: Final = ("hosts", "limits", "log", "timers", "security", "web")
"""The tables that a reload applies, except the keys of L{RESTART}."""

SESSION_TABLES: Final = ("limits", "timers", "security")
"""Those of them that have keys of L{SessionSettings<msmq.settings.SessionSettings>}."""

RESTART: Final = frozenset(
    {
        "limits.control_receives",
        "security.control_token_file",
        "security.control_group",
        "security.hardened",
        "security.access",
        "security.session_policy",
        "security.trust_identifiers",
        "security.weak_algorithms",
        "security.encryption_key_bits",
        "security.default_descriptor",
        "security.owner",
        "security.sender",
        "security.send_sender",
        "web.windows_exporter_names",
        "web.member_token_file",
    }
)
"""Keys of these tables that need a restart nevertheless: identity, and what is open already."""


class ReloadRefused(MsmqError):
    """The reload was refused and nothing was changed; has the reason."""


class Reconfigurable(Protocol):
    """Applies a reloaded configuration; L{msmq.service.composition.ServerParts}."""

    def configure(self, configuration: Configuration, rules: Rules) -> None:
        """Apply it; this does not fail."""


@attrs.frozen
class ReloadResult:
    """The result of a reload.

    @ivar changed: keys whose new values are applied, with their tables: C{limits.quota}.
    @ivar restart: changed keys that need a restart.
    @ivar read: what was read again whether it had changed or not: tokens, certificates, the enterprise file.
    """

    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """The keys of C{msmq config reload}."""
        return {key: list(value) for key, value in attrs.asdict(self).items()}

    def __str__(self) -> str:
        parts = [f"changed: {', '.join(self.changed) or 'nothing'}"]
        if self.restart:
            parts.append(f"a restart is needed for {', '.join(self.restart)}")
        return "; ".join(parts)


def differences(running: Configuration, read: Configuration) -> Iterator[str]:
    """The keys in which two configurations differ, with their tables."""
    for table in {**running.values, **read.values}:
        before, after = running.values.get(table, {}), read.values.get(table, {})
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                yield f"{table}.{key}"
    if running.bridges != read.bridges:
        yield "bridge"
    if running.shadows != read.shadows:
        yield "shadow"


def is_reloaded(key: str) -> bool:
    """Whether a reload applies a key, given with its table."""
    return key.partition(".")[0] in TABLES and key not in RESTART


def merged(running: Configuration, read: Configuration, changed: Sequence[str]) -> Configuration:
    """The running configuration with the changed keys that a reload applies."""
    keys = [key.partition(".")[::2] for key in changed]

    def taken(settings: Any, other: Any, *tables: str) -> Any:
        fields = attrs.fields_dict(type(settings))
        names = [name for table, name in keys if table in tables and name in fields]
        return attrs.evolve(settings, **{name: getattr(other, name) for name in names})

    values = {table: dict(keys) for table, keys in running.values.items()}
    for table, name in keys:
        if name in read.values.get(table, {}):
            values.setdefault(table, {})[name] = read.values[table][name]
        else:
            del values[table][name]
    kept = {key for key in differences(running, read) if key not in changed}
    origins = {key: origin for key, origin in read.origins.items() if key not in kept}
    return attrs.evolve(
        running,
        values=values,
        origins={**origins, **{key: running.origins[key] for key in kept if key in running.origins}},
        files=read.files,
        hosts={str(name): str(value) for name, value in values.get("hosts", {}).items()},
        session=taken(running.session, read.session, *SESSION_TABLES),
        limits=taken(running.limits, read.limits, "limits"),
        timers=taken(running.timers, read.timers, "timers"),
        security=taken(running.security, read.security, "security"),
        log=taken(running.log, read.log, "log"),
        web=taken(running.web, read.web, "web"),
    )


@attrs.frozen
class PreparedReload:
    """A configuration that was read again and can be used; nothing has changed yet.

    @ivar configuration: the one that the server uses after the reload.
    @ivar result: what the reload changes.
    """

    configuration: Configuration
    result: ReloadResult
    _rules: Rules
    _uses: Sequence[Callable[[], None]]

    def apply(self, parts: Reconfigurable | None) -> None:
        """Apply it; this does not fail.

        @param parts: C{None} if the server has none yet; it makes them with the new configuration.
        """
        for use in self._uses:
            use()
        if parts is not None:
            parts.configure(self.configuration, self._rules)


def prepare(
    running: Configuration,
    read: Configuration,
    *,
    tokens: TokenFile | None,
    endpoints: Mapping[str, IReloadableTls],
) -> PreparedReload:
    """Check whether a configuration that was read again can be used.

    @param tokens: the file of tokens, if there is one.
    @param endpoints: those with certificates, by their keys.
    @raise ReloadRefused: something cannot be used.
    """
    found = list(differences(running, read))
    changed = tuple(key for key in found if is_reloaded(key))
    new = merged(running, read, changed)
    uses: list[Callable[[], None]] = []
    names: list[str] = []
    try:
        rules = read_rules(new)
        if tokens is not None:
            uses.append(tokens.read_again())
            names.append("tokens")
        if new.directory.startswith(_FILE):
            # It is checked every two seconds anyway.
            read_enterprise(Path(new.directory.removeprefix(_FILE)))
            names.append("enterprise file")
    except MsmqError as error:
        raise ReloadRefused(str(error).replace("\n", "; ")) from error
    for key, endpoint in endpoints.items():
        try:
            uses.append(endpoint.read_again())
        except Exception as error:
            # OpenSSL raises different errors for each fault of a file.
            raise ReloadRefused(f"{key}: the certificate cannot be used: {_words(error)}") from error
        names.append(f"certificate of {key}")
    result = ReloadResult(changed, tuple(key for key in found if not is_reloaded(key)), tuple(names))
    return PreparedReload(new, result, rules, uses)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
