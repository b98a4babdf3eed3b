"""The access list of a public queue, kept by its queue manager and by the directory. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.manager.administration.summaries import queue_path
from msmq.manager.membership.divergences import DirectoryDivergences
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.public_descriptors import (
    IN_THE_DIRECTORY,
    MOST,
    PublicDescriptors,
    PublishedList,
    own_entries,
    parsed,
)
from msmq.membership.divergence import DirectoryChanges, list_divergence
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueObject
from msmq.membership.rights import class_default, entries_of_others, is_untranslated, lists_rights
from msmq.membership.rights_change import to_directory
from msmq.queues.queue import Queue
from msmq.structures.status import MQError, Status
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Acl
from msmq.windows.well_known_sids import domain_of

ATTEMPTS: Final = 8
"""Attempts to change the list of an object while others change it."""

LIST: Final = "list"
"""The subject of differences between lists."""

_MENDED: Final = (
    "the list in the directory has the masks of an earlier version, which there grant rights to change "
    "the object; it is written again"
)
_UNTRUSTED: Final = (
    "the list in the directory has rights of an earlier version, and differs from the list of the "
    "queue; only rights that both grant are granted, until msmq acl writes it again"
)


class DescriptorDirectory(Protocol):
    """Security descriptors of public queues, and the SID of this computer, in a directory."""

    async def machine_sid(self) -> bytes:
        """The SID of this computer; empty if the directory does not have it."""

    async def read_security(self, identifier: UUID) -> bytes:
        """The nTSecurityDescriptor of a public queue; empty if it has none.

        While the directory is unreachable, the last answer.
        """

    async def read_for_change(self, queue: Queue) -> tuple[bytes, DirectoryEntry[QueueObject]]:
        """The nTSecurityDescriptor of a public queue of this queue manager, and its object in the directory.

        @raise MQError: the directory cannot be reached, or does not have the object.
        """

    async def write_security(
        self, queue: Queue, security: bytes, former: DirectoryEntry[QueueObject]
    ) -> bool:
        """Replace the nTSecurityDescriptor of a public queue, unless it has changed since it was read.

        @return: whether it was replaced.
        @raise MQError: the directory refuses it.
        """


class PublicSecurity:
    """Protects public queues by their own lists and by those in the directory.

    With C{changes} C{KEEP} a right to messages has to be granted by both: changes in the directory can narrow
    access and cannot widen it.  With C{FOLLOW} the directory alone decides.  In both cases a difference is
    reported.

    @param changes: how lists that others have changed there are handled.
    @param divergences: where differences are reported.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        directory: DescriptorDirectory,
        clock: IClock,
        changes: DirectoryChanges,
        divergences: DirectoryDivergences,
    ) -> None:
        self._directory = directory
        self._lists = PublicDescriptors(directory.read_security, clock)
        self._changes = changes
        self._divergences = divergences
        # Also of queues that are deleted by now.
        self._seen: dict[UUID, SecurityDescriptor] = {}
        self._mending: set[UUID] = set()
        self._changing: set[UUID] = set()

    def protect(self, queue: Queue, own: Protection) -> Protection | Deferred[Protection]:
        """The protection of a public queue whose own descriptor is C{own}."""
        published = self._lists.get(queue.definition.identifier)
        if isinstance(published, Deferred):
            return published.addCallback(self._protected, queue, own)
        return self._protected(published, queue, own)

    def forget(self, queue: Queue) -> None:
        """Drop what was read of the list of a queue, so that the next use reads it again."""
        self._lists.forget(queue.definition.identifier)

    async def machine_sid(self) -> bytes:
        """The SID of this computer; empty if the directory does not have it."""
        return await self._directory.machine_sid()

    def differences(self, queue: Queue) -> list[str]:
        """The known differences between a queue and its object in the directory."""
        return self._divergences.of(queue_path(queue).lower())

    @contextmanager
    def changing(self, queue: Queue) -> Iterator[None]:
        """Suppress differences while a queue's list and its object are changed one after the other."""
        identifier = queue.definition.identifier
        self._changing.add(identifier)
        try:
            yield
        finally:
            self._changing.discard(identifier)

    async def publish(
        self, queue: Queue, before: SecurityDescriptor, after: SecurityDescriptor, about: bytes | None
    ) -> None:
        """Apply a change of a queue's list to its object in the directory.

        Entries of others there stay; see L{to_directory}.  If another client changes the object meanwhile,
        the change is applied to what it has written.

        @param about: the SID of the changed entries.
        @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR for a list that a directory cannot hold;
        MQ_ERROR_DS_ERROR if others change the object at each attempt; or the directory refuses it.
        """
        identifier = queue.definition.identifier
        for _ in range(ATTEMPTS):
            security, former = await self._directory.read_for_change(queue)
            found = parsed(security)
            base = found
            if base is None:
                base = await self._default()
            elif is_untranslated(base):
                base = await self._renewed(base)
            made = _translated(queue_path(queue), base, before, after, about)
            if made == found or await self._directory.write_security(queue, made.to_bytes(), former):
                break
        else:
            raise MQError(
                Status.MQ_ERROR_DS_ERROR,
                f"other clients keep changing the access list of {queue_path(queue)} in the directory:"
                f" {ATTEMPTS} attempts; repeat the request",
            )
        if lists_rights(made):
            self._see(identifier, made)
        else:
            self._seen.pop(identifier, None)
        self._lists.forget(identifier)

    async def new(self, path: str, listed: SecurityDescriptor) -> bytes:
        """The nTSecurityDescriptor of a queue that is created with a list.

        @raise MQError: as L{publish}.
        """
        return _translated(path, await self._default(), None, listed, None).to_bytes()

    # Private

    def _protected(self, published: PublishedList | None, queue: Queue, own: Protection) -> Protection:
        identifier, path = queue.definition.identifier, queue_path(queue).lower()
        if published is None:
            self._divergences.report(path, LIST, ())
            return own
        before = self._seen.get(identifier)
        self._see(identifier, published.found)
        if published.is_untranslated:
            return self._untranslated(published, queue, own)
        if self._changes is DirectoryChanges.FOLLOW:
            self._divergences.report(path, LIST, ())
            if before is not None and before != published.found:
                self._divergences.taken(path, "its list was replaced by the one in the directory")
            return Protection(published.descriptor, IN_THE_DIRECTORY, is_published=True)
        if identifier not in self._changing:
            texts = list_divergence(own.descriptor or SecurityDescriptor(), published.found)
            self._divergences.report(path, LIST, texts)
        return attrs.evolve(own, is_published=True, limit=published.descriptor)

    def _untranslated(self, published: PublishedList, queue: Queue, own: Protection) -> Protection:
        """A list of an earlier version never grants rights that the queue's own list does not."""
        dacl = None if own.descriptor is None else own.descriptor.dacl
        is_ours = dacl is not None and dacl.aces == own_entries(published.found)
        self._divergences.report(queue_path(queue).lower(), LIST, (_MENDED if is_ours else _UNTRUSTED,))
        if not is_ours:
            return attrs.evolve(own, is_published=True, limit=published.descriptor)
        identifier = queue.definition.identifier
        if identifier not in self._mending:
            self._mending.add(identifier)
            listed = own.descriptor or SecurityDescriptor()
            mending = Deferred.fromCoroutine(self.publish(queue, listed, listed, None))
            mending.addErrback(
                lambda failure: self.log.warn(
                    "the list of {queue} was not written again: {error}",
                    queue=queue_path(queue),
                    error=failure.value,
                )
            )
            mending.addBoth(lambda _: self._mending.discard(identifier))
        return attrs.evolve(own, is_published=True)

    def _see(self, identifier: UUID, found: SecurityDescriptor) -> None:
        self._seen.pop(identifier, None)
        self._seen[identifier] = found
        if len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]

    async def _default(self) -> SecurityDescriptor:
        machine = await self.machine_sid()
        return class_default(domain_of(machine) if machine else None)

    async def _renewed(self, found: SecurityDescriptor) -> SecurityDescriptor:
        """The descriptor with directory rights in place of masks of MSMQ."""
        default = await self._default()
        aces = () if default.dacl is None else default.dacl.aces
        return attrs.evolve(found, dacl=Acl((*aces, *entries_of_others(found))))


def _translated(
    path: str,
    base: SecurityDescriptor,
    before: SecurityDescriptor | None,
    after: SecurityDescriptor,
    about: bytes | None,
) -> SecurityDescriptor:
    try:
        return to_directory(base, before, after, about)
    except LocalProtocolError as error:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, f"{path} is a public queue: {error}"
        ) from error
