"""Lifecycle of a queue manager: opens, starts and stops its parts in order."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from msmq.manager.assembly.parts import Parts
from msmq.manager.ownership import check_migration, check_owner, claim
from msmq.manager.securing.public_descriptors import parsed
from msmq.membership.rights import is_untranslated
from msmq.persistence.snapshot import Snapshot
from msmq.structures.status import MQError


class ManagerLifecycle:
    """Opens, starts and stops the parts of one queue manager.

    [MS-MQQB] 3.1.4: Queue Manager Started and Queue Manager Stopped drive the protocol ([MS-MQDMPR] 3.1.4.1
    and 3.1.4.2).
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def open(self) -> None:
        """Open the store and load its contents."""
        parts = self._parts
        try:
            snapshot = await parts.core.store.open()
            await check_migration(parts.core.store, snapshot)
            await check_owner(parts.core.store, snapshot, parts.core.model.identifier)
            parts.core.model.restore(snapshot, parts.core.runtime.clock.now())
            parts.flow.load(snapshot.state)
            parts.outgoing.outbox.load(snapshot.state)
            parts.outgoing.sequences.load(snapshot.state)
            parts.transfer.source_journal.load(snapshot.state)
            parts.outgoing.deliveries.load(snapshot.state)
            parts.outgoing.arrival_commits.load(snapshot.state)
            parts.transfer.holds.load(snapshot.state)
            parts.outgoing.redirects.load(snapshot.state)
            parts.applications.drains.load(snapshot.state)
            parts.core.service_values.load(snapshot.state)
            if parts.security.permissions is not None:
                parts.security.permissions.load(snapshot.state)
            parts.applications.keyed.keys.load(snapshot.state, parts.core.runtime.clock.now())
            parts.core.performer.start()
            await self._claim(snapshot)
            if parts.security.ciphers is not None:
                parts.security.ciphers.open()
            parts.security.messages.open()
            if parts.integration is not None:
                await parts.integration.open(snapshot.state)
            if parts.directory.router is not None:
                # It may take long: until it has read the enterprise, messages that need a route wait.
                parts.directory.router.open().addErrback(
                    lambda failure: self.log.failure("the router could not be opened", failure)
                )
        except BaseException:
            parts.core.performer.stop()
            raise

    async def _claim(self, snapshot: Snapshot) -> None:
        parts = self._parts
        try:
            await parts.core.performer.commit(claim(parts.core.store, snapshot, parts.core.model.identifier))
        except MQError as error:
            # A full store opens all the same; the next start stores the owner.
            self.log.error("the owner of the store was not recorded: {error}", error=error)

    def start(self) -> None:
        """Begin to send pending messages."""
        parts = self._parts
        parts.flow.start()
        parts.outgoing.outbox.start()
        parts.applications.logs.start()
        parts.outgoing.sequences.start()
        parts.transfer.source_journal.start()
        parts.outgoing.arrival_commits.start()
        # Messages that expired while the queue manager was stopped are removed now.
        parts.core.performer.perform(())
        parts.transfer.outgoing_redirects.start()
        parts.transfer.outgoing_holds.start()
        parts.applications.administration.start()
        parts.transfer.messages.bring_online()
        parts.transfer.idle_queues.start()
        parts.applications.expired_state.start()
        parts.applications.drains.start()
        self._repair_descriptors()

    def _repair_descriptors(self) -> None:
        """Read the access lists that an earlier version has written to the directory, so that they are
        corrected.
        """
        parts = self._parts
        if parts.integration is None or parts.security.permissions is None:
            return
        for held in parts.integration.access.local.public_queues.values():
            found = parsed(held.security)
            queue = parts.core.model.collection.of_identifier(held.identifier)
            if found is not None and queue is not None and is_untranslated(found):
                looking = parts.security.permissions.descriptors.of(queue)
                if isinstance(looking, Deferred):
                    looking.addErrback(
                        lambda failure: self.log.warn(
                            "the list of a queue in the directory was not read: {error}", error=failure.value
                        )
                    )

    def stop(self) -> Deferred[Any]:
        """End the sessions and pending reads, then close the store."""
        parts = self._parts
        parts.applications.logs.stop()
        parts.outgoing.sequences.stop()
        parts.transfer.source_journal.stop()
        parts.transfer.idle_queues.stop()
        parts.applications.expired_state.stop()
        parts.outgoing.deliveries.stop()
        parts.outgoing.arrival_commits.stop()
        parts.outgoing.order_acks.stop()
        parts.security.encryption.stop()
        parts.security.decryption.stop()
        parts.flow.stop()
        parts.transfer.messages.stop()
        parts.core.events.stop()
        parts.outgoing.outbox.stop()
        parts.core.performer.stop()
        parts.security.messages.stop()
        closed: Deferred[Any] = (
            succeed(None) if parts.directory.router is None else parts.directory.router.close()
        )
        integration = parts.integration
        if parts.directory.public is not None:
            parts.directory.public.stop()
        if integration is not None:
            closed.addBoth(lambda _: integration.stop())
        closed.addErrback(lambda failure: self.log.failure("the directory was not closed", failure))
        return closed.addCallback(lambda _: parts.core.store.close())
