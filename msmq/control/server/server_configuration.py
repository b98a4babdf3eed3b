"""The configuration of a server, as the control API and the console show and reload it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from msmq.control.authentication.token_file import TokenExpiry
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.structures.status import MQError, Status

NO_SOURCE = "this server was started without a configuration file that can be reloaded"


@attrs.frozen(kw_only=True)
class ConfigurationEntry:
    """One key.

    @ivar key: with its table: C{limits.quota}.
    @ivar value: the value in effect; C{None} without one.
    @ivar default: the value that it has if it is not set; C{None} without one.
    @ivar unit: of a number, in words; empty without one.
    @ivar origin: C{file}, C{environment}, C{option} or C{default}.
    @ivar source: the file, variable or option that sets it; empty for a default.
    @ivar line: the line of the file.
    @ivar applied_by: what applies another value: C{reload} or C{restart}.
    @ivar differs: whether the files and the environment have another value now.
    @ivar next: that value; C{None} if there is none or it does not differ.
    """

    key: str
    value: Any
    default: Any
    unit: str
    origin: str
    source: str
    line: int | None
    applied_by: str
    differs: bool
    next: Any


@attrs.frozen(kw_only=True)
class ReloadPreview:
    """What a reload would do now.

    @ivar changed: keys whose new values it would apply.
    @ivar restart: keys that would need a restart.
    @ivar read: what it would read again in any case: tokens, certificates, the enterprise file.
    @ivar problems: why it would be refused; empty if it would not.
    """

    changed: Sequence[str] = ()
    restart: Sequence[str] = ()
    read: Sequence[str] = ()
    problems: Sequence[str] = ()


@attrs.frozen
class FollowingConfiguration:
    """The configuration that the files and the environment have now.

    @ivar configuration: of the type that its server uses; C{None} if it cannot be used.
    @ivar reload: what a reload would do.
    """

    configuration: object | None
    reload: ReloadPreview


@attrs.frozen(kw_only=True)
class ConfigurationReport:
    """The configuration of a server, without secrets.

    @ivar files: those that were read, in their order.
    @ivar entries: every key, in the order of the reference.
    @ivar reload: what a reload would do now.
    """

    files: Sequence[str]
    entries: Sequence[ConfigurationEntry]
    reload: ReloadPreview


class ServerConfiguration(Protocol):
    """Shows and reloads the configuration of a server; L{msmq.service.server.Server}."""

    def reload(self) -> Mapping[str, Any]:
        """Reload it, and return the changes.

        @raise MQError: it cannot be used; nothing has changed.
        """

    async def read_again(self) -> FollowingConfiguration:
        """Read the files and the environment again, and examine what a reload would do; nothing changes."""

    def report(self, following: FollowingConfiguration) -> ConfigurationReport:
        """What is set, where, and what a reload would do."""

    def certificates(self) -> Sequence[EndpointCertificate]:
        """The TLS certificates of its endpoints."""

    def tokens(self) -> Sequence[TokenExpiry]:
        """The tokens of its callers that expire."""


class NoServerConfiguration:
    """That of a queue manager without a configuration of its own, as an application has one."""

    def reload(self) -> Mapping[str, Any]:
        """Refuse."""
        raise MQError(Status.MQ_ERROR_UNSUPPORTED_OPERATION, NO_SOURCE)

    async def read_again(self) -> FollowingConfiguration:
        """There is nothing to read."""
        return FollowingConfiguration(None, ReloadPreview(problems=(NO_SOURCE,)))

    def report(self, following: FollowingConfiguration) -> ConfigurationReport:
        """Nothing is set."""
        return ConfigurationReport(files=(), entries=(), reload=following.reload)

    def certificates(self) -> Sequence[EndpointCertificate]:
        """It has none."""
        return ()

    def tokens(self) -> Sequence[TokenExpiry]:
        """It has none."""
        return ()
