"""[MS-MQQB] 3.1.5.8.1: an express message that comes again is counted and acknowledged, and not delivered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.wire.addresses import AddressSet
from tests.builders import ALPHA
from tests.manager.support import FaultyStore
from tests.nodes.scripted import Peer, ScriptedTestCase, transactional
from tests.nodes.support import Node

ELSEWHERE = "127.0.0.9"


class DuplicatesTestCase(ScriptedTestCase):
    """GAMMA sends express messages to BETA."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", FaultyStore())
        gate = TrustedPeers(Unauthenticated.DENY, AddressSet())
        options = {"trusted_peers": gate} if self.is_strict and name == "BETA" else {}
        return super().node(name, identifier, options=options, quota=8, **kwargs)

    is_strict = False

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta)
        self.peer = self.dial()

    def message(self, number: int = 1, body: bytes = b"x", **kwargs: Any) -> bytes:
        kwargs = {"is_recoverable": False, **kwargs}
        return transactional(body, (0, 0, 0), message_id=number, is_transactional=False, **kwargs)

    def say(self, *packets: bytes, peer: Peer | None = None) -> None:
        (peer or self.peer).send(*packets)
        self.clock.advance(1)


class ExpressDuplicateTests(DuplicatesTestCase):
    """BETA trusts the addresses of this machine."""

    def test_comes_three_times(self) -> None:
        """On one session and on the next: it is delivered once, and each copy is acknowledged.

        MQQB-3.1.5.8.1-02, MQQB-3.1.5.8.1-04.
        """
        self.say(self.message(), self.message())
        self.clock.advance(20)
        self.assertEqual(self.peer.acks[-1][0], 2)
        self.peer.hang_up()
        self.peer = self.dial()
        self.say(self.message())
        self.clock.advance(20)
        self.assertEqual(self.peer.acks[-1][0], 1)
        self.assertEqual(self.bodies(self.beta, self.path), [b"x"])
        self.assertEqual(self.beta.service.inspection.status().refused, {"DUPLICATE": 2})

    def test_refused_copy(self) -> None:
        """One that was refused is refused once, and has one dead letter and one event."""
        nowhere = "TCP:127.0.0.3\\private$\\nowhere"
        self.say(*[self.message(destination=nowhere, user_flags=0x0100)] * 2)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1, "DUPLICATE": 1})
        self.assertEqual(self.beta.service.inspection.queue(".\\system$;deadletter").messages, 1)

    def test_over_the_quota(self) -> None:
        """A message not acknowledged because of a quota arrives when it is sent again."""
        big = self.message(1, bytes(6000))
        self.say(big, self.message(2, bytes(6000)))
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(len(self.bodies(self.beta, self.path)), 1)
        self.peer = self.dial()
        self.say(big, self.message(2, bytes(6000)))
        self.assertEqual(len(self.bodies(self.beta, self.path)), 1)

    def test_store_failed(self) -> None:
        """A message withdrawn with recoverable messages that could not be stored arrives when it is sent
        again.
        """
        store = self.beta.store
        assert isinstance(store, FaultyStore)
        store.break_down()
        batch = [self.message(1, b"e"), self.message(2, b"r", is_recoverable=True)]
        self.say(*batch)
        self.assertTrue(self.peer.is_lost)
        store.recover()
        self.peer = self.dial()
        self.say(*batch)
        self.assertEqual(self.bodies(self.beta, self.path), [b"e", b"r"])

    def test_forged_source(self) -> None:
        """A peer cannot have the messages of another dropped by sending their identifiers first."""
        self.say(self.message(1, b"forged"))
        other = self.dial(host=self.network.host(ELSEWHERE), identifier=ALPHA)
        self.say(self.message(2, b"forged"), peer=other)
        self.say(self.message(2, b"true"))
        self.assertEqual(self.bodies(self.beta, self.path), [b"forged", b"forged", b"true"])


class StrictTests(DuplicatesTestCase):
    """BETA takes unsigned messages from no address."""

    is_strict = True

    def test_no_mark(self) -> None:
        """A refused message is not recorded as received: it is refused each time."""
        self.say(self.message(), self.message())
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_ACCESS_DENIED": 2})
