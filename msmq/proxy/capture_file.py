"""Writer of captures in the format pcap, from the bytes that a proxy relays.

C{msmq decode}, Wireshark and tcpdump read them: each session is a TCP connection between the two queue
managers, in packets of IP that never existed, since a proxy sees streams.
"""

from __future__ import annotations

import errno
import os
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO, Final

import attrs
from dpkt import pcap
from dpkt.ip import IP, IP_PROTO_TCP
from dpkt.ip6 import IP6
from dpkt.tcp import TCP, TH_ACK, TH_FIN, TH_PUSH, TH_SYN

from msmq.errors import LocalProtocolError

LINKTYPE_RAW: Final = 101
"""Frames that begin with the header of IP, of the LINKTYPE_ list of tcpdump.org."""
LARGEST_SEGMENT: Final = 60_000
"""Bytes of a stream in one frame; a packet of IP has at most 65,535."""
LARGEST_CAPTURE: Final = 1 << 30
"""Default limit on the size of a capture."""

_FRAME_HEADER: Final = 16
_SEQUENCE_NUMBERS: Final = 1 << 32


@attrs.frozen
class CaptureAddress:
    """One end of a captured connection.

    @ivar host: an IP address.
    """

    host: str
    port: int


class CaptureFile:
    """A capture that is written while it goes on; after each call the file is complete.

    Nothing is written beyond the limit: the capture then ends, and C{omitted} counts the rest.

    @param path: the file; one that exists is replaced.
    @param limit: its largest size in bytes.
    @ivar omitted: bytes of streams that are not in the file because of the limit.
    @raise OSError: the file cannot be created.
    """

    def __init__(self, path: Path, limit: int = LARGEST_CAPTURE) -> None:
        if limit < 1:
            raise LocalProtocolError(f"CaptureFile: limit is {limit}; it has to be at least 1")
        self.path = path
        self.omitted = 0
        self._limit = limit
        self._file: BinaryIO = path.open("wb", buffering=0)
        self._writer = pcap.Writer(self._file, snaplen=65_535, linktype=LINKTYPE_RAW)

    def connection(
        self, initiator: CaptureAddress, acceptor: CaptureAddress, time: float
    ) -> CapturedConnection:
        """Begin a connection.

        @param time: seconds since 1970-01-01 UTC.
        """
        return CapturedConnection(self, initiator, acceptor, time)

    def write(self, frame: bytes, time: float) -> bool:
        """Write one frame; returns whether it is in the file.

        @raise OSError: the file cannot be written.
        """
        if self._file.closed:
            return False
        start = self._file.tell()
        end = start + _FRAME_HEADER + len(frame)
        if end > self._limit:
            return False
        self._writer.writepkt(frame, time)
        if self._file.tell() < end:
            # A disk that becomes full takes a part, without an error.
            self._file.truncate(start)
            self._file.seek(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CapturedConnection:
    """One TCP connection of a capture."""

    def __init__(
        self, capture: CaptureFile, initiator: CaptureAddress, acceptor: CaptureAddress, time: float
    ) -> None:
        self._capture = capture
        self._ends = (acceptor, initiator)
        # The next sequence number of the acceptor and of the initiator.
        self._next = [0, 0]
        self._write(True, TH_SYN, b"", time)
        self._next[True] = 1
        self._write(False, TH_SYN | TH_ACK, b"", time)
        self._next[False] = 1
        self._write(True, TH_ACK, b"", time)

    def sent(self, is_initiator: bool, data: bytes, time: float) -> None:
        """Record bytes that one end sent.

        @raise OSError: the file cannot be written.
        """
        for start in range(0, len(data), LARGEST_SEGMENT):
            piece = data[start : start + LARGEST_SEGMENT]
            if not self._write(is_initiator, TH_ACK | TH_PUSH, piece, time):
                self._capture.omitted += len(piece)
            # What is missing is seen by a reader as a gap in the sequence numbers.
            self._next[is_initiator] = (self._next[is_initiator] + len(piece)) % _SEQUENCE_NUMBERS

    def end(self, is_initiator: bool, time: float) -> None:
        """Record the end of the connection.

        @param is_initiator: which end closed it.
        @raise OSError: the file cannot be written.
        """
        for end in (is_initiator, not is_initiator):
            self._write(end, TH_FIN | TH_ACK, b"", time)
            self._next[end] = (self._next[end] + 1) % _SEQUENCE_NUMBERS

    def _write(self, is_initiator: bool, flags: int, data: bytes, time: float) -> bool:
        source, destination = self._ends[is_initiator], self._ends[not is_initiator]
        segment = TCP(
            sport=source.port,
            dport=destination.port,
            seq=self._next[is_initiator],
            ack=self._next[not is_initiator] if flags & TH_ACK else 0,
            flags=flags,
            win=65_535,
            data=data,
        )
        return self._capture.write(_packet(source.host, destination.host, segment), time)


def _packet(source: str, destination: str, segment: TCP) -> bytes:
    """A packet of IP; a scope of an IPv6 address is left out."""
    one, other = ip_address(source.partition("%")[0]), ip_address(destination.partition("%")[0])
    if one.version == 4 and other.version == 4:
        packet = IP(src=one.packed, dst=other.packed, p=IP_PROTO_TCP, data=segment)
        packet.len = len(packet)
        return bytes(packet)
    packet = IP6(src=_sixteen(one.packed), dst=_sixteen(other.packed), nxt=IP_PROTO_TCP, data=segment)
    packet.plen = len(segment)
    return bytes(packet)


def _sixteen(packed: bytes) -> bytes:
    """An address of IPv6; one of IPv4 is mapped."""
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed
