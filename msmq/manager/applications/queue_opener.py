"""Opens queues, for continued use or for one read."""

from __future__ import annotations

from msmq.interfaces.manager.queue_manager import ITransaction
from msmq.manager.administration.queue_administration import Administration
from msmq.manager.applications.arguments import check_opening, check_read, check_transaction
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.open_queue import OpenQueue
from msmq.manager.applications.reads import CheckAgain, Reads
from msmq.manager.applications.reservation import Reservation
from msmq.manager.applications.sender import MessageSender
from msmq.manager.applications.targets import outgoing_queue, readable_queue
from msmq.manager.applications.transactions import Transactions, check_usage
from msmq.manager.performer import Performer
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.queue import Queue
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.structures.names.format_name import parse_format_names
from msmq.structures.names.name_text import is_format_name
from msmq.structures.status import MQError, Status


class QueueOpener:
    """Open Queue. [MS-MQDMPR] 3.1.7.1.5."""

    def __init__(
        self,
        performer: Performer,
        reads: Reads,
        sender: MessageSender,
        transactions: Transactions,
        administration: Administration,
        destinations: Destinations,
    ) -> None:
        self._performer = performer
        self._reads = reads
        self._sender = sender
        self._transactions = transactions
        self._administration = administration
        self._destinations = destinations

    def open(self, name: str, access: QueueAccessType, share_mode: QueueShareMode) -> OpenQueue:
        """Open a queue until it is closed.

        @raise MQError: as L{msmq.manager.service.QueueManagerService.open_queue}.
        """
        check_opening(access, share_mode)
        model = self._performer.model
        now = self._performer.clock.now()
        if access is QueueAccessType.SEND:
            names = self._destinations.names(name)
            descriptor = model.descriptors.open(names, access, share_mode, now=now)
        else:
            queue = self._find(name, access)
            try:
                own_name = model.format_name(queue)
                descriptor = model.descriptors.open_queue(queue, own_name, access, share_mode)
            except MQError:
                self._performer.forget_empty((queue,))
                raise
        return OpenQueue(
            descriptor,
            self._performer,
            self._sender,
            self._reads,
            self._transactions,
            self._administration,
            self._destinations,
        )

    def _find(self, name: str, access: QueueAccessType) -> Queue:
        model = self._performer.model
        if is_format_name(name) and "," in name and len(parse_format_names(name)) > 1:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                "several queues can be opened together for sending only",
            )
        try:
            return readable_queue(model, name, self._performer.clock.now())
        except MQError as error:
            # Administrators can open outgoing queues as well.
            if access.is_admin and error.status is Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION:
                return outgoing_queue(model, name)
            raise

    async def reserve(
        self,
        name: str,
        count: int,
        timeout: float | None,
        peek: bool,
        transaction: ITransaction | None,
        size: int | None = None,
        after: int = -1,
        check: CheckAgain | None = None,
    ) -> Reservation:
        """Open a queue for one read.

        @param check: called again before a read that has waited gets its messages.
        @raise MQError: as L{msmq.manager.service.QueueManagerService.reserve}.
        """
        check_read(count, timeout, size, after)
        check_transaction(transaction)
        performer = self._performer
        queue = readable_queue(performer.model, name, performer.clock.now())
        try:
            core = None if transaction is None or peek else self._transactions.core(transaction)
            if core is not None:
                check_usage(name, queue)
            return await self._reserve(queue, count, timeout, peek, core, size, after, check)
        finally:
            performer.forget_empty((queue,))

    async def _reserve(
        self,
        queue: Queue,
        count: int,
        timeout: float | None,
        peek: bool,
        core: Transaction | None,
        size: int | None,
        after: int,
        check: CheckAgain | None,
    ) -> Reservation:
        clock, model = self._performer.clock, self._performer.model
        descriptors = model.descriptors
        deadline = None if timeout is None else clock.now().monotonic + timeout
        access = QueueAccessType.PEEK if peek else QueueAccessType.RECEIVE
        descriptor = descriptors.open_queue(queue, model.format_name(queue), access)
        try:
            return await self._reads.run(
                lambda lock: (
                    descriptors.peek(
                        descriptor,
                        tag=lock.tag,
                        now=lock.now,
                        count=count,
                        deadline=deadline,
                        size=size,
                        after=after,
                    )
                    if peek
                    else descriptors.receive(
                        descriptor,
                        tag=lock.tag,
                        now=lock.now,
                        count=count,
                        deadline=deadline,
                        owner=lock.owner,
                        on_taken=lock.on_taken,
                        size=size,
                    )
                ),
                is_peek=peek,
                transaction=core,
                check=check,
            )
        finally:
            if effects := descriptors.close(descriptor):
                self._performer.perform(effects)
