"""Users, groups and computers in an LDAP directory, and their group memberships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msmq.directory.ldap.entries.attribute_mapping import SID
from msmq.directory.ldap.names import DistinguishedNameError, child, is_within, split
from msmq.directory.ldap.operations import Operations, ambiguous
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.filters import Equal, Present, of_class
from msmq.directory.ldap.transport.wire import Entry, Scope
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.interfaces.security.access import Account
from msmq.quoting import quoted
from msmq.wire.sid import format_sid

MOST_GROUPS: Final = 1000
"""Limit on the groups of one account; Windows too has a limit of about a thousand."""

_SHOWN: Final = 32
"""Bytes of a malformed SID in an error text."""

_CLASS: Final = "objectClass"
_ACCOUNT_NAME: Final = "sAMAccountName"
_GROUP_SIDS: Final = "tokenGroups"
_FOREIGN: Final = b"foreignsecurityprincipal"
"""The class of an account of a trusted domain, in lower case: it has the SID, for groups of this domain."""
_NAMES: Final = (_ACCOUNT_NAME, "uid", "cn")
_BUILTIN: Final = "builtin"
"""The domain of groups such as Users, in lower case; each domain has these, with the same SIDs."""
_BUILTIN_SIDS: Final = "S-1-5-32-"

_NAMING_CONTEXT: Final = "nCName"
_NETBIOS_NAME: Final = "nETBIOSName"
_DNS_NAME: Final = "dnsRoot"
_OF_DOMAIN: Final = (_NAMING_CONTEXT, _NETBIOS_NAME, _DNS_NAME)
_ATTRIBUTES: Final = (_CLASS, SID, *_NAMES)


class LdapAccounts:
    """Finds accounts by their SIDs and names.

    Active Directory computes all groups of an account ([MS-ADTS] 3.1.1.4.5.19 tokenGroups).
    On other servers the groups with the account as a member are searched, then the groups of these.

    An incomplete list of groups is unsafe: rights denied to a missing group would be allowed.
    So an account is an error if its groups cannot be determined, or are too many.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def of_sid(self, sid: bytes) -> Account:
        """The account that has a SID.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}.
        """
        return await self._only(Equal(SID, sid), format_sid(sid), sid)

    async def of_name(self, name: str) -> Account:
        """The account of a name; on Active Directory, a part before a backslash has to name its domain.

        A global catalog has the accounts of the domains below too, which are not meant.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}; C{GENERIC_ERROR} if several have it.
        """
        domain, _, own_name = name.rpartition("\\")
        try:
            wanted = own_name.encode()
        except UnicodeEncodeError as error:
            # An unpaired surrogate cannot occur in a directory.
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no account {quoted(name)}"
            ) from error
        is_active_directory = (await self._operations.root()).dialect is Dialect.ACTIVE_DIRECTORY
        if is_active_directory and domain:
            _check_domain(domain, name, await self._domain_names())
        for attribute in (_ACCOUNT_NAME,) if is_active_directory else ("uid", "cn"):
            try:
                account = await self._only(
                    Equal(attribute, wanted), name, is_of_own_domain=is_active_directory
                )
                is_builtin = format_sid(account.sid).startswith(_BUILTIN_SIDS)
                if is_builtin or not is_active_directory or domain.casefold() != _BUILTIN:
                    return account
            except DirectoryError as error:
                if error.result is not DirectoryOperationResult.OBJECT_NOT_FOUND:
                    raise
        raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no account {name}")

    async def _domain_names(self) -> list[str]:
        """The NetBIOS and the DNS name of the domain. [MS-ADTS] 6.1.1.2.1.1."""
        root = await self._operations.root()
        wanted = of_class("crossRef", Present(_NETBIOS_NAME))
        partitions = child("Partitions", root.configuration)
        names: list[str] = []
        longest = 0
        for entry in await self._operations.find(partitions, Scope.CHILDREN, wanted, _OF_DOMAIN):
            context = (entry.first(_NAMING_CONTEXT) or b"").decode("utf-8", "replace")
            if len(context) > longest and is_within(root.domain, context):
                longest = len(context)
                values = (entry.first(_NETBIOS_NAME), entry.first(_DNS_NAME))
                names = [value.decode("utf-8", "replace") for value in values if value]
        return names

    async def _only(
        self, term: Equal, shown: str, sid: bytes | None = None, *, is_of_own_domain: bool = False
    ) -> Account:
        """The account that matches.

        @param is_of_own_domain: whether accounts of domains below do not count, on Active Directory.
        """
        root = await self._operations.root()
        found = [
            entry
            for entry in await self._operations.find(root.domain, Scope.TREE, term, _ATTRIBUTES)
            if _is_sid(entry.first(SID))
            and sid in (None, entry.first(SID))
            and not (is_of_own_domain and _is_of_domain_below(entry.name, root.domain))
        ]
        if not found:
            raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no account {shown}")
        if len(found) > 1:
            raise ambiguous(f"the account name or SID {shown}", found)
        return await self._account(found[0], root.dialect)

    async def _account(self, entry: Entry, dialect: Dialect) -> Account:
        sid = entry.first(SID) or b""
        classes = {each.lower() for each in entry.all(_CLASS)}
        if dialect is Dialect.ACTIVE_DIRECTORY:
            if _FOREIGN in classes:
                raise _unknown_groups(
                    entry, "it is an account of another domain, which alone has all of them"
                )
            groups = await self._computed_groups(entry)
            if not groups and b"group" not in classes:
                # Each account has a primary group, which is in this attribute too; so reading it was denied.
                raise _unknown_groups(entry, f"the directory does not return its {_GROUP_SIDS}")
        else:
            groups = await self._searched_groups(entry)
        is_user = b"user" in classes and not classes & {b"computer", b"group"}
        return Account(sid, _name(entry), frozenset(groups - {sid}), is_user)

    async def _computed_groups(self, entry: Entry) -> set[bytes]:
        # It is computed for a single entry only, and returned only when requested by name.
        found_entry = await self._operations.entry(entry.name, (_GROUP_SIDS,))
        if found_entry is None:
            raise _unknown_groups(entry, "it no longer exists")
        return {_group_sid(entry, sid) for sid in found_entry.all(_GROUP_SIDS)}

    async def _searched_groups(self, entry: Entry) -> set[bytes]:
        root = await self._operations.root()
        sids: set[bytes] = set()
        seen = {entry.name}
        left = [entry.name]
        while left:
            member = of_class("group", Equal("member", left.pop().encode()))
            groups = await self._operations.find(root.domain, Scope.TREE, member, (SID,), needs_all=True)
            for group in groups:
                if group.name not in seen:
                    seen.add(group.name)
                    left.append(group.name)
                    # A group without a SID cannot occur in an access control list.
                    if (sid := group.first(SID)) is not None and _is_sid(sid):
                        sids.add(sid)
            # The account itself is among them.
            if len(seen) > MOST_GROUPS + 1:
                raise _unknown_groups(entry, f"it is in more than {MOST_GROUPS}")
        return sids


