"""The keys of a queue manager, and the ciphers for the bodies of messages."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKeys


class CipherError(MsmqError):
    """Something cannot be encrypted or decrypted; has the reason, without secrets."""


@attrs.frozen
class SessionKey:
    """A key for the bodies of messages.

    @ivar algorithm: its cipher.
    @ivar key: the key itself, with the zero bits behind it if it has any.
    @ivar encrypted: the SIMPLEBLOB that only the receiver can open.
    """

    algorithm: int
    key: bytes = attrs.field(repr=False)
    encrypted: bytes = attrs.field(repr=False)


class ICiphers(Interface):
    """Operations that need secret keys, or arithmetic with them. [MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3.

    Every failure is a L{CipherError}; errors of libraries are not exposed.
    """

    encryption_keys: MqdsPublicKeys = Attribute(
        "[MS-MQDMPR] 3.1.1.1 PublicEncryptionKeyList: the keys with which others encrypt for this "
        "queue manager."
    )
    signing_keys: MqdsPublicKeys = Attribute("[MS-MQDMPR] 3.1.1.1 PublicSigningKeyList.")

    def open() -> None:
        """Load the existing keys, and create and store missing ones.

        @raise CipherError: a key is damaged, or cannot be stored.
        """

    def make_session_key(
        algorithm: int, key_bits: int, padded_bits: int, public_key: PublicKeyBlob
    ) -> SessionKey:
        """A new key for a cipher, that only the owner of a public key can decrypt. [MS-MQQB] 3.1.7.1.5.

        @param key_bits: its number of random bits.
        @param padded_bits: its length with trailing zero bits.
        @raise CipherError: the public key is invalid, or too short.
        """

    def recover_session_key(provider_name: str, encrypted: bytes) -> SessionKey:
        """Decrypt the key in a SIMPLEBLOB for this queue manager. [MS-MQQB] 3.1.5.8.3.

        A key for another receiver, or a modified one, may by chance decrypt to a valid key; then the body is
        invalid.

        @param provider_name: the provider of the local key for which it was encrypted.
        @raise CipherError: it is not a SIMPLEBLOB, there is no key of this provider, or the result is not a
        key of its cipher.
        """

    def encrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
        """The cipher text of a body: CBC with a zero IV and PKCS5 padding, or the stream of RC4.

        @raise CipherError: the cipher is unknown, or the key does not fit it.
        """

    def decrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
        """The body of a cipher text.

        @raise CipherError: the cipher is unknown, the key does not fit it, or the padding is wrong.
        """

    def decrypt_variants(algorithm: int, key: bytes, body: bytes) -> Sequence[bytes]:
        """The bodies that a cipher text may stand for, the most likely first, which L{decrypt} returns.

        There are several for keys of 40 bits, which senders use with and without salt (reading 110).

        @raise CipherError: as L{decrypt}, for all variants.
        """
