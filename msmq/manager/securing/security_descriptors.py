"""Security descriptors of queues and of the queue manager: sources, defaults, checks."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Final

import attrs
from twisted.internet.defer import Deferred

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.interfaces.security.access import AccountUnknown, IAccessControl
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.public_security import PublicSecurity
from msmq.persistence.definition import QueueType
from msmq.queues.default_security import documented_security, queue_manager_security, strict_security
from msmq.queues.queue import Queue
from msmq.structures.status import MQError, Status
from msmq.windows.access_check import DECIDING
from msmq.windows.access_masks import QUEUE_KIND, ObjectKind
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import Control, SecurityDescriptor, restricted
from msmq.windows.security_descriptor_aces import Ace
from msmq.windows.well_known_sids import domain_of


class DefaultDescriptor(enum.Enum):
    """The default descriptor of a new queue."""

    DOCUMENTS = "documents"
    STRICT = "strict"


_LONGEST_REMEMBERED: Final = 4096
"""Bytes of a descriptor beyond which few are kept: its entries take up to ten times as much memory."""

_read_short: Final = lru_cache(4096)(SecurityDescriptor.from_bytes)
_read_long: Final = lru_cache(16)(SecurityDescriptor.from_bytes)


def read_descriptor(security: bytes) -> SecurityDescriptor:
    """Read the stored descriptor of a queue."""
    return _read_long(security) if len(security) > _LONGEST_REMEMBERED else _read_short(security)


@attrs.frozen
class AccessPolicy:
    """How access to the queues of a queue manager is controlled.

    @ivar access: looks up accounts, and the rules that replace descriptors.
    @ivar owner: the default owner of queues, a SID.
    @ivar default: the default descriptor of new queues.
    """

    access: IAccessControl
    owner: bytes
    default: DefaultDescriptor = DefaultDescriptor.DOCUMENTS


class SecurityDescriptors:
    """Finds the descriptor of each queue, and creates those of new ones.

    @param public: the part of the directory in protecting public queues; C{None} in workgroup mode.
    @ivar access: looks up accounts, and the rules that replace descriptors.
    @ivar owner: the default owner of queues, a SID.
    """

    def __init__(self, policy: AccessPolicy, public: PublicSecurity | None) -> None:
        self.access = policy.access
        self.owner = policy.owner
        self._default = policy.default
        self._machine: SecurityDescriptor | None = None
        self._public = public

    def of(self, queue: Queue) -> Protection | Deferred[Protection]:
        """The protection of a queue: a rule, its own descriptor, and for a public queue the one in the
        directory.

        A journal and a subqueue have the protection of their queue.
        """
        definition = protected_queue(queue).definition
        ruling = self.access.ruling(definition.path)
        if ruling is not None:
            return Protection(ruling.descriptor, ruling.source, is_rule=True)
        own = Protection(read_descriptor(definition.security) if definition.security else None)
        if self._public is None or definition.type is not QueueType.PUBLIC:
            return own
        return self._public.protect(protected_queue(queue), own)

    def forget(self, queue: Queue) -> None:
        """Read the list of a public queue from the directory again, for a change that begins with it."""
        if self._public is not None:
            self._public.forget(protected_queue(queue))

    def has_to_ask(self, queue: Queue) -> bool:
        """Whether others than this queue manager can change the descriptor of a queue."""
        return self._public is not None and protected_queue(queue).definition.type is QueueType.PUBLIC

    async def of_machine(self) -> Protection:
        """The protection of the queue manager: a rule, or its descriptor."""
        ruling = self.access.machine_ruling()
        if ruling is not None:
            return Protection(ruling.descriptor, ruling.source, is_rule=True)
        if self._machine is None:
            self._begin_with(queue_manager_security(self.owner, await self._machine_sid()))
        return Protection(self._machine)

    def set_machine(self, machine: SecurityDescriptor) -> None:
        """Replace the descriptor of the queue manager."""
        self._machine = machine

    async def _machine_sid(self) -> bytes:
        return b"" if self._public is None else await self._public.machine_sid()

    def _begin_with(self, machine: SecurityDescriptor) -> None:
        # It may have been changed during the directory query.
        if self._machine is None:
            self._machine = machine

    async def publish(
        self, queue: Queue, before: SecurityDescriptor, after: SecurityDescriptor, about: bytes | None
    ) -> None:
        """Write a change of a public queue's list to the directory; see L{PublicSecurity.publish}.

        @raise MQError: MQ_ERROR_NO_DS without a directory, or as there.
        """
        if self._public is None:
            path = queue.definition.path
            raise MQError(Status.MQ_ERROR_NO_DS, f"{path} is a public queue, which needs a directory")
        await self._public.publish(queue, before, after, about)

    def changing(self, queue: Queue) -> AbstractContextManager[None]:
        """While a queue's list and its object are changed one after the other, report no difference."""
        return nullcontext() if self._public is None else self._public.changing(queue)

    async def published_list(self, path: str, security: bytes) -> bytes:
        """The directory's version of the descriptor of a public queue that is created with a list.

        @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR for a list that a directory cannot hold.
        """
        return b"" if self._public is None else await self._public.new(path, read_descriptor(security))

    def differences(self, queue: Queue) -> list[str]:
        """The known differences between a queue and its object in the directory."""
        return [] if self._public is None else self._public.differences(protected_queue(queue))

    async def for_new(
        self, supplied: SecurityDescriptor | None = None, creator: bytes | None = None
    ) -> bytes:
        """The descriptor of a new queue, as bytes. [MS-MQDMPR] 3.1.7.1.3.1.

        @param supplied: the parts that its creator supplies.
        @param creator: the SID of its creator; by default the owner.
        @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
        """
        maker = self.owner if creator is None else creator
        if supplied is not None:
            supplied = deciding(checked(supplied, QUEUE_KIND))
        if self._default is DefaultDescriptor.STRICT:
            return strict_security(maker, supplied).to_bytes()
        owner = maker if supplied is None or supplied.owner is None else supplied.owner
        made = documented_security(
            maker,
            is_domain_user=await self._is_domain_user(owner),
            machine=await self._machine_sid(),
            supplied=supplied,
        )
        return made.to_bytes()

    async def _is_domain_user(self, sid: bytes) -> bool:
        if domain_of(sid) is None:
            return False
        try:
            return await self.access.is_domain_user(sid)
        except AccountUnknown:
            # The directory is unreachable; so a domain account must not count as unknown.
            return True


