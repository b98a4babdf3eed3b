"""The public classes of flaws in readers of MSMQ: each ends in one error, in few steps and little memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.packets_json import packet_record
from msmq.errors import RemoteProtocolError
from msmq.moment import Moment
from msmq.session.effects import Closed, CloseReason, Effect, Transmit
from msmq.session.session import Session
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.packet.multi_queue_format_header import (
    MAXIMUM_ELEMENTS,
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
    end_of_text,
)
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView, measure_user_message
from msmq.structures.status import MQError
from msmq.wire.framer import StreamFramer
from msmq.wire.reader import Reader
from tests import hostile_packets
from tests.builders import ALPHA, BETA, establish, parameters
from tests.hostile_packets import HOSTILE, benign

LARGEST: Final = 4 * 1024 * 1024
SIZES: Final = (512, 1024, 4096, 65536, LARGEST)
STEPS: Final = 200_000
"""Lines of Python that judging one packet may take, whatever its size; a benign one takes fifty."""

GIVEN: Final = {
    "endless_name": "DirectFormatName",
    "name_beyond_the_end": "DirectFormatName",
    "label_beyond_the_end": "Label",
    "body_beyond_the_end": "MessageBody",
    "sizes_that_overflow": "ExtensionData",
    "headers_that_are_absent": "Flags",
    "security_beyond_the_end": "SenderCertSize",
    "provider_that_never_ends": "ProviderName",
    "provider_of_halves": "ProviderName",
    "count_that_overflows": "ElementCount",
    "list_of_nothing": "ElementCount",
    "list_beyond_the_end": "FormatNameList",
    "name_of_halves": "PacketSize",
    "envelope_that_overflows": "Header",
    "envelope_in_an_envelope": "Header",
    "envelope_that_ends_early": "Header",
    "more_than_there_may_be": "PacketSize",
    "rubbish": "VersionNumber",
}
"""The field that the error names; of some a small one is well formed, and some always are."""

FLOODS: Final = ("flood_of_acknowledgements", "flood_of_messages")
WELL_FORMED: Final = ("envelope_as_long_as_may_be", "list_as_long_as_may_be", *FLOODS)
WELL_FORMED_IF_SMALL: Final = ("list_of_nothing",)


def judge(data: bytes, chunk: int = 65536) -> RemoteProtocolError | None:
    """The error of a session for this data, in chunks; C{None} without one."""
    framer = StreamFramer(measure_user_message)
    for start in range(0, len(data), chunk):
        for packet, _ in framer.feed(data[start : start + chunk]):
            if not packet[2] & 0x08:
                try:
                    UserMessageView(packet)
                except RemoteProtocolError as error:
                    return error
        if framer.error is not None:
            return framer.error
    return None


def steps(call: Callable[[], object]) -> int:
    """How many lines of Python run, which no other work on the machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class HostilePacketTests(SynchronousTestCase):
    def test_each_has_one_error(self) -> None:
        """The error names the field at fault, for any chunks and sizes (MQQB-3.1.5.1.3-04)."""
        for name, make in HOSTILE.items():
            for size in SIZES:
                data = make(size)
                self.assertLessEqual(len(data), size)
                error = judge(data)
                if name in WELL_FORMED or (name in WELL_FORMED_IF_SMALL and size < 65536):
                    self.assertIsNone(error, (name, size))
                    continue
                assert error is not None, (name, size)
                self.assertEqual(error.field, GIVEN[name], (name, size, str(error)))
                if size < 65536:
                    for chunk in (1, 7, 100):
                        self.assertEqual(str(judge(data, chunk)), str(error), (name, size, chunk))

    def test_each_takes_few_steps(self) -> None:
        """However large it is; a list of a million names took ten million."""
        for name, make in HOSTILE.items():
            if name in FLOODS:
                continue
            data = make(LARGEST)
            self.assertLess(steps(lambda data=data: judge(data)), STEPS, name)  # type: ignore[misc]

    def test_each_takes_little_memory(self) -> None:
        """Memory is a small multiple of the packet's size, one copy of which is the packet itself."""
        for name, make in HOSTILE.items():
            data = make(LARGEST)
            tracemalloc.start()
            judge(data)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(most, 6 * LARGEST, name)

    def test_full_parsers_agree(self) -> None:
        """The values and C{msmq decode} raise the same error only, also for truncated packets and trailing
        bytes.
        """
        for name, make in HOSTILE.items():
            whole = make(2048)
            for data in (whole, whole[:1500], whole[:130], whole + b"rubbish" * 9):
                for read in (UserMessage.from_bytes, UserMessageView, lambda data: packet_record(data, 0)):
                    try:
                        read(data)
                    except RemoteProtocolError:
                        continue
                    self.assertIn(name, (*WELL_FORMED, *WELL_FORMED_IF_SMALL), read)

    def test_four_mebibytes_are_taken_and_no_more(self) -> None:
        """A packet of exactly the maximum size is a message; one byte more is malformed."""
        self.assertIsNone(judge(benign(LARGEST)))
        for more in (1, 2, 0x7FFFFFFF - LARGEST, 0xFFFFFFFF - LARGEST):
            data = benign(4096)
            data = data[:8] + (LARGEST + more).to_bytes(4, "little") + data[12:]
            framer = StreamFramer(measure_user_message)
            self.assertEqual(framer.feed(data[:16]), [])
            assert framer.error is not None
            self.assertIn("PacketSize", str(framer.error))

    def test_every_size_around_the_end_of_a_header(self) -> None:
        """A packet that ends anywhere within its headers, and says so, ends in an error."""
        whole = hostile_packets.packet(200, 0, hostile_packets.NAME, hostile_packets.properties(body=76))
        self.assertIsNone(judge(whole))
        for size in range(16, 200):
            cut = whole[:8] + size.to_bytes(4, "little") + whole[12:size]
            self.assertIsNotNone(judge(cut), size)


