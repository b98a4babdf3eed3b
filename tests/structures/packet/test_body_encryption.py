"""A packet with its body encrypted is the same packet in all else."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.packet.body_encryption import (
    EncryptedBody,
    encryption_input,
    is_encrypted,
    with_clear_body,
    with_encrypted_body,
)
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import user_packet
from tests.strategies import packet_of, user_messages

KEY = b"\1\2\0\0" + bytes(range(136))

messages = user_messages(has_session_header=False)


def encrypted(body: bytes, level: int = 5, algorithm: int = 0x6610, key: bytes = KEY) -> EncryptedBody:
    """A possible result of a cipher for a body."""
    return EncryptedBody(body, level, algorithm, key)


class EncryptedTests(SynchronousTestCase):
    """L{with_encrypted_body}."""

    @given(messages, st.binary(max_size=80))
    def test_any_message(self, message: UserMessage, body: bytes) -> None:
        """Body, key, level and cipher are those given; nothing else is another."""
        view = UserMessageView(packet_of(message))
        packet = with_encrypted_body(view, encrypted(body))
        found = UserMessage.from_bytes(packet)
        self.assertEqual(UserMessageView(packet).size, len(packet))
        security = attrs.evolve(
            message.security or SecurityHeader(is_default_provider=True),
            encryption_key=KEY,
            is_body_encrypted=True,
        )
        self.assertEqual(found.security, security)
        properties = attrs.evolve(
            message.properties,
            message_body=body,
            allocation_body_size=len(body),
            privacy_level=5,
            encryption_algorithm=0x6610,
        )
        self.assertEqual(found.properties, properties)
        self.assertEqual(
            attrs.evolve(found.user, has_security_header=message.user.has_security_header), message.user
        )
        self.assertEqual(
            (found.transaction, found.debug, found.soap, found.multi_queue_format),
            (message.transaction, message.debug, message.soap, message.multi_queue_format),
        )

    @given(messages, st.binary(max_size=80))
    def test_there_and_back(self, message: UserMessage, body: bytes) -> None:
        """The clear packet is the one that it was, with what the sender has said of the encryption."""
        before = UserMessageView(packet_of(message))
        there = UserMessageView(with_encrypted_body(before, encrypted(body)))
        self.assertTrue(is_encrypted(there))
        self.assertEqual(encryption_input(there), body)
        back = UserMessageView(with_clear_body(there, encryption_input(before)))
        self.assertFalse(is_encrypted(back))
        self.assertEqual(back.size, len(back.packet))
        self.assertEqual(encryption_input(back), encryption_input(before))
        self.assertEqual((back.privacy_level, back.encryption_algorithm), (5, 0x6610))
        security = back.security
        if security is not None:
            self.assertEqual(security.encryption_key, b"")

    def test_fields_for_the_receiver(self) -> None:
        """MQQB-3.1.7.1.5-14: EncryptionAlgorithm, EncryptionKey and its size, 140 for a key of 1024 bits."""
        view = UserMessageView(user_packet(b"twenty bytes of body"))
        packet = with_encrypted_body(view, encrypted(bytes(32), 3, 0x6801))
        after = UserMessageView(packet)
        security = after.security
        assert security is not None
        self.assertEqual((after.privacy_level, after.encryption_algorithm), (3, 0x6801))
        self.assertEqual(security.encryption_key, KEY)
        start = after.transaction_offset
        self.assertEqual(packet[start + 4 : start + 6], (140).to_bytes(2, "little"))
        self.assertIsNone(security.provider_info)

    def test_sizes(self) -> None:
        """MQMQ-2.2.19.3-16: MessageSize and AllocationBodySize are those of the cipher text."""
        view = UserMessageView(user_packet(b"twenty bytes of body"))
        after = UserMessageView(with_encrypted_body(view, encrypted(bytes(32))))
        self.assertEqual((after.body_size, after.allocation_body_size), (32, 32))

    def test_the_flag_alone_counts(self) -> None:
        """MQMQ-2.2.20.6-05: EB says that the body is encrypted; a PrivacyLevel without it does not."""
        view = UserMessageView(user_packet(b"body"))
        self.assertFalse(is_encrypted(view))
        there = UserMessageView(with_encrypted_body(view, encrypted(b"ydob")))
        self.assertTrue(is_encrypted(there))
        clear = UserMessageView(with_clear_body(there, b"body"))
        self.assertFalse(is_encrypted(clear))
        self.assertIsNone(clear.security)
        self.assertEqual(clear.privacy_level, 5)
        self.assertTrue(is_encrypted(UserMessageView(with_encrypted_body(view, encrypted(b"ydob", 0)))))
        plain = UserMessage.from_bytes(user_packet(b"body"))
        sender = SecurityHeader(sender_id_type=SenderIdType.SID, security_id=bytes(12))
        known = UserMessageView(packet_of(attrs.evolve(plain, security=sender).completed()))
        there = UserMessageView(with_encrypted_body(known, encrypted(b"ydob")))
        back = UserMessageView(with_clear_body(there, b"body"))
        self.assertEqual((back.security, back.privacy_level, is_encrypted(back)), (sender, 5, False))

    def test_the_sender_stays(self) -> None:
        """SecurityID, certificate and signature are in the packet that is encrypted, and after."""
        plain = UserMessage.from_bytes(user_packet(b"body"))
        security = SecurityHeader(
            sender_id_type=SenderIdType.SID,
            security_id=bytes(12),
            signature=b"signature",
            sender_cert=b"certificate",
            is_default_provider=True,
        )
        message = attrs.evolve(plain, security=security).completed()
        view = UserMessageView(packet_of(message))
        there = UserMessageView(with_encrypted_body(view, encrypted(b"ydob")))
        self.assertEqual(there.security, attrs.evolve(security, encryption_key=KEY, is_body_encrypted=True))
        back = UserMessageView(with_clear_body(there, b"body"))
        self.assertEqual(back.security, security)

    def test_a_provider_that_is_not_announced(self) -> None:
        """A peer may set DE and name a provider all the same; its body comes in clear like any other."""
        provider = ProviderInfo(1, "provider")
        security = SecurityHeader(signature=b"sign", provider_info=provider, is_body_encrypted=True)
        view = UserMessageView(user_packet(b"cipher text"))
        message = attrs.evolve(view.parse(), security=security)
        packet = bytearray(message.to_bytes())
        place = UserMessageView(bytes(packet)).transaction_offset
        packet[place : place + 2] = (int.from_bytes(packet[place : place + 2], "little") | 0x0040).to_bytes(
            2, "little"
        )
        odd = UserMessageView(bytes(packet))
        found = odd.security
        assert found is not None
        self.assertTrue(found.is_default_provider)
        clear = UserMessageView(with_clear_body(odd, b"in clear"))
        self.assertEqual(bytes(clear.body), b"in clear")
        kept = clear.security
        assert kept is not None
        self.assertEqual((kept.provider_info, kept.signature), (provider, b"sign"))

    def test_too_large(self) -> None:
        """A packet of 4 MiB cannot hold a key in addition."""
        view = UserMessageView(user_packet(bytes(4 * 1024 * 1024 - 300)))
        with self.assertRaises(LocalProtocolError):
            with_encrypted_body(view, encrypted(encryption_input(view)))

    def test_nothing_secret_is_shown(self) -> None:
        """Neither the body nor the key."""
        self.assertNotIn("secret", repr(encrypted(b"secret", key=b"secret")))


class RewrittenTests(SynchronousTestCase):
    """The bytes of packets with another body, and their size."""

    def test_every_other_byte_stays(self) -> None:
        """Only the flag, the SecurityHeader, sizes, level, algorithm and the body are others."""
        for label, body in (("", b""), ("label", b"b"), ("l", b"body5"), ("x" * 249, b"bo")):
            plain = UserMessage.from_bytes(user_packet(body, label=label))
            for lists in (None, MultiQueueFormatHeader.of([MQFDirectQueueFormatName("OS:a\\q")])):
                for extension in (b"", b"extension"):
                    properties = attrs.evolve(plain.properties, extension_data=extension)
                    message = attrs.evolve(plain, properties=properties, multi_queue_format=lists).completed()
                    view = UserMessageView(message.to_bytes())
                    there = with_encrypted_body(view, encrypted(b"cipher text"))
                    security = SecurityHeader(
                        encryption_key=KEY, is_body_encrypted=True, is_default_provider=True
                    )
                    changed = attrs.evolve(
                        properties,
                        message_body=b"cipher text",
                        allocation_body_size=11,
                        privacy_level=5,
                        encryption_algorithm=0x6610,
                    )
                    expected = attrs.evolve(message, properties=changed, security=security).completed()
                    self.assertEqual(there, expected.to_bytes())
                    back = with_clear_body(UserMessageView(there), body)
                    restored = attrs.evolve(properties, privacy_level=5, encryption_algorithm=0x6610)
                    self.assertEqual(back, attrs.evolve(message, properties=restored).completed().to_bytes())

    def test_the_largest_packet(self) -> None:
        """A packet of exactly 4 MiB is allowed, and the error of a larger one has both sizes."""
        limit = 4 * 1024 * 1024
        view = UserMessageView(user_packet(b"body"))
        overhead = len(with_encrypted_body(view, encrypted(b"")))
        largest = with_encrypted_body(view, encrypted(bytes(limit - overhead)))
        self.assertEqual(len(largest), limit)
        error = self.assertRaises(
            LocalProtocolError, with_encrypted_body, view, encrypted(bytes(limit - overhead + 1))
        )
        self.assertEqual(str(error), f"PacketSize: {limit + 4} bytes, of {limit} that a packet may have")
