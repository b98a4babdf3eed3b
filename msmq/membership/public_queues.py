"""Creation, change and deletion of public queues. [MS-MQDMPR] 3.1.7.1.3, 3.1.7.1.4.

A queue is published first, then created locally; if that fails it is removed from the directory again.
A queue is deleted locally first, then from the directory; if that fails it is retried later.
Property changes are written to the directory first.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.membership.access import DirectoryAccess
from msmq.membership.entry import DirectoryEntry, check_names
from msmq.membership.enumerations import DirectoryOperationResult, refusal
from msmq.membership.local import (
    LocalQueueManager,
    deletion_change,
    deletion_removal,
    queue_change,
    queue_removal,
)
from msmq.membership.objects import QueueObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    CreateLocally,
    DeleteLocally,
    Outcome,
    Procedure,
    Store,
    UpdateLocally,
)
from msmq.moment import Moment
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathKind, PathName, parse_path_name
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

UNCHANGEABLE: Final = frozenset(
    (
        "identifier",
        "pathname",
        "qualified_pathname",
        "transactional",
        "create_time",
        "modify_time",
        "full_path",
        "directory_path",
    )
)
"""Attributes of a public queue that cannot be changed here."""

_PATHS: Final = ("full_path", "directory_path")


class QueueObjectChanged(MQError):
    """Another client has changed the object of a queue in the directory since it was read."""

    def __init__(self, pathname: str) -> None:
        super().__init__(
            Status.MQ_ERROR_DS_ERROR, f"{pathname} was changed in the directory meanwhile; repeat the request"
        )


def queue_type_of(path: PathName) -> QueueType:
    """The QueueType of a new queue, from the form of its path name. [MS-MQDMPR] 3.1.7.1.3."""
    match path.kind:
        case PathKind.PRIVATE:
            return QueueType.PRIVATE
        case PathKind.SYSTEM:
            return QueueType.SYSTEM
        case PathKind.PUBLIC:
            return QueueType.PUBLIC


def new_queue(local: LocalQueueManager, path: PathName, now: Moment, **attributes: Any) -> QueueObject:
    """The attributes of a new queue. [MS-MQDMPR] 3.1.7.1.3 and 3.1.7.1.33.

    @param attributes: values other than the defaults, by the names of L{QueueObject}.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE or MQ_ERROR_LABEL_TOO_LONG.
    """
    own = local.object
    qualified = own.qualified_computer_name or own.computer_name
    queue_type = queue_type_of(path)
    if queue_type is QueueType.PRIVATE:
        attributes["base_priority"] = 0
    return QueueObject(
        pathname=str(attrs.evolve(path, computer=own.computer_name)),
        qualified_pathname=str(attrs.evolve(path, computer=qualified)),
        create_time=now.unix_seconds,
        modify_time=now.unix_seconds,
        queue_type=queue_type,
        **attributes,
    )


def definition_of(queue: QueueObject) -> QueueDefinition:
    """Convert a public queue to a queue definition; unused attributes are left out."""
    return QueueDefinition(
        identifier=queue.identifier,
        path=parse_path_name(queue.pathname, lenient=True).queue_path,
        type=queue.queue_type,
        label=queue.label,
        transactional=queue.transactional,
        journal=queue.journaling,
        quota=queue.quota,
        journal_quota=queue.journal_quota,
        authenticate=queue.authentication,
        privacy=queue.privacy_level,
        application_type=queue.type,
        created=queue.create_time,
        modified=queue.modify_time,
        base_priority=queue.base_priority,
    )


class PublicQueues:
    """Public queues of this queue manager, local and in the directory.

    Only one procedure per path runs at a time; another one is refused meanwhile.
    """

    def __init__(self, access: DirectoryAccess) -> None:
        self._access = access
        self._busy: set[str] = set()

    def create(
        self, path: PathName, now: Moment, *, skip_directory: bool = False, **attributes: Any
    ) -> Procedure[QueueObject]:
        """Create Queue, for public queues. [MS-MQDMPR] 3.1.7.1.3.

        @param skip_directory: iSkipDirectory; create it only locally, under the given C{identifier}.
        @param attributes: as of L{new_queue}.
        @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME for a path that is not one of ours, or of no public
            queue; MQ_ERROR_QUEUE_EXISTS, here or in the directory; MQ_ERROR_NO_DS without one;
            MQ_ERROR_DS_ERROR for its other failures; and the errors of L{new_queue}.
        @raise LocalProtocolError: the directory is skipped without an identifier.
        """
        local = self._access.local
        if not local.is_own_name(path.computer):
            raise _illegal(path, f"{path.computer} is not this computer")
        is_whole = path.subqueue is None and path.suffix is QueueSuffix.NONE
        if path.kind is not PathKind.PUBLIC or not is_whole:
            raise _illegal(path, "this is not a name of a public queue")
        if local.public_queue(path) is not None:
            raise MQError(Status.MQ_ERROR_QUEUE_EXISTS, f"{path} exists")
        queue = new_queue(local, path, now, **attributes)
        if skip_directory and queue.identifier == NULL_GUID:
            raise LocalProtocolError(f"{path}: a public queue needs a directory")
        with _Busy(self._busy, queue.pathname, Status.MQ_ERROR_QUEUE_EXISTS):
            if not skip_directory:
                yield from self._finish_deletions_of(queue.pathname)
                queue = yield from self._publish(queue)
            try:
                yield CreateLocally(queue, [queue_change(queue)])
            except Exception:
                if not skip_directory:
                    yield from self._take_back(queue)
                raise
        local.public_queues[queue.identifier] = queue
        return queue

    def alter(
        self,
        queue: QueueObject,
        now: Moment,
        *,
        former: DirectoryEntry[QueueObject] | None = None,
        **attributes: Any,
    ) -> Procedure[QueueObject]:
        """Change properties of an own public queue. [MS-MQDMPR] 3.1.7.1.24.

        @param former: the object as it was read, if these properties must not have changed since.
        @raise QueueObjectChanged: they have changed.
        @param attributes: by the names of L{QueueObject}.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is not (or no longer) a queue of this queue manager,
            MQ_ERROR_SHARING_VIOLATION during another operation on it, MQ_ERROR_WRITE_NOT_ALLOWED for
            attributes that cannot change, MQ_ERROR_NO_DS, MQ_ERROR_DS_ERROR, MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
            MQ_ERROR_LABEL_TOO_LONG.
        @raise LocalProtocolError: unknown attribute.
        """
        local = self._access.local
        held = self._held(queue)
        check_names(QueueObject, attributes)
        if fixed := sorted(UNCHANGEABLE.intersection(attributes)):
            raise MQError(Status.MQ_ERROR_WRITE_NOT_ALLOWED, f"{', '.join(fixed)} of a queue cannot change")
        altered = attrs.evolve(held, modify_time=now.unix_seconds, **attributes)
        with _Busy(self._busy, held.pathname, Status.MQ_ERROR_SHARING_VIOLATION):
            names = tuple(sorted(attributes))
            written = yield from self._access.write_directory(altered, names, former)
            if not written.succeeded:
                raise _refused(written, held)
            if former is not None and not written.value:
                raise QueueObjectChanged(held.pathname)
            # Other attributes may have been adopted from the directory meanwhile.
            altered = attrs.evolve(self._held(held), modify_time=now.unix_seconds, **attributes)
            try:
                yield UpdateLocally(altered, [queue_change(altered)])
            except Exception:
                yield from self._access.write_directory(held if former is None else former.onto(held), names)
                raise
            local.public_queues[altered.identifier] = altered
        return altered

    def delete(self, queue: QueueObject, *, skip_directory: bool = False) -> Procedure[None]:
        """Delete Queue, for public queues: locally first. [MS-MQDMPR] 3.1.7.1.4.

        @param skip_directory: iSkipDirectory; leave it in the directory.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if it is not ours (any more),
            MQ_ERROR_SHARING_VIOLATION while something else is done about it; else the directory's refusal,
            while the queue is gone here and the directory is asked again later.
        """
        local = self._access.local
        held = self._held(queue)
        with _Busy(self._busy, held.pathname, Status.MQ_ERROR_SHARING_VIOLATION):
            changes = [queue_removal(held)]
            if not skip_directory:
                changes.append(deletion_change(held))
            yield DeleteLocally(held, changes)
            del local.public_queues[held.identifier]
            if skip_directory:
                return
            local.deletions[held.identifier] = held
            outcome = yield from _finish_deletion(self._access, held)
        if not outcome.succeeded:
            raise _refused(outcome, held)

    def _held(self, queue: QueueObject) -> QueueObject:
        held = self._access.local.public_queues.get(queue.identifier)
        if held is None:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{queue.pathname} is not a public queue here")
        return held

    def _publish(self, queue: QueueObject) -> Procedure[QueueObject]:
        created = yield from self._access.create_directory_object(queue)
        if not created.succeeded:
            raise _refused(created, queue)
        queue = attrs.evolve(queue, identifier=created.value)
        read = yield from self._access.read_directory(
            QueueObject, [equals("identifier", queue.identifier)], _PATHS
        )
        if read.succeeded:
            entry: DirectoryEntry[QueueObject] = read.value
            queue = entry.onto(queue)
        return queue

    def _take_back(self, queue: QueueObject) -> Procedure[None]:
        """Unpublish a queue that could not be created locally."""
        outcome = yield from self._access.delete_directory_object(queue)
        if outcome.succeeded:
            return
        self._access.local.deletions[queue.identifier] = queue
        # If the store fails for this change too, it is kept in memory.
        with contextlib.suppress(Exception):
            yield Store([deletion_change(queue)])

    def _finish_deletions_of(self, pathname: str) -> Procedure[None]:
        for former in list(self._access.local.deletions.values()):
            if former.pathname.lower() == pathname.lower():
                yield from _finish_deletion(self._access, former)


def retry_deletions(access: DirectoryAccess) -> Procedure[None]:
    """Retry pending deletions in the directory; failed ones stay pending."""
    for queue in list(access.local.deletions.values()):
        outcome = yield from _finish_deletion(access, queue)
        if outcome.is_disconnected:
            return


def _finish_deletion(access: DirectoryAccess, queue: QueueObject) -> Procedure[Outcome]:
    outcome = yield from access.delete_directory_object(queue)
    is_gone = outcome.succeeded or outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND
    if is_gone and access.local.deletions.pop(queue.identifier, None) is not None:
        yield Store([deletion_removal(queue)])
    return outcome


class _Busy:
    """Lock of a path during an operation on its queue."""

    def __init__(self, busy: set[str], pathname: str, refusal: Status) -> None:
        self._busy = busy
        self._path = pathname.lower()
        self._refusal = refusal

    def __enter__(self) -> None:
        if self._path in self._busy:
            raise MQError(self._refusal, f"{self._path} is being created, changed or deleted")
        self._busy.add(self._path)

    def __exit__(self, *_: object) -> None:
        self._busy.discard(self._path)


def _refused(outcome: Outcome, queue: QueueObject) -> MQError:
    return refusal(outcome.result, f"{queue.pathname}: {outcome.detail or 'the directory refuses'}")


def _illegal(path: PathName, problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, f"{path}: {problem}")
