"""Performs the effects of directory procedures: store, create, update, delete, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import attrs

from msmq.interfaces.directory import IServedDirectory
from msmq.interfaces.security.ciphers import ICiphers
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.membership.divergences import DirectoryDivergences
from msmq.manager.membership.published_properties import FROM_THE_DIRECTORY
from msmq.manager.performer import Performer
from msmq.membership.access import DirectoryAccess
from msmq.membership.local import QUOTAS
from msmq.membership.objects import NO_KEYS, QueueManagerObject, QueueObject
from msmq.membership.public_queues import definition_of
from msmq.membership.requests import (
    CreateLocally,
    DeleteLocally,
    DirectoryEffect,
    FindDirectoryServers,
    MakeKeys,
    QueueManagerChanged,
    QueueManagerKeys,
    ReportDivergence,
    Store,
    UpdateLocally,
)
from msmq.persistence.changes import Change
from msmq.queues.queue import Queue
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid


class DirectoryEffects:
    """Performs the effects of directory procedures on the queues, the store and the settings.

    Without ciphers there are no keys, so a queue manager publishes none, and peers cannot encrypt for it.

    @param access: the directory core.
    @param divergences: receives reports of changes that others make to our objects in the directory.
    @param served: finds servers of the directory; C{None} if it has none.
    @param ciphers: has the keys of this queue manager.
    """

    def __init__(
        self,
        performer: Performer,
        local: LocalQueues,
        access: DirectoryAccess,
        divergences: DirectoryDivergences,
        served: IServedDirectory | None,
        ciphers: ICiphers | None,
    ) -> None:
        self._performer = performer
        self._local = local
        self._access = access
        self._divergences = divergences
        self._served = served
        self._ciphers = ciphers
        self._unpublished: dict[str, Mapping[str, Any]] = {}

    @property
    def has_keys(self) -> bool:
        """Whether there are keys to publish."""
        return self._ciphers is not None

    def keys(self) -> QueueManagerKeys:
        """The existing keys; the configuration decides which kinds there are."""
        ciphers = self._ciphers
        if ciphers is None:
            return QueueManagerKeys(NO_KEYS, NO_KEYS)
        return QueueManagerKeys(ciphers.encryption_keys, ciphers.signing_keys)

    @contextmanager
    def creating(self, path: str, own: Mapping[str, Any]) -> Iterator[None]:
        """Set properties that the directory does not have on a public queue that is being created.

        @param path: its path without the computer name.
        @param own: attributes of L{msmq.persistence.definition.QueueDefinition}.
        @raise MQError: MQ_ERROR_QUEUE_EXISTS while another one of this path is being created, which must not
            get these properties.
        """
        key = path.lower()
        if key in self._unpublished:
            raise MQError(Status.MQ_ERROR_QUEUE_EXISTS, f"{path} is being created")
        self._unpublished[key] = own
        try:
            yield
        finally:
            self._unpublished.pop(key, None)

    async def perform(self, effect: DirectoryEffect) -> Any:
        """Perform an effect of a procedure, for L{DirectoryRunner}."""
        match effect:
            case Store(changes):
                await self._performer.commit(changes)
            case QueueManagerChanged(changed, former_identifier):
                self._become(changed, former_identifier)
            case CreateLocally(queue, changes):
                await self._create(queue, changes)
            case UpdateLocally(queue, changes):
                definition = definition_of(queue)
                properties = {name: getattr(definition, name) for name in FROM_THE_DIRECTORY}
                await self._local.alter(self.found(queue), properties, changes)
            case DeleteLocally(queue, changes):
                await self._delete(queue, changes)
            case ReportDivergence(path, kept, taken):
                self._report(path, kept, taken)
            case FindDirectoryServers():
                return await self._find_servers()
            case MakeKeys():
                return self.keys()
        return None

    def _report(self, path: str, kept: tuple[str, ...], taken: tuple[str, ...]) -> None:
        path = own_path(path)
        self._divergences.report(path, "object", kept)
        for text in taken:
            self._divergences.taken(path, text)

    async def _find_servers(self) -> Sequence[str]:
        """Do nothing: a directory knows its servers, or has its own discovery."""
        if self._served is None:
            return ()
        await self._served.find_servers()
        return self._served.servers

    def _become(self, changed: QueueManagerObject, former: UUID | None) -> None:
        if former is not None:
            raise MQError(
                Status.MQ_ERROR_DS_ERROR,
                f"the directory calls this queue manager {format_guid(changed.identifier)},"
                f" whose identifier {format_guid(former)} cannot change",
            )
        self.limit(changed)

    def limit(self, own: QueueManagerObject) -> None:
        """Apply the quotas that the directory has for this queue manager."""
        unset = self._access.local.unset_quotas
        quota, journal_quota = (None if name in unset else getattr(own, name) for name in QUOTAS)
        self._performer.model.quotas.follow(quota, journal_quota)

    async def _create(self, held: QueueObject, changes: Sequence[Change]) -> None:
        definition = definition_of(held)
        own = self._unpublished.get(definition.path.lower(), {})
        collection = self._performer.model.collection
        creation = collection.adopt(attrs.evolve(definition, **own))
        try:
            await self._performer.commit([*creation.changes, *changes])
        except BaseException:
            collection.abandon(creation)
            raise
        collection.created(creation)

    async def _delete(self, held: QueueObject, changes: Sequence[Change]) -> None:
        try:
            await self._local.remove(self.found(held), changes)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_QUEUE_NOT_FOUND:
                # It is deleted all the same, and the store is retried; the directory is updated later.
                local = self._access.local
                local.deletions[held.identifier] = local.public_queues.pop(held.identifier, held)
            raise

    def found(self, held: QueueObject) -> Queue:
        """The local public queue of a directory object.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, it was deleted.
        """
        queue = self._performer.model.collection.of_identifier(held.identifier)
        if queue is None:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{held.pathname} no longer exists here")
        return queue


def own_path(pathname: str) -> str:
    """The path of a queue of ours as reports have it; empty for the queue manager."""
    return ".\\" + pathname.partition("\\")[2].lower() if pathname else ""
