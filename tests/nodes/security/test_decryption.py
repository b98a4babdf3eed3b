"""Encrypted messages arrive: keys, demands of queues, weak algorithms."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Acknowledge
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.body_encryption import EncryptedBody, is_encrypted, with_encrypted_body
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.windows.well_known_sids import EVERYONE
from tests.builders import with_security
from tests.nodes.encrypted import ADVANCED, SECRET, EncryptionTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS
from tests.nodes.support import ADDRESSES, Node


class ReceivingTests(EncryptionTestCase):
    """Messages that cannot be decrypted are refused, the reason is logged, and no acknowledgement is sent."""

    def refused(self, packet: bytes) -> str:
        """Why BETA does not take a packet."""
        self.put(packet)
        self.assertEqual(self.bodies(self.beta, self.path), [])
        [reported] = self.explain(self.beta, UserMessageView(packet))
        kind, _, reason = reported.partition(": ")
        self.assertEqual(kind, "refused")
        self.assertTrue(reason.startswith(f"NACK_BAD_ENCRYPTION from {ADDRESSES['ALPHA']}"), reason)
        return reason

    def test_invalid_levels(self) -> None:
        """MQQB-3.1.5.8.3-13: EB with a PrivacyLevel that means no provider."""
        for number, level in enumerate((0, 2, 4, 6), 1):
            self.assertIn(f"PrivacyLevel is {level}", self.refused(self.foreign(level=level, number=number)))

    def test_unknown_cipher(self) -> None:
        """MQMQ-2.2.19.3-23 MQQB-3.1.5.8.3-19: 0x6601 with EB is refused; without EB the field is ignored."""
        self.assertIn("0x6601", self.refused(self.foreign(algorithm=0x6601)))
        self.assertIn("0x6801", self.refused(self.foreign(algorithm=0x6801, number=2)))
        for packet in (self.plain(3), with_security(self.plain(4), EVERYONE)):
            offset = UserMessageView(packet).properties_offset + 48
            self.put(packet[:offset] + (0x6601).to_bytes(4, "little") + packet[offset + 4 :])
            self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_tampered_messages(self) -> None:
        """MQQB-3.1.5.8.3-19: the blob, its head, its length, the body, its length."""
        packet = self.foreign()
        view = UserMessageView(packet)
        security = view.security
        assert security is not None
        blob, body = security.encryption_key, bytes(view.body)
        changes: list[tuple[bytes, bytes]] = [
            (blob[:12] + bytes((blob[12] ^ 1,)) + blob[13:], body),
            (blob[:-1] + bytes((blob[-1] ^ 1,)), body),
            (b"\2" + blob[1:], body),
            (blob[:4] + b"\x0e" + blob[5:], body),
            (blob[:-1], body),
            (blob + b"x", body),
            (blob[:12], body),
            (blob, body[:-1]),
            (blob, body + b"x"),
            (blob, b""),
            (blob, body[:-1] + bytes((body[-1] ^ 0x80,))),
        ]
        for number, (key, cipher_text) in enumerate(changes, 10):
            plain = UserMessageView(self.plain(number))
            self.refused(with_encrypted_body(plain, EncryptedBody(cipher_text, 5, 0x6610, key)))

    def test_third_party(self) -> None:
        """MQQB-3.1.5.8.3-19: what was encrypted for GAMMA is nothing for BETA; transactional or not."""
        self.refused(self.foreign(receiver="GAMMA"))

    def test_no_acknowledgement_by_default(self) -> None:
        """The NACK that the message asks for is not sent, unless the operator permits it."""
        admin = self.queue(self.alpha, "admin")
        view = UserMessageView(self.foreign(level=2))
        self.put(view.packet)
        self.assertEqual(self.take(self.alpha, admin), [])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_ENCRYPTION": 1})

    def test_queue_manager_without_keys(self) -> None:
        """MQQB-1.5-01: without keys plain messages are accepted; encrypted ones are refused with that
        reason.
        """
        self.kill("BETA")
        node = self.nodes["BETA"] = Node(
            self.network,
            self.clock,
            "BETA",
            IDENTIFIERS["BETA"],
            self.settings,
            self.disks["BETA"],
            directory=self.directory,
        )
        node.start()
        self.beta = node
        self.assertIn("has no keys", self.refused(self.foreign()))
        self.put(self.plain(2))
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_acknowledgement_of_an_encrypted_message(self) -> None:
        """It is sent after decryption, and names the message by its own identifier."""
        admin = self.queue(self.alpha, "admin")
        self.encrypted(
            SECRET,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
            admin_queue=parse_format_name(self.private_name(self.alpha, admin)),
        )
        self.bodies(self.beta, self.path)
        self.clock.advance(5)
        answers = self.take(self.alpha, admin)
        self.assertEqual(
            [view.message_class for view in answers], [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        )
        self.assertEqual({is_encrypted(view) for view in answers}, {False})

    def test_refusals_tell_no_secret(self) -> None:
        """The body of an encrypted message is never sent back in clear.

        MQQB-3.1.7.15-13.
        """
        admin = self.queue(self.alpha, "admin")
        wishes: dict[str, Any] = {
            "acknowledge": Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE,
            "admin_queue": parse_format_name(self.private_name(self.alpha, admin)),
        }
        self.encrypted(SECRET, **wishes)
        self.run_to_end(self.beta.service.purge_queue(self.path))
        self.encrypted(SECRET, time_to_be_received=10, **wishes)
        self.clock.advance(30)
        self.run_to_end(self.beta.service.set_queue(self.path, {"quota": 0}))
        self.encrypted(SECRET, **wishes)
        answers = self.take(self.alpha, admin)
        self.assertEqual(
            [(view.message_class, bytes(view.body)) for view in answers],
            [
                (MessageClass.NACK_Q_PURGED, b""),
                (MessageClass.NACK_RECEIVE_TIMEOUT, b""),
                (MessageClass.NACK_Q_EXCEED_QUOTA, b""),
            ],
        )


class DemandsTests(EncryptionTestCase):
    """Privacy requirements of a queue."""

    def test_privacy_of_queues(self) -> None:
        """MQDMPR-3.1.1.2-11: none takes what is in clear, optional both, body what is encrypted."""
        for privacy, takes_plain, takes_encrypted in (
            ("none", True, False),
            ("optional", True, True),
            ("body", False, True),
        ):
            path = self.queue(self.beta, privacy, privacy=privacy)
            self.name = self.private_name(self.beta, path)
            for level, is_taken in ((PrivacyLevel.NONE, takes_plain), (ADVANCED, takes_encrypted)):
                self.encrypted(SECRET, level=level)
                self.assertEqual(self.bodies(self.beta, path), [SECRET] * is_taken, (privacy, level))
                if not is_taken:
                    [reported] = self.explain(self.beta, self.wire[-1])
                    self.assertIn(f"NACK_BAD_ENCRYPTION from {ADDRESSES['ALPHA']}", reported)
                    self.assertIn(f"privacy {privacy}", reported)
