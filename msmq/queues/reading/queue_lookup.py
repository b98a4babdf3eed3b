"""Resolves the name of a queue to open, with access and share mode. [MS-MQDMPR] 3.1.7.1.5 and 3.1.7.3.8."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.moment import Moment
from msmq.queues.arriving.send_destination import OFFERED_PROTOCOLS
from msmq.queues.collection import QueueCollection
from msmq.queues.queue import Queue
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PublicFormatName,
    is_read_only,
)
from msmq.structures.status import MQError, Status


def expand(names: Iterable[FormatName]) -> tuple[FormatName, ...]:
    """Expand Format Name: each name once regardless of case, in alphabetical order. [MS-MQDMPR] 3.1.7.3.8.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a distribution list, whose members only a
        directory knows, and if there is no name at all (readings 22 and 58).
    """
    found: dict[str, FormatName] = {}
    for name in names:
        if isinstance(name, DistributionListFormatName):
            raise _unsupported(name, "a distribution list can be used only with a directory")
        found.setdefault(str(name).lower(), name)
    if not found:
        raise MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, "the name of a queue is missing")
    return tuple(found[text] for text in sorted(found))


def check_name(name: FormatName, access: QueueAccessType, share_mode: QueueShareMode) -> None:
    """Check that a queue with such a name can be opened with this access. [MS-MQDMPR] 3.1.7.1.5.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION or MQ_ERROR_UNSUPPORTED_ACCESS_MODE.
    """
    is_sender = access is QueueAccessType.SEND
    match name:
        case DirectFormatName() if name.protocol not in OFFERED_PROTOCOLS:
            if not is_sender:
                raise _unsupported(name, "such a queue can be opened for sending only")
            raise _unsupported(name, f"the {name.protocol.name} transport is not supported")
        case DirectFormatName() if is_sender and name.subqueue is not None:
            raise _unsupported(name, "messages are moved to a subqueue, and not sent")
        case MulticastFormatName():
            if not is_sender:
                raise _unsupported(name, "such a queue can be opened for sending only")
            raise _unsupported(name, "multicast is not supported")
        case MachineFormatName() if is_sender:
            raise _unsupported(name, "messages cannot be sent to a system queue")
        case ConnectorFormatName() if is_sender:
            raise _unsupported(name, "there is no connector to a foreign site")
    if is_sender and is_read_only(name):
        raise _unsupported(name, "messages cannot be sent to a journal or dead-letter queue")
    if is_sender and share_mode is QueueShareMode.DENY_RECEIVE:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_ACCESS_MODE,
            "a queue that is opened for sending cannot deny receiving",
        )


def find_queue(collection: QueueCollection, name: FormatName, access: QueueAccessType, now: Moment) -> Queue:
    """The queue to open for a checked name. [MS-MQDMPR] 3.1.7.1.5.

    For a remote queue it is the outgoing queue, which is created for sending, and which administrators can
    open if it exists. That of a public queue exists already if public queues are looked up in a directory.

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND; MQ_ERROR_NO_DS for sending to the public name of a queue that is
        remote, without a directory; or what L{QueueCollection.subqueue} raises.
    """
    names = collection.names
    queue = names.find(name)
    if queue is not None:
        return queue
    is_sender = access is QueueAccessType.SEND
    if not is_sender and isinstance(name, DirectFormatName) and name.subqueue is not None:
        main = names.find_main(name)
        if main is not None:
            return collection.subqueue(main, name.subqueue, now)
    if names.is_local(name):
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no queue {name}")
    if is_sender:
        if not isinstance(name, PublicFormatName):
            return collection.outgoing(name, now)
        outgoing = collection.find_outgoing(name)
        if outgoing is None:
            raise MQError(Status.MQ_ERROR_NO_DS, f"{name} is a public queue, which needs a directory")
        return outgoing
    outgoing = collection.find_outgoing(name) if access.is_admin else None
    if outgoing is None:
        raise MQError(
            Status.MQ_ERROR_QUEUE_NOT_FOUND,
            f"{name} is not a queue of this queue manager; remote queues can be opened for sending only",
        )
    return outgoing


def _unsupported(name: FormatName, problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, f"{name}: {problem}")
