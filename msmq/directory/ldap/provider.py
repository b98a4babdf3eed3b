"""Directory provider for an enterprise in LDAP. [MS-MQDSSM]."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID, uuid4

from twisted.internet.defer import Deferred, execute
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from msmq.directory.ldap.accounts import LdapAccounts
from msmq.directory.ldap.entries.attribute_mapping import CLASSES, GUID, SID, found_names
from msmq.directory.ldap.entries.values import pack_guid, unpack_guid
from msmq.directory.ldap.object_search import ObjectSearch
from msmq.directory.ldap.object_writer import ObjectWriter
from msmq.directory.ldap.operations import Operations, ambiguous
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import FindServers, LdapConnection
from msmq.directory.ldap.transport.filters import Equal, of_class
from msmq.directory.ldap.transport.wire import Entry, Scope
from msmq.directory.reads import FoundObjects, PendingReads
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import (
    DirectoryCondition,
    DirectoryError,
    DirectoryOperationResult,
    IConditionalDirectory,
    IDirectory,
    IObservedDirectory,
    IServedDirectory,
)
from msmq.interfaces.security.access import Account, IAccounts
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry, check_names
from msmq.membership.names import MOST_ELEMENTS
from msmq.membership.queries import AttributeFilter, SortOrder, check_query
from msmq.membership.requests import Attributes
from msmq.quoting import quoted
from msmq.structures.names.format_name import (
    DistributionListFormatName,
    FormatName,
    PublicFormatName,
    parse_format_name,
)
from msmq.structures.status import MQError

_ALIAS: Final = "msMQ-Recipient-FormatName"
_MEMBER_ATTRIBUTES: Final = ("objectClass", GUID, _ALIAS)

ORDERED_AT_ONCE: Final = 250
"""How many objects of a sorted read are compared in one iteration of the reactor."""

MEMBERS_AT_ONCE: Final = 250
"""Members of a distribution list whose format names are parsed in one iteration of the reactor."""

T = TypeVar("T")


@implementer(IDirectory, IAccounts, IServedDirectory, IConditionalDirectory, IObservedDirectory)
class LdapDirectory:
    """Reads and writes the directory objects of an enterprise over LDAP.

    An attribute that is not set in the directory is missing in the result, and has the default of
    [MS-MQDSSM] 3.1.6.11.
    An invalid entry, such as a routing link to a deleted site, is left out and logged.
    C{begin_read} finds all objects before it returns.

    @ivar settings: its servers, base and credentials.
    @ivar condition: the connected server, and since when, or why there is none.
    @param reactor: of Twisted.
    @param find_servers: discovers servers, if the settings name none.
    @param make_identifier: the source of objectGUIDs for new entries if the server does not assign them.
    """

    name = "ldap"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        settings: LdapSettings,
        clock: IClock,
        reactor: Any,
        *,
        find_servers: FindServers | None = None,
        make_identifier: Callable[[], UUID] = uuid4,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._reactor = reactor
        self.condition = DirectoryCondition(source=str(settings))
        self._observer: Callable[[DirectoryCondition], None] = _unobserved
        self._connection = LdapConnection(settings, reactor, find_servers, self._noted)
        self._operations = Operations(self._connection)
        self._searching = ObjectSearch(self._operations, reactor)
        self._publishing = ObjectWriter(self._operations, self._searching, make_identifier)
        self._accounts = LdapAccounts(self._operations)
        self._reads = PendingReads()

    def open(self) -> Deferred[None]:
        """See L{IDirectory.open}.

        @raise LdapConfigurationError: a file that the configuration names cannot be used.
        """
        self._connection.reopen()
        return _run(self._connection.check())

    def observe(self, changed: Callable[[DirectoryCondition], None]) -> None:
        """See L{IObservedDirectory.observe}."""
        self._observer = changed

    def _noted(self, server: LdapServer | None, problem: str) -> None:
        before, is_reached = self.condition, server is not None
        is_change = before.since is None or before.is_reached != is_reached
        self.condition = DirectoryCondition(
            source=str(self.settings if server is None else server),
            is_reached=is_reached,
            since=self._clock.now().wall if is_change else before.since,
            problem=problem,
        )
        try:
            self._observer(self.condition)
        except Exception:
            # The requests that wait for the connection are answered after this.
            self.log.failure("an observer of the directory {directory} failed", directory=self.settings)

    @property
    def servers(self) -> Sequence[str]:
        """See L{IServedDirectory.servers}."""
        return tuple(dict.fromkeys(server.host for server in self._connection.servers))

    def add_servers(self, names: Sequence[str]) -> None:
        """See L{IServedDirectory.add_servers}."""
        self._connection.add_servers(names)

    def find_servers(self) -> Deferred[None]:
        """See L{IServedDirectory.find_servers}."""
        return execute(lambda: None) if self._connection.servers else _run(self._connection.find_servers())

    def create(self, created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        """See L{IDirectory.create}."""
        return _run(_encodable(self._create(created, attributes)))

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        """See L{IDirectory.delete}."""
        return _run(_encodable(self._delete(deleted)))

    def read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
    ) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read}."""
        return _run(self._read(of, filters, attributes))

    def begin_read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        order: Sequence[SortOrder] = (),
    ) -> Deferred[int]:
        """See L{IDirectory.begin_read}."""
        return _run(self._begin_read(of, filters, attributes, order))

    def read_next(self, handle: int) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read_next}."""
        return execute(self._reads.next, handle)

    def end_read(self, handle: int) -> Deferred[None]:
        """See L{IDirectory.end_read}."""
        return execute(self._reads.end, handle)

    def write(self, written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        """See L{IDirectory.write}."""
        return _run(_encodable(self._write(written, attributes)))

    def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        """See L{IConditionalDirectory.write_if_unchanged}."""
        return _run(_encodable(self._write_if_unchanged(written, former, attributes)))

    def resolve_distribution_list(self, name: DistributionListFormatName) -> Deferred[Sequence[FormatName]]:
        """See L{IDirectory.resolve_distribution_list}."""
        return _run(self._resolve(name))

    def object_sid(self, computer_name: str) -> Deferred[bytes]:
        """See L{IDirectory.object_sid}."""
        return _run(self._object_sid(computer_name))

    def account(self, sid: bytes) -> Deferred[Account]:
        """See L{IAccounts.account}."""
        return _run(self._accounts.of_sid(sid))

    def account_named(self, name: str) -> Deferred[Account]:
        """See L{IAccounts.account_named}."""
        return _run(self._accounts.of_name(name))

    def close(self) -> Deferred[None]:
        """See L{IDirectory.close}."""
        self._reads.clear()
        return execute(self._connection.close)

    # Implementation

    async def _create(self, created: DirectoryObject, attributes: Attributes) -> UUID:
        _check_supported(type(created), attributes)
        return await self._publishing.create(created, found_names(type(created), attributes))

    async def _delete(self, deleted: DirectoryObject) -> None:
        _check_supported(type(deleted), None)
        await self._publishing.delete(deleted)

    async def _write(self, written: DirectoryObject, attributes: Attributes) -> None:
        _check_supported(type(written), attributes)
        await self._publishing.write(written, found_names(type(written), attributes))

    async def _write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> bool:
        _check_supported(type(written), tuple(attributes))
        return await self._publishing.write_if_unchanged(written, former, attributes)

    async def _read(
        self, of: type[DirectoryObject], filters: Sequence[AttributeFilter], attributes: Attributes
    ) -> DirectoryEntry[Any]:
        check_query(of, filters, attributes)
        _check_supported(of, attributes)
        found = await self._searching.find(of, filters, found_names(of, attributes), only_first=True)
        if not found:
            raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"no {of.TYPE} matches")
        return found[0].only(attributes)

    async def _begin_read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        attributes: Attributes,
        order: Sequence[SortOrder],
    ) -> int:
        check_query(of, filters, attributes, order)
        _check_supported(of, attributes)
        self._reads.check_room()
        found = FoundObjects(of, attributes)
        await self._searching.collect(of, filters, found_names(of, attributes), found)
        for _ in found.ordering(order, ORDERED_AT_ONCE):
            await deferLater(self._reactor, 0)
        return self._reads.begin(found)

    async def _resolve(self, name: DistributionListFormatName) -> Sequence[FormatName]:
        root = await self._operations.root()
        wanted = of_class("group", Equal(GUID, pack_guid(name.identifier)))
        found = await self._operations.find(root.domain, Scope.TREE, wanted, ("member",))
        if not found:
            raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no {name}")
        if len(found) > 1:
            raise ambiguous(f"the identifier of {name}", found)
        members = found[0].all("member")
        if len(members) > MOST_ELEMENTS:
            raise _generic(
                f"{found[0].name} has {len(members)} members;"
                f" a message is sent to at most {MOST_ELEMENTS} queues"
            )
        names = [value.decode(errors="replace") for value in members]
        try:
            entries, missing = await self._operations.look_up(names, _MEMBER_ATTRIBUTES)
        except ValueError as error:
            raise _generic(f"{found[0].name} has an invalid member: {error}") from error
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_NOT_FOUND,
                f"{found[0].name}: member {missing[0]} does not exist{more}",
            )
        resolved = []
        for entry in entries.values():
            resolved.append(_format_name(entry))
            if not len(resolved) % MEMBERS_AT_ONCE:
                await deferLater(self._reactor, 0)
        return resolved

    async def _object_sid(self, computer_name: str) -> bytes:
        found = await self._operations.computer(computer_name, (SID,))
        if found is None:
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no computer {computer_name}"
            )
        sid = found.first(SID)
        if sid is None:
            raise DirectoryError(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND, f"{found.name} has no {SID}")
        return sid


def _unobserved(condition: DirectoryCondition) -> None:
    """Before L{LdapDirectory.observe} no change is reported."""


def _run(coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
    return Deferred.fromCoroutine(coroutine)


async def _encodable(work: Coroutine[Any, Any, T]) -> T:
    """Perform a write.

    @raise DirectoryError: as the write does; C{GENERIC_ERROR} for a text that a directory cannot store.
    """
    try:
        return await work
    except UnicodeEncodeError as error:
        raise _generic(f"{quoted(str(error.object))} is not UTF-8, as every text in a directory") from error


def _generic(detail: str) -> DirectoryError:
    return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, detail)


def _check_supported(of: type[DirectoryObject], attributes: Attributes) -> None:
    """Check the preconditions of each type. [MS-MQDSSM] 3.1.6.3.

    @raise DirectoryError: C{GENERIC_ERROR} for what an LDAP directory does not contain.
    """
    if of not in CLASSES:
        raise _generic(f"an LDAP directory contains no {of.TYPE}")
    if attributes is not None:
        check_names(of, attributes)
        for name in CLASSES[of].unsupported.intersection(attributes):
            raise _generic(f"an LDAP directory does not contain the {name} of a {of.TYPE}")


def _format_name(entry: Entry) -> FormatName:
    """The format name of a member of a distribution list. [MS-MQDSSM] 3.1.6.9."""
    classes = {value.lower() for value in entry.all("objectClass")}
    identifier = entry.first(GUID)
    if b"msmq-custom-recipient" in classes:
        try:
            return parse_format_name((entry.first(_ALIAS) or b"").decode(errors="replace"), lenient=True)
        except MQError as error:
            raise _generic(f"{entry.name} is an alias of an invalid format name: {error}") from error
    if identifier is not None and len(identifier) == 16:
        if b"msmqqueue" in classes:
            return PublicFormatName(unpack_guid(identifier))
        if b"group" in classes:
            return DistributionListFormatName(unpack_guid(identifier))
    raise _generic(f"{entry.name} is neither a queue, nor an alias, nor a list")
