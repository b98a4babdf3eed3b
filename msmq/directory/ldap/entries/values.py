"""Syntaxes of LDAP attribute values: encoding and decoding. [MS-ADTS] 3.1.1.2.2.2."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError
from msmq.membership.enumerations import OperatingSystemType
from msmq.persistence.definition import LABEL_LENGTH, QueuePrivacy
from msmq.quoting import quoted
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.wire.guid import guid_from_bytes


@attrs.frozen
class Syntax:
    """The encoding of one kind of value.

    @ivar pack: encode to the values of an attribute; empty for no value.
    @ivar unpack: decode the values of an attribute, at least one; raises C{ValueError} for malformed ones.
    @ivar is_exact: whether equal values have equal encodings, so that the server can compare them.
    """

    pack: Callable[[Any], Sequence[bytes]]
    unpack: Callable[[Sequence[bytes]], Any]
    is_exact: bool = True


def pack_guid(guid: UUID) -> bytes:
    """Encode a GUID in the byte order of the document."""
    return guid.bytes_le


def unpack_guid(value: bytes) -> UUID:
    """Decode a GUID in the byte order of the document.

    @raise ValueError: the value does not have 16 bytes.
    """
    if len(value) != 16:
        raise ValueError(f"a GUID of {len(value)} bytes")
    return guid_from_bytes(value)


def unpack_time(value: bytes) -> int:
    """Decode a GeneralizedTime, always in UTC here, to seconds since 1970.

    @raise ValueError: the value is not a GeneralizedTime.
    """
    whole, _, _ = value.decode("ascii").rstrip("Z").partition(".")
    return int(datetime.strptime(whole, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())


def _pack_integer(value: int) -> Sequence[bytes]:
    # The syntax is signed: 0xFFFFFFFF (no limit) is written as -1.
    return (str(value - 2**32 if value >= 2**31 else value).encode(),)


def _unpack_unsigned(values: Sequence[bytes]) -> int:
    return int(values[0]) & 0xFFFFFFFF


def _unpack_signed(values: Sequence[bytes]) -> int:
    return int(values[0])


def _pack_boolean(value: bool) -> Sequence[bytes]:
    return (b"TRUE" if value else b"FALSE",)


def _unpack_boolean(values: Sequence[bytes]) -> bool:
    text = values[0].upper()
    if text not in (b"TRUE", b"FALSE"):
        raise ValueError(f"{quoted(text)} is neither TRUE nor FALSE")
    return text == b"TRUE"


def _pack_text(value: str | None) -> Sequence[bytes]:
    # LDAP does not store empty strings.
    return (value.encode(),) if value else ()


def _unpack_text(values: Sequence[bytes]) -> str:
    return values[0].decode()


def _unpack_label(values: Sequence[bytes]) -> str:
    text = values[0].decode()
    if len(text) > LABEL_LENGTH:
        raise ValueError(f"a label of {len(text)} characters")
    return text


def _pack_bytes(value: bytes) -> Sequence[bytes]:
    return (value,) if value else ()


def _unpack_bytes(values: Sequence[bytes]) -> bytes:
    return values[0]


def _pack_keys(value: MqdsPublicKeys) -> Sequence[bytes]:
    return (value.to_bytes(),) if value.keys else ()


def _unpack_keys(values: Sequence[bytes]) -> MqdsPublicKeys:
    try:
        return MqdsPublicKeys.from_bytes(values[0])
    except RemoteProtocolError as error:
        raise ValueError(str(error)) from error


def _pack_certificates(value: MqUserSignCerts) -> Sequence[bytes]:
    return (value.to_bytes(),) if value.certificates else ()


def _unpack_certificates(values: Sequence[bytes]) -> MqUserSignCerts:
    try:
        return MqUserSignCerts.from_bytes(values[0])
    except RemoteProtocolError as error:
        raise ValueError(str(error)) from error


def _unpack_digests(values: Sequence[bytes]) -> tuple[bytes, ...]:
    for value in values:
        if len(value) != MqUserSignCert.DIGEST_SIZE:
            raise ValueError(f"a digest of {len(value)} bytes")
    return tuple(values)


def enumeration(numbers: Mapping[enum.Enum, bytes], *, is_exact: bool = True) -> Syntax:
    """The syntax of an enumeration whose members are each written as one text or number."""
    by_text = {text: member for member, text in numbers.items()}

    def unpack(values: Sequence[bytes]) -> enum.Enum:
        member = by_text.get(values[0])
        if member is None:
            raise ValueError(f"{quoted(values[0])} is not one of {', '.join(map(quoted, by_text))}")
        return member

    return Syntax(lambda value: (numbers[value],), unpack, is_exact)


TEXT: Final = Syntax(_pack_text, _unpack_text)
LABEL: Final = Syntax(_pack_text, _unpack_label)
UNSIGNED: Final = Syntax(_pack_integer, _unpack_unsigned)
SIGNED: Final = Syntax(_pack_integer, _unpack_signed)
BOOLEAN: Final = Syntax(_pack_boolean, _unpack_boolean)
BYTES: Final = Syntax(_pack_bytes, _unpack_bytes)
OPAQUE: Final = attrs.evolve(BYTES, is_exact=False)
GUID: Final = Syntax(lambda value: (pack_guid(value),), lambda values: unpack_guid(values[0]))
GUIDS: Final = Syntax(
    lambda value: tuple(map(pack_guid, value)), lambda values: tuple(map(unpack_guid, values))
)
KEYS: Final = Syntax(_pack_keys, _unpack_keys, is_exact=False)
CERTIFICATES: Final = Syntax(_pack_certificates, _unpack_certificates, is_exact=False)
DIGESTS: Final = Syntax(tuple, _unpack_digests)
YES_OR_NO: Final = Syntax(
    lambda value: (b"Y" if value else b"N",), lambda values: values[0].upper() != b"N", is_exact=False
)
"""[MS-MQDSSM] 3.1.6.11.3.3."""
OLD_VERSION: Final = Syntax(
    lambda value: (b"3" if value else b"200",), lambda values: int(values[0]) == 3, is_exact=False
)
"""mSMQVersion. [MS-MQDSSM] 3.1.6.11.3."""
FLAG: Final = Syntax(
    lambda value: (b"1" if value else b"0",), lambda values: int(values[0]) == 1, is_exact=False
)
"""mSMQNt4Stub. [MS-MQDSSM] 3.1.6.11.4."""
OPERATING_SYSTEM: Final = enumeration(
    {
        OperatingSystemType.OTHER: b"0",
        OperatingSystemType.FOREIGN: b"256",
        OperatingSystemType.WIN95: b"512",
        OperatingSystemType.WIN_CLIENT: b"768",
        OperatingSystemType.WIN_SERVER: b"1024",
        OperatingSystemType.WIN_ENT: b"1280",
    }
)
"""[MS-MQDSSM] 3.1.6.1.1.4."""
PRIVACY: Final = enumeration({QueuePrivacy.NONE: b"0", QueuePrivacy.OPTIONAL: b"1", QueuePrivacy.BODY: b"2"})
"""[MS-MQDSSM] 3.1.6.1.2.4."""
