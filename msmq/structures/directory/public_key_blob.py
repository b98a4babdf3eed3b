"""PUBLICKEYBLOB: an RSA public key in certificates, packets and the directory. [MS-MQQB] 2.4.1."""

from __future__ import annotations

import enum
from struct import Struct
from typing import ClassVar, Self

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


class KeyAlgorithm(enum.IntEnum):
    """Key Type: the purpose of an RSA key. [MS-MQMQ] 2.2.20.6."""

    SIGNATURE = 0x00002400
    KEY_EXCHANGE = 0x0000A400


@attrs.frozen
class PublicKeyBlob(WholeStructure):
    """PUBLICKEYBLOB; also BLOBHEADER and RSAPUBKEY of [MS-MQMQ] 2.2.1 aBuf. [MS-MQQB] 2.4.1.

    @ivar modulus: n.
    @ivar public_exponent: pubExp, 32 bits.
    @ivar bit_length: bitLen, the length of the modulus rounded up to whole bytes.
    @ivar algorithm: the purpose of the key.
    """

    NAME: ClassVar[str] = "PUBLICKEYBLOB"
    SECTION: ClassVar[str] = "[MS-MQQB] 2.4.1"
    END_FIELD: ClassVar[str] = "bitLen"
    LAYOUT: ClassVar[Struct] = Struct("<BBHIIII")
    TYPE: ClassVar[int] = 0x06
    VERSION: ClassVar[int] = 0x02
    MAGIC: ClassVar[int] = 0x31415352

    modulus: int = attrs.field(repr=False)
    public_exponent: int
    bit_length: int = attrs.field()
    algorithm: KeyAlgorithm = KeyAlgorithm.KEY_EXCHANGE

    @bit_length.default
    def _modulus_length(self) -> int:
        return -(-self.modulus.bit_length() // 8) * 8

    def __attrs_post_init__(self) -> None:
        if self.bit_length % 8:
            raise LocalProtocolError(f"bitLen: {self.bit_length} bits are not whole bytes")
        if not 0 <= self.modulus < 1 << self.bit_length:
            raise LocalProtocolError(f"modulus: does not fit {self.bit_length} bits")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the key, whose length is bitLen."""
        with reader.header(cls.NAME, cls.SECTION):
            start = reader.position
            kind, version, _, number, magic, bit_length, exponent = reader.unpack(cls.LAYOUT, "bType")
            if (kind, version) != (cls.TYPE, cls.VERSION):
                raise reader.malformed("bType", "does not begin with 06 02", offset=start)
            rule = f"0x{number:08X} is neither 0x0000A400 nor 0x00002400"
            algorithm = reader.member(KeyAlgorithm, number, "aiKeyAlg", rule, offset=start + 4)
            if magic != cls.MAGIC:
                raise reader.malformed("magic", "is not RSA1", offset=start + 8)
            if bit_length % 8:
                raise reader.malformed("bitLen", f"{bit_length} bits are not whole bytes", offset=start + 12)
            modulus = int.from_bytes(reader.view(bit_length // 8, "modulus"), "little")
            return cls(modulus, exponent, bit_length, algorithm)

    def write(self, writer: Writer) -> None:
        """Write the key.

        @raise LocalProtocolError: a number does not fit its field.
        """
        writer.bytes(bytes((self.TYPE, self.VERSION, 0, 0)))
        writer.u32(self.algorithm, "aiKeyAlg")
        writer.u32(self.MAGIC, "magic")
        writer.u32(self.bit_length, "bitLen")
        writer.u32(self.public_exponent, "pubExp")
        writer.bytes(self.modulus.to_bytes(self.bit_length // 8, "little"))
