"""The type of decoded bodies: as given, or inferred from stored bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from msmq.errors import RemoteProtocolError
from msmq.pipeline.archive.plan import is_archive, plan_archive
from msmq.pipeline.bodies import reading
from msmq.pipeline.body_shapes import NULL, BodyShape
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.files import FileScan, are_files
from msmq.pipeline.reading.options import INFER, ReadOptions
from msmq.pipeline.reading.row_selection import RowSelection, wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.reading.streams import is_called
from msmq.pipeline.rows import PLAIN
from msmq.pipeline.schema import PACKET_COLUMN
from msmq.pipeline.stored_packets import StoredPacket
from msmq.structures.packet.user_message_view import UserMessageView

SAMPLE: Final = 1000
"""Maximum number of bodies from which a schema is inferred."""


def decoded_type(options: ReadOptions) -> str:
    """The type of C{decoded} as DDL text.

    @raise ReadingError: a schema is to be inferred, and there is no body to infer it from.
    """
    if options.decode_schema != INFER:
        return f"STRUCT<{options.decode_schema}>"
    shape = BodyShape.of(_sample(options))
    if not shape.kinds - {NULL}:
        raise ReadingError(
            f"decodeSchema is infer, but no body in {options.location} can be decoded as {options.decode}:"
            " give the fields, such as id BIGINT, customer STRING"
        )
    return shape.ddl()


def _sample(options: ReadOptions) -> Iterator[Any]:
    """The contents of the first bodies."""
    try:
        decode = reading(options.decode).decode
    except ValueError as error:
        raise ReadingError(str(error)) from None
    assert decode is not None
    count = 0
    for page in _pages(options):
        for stored in page:
            if count == SAMPLE:
                return
            count += 1
            try:
                text, _ = decode(UserMessageView(stored.packet))
            except RemoteProtocolError:
                continue
            if text is not None:
                yield json.loads(text).get("value")


def _pages(options: ReadOptions) -> Iterator[Sequence[StoredPacket]]:
    wanted = attrs.evolve(wanted_columns(("decoded",), options), since=options.since, until=options.until)
    if not options.dsn and is_archive(options.path):
        yield from _archived(options, wanted)
        return
    if are_files(options.location):
        files = FileScan(options, attrs.evolve(wanted, names=(PACKET_COLUMN.name,)), options.stream)
        for file in files.slices():
            yield from files.packets(file)
        return
    stream = options.stream or "queue"
    # What a stream follows is in the message logs, where a queue may have nothing on disk.
    for one in (stream, "log") if stream == "queue" else (stream,):
        scan = StoreScan(attrs.evolve(options, starting=None, ending=None, topics=()), wanted, one)
        for part in scan.slices():
            pages = scan.pages(part)
            yield from pages if not options.topics else _subscribed(pages, options.topics)


def _archived(options: ReadOptions, wanted: RowSelection) -> Iterator[Sequence[StoredPacket]]:
    # What reads Parquet is needed here alone.
    from msmq.pipeline.archive.scan import ArchiveScan

    stream, columns = options.stream or "log", (PACKET_COLUMN.name, "topic")
    options = attrs.evolve(options, starting=None, ending=None)
    scan = ArchiveScan(options, attrs.evolve(wanted, names=columns), stream, PLAIN, False)
    for part in plan_archive(options, scan.wanted, stream):
        for batch in scan.batches(part):
            packets, topics = (batch.column(name).to_pylist() for name in columns)
            yield [StoredPacket(packet, topic, 0) for packet, topic in zip(packets, topics, strict=True)]


def _subscribed(
    pages: Iterator[Sequence[StoredPacket]], names: Sequence[str]
) -> Iterator[Sequence[StoredPacket]]:
    for page in pages:
        yield [one for one in page if any(is_called(one.topic, name) for name in names)]
