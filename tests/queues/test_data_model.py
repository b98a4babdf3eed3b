"""[MS-MQDMPR] 2 and 3.1.1: identifiers as they are kept and sent, and the hosts of direct names."""

from __future__ import annotations

import struct
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from tests.queues.simulation import Alpha
from tests.vectors import vector

FRAME = vector("mqqb-4.1.7-user-message")
SOURCE, FLAGS, SENDER = slice(16, 32), slice(60, 64), slice(108, 136)
RECOVERABLE = 0x20


def guid_layout(guid: UUID) -> bytes:
    """[MS-DTYP] 2.3.4: three numbers, the least byte first, and eight bytes as they are."""
    return struct.pack("<IHH", *guid.fields[:3]) + guid.bytes[8:]


def sid_layout(authorities: tuple[int, ...]) -> bytes:
    """[MS-DTYP] 2.4.2: revision, count, the authority from its greatest byte on, the rest from the least."""
    return bytes([1, len(authorities)]) + (5).to_bytes(6, "big") + struct.pack("<5I", *authorities)


class IdentifierTests(SynchronousTestCase):
    """[MS-MQDMPR] 2: GUIDs and SIDs."""

    @given(st.uuids(), st.uuids(), st.tuples(*[st.integers(0, 0xFFFFFFFF)] * 5))
    def test_they_survive(self, guid: UUID, kind: UUID, authorities: tuple[int, ...]) -> None:
        """In a packet and in the store each is what it was, in the layout of its document.

        MQDMPR-2-01.
        """
        packet = bytearray(FRAME)
        (flags,) = struct.unpack("<I", packet[FLAGS])
        packet[FLAGS] = struct.pack("<I", flags | RECOVERABLE)
        packet[SOURCE] = guid_layout(guid)
        packet[SENDER] = sid_layout(authorities)
        alpha = Alpha()
        own = alpha.create(application_type=kind)
        alpha.put(own, UserMessageView(bytes(packet)))
        again = alpha.restart()
        queue = again.find(".\\private$\\orders")
        self.assertEqual(queue.definition.identifier, own.definition.identifier)
        self.assertEqual(queue.definition.application_type, kind)
        view = again.view(queue.peek(1)[0])
        self.assertEqual(view.identifier.queue_manager, guid)
        self.assertEqual(view.sender_id, "S-1-5-" + "-".join(map(str, authorities)))
        self.assertEqual(view.packet, bytes(packet))


class NumberTests(SynchronousTestCase):
    """[MS-MQMQ] 2.2.18.1.5.1: the numbers of private queues."""

    def test_they_are_unique(self) -> None:
        """A hundred queues have a hundred numbers, and have them after a restart.

        MQMQ-2.2.18.1.5.1-02.
        """
        alpha = Alpha()
        numbers = [alpha.create(f"q{each}").definition.number for each in range(100)]
        self.assertEqual(len(set(numbers)), 100)
        again = alpha.restart()
        self.assertEqual([queue.definition.number for queue in again.model.queues()], numbers)
        self.assertNotIn(again.create("more").definition.number, numbers)


class HostTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.5: the host of a direct name."""

    def test_what_is_the_host(self) -> None:
        """Of a URL the host without port and path; otherwise the part before the first backslash.

        MQDMPR-3.1.7.1.5-15.
        """
        alpha = Alpha()
        for text, host in (
            ("DIRECT=HTTP://h/msmq/q", "h"),
            ("DIRECT=HTTPS://h.example.com:8443/msmq/private$/q", "h.example.com"),
            ("DIRECT=TCP:1.2.3.4\\q", "1.2.3.4"),
            ("DIRECT=OS:h.example.com\\private$\\q", "h.example.com"),
        ):
            with self.subTest(text=text):
                destination = alpha.model.outgoing(parse_format_name(text), alpha.now).destination
                self.assertEqual(getattr(destination, "address", None), host)
