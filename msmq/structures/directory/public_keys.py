"""The public keys of a queue manager in the directory. [MS-MQMQ] 2.2.1 and 2.2.2."""

from __future__ import annotations

import enum
from typing import ClassVar, Final, Self

import attrs

from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer

BASE_PROVIDER: Final = "Microsoft Base Cryptographic Provider v1.0"
ENHANCED_PROVIDER: Final = "Microsoft Enhanced Cryptographic Provider v1.0"
AES_PROVIDER: Final = "Microsoft Enhanced RSA and AES Cryptographic Provider"


class ProviderType(enum.IntEnum):
    """The values of ulProviderType. [MS-MQMQ] 2.2.1."""

    PROV_RSA_FULL = 0x00000001
    PROV_RSA_AES = 0x00000018


@attrs.frozen
class MqdsPublicKey(WholeStructure):
    """MQDSPUBLICKEY: one key and its cryptographic provider. [MS-MQMQ] 2.2.1.

    @ivar provider_name: sProviderName without its NUL.
    @ivar provider_type: ulProviderType.
    @ivar key: aBuf.
    """

    NAME: ClassVar[str] = "MQDSPUBLICKEY"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.1"
    END_FIELD: ClassVar[str] = "ulKeyLen"

    provider_name: str
    provider_type: ProviderType
    key: PublicKeyBlob

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read one key."""
        with reader.header(cls.NAME, cls.SECTION):
            key_length, provider_length = reader.u32("ulKeyLen"), reader.u32("ulProviderLen")
            start = reader.position
            number = reader.u32("ulProviderType")
            rule = f"0x{number:08X} is neither PROV_RSA_FULL nor PROV_RSA_AES"
            provider_type = reader.member(ProviderType, number, "ulProviderType", rule, offset=start)
            provider_name = reader.utf16(provider_length, "sProviderName")
            with reader.confined(key_length, "ulKeyLen"):
                return cls(provider_name, provider_type, PublicKeyBlob.read(reader))

    def write(self, writer: Writer) -> None:
        """Write one key.

        @raise LocalProtocolError: the name holds a NUL, or a number does not fit its field.
        """
        key, name = Writer(), Writer()
        self.key.write(key)
        name.utf16(self.provider_name, "sProviderName")
        writer.u32(key.position, "ulKeyLen")
        writer.u32(name.position, "ulProviderLen")
        writer.u32(self.provider_type, "ulProviderType")
        writer.bytes(name.getvalue())
        writer.bytes(key.getvalue())


@attrs.frozen
class MqdsPublicKeys(WholeStructure):
    """MQDSPUBLICKEYS: all the keys of a queue manager, back to back. [MS-MQMQ] 2.2.2."""

    NAME: ClassVar[str] = "MQDSPUBLICKEYS"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.2"
    END_FIELD: ClassVar[str] = "ulLen"
    FIXED_SIZE: ClassVar[int] = 8

    keys: tuple[MqdsPublicKey, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read ulLen bytes, all of which belong to keys."""
        with reader.header(cls.NAME, cls.SECTION):
            start = reader.position
            length, count = reader.u32("ulLen"), reader.u32("cNumofKeys")
            if length < cls.FIXED_SIZE:
                raise reader.malformed("ulLen", f"{length} is less than {cls.FIXED_SIZE}", offset=start)
            with reader.confined(length - cls.FIXED_SIZE, "ulLen"):
                return cls(tuple(MqdsPublicKey.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        """Write the structure."""
        keys = Writer()
        for key in self.keys:
            key.write(keys)
        writer.u32(self.FIXED_SIZE + keys.position, "ulLen")
        writer.u32(len(self.keys), "cNumofKeys")
        writer.bytes(keys.getvalue())
