"""Cost of parsing hostile packets, compared with a benign packet of the same size.

Each comes in pieces of 64 KiB, as from a socket, is cut from the stream and judged, until it is taken or
refused.
Times are of the processor, so that other work on the machine changes little.
"""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.user_message_view import UserMessageView, measure_user_message
from msmq.wire.framer import StreamFramer
from rig.measuring import Result, compare

SIZES = {"1 KiB": 1024, "64 KiB": 64 * 1024, "4 MiB": 4 * 1024 * 1024}
PIECE = 64 * 1024
ROUNDS = 5


def measure(rounds: int = ROUNDS) -> list[Result]:
    """For each kind and size the time of one packet; and of each size the one that takes most memory.

    A flood is many packets: its time is compared with that of a benign packet of their total size.
    """
    # The packets are those of the tests, which are next to this directory and are not installed.
    from tests.hostile_packets import HOSTILE, benign

    results = []
    for text, size in SIZES.items():
        baseline = benign(size)
        packets = {name.replace("_", " "): make(size) for name, make in HOSTILE.items()}
        for name, packet in packets.items():
            pairs = [(_microseconds(packet), _microseconds(baseline)) for _ in range(rounds)]
            results.append(compare(f"{text}: {name}", pairs, "us"))
        memory = {name: _peak(packet) for name, packet in packets.items()}
        worst = max(memory, key=lambda name: memory[name])
        results.append(compare(f"{text}: memory, {worst}", [(memory[worst], _peak(baseline))], "bytes"))
    return results


def _judge(data: bytes) -> None:
    framer = StreamFramer(measure_user_message)
    try:
        for start in range(0, len(data), PIECE):
            for packet, _ in framer.feed(data[start : start + PIECE]):
                if not packet[2] & 0x08:
                    UserMessageView(packet)
            if framer.error is not None:
                return
    except RemoteProtocolError:
        return


def _microseconds(data: bytes) -> float:
    """Processor time of one call, measured over at least twenty milliseconds."""
    judge = partial(_judge, data)
    times = 1
    while True:
        started = time.process_time()
        for _ in range(times):
            judge()
        spent = time.process_time() - started
        if spent >= 0.02:
            return spent / times * 1e6
        times *= 4


def _peak(data: bytes) -> float:
    """The most bytes that judging it holds at one time."""
    tracemalloc.start()
    _judge(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(most)
