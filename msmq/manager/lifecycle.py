"""Lifecycle of a queue manager: opens, starts and stops its parts in order."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from msmq.manager.assembly import Parts
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
            snapshot = await parts.store.open()
            await check_migration(parts.store, snapshot)
            await check_owner(parts.store, snapshot, parts.model.identifier)
            parts.model.restore(snapshot, parts.clock.now())
            parts.flow.load(snapshot.state)
            parts.outbox.load(snapshot.state)
            parts.sequences.load(snapshot.state)
            parts.source_journal.load(snapshot.state)
            parts.deliveries.load(snapshot.state)
            parts.arrival_commits.load(snapshot.state)
            parts.holds.load(snapshot.state)
            parts.redirects.load(snapshot.state)
            parts.drains.load(snapshot.state)
            parts.service_values.load(snapshot.state)
            if parts.permissions is not None:
                parts.permissions.load(snapshot.state)
            parts.keyed.keys.load(snapshot.state, parts.clock.now())
            parts.performer.start()
            await self._claim(snapshot)
            if parts.ciphers is not None:
                parts.ciphers.open()
            parts.securing.open()
            if parts.integration is not None:
                await parts.integration.open(snapshot.state)
            if parts.router is not None:
                # It may take long: until it has read the enterprise, messages that need a route wait.
                parts.router.open().addErrback(
                    lambda failure: self.log.failure("the router could not be opened", failure)
                )
        except BaseException:
            parts.performer.stop()
            raise

    async def _claim(self, snapshot: Snapshot) -> None:
        parts = self._parts
        try:
            await parts.performer.commit(claim(parts.store, snapshot, parts.model.identifier))
        except MQError as error:
            # A full store opens all the same; the next start stores the owner.
            self.log.error("the owner of the store was not recorded: {error}", error=error)

    def start(self) -> None:
        """Begin to send pending messages."""
        parts = self._parts
        parts.flow.start()
        parts.outbox.start()
        parts.logs.start()
        parts.sequences.start()
        parts.source_journal.start()
        parts.arrival_commits.start()
        # Messages that expired while the queue manager was stopped are removed now.
        parts.performer.perform(())
        parts.outgoing_redirects.start()
        parts.outgoing_holds.start()
        parts.administration.start()
        parts.transfer.bring_online()
        parts.idle_queues.start()
        parts.expired_state.start()
        parts.drains.start()
        self._repair_descriptors()

    def _repair_descriptors(self) -> None:
        """Read the access lists that an earlier version has written to the directory, so that they are
        corrected.
        """
        parts = self._parts
        if parts.integration is None or parts.permissions is None:
            return
        for held in parts.integration.access.local.public_queues.values():
            found = parsed(held.security)
            queue = parts.model.collection.of_identifier(held.identifier)
            if found is not None and queue is not None and is_untranslated(found):
                looking = parts.permissions.descriptors.of(queue)
                if isinstance(looking, Deferred):
                    looking.addErrback(
                        lambda failure: self.log.warn(
                            "the list of a queue in the directory was not read: {error}", error=failure.value
                        )
                    )

    def stop(self) -> Deferred[Any]:
        """End the sessions and pending reads, then close the store."""
        parts = self._parts
        parts.logs.stop()
        parts.sequences.stop()
        parts.source_journal.stop()
        parts.idle_queues.stop()
        parts.expired_state.stop()
        parts.deliveries.stop()
        parts.arrival_commits.stop()
        parts.order_acks.stop()
        parts.encryption.stop()
        parts.decryption.stop()
        parts.flow.stop()
        parts.transfer.stop()
        parts.events.stop()
        parts.outbox.stop()
        parts.performer.stop()
        parts.securing.stop()
        closed: Deferred[Any] = succeed(None) if parts.router is None else parts.router.close()
        integration = parts.integration
        if parts.public is not None:
            parts.public.stop()
        if integration is not None:
            closed.addBoth(lambda _: integration.stop())
        closed.addErrback(lambda failure: self.log.failure("the directory was not closed", failure))
        return closed.addCallback(lambda _: parts.store.close())
