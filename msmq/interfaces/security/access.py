"""Interfaces of access control: accounts of a directory, and access decisions."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Interface

from msmq.errors import MsmqError
from msmq.windows.access_check import AccessDecision, Token
from msmq.windows.access_masks import ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor


class AccountUnknown(MsmqError):
    """An account was not found, or the directory could not be queried; names the account and the reason."""


@attrs.frozen
class Account:
    """A user, a group or a computer.

    @ivar sid: its SID.
    @ivar name: its name, without a domain.
    @ivar groups: the SIDs of all groups that it is in, directly or through other groups.
    @ivar is_user: it is a user, not a group or computer.
    """

    sid: bytes
    name: str
    groups: frozenset[bytes] = frozenset()
    is_user: bool = True


class IAccounts(Interface):
    """A directory with accounts and their groups; some L{msmq.interfaces.directory.IDirectory} do.

    Every failure is a L{msmq.interfaces.directory.DirectoryError}, as those of C{IDirectory}.
    """

    def account(sid: bytes) -> Deferred[Account]:
        """The account with a SID.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}.
        """

    def account_named(name: str) -> Deferred[Account]:
        """The account with a name, case-insensitive.

        A part before a backslash has to name the domain of the directory; where domains have no names, it is
        ignored.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}; C{GENERIC_ERROR} if several have it.
        """


@attrs.frozen
class Ruling:
    """An operator's rule for an object, which replaces its own descriptor.

    @ivar descriptor: the resulting descriptor.
    @ivar source: its location, C{rules.toml:7} for example.
    """

    descriptor: SecurityDescriptor
    source: str


class IAccessControl(Interface):
    """Access control: decides on the rights of accounts.

    A directory failure is not an error here: access of an account that cannot be looked up is denied, with
    the reason ([MS-MQQB] 3.1.5.8.3).
    """

    def known_token(sid: bytes) -> Token | None:
        """The token of a principal, if it is cached; C{None} if a directory has to be queried.

        The tokens of the anonymous account and of everyone (S-1-1-0) are always known.
        """

    def token(sid: bytes) -> Deferred[Token]:
        """The token of a principal: its SID and those of its groups.

        Each principal is in C{everyone}, and each except anonymous in C{authenticated users}. A directory is
        queried only for authenticated principals.

        @raise AccountUnknown: the directory has no such account, or cannot be queried.
        """

    def check(
        descriptor: SecurityDescriptor, sid: bytes, asked: int, kind: ObjectKind
    ) -> AccessDecision | Deferred[AccessDecision]:
        """Access Check; a Deferred only if a directory has to be queried. [MS-DTYP] 2.5.3.2.

        @raise AccountUnknown: as L{token}.
        """

    def is_domain_user(sid: bytes) -> Deferred[bool]:
        """Whether a directory knows it as the SID of a user. [MS-MQDMPR] 3.1.7.1.3.1."""

    def resolve(principal: str) -> Deferred[bytes]:
        """The SID of a principal: a SID itself, a well-known name, one of the rules, or one of the
        directory.

        @raise AccountUnknown: it is not one of them.
        """

    def name_of(sid: bytes) -> str:
        """A SID as text, with its name if that is cached."""

    def ruling(path: str) -> Ruling | None:
        """What is written down about the queue of this path (C{private$\\orders}), if anything is."""

    def machine_ruling() -> Ruling | None:
        """The rule for the queue manager itself."""
