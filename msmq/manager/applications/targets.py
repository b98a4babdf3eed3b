"""Resolves queue names of local senders and readers."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.queues.arriving.packet_builder import PacketBuilder
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import (
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from msmq.structures.names.name_text import QueueSuffix, check_name, is_format_name
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.status import MQError, Status


@attrs.frozen
class SendTarget:
    """A queue that messages are sent to.

    @ivar name: its name in messages.
    @ivar queue: a queue of this queue manager, or the outgoing queue of another's.
    @ivar builder: builds its packets.
    @ivar owner: the queue manager that hosts it, as far as packets state it.
    """

    name: FormatName
    queue: Queue
    builder: PacketBuilder = attrs.field(repr=False)
    is_local: bool
    owner: UUID

    @property
    def has_no_key(self) -> bool:
        """Whether encryption for it is impossible: a direct name does not identify the key
        ([MS-MQQB] 5.1).
        """
        return not self.is_local and isinstance(self.name, DirectFormatName)


def own_queue(model: QueueManagerModel, text: str) -> Queue:
    """The local queue of a path or format name.

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND; MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a queue of another
    queue manager, which can only be sent to; or that the name is malformed.
    """
    return _own_queue(model, text, _parse(text))


def _own_queue(model: QueueManagerModel, text: str, name: FormatName | PathName) -> Queue:
    queue = model.find(name)
    if queue is not None:
        return queue
    if not model.is_local(name):
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"{text} is not a queue of this queue manager; remote queues can only be sent to",
        )
    raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {text} does not exist")


def outgoing_queue(model: QueueManagerModel, text: str) -> OutgoingQueue:
    """The outgoing queue of a format name.

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if there is none, MQ_ERROR_ILLEGAL_OPERATION for a queue of this
        queue manager, or that the name is malformed.
    """
    name = _parse(text)
    queue = None if isinstance(name, PathName) else model.collection.find_outgoing(name)
    if queue is not None:
        return queue
    if model.is_local(name):
        raise MQError(Status.MQ_ERROR_ILLEGAL_OPERATION, f"{text} is a queue of this queue manager")
    raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"outgoing queue {text} does not exist")


def any_queue(model: QueueManagerModel, text: str, now: Moment) -> Queue:
    """The queue of a name that may be read, or an outgoing queue of that format name.

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
    """
    name = _parse(text)
    outgoing = None if isinstance(name, PathName) else model.collection.find_outgoing(name)
    return readable_queue(model, text, now) if outgoing is None else outgoing


def name_of_outgoing(model: QueueManagerModel, text: str) -> FormatName:
    """The format name of an outgoing queue, which need not exist.

    @raise MQError: MQ_ERROR_ILLEGAL_OPERATION for a queue of this queue manager;
        MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a path, or a name that no outgoing queue has; or that
        the name is malformed.
    """
    name = _parse(text)
    if model.is_local(name):
        raise MQError(Status.MQ_ERROR_ILLEGAL_OPERATION, f"{text} is a queue of this queue manager")
    is_sent_to = isinstance(name, DirectFormatName) or (
        isinstance(name, PrivateFormatName | PublicFormatName) and name.suffix is QueueSuffix.NONE
    )
    if isinstance(name, PathName) or not is_sent_to:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"{text} is not the name of an outgoing queue, which is DIRECT=, PRIVATE= or PUBLIC=, as"
            " msmq outgoing list prints it",
        )
    return name


def readable_queue(model: QueueManagerModel, text: str, now: Moment) -> Queue:
    """The queue of this queue manager that may be read, or moved to, under a name.

    A missing subqueue is created; it is deleted when it is empty and unused.

    @raise MQError: as L{own_queue}.
    """
    name = _parse(text)
    if isinstance(name, PathName | DirectFormatName) and name.subqueue is not None:
        queue = model.names.find_main(name)
        if queue is not None:
            return model.collection.subqueue(queue, name.subqueue, now)
    return _own_queue(model, text, name)


def _parse(text: str) -> FormatName | PathName:
    # The cache needs a hash, which not every wrong argument has.
    check_name(text)
    return _parse_text(text)


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> FormatName | PathName:
    return parse_format_name(text) if is_format_name(text) else parse_path_name(text)
