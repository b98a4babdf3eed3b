"""Directory provider that serves an enterprise file, a copy of which every queue manager of an estate has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeAlias, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from zope.interface import implementer

from msmq.directory.enterprise_copy import EnterpriseCopy, KeptFile
from msmq.directory.enterprise_file import (
    EnterpriseFile,
    EnterpriseFileError,
    parse_enterprise,
    read_enterprise,
)
from msmq.directory.file_stamp import FileStamp
from msmq.directory.file_writes import WrittenAttributes, kept_attributes, stated_attributes
from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import (
    DirectoryCondition,
    DirectoryError,
    DirectoryOperationResult,
    IAddressBook,
    IConditionalDirectory,
    IControlBook,
    IDirectory,
    IObservedDirectory,
    IWatchedDirectory,
)
from msmq.interfaces.security.access import Account, IAccounts
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueManagerObject, QueueObject, RoutingLinkObject
from msmq.membership.queries import AttributeFilter, SortOrder
from msmq.membership.requests import Attributes
from msmq.structures.names.format_name import DistributionListFormatName, FormatName
from msmq.wire.guid import NULL_GUID

_T = TypeVar("_T")

_KEYS: Final = "public_encryption_key_list"

CHECK_INTERVAL: Final = 2.0
"""Seconds between checks of the file for changes."""

RETRY_EVERY: Final = 60.0
"""Seconds after which an unchanged file with faults is read again, since files that it names may change."""


@implementer(
    IDirectory,
    IAccounts,
    IAddressBook,
    IWatchedDirectory,
    IObservedDirectory,
    IConditionalDirectory,
    IControlBook,
)
class FileDirectory:
    """A read-only directory from an enterprise file, which is reloaded when it changes.

    The file alone defines the objects: a queue manager or public queue that it does not name cannot be
    created, and nothing is written back.
    What a queue manager writes to its own object, or to one of its queues, is kept in the memory of its
    process and visible to no other.
    A certificate file that it names is a part of it.
    A changed file with faults has no effect; the faults are logged, and the directory stays as it was.
    If the file is missing or has faults when the directory is opened, the copy of the last good one is used;
    without a copy every request is refused with C{DIRECTORY_NOT_CONNECTED}. In both cases the file is checked
    again every two seconds.

    @ivar path: the file.
    @ivar condition: see L{IObservedDirectory.condition}.
    """

    name = "file"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        path: Path,
        clock: IClock,
        reactor: IReactorTime,
        copy: EnterpriseCopy,
        *,
        in_thread: Callable[..., Deferred[Any]] = deferToThread,
    ) -> None:
        """Serve the content of a file, once L{open} has read it.

        @param copy: stores the last good file.
        @param in_thread: calls a function in a worker thread.
        """
        self.path = path
        self.condition = DirectoryCondition(source=str(path))
        self._copy = copy
        self._in_thread = in_thread
        self._clock = clock
        self._reactor = reactor
        self._contents = _Contents(None, MemoryDirectory(clock))
        self._written = WrittenAttributes()
        self._watchers: list[Callable[[], None]] = []
        self._observers: list[Callable[[DirectoryCondition], None]] = []
        self._stamp: FileStamp | None = None
        self._certificates: Mapping[str, FileStamp | None] = {}
        self._retry = 0.0
        self._timer: IDelayedCall | None = None
        self._is_open = False

    def open(self) -> Deferred[None]:
        """Read the file, or the copy of the last good one if that fails. [MS-MQOD] 2.7.4."""
        self._is_open = True
        return Deferred.fromCoroutine(self._open()).addCallback(lambda _: self._wait())

    def close(self) -> Deferred[None]:
        """Stop checking the file."""
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return self._contents.memory.close()

    # IAddressBook, IWatchedDirectory

    def address_of(self, computer_name: str) -> str | None:
        """See L{IAddressBook.address_of}."""
        contents = self._contents
        identifier = contents.computers.get(computer_name.casefold())
        if contents.file is None or identifier is None:
            return None
        return contents.file.addresses.get(identifier)

    def control_of(self, computer_name: str) -> str | None:
        """See L{IControlBook.control_of}."""
        contents = self._contents
        identifier = contents.computers.get(computer_name.casefold())
        if contents.file is None or identifier is None:
            return None
        return contents.file.controls.get(identifier)

    def controlled(self) -> Sequence[str]:
        """See L{IControlBook.controlled}."""
        file = self._contents.file
        if file is None:
            return ()
        return tuple(
            each.computer_name
            for each in file.objects
            if isinstance(each, QueueManagerObject) and each.identifier in file.controls
        )

    def watch(self, changed: Callable[[], None]) -> None:
        """See L{IWatchedDirectory.watch}."""
        self._watchers.append(changed)

    def observe(self, changed: Callable[[DirectoryCondition], None]) -> None:
        """See L{IObservedDirectory.observe}."""
        self._observers.append(changed)

    # IDirectory

    def create(self, created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        """See L{IDirectory.create}: only a public queue that the file names can be created."""
        return Deferred.fromCoroutine(self._create(created, attributes))

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        """See L{IDirectory.delete}: what was written to a public queue is discarded; the file stays."""
        return Deferred.fromCoroutine(self._delete(deleted))

    def read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
    ) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read}."""
        asked: Deferred[DirectoryEntry[Any]] = self._ask(lambda memory: memory.read(of, filters, attributes))
        if of is QueueObject and attributes is None:
            # What no file states stays as its queue manager has it.
            asked.addCallback(lambda entry: attrs.evolve(entry, read=tuple(entry.values)))
        return asked

    def begin_read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        order: Sequence[SortOrder] = (),
    ) -> Deferred[int]:
        """See L{IDirectory.begin_read}."""
        return self._ask(lambda memory: memory.begin_read(of, filters, attributes, order))

    def read_next(self, handle: int) -> Deferred[DirectoryEntry[Any]]:
        """See L{IDirectory.read_next}."""
        return self._contents.memory.read_next(handle)

    def end_read(self, handle: int) -> Deferred[None]:
        """See L{IDirectory.end_read}."""
        return self._contents.memory.end_read(handle)

    def write(self, written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        """See L{IDirectory.write}: kept in the memory of this process, without quotas of a queue manager."""
        attributes = kept_attributes(written, attributes)
        writing: Deferred[None] = self._ask(lambda memory: memory.write(written, attributes))
        return writing.addCallback(lambda _: self._remember(written, attributes))

    def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        """See L{IConditionalDirectory.write_if_unchanged}: kept in the memory of this process."""

        def remember(is_written: bool) -> bool:
            if is_written:
                self._remember(written, tuple(attributes))
            return is_written

        writing: Deferred[bool] = self._ask(
            lambda memory: memory.write_if_unchanged(written, former, attributes)
        )
        return writing.addCallback(remember)

    def _remember(self, written: DirectoryObject, attributes: Attributes) -> None:
        identifier = self._contents.names.get(_name(written), written.identifier)
        self._written.add(identifier, written, attributes)
        if isinstance(written, QueueManagerObject) and (attributes is None or _KEYS in attributes):
            self._check_keys(identifier, written)

    def resolve_distribution_list(self, name: DistributionListFormatName) -> Deferred[Sequence[FormatName]]:
        """See L{IDirectory.resolve_distribution_list}: a file has none."""
        return self._ask(lambda memory: memory.resolve_distribution_list(name))

    def object_sid(self, computer_name: str) -> Deferred[bytes]:
        """See L{IDirectory.object_sid}: a file has none for computers."""
        return self._ask(lambda memory: memory.object_sid(computer_name))

    # IAccounts

    def account(self, sid: bytes) -> Deferred[Account]:
        """See L{IAccounts.account}."""
        return self._ask(lambda memory: memory.account(sid))

    def account_named(self, name: str) -> Deferred[Account]:
        """See L{IAccounts.account_named}."""
        return self._ask(lambda memory: memory.account_named(name))

    # Implementation

    def _check_keys(self, identifier: UUID, written: QueueManagerObject) -> None:
        """Warn if the file lacks an encryption key: other queue managers read it only from the file."""
        keys = written.public_encryption_key_list
        file = self._contents.file
        for held in () if file is None else file.objects:
            if (
                isinstance(held, QueueManagerObject)
                and held.identifier == identifier
                and held.public_encryption_key_list != keys
            ):
                self.log.warn(
                    "{path} does not have the public keys of {name}, so other queue managers cannot send it "
                    "encrypted messages; its [[queue_manager]] needs the line"
                    ' encryption_keys = "..." with the content of keys/encryption-keys.txt',
                    path=self.path,
                    name=held.computer_name,
                )

    def _ask(self, question: Callable[[MemoryDirectory], Deferred[_T]]) -> Deferred[_T]:
        return fail(self._away()) if self._contents.file is None else question(self._contents.memory)

    def _away(self) -> DirectoryError:
        problem = self.condition.problem or f"{self.path} has not been read yet"
        return DirectoryError(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, problem)

    async def _create(self, created: DirectoryObject, attributes: Attributes) -> UUID:
        if self._contents.file is None:
            raise self._away()
        title = _title(created)
        identifier = self._contents.names.get(_name(created))
        if not isinstance(created, QueueObject):
            if identifier is not None:
                raise DirectoryError(
                    DirectoryOperationResult.OBJECT_ALREADY_EXISTS, f"{self.path} contains {title} already"
                )
            self._refuse(f"{self.path} contains no {title}, and msmq does not write it; add it there")
        if identifier is None:
            self._refuse(
                f"{self.path} contains no {title}, and msmq does not write it; add a [[queue]] there"
            )
        if identifier in self._written:
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_ALREADY_EXISTS, f"{title} was created already"
            )
        await self.write(attrs.evolve(created, identifier=identifier), attributes)
        return identifier

    async def _delete(self, deleted: DirectoryObject) -> None:
        if self._contents.file is None:
            raise self._away()
        identifier = deleted.identifier
        if identifier == NULL_GUID:
            identifier = self._contents.names.get(_name(deleted), NULL_GUID)
        if identifier not in self._contents.names.values():
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_NOT_FOUND, f"{self.path} contains no {_title(deleted)}"
            )
        if not isinstance(deleted, QueueObject):
            self._refuse(f"msmq does not write {self.path}; remove {_title(deleted)} there")
        self._written.discard(identifier)

    def _refuse(self, detail: str) -> NoReturn:
        raise DirectoryError(DirectoryOperationResult.GENERIC_ERROR, detail)

    async def _open(self) -> None:
        try:
            await self._load()
        except EnterpriseFileError as error:
            await self._use_copy(_first_problem(error))

    async def _use_copy(self, problem: str) -> None:
        """The file cannot be used at the start: serve its last good content."""
        kept: KeptFile | None = await self._in_thread(self._copy.load, self.path)
        if kept is not None:
            try:
                self._contents = await self._in_thread(
                    _Contents.of, self.path, kept.content, self._clock, kept.certificates
                )
            except EnterpriseFileError:
                # A copy by an older version, which accepted what this one rejects.
                kept = None
        self._lost(problem, None if kept is None else kept.read)

    async def _load(self) -> None:
        """Read the file in a worker thread, and replace the content.

        @raise EnterpriseFileError: it cannot be read, or has faults; the content is unchanged.
        """
        # A file that cannot be read is read again at the next check, whatever its times are.
        self._stamp = None
        stamp = FileStamp.of(self.path)
        content: bytes = await self._in_thread(read_enterprise, self.path)
        self._stamp = stamp
        contents: _Contents
        try:
            contents = await self._in_thread(_Contents.of, self.path, content, self._clock)
        except EnterpriseFileError as error:
            self._certificates = error.certificate_stamps
            raise
        assert contents.file is not None
        self._certificates = contents.file.certificate_stamps
        contents.memory.continue_reads(self._contents.memory)
        self._contents = contents
        for written, attributes in self._written.for_content(set(contents.names.values())):
            await contents.memory.write(written, attributes)
        now = self._clock.now().wall
        try:
            kept = KeptFile(content, now, contents.file.certificates)
            await self._in_thread(self._copy.keep, self.path, kept)
        except OSError as error:
            self.log.error(
                "{copy} cannot be written, so a start without {path} uses an older copy: {error}",
                copy=self._copy.path,
                path=self.path,
                error=error.strerror,
            )
        self._become(DirectoryCondition(source=str(self.path), read=now))

    def _wait(self) -> None:
        if self._is_open:
            self._timer = self._reactor.callLater(CHECK_INTERVAL, self._check_file)

    def _certificate_stamps(self) -> Mapping[str, FileStamp | None]:
        """The present stamps of the certificate files; called in a worker thread."""
        return {name: FileStamp.of(self.path.parent / name) for name in self._certificates}

    def _check_file(self) -> None:
        self._timer = None
        Deferred.fromCoroutine(self._reload_changed()).addErrback(
            lambda failure: self.log.failure("the directory could not be reloaded", failure)
        ).addBoth(lambda _: self._wait())

    async def _reload_changed(self) -> None:
        stamp = FileStamp.of(self.path)
        is_due = not self.condition.is_reached and self._clock.now().monotonic >= self._retry
        is_changed = stamp is None or stamp != self._stamp
        if not (is_changed or is_due) and self._certificates:
            known = self._certificates
            is_changed = await self._in_thread(self._certificate_stamps) != known
        if is_changed or is_due:
            await self._reload()

    async def _reload(self) -> None:
        try:
            await self._load()
        except EnterpriseFileError as error:
            self._lost(_first_problem(error), self.condition.read)
            return
        self.log.info("{path} was reloaded", path=self.path)
        for changed in self._watchers:
            changed()

    def _lost(self, problem: str, read: float | None) -> None:
        """The file cannot be used; logged once, and not at every check."""
        self._retry = self._clock.now().monotonic + RETRY_EVERY
        self._become(DirectoryCondition(source=str(self.path), is_reached=False, read=read, problem=problem))

    def _become(self, condition: DirectoryCondition) -> None:
        before = self.condition
        is_changed = before.since is None or before.is_reached != condition.is_reached
        since = self._clock.now().wall if is_changed else before.since
        self.condition = attrs.evolve(condition, since=since)
        if is_changed or before.problem != condition.problem:
            for changed in self._observers:
                changed(self.condition)


