"""Pauses and resumes outgoing queues, by name, by next hop, or all of them. [MS-MQDMPR] 3.1.7.2.3."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from msmq.interfaces.manager.summaries import OutgoingQueueSummary, PausedOutgoing
from msmq.manager.administration.summaries import summarize_outgoing
from msmq.manager.applications.targets import name_of_outgoing, outgoing_queue
from msmq.manager.manager_settings import CloneCheck
from msmq.manager.peers.awaited_destinations import AwaitedDestinations
from msmq.manager.peers.transfer import MessageTransfer
from msmq.manager.performer import Performer
from msmq.manager.routes.outgoing_redirects import OutgoingRedirects
from msmq.queues.holds import HoldReason, Holds, host_text
from msmq.queues.leaving.transaction import NOTHING_UNCOMMITTED
from msmq.queues.outgoing import OutgoingQueue
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status

_SLICE: Final = 100
"""Queues between two looks at open transactions."""


class OutgoingHolds:
    """The pauses of outgoing queues, which persist across restarts until an operator resumes them.

    Each result is returned after the commit of the change.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        holds: Holds,
        redirects: OutgoingRedirects,
        performer: Performer,
        transfer: MessageTransfer,
        clone: CloneCheck,
        awaited: AwaitedDestinations,
    ) -> None:
        self._clone = clone
        self._awaited = awaited
        self._holds = holds
        self._redirects = redirects
        self._performer = performer
        self._transfer = transfer
        # One change at a time: a resume must not end before a pause that is being stored.
        self._changing = DeferredLock()

    def start(self) -> None:
        """Create a queue for each paused name, so that it is listed, and log the pauses."""
        now = self._performer.clock.now()
        for name in self._holds.names:
            self._performer.model.collection.outgoing(name, now)
        if self._holds.is_clone:
            self.log.error(
                "this may be a clone: {reason}; nothing is sent to other queue managers until msmq identity "
                "keep (this is the original) or msmq identity renew",
                reason=self._clone.suspicion,
            )
        if self._holds.is_all or self._holds.names or self._holds.hosts:
            self.log.warn(
                "outgoing queues are still paused after the restart: {what}",
                what="all" if self._holds.is_all else ", ".join(self._named()),
            )
        if invalid := self._holds.invalid:
            self.log.error(
                "{count} stored pause(s) of outgoing queues are left out, since their names are invalid, so"
                " they send: {names}",
                count=len(invalid),
                names=", ".join(map(quoted, invalid[:10])),
            )

    @property
    def suspicion(self) -> str:
        """Why this may be a clone; empty if it is not, or an operator has decided."""
        return self._clone.suspicion if self._holds.is_clone else ""

    def keep_identity(self) -> None:
        """Record that this is the original, and send.

        @raise MQError: it cannot be recorded.
        """
        self._clone.keep()
        self._holds.is_clone = False
        self._apply(list(self._performer.model.outgoing_queues()))

    def paused(self) -> PausedOutgoing:
        """A short list of the pauses."""
        return PausedOutgoing(
            all=self._holds.is_all, names=len(self._holds.names), next_hops=sorted(self._holds.hosts)
        )

    def summarize(self, queue: OutgoingQueue) -> OutgoingQueueSummary:
        """One outgoing queue with its pauses (C{paused_by}) and redirect (C{redirected_to})."""
        [summary] = self.summarize_all([queue])
        return summary

    def summarize_all(self, queues: Iterable[OutgoingQueue]) -> list[OutgoingQueueSummary]:
        """Several outgoing queues."""
        return list(self.each_summary(queues))

    def each_summary(self, queues: Iterable[OutgoingQueue]) -> Iterator[OutgoingQueueSummary]:
        """The same, one at a time, for a caller that pauses in between; deleted ones are left out."""
        transacting = self._performer.model.transacting
        uncommitted = transacting.uncommitted()
        for number, queue in enumerate(list(queues), 1):
            if number % _SLICE == 0:
                # The caller may have paused meanwhile.
                uncommitted = transacting.uncommitted()
            if queue.is_deleted:
                continue
            reasons = [reason.value for reason in self._transfer.hops.held_by(queue)]
            unsent = uncommitted.get(queue, NOTHING_UNCOMMITTED)
            redirected_to = self._redirects.host(queue)
            next_attempt = self._transfer.next_attempt(queue)
            awaiting = self._awaited.of(queue.destination)
            yield summarize_outgoing(queue, unsent, reasons, redirected_to, next_attempt, awaiting)

    def retry_now(self, text: str) -> OutgoingQueueSummary:
        """Dial the next hop of a name now, if it waits for the next attempt.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_OPERATION while it is paused, or that the
            name is malformed.
        """
        self._performer.check_running()
        queue = outgoing_queue(self._performer.model, text)
        if commands := self._resuming(queue):
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                f"{queue.destination} is paused and connects to no next hop; it is resumed by "
                + " and ".join(commands),
            )
        self._transfer.retry_now(queue)
        return self.summarize(queue)

    def retry_all_now(self) -> list[OutgoingQueueSummary]:
        """The same for all outgoing queues except paused ones; answers with those that waited for a retry."""
        self._performer.check_running()
        queues = [
            queue
            for queue in self._performer.model.outgoing_queues()
            if self._transfer.next_attempt(queue) is not None and not self._transfer.hops.held_by(queue)
        ]
        for queue in queues:
            self._transfer.retry_now(queue)
        return self.summarize_all(queues)

    def _resuming(self, queue: OutgoingQueue) -> list[str]:
        """The commands that end the pauses of a queue; none if it is not paused."""
        hops = self._transfer.hops
        reasons = hops.held_by(queue)
        commands = {
            HoldReason.NAME: [f"msmq outgoing resume {shlex.quote(str(queue.destination))}"],
            HoldReason.NEXT_HOP: [
                f"msmq outgoing resume --next-hop {host}"
                for host in self._holds.hosts
                if HoldReason.NEXT_HOP in reasons and any(host in known for known in hops.known_as(queue))
            ],
            HoldReason.ALL: ["msmq outgoing resume --all"],
            HoldReason.CLONE: ["msmq identity keep (this is the original) or msmq identity renew"],
        }
        return [command for reason in reasons for command in commands[reason]]

    async def pause(self, text: str) -> OutgoingQueueSummary:
        """Pause one name, also before the first message is sent to it. [MS-MQDMPR] 3.1.4.14.

        @raise MQError: it is not the format name of a queue of another queue manager; or the store failed.
        """
        summary: OutgoingQueueSummary = await self._changing.run(self._pause, text)
        return summary

    async def _pause(self, text: str) -> OutgoingQueueSummary:
        model = self._performer.model
        name = name_of_outgoing(model, text)
        await self._performer.commit([self._holds.change_name(name, True)])
        self._holds.set_name(name, True)
        queue = model.collection.outgoing(name, self._performer.clock.now())
        self._apply([queue])
        return self.summarize(queue)

    async def resume(self, text: str) -> OutgoingQueueSummary:
        """End the pause of one name; other pauses of its queue stay. [MS-MQDMPR] 3.1.4.15.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if there is no such outgoing queue, or as L{pause}.
        """
        summary: OutgoingQueueSummary = await self._changing.run(self._resume, text)
        return summary

    async def _resume(self, text: str) -> OutgoingQueueSummary:
        model = self._performer.model
        name = name_of_outgoing(model, text)
        if self._holds.holds_name(name):
            await self._performer.commit([self._holds.change_name(name, False)])
            self._holds.set_name(name, False)
            # An empty queue may have been dropped meanwhile.
            queue = model.collection.outgoing(name, self._performer.clock.now())
        else:
            queue = outgoing_queue(model, text)
        self._apply([queue])
        return self.summarize(queue)

    async def hold_all(self, held: bool) -> list[OutgoingQueueSummary]:
        """Pause every outgoing queue, also later ones, or end that; pauses of names and next hops stay.

        @return: every outgoing queue.
        """
        summaries: list[OutgoingQueueSummary] = await self._changing.run(self._hold_all, held)
        return summaries

    async def _hold_all(self, held: bool) -> list[OutgoingQueueSummary]:
        if held != self._holds.is_all:
            await self._performer.commit([self._holds.change_all(held)])
            self._holds.set_all(held)
        return self._applied(self._performer.model.outgoing_queues())

    async def hold_next_hop(self, host: str, held: bool) -> list[OutgoingQueueSummary]:
        """Pause one next hop, also for direct names that are known to lead there, or end that.

        @param host: an address, the name of a computer, or the GUID of a queue manager.
        @return: the outgoing queues of that next hop.
        @raise MQError: as L{host_text}, or as L{pause}.
        """
        wanted = host_text(host)
        summaries: list[OutgoingQueueSummary] = await self._changing.run(self._hold_next_hop, wanted, held)
        return summaries

    async def _hold_next_hop(self, wanted: str, held: bool) -> list[OutgoingQueueSummary]:
        hosts = {wanted, *self._transfer.hops.names_of_host(wanted)}
        changed = [each for each in sorted(hosts) if held is not self._holds.holds_host({each})]
        await self._performer.commit([self._holds.change_host(each, held) for each in changed])
        for each in changed:
            self._holds.set_host(each, held)
        hops = self._transfer.hops
        for queue in hops.reroute_all():
            self._transfer.rerouted(queue)
        queues = list(self._performer.model.outgoing_queues())
        return self._applied(
            queue for queue in queues if any(wanted in known_as for known_as in hops.known_as(queue))
        )

    def _applied(self, queues: Iterable[OutgoingQueue]) -> list[OutgoingQueueSummary]:
        affected = list(queues)
        self._apply(list(self._performer.model.outgoing_queues()))
        return self.summarize_all(affected)

    def _apply(self, queues: Iterable[OutgoingQueue]) -> None:
        for queue in queues:
            if self._transfer.hops.held_by(queue):
                self._transfer.pause(queue)
            else:
                self._transfer.resume(queue)

    def _named(self) -> list[str]:
        names = [str(name) for name in self._holds.names[:10]]
        more = len(self._holds.names) - len(names)
        hosts = [f"next hop {host}" for host in self._holds.hosts[:10]]
        return [*names, *([f"and {more} names more"] if more > 0 else []), *hosts]
