"""Reads from a trace when data was on the disk, and which answers were sent before.

In SQLite, a transaction is on the disk once an C{fdatasync} of the log has ended that began after its last
frame was written; in a record log, once the synchronised write of its group has ended.
Messages are distinguished by marks in their bodies, which are found again in the pages or groups of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct

import attrs

from msmq.storage.log.core.format import FIRST
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.wire.framer import StreamFramer
from tests.faults.tracing import Call

TRACED = "pwrite64,pwritev2,fdatasync,fsync,sendto,sendmsg,writev,write,recvfrom,recvmsg,read"

CONFIRM = re.compile(rb'{"confirm":(\d+)}')
"""What says that the messages of a receipt may be removed; L{CONFIRMED} says that they are."""

CONFIRMED = re.compile(rb'{"confirmed":(\d+),')

ACCEPTED = re.compile(rb'"first":"(\{[^"\\]*\})\\\\([0-9]+)","messages":([0-9]+)')
"""What the server answers for messages that it has accepted: the first identifier, and their number."""

_FRAME_HEADER = Struct(">II8s8s")
_SEGMENT = re.compile(r"/segment-\d+$")
_MARK = re.compile(rb"<mark \d{6}>")
_SENDING = frozenset({"sendto", "sendmsg", "writev", "write"})
_RECEIVING = frozenset({"recvfrom", "recvmsg", "read"})
_NEVER = 1 << 62


def mark(number: int) -> str:
    """The text in the body of a message by which it is found in the trace."""
    return f"<mark {number:06d}>"


@attrs.define
class Disk:
    """Data written to the disk, and the time of its sync.

    @ivar since: by mark, the end of the syncing call.
    @ivar commits: of every transaction, when the last of it was written, and the end of the call that
        saw to its being on the disk.
    """

    since: dict[str, int] = attrs.field(factory=dict)
    commits: list[tuple[int, int]] = attrs.field(factory=list)

    @classmethod
    def of(cls, calls: Iterable[Call]) -> Disk:
        """Follow the log through a trace."""
        disk = cls()
        is_last = False
        under_way: dict[str, None] = {}
        written: list[tuple[int, list[str]]] = []
        for call in calls:
            if call.name == "pwritev2" and _SEGMENT.search(call.file):
                disk.group_written(call)
            if not call.file.endswith("msmq.sqlite-wal"):
                continue
            if call.name == "pwrite64" and call.last_number > 0:
                data = call.data
                if len(data) == _FRAME_HEADER.size:
                    # The size of the database stands only in the header of a transaction's last frame.
                    is_last = _FRAME_HEADER.unpack(data)[1] > 0
                    continue
                under_way.update(dict.fromkeys(found.decode() for found in _MARK.findall(data)))
                if is_last:
                    written.append((call.ended, list(under_way)))
                    under_way.clear()
            elif call.name in ("fdatasync", "fsync") and call.result == 0:
                for transaction in [one for one in written if one[0] < call.began]:
                    written.remove(transaction)
                    disk.commits.append((transaction[0], call.ended))
                    for found in transaction[1]:
                        disk.since.setdefault(found, call.ended)
        return disk

    def group_written(self, call: Call) -> None:
        """A write to a segment of a record log has ended."""
        offset, flags = call.arguments.rsplit(",", 2)[1:]
        if call.result is None or call.result < 0 or "RWF_DSYNC" not in flags or int(offset) < FIRST:
            return
        self.commits.append((call.began, call.ended))
        for found in _MARK.findall(call.data):
            self.since.setdefault(found.decode(), call.ended)

    def kept(self, text: str) -> int:
        """When a mark came on the disk."""
        return self.since.get(text, _NEVER)

    def committed_within(self, began: int, ended: int) -> bool:
        """Whether a transaction was finished, and came on the disk, between two moments."""
        return any(began < written and synced < ended for written, synced in self.commits)


def answered_identifiers(data: bytes) -> Iterator[str]:
    """The identifiers that the server answers in some bytes, of one message or of several in sequence."""
    for stem, number, count in ACCEPTED.findall(data):
        for following in range(int(count)):
            yield f"{stem.decode()}\\{int(number) + following}"


def early_answers(calls: Sequence[Call], identifiers: Mapping[str, str]) -> list[str]:
    """The answers on the control socket before their transaction was on disk.

    @param identifiers: by mark, the identifier that was answered for it.
    """
    disk = Disk.of(calls)
    faults: list[str] = []
    answered: dict[str, int] = {}
    asked: dict[tuple[str, bytes], int] = {}
    confirmed = 0
    for call in calls:
        if "control.sock" not in call.file:
            continue
        data = call.data
        if call.name in _RECEIVING:
            asked |= {(call.file, receipt): call.ended for receipt in CONFIRM.findall(data)}
        elif call.name in _SENDING:
            for identifier in answered_identifiers(data):
                answered.setdefault(identifier, call.began)
            for receipt in CONFIRMED.findall(data):
                confirmed += 1
                if not disk.committed_within(asked[call.file, receipt], call.began):
                    faults.append(f"receipt {receipt.decode()} was confirmed before anything was on the disk")
    for text, identifier in identifiers.items():
        if identifier not in answered:
            faults.append(f"the answer for {text} is not in the trace")
        elif disk.kept(text) > answered[identifier]:
            faults.append(f"{text} was answered before it was on the disk")
    if not confirmed:
        faults.append("nothing was confirmed")
    return faults


def early_acknowledgements(calls: Sequence[Call], marks: Sequence[str]) -> list[str]:
    """Which messages were acknowledged in a session before they were on the disk.

    @param marks: of its recoverable messages, in their order; fewer than 65,536.
    """
    disk = Disk.of(calls)
    faults: list[str] = []
    framer = StreamFramer(measure_user_message)
    acknowledged: set[int] = set()
    for call in calls:
        if call.name not in _SENDING or not call.file.startswith("TCP"):
            continue
        for packet, attached in framer.feed(call.data):
            for number in _acknowledged(packet, attached):
                acknowledged.add(number)
                if disk.kept(marks[number - 1]) > call.began:
                    faults.append(f"{marks[number - 1]} was acknowledged before it was on the disk")
    if len(acknowledged) < len(marks):
        faults.append(f"{len(acknowledged)} of {len(marks)} messages were acknowledged")
    return faults


def _acknowledged(packet: bytes, attached: bytes | None) -> Iterator[int]:
    if attached is not None:
        header = SessionHeader.from_bytes(attached)
    elif (acknowledgement := SessionAck.of(packet)) is not None:
        header = acknowledgement.session_header
    else:
        return
    for bit in range(32):
        if header.recoverable_msg_ack_flags >> bit & 1:
            yield header.recoverable_msg_ack_seq_number + bit