class ListTests(SynchronousTestCase):
    def test_a_list_has_an_end(self) -> None:
        """As many names as may be are read, and one more is refused before it is looked at."""
        names = [MQFDirectQueueFormatName("")] * MAXIMUM_ELEMENTS
        header = MultiQueueFormatHeader.of(names)
        self.assertEqual(MultiQueueFormatHeader.read(Reader(header.to_bytes())), header)
        data = b"\3\0\0\0" * (MAXIMUM_ELEMENTS + 1)
        head = MQFAddressHeader.LAYOUT.pack(12 + len(data), 0x64, 0, MAXIMUM_ELEMENTS + 1)
        error = self.assertRaises(RemoteProtocolError, MQFAddressHeader.read, Reader(head + data), 0x64)
        self.assertEqual((error.field, error.offset), ("ElementCount", 8))

    def test_the_end_of_a_text_is_where_a_character_is_nul(self) -> None:
        """Not where two zeros lie across two characters; many such pairs are passed at once."""
        halves = b"\1\0\0\1\1\0\0\1"
        for count in (0, 1, 7, 31, 32, 33, 1000):
            data = b"xx" + halves * count + b"\0\0" + b"behind it"
            end = 2 + len(halves) * count + 2
            self.assertEqual(end_of_text(data, 2, len(data)), end, count)
            self.assertEqual(end_of_text(data, 2, end - 1), -1, count)
        self.assertLess(steps(lambda: end_of_text(halves * (LARGEST // 8), 0, LARGEST)), 1000)


class NameTests(SynchronousTestCase):
    def test_long_names_take_few_steps(self) -> None:
        """A name of the greatest size is refused after as many characters as a name may have."""
        for text in (
            "OS:alpha\\" + "q" * 32_000,
            "OS:" + "a" * 32_000,
            "OS:alpha\\private$\\q;" + "s" * 32_000,
        ):
            self.assertLess(
                steps(lambda text=text: self.assertRaises(MQError, DirectFormatName.from_wire_text, text)),  # type: ignore[misc]
                2000,
            )


class FloodTests(SynchronousTestCase):
    """One session, opened by a peer."""

    def setUp(self) -> None:
        self.now = Moment(1000.0, 1_700_000_000.0)
        self.session = Session(BETA, SessionSettings(window_size=8), is_initiator=False)
        self.framer = StreamFramer(measure_user_message)
        self.effects: list[Effect] = list(self.session.accepted(self.now))
        self.feed(establish(ALPHA))
        self.feed(parameters())
        self.assertIs(self.session.state, SessionState.OPEN)
        self.effects.clear()

    def feed(self, data: bytes) -> None:
        frames = self.framer.feed(data)
        if frames:
            self.effects += self.session.receive(frames, self.now)

    def test_acknowledgements_without_messages(self) -> None:
        """Thirty thousand of them cause nothing, allocate nothing, and do no harm to the session."""
        flood = hostile_packets.flood_of_acknowledgements(64 * 1024)
        self.feed(flood)
        tracemalloc.start()
        for _ in range(16):
            self.feed(flood)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(held, 50_000)
        self.assertEqual([effect for effect in self.effects if isinstance(effect, Transmit | Closed)], [])
        self.assertIs(self.session.state, SessionState.OPEN)

    def test_acknowledgements_of_what_was_never_sent(self) -> None:
        """The first of a flood of them ends the session, and the others are not looked at."""
        flood = bytearray(hostile_packets.flood_of_acknowledgements(64 * 1024))
        for start in range(0, len(flood), 36):
            flood[start + 20 : start + 22] = b"\x39\x05"
        self.feed(bytes(flood))
        [closed] = [effect for effect in self.effects if isinstance(effect, Closed)]
        self.assertIs(self.session.state, SessionState.CLOSED)
        self.assertIsNot(closed.reason, CloseReason.STOPPED)
        self.effects.clear()
        self.feed(bytes(flood))
        self.assertEqual(self.effects, [])
