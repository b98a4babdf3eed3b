"""Vectorized decoding of packets into columns, with numpy.

Most packets are alike: no signature, no headers after the body, and no stored trailer.
Their field offsets are known after two steps, so that one numpy operation reads a field of all of them;
common texts, such as queue names, are decoded once.
All other packets, damaged ones included, are left to L{msmq.pipeline.rows}, which reads any packet with the
same result.
"""

from __future__ import annotations

import re
import struct
from codecs import utf_16_le_decode
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy
import pyarrow
import pyarrow.compute

from msmq.decoding.message_json import acknowledge_names, queue_text
from msmq.decoding.values import base64_text, correlation_text, plain_text
from msmq.errors import RemoteProtocolError
from msmq.pipeline.packet_page import PacketPage
from msmq.pipeline.stored_packets import LATEST, StoredPacket, signed, text
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.packet.user_message_walk import NAMES, SIZE_OF_NAME, Unusual, after_other_names
from msmq.wire.guid import braced, format_guid, guid_from_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]

_FIXED: Final = 72
"""Bytes of a packet that are examined first: the minimum size of a message."""
_PROPERTIES: Final = 56
_TRANSACTION: Final = 36
_LARGEST: Final = 0x00400000
_OTHER_NAMES: Final = 0x0047E000
_COMPARED: Final = 8
"""Queue names for which all packets of a page are compared at once; others are looked up one by one."""

