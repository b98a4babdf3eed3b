"""IDirectory and related interfaces: queue managers, queues, sites and users of an enterprise.

The Directory Service Schema Elements of [MS-MQQB] 2.3, [MS-MQDMPR] 2.3 and [MS-MQSD] 2.3, as objects of
L{msmq.membership.objects}; the LDAP provider maps them by [MS-MQDSSM] 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryError, DirectoryOperationResult
from msmq.membership.queries import AttributeFilter, SortOrder
from msmq.membership.requests import Attributes
from msmq.structures.names.format_name import DistributionListFormatName, FormatName

__all__ = [
    "DirectoryCondition",
    "DirectoryError",
    "DirectoryOperationResult",
    "IAddressBook",
    "IConditionalDirectory",
    "IControlBook",
    "IDirectory",
    "IObservedDirectory",
    "IServedDirectory",
    "IWatchedDirectory",
]


@attrs.frozen(kw_only=True)
class DirectoryCondition:
    """Whether a directory is reachable, and the age of its data. [MS-MQOD] 2.7.4.

    @ivar source: the path of the file, or the name of the server.
    @ivar is_reached: the last attempt succeeded; true before the first.
    @ivar since: when C{is_reached} changed last, in seconds since 1970-01-01 UTC; C{None} before the first
        attempt.
    @ivar read: when the data was read from the directory, likewise; C{None} if there is none.
    @ivar problem: why it is unreachable, in one line; empty if it is reachable.
    """

    source: str
    is_reached: bool = True
    since: float | None = None
    read: float | None = None
    problem: str = ""


class IDirectory(Interface):
    """A directory, as [MS-MQDMPR] 3.1.7.1.18 to 3.1.7.1.24 and [MS-MQDSSM] 3.1.6 require it.

    Every failure is a L{DirectoryError}, through the Deferred, with the result that the documents give for
    it: C{DIRECTORY_NOT_CONNECTED} if the directory cannot be reached, C{GENERIC_ERROR} for any other failure,
    such as writing to a read-only directory.
    A meaningless request (for an attribute that no directory holds, for example) raises
    L{msmq.errors.LocalProtocolError} instead.
    Each request ends in bounded time; a directory that does not answer counts as unreachable.
    A directory that could not be reached is tried again with the next request.

    Not promised: that a directory holds all types of objects (LDAP directories have no connected networks),
    which fails with C{GENERIC_ERROR};
    that the result is still current when the Deferred fires.
    """

    name: str = Attribute("Its name in configuration and status, C{ldap} for example.")

    def open() -> Deferred[None]:
        """Open the directory; an unreachable directory is not a failure, a misconfigured one is."""

    def create(created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        """Publish an object. [MS-MQDSSM] 3.1.6.1.

        The directory sets CreateTime, ModifyTime, FullPath and DirectoryPath itself.

        @param attributes: only these; its name (C{DirectoryObject.NAME}) has to be among them. Attributes
        that are not set in the object are not set in the directory.
        @return: the Identifier of the object, which the directory may choose.
        @raise DirectoryError: C{OBJECT_ALREADY_EXISTS} if its Identifier or its name exists;
            C{OBJECT_NOT_FOUND} for a queue of an unknown queue manager; C{GENERIC_ERROR} if it has no
            name.
        """

    def delete(deleted: DirectoryObject) -> Deferred[None]:
        """Delete the object with this Identifier or, if that is null, this name. [MS-MQDSSM] 3.1.6.2.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}; C{GENERIC_ERROR} for a queue manager that has queues.
        """

    def read(
        of: type[DirectoryObject], filters: Sequence[AttributeFilter] = (), attributes: Attributes = None
    ) -> Deferred[DirectoryEntry[Any]]:
        """The first object that matches every filter. [MS-MQDSSM] 3.1.6.3.

        @param attributes: only these; C{None} for all.
        @raise DirectoryError: C{OBJECT_NOT_FOUND}; C{ATTRIBUTE_NOT_FOUND} if one of C{attributes} is not set
            in the object. The directory may set an attribute to the default of its document instead.
        """

    def begin_read(
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        order: Sequence[SortOrder] = (),
    ) -> Deferred[int]:
        """Begin to read all objects that match every filter, possibly none. [MS-MQDSSM] 3.1.6.4.

        The directory may refuse, with C{GENERIC_ERROR}, more than a thousand pending reads.

        @param order: one for each of C{attributes}, or none.
        @return: a handle for L{read_next}, to be released with L{end_read}.
        """

    def read_next(handle: int) -> Deferred[DirectoryEntry[Any]]:
        """The next object; an attribute that is not set is missing in it. [MS-MQDSSM] 3.1.6.5.

        @raise DirectoryError: C{END_OF_DATA} after the last; C{GENERIC_ERROR} for an invalid handle.
        """

    def end_read(handle: int) -> Deferred[None]:
        """Stop reading. [MS-MQDSSM] 3.1.6.6.

        @raise DirectoryError: C{GENERIC_ERROR} for an invalid handle.
        """

    def write(written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        """[MS-MQDSSM] 3.1.6.7 set the attributes of the object with this Identifier or, if that is null, this
        name.

        Its Identifier, its name and the attributes that the directory sets do not change.
        An attribute without a value is removed.

        @param attributes: only these; C{None} for all.
        @raise DirectoryError: C{OBJECT_NOT_FOUND}.
        """

    def resolve_distribution_list(name: DistributionListFormatName) -> Deferred[Sequence[FormatName]]:
        """The members of a distribution list, which may be lists themselves. [MS-MQDSSM] 3.1.6.9.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}.
        """

    def object_sid(computer_name: str) -> Deferred[bytes]:
        """The objectSid of a computer. [MS-MQDSSM] 3.1.6.14.

        @raise DirectoryError: C{OBJECT_NOT_FOUND} without such a computer, C{ATTRIBUTE_NOT_FOUND} if it has
            no SID.
        """

    def close() -> Deferred[None]:
        """Release all resources; closing again does nothing."""


class IConditionalDirectory(Interface):
    """A directory with compare-and-set, so that concurrent changes of an object are not lost."""

    def write_if_unchanged(
        written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        """Set these attributes as L{IDirectory.write} does, if they have not changed.

        @param former: their values as they were read.
        @return: whether they were set; if not, another client has changed them meanwhile.
        @raise DirectoryError: as L{IDirectory.write}; C{GENERIC_ERROR} for attributes that do not support
        this.
        """


class IAddressBook(Interface):
    """A directory with the addresses of queue managers; others are looked up in the name service."""

    def address_of(computer_name: str) -> str | None:
        """The address of a queue manager: C{IP}, C{IP:PORT} or C{[IPv6]:PORT}; C{None} without one.

        @param computer_name: ComputerName or QualifiedComputerName, case-insensitive.
        """


class IControlBook(Interface):
    """A directory with the control endpoints of queue managers."""

    def control_of(computer_name: str) -> str | None:
        """The control endpoint of a queue manager, as written; C{None} without one.

        @param computer_name: ComputerName or QualifiedComputerName, case-insensitive.
        """

    def controlled() -> Sequence[str]:
        """The ComputerNames of the queue managers whose control endpoint it has."""


class IWatchedDirectory(Interface):
    """A directory that reports changes, so that clients need not poll."""

    def watch(changed: Callable[[], None]) -> None:
        """Call a function after every change."""


class IObservedDirectory(Interface):
    """A directory that monitors itself, and reports when it is lost and when it is reachable again."""

    condition: DirectoryCondition = Attribute("Its current condition.")

    def observe(changed: Callable[[DirectoryCondition], None]) -> None:
        """Call a function with the new condition after C{is_reached} or C{problem} has changed."""


class IServedDirectory(Interface):
    """A directory on equivalent servers."""

    servers: Sequence[str] = Attribute(
        "[MS-MQDMPR] 3.1.1.1 DirectoryServerList: names or addresses of the known servers."
    )

    def add_servers(names: Sequence[str]) -> None:
        """Add servers, unless the servers are configured."""

    def find_servers() -> Deferred[None]:
        """Look for servers, if none is known. [MS-MQDMPR] 3.1.3, [MS-MQSD] 3.1.4.1.

        Fires when C{servers} has been updated; it may be empty.
        """
