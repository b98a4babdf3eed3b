"""A family of brokers as the configuration knows it: its addresses and its settings.

A configuration is checked without importing the client library of a broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.addresses import BrokerUrl, parse_node
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import IBridgedBroker


class RouteKeyError(ValueError):
    """The value of one key of a route does not fit the others."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


@attrs.frozen(kw_only=True)
class BrokerEnd:
    """The end of a route at a broker.

    @ivar exchange: where an outward route publishes; so is C{routing_key}.
    @ivar source: what an inward route consumes.
    """

    settings: BrokerSettings
    exchange: str = ""
    routing_key: str = ""
    source: str = ""


class BrokerFamily(ABC):
    """One family of brokers.

    @cvar name: for people.
    @cvar package: the package that it needs, and C{distribution} that with which pip installs it.
    @cvar extra: the extra of msmq that installs it.
    @cvar schemes: the schemes of its addresses, and whether the connection is encrypted.
    @cvar settings: the class of its settings.
    @cvar form: the form of an address.
    @cvar keys: keys of a route that this family knows, and not all others.
    @cvar settable: properties that an outward route may set, in addition to headers.
    @cvar longest_text: the longest text of the protocol, in bytes.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    distribution: ClassVar[str]
    extra: ClassVar[str]
    schemes: ClassVar[Mapping[str, bool]]
    settings: ClassVar[type[BrokerSettings]]
    form: ClassVar[str]
    keys: ClassVar[frozenset[str]] = frozenset()
    settable: ClassVar[frozenset[str]]
    longest_text: ClassVar[int] = 0x7FFF

    @abstractmethod
    def broker(self, settings: BrokerSettings, reactor: IReactorTime) -> IBridgedBroker:
        """The broker of a route; the client library is imported here.

        @param settings: of the class L{settings}.
        """

    @abstractmethod
    def parse(self, text: str) -> BrokerUrl:
        """Parse an address.

        @raise ValueError: it is invalid; the text has no part of it, since it may have a password.
        """

    @abstractmethod
    def outward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """The end of a route that publishes.

        @param values: of all keys of the route.
        @param route: its name in trails.
        @raise RouteKeyError: a key does not fit.
        """

    @abstractmethod
    def inward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """The end of a route that consumes; see L{outward}."""

    def connection(self, url: BrokerUrl, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that all families have.

        @raise RouteKeyError: a key does not fit.
        """
        is_tls = self.schemes[url.scheme]
        if values["retry"] > values["retry_maximum"]:
            raise RouteKeyError("retry", f"is {values['retry']:g}, more than retry_maximum")
        for key in ("ca_file", "certificate_file"):
            if values[key] is not None and not is_tls:
                tls = next(scheme for scheme, is_tls in self.schemes.items() if is_tls)
                raise RouteKeyError(key, f"is used with {tls}:// alone")
        found = {
            "addresses": (*url.nodes, *map(parse_node, values["nodes"])),
            "is_tls": is_tls,
            **{
                key: values[key]
                for key in ("ca_file", "certificate_file", "heartbeat", "retry", "retry_maximum")
            },
        }
        user = values["user"] or url.user
        password = _password(url, values["password_file"])
        if user is not None:
            found["user"] = user
        if password is not None:
            found["password"] = password
        return found


def _password(url: BrokerUrl, path: str | None) -> str | None:
    if path is None:
        return url.password
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RouteKeyError("password_file", f"{path} cannot be read: {reason}") from error
