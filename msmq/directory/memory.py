"""Directory provider in memory, for tests and embedding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NoReturn, ParamSpec, TypeAlias, TypeVar
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred, execute
from zope.interface import implementer

from msmq.directory.reads import PendingReads
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import (
    DirectoryError,
    DirectoryOperationResult,
    IConditionalDirectory,
    IDirectory,
)
from msmq.interfaces.security.access import Account, IAccounts
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.membership.queries import AttributeFilter, SortOrder, check_query, equals, select
from msmq.membership.requests import Attributes
from msmq.structures.names.format_name import DistributionListFormatName, FormatName
from msmq.wire.guid import NULL_GUID
from msmq.wire.sid import format_sid

OWN_ATTRIBUTES: Final = frozenset(("create_time", "modify_time", "full_path", "directory_path"))
"""The attributes that the directory sets itself."""

_Name: TypeAlias = tuple[type[DirectoryObject], tuple[Any, ...]]

P = ParamSpec("P")
R = TypeVar("R")


def _refuse(result: DirectoryOperationResult, detail: str) -> NoReturn:
    raise DirectoryError(result, detail)


@implementer(IDirectory, IAccounts, IConditionalDirectory)
class MemoryDirectory:
    """A directory whose objects are in memory only.

    It has the semantics of an estate's directory: it refuses and sets the same attributes, and can be made
    unreachable by a test.

    @ivar is_connected: whether it can be reached; if C{False}, every request fails.
    @param clock: the source of CreateTime and ModifyTime.
    @param assigns_identifiers: assign a GUID to every new object, as Active Directory does; otherwise only to
        those that have none.
    @param make_identifier: the source of new GUIDs.
    """

    name = "memory"

    def __init__(
        self,
        clock: IClock,
        *,
        assigns_identifiers: bool = False,
        make_identifier: Callable[[], UUID] = uuid4,
    ) -> None:
        self.is_connected = True
        self._clock = clock
        self._assigns_identifiers = assigns_identifiers
        self._make_identifier = make_identifier
        self._entries: dict[UUID, DirectoryEntry[Any]] = {}
        self._names: dict[_Name, UUID] = {}
        self._lists: dict[UUID, tuple[FormatName, ...]] = {}
        self._sids: dict[str, bytes] = {}
        self._accounts: dict[bytes, Account] = {}
        self._reads = PendingReads()

    # For the owner

    def add(self, added: DirectoryObject, attributes: Collection[str] | None = None) -> UUID:
        """Add an object, whether connected or not; see L{IDirectory.create}.

        @raise DirectoryError: as L{IDirectory.create}.
        """
        of = type(added)
        values = dict(DirectoryEntry.holding(added, attributes).values)
        for part in of.NAME:
            if not values.get(part):
                _refuse(DirectoryOperationResult.GENERIC_ERROR, f"a {of.TYPE} needs its {part}")
        name = _name(added)
        if name in self._names or added.identifier in self._entries:
            _refuse(DirectoryOperationResult.OBJECT_ALREADY_EXISTS, f"{_title(added)} exists already")
        if isinstance(added, QueueObject):
            self._check_host(added)
        identifier = added.identifier
        if identifier == NULL_GUID or self._assigns_identifiers:
            identifier = self._make_identifier()
        values |= {"identifier": identifier, **self._own_attributes(added)}
        self._entries[identifier] = DirectoryEntry(of, values)
        self._names[name] = identifier
        return identifier

    def add_distribution_list(
        self, members: Sequence[FormatName], identifier: UUID | None = None
    ) -> DistributionListFormatName:
        """Add a distribution list, or change its members."""
        identifier = identifier or self._make_identifier()
        self._lists[identifier] = tuple(members)
        return DistributionListFormatName(identifier)

    def set_object_sid(self, computer_name: str, sid: bytes) -> None:
        """Set the SID of a computer."""
        self._sids[computer_name.lower()] = sid

    def add_account(self, account: Account) -> None:
        """Add a user or a group, or change its groups."""
        self._accounts[account.sid] = account

    def continue_reads(self, other: MemoryDirectory) -> None:
        """Continue the reads that were begun in another directory, which this one replaces."""
        self._reads = other._reads

    @property
    def open_reads(self) -> int:
        """The number of pending reads."""
        return len(self._reads)

    # IDirectory

    def open(self) -> Deferred[None]:
        """See L{IDirectory.open}."""
        return execute(lambda: None)

    def create(self, created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        """See L{IDirectory.create}."""
        return self._answer(self.add, created, attributes)

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        """See L{IDirectory.delete}."""
        return self._answer(self._delete, deleted)

    def read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
    ) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read}."""
        return self._answer(self._read, of, filters, attributes)

    def begin_read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        order: Sequence[SortOrder] = (),
    ) -> Deferred[int]:
        """See L{IDirectory.begin_read}."""
        return self._answer(self._begin_read, of, filters, attributes, order)

    def read_next(self, handle: int) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read_next}."""
        return self._answer(self._reads.next, handle)

    def end_read(self, handle: int) -> Deferred[None]:
        """See L{IDirectory.end_read}."""
        return self._answer(self._reads.end, handle)

    def write(self, written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        """See L{IDirectory.write}."""
        return self._answer(self._write, written, attributes)

    def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        """See L{IConditionalDirectory.write_if_unchanged}."""
        return self._answer(self._write_if_unchanged, written, former, tuple(attributes))

    def resolve_distribution_list(self, name: DistributionListFormatName) -> Deferred[Sequence[FormatName]]:
        """See L{IDirectory.resolve_distribution_list}."""
        return self._answer(self._resolve, name)

    def object_sid(self, computer_name: str) -> Deferred[bytes]:
        """See L{IDirectory.object_sid}."""
        return self._answer(self._object_sid, computer_name)

    def account(self, sid: bytes) -> Deferred[Account]:
        """See L{IAccounts.account}."""
        return self._answer(self._account, sid)

    def account_named(self, name: str) -> Deferred[Account]:
        """See L{IAccounts.account_named}."""
        return self._answer(self._account_named, name)

    def close(self) -> Deferred[None]:
        """See L{IDirectory.close}; the objects stay."""
        self._reads.clear()
        return execute(lambda: None)

    # Implementation

    def _answer(self, do: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Deferred[R]:
        def answer() -> R:
            if not self.is_connected:
                _refuse(
                    DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, "the memory directory is not connected"
                )
            return do(*args, **kwargs)

        return execute(answer)

    def _delete(self, deleted: DirectoryObject) -> None:
        entry = self._required(deleted)
        if entry.of is QueueManagerObject:
            computer = entry["computer_name"].lower()
            for other in self._entries.values():
                if other.of is QueueObject and _computer(other["pathname"]) == computer:
                    _refuse(
                        DirectoryOperationResult.GENERIC_ERROR,
                        f"{_title(deleted)} has the queue {other['pathname']}",
                    )
        del self._entries[entry["identifier"]]
        del self._names[_name(entry.object)]

    def _read(
        self, of: type[DirectoryObject], filters: Sequence[AttributeFilter], attributes: Attributes
    ) -> DirectoryEntry[Any]:
        check_query(of, filters, attributes)
        found = select(self._candidates(of, filters), filters)
        if not found:
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"no {of.TYPE} matches")
        for name in attributes or ():
            if name not in found[0].values:
                _refuse(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND, f"the {of.TYPE} has no {name}")
        return found[0].only(attributes)

    def _begin_read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        attributes: Attributes,
        order: Sequence[SortOrder],
    ) -> int:
        check_query(of, filters, attributes, order)
        self._reads.check_room()
        return self._reads.begin(select(self._all(of), filters, attributes, order)[::-1])

    def _write(self, written: DirectoryObject, attributes: Attributes) -> None:
        entry = self._required(written)
        new = DirectoryEntry.holding(written, attributes).values
        names = set(new if attributes is None else attributes)
        if attributes is None:
            names |= set(entry.values)
        names -= {"identifier", *type(written).NAME, *OWN_ATTRIBUTES}
        values = dict(entry.values)
        for name in names:
            if name in new:
                values[name] = new[name]
            else:
                values.pop(name, None)
        if "modify_time" in values:
            values["modify_time"] = self._clock.now().unix_seconds
        self._entries[entry["identifier"]] = DirectoryEntry(entry.of, values)

    def _write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: tuple[str, ...]
    ) -> bool:
        held = self._required(written).values
        if any(held.get(name) != former.values.get(name) for name in attributes):
            return False
        self._write(written, attributes)
        return True

    def _resolve(self, name: DistributionListFormatName) -> Sequence[FormatName]:
        if name.identifier not in self._lists:
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no {name}")
        return self._lists[name.identifier]

    def _object_sid(self, computer_name: str) -> bytes:
        sid = self._sids.get(computer_name.lower())
        if sid is not None:
            return sid
        if self._host(computer_name) is None:
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no computer {computer_name}")
        _refuse(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND, f"{computer_name} has no SID")

    def _account(self, sid: bytes) -> Account:
        if sid not in self._accounts:
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no account {format_sid(sid)}")
        return self._accounts[sid]

    def _account_named(self, name: str) -> Account:
        wanted = name.rpartition("\\")[2].casefold()
        found = [account for account in self._accounts.values() if account.name.casefold() == wanted]
        if not found:
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no account {name}")
        if len(found) > 1:
            _refuse(DirectoryOperationResult.GENERIC_ERROR, f"{len(found)} accounts are called {name}")
        return found[0]

    def _all(self, of: type[DirectoryObject]) -> list[DirectoryEntry[Any]]:
        return [entry for entry in self._entries.values() if entry.of is of]

    def _candidates(
        self, of: type[DirectoryObject], filters: Sequence[AttributeFilter]
    ) -> list[DirectoryEntry[Any]]:
        for expression in filters:
            if expression == equals("identifier", expression.value):
                entry = self._entries.get(expression.value)
                return [] if entry is None or entry.of is not of else [entry]
        return self._all(of)

    def _required(self, wanted: DirectoryObject) -> DirectoryEntry[Any]:
        entry: DirectoryEntry[Any] | None
        if wanted.identifier == NULL_GUID:
            entry = self._named(wanted)
        else:
            entry = self._entries.get(wanted.identifier)
        if entry is None or entry.of is not type(wanted):
            _refuse(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no {_title(wanted)}")
        return entry

    def _named(self, wanted: DirectoryObject) -> DirectoryEntry[Any] | None:
        identifier = self._names.get(_name(wanted))
        return None if identifier is None else self._entries[identifier]

    def _host(self, computer: str) -> DirectoryEntry[Any] | None:
        return self._named(QueueManagerObject(computer_name=computer))

    def _check_host(self, queue: QueueObject) -> None:
        computer = _computer(queue.pathname)
        if self._host(computer) is None:
            _refuse(
                DirectoryOperationResult.OBJECT_NOT_FOUND,
                f"{queue.pathname}: the computer is not a queue manager",
            )

    def _own_attributes(self, added: DirectoryObject) -> dict[str, Any]:
        path = _full_path(added)
        now = self._clock.now().unix_seconds
        own = {"create_time": now, "modify_time": now, "full_path": path, "directory_path": f"LDAP://{path}"}
        fields = {field.name for field in attrs.fields(type(added))}
        return {name: value for name, value in own.items() if name in fields}


def _computer(pathname: str) -> str:
    return pathname.partition("\\")[0].lower()


def _name(held: DirectoryObject) -> _Name:
    values = [getattr(held, part) for part in held.NAME]
    return type(held), tuple(value.lower() if isinstance(value, str) else value for value in values)


def _title(held: DirectoryObject) -> str:
    name = ", ".join(str(getattr(held, name)) for name in held.NAME if name != "security_identifier")
    return f"{held.TYPE} {name or held.identifier}"


def _full_path(held: DirectoryObject) -> str:
    """The distinguished name; types without a rule there have a similar one. [MS-MQDSSM] 2.2.1."""
    match held:
        case QueueManagerObject():
            path = f"CN=msmq,CN={held.computer_name},CN=Computers"
        case QueueObject():
            computer, _, queue = held.pathname.partition("\\")
            path = f"CN={queue},CN=msmq,CN={computer},CN=Computers"
        case SiteObject():
            path = f"CN={held.name},CN=Sites,CN=Configuration"
        case RoutingLinkObject():
            both = held.site1_identifier.hex + held.site2_identifier.hex
            path = f"CN={both},CN=MsmqServices,CN=Services,CN=Configuration"
        case EnterpriseObject():
            path = "CN=MsmqServices,CN=Services,CN=Configuration"
        case UserObject():
            path = f"CN={held.security_identifier.hex()},CN=Users"
        case _:
            path = f"CN={_title(held)}"
    return f"{path},DC=memory"
