"""Control endpoints of the members of an estate. [MS-MQOD] 3.3 and 3.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from msmq.control.client.locations import LocationError, RemoteLocation, parse_location, with_absolute_files
from msmq.interfaces.directory import IControlBook
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status

CONFIGURATION: Final = "[control_servers]"
DIRECTORY: Final = "directory"
ITSELF: Final = "this queue manager"

_SHOWN: Final = 20
"""Limit on member names that an error lists."""


@attrs.frozen
class EstateMember:
    """One member of the estate.

    @ivar endpoint: a location as L{parse_location} reads it; C{None} for the queue manager that was asked.
    @ivar source: the origin of the endpoint: C{[control_servers]}, C{directory} or C{this queue manager}.
    """

    name: str
    endpoint: str | None
    source: str


def check_endpoint(text: str) -> str:
    """A control endpoint of another queue manager, with absolute paths of its files.

    It has no token file: the token is that of the caller.

    @raise ValueError: the endpoint is invalid; the text has the reason.
    """
    location = parse_location(text, token_file="-")
    if isinstance(location, RemoteLocation) and str(location.token_file) != "-":
        raise LocationError(
            f"{quoted(text)} has a tokenFile; the caller sets the token file (--token-file, MSMQ_TOKEN_FILE)"
        )
    return with_absolute_files(text)


@attrs.frozen
class EstateMembers:
    """The members whose control APIs are known; the configuration wins over the directory.

    @ivar own: the names of this queue manager.
    @ivar configured: control endpoints by name.
    @ivar book: the directory, which may have further endpoints.
    """

    own: Sequence[str]
    configured: Mapping[str, str]
    book: IControlBook | None

    def find(self, name: str) -> EstateMember:
        """Find a member by its name or qualified name, case-insensitively.

        @raise MQError: MQ_ERROR_MACHINE_NOT_FOUND if no control endpoint of it is known;
            MQ_ERROR_INVALID_PARAMETER if the directory's endpoint is invalid.
        """
        wanted = name.casefold()
        for known, endpoint in self.configured.items():
            if known.casefold() == wanted:
                return EstateMember(known, endpoint, CONFIGURATION)
        if wanted in [own.casefold() for own in self.own]:
            return EstateMember(name, None, ITSELF)
        found = None if self.book is None else self.book.control_of(name)
        if found is None:
            raise MQError(Status.MQ_ERROR_MACHINE_NOT_FOUND, self._unknown(name))
        try:
            return EstateMember(name, check_endpoint(found), DIRECTORY)
        except ValueError as error:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"the control endpoint of {name} in the directory cannot be used: {error}",
            ) from error

    def all(self) -> list[EstateMember]:
        """All members with a known control endpoint, by name; invalid endpoints of the directory are left
        out.
        """
        found = []
        for name in self._names():
            try:
                found.append(self.find(name))
            except MQError:
                continue
        return found

    def _names(self) -> list[str]:
        names = {name.casefold(): name for name in (() if self.book is None else self.book.controlled())}
        names |= {name.casefold(): name for name in self.configured}
        return [name for _, name in sorted(names.items())]

    def _unknown(self, name: str) -> str:
        known = self._names()
        listed = ", ".join(known[:_SHOWN]) + (
            f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        )
        here = "" if self.book is None else ", or as control to its [[queue_manager]] in the directory"
        return (
            f"no control endpoint of {name} is known (known: {listed or 'none'}); add it to"
            f" [control_servers] of {self.own[0]}{here}"
        )
