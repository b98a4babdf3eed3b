"""Structures that are stored in a directory, and those of applications' interfaces."""

from __future__ import annotations

from typing import Final

from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKey, MqdsPublicKeys
from msmq.structures.directory.simple_blob import SimpleBlob
from msmq.structures.directory.user_sign_certs import MqUserSignCerts
from msmq.structures.identifiers import (
    DistributionListIdentifier,
    MulticastIdentifier,
    ObjectIdentifier,
    SequenceInfo,
    XactUow,
)
from msmq.structures.prop_variant import PropVariant
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid, parse_sid
from tests.fuzz.finding import accepted, expect
from tests.structures.names.queue_format import QueueFormat
from tests.structures.names.ta_address import TaAddress

KINDS: Final = (
    MqdsPublicKeys,
    MqUserSignCerts,
    MqdsPublicKey,
    PublicKeyBlob,
    SimpleBlob,
    TaAddress,
    PropVariant,
    QueueFormat,
    ObjectIdentifier,
    SequenceInfo,
    XactUow,
    DistributionListIdentifier,
    MulticastIdentifier,
)


def directory(data: bytes) -> None:
    """Accepted values round-trip; the first byte selects the structure."""
    if not data:
        return
    if data[0] == 255:
        try:
            text = format_sid(data[1:])
        except ValueError:
            return
        expect(parse_sid(text) == data[1:], "a SID comes back")
        return
    kind = KINDS[data[0] % len(KINDS)]
    value = accepted(lambda rest: kind.read(Reader(rest)), data[1:])
    if value is None:
        return
    expect(kind.read(Reader(value.to_bytes())) == value, f"{kind.__name__} comes back")
    repr(value)