_Name: TypeAlias = tuple[type[DirectoryObject], tuple[Any, ...]]


@attrs.frozen
class _Contents:
    """The content of a file, indexed for queries.

    @ivar names: the identifier of every object that has a name.
    @ivar computers: the identifiers of queue managers by both of their names.
    """

    file: EnterpriseFile | None
    memory: MemoryDirectory
    names: Mapping[_Name, UUID] = attrs.field(factory=dict)
    computers: Mapping[str, UUID] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, path: Path, content: bytes, clock: IClock, certificates: Mapping[str, bytes] | None = None
    ) -> _Contents:
        """Parse the bytes of a file; called in a worker thread.

        @param certificates: the certificates that it names, where they are not to be read.
        @raise EnterpriseFileError: it has faults.
        """
        file = parse_enterprise(path, content, certificates)
        memory = MemoryDirectory(clock)
        names: dict[_Name, UUID] = {}
        computers: dict[str, UUID] = {}
        links: dict[_Name, RoutingLinkObject] = {}
        for each in file.objects:
            if isinstance(each, RoutingLinkObject):
                known = links.setdefault(_name(each), each)
                if each.actual_cost < known.actual_cost:
                    links[_name(each)] = each
        for each in file.objects:
            if isinstance(each, RoutingLinkObject) and links[_name(each)] is not each:
                # A directory has one link between two sites; of several the cheapest is used.
                continue
            names[_name(each)] = memory.add(each, stated_attributes(each))
            if isinstance(each, QueueManagerObject):
                computers[each.computer_name.casefold()] = each.identifier
                computers.setdefault(each.qualified_computer_name.casefold(), each.identifier)
        for account in file.accounts:
            memory.add_account(account)
        return cls(file, memory, names, computers)


def _name(held: DirectoryObject) -> _Name:
    values = (getattr(held, part) for part in held.NAME)
    return type(held), tuple(value.casefold() if isinstance(value, str) else value for value in values)


def _title(held: DirectoryObject) -> str:
    names = (getattr(held, part) for part in held.NAME)
    shown = ", ".join(str(name) for name in names if not isinstance(name, bytes))
    return f"{held.TYPE} {shown}".rstrip()


def _first_problem(error: EnterpriseFileError) -> str:
    more = f", and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
    return f"{error.problems[0]}{more}"
