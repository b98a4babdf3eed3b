"""The queues of the queue manager in the same process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from msmq.bridge_service.queues import HeldMessages, IBridgedQueues, ValuesOfSent
from msmq.control.server.messages.properties import read_properties
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.decoding.message_json import transaction_json
from msmq.decoding.values import unix_time
from msmq.interfaces.bridge_messages import MessageForQueue, QueuedMessage
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.arriving.message import Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.status import MQError, Status


@implementer(IBridgedQueues)
class ManagerQueues:
    """See L{IBridgedQueues}."""

    sends_all_or_none = True

    def __init__(self, manager: IQueueManager) -> None:
        self._manager = manager
        # What is in memory alone would not survive a restart.
        self.service_values = manager.service_values if manager.is_durable else None

    def suspicion(self) -> str:
        """See L{IBridgedQueues}."""
        return self._manager.inspection.status().clone_suspicion or ""

    async def receive(self, queue: str, count: int, size: int) -> HeldMessages:
        """See L{IBridgedQueues}."""
        held = await self._manager.reserve(queue, count=count, size=size)
        reader = _QueuedMessages()
        return HeldMessages([reader.read(each) for each in held.messages], held.confirm, held.release)

    def rest(self) -> None:
        """See L{IBridgedQueues}."""

    async def peek(self, queue: str, count: int) -> Sequence[QueuedMessage]:
        """See L{IBridgedQueues}."""
        page = await self._manager.inspection.browse(queue, count=count)
        reader = _QueuedMessages()
        return [reader.read(each) for each in page.messages]

    async def holding(self, queue: str, messages: Mapping[str, int]) -> Collection[str]:
        """See L{IBridgedQueues}."""
        found = set()
        for identifier, lookup_id in messages.items():
            try:
                message = await self._manager.inspection.read_message(queue, lookup_id)
            except MQError as error:
                if error.status == Status.MQ_ERROR_MESSAGE_NOT_FOUND:
                    continue
                raise
            if str(message.identifier) == identifier:
                found.add(identifier)
        return found

    async def send(
        self, destination: str, messages: Sequence[MessageForQueue], values: ValuesOfSent | None = None
    ) -> Sequence[str]:
        """See L{IBridgedQueues}."""
        found = await self._manager.send(
            destination,
            [_to_send(each) for each in messages],
            keys=[each.key or None for each in messages],
            values=None if values is None else lambda sent: values([str(each) for each in sent]),
        )
        return [str(identifier) for identifier in found]

    async def create_queue(self, path: str) -> None:
        """See L{IBridgedQueues}."""
        try:
            await self._manager.create_queue(path, label="dead letters of a bridge")
        except MQError as error:
            if error.status != Status.MQ_ERROR_QUEUE_EXISTS:
                raise

    def note(self, event: str, reason: str, queue: str, identifier: str) -> None:
        """See L{IBridgedQueues}."""
        message = MessageIdentifier.parse(identifier) if identifier else None
        self._manager.note(event, reason, queue=queue, message=message)


class _QueuedMessages:
    """Reads messages one after the other; what a message shares with the one before is not read again."""

    def __init__(self) -> None:
        self._common: bytes | None = None
        self._shared: dict[str, Any] = {}
        self._stem = ""

    def read(self, message: ReceivedMessage) -> QueuedMessage:
        """The message with its properties in JSON."""
        view = message.view
        common = None if view.extension_size else view.common_bytes()
        if common is None or common != self._common:
            self._shared = properties = properties_of(message)
            if view.time_to_be_received != INFINITE:
                properties["time_to_be_received"] = view.time_to_be_received
            self._common, self._stem = common, properties["id"].rpartition("\\")[0]
            return QueuedMessage(dict(properties), bytes(view.body), bytes(view.extension))
        properties = {
            **self._shared,
            "id": f"{self._stem}\\{view.message_id}",
            "lookup_id": message.lookup_id,
            "body_size": view.body_size,
            "sent_time": unix_time(view.sent_time),
            "arrived_time": unix_time(message.arrived),
            "transaction": transaction_json(view) if view.is_transactional else None,
            "abort_count": message.aborts,
            "move_count": message.moves,
        }
        return QueuedMessage(properties, bytes(view.body), b"")


def _to_send(message: MessageForQueue) -> Message:
    return Message(body=message.body, extension=message.extension, **read_properties(message.properties))
