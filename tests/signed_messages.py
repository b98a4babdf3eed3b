"""Messages with every field that a signature may cover, and what a signature is made over, field by field.

Written from the byte layouts and lists of the documents, with nothing of the package in it.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import attrs

from tests.builders import ALPHA, NULL, base_header, with_security

CONNECTOR = UUID("c0000000-0000-4000-8000-00000000000c")


def _name(text: str) -> bytes:
    encoded = (text + "\0").encode("utf-16-le")
    return struct.pack("<H", len(encoded)) + encoded


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


@attrs.frozen(kw_only=True)
class Fields:
    """One message; direct names only.

    @ivar destinations: what a MultiQueueFormatHeader lists; without any there is none.
    """

    correlation_id: bytes = bytes(range(20))
    application_tag: int = 0x12345678
    body: bytes = b"the body"
    label: str = "label"
    response: str = "OS:alpha\\private$\\answers"
    admin: str = "OS:alpha\\private$\\admin"
    extension: bytes = b"ext"
    source: UUID = ALPHA
    recoverable: bool = True
    priority: int = 5
    journal: bool = False
    dead_letter: bool = True
    acknowledge: int = 0x05
    message_class: int = 0
    body_type: int = 8
    connector: UUID | None = CONNECTOR
    destination: str = "TCP:127.0.0.3\\private$\\plain"
    destinations: tuple[str, ...] = ()
    time_to_reach_queue: int = 0xFFFFFFFF
    time_to_be_received: int = 0xFFFFFFFF
    sent_time: int = 0
    message_id: int = 1
    allocation: int = 0

    @property
    def _list(self) -> bytes:
        found = b""
        for text in self.destinations:
            found += struct.pack("<H", 3) + (text + "\0").encode("utf-16-le")
        return found

    @property
    def _label(self) -> bytes:
        return (self.label + "\0").encode("utf-16-le") if self.label else b""

    def packet(self, multi_queue_signature: bytes = b"") -> bytes:
        """The packet without a SecurityHeader."""
        flags = 0x00200000 | self.recoverable << 5 | self.dead_letter << 8 | self.journal << 9 | 7 << 10
        names = _padded(_name(self.destination))
        if self.admin:
            flags |= 7 << 13
            names += _padded(_name(self.admin))
        if self.response:
            flags |= 7 << 16
            names += _padded(_name(self.response))
        if self.connector is not None:
            flags |= 0x00400000
            names += self.connector.bytes_le
        behind = b""
        if self.destinations:
            flags |= 0x00800000
            behind = _padded(
                struct.pack("<IHHI", 12 + len(self._list), 0x64, 0, len(self.destinations)) + self._list
            )
            behind += struct.pack("<IHHI", 12, 0xC8, 0, 0) + struct.pack("<IHHI", 12, 0x12C, 0, 0)
            behind += _padded(
                struct.pack("<HHI", 0x15E, 0, len(multi_queue_signature)) + multi_queue_signature
            )
        user = self.source.bytes_le + NULL.bytes_le
        user += struct.pack("<IIII", self.time_to_be_received, self.sent_time, self.message_id, flags)
        properties = struct.pack("<BBH", self.acknowledge, len(self._label) // 2, self.message_class)
        properties += self.correlation_id
        properties += struct.pack(
            "<IIIIIIII",
            self.body_type,
            self.application_tag,
            len(self.body),
            self.allocation or len(self.body),
            0,
            0x800E,
            0x6610,
            len(self.extension),
        )
        properties += self._label + self.extension + self.body
        rest = user + names + _padded(properties) + behind
        return base_header(self.priority, 16 + len(rest), self.time_to_reach_queue) + rest

    def signed_over(self, level: int) -> bytes:
        """[MS-MQMQ] 2.5: what a signature of Flags.AS 1, 3 or 5 is made over."""
        found = self.correlation_id + struct.pack("<I", self.application_tag) + self.body + self._label
        found += _name(self.response) if self.response else b""
        found += _name(self.admin) if self.admin else b""
        if level == 1:
            return found
        if level == 5:
            found += self.extension + self._list
        found += self.source.bytes_le
        found += struct.pack("<B", self.recoverable)
        found += struct.pack("<B", self.priority)
        found += struct.pack("<B", self.journal << 1 | self.dead_letter)
        found += struct.pack("<B", self.acknowledge & 0x0F)
        found += struct.pack("<H", self.message_class)
        found += struct.pack("<I", self.body_type)
        found += (self.connector or NULL).bytes_le
        if level == 3:
            found += _name(self.destination)
        return found

    def with_security(self, security_id: bytes, signature: bytes, certificate: bytes, **kwargs: Any) -> bytes:
        """The packet with its SecurityHeader; of a message to several queues the signature is behind it."""
        multi_queue = signature if self.destinations else b""
        return with_security(
            self.packet(multi_queue),
            security_id,
            signature=b"" if self.destinations else signature,
            certificate=certificate,
            **kwargs,
        )


CHANGES: dict[str, object] = {
    "correlation_id": bytes(range(1, 21)),
    "application_tag": 0x12345679,
    "body": b"The body",
    "label": "labels",
    "response": "OS:alpha\\private$\\answer",
    "admin": "OS:alphb\\private$\\admin",
    "source": UUID("a1fa0000-0000-4000-8000-000000000009"),
    "recoverable": False,
    "priority": 4,
    "journal": True,
    "dead_letter": False,
    "acknowledge": 0x04,
    "message_class": 0xE000,
    "body_type": 9,
    "connector": None,
    "destination": "TCP:127.0.0.3\\private$\\PLAIN",
    "extension": b"EXT",
    "time_to_reach_queue": 1000,
    "time_to_be_received": 1000,
    "sent_time": 1,
    "message_id": 77,
    "allocation": 99,
}
"""Another value of each field, one at a time."""

_OF_EACH = {"correlation_id", "application_tag", "body", "label", "response", "admin"}
_OF_LATER = {
    "source",
    "recoverable",
    "priority",
    "journal",
    "dead_letter",
    "acknowledge",
    "message_class",
    "body_type",
    "connector",
}

COVERED: dict[int, set[str]] = {
    1: _OF_EACH,
    3: _OF_EACH | _OF_LATER | {"destination"},
    5: _OF_EACH | _OF_LATER | {"extension", "destinations"},
}
"""[MS-MQMQ] 2.5.1 to 2.5.3: the fields that the signatures of Flags.AS 1, 3 and 5 cover."""
