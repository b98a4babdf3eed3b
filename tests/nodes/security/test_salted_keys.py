"""Signed messages with keys of 40 bits: the signature decides which variant of the cipher is right."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from msmq.interfaces.security.ciphers import SessionKey
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.directory.public_keys import BASE_PROVIDER
from msmq.structures.packet.body_encryption import EncryptedBody, with_encrypted_body
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.security.cipher_choice import Preferences
from tests.nodes.signed import SigningTestCase
from tests.nodes.support import Node
from tests.security.library_ciphers import ciphers
from tests.security.openssl import legacy

RC2, RC4 = 0x6602, 0x6801


@cache
def session_key(algorithm: int) -> SessionKey:
    """A key of 40 bits."""
    public = next(key.key for key in ciphers().encryption_keys.keys if key.provider_name == BASE_PROVIDER)
    return ciphers().make_session_key(algorithm, 40, 40, public)


class SaltedKeyTests(SigningTestCase):
    """BETA has weak ciphers, GAMMA signs and encrypts."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {
            "ciphers": ciphers(),
            "encryption": Preferences(weak=True),
            **kwargs.pop("options", {}),
        }
        return super().node(name, identifier, options=options, **kwargs)

    def encrypted(self, clear: bytes, algorithm: int, body: bytes) -> bytes:
        """A signed packet with a body in cipher text in place of its own."""
        packet = self.signed(self.fields(body=clear), 3)
        key = session_key(algorithm).encrypted
        return with_encrypted_body(UserMessageView(packet), EncryptedBody(body, 1, algorithm, key))

    def test_each_variant(self) -> None:
        """With salt and without, in RC2 and RC4, the body arrives that was signed."""
        for algorithm, name in ((RC2, "rc2-40-cbc"), (RC4, "rc4-40")):
            key = session_key(algorithm).key
            # Bytes that are no text in any encoding, so that nothing but the signature decides.
            clear = bytes(range(255, 200, -1))
            vector = ["-iv", "00" * 8] if algorithm == RC2 else []
            plain = legacy("enc", f"-{name}", "-K", key.hex(), *vector, data=clear)
            salted = ciphers().encrypt(algorithm, key, clear)
            self.assertNotEqual(plain, salted)
            for body in (plain, salted):
                self.say(self.encrypted(clear, algorithm, body))
                [view] = self.arrived()
                self.assertEqual(bytes(view.body), clear)
                self.assertIs(view.authentication_level, AuthenticationLevel.SIG_2_0)
        self.assertEqual(self.reasons(), [])

    def test_no_variant(self) -> None:
        """A body in RC4 that is not the signed one in any variant is refused for its encryption."""
        key = session_key(RC4).key
        self.say(self.encrypted(b"signed", RC4, ciphers().encrypt(RC4, key, b"forged")))
        self.assertEqual(self.arrived(), [])
        [reason] = self.reasons()
        self.assertRegex(reason, "^NACK_BAD_ENCRYPTION .*with or without salt, is not the signed one")
