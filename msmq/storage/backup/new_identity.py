"""The contents of a store for a queue manager with another identifier.

Messages of local queues stay, and the private queues of this queue manager that they name as their
destination, for acknowledgements and for responses get its new identifier.  Messages that wait for other
queue managers are those of the original, which sends them: here they become dead letters, which an operator
can requeue or discard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID, uuid5

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent, Change, PutMessage, PutQueue, PutState
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.persistence.owner_mark import OWNER
from msmq.persistence.send_key import PAGE_PREFIX, page_of_former
from msmq.persistence.service_value import PREFIX as SERVICE_PREFIX
from msmq.structures.packet.kept_packet import is_marked_for_dead_letters, packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_rewrites import patch_message_class, with_other_queue_manager
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import braced

EVENT: Final = "identity_renewed"
"""The event that says so, and how many messages became dead letters."""

_FORGOTTEN: Final = (
    "tx/receivers/",
    "tx/awaiting/",
    "source/",
    "deliveries/",
    "results/",
    "drain.",
    "drain-page.",
    "directory.",
    "public_encryption",
    SERVICE_PREFIX,
)
"""Prefixes of values that describe messages in transit, results that wait, drains, work of other services of
the server, or objects of the original in a directory.

The original goes on to move the messages of a queue that is drained; a second drain would send them twice. It
also goes on to publish the replies to requests of a bridge, and to copy messages to a shadow.
"""

_DEADLETTER: Final = "system$;deadletter"
_DEADXACT: Final = "system$;deadxact"
_IN_TRANSIT: Final = ("system$;awaiting_final_ack", "system$;awaiting_acknowledgement")
"""The queues of messages that were sent and are not proven to have arrived: those of the original."""


@attrs.define
class LeftOut:
    """Counts of what a queue manager with a new identifier does not get from its original.

    @ivar queues: outgoing queues, and the queues of messages in transit.
    @ivar messages: messages in transit: sent, and not proven to have arrived.
    @ivar values: state of messages in transit, of drains, of services, and of objects in a directory.
    """

    queues: int = 0
    messages: int = 0
    values: int = 0


@attrs.define
class NewIdentity:
    """Converts the changes of L{copy_pages<msmq.storage.migration.pages.copy_pages>}.

    @ivar moved: messages to other queue managers that became dead letters.
    @ivar left_out: what the original keeps for itself alone.
    """

    former: UUID
    identifier: UUID
    moved: int = attrs.field(default=0, init=False)
    left_out: LeftOut = attrs.field(factory=LeftOut, init=False)
    _queues: dict[UUID, UUID | None] = attrs.field(factory=dict, init=False)
    _outgoing: set[UUID] = attrs.field(factory=set, init=False)

    def begin(self, queues: Sequence[QueueDefinition]) -> list[Change]:
        """The changes to perform first, for these queues of the original.

        @raise StorageError: there are public queues.
        """
        public = [each.path for each in queues if each.type is QueueType.PUBLIC]
        if public:
            raise StorageError(
                f".\\{public[0]} is a public queue, which the directory has for {braced(self.former)}: move "
                "its messages to a private queue and delete it first, with the directory disconnected"
            )
        for each in queues:
            if each.type is QueueType.OUTGOING:
                self._outgoing.add(each.identifier)
            elif each.path in _IN_TRANSIT and each.identifier == uuid5(self.former, each.path):
                self._queues[each.identifier] = None
            elif each.parent is None and each.identifier == uuid5(self.former, each.path):
                self._queues[each.identifier] = uuid5(self.identifier, each.path)
        known = set(self._queues.values())
        return [
            PutQueue(
                QueueDefinition(identifier, path, type=QueueType.SYSTEM, transactional=path == _DEADXACT)
            )
            for path in (_DEADLETTER, _DEADXACT)
            if (identifier := uuid5(self.identifier, path)) not in known
        ]

    def convert(self, changes: Sequence[Change]) -> Iterator[Change]:
        """The changes for the new identifier."""
        for change in changes:
            match change:
                case PutQueue(definition):
                    identifier = self._queues.get(definition.identifier, definition.identifier)
                    if identifier is None or definition.identifier in self._outgoing:
                        self.left_out.queues += 1
                    else:
                        yield PutQueue(attrs.evolve(definition, identifier=identifier))
                case PutMessage():
                    yield from self._message(change)
                case PutState(name, value):
                    if name == OWNER:
                        yield PutState(OWNER, self.identifier.bytes)
                    elif name.startswith(_FORGOTTEN):
                        self.left_out.values += 1
                    elif name.startswith(PAGE_PREFIX):
                        # What was sent under a key is not sent again, and keeps its identifier.
                        yield PutState(name, page_of_former(value, self.former))
                    else:
                        yield change
                case _:
                    yield change

    def end(self, now: float) -> list[Change]:
        """The changes to perform last."""
        reason = f"the identifier was {braced(self.former)} before"
        if self.moved:
            reason += f"; {self.moved} message(s) to other queue managers became dead letters"
        return [AppendEvent(now, b"", EVENT, reason)]

    def _message(self, change: PutMessage) -> Iterator[Change]:
        if change.queue in self._outgoing:
            view = UserMessageView(change.packet)
            target = uuid5(self.identifier, _DEADXACT if view.is_transactional else _DEADLETTER)
            if is_marked_for_dead_letters(change.packet):
                view = UserMessageView(packet_of(change.packet))
            packet = patch_message_class(view, MessageClass.NACK_DELETED)
            self.moved += 1
            yield attrs.evolve(change, queue=target, packet=self._renamed(packet, is_dead=True), due=None)
            return
        identifier = self._queues.get(change.queue, change.queue)
        if identifier is None:
            self.left_out.messages += 1
        else:
            is_dead = identifier in self._dead_letter_queues
            yield attrs.evolve(change, queue=identifier, packet=self._renamed(change.packet, is_dead=is_dead))

    @property
    def _dead_letter_queues(self) -> tuple[UUID, UUID]:
        return uuid5(self.identifier, _DEADLETTER), uuid5(self.identifier, _DEADXACT)

    def _renamed(self, packet: bytes, *, is_dead: bool) -> bytes:
        """The packet with the names of this queue manager's private queues.

        A signed dead letter keeps those for acknowledgements and responses: it is signed again only if its
        signature is valid. No signature covers QueueManagerAddress, by which it would be requeued to the
        original.
        """
        try:
            view = UserMessageView(packet)
            if view.queue_manager_address == self.former.bytes_le:
                packet = patch_queue_manager_address(packet, self.identifier.bytes_le)
                view = UserMessageView(packet)
            if is_dead and view.security is not None and view.security.sender_cert:
                return packet
            return with_other_queue_manager(view, self.former, self.identifier).packet
        except (LocalProtocolError, RemoteProtocolError):
            # It would be too large, or is damaged, which its reader reports.
            return packet
