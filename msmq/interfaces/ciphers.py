"""The keys of a queue manager, and the ciphers for the bodies of messages."""

from __future__ import annotations

import attrs
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKeys


class CipherError(MsmqError):
    """Something cannot be encrypted, or decrypted; says why, without a byte of what is secret."""


@attrs.frozen
class SessionKey:
    """A key for the bodies of messages.

    @ivar algorithm: the cipher that it is for.
    @ivar key: the key itself, with the zero bits behind it if it has any.
    @ivar encrypted: the SIMPLEBLOB that only the receiver can open.
    """

    algorithm: int
    key: bytes = attrs.field(repr=False)
    encrypted: bytes = attrs.field(repr=False)


class ICiphers(Interface):
    """[MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3: does what takes a secret, or arithmetic with one.

    Whatever goes wrong is a L{CipherError}; no error of a library gets out.
    """

    encryption_keys: MqdsPublicKeys = Attribute(
        "[MS-MQDMPR] 3.1.1.1 PublicEncryptionKeyList: what others encrypt for us with."
    )
    signing_keys: MqdsPublicKeys = Attribute("[MS-MQDMPR] 3.1.1.1 PublicSigningKeyList.")

    def open() -> None:
        """Make ready: take the keys that there are, and make and keep those that are missing.

        @raise CipherError: a key is damaged, or cannot be kept.
        """

    def make_session_key(
        algorithm: int, key_bits: int, padded_bits: int, public_key: PublicKeyBlob
    ) -> SessionKey:
        """[MS-MQQB] 3.1.7.1.5 a new key for a cipher, that only the owner of a public key can decrypt.

        @param key_bits: how many bits of it are by chance.
        @param padded_bits: how long it is with the zero bits behind these.
        @raise CipherError: the public key is invalid, or too short.
        """

    def recover_session_key(provider_name: str, encrypted: bytes) -> SessionKey:
        """[MS-MQQB] 3.1.5.8.3 the key in a SIMPLEBLOB that was encrypted for us.

        A key that was made for another, or was tampered with, may come out as a key by chance: so the body
        tells.

        @param provider_name: whose key of ours it was made for.
        @raise CipherError: it is no SIMPLEBLOB, or we have no key of this provider, or what comes out is no
            key of its cipher.
        """

    def encrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
        """The cipher text of a body: CBC with a zero IV and PKCS5 padding, or the stream of RC4.

        @raise CipherError: there is no such cipher, or the key does not fit it.
        """

    def decrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
        """The body of a cipher text.

        @raise CipherError: there is no such cipher, the key does not fit it, or the padding is wrong.
        """
