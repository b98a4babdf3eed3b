"""[MS-MQDMPR] 3.1.7.1.31: the codes of privacy levels, signatures, ciphers and hashes."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.algorithms import AuthenticationLevel, EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.structures.names.format_name import PrivateFormatName
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.user_message_rewrites import patch_authentication_level, patch_security_header
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA


def made(message: Message) -> UserMessageView:
    """The packet of a message, as another queue manager reads it."""
    packet = build_packet(message, PrivateFormatName(BETA, 16), source=ALPHA, message_id=1, sent_time=1)
    return UserMessageView(packet)


class CodeTests(SynchronousTestCase):
    """Each is written as its number, and read again."""

    def test_privacy_levels(self) -> None:
        """MQDMPR-3.1.7.1.31-13: 0, 1, 3 and 5; a message says 0 until it is encrypted."""
        self.assertEqual({level.name: level.value for level in PrivacyLevel}, LEVELS)
        self.assertEqual(made(Message()).privacy_level, PrivacyLevel.NONE)
        packet = made(Message()).parse()
        for level in PrivacyLevel:
            properties = attrs.evolve(packet.properties, privacy_level=level)
            view = UserMessageView(attrs.evolve(packet, properties=properties).to_bytes())
            self.assertEqual(
                view.packet[view.properties_offset + 40 :][:4], bytes([LEVELS[level.name], 0, 0, 0])
            )
            self.assertIs(PrivacyLevel(view.privacy_level), level)

    def test_signatures(self) -> None:
        """MQDMPR-3.1.7.1.31-09 (reading 60): 0, 1, 3 and 5 in a stored packet that was verified."""
        self.assertEqual({each.name: each.value for each in AuthenticationLevel}, SIGNATURES)
        signed = patch_security_header(made(Message()), SecurityHeader(signature=b"signature"))
        for level in AuthenticationLevel:
            view = patch_authentication_level(signed, level)
            self.assertEqual(view.packet[view.security_offset + 1] & 0x0F, SIGNATURES[level.name])
            self.assertIs(UserMessageView(view.packet).authentication_level, level)

    def test_ciphers(self) -> None:
        """MQDMPR-3.1.7.1.31-14: what the sender chooses stands in the packet, and is read again."""
        self.assertEqual({each.name: each.value for each in EncryptionAlgorithm}, CIPHERS)
        for cipher in EncryptionAlgorithm:
            view = made(Message(encryption_algorithm=cipher))
            code = CIPHERS[cipher.name].to_bytes(4, "little")
            self.assertEqual(view.packet[view.properties_offset + 48 :][:4], code)
            self.assertIs(EncryptionAlgorithm(view.encryption_algorithm), cipher)

    def test_hashes(self) -> None:
        """MQDMPR-3.1.7.1.31-15: so are the hashes; 0x8003 is MD5 (reading 61)."""
        self.assertEqual({each.name: each.value for each in HashAlgorithm}, HASHES)
        for algorithm in HashAlgorithm:
            view = made(Message(hash_algorithm=algorithm))
            code = HASHES[algorithm.name].to_bytes(4, "little")
            self.assertEqual(view.packet[view.properties_offset + 44 :][:4], code)
            self.assertIs(HashAlgorithm(view.hash_algorithm), algorithm)


SIGNATURES = {"NONE": 0, "SIG_1_0": 1, "SIG_2_0": 3, "SIG_3_0": 5}
LEVELS = {"NONE": 0, "BASE": 1, "ENHANCED": 3, "ADVANCED": 5}
CIPHERS = {"RC2": 0x6602, "RC4": 0x6801, "AES_128": 0x660E, "AES_192": 0x660F, "AES_256": 0x6610}
HASHES = {"MD2": 0x8001, "MD4": 0x8002, "MD5": 0x8003, "SHA_1": 0x8004, "SHA_256": 0x800C, "SHA_512": 0x800E}
