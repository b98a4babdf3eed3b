"""SIMPLEBLOB: the encrypted session key of an encrypted body. [MS-MQQB] 2.4.2."""

from __future__ import annotations

import enum
from struct import Struct
from typing import ClassVar, Self

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.directory.public_key_blob import KeyAlgorithm
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


class SessionKeyAlgorithm(enum.IntEnum):
    """sessionKeyAlgorithm, the ciphers for a body. [MS-MQQB] 2.4.2."""

    RC2 = 0x6602
    RC4 = 0x6801
    AES_128 = 0x660E
    AES_192 = 0x660F
    AES_256 = 0x6610


@attrs.frozen
class SimpleBlob(WholeStructure):
    """SIMPLEBLOB, the content of [MS-MQMQ] 2.2.20.6 EncryptionKey. [MS-MQQB] 2.4.2.

    It has no length field: the encrypted key extends to the end, and is as long as the modulus of the
    receiver's RSA key.

    @ivar algorithm: the cipher that the session key is for.
    @ivar encrypted_key: the session key under RSAES-PKCS1-v1_5, most significant byte first, as RSA
        implementations have it; on the wire the bytes are reversed.
    """

    NAME: ClassVar[str] = "SIMPLEBLOB"
    SECTION: ClassVar[str] = "[MS-MQQB] 2.4.2"
    END_FIELD: ClassVar[str] = "encryptedKey"
    LAYOUT: ClassVar[Struct] = Struct("<BBHII")
    TYPE: ClassVar[int] = 0x01
    VERSION: ClassVar[int] = 0x02

    algorithm: SessionKeyAlgorithm
    encrypted_key: bytes = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.encrypted_key:
            raise LocalProtocolError("encryptedKey: is missing")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read up to the end, or to the innermost confined length of the reader."""
        with reader.header(cls.NAME, cls.SECTION):
            start = reader.position
            kind, version, _, number, exchange = reader.unpack(cls.LAYOUT, "bType")
            if (kind, version) != (cls.TYPE, cls.VERSION):
                raise reader.malformed("bType", "does not begin with 01 02", offset=start)
            rule = f"0x{number:08X} is not a cipher for a body"
            algorithm = reader.member(
                SessionKeyAlgorithm, number, "sessionKeyAlgorithm", rule, offset=start + 4
            )
            if exchange != KeyAlgorithm.KEY_EXCHANGE:
                raise reader.malformed("keyExchangeAlgorithm", "is not 0x0000A400", offset=start + 8)
            if not reader.remaining:
                raise reader.malformed("encryptedKey", "is missing")
            return cls(algorithm, reader.bytes(reader.remaining, "encryptedKey")[::-1])

    def write(self, writer: Writer) -> None:
        """Write the key."""
        writer.bytes(bytes((self.TYPE, self.VERSION, 0, 0)))
        writer.u32(self.algorithm, "sessionKeyAlgorithm")
        writer.u32(KeyAlgorithm.KEY_EXCHANGE, "keyExchangeAlgorithm")
        writer.bytes(self.encrypted_key[::-1])
