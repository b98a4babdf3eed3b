"""Redirects outgoing queues with direct names to another address than the one in the name."""

from __future__ import annotations

from typing import ClassVar

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from msmq.manager.applications.targets import name_of_outgoing
from msmq.manager.peers.transfer import MessageTransfer
from msmq.manager.performer import Performer
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.redirects import Redirects, check_redirected, redirect_address
from msmq.quoting import quoted
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.status import MQError, Status


class OutgoingRedirects:
    """The redirects of direct names, which persist across restarts until an operator ends them.

    The messages themselves do not change: they contain the name that their sender used, of which the receiver
    uses only the queue name.

    Each answer comes when the store has the change.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, redirects: Redirects, performer: Performer, transfer: MessageTransfer) -> None:
        self._redirects = redirects
        self._performer = performer
        self._transfer = transfer
        # One change at a time: the end of a redirect must not come before one that is being stored.
        self._changing = DeferredLock()

    def start(self) -> None:
        """Create a queue for each redirected name, so that it is listed, and log the redirects."""
        now = self._performer.clock.now()
        names = self._redirects.names
        for name in names:
            self._performer.model.collection.outgoing(name, now)
        if names:
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            self.log.warn(
                "outgoing queues are still redirected after the restart: {names}",
                names=", ".join(f"{name} to {self._redirects.host(name)}" for name in names[:10]) + more,
            )
        if invalid := self._redirects.invalid:
            self.log.error(
                "{count} stored redirect(s) of outgoing queues are left out, since they are invalid: {names}",
                count=len(invalid),
                names=", ".join(map(quoted, invalid[:10])),
            )

    def host(self, queue: OutgoingQueue) -> str | None:
        """The address to which a queue is redirected; C{None} if it is not."""
        return self._redirects.host(queue.destination)

    @property
    def count(self) -> int:
        """The number of redirected names: the key C{redirected_names} of C{msmq status}."""
        return len(self._redirects.names)

    async def redirect(self, text: str, to: str) -> OutgoingQueue:
        """Redirect a direct name to another address, for pending messages too.

        @param text: the name; no message need have been sent to it before.
        @param to: an IP address or the name of a computer.
        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a name without an address;
            MQ_ERROR_ILLEGAL_OPERATION for a queue of this queue manager, or an address of its own;
            MQ_ERROR_INVALID_PARAMETER for an invalid address, or the one in the name;
            MQ_ERROR_INSUFFICIENT_RESOURCES; or the store failed.
        """
        name = self._name(text)
        target = redirect_address(to)
        if self._performer.model.is_local(target):
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                f"{name} cannot be redirected to {target.address}, an address of this queue manager",
            )
        if target.address.lower() == name.address.lower():
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{target.address} is the address in the name already; --undo ends a redirect",
            )
        return await self._set_in_turn(name, target.address)

    async def end(self, text: str) -> OutgoingQueue:
        """End a redirect; no effect for a name that is not redirected.

        @raise MQError: as L{redirect}, for the name.
        """
        return await self._set_in_turn(self._name(text), None)

    def _name(self, text: str) -> DirectFormatName:
        return check_redirected(name_of_outgoing(self._performer.model, text))

    async def _set_in_turn(self, name: DirectFormatName, host: str | None) -> OutgoingQueue:
        queue: OutgoingQueue = await self._changing.run(self._set, name, host)
        return queue

    async def _set(self, name: DirectFormatName, host: str | None) -> OutgoingQueue:
        performer = self._performer
        if self._redirects.host(name) != host:
            await performer.commit([self._redirects.change(name, host)])
            self._redirects.set(name, host)
            queue = performer.model.collection.outgoing(name, performer.clock.now())
            self._transfer.redirected(queue)
        return performer.model.collection.outgoing(name, performer.clock.now())
