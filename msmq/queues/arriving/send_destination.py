"""Where messages for a name go: a local queue, an outgoing queue, or nowhere, with the refusal.

[MS-MQDMPR] 3.1.7.1.27 and 3.1.7.3.8. The names that the directory resolves are looked up by the caller.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import attrs

from msmq.queues.outgoing import TRANSIT_NUMBER
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import (
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    is_read_only,
    parse_format_name,
)
from msmq.structures.names.path_name import PathKind, PathName
from msmq.structures.status import Status

OFFERED_PROTOCOLS: Final = (DirectProtocol.TCP, DirectProtocol.OS)
"""The transports of direct names. HTTP, HTTPS, SPX and IPX are not offered."""


@attrs.frozen
class DestinationFacts:
    """What the queue manager knows about a name.

    @ivar is_local: whether the name is of this queue manager, whether or not the queue exists.
    @ivar exists: whether a local queue has the name.
    @ivar is_system: whether this queue is a system queue, such as a journal.
    @ivar has_directory: whether there is a directory, which knows public queues.
    """

    is_local: bool
    exists: bool
    is_system: bool
    has_directory: bool


@attrs.frozen
class LocalDestination:
    """The local queue with the name."""


@attrs.frozen
class OutgoingDestination:
    """An outgoing queue.

    @ivar name: the format name of the messages' destination.
    """

    name: DirectFormatName | PrivateFormatName


@attrs.frozen
class PublicDestination:
    """A public queue of another queue manager, which the directory identifies."""

    name: PublicFormatName | PathName


@attrs.frozen
class DirectDestination:
    """The same queue under the direct name of its computer, for which L{decide_destination} is asked again.

    Directories do not hold private queues, so the computer name of their path is used as the address; it may
    be an address of this queue manager.
    """

    name: FormatName


@attrs.frozen
class DestinationRefusal:
    """Nothing can be sent to the name."""

    status: Status
    reason: str


SendDestination = (
    LocalDestination | OutgoingDestination | PublicDestination | DirectDestination | DestinationRefusal
)

_LOCAL: Final = LocalDestination()


def decide_destination(name: FormatName | PathName, facts: DestinationFacts) -> SendDestination:
    """Where messages for a name go.

    @return: L{LocalDestination} only if the local queue exists.
    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME for a path whose computer cannot stand in a direct name.
    """
    is_subqueue = isinstance(name, PathName | DirectFormatName) and name.subqueue is not None
    if not isinstance(name, PathName) and is_read_only(name):
        return _unsupported(f"{name} can only be read")
    if is_subqueue and facts.is_local:
        return _unsupported(f"{name} is a subqueue, which only moving fills")
    if facts.exists:
        return _unsupported(f"{name} can only be read") if facts.is_system else _LOCAL
    if isinstance(name, PathName):
        return _path_destination(name, facts)
    if facts.is_local:
        return DestinationRefusal(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {name} does not exist")
    match name:
        case DirectFormatName():
            if name.protocol not in OFFERED_PROTOCOLS:
                return _unsupported(f"{name}: the {name.protocol.name} transport is not offered")
            if name.address.lower() in ("private$", "system$"):
                return _unsupported(f"{name}: {name.address} is not a computer")
            return OutgoingDestination(name)
        case PrivateFormatName():
            if name.number == TRANSIT_NUMBER:
                reason = f"no queue has the number of {name}"
                return DestinationRefusal(Status.MQ_ERROR_QUEUE_NOT_FOUND, reason)
            return OutgoingDestination(name)
        case PublicFormatName():
            return PublicDestination(name) if facts.has_directory else _no_directory(name)
    return _unsupported(f"{name}: names of this kind cannot be sent to")


def _path_destination(name: PathName, facts: DestinationFacts) -> SendDestination:
    """The destination of a path name without a local queue."""
    if facts.is_local:
        if name.kind is PathKind.PUBLIC:
            return _no_directory(name)
        return DestinationRefusal(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {name} does not exist")
    if name.kind is PathKind.PUBLIC and facts.has_directory:
        return PublicDestination(name)
    direct = f"DIRECT={'TCP' if _is_address(name.computer) else 'OS'}:{name}"
    if name.kind is PathKind.PRIVATE:
        return DirectDestination(parse_format_name(direct))
    return _unsupported(f"{name} is on another computer; send to {direct}")


def _is_address(computer: str) -> bool:
    try:
        ip_address(computer)
    except ValueError:
        return False
    return True


def _no_directory(name: FormatName | PathName) -> DestinationRefusal:
    reason = f"{name} is a public queue, which needs a directory"
    return DestinationRefusal(Status.MQ_ERROR_NO_DS, reason)


def _unsupported(reason: str) -> DestinationRefusal:
    return DestinationRefusal(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, reason)
