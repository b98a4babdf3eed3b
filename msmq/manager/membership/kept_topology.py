"""Stored copy of the routing topology, for a start while the directory is unreachable. [MS-MQOD] 2.7.4."""

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
"""Limit on the JSON of a stored topology in bytes: about half a million queue managers."""

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
"""The attributes that routing uses (L{msmq.interfaces.topology.add_objects}); only these are stored."""

_TYPES: Final = {of.TYPE: of for of in _ATTRIBUTES}


@attrs.frozen
class ReadTopologyObjects:
    """Sites, links, queue managers and connected networks of a directory.

    @ivar read: when they were read, in seconds since 1970-01-01 UTC.
    """

    objects: tuple[DirectoryObject, ...]
    read: float


class KeptTopology:
    """Stores the topology that routing has read, and loads it at the next start.

    Only changes are written, and the time of the last read.

    @param store: L{msmq.manager.performer.Performer.commit_later}.
    @param in_thread: calls a function in a worker thread.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        store: Callable[[Sequence[Change], str], Deferred[bool]],
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._packed = b""
        self._read = b""

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Take the stored values."""
        self._packed, self._read = state.get(TOPOLOGY, b""), state.get(TOPOLOGY_READ, b"")

    async def load(self) -> ReadTopologyObjects | None:
        """The stored topology; C{None} without one, or if it cannot be read, which is logged."""
        if not self._packed or not self._read:
            return None
        try:
            objects = await self._in_thread(_unpacked, self._packed)
            return ReadTopologyObjects(objects, float(from_json(TOPOLOGY_READ, self._read)))
        except Exception as error:
            self.log.error("the stored value {name} is not used: {error}", name=TOPOLOGY, error=error)
            return None

    async def keep(self, objects: Iterable[DirectoryObject], read: float) -> None:
        """Store a topology for the next start, without waiting for the commit.

        @param read: when they were read.
        """
        packed: bytes = await self._in_thread(_packed, tuple(objects))
        changes: list[Change] = [PutState(TOPOLOGY_READ, to_json(read))]
        if packed != self._packed:
            changes.append(PutState(TOPOLOGY, packed))
        storing = self._store(changes, "the copy of the enterprise for a start without the directory")
        storing.addCallback(self._stored, packed, to_json(read))

    def _stored(self, is_stored: bool, packed: bytes, read: bytes) -> None:
        # What is not stored counts as changed at the next read, and is written then.
        if is_stored:
            self._packed, self._read = packed, read


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

    @raise ValueError: the value is damaged; the text is the reason.
    """
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if stream.unconsumed_tail or not stream.eof:
        raise ValueError(f"it is truncated, or has more than {LARGEST} bytes")
    found = []
    for entry in from_json(TOPOLOGY, data):
        values = dict(entry)
        of = _TYPES[values.pop("type")]
        found.append(unpack_object(of, values))
    return tuple(found)
