"""The enterprise as routing read it last, for a start while the directory is away. [MS-MQOD] 2.7.4."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.membership.attributes import DirectoryObject
from msmq.membership.object_json import from_json, pack_object, to_json, unpack_object
from msmq.membership.objects import ConnectedNetworkObject, QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.persistence.changes import Change, PutState

TOPOLOGY: Final = "directory.topology"
"""The name in the store of the objects: JSON, compressed by zlib."""

TOPOLOGY_READ: Final = "directory.topology_read"
"""The name in the store of the time at which they were read, in seconds since 1970-01-01 UTC."""

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of JSON that a kept topology may have: about half a million queue managers."""

_ATTRIBUTES: Final[Mapping[type[DirectoryObject], tuple[str, ...]]] = {
    SiteObject: ("identifier", "name", "foreign_site", "full_path"),
    RoutingLinkObject: (
        "identifier",
        "site1_identifier",
        "site2_identifier",
        "actual_cost",
        "site_gate_identifier_list",
        "full_path",
    ),
    QueueManagerObject: (
        "identifier",
        "computer_name",
        "qualified_computer_name",
        "site_identifier_list",
        "routing_server",
        "in_routing_server_identifier_list",
        "out_routing_server_identifier_list",
        "connected_network_identifier_list",
        "full_path",
    ),
    ConnectedNetworkObject: ("identifier", "name"),
}
"""What routing looks at (L{msmq.interfaces.topology.add_objects}); nothing else is kept."""

_TYPES: Final = {of.TYPE: of for of in _ATTRIBUTES}


@attrs.frozen
class ReadTopologyObjects:
    """Sites, links, queue managers and connected networks of a directory.

    @ivar read: when they were read, in seconds since 1970-01-01 UTC.
    """

    objects: tuple[DirectoryObject, ...]
    read: float


class KeptTopology:
    """Keeps in the store what routing has read, and has it for the next start.

    Only a change is written, and the time at which it was read last.

    @param store: L{msmq.manager.performer.Performer.commit_later}.
    @param beside: calls a function in a worker thread.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, store: Callable[[Sequence[Change], str], None], beside: Callable[..., Deferred[Any]]
    ) -> None:
        self._store = store
        self._beside = beside
        self._packed = b""
        self._read = b""

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Have what the store kept."""
        self._packed, self._read = state.get(TOPOLOGY, b""), state.get(TOPOLOGY_READ, b"")

    async def load(self) -> ReadTopologyObjects | None:
        """What was kept last; C{None} if nothing was, or it cannot be read, which is logged."""
        if not self._packed or not self._read:
            return None
        try:
            objects = await self._beside(_unpacked, self._packed)
            return ReadTopologyObjects(objects, float(from_json(TOPOLOGY_READ, self._read)))
        except Exception as error:
            self.log.error("the stored value {name} is not used: {error}", name=TOPOLOGY, error=error)
            return None

    async def keep(self, objects: Iterable[DirectoryObject], read: float) -> None:
        """Have these in the store for the next start; it is not waited for that.

        @param read: when they were read.
        """
        packed: bytes = await self._beside(_packed, tuple(objects))
        changes: list[Change] = [PutState(TOPOLOGY_READ, to_json(read))]
        if packed != self._packed:
            changes.append(PutState(TOPOLOGY, packed))
        self._packed, self._read = packed, to_json(read)
        self._store(changes, "the enterprise, for a start without the directory, was")


def _packed(objects: Iterable[DirectoryObject]) -> bytes:
    found = []
    for each in objects:
        wanted = _ATTRIBUTES.get(type(each))
        if wanted is not None:
            whole = pack_object(each)
            found.append({"type": each.TYPE, **{name: whole[name] for name in wanted}})
    return zlib.compress(to_json(found), 1)


def _unpacked(packed: bytes) -> tuple[DirectoryObject, ...]:
    """The opposite of L{_packed}.

    @raise ValueError: it is not what was kept; its text is the reason.
    """
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if stream.unconsumed_tail or not stream.eof:
        raise ValueError(f"it is cut off, or has more than {LARGEST} bytes")
    found = []
    for entry in from_json(TOPOLOGY, data):
        values = dict(entry)
        of = _TYPES[values.pop("type")]
        found.append(unpack_object(of, values))
    return tuple(found)
