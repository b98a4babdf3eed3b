"""A sender with [queues] journal_on = "acknowledgement", and the acknowledgements that it gets."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.persistence.changes import Change
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.transfer.source_journaling import SourceJournaling
from tests.builders import ALPHA, GAMMA, base_header, direct_name
from tests.nodes.scripted import (
    JOURNAL,
    Heard,
    Peer,
    ScriptedTestCase,
)
from tests.nodes.support import Node

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"
UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")
ARRIVED, RECEIVED, REFUSED, PURGED = 0x0002, 0x4000, 0x8003, 0xC001
UNKNOWN, UNREAD = 0x8002, 0xC002
WAIT = 100.0
ARRIVAL = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
RECEIPT = Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
ON: dict[str, Any] = {"source_journaling": SourceJournaling.ACKNOWLEDGEMENT}
_NUMBERS = itertools.count(5000)


def admin_ack(
    message: Heard,
    message_class: int = ARRIVED,
    *,
    source: UUID = GAMMA,
    owner: UUID = GAMMA,
    admin: str | int = "TCP:127.0.0.2\\private$\\admin",
) -> bytes:
    """[MS-MQQB] 3.1.7.15 an administration acknowledgement of a received message, from the byte layouts
    alone.
    """
    name = message.destination
    if isinstance(name, str):
        kind, about = 7, direct_name(name)
    else:
        kind, about = 6, owner.bytes_le + struct.pack("<I", name)
    flags = 0x00200000 | (message.user_flags & 0x20) | kind << 16
    if isinstance(admin, str):
        address, to = bytes(16), direct_name(admin)
        flags |= 7 << 10
    else:
        address, to = ALPHA.bytes_le, struct.pack("<I", admin)
        flags |= 3 << 10
    user = source.bytes_le + address + struct.pack("<IIII", 0xFFFFFFFF, 6, next(_NUMBERS), flags)
    user += to + about
    properties = struct.pack("<BBH", 0, 0, message_class) + message.source.bytes_le
    properties += struct.pack("<I", message.message_id)
    properties += struct.pack("<IIIIIIII", 0, 0, 0, 0, 0, 0, 0, 0)
    return base_header(3, 16 + len(user) + len(properties)) + user + properties


class CutStore(MemoryMessageStore):
    """A disk that a crash cuts off after some commits.

    @ivar left: how many commits it still does; C{None} for any number.
    @ivar done: how many it has done.
    @ivar is_slow: commits wait for L{finish}.
    """

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.left: int | None = None
        self.done = 0
        self.is_slow = False
        self._pending: list[tuple[Sequence[Change], Deferred[None]]] = []

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        if self.left == 0 or self.is_slow:
            waiting: Deferred[None] = Deferred()
            self._pending.append((changes, waiting))
            return waiting
        if self.left is not None:
            self.left -= 1
        self.done += 1
        return super().commit(changes)

    def finish(self) -> None:
        """Do what waits."""
        self.is_slow = False
        pending, self._pending = self._pending, []
        for changes, waiting in pending:
            self.commit(changes).chainDeferred(waiting)

    def names(self) -> list[str]:
        """The values of journal copies that wait."""
        return [name for name in self._contents.snapshot().state if name.startswith("source/")]


class ProvenTestCase(ScriptedTestCase):
    """ALPHA journals on acknowledgement; its administration queue is its own."""

    settings = SessionSettings(acknowledgement_wait=WAIT)
    options = ON

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if identifier == ALPHA:
            kwargs.setdefault("options", self.options)
            kwargs.setdefault("store", CutStore())
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.alpha, "admin")

    def ask(self, name: str, *bodies: bytes, acknowledge: Acknowledge = ARRIVAL, **kwargs: Any) -> None:
        """Send messages that ask for a journal copy and for acknowledgements."""
        kwargs = {"journal": True, "admin_queue": ADMIN, "delivery": Delivery.RECOVERABLE, **kwargs}
        self.send(self.alpha, name, *bodies, acknowledge=acknowledge, **kwargs)
        self.clock.advance(1)

    def kept(self, path: str) -> list[tuple[bytes, int]]:
        """The copies in a system queue of ALPHA, received permanently: bodies and classes."""
        return [(bytes(view.body), view.message_class) for view in self.take(self.alpha, path)]

    @property
    def journal(self) -> list[bytes]:
        """The bodies of the copies in the journal of ALPHA, received permanently."""
        return [body for body, _ in self.kept(JOURNAL)]

    @property
    def unproven(self) -> int:
        """How many messages ALPHA keeps aside."""
        return self.alpha.model.collection.unproven.message_count

    def reasons(self) -> list[tuple[str, str]]:
        """The events of ALPHA about messages: words and reasons."""
        events = self.successResultOf(self.alpha.store.read_events(0, 1000))
        return [(each.event.event, each.event.reason) for each in events if each.event.identity]

    def verify_nothing_left(self) -> None:
        """No message waits, and after a minute the store holds no value about any."""
        self.clock.advance(61)
        assert isinstance(self.alpha.store, CutStore)
        self.assertEqual((self.unproven, self.waiting(self.alpha), self.alpha.store.names()), (0, 0, []))


class ReceiverTestCase(ProvenTestCase):
    """ALPHA sends to the plain peer GAMMA, which says when it acknowledges what."""

    to = TO_GAMMA

    def setUp(self) -> None:
        super().setUp()
        self.listen()

    @property
    def peer(self) -> Peer:
        return self.peers[-1]

    def say(self, *packets: bytes, peer: Peer | None = None) -> None:
        (peer or self.peer).send(*packets)
        self.clock.advance(1)

    def hand_over(self) -> None:
        """The session acknowledges what came."""
        self.peer.acknowledge()
        self.clock.advance(1)

    def refused(self) -> dict[str, int]:
        return dict(self.alpha.service.inspection.status().refused)
