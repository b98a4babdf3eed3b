"""Pages of packets that are read by their places in a record log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy

from msmq.pipeline.packet_page import PacketPage
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import RowSpan
from msmq.storage.readers import StoreReader
from msmq.storage.readers.shape import HEAD, LARGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS: Final = 8192
"""Rows of a page."""
BYTES: Final = 8 * 1024 * 1024
"""Bytes of the packets of a page, if it has more than one."""

_PLACE: Final = [("location", "<u8"), ("size", "<u4"), ("checksum", "<u4"), ("arrived", "<f8")]
_LOG: Final = numpy.dtype([("offset", "<u8"), ("lookup_id", "<u8"), *_PLACE])
_MESSAGES: Final = numpy.dtype([("lookup_id", "<u8"), *_PLACE, ("aborts", "<u4"), ("moves", "<u4")])


def placed_pages(store: StoreReader, kind: str, span: RowSpan, wanted: RowSelection) -> Iterator[PacketPage]:
    """The packets of a span that has their places, page by page.

    @raise MomentGone: the server has reused the space of a packet of the next page.
    """
    is_log = kind == "log"
    rows = _selected(_rows(kind, span), wanted)
    sizes = rows["size"].astype(numpy.int64)
    if not wanted.bodies:
        sizes = numpy.where(sizes >= LARGE, HEAD, sizes)
    ends = numpy.cumsum(sizes)
    begin = 0
    while begin < len(rows):
        before = int(ends[begin - 1]) if begin else 0
        end = int(numpy.searchsorted(ends, before + BYTES, "right"))
        end = min(max(end, begin + 1), begin + ROWS)
        some = rows[begin:end]
        places = zip(some["location"].tolist(), some["size"].tolist(), some["checksum"].tolist(), strict=True)
        yield PacketPage(store.packets(list(places), wanted.bodies), span.topic, some, is_log=is_log)
        begin = end


def selected_rows(kind: str, span: RowSpan, wanted: RowSelection) -> tuple[int, int]:
    """How many rows a span has the places of, and how many of them arrived in the selected time."""
    rows = _rows(kind, span)
    return len(rows), len(_selected(rows, wanted))


def numbers_of(kind: str, span: RowSpan) -> NDArray[Any]:
    """The numbers of the rows whose places a span has."""
    return _rows(kind, span)["offset" if kind == "log" else "lookup_id"]


def _rows(kind: str, span: RowSpan) -> NDArray[Any]:
    return numpy.frombuffer(span.places, _LOG if kind == "log" else _MESSAGES)


def _selected(rows: NDArray[Any], wanted: RowSelection) -> NDArray[Any]:
    for bound, is_since in ((wanted.since, True), (wanted.until, False)):
        if bound is not None:
            rows = rows[rows["arrived"] >= bound if is_since else rows["arrived"] < bound]
    return rows