def protected_queue(queue: Queue) -> Queue:
    """The queue whose descriptor protects this one: for a journal or a subqueue, the queue to which it
    belongs.
    """
    return queue if queue.parent is None else queue.parent


def checked(descriptor: SecurityDescriptor, kind: ObjectKind) -> SecurityDescriptor:
    """A caller's descriptor for an object, with generic rights mapped to specific ones.

    @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR for a right that such an object does not have, too
    many entries, or a descriptor that does not round-trip.
    """
    try:
        specific = restricted(descriptor, kind)
        SecurityDescriptor.from_bytes(specific.to_bytes())
        return specific
    except (LocalProtocolError, RemoteProtocolError) as error:
        raise MQError(Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, str(error)) from error


def deciding(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """Check that a caller's list is not an absent one, and that every entry of it has an effect on a queue.

    @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
    """
    if descriptor.dacl is None and descriptor.control & Control.DACL_PRESENT:
        # It would be taken for a descriptor that leaves the list as it is.
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR,
            "an absent list (D:NO_ACCESS_CONTROL) is not accepted; D:(A;;GA;;;WD) grants every right to every"
            " account",
        )
    for index, ace in enumerate(() if descriptor.dacl is None else descriptor.dacl.aces, 1):
        if ace.type not in DECIDING:
            name = ace.type.name if isinstance(ace, Ace) else str(ace.type)
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR,
                f"entry {index} of the DACL is of type {name}, which neither allows nor denies anything to a"
                " queue",
            )
    return descriptor


def parse_security(text: str | None) -> SecurityDescriptor | None:
    """A caller's descriptor as SDDL.

    @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
    """
    if text is None:
        return None
    try:
        return parse_sddl(text)
    except RemoteProtocolError as error:
        raise MQError(Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, str(error)) from error
