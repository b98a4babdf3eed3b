"""Redirects of outgoing queues to other addresses than their names contain, persistently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Final

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.status import MQError, Status
from msmq.wire.addresses import read_address

MOST_REDIRECTS: Final = 10_000
"""Limit on the redirected names."""

REDIRECT: Final = "outgoing.redirect."
"""The prefix of a value in the store; the format name follows."""

_BROADCAST: Final = IPv4Address("255.255.255.255")

_ENDS_IN_NUMBER: Final = re.compile(r"\.[0-9]+\Z")
"""No domain name ends so (RFC 1123 2.1), but every mistyped IPv4 address does, such as 300.1.1.1."""

_DIALLED: Final = (DirectProtocol.TCP, DirectProtocol.OS)


def redirect_address(text: str) -> DirectFormatName:
    """A direct name with the address to which a queue is redirected.

    @param text: an IP address of one computer, with or without brackets, or the name of a computer; a
        name whose last label is a number is taken for a mistyped address.
    @raise MQError: MQ_ERROR_INVALID_PARAMETER for anything else, a port included.
    """
    host = text.strip().removeprefix("[").removesuffix("]").rstrip(".")
    address = read_address(host)
    is_address = address is not None
    protocol = DirectProtocol.TCP if is_address else DirectProtocol.OS
    if address is not None:
        is_possible = not (address.is_unspecified or address.is_multicast or address == _BROADCAST)
    else:
        is_possible = not (set(host) & set(":/") or _ENDS_IN_NUMBER.search(host))
    name: FormatName | None = None
    if is_possible:
        with suppress(MQError):
            name = parse_format_name(f"DIRECT={protocol.value}:{host}\\private$\\any")
    if not isinstance(name, DirectFormatName) or name.address != host:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{' '.join(text[:300].split())} is not an address; give an IP address or the name of a "
            "computer, without a port",
        )
    return name


class Redirects:
    """The redirected names of outgoing queues, with the addresses to which connections are made instead.

    A change is stored first and then takes effect, as with L{Holds<msmq.queues.holds.Holds>}.

    @ivar invalid: the stored names of redirects that were left out.
    """

    def __init__(self) -> None:
        self._hosts: dict[FormatName, str] = {}
        # With the key of each in the store, since names that differ in case are equal.
        self._keys: dict[FormatName, str] = {}
        self._folded: dict[FormatName, tuple[str, str]] = {}
        self.invalid: list[str] = []

    @property
    def names(self) -> Sequence[FormatName]:
        """The names that are redirected."""
        return tuple(self._hosts)

    @property
    def folded(self) -> Iterable[tuple[str, str]]:
        """The texts of these names, casefolded, each with the address to which it is redirected."""
        return self._folded.values()

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore the redirects from the store; an invalid one is left out, and stays in the store."""
        for key in sorted(state):
            if key.startswith(REDIRECT):
                try:
                    name = parse_format_name(key[len(REDIRECT) :], lenient=True)
                    host = redirect_address(state[key].decode()).address
                    self._keys[name] = key
                    self.set(name, host)
                except (MQError, UnicodeDecodeError):
                    self.invalid.append(key[len(REDIRECT) :])

    def change(self, name: FormatName, host: str | None) -> Change:
        """The change that redirects a name, or, with C{None}, ends that.

        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if too many names are redirected.
        """
        if host is None:
            return RemoveState(self._key(name))
        if name not in self._hosts and len(self._hosts) >= MOST_REDIRECTS:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                f"{MOST_REDIRECTS} names are redirected already; use [hosts] for all names at one address",
            )
        return PutState(self._key(name), host.encode())

    def set(self, name: FormatName, host: str | None) -> None:
        """The change is stored, and takes effect."""
        if host is None:
            self._hosts.pop(name, None)
            self._keys.pop(name, None)
            self._folded.pop(name, None)
        else:
            self._hosts[name] = host
            self._keys[name] = self._key(name)
            self._folded[name] = str(name).casefold(), host

    def _key(self, name: FormatName) -> str:
        return self._keys.get(name, f"{REDIRECT}{name}")

    def host(self, name: FormatName) -> str | None:
        """The address to which a name is redirected; C{None} if it is not."""
        return self._hosts.get(name)

    def dialled(self, name: DirectFormatName) -> str:
        """The address or computer name to which connections for a direct name are made."""
        return self._hosts.get(name, name.address)


def check_redirected(name: FormatName) -> DirectFormatName:
    """The name of an outgoing queue, if it is one that can be redirected.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a name that contains no address.
    """
    if isinstance(name, DirectFormatName) and name.protocol in _DIALLED:
        return name
    raise MQError(
        Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
        f"{name} cannot be redirected: only DIRECT=TCP: and DIRECT=OS: names contain an address; the address "
        "of any other queue manager is looked up in the directory, so change it there",
    )