def _is_of_domain_below(name: str, domain: str) -> bool:
    """Whether an entry belongs to a domain below another one: the name of each domain begins with C{DC}."""
    try:
        own, above = split(name), split(domain)
    except DistinguishedNameError:
        # It could be of any.
        return True
    return any(kind == "dc" for kind, _ in own[: -len(above) or None])


def _check_domain(domain: str, name: str, known: Sequence[str]) -> None:
    """Check that a domain is the one whose accounts are searched: another one may have the same names.

    @param known: its names.
    @raise DirectoryError: C{OBJECT_NOT_FOUND}.
    """
    if domain.casefold() not in (_BUILTIN, *(each.casefold() for each in known)):
        raise DirectoryError(
            DirectoryOperationResult.OBJECT_NOT_FOUND,
            f"there is no account {quoted(name)}: the accounts are those of"
            f" {' or '.join(known) or 'a domain whose name cannot be read'}; name others by their SIDs",
        )


def _is_sid(value: bytes | None) -> bool:
    try:
        return value is not None and bool(format_sid(value))
    except ValueError:
        return False


def _group_sid(entry: Entry, sid: bytes) -> bytes:
    """A SID that the server has computed for an account.

    @raise DirectoryError: it is malformed: it is not known which group is missing.
    """
    if not _is_sid(sid):
        raise _unknown_groups(entry, f"{sid[:_SHOWN].hex() or 'nothing'} is not a SID")
    return sid


def _unknown_groups(entry: Entry, why: str) -> DirectoryError:
    return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, f"the groups of {entry.name}: {why}")


def _name(entry: Entry) -> str:
    for attribute in _NAMES:
        value = entry.first(attribute)
        if value is not None:
            return value.decode("utf-8", "replace")
    return entry.name
