"""Which queues a name means to those who send and receive here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.queues.model import QueueManagerModel
from msmq.queues.opening import expand
from msmq.queues.outgoing import TRANSIT_NUMBER, OutgoingQueue
from msmq.queues.packing import PacketBuilder, list_of_destinations
from msmq.queues.queue import Queue
from msmq.structures.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.format_name import (
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    is_read_only,
    parse_format_name,
    parse_format_names,
)
from msmq.structures.path_name import PathKind, PathName, parse_path_name
from msmq.structures.status import MQError, Status

_OFFERED = (DirectProtocol.TCP, DirectProtocol.OS)


@attrs.frozen
class Target:
    """A queue that messages are sent to.

    @ivar name: the name of it that messages bear.
    @ivar queue: a queue of this queue manager, or the outgoing queue of another's.
    @ivar builder: makes the packets for it.
    @ivar owner: the queue manager that hosts it, as far as packets say that.
    """

    name: FormatName
    queue: Queue
    builder: PacketBuilder = attrs.field(repr=False)
    is_local: bool
    owner: UUID

    @property
    def has_no_key(self) -> bool:
        """Whether nothing is encrypted for it: its direct name does not tell whose key it needs
        ([MS-MQQB] 5.1).
        """
        return not self.is_local and isinstance(self.name, DirectFormatName)


def own_queue(model: QueueManagerModel, text: str) -> Queue:
    """The queue of this queue manager that a path or format name means.

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND; MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a queue of
        another queue manager, which only sending reaches; or that the name is malformed.
    """
    name = _parse(text)
    queue = model.find(name)
    if queue is not None:
        return queue
    if not model.is_local(name):
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"{text} is not a queue of this queue manager; only sending reaches others",
        )
    raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no queue {text}")


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
    raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no outgoing queue {text}")


def readable_queue(model: QueueManagerModel, text: str, now: Moment) -> Queue:
    """The queue of this queue manager that may be read, or moved to, under a name.

    A subqueue that is not there is made: it goes again when nothing is in it and nobody uses it.

    @raise MQError: as L{own_queue}.
    """
    name = _parse(text)
    if isinstance(name, PathName | DirectFormatName) and name.subqueue is not None:
        queue = model.names.find_main(name)
        if queue is not None:
            return model.collection.subqueue(queue, name.subqueue, now)
    return own_queue(model, text)


def destinations(model: QueueManagerModel, text: str, now: Moment) -> list[Target]:
    """The queues that a format name, several with commas, or a local path means as a destination.

    A queue of another queue manager is its outgoing queue, which is made if there is none.
    Several names are in alphabetical order, each queue once (reading 58).

    @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND for a local queue that is not there;
        MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a kind of name that cannot be sent to;
        MQ_ERROR_NO_DS for a public name without a directory; or that a name is malformed.
    @raise UnknownPublicQueue: a public queue of another queue manager, or what is in a distribution list, has
        to be looked for first.
    """
    return all_destinations(model, _expanded(model, _parse_destinations(text)), now)


def all_destinations(
    model: QueueManagerModel, names: Iterable[FormatName | PathName], now: Moment
) -> list[Target]:
    """[MS-MQDMPR] 3.1.7.1.27 the queues of these names, each once.

    If there are several, each message says which, and each copy has its own as DestinationQueueFormatName.

    @raise MQError: as L{destinations}.
    """
    found: dict[Queue, Target] = {}
    for name in names:
        target = destination(model, name, now)
        found.setdefault(target.queue, target)
    targets = list(found.values())
    if len(targets) == 1:
        return targets
    destinations = _list_of_destinations(tuple(target.name for target in targets))
    return [
        attrs.evolve(target, builder=_builder(target.name, model, target.owner, destinations))
        for target in targets
    ]


def destination_names(model: QueueManagerModel, text: str, now: Moment) -> list[FormatName]:
    """The format names of L{destinations}, whose queues are there; nobody is asked yet where public ones are.

    @raise MQError: as L{destinations}.
    @raise UnknownPublicQueue: a path names a public queue, whose format name has to be learned first, or a
        name is a distribution list, whose members have to.
    """
    found: dict[FormatName, None] = {}
    for name in _expanded(model, _parse_destinations(text)):
        if isinstance(name, PublicFormatName) and model.find_public and model.find(name) is None:
            queue: Queue = model.outgoing(name, now)
        else:
            queue = destination(model, name, now).queue
        found[model.format_name(queue)] = None
    return list(found)


@lru_cache(maxsize=1024)
def _parse_destinations(text: str) -> tuple[FormatName | PathName, ...]:
    """Applications send to the same few names again and again."""
    if "=" not in text:
        return (parse_path_name(text),)
    names = parse_format_names(text)
    if len(names) > 1 and not any(isinstance(name, DistributionListFormatName) for name in names):
        return expand(names)
    return names


def _expanded(
    model: QueueManagerModel, names: tuple[FormatName | PathName, ...]
) -> tuple[FormatName | PathName, ...]:
    """[MS-MQDMPR] 3.1.7.3.8 Expand Format Name: the queues of distribution lists in the place of these.

    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION without a directory, which knows the members.
    """
    found: list[FormatName] = []
    is_list = False
    for name in names:
        if isinstance(name, PathName):
            return names
        if isinstance(name, DistributionListFormatName) and model.find_members is not None:
            found += model.find_members(name)
            is_list = True
        else:
            found.append(name)
    return expand(found) if is_list or len(found) > 1 else names


@lru_cache(maxsize=1024)
def _parse(text: str) -> FormatName | PathName:
    return parse_format_name(text) if "=" in text else parse_path_name(text)


def destination(model: QueueManagerModel, name: FormatName | PathName, now: Moment) -> Target:
    """The queue that one name means as a destination.

    @raise MQError: as L{destinations}.
    """
    if not isinstance(name, PathName) and is_read_only(name):
        raise _unsupported(f"{name} can only be read")
    if isinstance(name, PathName | DirectFormatName) and name.subqueue is not None and model.is_local(name):
        raise _unsupported(f"{name} is a subqueue, which only moving fills")
    queue = model.find(name)
    if queue is not None:
        if queue.is_system:
            raise _unsupported(f"{name} can only be read")
        own = model.format_name(queue) if isinstance(name, PathName) else name
        return Target(own, queue, _builder(own, model, model.identifier), True, model.identifier)
    if isinstance(name, PathName):
        if not model.is_local(name):
            if name.kind is PathKind.PUBLIC and model.find_public is not None:
                return _public_target(model, name, now)
            raise _unsupported(
                f"{name} is on another computer; send to DIRECT=OS:{name.computer}\\{name.queue_path}"
            )
        if name.kind is PathKind.PUBLIC:
            raise MQError(Status.MQ_ERROR_NO_DS, f"{name} is a public queue, which needs a directory")
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no queue {name}")
    if model.is_local(name):
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"there is no queue {name}")
    match name:
        case DirectFormatName():
            if name.protocol not in _OFFERED:
                raise _unsupported(f"{name}: the {name.protocol.name} transport is not offered")
        case PrivateFormatName():
            if name.number == TRANSIT_NUMBER:
                raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"no queue has the number of {name}")
        case PublicFormatName():
            return _public_target(model, name, now)
        case _:
            raise _unsupported(f"{name}: names of this kind cannot be sent to")
    owner = model.identifier
    return Target(name, model.outgoing(name, now), _builder(name, model, owner), False, owner)


def _public_target(model: QueueManagerModel, name: PublicFormatName | PathName, now: Moment) -> Target:
    """A public queue of another queue manager, whose GUID stands in the packets for it."""
    if model.find_public is None:
        raise MQError(Status.MQ_ERROR_NO_DS, f"{name} is a public queue, which needs a directory")
    found = model.find_public(name)
    queue = model.outgoing(found.name, now, base_priority=found.base_priority)
    if queue.definition.base_priority != found.base_priority:
        queue.definition = attrs.evolve(queue.definition, base_priority=found.base_priority)
    return Target(found.name, queue, _builder(found.name, model, found.owner), False, found.owner)


@lru_cache(maxsize=1024)
def _built(
    name: FormatName, source: UUID, owner: UUID, destinations: bytes, time_to_reach_queue: int
) -> PacketBuilder:
    """What packets to one destination have in common is laid out once."""
    return PacketBuilder(
        name,
        source=source,
        destination_queue_manager=owner,
        destinations=destinations,
        time_to_reach_queue=time_to_reach_queue,
    )


def _builder(
    name: FormatName, model: QueueManagerModel, owner: UUID, destinations: bytes = b""
) -> PacketBuilder:
    return _built(name, model.identifier, owner, destinations, model.time_to_reach_queue)


@lru_cache(maxsize=64)
def _list_of_destinations(names: tuple[FormatName, ...]) -> bytes:
    return list_of_destinations(names)


def _unsupported(problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, problem)
