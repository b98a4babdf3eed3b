"""Directory access: reads, writes and online state. [MS-MQDMPR] 3.1.7.1.18 to 3.1.7.1.25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import (
    DirectoryChanges,
    Divergence,
    has_other_keys,
    take_over_queue,
    take_over_queue_manager,
)
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import ChangeOperation, DirectoryOperationResult
from msmq.membership.local import QUOTAS, LocalQueueManager, queue_change
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import AttributeFilter, SortOrder, check_query, equals, select
from msmq.membership.requests import (
    AskDirectory,
    Attributes,
    BeginRead,
    CreateObject,
    DeleteObject,
    DirectoryRequest,
    EndRead,
    NextRead,
    Outcome,
    Procedure,
    QueueManagerChanged,
    ReadObject,
    ReportDivergence,
    SendChangeNotification,
    Store,
    UpdateLocally,
    WriteObject,
)
from msmq.membership.timers import DirectoryTimer, DirectoryTimers, DirectoryTimes
from msmq.moment import Moment
from msmq.persistence.definition import QueueType

T = TypeVar("T", bound=DirectoryObject)

NO_DIRECTORY = Outcome(
    DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, detail="this queue manager has no directory"
)
"""Result of every event in workgroup mode."""

_KEYS: Final = ("public_encryption_key_list", "public_signing_key_list")
_GONE: Final = "its object is not in the directory; the local queue is unchanged"

OFFLINE = Outcome(
    DirectoryOperationResult.DIRECTORY_NOT_CONNECTED,
    detail="the directory was unreachable and was not queried again",
)


class DirectoryAccess:
    """Directory events of a queue manager. [MS-MQDMPR] 3.1.7.1.18 to 3.1.7.1.25.

    Each event is a L{Procedure} that returns the L{Outcome} which the document names rStatus.
    Without a directory (workgroup mode) each returns DirectoryNotConnected, with no request and no change.
    While the directory is offline, reads return locally known data, until Check Directory Online succeeds. It
    runs once a minute, and when the manager requests it.

    @ivar local: this queue manager.
    @ivar timers: the directory timers.
    @ivar is_provisioned: false if the directory was unavailable when this queue manager was to be published.
    @ivar publication_refusal: why the directory refused the publication of this queue manager at its first
        start; empty if it did not.
    @param changes: policy for changes that others make to this queue manager's objects.
    """

    def __init__(
        self, local: LocalQueueManager, changes: DirectoryChanges, times: DirectoryTimes | None = None
    ) -> None:
        self.local = local
        self._changes = changes
        self._reported: set[str] = set()
        self.timers = DirectoryTimers(times or DirectoryTimes())
        self.is_provisioned = True
        self.publication_refusal = ""

    # Writing

    def create_directory_object(
        self, created: DirectoryObject, attributes: Attributes = None
    ) -> Procedure[Outcome]:
        """Create Directory Object; the value is the GUID of the new object. [MS-MQDMPR] 3.1.7.1.18.

        Change notifications of a public queue are sent before its creation, whether it succeeds or not.
        """
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        if _is_public_queue(created):
            yield SendChangeNotification(ChangeOperation.QUEUE_CREATION, created)
        return (yield from self._ask(CreateObject(created, attributes)))

    def delete_directory_object(self, deleted: DirectoryObject) -> Procedure[Outcome]:
        """Delete Directory Object; notifications are sent as for a creation. [MS-MQDMPR] 3.1.7.1.19."""
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        if _is_public_queue(deleted):
            yield SendChangeNotification(ChangeOperation.QUEUE_DELETION, deleted)
        return (yield from self._ask(DeleteObject(deleted)))

    def write_directory(
        self,
        written: DirectoryObject,
        attributes: Attributes = None,
        former: DirectoryEntry[Any] | None = None,
    ) -> Procedure[Outcome]:
        """Write Directory, and send change notifications. [MS-MQDMPR] 3.1.7.1.24.

        @param former: the values read before; if the attributes have changed since, nothing is written and
            the value is false.
        """
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        outcome = yield from self._ask(WriteObject(written, attributes, former))
        if outcome.succeeded:
            if _is_public_queue(written):
                yield SendChangeNotification(ChangeOperation.QUEUE_UPDATE, written)
            elif isinstance(written, QueueManagerObject):
                yield SendChangeNotification(ChangeOperation.QUEUE_MANAGER_UPDATE, written)
        return outcome

    # Reading

    def read_directory(
        self,
        of: type[T],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        *,
        force_directory_read: bool = False,
    ) -> Procedure[Outcome]:
        """Read Directory; the value is the L{DirectoryEntry} of the first match. [MS-MQDMPR] 3.1.7.1.20.

        @param filters: all of them have to match; empty for any object of the type.
        @param force_directory_read: query the directory although it is offline, and do not go offline.
        @raise LocalProtocolError: the type lacks the attribute, or it does not support the comparison.
        """
        check_query(of, filters, attributes)
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        if self.local.directory_offline and not force_directory_read:
            return self._read_offline(of, filters, attributes)
        request = ReadObject(of, tuple(filters), attributes)
        return (yield from self._ask(request, goes_offline=not force_directory_read))

    def read_directory_begin(
        self,
        of: type[T],
        filters: Sequence[AttributeFilter] = (),
        attributes: Attributes = None,
        order: Sequence[SortOrder] = (),
    ) -> Procedure[Outcome]:
        """Read Directory Begin; the value is a handle. [MS-MQDMPR] 3.1.7.1.21.

        @param order: one for each of C{attributes}, or empty.
        @raise LocalProtocolError: as L{read_directory}.
        """
        check_query(of, filters, attributes, order)
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        if self.local.directory_offline:
            return OFFLINE
        request = BeginRead(of, tuple(filters), attributes, tuple(order))
        return (yield from self._ask(request, goes_offline=False))

    def read_directory_next(self, handle: int) -> Procedure[Outcome]:
        """Read Directory Next; the value is as of L{read_directory}. [MS-MQDMPR] 3.1.7.1.22."""
        return (yield from self._delegate(NextRead(handle)))

    def read_directory_end(self, handle: int) -> Procedure[Outcome]:
        """Read Directory End; the handle becomes invalid. [MS-MQDMPR] 3.1.7.1.23."""
        return (yield from self._delegate(EndRead(handle)))

    def read_all(self, of: type[T], filters: Sequence[AttributeFilter] = ()) -> Procedure[Outcome]:
        """GetDirectoryData; the value is a list of objects, which may be empty. [MS-MQBR] 3.1.5.9."""
        begun = yield from self.read_directory_begin(of, filters)
        if not begun.succeeded:
            return begun
        found: list[T] = []
        while (following := (yield from self.read_directory_next(begun.value))).succeeded:
            entry: DirectoryEntry[T] = following.value
            found.append(entry.object)
        yield from self.read_directory_end(begun.value)
        if following.result is DirectoryOperationResult.END_OF_DATA:
            return Outcome(value=found)
        return following

    def read_by_identifier(self, of: type[T], identifier: UUID) -> Procedure[T | None]:
        """The object of this type and Identifier; C{None} if it cannot be read. [MS-MQDMPR] 3.1.7.1.20."""
        outcome = yield from self.read_directory(of, (equals("identifier", identifier),))
        if not outcome.succeeded:
            return None
        entry: DirectoryEntry[T] = outcome.value
        return entry.object

    def _read_offline(
        self, of: type[DirectoryObject], filters: Sequence[AttributeFilter], attributes: Attributes
    ) -> Outcome:
        if of is QueueObject:
            queues = [DirectoryEntry.holding(queue) for queue in self.local.public_queues.values()]
            if found := select(queues, filters, attributes):
                return Outcome(value=found[0])
            result = DirectoryOperationResult.OBJECT_NOT_FOUND
            return Outcome(
                result, detail="no queue of this queue manager matches, and the directory is unreachable"
            )
        if of is QueueManagerObject and (
            itself := select([DirectoryEntry.holding(self.local.object)], filters, attributes)
        ):
            return Outcome(value=itself[0])
        return OFFLINE

    # Online state

    def check_directory_online(self) -> Procedure[bool]:
        """Check Directory Online: read the own object from the directory. [MS-MQDMPR] 3.1.7.1.25.

        If that succeeds, its values and those of the own public queues are adopted; otherwise it is retried
        after a minute.

        @return: whether the directory is online.
        """
        is_online = yield from self.ask_whether_online()
        if is_online:
            yield from self.refresh_public_queues()
        return is_online

    def ask_whether_online(self) -> Procedure[bool]:
        """First half of Check Directory Online: read the own object. [MS-MQDMPR] 3.1.7.1.25.

        @return: whether the directory is online.
        """
        local = self.local
        if not local.directory_integrated or not self.is_provisioned:
            # An unpublished queue manager is published first, when the Directory Online Timer expires.
            return False
        request = ReadObject(QueueManagerObject, (equals("identifier", local.object.identifier),))
        answer = yield AskDirectory(request)
        if not answer.outcome.succeeded:
            self.timers.start(DirectoryTimer.DIRECTORY_ONLINE, answer.now)
            return False
        local.directory_offline = False
        self.timers.stop(DirectoryTimer.DIRECTORY_ONLINE)
        yield from self.take_over(answer.outcome.value)
        return True

    def refresh_public_queues(self) -> Procedure[None]:
        """[MS-MQDMPR] 3.1.7.1.25 second half of Check Directory Online: refresh the own public queues
        one by one, until the directory is offline again.
        """
        for identifier in list(self.local.public_queues):
            if self.local.directory_offline:
                return
            yield from self._refresh(identifier)

    def take_over(self, entry: DirectoryEntry[QueueManagerObject]) -> Procedure[None]:
        """Adopt and store the attributes of the own object that were read."""
        unset = self.local.unset_quotas
        changed = yield from self.reconcile(entry)
        if changed != self.local.object or unset != self.local.unset_quotas:
            self.local.object = changed
            yield Store([self.local.object_change()])
            yield QueueManagerChanged(changed)

    def reconcile(self, entry: DirectoryEntry[QueueManagerObject]) -> Procedure[QueueManagerObject]:
        """Merge the own object with the one that was read; foreign public keys are replaced."""
        found = self.own_object(entry)
        changed, differences = take_over_queue_manager(self.local.object, found)
        yield from self._report("", differences)
        if has_other_keys(differences):
            yield from self.write_directory(changed, _KEYS)
        return changed

    def own_object(self, entry: DirectoryEntry[QueueManagerObject]) -> QueueManagerObject:
        """The own object as it was read; which quotas the directory lacks is noted."""
        local = self.local
        local.unset_quotas = frozenset(name for name in QUOTAS if name not in entry.values)
        return local.with_unset(entry.onto(local.object))

    def check_own_objects(self) -> Procedure[None]:
        """Compare the own object and the own public queues with the directory, while online."""
        local = self.local
        if not local.directory_integrated or local.directory_offline:
            return
        own = yield from self.read_directory(
            QueueManagerObject, (equals("identifier", local.object.identifier),)
        )
        if own.succeeded and not local.directory_offline:
            yield from self.take_over(own.value)
        for identifier in list(local.public_queues):
            before = local.public_queues.get(identifier)
            outcome = yield from self.read_directory(QueueObject, (equals("identifier", identifier),))
            if local.directory_offline:
                return
            yield from self.take_over_queue(before, outcome)

    def take_over_queue(self, before: QueueObject | None, outcome: Outcome) -> Procedure[None]:
        """Adopt the set attributes of an own public queue's directory object, as far as the policy allows.

        @param before: the queue as it was when the read began; after a change since then, which the read may
            not have seen, nothing is adopted.
        @param outcome: the result of reading all of its attributes.
        """
        yield from self._take_over_queue(before, outcome, only_set=True)

    def _refresh(self, identifier: UUID) -> Procedure[None]:
        before = self.local.public_queues.get(identifier)
        outcome = yield from self.read_directory(QueueObject, (equals("identifier", identifier),))
        yield from self._take_over_queue(before, outcome, only_set=False)

    def _take_over_queue(
        self, before: QueueObject | None, outcome: Outcome, *, only_set: bool
    ) -> Procedure[None]:
        if before is None:
            return
        identifier = before.identifier
        held = self.local.public_queues.get(identifier)
        if held is not before:
            return
        if outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
            yield from self._report_divergence(held.pathname, (_GONE,), ())
            return
        if not outcome.succeeded:
            return
        entry: DirectoryEntry[QueueObject] = outcome.value
        found = entry.onto(held)
        if only_set:
            found = attrs.evolve(held, **entry.values)
        refreshed, differences = take_over_queue(held, found, self._changes)
        yield from self._report(held.pathname, differences)
        if refreshed != held:
            yield UpdateLocally(refreshed, [queue_change(refreshed)])
            if identifier in self.local.public_queues:
                self.local.public_queues[identifier] = refreshed

    def _report(self, path: str, differences: Sequence[Divergence]) -> Procedure[None]:
        yield from self._report_divergence(
            path,
            tuple(str(each) for each in differences if each.is_kept),
            tuple(str(each) for each in differences if not each.is_kept),
        )

    def _report_divergence(self, path: str, kept: tuple[str, ...], taken: tuple[str, ...]) -> Procedure[None]:
        if kept or taken or path in self._reported:
            yield ReportDivergence(path, kept, taken)
        if kept:
            self._reported.add(path)
        else:
            self._reported.discard(path)

    # Asking

    def _ask(self, request: DirectoryRequest, *, goes_offline: bool = True) -> Procedure[Outcome]:
        answer = yield AskDirectory(request)
        if goes_offline and answer.outcome.is_disconnected:
            self._go_offline(answer.now)
        return answer.outcome

    def _delegate(self, request: DirectoryRequest) -> Procedure[Outcome]:
        if not self.local.directory_integrated:
            return NO_DIRECTORY
        return (yield from self._ask(request, goes_offline=False))

    def _go_offline(self, now: Moment) -> None:
        self.local.directory_offline = True
        self.timers.start_if_idle(DirectoryTimer.DIRECTORY_ONLINE, now)


def _is_public_queue(held: DirectoryObject) -> bool:
    return isinstance(held, QueueObject) and held.queue_type is QueueType.PUBLIC