_CONTROL: Final = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters of ASCII that no text has, as L{msmq.decoding.values.plain_text} knows them."""

_STRING: Final = pyarrow.string()
_STRINGS: Final = pyarrow.list_(_STRING)

Names = tuple[str | None, str | None, str | None]


class Columns:
    """Columns of the uniform packets of a page.

    @ivar rows: indexes of these packets in the page.
    @ivar packets: these packets.
    """

    def __init__(self, stored: Sequence[StoredPacket]) -> None:
        self._page = stored if isinstance(stored, PacketPage) else None
        packets = [one.packet for one in stored] if self._page is None else self._page.packets
        sizes = numpy.fromiter(map(len, packets), numpy.int64, len(packets))
        self._data = numpy.frombuffer(b"".join((*packets, bytes(_FIXED + _PROPERTIES))), numpy.uint8)
        starts = numpy.cumsum(sizes) - sizes
        fixed = self._at(starts, _FIXED)
        flags, count = _u32(fixed, 60), _u16(fixed, 64)
        kind = flags >> 10 & 7
        is_plain = (
            (sizes >= _FIXED)
            & (sizes <= _LARGEST)
            & (fixed[:, 0] == 0x10)
            & (_u32(fixed, 4) == 0x524F494C)
            & (_u32(fixed, 8) == sizes)
            # IN, SH, DH, TR; MP, DM, SH, MQ, HH; RC.
            & (_u16(fixed, 2) & 0x0138 == 0)
            & (flags & 0x10A80040 == 0x00200000)
            & (flags & 0x1F <= 0x1D)
            & ((flags & 0x00100000 == 0) | (flags & 0x20 != 0))
            & (((kind == 7) & (count & 1 == 0)) | (kind == 0) | (kind == 3) | (kind == 5))
        )
        ends = numpy.where(kind == 7, 66 + count + 3 & ~3, NAMES + numpy.array((*SIZE_OF_NAME, 0))[kind])
        for row in numpy.flatnonzero(is_plain & (flags & _OTHER_NAMES != 0)):
            try:
                ends[row] = after_other_names(packets[row], int(ends[row]), int(flags[row]))
            except (Unusual, struct.error, IndexError):
                is_plain[row] = False
        is_plain &= ends + _PROPERTIES <= sizes
        ends = numpy.where(is_plain, ends, 0)
        transaction = self._at(starts + ends, _TRANSACTION)
        is_transactional = flags & 0x00100000 != 0
        is_plain &= ~is_transactional | (_u32(transaction, 12) != 0)
        offsets = ends + numpy.where(is_transactional, numpy.where(transaction[:, 0] & 1, 36, 20), 0)
        is_plain &= offsets + _PROPERTIES <= sizes
        offsets = numpy.where(is_plain, offsets, 0)
        properties = self._at(starts + offsets, _PROPERTIES)
        labels = properties[:, 1].astype(numpy.int64)
        extensions, bodies = _u32(properties, 52), _u32(properties, 32)
        is_plain &= (offsets + _PROPERTIES + 2 * labels + extensions + bodies + 3 & ~3) == sizes
        is_plain &= labels <= 250
        label_places = offsets + _PROPERTIES
        rows = numpy.flatnonzero(is_plain)
        queues, variants = self._queue_names(packets, rows, starts, ends)
        texts, is_text = self._label_texts(packets, rows, starts, label_places, labels)
        is_kept = is_text & numpy.array([names is not None for names in queues], numpy.bool_)[variants]
        self.rows: Numbers = rows[is_kept]
        self._queues, self._variants = queues, variants[is_kept]
        self._labels = texts if is_kept.all() else texts.filter(pyarrow.array(is_kept))
        self._stored = stored
        self._is_whole = len(self.rows) == len(stored)
        self.packets = packets if self._is_whole else [packets[row] for row in self.rows.tolist()]
        self._fixed, self._transaction, self._properties = (
            part[self.rows] for part in (fixed, transaction, properties)
        )
        self._flags = flags[self.rows]
        self._body_sizes, self._extension_sizes = bodies[self.rows], extensions[self.rows]
        self._extensions = (label_places + 2 * labels)[self.rows]

    def array(self, name: str, type_: pyarrow.DataType) -> pyarrow.Array | None:
        """A column of these packets; C{None} if it can be read only packet by packet."""
        made = _COLUMNS.get(name)
        if made is None:
            return None
        found = made(self)
        return found if isinstance(found, pyarrow.Array) and found.type == type_ else _typed(found, type_)

    @cached_property
    def stored_packets(self) -> list[StoredPacket]:
        """These packets, with what the store knows of them."""
        return [self._stored[row] for row in self.rows.tolist()]

    def _of_page(self, page: PacketPage, name: str, type_: pyarrow.DataType) -> pyarrow.Array | None:
        """A column from the store; C{None} for another one."""
        take = self.rows
        match name:
            case "timestamp" | "arrived_time":
                return _times(page.arrived[take])
            case "lookup_id":
                return pyarrow.array(page.lookup_ids[take].view(numpy.int64))
            case "offset":
                return pyarrow.array(page.offsets[take].astype(numpy.int64))
            case "topic":
                return self.constant(page.topic, type_)
            case "partition" | "timestampType":
                return self.constant(int(name == "timestampType"), type_)
            case "abort_count" | "move_count":
                counts = page.aborts if name == "abort_count" else page.moves
                if counts is None:
                    return pyarrow.nulls(len(take), type_)
                return pyarrow.array(counts[take].astype(numpy.int64), type_)
            case "packet":
                return pyarrow.array(self.packets, type_)
        return pyarrow.nulls(len(take), type_)

    def stored(self, name: str, type_: pyarrow.DataType) -> pyarrow.Array | list[Any]:
        """A column from the store, or null."""
        if self._page is not None:
            return self._of_page(self._page, name, type_)
        packets = self.stored_packets
        match name:
            case "timestamp":
                return _times([one.arrived for one in packets])
            case "arrived_time":
                return _times([one.arrived if one.timestamp_type else None for one in packets])
            case "lookup_id":
                numbers = [one.lookup_id for one in packets]
                if None in numbers:
                    return [None if number is None else signed(number) for number in numbers]
                return pyarrow.array(numpy.array(numbers, numpy.uint64).view(numpy.int64))
        take = _STORED.get(name)
        if take is None:
            return pyarrow.nulls(len(packets), type_)
        return [take(one) for one in packets]

    def _at(self, offsets: Numbers, size: int) -> Numbers:
        """This number of bytes at each of these offsets."""
        # One element of a view for each offset, of which numpy copies this many bytes at once.
        elements = numpy.ndarray(
            (len(self._data) - size + 1,), f"V{size}", buffer=self._data, strides=self._data.strides
        )
        found = elements[numpy.minimum(offsets, len(elements) - 1)]
        return found.view(numpy.uint8).reshape(len(found), size)

    def _queue_names(
        self, packets: Sequence[bytes], rows: Numbers, starts: Numbers, ends: Numbers
    ) -> tuple[list[Names | None], Numbers]:
        """The queue names that occur, C{None} for inconsistent fields, and which of them each row has."""
        found: list[Names | None] = []
        variants = numpy.zeros(len(rows), numpy.int64)
        left = numpy.arange(len(rows))
        # Most packets of a queue have the same names.
        while len(left) and len(found) < _COMPARED:
            first = rows[left[0]]
            end = int(ends[first])
            same = left[ends[rows[left]] == end]
            places = starts[rows[same]]
            whole = numpy.concatenate((self._at(places + 16, 32), self._at(places + 60, end - 60)), axis=1)
            same = same[(whole == whole[0]).all(axis=1)]
            variants[same] = len(found)
            found.append(_names_of(packets[first]))
            left = numpy.setdiff1d(left, same, assume_unique=True)
        known: dict[bytes, int] = {}
        for place in left.tolist():
            row = rows[place]
            packet = packets[row]
            key = packet[16:48] + packet[60 : ends[row]]
            number = known.get(key)
            if number is None:
                number = known[key] = len(found)
                found.append(_names_of(packet))
            variants[place] = number
        return found, variants

    def _label_texts(
        self, packets: Sequence[bytes], rows: Numbers, starts: Numbers, places: Numbers, lengths: Numbers
    ) -> tuple[pyarrow.Array, Numbers]:
        """The labels of these rows, and which of them need no other parser.

        Labels of ASCII are read at once, others one by one.
        """
        begins, counts = (starts + places)[rows], lengths[rows]
        total = int(counts.sum())
        firsts = numpy.cumsum(counts) - counts
        inside = numpy.arange(total) - numpy.repeat(firsts, counts)
        low_places = numpy.repeat(begins, counts) + 2 * inside
        low, high = self._data[low_places], self._data[low_places + 1]
        is_last = inside == numpy.repeat(counts, counts) - 1
        is_wrong = (high != 0) | (low >= 0x80) | ((low == 0) != is_last)
        wrong = numpy.concatenate(([0], numpy.cumsum(is_wrong)))
        is_ascii = wrong[firsts + counts] == wrong[firsts]
        shown = numpy.where(is_ascii & (counts > 0), counts - 1, 0)
        kept = low[~is_last & numpy.repeat(is_ascii, counts)]
        offsets = numpy.concatenate(([0], numpy.cumsum(shown))).astype(numpy.int32)
        buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(kept)]
        texts = pyarrow.Array.from_buffers(_STRING, len(rows), buffers)
        others = numpy.flatnonzero(~is_ascii)
        is_text = numpy.ones(len(rows), numpy.bool_)
        if len(others):
            values = [
                _label(packets[rows[place]], int(places[rows[place]]), int(counts[place])) for place in others
            ]
            is_text[others] = [value is not None for value in values]
            order = numpy.arange(len(rows))
            order[others] = len(rows) + numpy.arange(len(others))
            texts = pyarrow.concat_arrays([texts, pyarrow.array(values, _STRING)]).take(pyarrow.array(order))
        return texts, is_text

    def guids(self, show: Callable[[Any], str]) -> pyarrow.Array:
        """SourceQueueManager as text."""
        return self._of_unique(self._fixed[:, 16:32], lambda found: show(guid_from_bytes(found)))

    def identifiers(self) -> pyarrow.Array:
        """C{id}."""
        numbers = pyarrow.array(_u32(self._fixed, 56)).cast(pyarrow.string())
        return pyarrow.compute.binary_join_element_wise(self.guids(braced), numbers, "\\")

    def correlations(self) -> pyarrow.Array:
        """C{correlation_id}."""
        return self._of_unique(self._properties[:, 4:24], correlation_text)

    def acknowledgements(self) -> pyarrow.Array:
        """C{acknowledge}."""
        return self._of_unique(
            self._properties[:, :1], lambda found: acknowledge_names(found[0] & 0x0F), _STRINGS
        )

    def classes(self) -> pyarrow.Array:
        """C{class_name}."""
        return self._of_unique(
            self._properties[:, 2:4],
            lambda found: class_name(int.from_bytes(found, "little")),
            pyarrow.string(),
        )

    def transactions(self) -> pyarrow.Array:
        """C{transaction}."""
        found = self._transaction
        fields: dict[str, Any] = {
            "sequence_id": _u64(found, 4).view(numpy.int64),
            "sequence_number": _u32(found, 12),
            "previous": _u32(found, 16),
            "first": found[:, 0] & 0x04 != 0,
            "last": found[:, 0] & 0x08 != 0,
        }
        arrays = [pyarrow.array(column) for column in fields.values()]
        return pyarrow.StructArray.from_arrays(
            arrays, list(fields), mask=pyarrow.array(self._flags & 0x00100000 == 0)
        )

    def limits(self, offset: int) -> pyarrow.Array:
        """C{time_to_reach_queue} or C{time_to_be_received}."""
        found = _u32(self._fixed, offset)
        return pyarrow.array(found, pyarrow.int64(), mask=found == INFINITE)

    @cached_property
    def bodies(self) -> list[bytes]:
        """The bodies."""
        begins = self._extensions + self._extension_sizes
        ends = (begins + self._body_sizes).tolist()
        return [
            packet[begin:end] for packet, begin, end in zip(self.packets, begins.tolist(), ends, strict=True)
        ]

    @cached_property
    def _is_text(self) -> list[bool]:
        """Which bodies are shown as text."""
        search = _CONTROL.search
        return [
            search(body) is None if body.isascii() else plain_text(body) is not None for body in self.bodies
        ]

    def body_texts(self) -> pyarrow.Array:
        """C{body}."""
        if all(self._is_text):
            return pyarrow.array(self.bodies, pyarrow.binary()).cast(_STRING)
        shown = [body if is_text else None for body, is_text in zip(self.bodies, self._is_text, strict=True)]
        return pyarrow.array(shown, pyarrow.binary()).cast(_STRING)

    def body_base64(self) -> pyarrow.Array | list[str | None]:
        """C{body_base64}."""
        if all(self._is_text):
            return pyarrow.nulls(len(self.bodies), _STRING)
        return [
            None if is_text else base64_text(body)
            for body, is_text in zip(self.bodies, self._is_text, strict=True)
        ]

    def extensions(self) -> pyarrow.Array | list[str]:
        """C{extension_base64}."""
        if not self._extension_sizes.any():
            return self.constant("", _STRING)
        ends = (self._extensions + self._extension_sizes).tolist()
        return [
            base64_text(packet[begin:end])
            for packet, begin, end in zip(self.packets, self._extensions.tolist(), ends, strict=True)
        ]

    def queue(self, offset: int) -> pyarrow.Array:
        """The names of a queue."""
        names = [None if each is None else each[offset] for each in self._queues]
        if len(names) == 1:
            return self.constant(names[0], _STRING)
        return pyarrow.array(names, _STRING).take(pyarrow.array(self._variants))

    @property
    def labels(self) -> pyarrow.Array:
        """The labels."""
        return self._labels

    def flag(self, mask: int) -> Numbers:
        """A flag of UserHeader."""
        found: Numbers = self._flags & mask != 0
        return found

    def property_number(self, offset: int) -> Numbers:
        """A number of MessagePropertiesHeader."""
        return _u32(self._properties, offset)

    def base_flags(self) -> Numbers:
        """BaseHeader.Flags."""
        return _u16(self._fixed, 2)

    def constant(self, value: object, type_: pyarrow.DataType) -> pyarrow.Array:
        """A column with one value for all rows."""
        return pyarrow.repeat(pyarrow.scalar(value, type_), len(self.packets))

    def _of_unique(
        self, found: Numbers, show: Callable[[bytes], Any], type_: pyarrow.DataType = _STRING
    ) -> pyarrow.Array:
        """Convert repeated byte strings, each distinct one once."""
        width = found.shape[1]
        whole = numpy.ascontiguousarray(found).view(numpy.dtype((numpy.void, width))).ravel()
        if len(whole) and (found == found[0]).all():
            return pyarrow.repeat(pyarrow.scalar(show(bytes(whole[0])), type_), len(whole))
        unique, offsets = numpy.unique(whole, return_inverse=True)
        shown = pyarrow.array([show(bytes(one)) for one in unique], type_)
        return shown.take(pyarrow.array(offsets.ravel()))


def _names_of(packet: bytes) -> Names | None:
    """Queue names of a packet; C{None} if its fields are inconsistent."""
    try:
        user = UserMessageView(packet).user_header
    except RemoteProtocolError:
        return None
    destination, admin, response = (
        None if name is None else text(name)
        for name in (
            queue_text(user.destination_queue, user.resolve_destination),
            queue_text(user.admin_queue, user.resolve_admin_queue),
            queue_text(user.response_queue, user.resolve_response_queue),
        )
    )
    return destination, admin, response


def _typed(found: Any, type_: pyarrow.DataType) -> pyarrow.Array:
    return found.cast(type_) if isinstance(found, pyarrow.Array) else pyarrow.array(found, type_)


def _u16(found: Numbers, offset: int) -> Numbers:
    return numpy.ascontiguousarray(found[:, offset : offset + 2]).view("<u2").ravel().astype(numpy.int64)


def _u32(found: Numbers, offset: int) -> Numbers:
    return numpy.ascontiguousarray(found[:, offset : offset + 4]).view("<u4").ravel().astype(numpy.int64)


def _u64(found: Numbers, offset: int) -> Numbers:
    return numpy.ascontiguousarray(found[:, offset : offset + 8]).view("<u8").ravel()


def _times(seconds: Sequence[float | None] | Numbers) -> pyarrow.Array:
    """Times in microseconds; null if out of range for a date."""
    if isinstance(seconds, numpy.ndarray):
        found = seconds * 1_000_000
    else:
        found = numpy.array([numpy.nan if time is None else time for time in seconds]) * 1_000_000
    is_known = (found >= 0) & (found < LATEST)
    numbers = numpy.rint(numpy.where(is_known, found, 0)).astype(numpy.int64)
    return pyarrow.array(numbers, mask=~is_known).cast(pyarrow.timestamp("us", tz="UTC"))


def _label(packet: bytes, begin: int, length: int) -> str | None:
    """The label without its NUL; C{None} if it needs the general parser."""
    if not length:
        return ""
    try:
        found, _ = utf_16_le_decode(packet[begin : begin + 2 * length])
    except UnicodeDecodeError:
        return None
    return found[:-1] if found.find("\0") == len(found) - 1 else None


_STORED: Final[dict[str, Callable[[StoredPacket], Any]]] = {
    "topic": lambda one: one.topic,
    "partition": lambda one: one.partition,
    "offset": lambda one: one.offset,
    "timestampType": lambda one: one.timestamp_type,
    "abort_count": lambda one: one.aborts,
    "move_count": lambda one: one.moves,
    "packet": lambda one: one.packet,
}
"""The columns from the store, except times and LookupIdentifier."""

_COLUMNS: Final[dict[str, Callable[[Columns], Any]]] = {
    "value": lambda columns: columns.bodies,
    "body": Columns.body_texts,
    "body_base64": Columns.body_base64,
    "id": Columns.identifiers,
    "label": lambda columns: columns.labels,
    "body_size": lambda columns: columns.property_number(32),
    "body_type": lambda columns: columns.property_number(24),
    "priority": lambda columns: columns.base_flags() & 7,
    "class": lambda columns: columns.property_number(0) >> 16,
    "class_name": Columns.classes,
    "delivery": lambda columns: pyarrow.compute.if_else(
        pyarrow.array(columns.flag(0x20)), "recoverable", "express"
    ),
    "transactional": lambda columns: columns.flag(0x00100000),
    "sent_time": lambda columns: _u32(columns._fixed, 52) * 1_000_000,
    "source_queue_manager": lambda columns: columns.guids(format_guid),
    "destination_queue": lambda columns: columns.queue(0),
    "admin_queue": lambda columns: columns.queue(1),
    "response_queue": lambda columns: columns.queue(2),
    "correlation_id": Columns.correlations,
    "application_tag": lambda columns: columns.property_number(28),
    "hops": lambda columns: columns._flags & 0x1F,
    "journal": lambda columns: columns.flag(0x0200),
    "dead_letter": lambda columns: columns.flag(0x0100),
    "dead_letter_queue": lambda columns: columns.constant(None, _STRING),
    "acknowledge": Columns.acknowledgements,
    "extension_base64": Columns.extensions,
    "authenticated": lambda columns: columns.constant(False, pyarrow.bool_()),
    "sender_id": lambda columns: columns.constant(None, _STRING),
    "transaction": Columns.transactions,
    "time_to_reach_queue": lambda columns: columns.limits(12),
    "time_to_be_received": lambda columns: columns.limits(48),
}
"""The columns from packets."""
