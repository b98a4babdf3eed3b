"""A queue manager restricted to the rights of one principal. [MS-MQMQ] 2.2.23 and 2.2.24.

Each right permits the operation in its name. Without this class an application acts as the owner, who has all
rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

import attrs
from twisted.internet.defer import Deferred, succeed

from msmq.interfaces.manager.access_summaries import AccessList
from msmq.interfaces.manager.queue_manager import IQueueManager, IReservation, ITransaction
from msmq.interfaces.manager.queue_properties import QueueProperties
from msmq.interfaces.manager.received_messages import MessageLocation
from msmq.interfaces.manager.summaries import ManagerStatus, PublicQueueSummary, QueueSummary
from msmq.interfaces.security.access import AccountUnknown
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.targets import SendTarget, readable_queue
from msmq.manager.assembly.application_parts import ApplicationParts
from msmq.manager.assembly.core import ManagerCore
from msmq.manager.securing.message_security import MessageSecurity
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.queue_access_decision import QueueAccessDecision, decide_access
from msmq.manager.securing.security_descriptors import protected_queue
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.send_run import SendRun, templates_of
from msmq.queues.queue import Queue
from msmq.quoting import quoted, shown
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.status import MQError, Status
from msmq.transfer.security.read_rights import ReadSource, read_right
from msmq.windows.access_masks import (
    QUEUE_KIND,
    QUEUE_MANAGER_KIND,
    ObjectKind,
    QueueAccess,
    QueueManagerAccess,
)
from msmq.wire.guid import NULL_GUID
from msmq.wire.sid import format_sid

_Name: TypeAlias = FormatName | PathName

_Q = QueueAccess
_M = QueueManagerAccess


class RestrictedQueueManager:
    """A queue manager restricted to the rights of one principal.

    Every method raises L{MQError}: MQ_ERROR_ACCESS_DENIED with the missing right and the entry that denies
    it, or as the method of the queue manager with the same name.

    @ivar sid: the caller.
    """

    def __init__(
        self,
        service: IQueueManager,
        core: ManagerCore,
        destinations: Destinations,
        applications: ApplicationParts,
        messages: MessageSecurity,
        permissions: Permissions,
        sid: bytes,
    ) -> None:
        self.sid = sid
        self._service = service
        self._core = core
        self._destinations = destinations
        self._applications = applications
        self._messages = messages
        self._permissions = permissions
        self._descriptors = permissions.descriptors

    async def status(self) -> ManagerStatus:
        """See L{IInspection.status}; needs MQSEC_GET_MACHINE_PROPERTIES."""
        await self._may(None, _M.MQSEC_GET_MACHINE_PROPERTIES)
        return self._service.inspection.status()

    async def public_queues(self, **wanted: Any) -> Sequence[PublicQueueSummary]:
        """See L{IInspection.public_queues}; needs MQSEC_GET_MACHINE_PROPERTIES."""
        await self._may(None, _M.MQSEC_GET_MACHINE_PROPERTIES)
        return await self._service.inspection.public_queues(**wanted)

    async def create_queue(self, path: str, **properties: Unpack[QueueProperties]) -> QueueSummary:
        """See L{IAdministration.create_queue}; needs MQSEC_CREATE_QUEUE.  The principal owns the queue."""
        await self._may(None, _M.MQSEC_CREATE_QUEUE)
        return await self._applications.administration.create(path, creator=self.sid, **properties)

    async def queue(self, path: str) -> QueueSummary:
        """See L{IInspection.queue}; needs MQSEC_GET_QUEUE_PROPERTIES."""
        await self._may(self._find(path), _Q.MQSEC_GET_QUEUE_PROPERTIES)
        return self._service.inspection.queue(path)

    async def set_queue(self, path: str, properties: Mapping[str, Any]) -> QueueSummary:
        """See L{IAdministration.set_queue}; needs MQSEC_SET_QUEUE_PROPERTIES."""
        await self._may(self._find(path), _Q.MQSEC_SET_QUEUE_PROPERTIES)
        return await self._service.set_queue(path, properties)

    async def purge_queue(self, path: str) -> int:
        """See L{IAdministration.purge_queue}; needs the right to receive."""
        queue = self._find(path)
        await self._may(queue, self._read_right(queue, peek=False))
        return await self._service.purge_queue(path)

    async def pause_queue(self, path: str) -> QueueSummary:
        """See L{IAdministration.pause_queue}; needs MQSEC_SET_QUEUE_PROPERTIES."""
        await self._may(self._find(path), _Q.MQSEC_SET_QUEUE_PROPERTIES)
        return await self._service.pause_queue(path)

    async def resume_queue(self, path: str) -> QueueSummary:
        """See L{IAdministration.resume_queue}; needs MQSEC_SET_QUEUE_PROPERTIES."""
        await self._may(self._find(path), _Q.MQSEC_SET_QUEUE_PROPERTIES)
        return await self._service.resume_queue(path)

    async def delete_queue(self, path: str) -> None:
        """See L{IAdministration.delete_queue}; needs MQSEC_DELETE_QUEUE."""
        await self._may(self._find(path), _Q.MQSEC_DELETE_QUEUE)
        await self._service.delete_queue(path)

    async def send(
        self, destination: str, messages: Sequence[Message], *, transaction: ITransaction | None = None
    ) -> Sequence[MessageIdentifier]:
        """See L{IMessaging.send}; of a queue of this queue manager, needs MQSEC_WRITE_MESSAGE.

        The same right is needed for a local queue for its dead letters, acknowledgements or reports, which
        has to exist: a closed one may be created under its name before they get there. A message is signed
        with a certificate of the principal, and has no other sender.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if such a queue does not exist;
            MQ_ERROR_CERTIFICATE_NOT_PROVIDED if it accepts only authenticated messages, and the message is
            not signed.
        """
        self._core.performer.check_running()
        await self._may_send(destination)
        checked: dict[_Name, FormatName] = {}
        for name, is_signed in {
            (name, bool(message.authentication_level))
            for message in templates_of(messages)
            for name in _answers(message)
        }:
            await self._may_answer(name, checked, is_signed=is_signed)
        # These checks may have waited, and a distribution list may have other members by now; so the messages
        # go to the queues that were checked last.
        targets = await self._may_send(destination)
        if not all(each.is_local for each in targets):
            # Another queue manager may not find this one by a format name, but for a direct one.
            checked.clear()

        def secured(message: Message) -> Message:
            return self._signed(_with_admin_queue(message, checked))

        signed: Sequence[Message]
        if isinstance(messages, SendRun):
            signed = SendRun(secured(messages.template), messages.bodies)
        else:
            signed = [secured(message) for message in messages]
        return await self._applications.sender.send(lambda: succeed(targets), signed, transaction)

    async def reserve(
        self,
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transaction: ITransaction | None = None,
        size: int | None = None,
        after: int = -1,
    ) -> IReservation:
        """See L{IMessaging.reserve}.

        Needs MQSEC_RECEIVE_MESSAGE, MQSEC_RECEIVE_JOURNAL_MESSAGE for a journal,
        MQSEC_RECEIVE_DEADLETTER_MESSAGE for dead letters, MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE for the machine
        journal; to peek, the right with PEEK in its name. A read that has waited needs it again for what it
        gets; without it the messages return to the queue.
        """
        self._core.performer.check_running()
        found = self._find(queue)
        right = self._read_right(found, peek=peek)
        await self._may(found, right)
        return await self._applications.opening.reserve(
            queue,
            count,
            timeout,
            peek,
            transaction,
            size,
            after,
            lambda: self._may(found, right),
        )

    async def dead_letters(self, limit: int = 1000) -> Sequence[MessageLocation]:
        """See L{IInspection.dead_letters}; needs MQSEC_PEEK_DEADLETTER_MESSAGE."""
        await self._may(None, _M.MQSEC_PEEK_DEADLETTER_MESSAGE)
        return await self._service.inspection.dead_letters(limit)

    async def requeue(self, message: MessageIdentifier) -> MessageIdentifier:
        """See L{IAdministration.requeue}; needs MQSEC_RECEIVE_DEADLETTER_MESSAGE, and the right to send."""
        await self._may(None, _M.MQSEC_RECEIVE_DEADLETTER_MESSAGE)
        name = await self._applications.search.destination_of(message)
        await self._may_write(name)
        allowed = self._local(name)

        def check(target: SendTarget) -> None:
            # The message is looked up again, which may take long.
            if target.is_local and target.queue is not allowed:
                raise MQError(
                    Status.MQ_ERROR_QUEUE_DELETED,
                    f"{target.queue.definition.path} was created while the rights to it were checked",
                )

        return await self._applications.search.requeue(message, check)

    async def acl(self, path: str) -> AccessList:
        """See L{IAccessAdministration.acl}; needs MQSEC_GET_QUEUE_PERMISSIONS, or the corresponding right to
        the machine.
        """
        await self._may_of(path, _Q.MQSEC_GET_QUEUE_PERMISSIONS)
        return await self._service.access.acl(path)

    async def allow(self, path: str, principal: str, rights: Sequence[str]) -> AccessList:
        """See L{IAccessAdministration.allow}; needs MQSEC_CHANGE_QUEUE_PERMISSIONS.

        For the queue manager itself, the right with the same number, as for all rights about permissions.
        """
        await self._may_of(path, _Q.MQSEC_CHANGE_QUEUE_PERMISSIONS)
        return await self._service.access.allow(path, principal, rights)

    async def deny(self, path: str, principal: str, rights: Sequence[str]) -> AccessList:
        """See L{IAccessAdministration.deny}; needs the same."""
        await self._may_of(path, _Q.MQSEC_CHANGE_QUEUE_PERMISSIONS)
        return await self._service.access.deny(path, principal, rights)

    async def revoke(self, path: str, principal: str) -> AccessList:
        """See L{IAccessAdministration.revoke}; needs the same."""
        await self._may_of(path, _Q.MQSEC_CHANGE_QUEUE_PERMISSIONS)
        return await self._service.access.revoke(path, principal)

    async def take_ownership(self, path: str) -> AccessList:
        """Become the owner; needs MQSEC_TAKE_QUEUE_OWNERSHIP, or the corresponding right to the machine."""
        await self._may_of(path, _Q.MQSEC_TAKE_QUEUE_OWNERSHIP)
        return await self._permissions.give_to(path, self.sid)

    # Private

    def _find(self, path: str) -> Queue:
        queue = readable_queue(self._core.model, path, self._core.runtime.clock.now())
        # A missing subqueue is created on use, not by an access check.
        self._core.performer.forget_empty((queue,))
        return queue

    def _read_right(self, queue: Queue, *, peek: bool) -> int:
        source = ReadSource.QUEUE
        if queue.is_system:
            source = ReadSource.JOURNAL if queue.parent is not None else ReadSource.DEAD_LETTERS
            if queue is self._core.model.system_queue(QueueSuffix.JOURNAL):
                source = ReadSource.MACHINE_JOURNAL
        return read_right(source, peek=peek)

    def _signed(self, message: Message) -> Message:
        """The message, without a sender other than the principal."""
        securing = self._messages
        if message.authentication_level:
            certificates = securing.certificates
            if certificates is None:
                return message
            kept = certificates.find(message.sender_certificate, self.sid)
            if kept.security_identifier != self.sid:
                shown = message.sender_certificate[:64]
                raise MQError(
                    Status.MQ_ERROR_ACCESS_DENIED,
                    f"the certificate {quoted(shown)} is not one of {format_sid(self.sid)}",
                )
            kind = message.sender_identifier_type
            return attrs.evolve(
                message,
                sender_certificate=certificates.facts(kept).fingerprint,
                sender_identifier_type=SenderIdType.SID if kind is SenderIdType.QUEUE_MANAGER else kind,
            )
        if (
            self.sid == securing.signer.sender
            and message.sender_identifier_type is not SenderIdType.QUEUE_MANAGER
        ):
            return message
        if message.sender_identifier_type is not None or securing.signer.sends_sender:
            return attrs.evolve(message, sender_identifier_type=SenderIdType.NONE)
        return message

    async def _may_send(self, destination: str) -> list[SendTarget]:
        """Require the right to write to the local queues of a destination, as it is when this returns.

        @return: its queues.
        """
        checked: set[Queue] = set()
        while True:
            targets: list[SendTarget] = await self._destinations.find(destination)
            unchecked = [each.queue for each in targets if each.is_local and each.queue not in checked]
            if not unchecked:
                return targets
            for queue in unchecked:
                await self._may(queue, _Q.MQSEC_WRITE_MESSAGE)
                checked.add(queue)

    async def _may_write(self, name: _Name) -> None:
        queue = self._local(name)
        # System queues cannot be destinations.
        if queue is not None and not queue.is_system:
            await self._may(queue, _Q.MQSEC_WRITE_MESSAGE)

    async def _may_answer(self, name: _Name, checked: dict[_Name, FormatName], *, is_signed: bool) -> None:
        """Require the right to write to a queue for answers, if it is local; it has to exist then.

        @param checked: gets the format name of the queue, which no other queue ever has.
        @param is_signed: whether the messages whose answers it gets are signed.
        """
        await self._may_write(name)
        queue = self._local(name)
        if queue is None:
            if self._core.model.is_local(name):
                raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no queue {quoted(str(name))} here")
            return
        if queue.definition.authenticate and not is_signed:
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                f"{queue.definition.path} accepts only authenticated messages, and this one is not signed",
            )
        format_name = self._core.model.format_name(queue)
        if queue.parent is None and isinstance(format_name, PrivateFormatName | PublicFormatName):
            checked[name] = format_name

    def _local(self, name: _Name) -> Queue | None:
        if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
            name = attrs.evolve(name, queue_manager=self._core.model.identifier)
        return self._core.model.find(name)

    async def _may_of(self, path: str, right: int) -> None:
        # The rights about permissions have the same numbers, whether of a queue or of the machine.
        await self._may(None if path == "." else self._find(path), right)

    async def _may(self, queue: Queue | None, right: int) -> None:
        """Require a right to a queue, or to the queue manager for a system queue or none.

        The operation that follows at once finds the queue again by its path, so it must still be the same.

        @raise MQError: it is denied; or MQ_ERROR_QUEUE_DELETED if the queue was deleted meanwhile.
        """
        access = self._descriptors.access
        is_machine = queue is None or (queue.is_system and queue.parent is None)
        kind: ObjectKind = QUEUE_MANAGER_KIND if is_machine else QUEUE_KIND
        protection = await self._protection(queue)
        while True:
            try:
                judged = decide_access(access, protection, self.sid, int(right), kind)
                decision = judged if isinstance(judged, QueueAccessDecision) else await judged
            except AccountUnknown as error:
                raise MQError(Status.MQ_ERROR_ACCESS_DENIED, str(error)) from error
            if not decision.granted:
                raise MQError(Status.MQ_ERROR_ACCESS_DENIED, decision.why())
            former = protection
            if isinstance(judged, Deferred):
                # The rights may have been changed while the account was looked up.
                protection = await self._protection(queue)
            if queue is not None:
                _check_exists(queue)
            if protection == former:
                return

    async def _protection(self, queue: Queue | None) -> Protection:
        if queue is None or (queue.is_system and queue.parent is None):
            return await self._descriptors.of_machine()
        found = self._descriptors.of(protected_queue(queue))
        return found if isinstance(found, Protection) else await found


def _check_exists(queue: Queue) -> None:
    """Check that a queue was not deleted, as a look-up of an account may take long.

    @raise MQError: MQ_ERROR_QUEUE_DELETED; one that was created in its place may have other rights.
    """
    protected = protected_queue(queue)
    if protected.is_deleted:
        raise MQError(
            Status.MQ_ERROR_QUEUE_DELETED,
            f"{shown(protected.definition.path)} was deleted while the rights to it were checked",
        )


def _with_admin_queue(message: Message, checked: Mapping[_Name, FormatName]) -> Message:
    """The message with the format name of the queue that was checked: another queue may get its path."""
    name = message.admin_queue
    if not isinstance(name, DirectFormatName) or name not in checked:
        return message
    return attrs.evolve(message, admin_queue=checked[name])


def _answers(message: Message) -> Iterator[_Name]:
    """The queues for dead letters, acknowledgements and reports of a message."""
    if message.dead_letter and message.dead_letter_queue:
        yield parse_path_name(message.dead_letter_queue)
    if message.acknowledge and message.admin_queue is not None:
        yield message.admin_queue
    if message.trace is not None:
        yield PublicFormatName(message.trace)
