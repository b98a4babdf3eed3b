"""Operations on LDAP entries. [MS-MQDSSM] 3.1.6.12 to 3.1.6.19."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList, DeferredLock

from msmq.directory.ldap.entries.attribute_mapping import GUID, SECURITY
from msmq.directory.ldap.entries.entry_writer import security_flags
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import CONFIGURATION, child, folded
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING, Equal, Filter, of_class
from msmq.directory.ldap.transport.ranges import (
    NO_RANGE_ERROR,
    ValueList,
    ValueRangeError,
    ranged_attributes,
    with_values,
)
from msmq.directory.ldap.transport.results import (
    ALREADY_EXISTS,
    BUSY,
    CONSTRAINT_VIOLATION,
    NO_NAME,
    NO_SUCH_ATTRIBUTE,
    NO_SUCH_OBJECT,
    SIZE_LIMIT_EXCEEDED,
    SUCCESS,
    UNAVAILABLE,
    VALUE_EXISTS,
    describe,
)
from msmq.directory.ldap.transport.root import Root
from msmq.directory.ldap.transport.wire import (
    Add,
    Delete,
    Entry,
    Exchange,
    LdapControl,
    Modify,
    Request,
    Result,
    Scope,
    SearchRequest,
    Values,
    paged,
    security_parts,
)
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.quoting import is_unicode

PAGE_SIZE: Final = 500
"""The page size of searches; Active Directory returns at most a thousand entries."""

MOST_PAGES: Final = 2000
"""Limit on the pages of one search: a million entries; a server may send pages with few entries, or none."""

LOOK_UPS_AT_ONCE: Final = 32
"""Limit on concurrent requests for single entries."""

NAMES_SHOWN: Final = 5
"""Limit on the names of entries in an error text."""

READS_OF_A_LIST: Final = 3
"""Limit on repeated reads of a long value list that changes meanwhile."""


_RESULTS: Final = {
    NO_SUCH_OBJECT: DirectoryOperationResult.OBJECT_NOT_FOUND,
    NO_SUCH_ATTRIBUTE: DirectoryOperationResult.ATTRIBUTE_NOT_FOUND,
    ALREADY_EXISTS: DirectoryOperationResult.OBJECT_ALREADY_EXISTS,
    # The document has GenericError; a server that is shutting down counts as not connected.
    BUSY: DirectoryOperationResult.DIRECTORY_NOT_CONNECTED,
    UNAVAILABLE: DirectoryOperationResult.DIRECTORY_NOT_CONNECTED,
}

_OTHER_VALUES: Final = frozenset({NO_SUCH_ATTRIBUTE, CONSTRAINT_VIOLATION, VALUE_EXISTS})
"""Results of a modification whose attribute has changed meanwhile: a value to delete is missing, a value to
add exists, or a single-valued attribute has another value."""

_DACL: Final = 4
_READ_PARTS: Final = 1 | 2 | _DACL
"""Owner, group and DACL; a request that includes the SACL returns nothing without the right to read that."""


def directory_result(code: int) -> DirectoryOperationResult:
    """The directory result for an LDAP result code. [MS-MQDSSM] 2.2.6."""
    return _RESULTS.get(code, DirectoryOperationResult.GENERIC_ERROR)


class Operations:
    """Reads and writes entries of one server.

    Every failure is a L{DirectoryError}.
    """

    def __init__(self, connection: LdapConnection) -> None:
        self._connection = connection
        # OpenLDAP supports one paged search per connection.
        self._paging = DeferredLock()

    async def root(self) -> Root:
        """The RootDSE of the server."""
        return await self._connection.root()

    async def entry(self, name: str, attributes: Sequence[str]) -> Entry | None:
        """The entry of this name; C{None} if there is none. [MS-MQDSSM] 3.1.6.14."""
        found = await self.find(name, Scope.ENTRY, ANYTHING, attributes)
        return found[0] if found else None

    async def entries(self, names: Iterable[str], attributes: Sequence[str]) -> dict[str, Entry]:
        """The existing entries of these names, by their L{folded} names."""
        found, _ = await self.look_up(names, attributes)
        return found

    async def look_up(
        self, names: Iterable[str], attributes: Sequence[str]
    ) -> tuple[dict[str, Entry], list[str]]:
        """As L{entries}, and the names without an entry.

        @raise ValueError: one of them is not a distinguished name.
        """
        found: dict[str, Entry] = {}
        missing: list[str] = []
        seen: set[str] = set()
        # Names are compared during the look-up, since thousands would block the reactor.
        some: dict[str, str] = {}
        for name in names:
            key = folded(name)
            if key in seen:
                continue
            seen.add(key)
            some[key] = name
            if len(some) == LOOK_UPS_AT_ONCE:
                await self._look_up_some(some, attributes, found, missing)
                some = {}
        await self._look_up_some(some, attributes, found, missing)
        return found, missing

    async def _look_up_some(
        self,
        names: Mapping[str, str],
        attributes: Sequence[str],
        found: dict[str, Entry],
        missing: list[str],
    ) -> None:
        asked = [Deferred.fromCoroutine(self.entry(name, attributes)) for name in names.values()]
        outcomes = await DeferredList(asked, consumeErrors=True)
        for (key, name), (succeeded, outcome) in zip(names.items(), outcomes, strict=True):
            if not succeeded:
                raise _error_of(outcome)
            if outcome is None:
                missing.append(name)
            else:
                found[key] = outcome

    async def by_identifier(
        self, class_name: str, identifier: UUID, attributes: Sequence[str]
    ) -> Entry | None:
        """The entry of a class that has this objectGUID. [MS-MQDSSM] 3.1.6.19.

        The identifiers of sites and links are looked for below the configuration.
        """
        root = await self.root()
        is_configuration = class_name in ("site", "mSMQSiteLink", "mSMQEnterpriseSettings")
        base = root.configuration if is_configuration else root.domain
        wanted = of_class(class_name, Equal(GUID, pack_guid(identifier)))
        found = await self.find(base, Scope.TREE, wanted, attributes)
        if len(found) > 1:
            raise ambiguous(f"the identifier {identifier}", found)
        return found[0] if found else None

    async def computer(self, name: str, attributes: Sequence[str]) -> Entry | None:
        """The computer of this name, in any container; C{None} if there is none.

        If there are several, the one that is a queue manager.

        @raise DirectoryError: C{GENERIC_ERROR} if there are several, and not one of them is a queue manager.
        """
        if not is_unicode(name):
            return None
        root = await self.root()
        wanted = of_class("computer", Equal("cn", name.encode()))
        found = await self.find(root.domain, Scope.TREE, wanted, attributes)
        if len(found) > 1:
            own = await self.entries((child(CONFIGURATION, each.name) for each in found), (GUID,))
            managers = [each for each in found if folded(child(CONFIGURATION, each.name)) in own]
            if len(managers) != 1:
                raise ambiguous(f"the computer name {name}", managers or found)
            return managers[0]
        return found[0] if found else None

    async def find(
        self,
        base: str,
        scope: Scope,
        wanted: Filter,
        attributes: Sequence[str],
        *,
        needs_all: bool = False,
    ) -> Sequence[Entry]:
        """The entries that match a filter, if these are few; none if there is no C{base}.

        @param needs_all: it is an error if there is no C{base}, or other servers may have more of them.
        """
        root = await self.root()
        request = SearchRequest(base, scope, wanted, tuple(attributes))
        answered = await self._connection.ask(request, self._reading(root, attributes), repeatable=True)
        if answered.result.code in (NO_SUCH_OBJECT, NO_NAME):
            if needs_all:
                raise _vanished(base, answered.result)
            return ()
        self._check(answered.result, base, len(answered.entries))
        if needs_all and answered.is_partial:
            raise DirectoryError(
                DirectoryOperationResult.GENERIC_ERROR, f"{base}: a part of it is on other servers"
            )
        return await self._whole(answered.entries)

    async def search(
        self,
        base: str,
        wanted: Filter,
        attributes: Sequence[str],
        take: Callable[[Sequence[Entry]], Awaitable[bool]],
    ) -> None:
        """All entries below C{base} that match a filter, a page at a time. [MS-MQDSSM] 3.1.6.15.

        @param take: called with each page; returns whether to continue.
        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED} also if the connection is lost between two pages,
            since another one cannot continue; C{GENERIC_ERROR} for more than L{MOST_PAGES} pages.
        """
        root = await self.root()
        await self._paging.acquire()
        connection = self._connection.current()
        count = pages = number = 0
        try:
            cookie = b""
            while True:
                if cookie and await connection.number() != number:
                    raise DirectoryError(
                        DirectoryOperationResult.DIRECTORY_NOT_CONNECTED,
                        f"{base}: the connection was lost between two pages of a search; repeat the request",
                    )
                request = SearchRequest(base, Scope.TREE, wanted, tuple(attributes))
                controls = (*self._reading(root, attributes), paged(PAGE_SIZE, cookie))
                # A cookie is valid only on the server that issued it.
                answered = await connection.ask_here(request, controls, repeatable=not cookie)
                if answered.result.code == NO_SUCH_OBJECT:
                    if cookie:
                        raise _vanished(base, answered.result)
                    return
                count, pages = count + len(answered.entries), pages + 1
                self._check(answered.result, base, count)
                if pages > MOST_PAGES:
                    raise DirectoryError(
                        DirectoryOperationResult.GENERIC_ERROR,
                        f"{base}: the server answers a search with more than {MOST_PAGES} pages",
                    )
                number = await connection.number()
                cookie = answered.result.cookie
                if not await take(await self._whole(answered.entries)) or not cookie:
                    break
            if cookie:
                # RFC 2696 3: a size of nothing tells the server that the rest is not wanted.
                await connection.ask_here(request, (paged(0, cookie),))
        finally:
            self._paging.release()

    async def _whole(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """[MS-ADTS] 3.1.1.3.1.3.3 the entries with all values of each attribute, including those that the
        server returns in ranges.
        """
        if not any(map(ranged_attributes, entries)):
            return entries
        return [
            with_values(entry, {name: await self._values(entry.name, name) for name in ranged})
            if (ranged := ranged_attributes(entry))
            else entry
            for entry in entries
        ]

    async def _values(self, name: str, attribute: str) -> list[bytes]:
        """All values of an attribute, which are read again from the first if they change."""
        for _ in range(READS_OF_A_LIST):
            read = ValueList(name, attribute)
            connection = self._connection.current()
            number = await connection.number()
            is_last = False
            while not is_last:
                request = SearchRequest(name, Scope.ENTRY, ANYTHING, read.following)
                answered = await connection.ask_here(request, (NO_RANGE_ERROR,), repeatable=True)
                if answered.result.code == NO_SUCH_OBJECT:
                    return []
                self._check(answered.result, name)
                if not answered.entries:
                    return []
                try:
                    is_last = read.add(answered.entries[0])
                except ValueRangeError as error:
                    raise DirectoryError(DirectoryOperationResult.GENERIC_ERROR, str(error)) from error
            # The order of values is stable within one connection only.
            if not read.is_changed and await connection.number() == number:
                return read.values
        raise DirectoryError(
            DirectoryOperationResult.GENERIC_ERROR,
            f"{name}: {attribute} was changed in each of {READS_OF_A_LIST} attempts to read it;"
            f" repeat the request",
        )

    async def add(self, name: str, class_name: str, values: Values) -> None:
        """Create an entry. [MS-MQDSSM] 3.1.6.12."""
        held = {attribute: each for attribute, each in values.items() if each}
        await self._do(Add(name, {"objectClass": (class_name.encode(),), **held}), name)

    async def add_if_missing(self, name: str, class_name: str, values: Values | None = None) -> None:
        """Create an entry unless there is one of this name."""
        try:
            await self.add(name, class_name, values or {})
        except DirectoryError as error:
            if error.result is not DirectoryOperationResult.OBJECT_ALREADY_EXISTS:
                raise

    async def modify(self, name: str, values: Values) -> None:
        """Replace or remove the values of attributes of an entry. [MS-MQDSSM] 3.1.6.16."""
        if values:
            await self._do(Modify(name, values), name)

    async def exchange(self, entry: Entry, values: Values) -> bool:
        """Replace the values of attributes of an entry, if they are unchanged since it was read.

        @return: whether they were unchanged.
        """
        former = {name: entry.all(name) for name in values}
        answered = await self._connection.ask(Exchange(entry.name, former, values))
        if answered.result.code in _OTHER_VALUES:
            now = await self.entry(entry.name, list(values))
            if now is None or any(set(now.all(name)) != set(former[name]) for name in values):
                return False
        self._check(answered.result, entry.name)
        return True

    async def set_security(self, name: str, descriptor: bytes) -> None:
        """Replace the security descriptor of an entry. [MS-MQDSSM] 3.1.6.17.

        In a domain only the DACL is replaced, if there is one: the domain determines the owner.
        """
        root = await self.root()
        controls: tuple[LdapControl, ...] = ()
        if root.dialect is Dialect.ACTIVE_DIRECTORY:
            parts = security_flags(descriptor)
            controls = (security_parts(parts & _DACL or parts),)
        await self._do(Modify(name, {SECURITY: (descriptor,)}), name, controls)

    async def delete(self, name: str) -> None:
        """Delete an entry without children. [MS-MQDSSM] 3.1.6.13."""
        await self._do(Delete(name), name)

    async def delete_if_there(self, name: str) -> None:
        """Delete an entry if there is one of this name."""
        try:
            await self.delete(name)
        except DirectoryError as error:
            if error.result is not DirectoryOperationResult.OBJECT_NOT_FOUND:
                raise

    async def _do(self, request: Request, name: str, controls: Sequence[LdapControl] = ()) -> None:
        answered = await self._connection.ask(request, controls)
        self._check(answered.result, name)

    @staticmethod
    def _reading(root: Root, attributes: Sequence[str]) -> tuple[LdapControl, ...]:
        if SECURITY in attributes and root.dialect is Dialect.ACTIVE_DIRECTORY:
            return (security_parts(_READ_PARTS),)
        return ()

    @staticmethod
    def _check(result: Result, name: str, count: int = 0) -> None:
        """@raise DirectoryError: unless a request has succeeded; C{count} entries were returned."""
        if result.code == SIZE_LIMIT_EXCEEDED:
            raise DirectoryError(
                DirectoryOperationResult.GENERIC_ERROR,
                f"{name}: the server's size limit allows {count} entries, and there are more"
                f" ({describe(result)}); raise the limit for the account of bind_dn"
                " (olcLimits or olcSizeLimit of OpenLDAP)",
            )
        if result.code != SUCCESS:
            raise DirectoryError(directory_result(result.code), f"{name}: {describe(result)}")


def _vanished(base: str, result: Result) -> DirectoryError:
    """The error that the base of a search is not there, or not any more, so that results would be missing."""
    return DirectoryError(
        DirectoryOperationResult.GENERIC_ERROR,
        f"{base}: there is no such entry, or this account may not see it ({describe(result)})",
    )


def ambiguous(what: str, entries: Sequence[Entry]) -> DirectoryError:
    """The error that several entries have a value that has to be unique; none of them is used.

    @param what: the value, for the sentence "... is that of 2 entries".
    """
    names = "; ".join(entry.name for entry in entries[:NAMES_SHOWN])
    more = f"; and {len(entries) - NAMES_SHOWN} more" if len(entries) > NAMES_SHOWN else ""
    return DirectoryError(
        DirectoryOperationResult.GENERIC_ERROR,
        f"{what} is that of {len(entries)} entries, of which one has to be deleted or renamed: {names}{more}",
    )


def _error_of(outcome: Any) -> BaseException:
    error: BaseException = outcome.value
    return error
