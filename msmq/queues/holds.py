"""Outgoing queues that an operator has paused, persistently. [MS-MQDMPR] 3.1.7.2.3."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.quoting import quoted
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.status import MQError, Status

MOST_HOLDS: Final = 100_000
"""Limit on the paused names and next hops."""

ALL: Final = "outgoing.hold.all"
NAME: Final = "outgoing.hold.name."
NEXT_HOP: Final = "outgoing.hold.next_hop."
"""The names of the values in the store; the last two are followed by a format name and by a host."""

_HELD: Final = b"1"


class HoldReason(enum.Enum):
    """Why an outgoing queue is paused; it sends again when no reason applies."""

    NAME = "name"
    NEXT_HOP = "next_hop"
    ALL = "all"
    CLONE = "clone"


def host_text(host: str) -> str:
    """The normalized text of a host: an address, the name of a computer, or the GUID of a queue manager.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER for an empty text, or one of more than 255 characters.
    """
    text = host.strip().strip("{}[]").rstrip(".").lower()
    if not text or len(text) > 255 or any(character.isspace() for character in text):
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{quoted(host[:300])} is not a next hop; name an address, a computer or the GUID"
            f" of a queue manager",
        )
    return text


class Holds:
    """The holds on outgoing queues: on single names, on next hops, and on all; they are independent.

    Every change is one change of the store, which is committed before it takes effect.

    @ivar is_clone: everything is held until an operator decides whether this is the original; not stored.
    @ivar invalid: stored names that were left out.
    """

    def __init__(self, *, is_clone: bool) -> None:
        self.is_clone = is_clone
        # With the key of each in the store, since names that differ in case are equal.
        self._names: dict[FormatName, str] = {}
        self._hosts: dict[str, None] = {}
        self.invalid: list[str] = []
        self._is_all = False

    def __bool__(self) -> bool:
        """Whether anything is paused."""
        return self._is_all or self.is_clone or bool(self._names) or bool(self._hosts)

    @property
    def names(self) -> Sequence[FormatName]:
        """The names that are paused."""
        return tuple(self._names)

    @property
    def hosts(self) -> Sequence[str]:
        """The next hops that are paused."""
        return tuple(self._hosts)

    @property
    def is_all(self) -> bool:
        """Whether every outgoing queue is paused."""
        return self._is_all

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore the holds from the store; an invalid name is left out, and stays in the store."""
        self._is_all = ALL in state
        for key in sorted(state):
            if key.startswith(NAME):
                try:
                    self._names[parse_format_name(key[len(NAME) :], lenient=True)] = key
                except MQError:
                    self.invalid.append(key[len(NAME) :])
            elif key.startswith(NEXT_HOP):
                self._hosts[key[len(NEXT_HOP) :]] = None

    # Changes: first the change to store, then its effect

    def change_all(self, held: bool) -> Change:
        """The change that pauses everything, or ends that."""
        return PutState(ALL, _HELD) if held else RemoveState(ALL)

    def change_name(self, name: FormatName, held: bool) -> Change:
        """The change that pauses a name, or ends that.

        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if too much is paused.
        """
        self._check_room(held, name in self._names)
        key = self._key(name)
        return PutState(key, _HELD) if held else RemoveState(key)

    def change_host(self, host: str, held: bool) -> Change:
        """The change that pauses a next hop, or ends that.

        @param host: as L{host_text} gives it.
        @raise MQError: as L{change_name}.
        """
        self._check_room(held, host in self._hosts)
        key = f"{NEXT_HOP}{host}"
        return PutState(key, _HELD) if held else RemoveState(key)

    def set_all(self, held: bool) -> None:
        """The change is stored, and takes effect."""
        self._is_all = held

    def set_name(self, name: FormatName, held: bool) -> None:
        """The change is stored, and takes effect."""
        if held:
            self._names[name] = self._key(name)
        else:
            self._names.pop(name, None)

    def set_host(self, host: str, held: bool) -> None:
        """The change is stored, and takes effect."""
        if held:
            self._hosts[host] = None
        else:
            self._hosts.pop(host, None)

    def _key(self, name: FormatName) -> str:
        return self._names.get(name, f"{NAME}{name}")

    # Queries

    def holds_name(self, name: FormatName) -> bool:
        """Whether a name is paused by itself."""
        return name in self._names

    def holds_host(self, known_as: Set[str]) -> bool:
        """Whether a next hop is paused, under any of its names and addresses."""
        return not self._hosts.keys().isdisjoint(known_as)

    def reasons(self, name: FormatName, alternates: Iterable[Set[str]]) -> tuple[HoldReason, ...]:
        """Why the outgoing queue of a name is paused; empty if it is not.

        @param alternates: the names and addresses of each next hop of the queue; all of them have to be
            paused.
        """
        found = []
        if name in self._names:
            found.append(HoldReason.NAME)
        hops = list(alternates)
        if self._hosts and hops and all(self.holds_host(known_as) for known_as in hops):
            found.append(HoldReason.NEXT_HOP)
        if self._is_all:
            found.append(HoldReason.ALL)
        if self.is_clone:
            found.append(HoldReason.CLONE)
        return tuple(found)

    def _check_room(self, held: bool, is_held: bool) -> None:
        if held and not is_held and len(self._names) + len(self._hosts) >= MOST_HOLDS:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                f"{MOST_HOLDS} names and next hops are paused already; resume some, or pause all",
            )
