"""The descriptors of queues, and of the queue manager: where they come from, and what they say."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.interfaces.access import AccountUnknown, IAccessControl
from msmq.queues.default_security import documented_security, strict_security
from msmq.queues.queue import Queue
from msmq.structures.access_masks import QUEUE_KIND, ObjectKind
from msmq.structures.sddl import parse_sddl
from msmq.structures.security_descriptor import SecurityDescriptor, restricted
from msmq.structures.status import MQError, Status
from msmq.structures.well_known_sids import domain_of

OWN: Final = "its descriptor"
"""Where a descriptor comes from that nobody has written a rule in the place of."""


class DefaultDescriptor(enum.Enum):
    """What descriptor a new queue gets."""

    DOCUMENTS = "documents"
    STRICT = "strict"


@attrs.frozen
class Protection:
    """What protects an object.

    @ivar descriptor: C{None} if nothing does.
    @ivar source: where that stands.
    """

    descriptor: SecurityDescriptor | None
    source: str = OWN


@lru_cache(4096)
def read_descriptor(security: bytes) -> SecurityDescriptor:
    """What is kept of a queue as bytes."""
    return SecurityDescriptor.from_bytes(security)


async def _no_machine() -> bytes:
    return b""


class Descriptors:
    """Knows the descriptor of each queue, and makes those of new ones.

    @param access: knows accounts, and the rules that take the place of descriptors.
    @param owner: the SID in whose name queues are made.
    @param default: what new queues get.
    @ivar machine_sid: asks the directory for the SID of this computer; empty if it does not tell.
    """

    def __init__(
        self,
        access: IAccessControl,
        owner: bytes,
        default: DefaultDescriptor = DefaultDescriptor.DOCUMENTS,
    ) -> None:
        self.access = access
        self.owner = owner
        self._default = default
        self.machine_sid: Callable[[], Awaitable[bytes]] = _no_machine

    def of(self, queue: Queue) -> Protection:
        """What protects a queue: a rule, or its own descriptor; a journal has that of its queue."""
        definition = queue.main.definition
        ruling = self.access.ruling(definition.path)
        if ruling is not None:
            return Protection(ruling.descriptor, ruling.source)
        return Protection(read_descriptor(definition.security) if definition.security else None)

    async def for_new(self, supplied: SecurityDescriptor | None = None) -> bytes:
        """[MS-MQDMPR] 3.1.7.1.3.1 the descriptor of a new queue, as bytes.

        @param supplied: what its maker gives of it.
        @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
        """
        if supplied is not None:
            supplied = checked(supplied, QUEUE_KIND)
        if self._default is DefaultDescriptor.STRICT:
            return strict_security(self.owner, supplied).to_bytes()
        owner = self.owner if supplied is None or supplied.owner is None else supplied.owner
        made = documented_security(
            self.owner,
            is_domain_user=await self._is_domain_user(owner),
            machine=await self.machine_sid(),
            supplied=supplied,
        )
        return made.to_bytes()

    async def _is_domain_user(self, sid: bytes) -> bool:
        if domain_of(sid) is None:
            return False
        try:
            return await self.access.is_domain_user(sid)
        except AccountUnknown:
            # The directory is away. Somebody of a domain is not to be taken for nobody because of that.
            return True


def checked(descriptor: SecurityDescriptor, kind: ObjectKind) -> SecurityDescriptor:
    """A descriptor that somebody gives to an object, with specific rights for generic ones.

    @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR for a right that there is not to such an object, or
        more entries than a list holds.
    """
    try:
        specific = restricted(descriptor, kind)
        specific.to_bytes()
        return specific
    except (LocalProtocolError, RemoteProtocolError) as error:
        raise MQError(Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, str(error)) from error


def parse_security(text: str | None) -> SecurityDescriptor | None:
    """What somebody gives as SDDL.

    @raise MQError: MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
    """
    if text is None:
        return None
    try:
        return parse_sddl(text)
    except RemoteProtocolError as error:
        raise MQError(Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, str(error)) from error
