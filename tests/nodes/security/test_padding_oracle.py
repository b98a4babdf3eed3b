"""Refusals reveal nothing of a body that another sender has encrypted."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from msmq.interfaces.security.ciphers import CipherError
from msmq.security.ciphers import LibraryCiphers
from msmq.security.keys import KeyRing
from msmq.structures.directory.public_keys import AES_PROVIDER
from msmq.structures.packet.body_encryption import EncryptedBody, with_encrypted_body
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.signature_input import signature_input_2_0
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.contracts.signing import SID
from msmq.transfer.security.cipher_choice import Preferences
from tests.builders import with_security
from tests.nodes.scripted import transactional
from tests.nodes.signed import SigningTestCase
from tests.nodes.support import Node

SECRET = b"for the reader of the queue alone, and for no other"
SEQUENCE = 1 << 32


@cache
def real_ciphers() -> LibraryCiphers:
    """Those of BETA."""
    made = LibraryCiphers(KeyRing(None, bits=1024))
    made.open()
    return made


class CountedCiphers(LibraryCiphers):
    """Counts what takes a secret key.

    @ivar recovered: how many session keys were decrypted.
    """

    recovered = 0

    def recover_session_key(self, provider_name: str, encrypted: bytes) -> Any:
        """See L{ICiphers.recover_session_key}."""
        self.recovered += 1
        return super().recover_session_key(provider_name, encrypted)


class OracleTests(SigningTestCase):
    """GAMMA has caught what was encrypted for BETA, and sends it again, changed and with any signature."""

    def setUp(self) -> None:
        self.ciphers = CountedCiphers(real_ciphers()._keys)
        super().setUp()
        key = next(key.key for key in self.ciphers.encryption_keys.keys if key.provider_name == AES_PROVIDER)
        self.caught = self.ciphers.make_session_key(0x6610, 256, 256, key)
        self.text = self.ciphers.encrypt(0x6610, self.caught.key, SECRET)
        self.sent = 0

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {"ciphers": self.ciphers, "encryption": Preferences()} if name == "BETA" else {}
        return super().node(name, identifier, options=options, **kwargs)

    def reported(self, text: bytes, key: bytes | None = None, *, signature: bytes = b"rubbish") -> int:
        """The class that GAMMA receives for a message with this cipher text."""
        self.sent += 1
        packet = transactional(b"x", (SEQUENCE, self.sent, self.sent - 1))
        if signature:
            certificate = self.alice.certificate
            packet = with_security(
                packet, SID, signature=signature, certificate=certificate, hash_algorithm=0x800E
            )
        body = EncryptedBody(text, 5, 0x6610, self.caught.encrypted if key is None else key)
        self.say(with_encrypted_body(UserMessageView(packet), body), seconds=1)
        self.peer.acknowledge()
        message_class, number = self.peer.final_acks[-1]
        self.assertEqual(number, self.sent)
        return message_class

    def changed(self, place: int, value: int = 1) -> bytes:
        """The cipher text with one byte changed."""
        text = bytearray(self.text)
        text[place] ^= value
        return bytes(text)

    def last_block_changed(self) -> bytes:
        """The cipher text with its last byte changed, so that its padding is invalid: of 256 changes, one
        makes it valid by chance.
        """
        for value in range(1, 256):
            text = self.changed(len(self.text) - 1, value)
            try:
                self.ciphers.decrypt(0x6610, self.caught.key, text)
            except CipherError:
                return text
        raise AssertionError("each change leaves a valid padding")

    def test_signed(self) -> None:
        """A valid padding and an invalid one draw the same refusal; the log here distinguishes them.

        MQQB-3.1.5.8.3-06.
        """
        size = len(self.text)
        right = [self.text, self.changed(0), self.text[: size - 16] + self.text[size - 16 :]]
        wrong = [self.changed(size - 17, value) for value in (1, 2, 0x80)]
        wrong += [self.last_block_changed(), self.text[:-1], self.text[:16], b""]
        self.assertEqual({self.reported(text) for text in right}, {MessageClass.NACK_BAD_SIGNATURE})
        self.assertEqual({self.reported(text) for text in wrong}, {MessageClass.NACK_BAD_SIGNATURE})
        reasons = self.reasons()
        self.assertEqual(sum("its signature is not that of" in reason for reason in reasons), len(right))
        self.assertEqual(sum("are no AES_256 under its key" in reason for reason in reasons), len(wrong))
        blob = self.caught.encrypted
        for key in (blob[:-1] + bytes((blob[-1] ^ 1,)), blob[:20] + bytes((blob[20] ^ 1,)) + blob[21:]):
            self.assertEqual(self.reported(self.text, key), MessageClass.NACK_BAD_SIGNATURE)
        self.assertEqual(self.arrived(self.path), [])

    def test_what_is_remembered(self) -> None:
        """Whether a key is cached, which changes the time of a refusal, reveals nothing of the body
        either.
        """
        for text in (self.changed(len(self.text) - 17), self.text):
            self.ciphers.recovered = 0
            self.reported(text)
            self.reported(text)
            self.assertLessEqual(self.ciphers.recovered, 1)
        self.assertEqual(self.ciphers.recovered, 0)

    def test_signature_over_the_cipher_text(self) -> None:
        """A signature over the cipher text itself is of no use: it is refused in the same words."""
        text = self.changed(len(self.text) - 17)
        self.sent += 1
        plain = transactional(text, (SEQUENCE, self.sent, self.sent - 1))
        self.sent -= 1
        signature = self.signing.sign(self.alice, 0x800E, signature_input_2_0(UserMessageView(plain)))
        assert isinstance(signature, bytes)
        self.assertEqual(self.reported(text, signature=signature), MessageClass.NACK_BAD_SIGNATURE)
        self.assertEqual(self.arrived(self.path), [])

    def test_unsigned(self) -> None:
        """Without a signature the class is that of encryption (MQQB-3.1.5.8.3-19)."""
        text = self.changed(len(self.text) - 17)
        self.assertEqual(self.reported(text, signature=b""), MessageClass.NACK_BAD_ENCRYPTION)
