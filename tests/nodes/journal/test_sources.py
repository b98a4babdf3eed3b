"""[queues] journal_on = "acknowledgement": trusted and forged acknowledgements."""

from __future__ import annotations

import struct
from typing import Any

from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.wire.addresses import AddressSet, parse_network
from tests.builders import GAMMA
from tests.nodes.journal.support import (
    ARRIVED,
    ON,
    REFUSED,
    UNKNOWN_PEER,
    ReceiverTestCase,
    admin_ack,
)
from tests.nodes.scripted import (
    DEADLETTER,
    Heard,
    Peer,
)


class BeliefTests(ReceiverTestCase):
    """Trusted and untrusted sources of acknowledgements."""

    def test_forged_before_the_send(self) -> None:
        """An acknowledgement by another peer for a message that is not sent yet is not accepted."""
        unknown_peer = self.dial("ALPHA", host=self.network.host("127.0.0.9"), identifier=UNKNOWN_PEER)
        namesake = self.dial("ALPHA", host=self.network.host("127.0.0.8"), identifier=GAMMA)
        self.ask(self.to, b"0")
        [message] = self.peer.messages
        following = Heard(
            message.packet[:56] + struct.pack("<I", message.message_id + 1) + message.packet[60:]
        )
        forgers = (unknown_peer, UNKNOWN_PEER), (namesake, GAMMA)
        for peer, source in forgers:
            for forged in (message, following):
                self.say(admin_ack(forged, source=source), peer=peer)
        self.assertEqual(self.refused(), {"ACKNOWLEDGEMENT_BY_ANOTHER": 4})
        self.ask(self.to, b"1")
        self.hand_over()
        self.assertEqual((self.journal, self.unproven), ([], 2))
        for peer, source in forgers:
            self.say(admin_ack(message, REFUSED, source=source), peer=peer)
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (2, []))
        self.say(*map(admin_ack, self.peer.messages))
        self.assertEqual(self.journal, [b"0", b"1"])
        self.verify_nothing_left()

    def test_the_receiver_dials(self) -> None:
        """The receiver may acknowledge on a session of its own."""
        self.ask(self.to, b"1")
        self.hand_over()
        self.say(admin_ack(self.peer.messages[0]), peer=self.dial("ALPHA"))
        self.assertEqual(self.journal, [b"1"])

    def test_nothing_of_ours(self) -> None:
        """Acknowledgements about messages of others, or about none, change nothing."""
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        other = Heard(message.packet[:16] + UNKNOWN_PEER.bytes_le + message.packet[32:])
        self.say(admin_ack(other), admin_ack(message, 0x0123), admin_ack(message, 0x0001))
        self.assertEqual((self.journal, self.unproven, self.refused()), ([], 1, {}))


class NamedTests(ReceiverTestCase):
    """ALPHA sends to GAMMA by its identifier, on a session that GAMMA has opened."""

    to = str(PrivateFormatName(GAMMA, 1))
    options: dict[str, Any] = {  # noqa: RUF012
        **ON,
        "trusted_peers": TrustedPeers(
            Unauthenticated.ALLOW, acknowledgers=AddressSet((parse_network("10.9.9.9"),))
        ),
    }

    def setUp(self) -> None:
        super().setUp()
        self.peers.append(self.dial("ALPHA"))
        self.admin = self.alpha.service.inspection.queue(".\\private$\\admin").format_name

    def ack(self, message: Heard, message_class: int = ARRIVED, **kwargs: Any) -> bytes:
        """An acknowledgement to the name by which gates find ALPHA."""
        return admin_ack(message, message_class, admin=int(self.admin.rpartition("\\")[2], 16), **kwargs)

    def router(self, address: str) -> Peer:
        """A session of another queue manager."""
        return self.dial("ALPHA", host=self.network.host(address), identifier=UNKNOWN_PEER)

    def test_other_identifiers(self) -> None:
        """Only the named queue manager may say that a message arrived; a gate in between may refuse it."""
        self.ask(self.to, b"1", b"2", dead_letter=True, admin_queue=parse_format_name(self.admin))
        self.hand_over()
        first, second = self.peer.messages
        router = self.router("127.0.0.5")
        self.say(self.ack(first, source=UNKNOWN_PEER), peer=router)
        self.assertEqual((self.journal, self.refused()), ([], {"ACKNOWLEDGEMENT_BY_ANOTHER": 1}))
        self.say(self.ack(second, REFUSED, source=UNKNOWN_PEER), peer=router)
        self.assertEqual(self.kept(DEADLETTER), [(b"2", REFUSED)])
        self.say(self.ack(first), peer=router)
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_other_addresses(self) -> None:
        """An address that may not acknowledge is not believed, although its messages are accepted."""
        self.ask(self.to, b"1", admin_queue=parse_format_name(self.admin))
        self.hand_over()
        [message] = self.peer.messages
        self.say(self.ack(message), peer=self.router("10.0.0.1"))
        self.assertEqual((self.journal, self.refused()), ([], {"ACKNOWLEDGEMENT_FROM_ELSEWHERE": 1}))
        self.say(self.ack(message), peer=self.router("10.9.9.9"))
        self.assertEqual(self.journal, [b"1"])
