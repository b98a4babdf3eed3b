"""Browses the messages of a queue page by page, at any depth, without receiving them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msmq.interfaces.manager.received_messages import MessagePage, ReceivedMessage
from msmq.interfaces.storage import DamagedMessageKept
from msmq.manager.administration.summaries import queue_path
from msmq.manager.performer import Performer
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue, up_to
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

PAGE_BYTES: Final = 0x100000
"""Bytes of the packets of one page, unless its first message alone has more."""

_DAMAGED: Final = "damaged; it stays until what is left of it can be put into quarantine, or it is removed"

_GONE = (PositionState.REMOVING, PositionState.LEAVING, PositionState.DELETED)


class MessageBrowser:
    """Reads pages; between two pages the queue may change, and no state is kept for the reader."""

    def __init__(self, performer: Performer, kept: Callable[[Queue], Sequence[int]]) -> None:
        """Create it.

        @param kept: returns the LookupIdentifiers of damaged messages that stay in their queue until what is
            left of them is in quarantine, in order.
        """
        self._performer = performer
        self._kept = kept

    async def page(self, queue: Queue, after: int, count: int) -> MessagePage:
        """The first C{count} available messages after a LookupIdentifier, and the damaged ones among them.

        @raise MQError: MQ_ERROR_MESSAGE_STORAGE_FAILED if the store cannot be read at all.
        """
        positions = up_to(PAGE_BYTES, queue.page(after, count))
        messages: list[ReceivedMessage] = []
        unreadable: dict[int, str] = {}
        try:
            views = await self._performer.load(positions)
            messages += map(_received, positions, views)
        except MQError:
            # A message that cannot be read does not affect the others.
            for position in positions:
                try:
                    [view] = await self._performer.load([position])
                except MQError as error:
                    if _is_there(position):
                        unreadable[position.lookup_id] = error.detail
                else:
                    messages.append(_received(position, view))
        last = positions[-1].lookup_id if positions else after
        is_end = not queue.page(last, 1)
        kept = [each for each in self._kept(queue) if after < each and (is_end or each <= last)]
        if len(kept) > count:
            last, is_end = kept[count - 1], False
            messages = [message for message in messages if message.lookup_id <= last]
            unreadable = {each: reason for each, reason in unreadable.items() if each <= last}
        unreadable |= dict.fromkeys(kept[:count], _DAMAGED)
        return MessagePage(messages, unreadable, max(last, *unreadable, after), is_end)

    async def message(self, queue: Queue, lookup_id: int) -> ReceivedMessage:
        """The message with a LookupIdentifier, in any state.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND; MQ_ERROR_MESSAGE_STORAGE_FAILED if it cannot be read.
        """
        queue.pack()
        position = queue.positions.get(lookup_id)
        if position is not None and position.state is not PositionState.ARRIVING and not queue.is_deleted:
            try:
                [view] = await self._performer.load([position])
                return _received(position, view)
            except MQError as error:
                if _is_there(position) or (
                    isinstance(error.__cause__, DamagedMessageKept) and not position.queue.is_deleted
                ):
                    raise
        raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"{queue_path(queue)} has no message {lookup_id}")


def _is_there(position: MessagePosition) -> bool:
    now = position.current()
    return now is not None and now.state not in _GONE and not now.queue.is_deleted


def _received(position: MessagePosition, view: UserMessageView) -> ReceivedMessage:
    return ReceivedMessage(view, position.lookup_id, position.arrived, position.aborts, position.moves)
