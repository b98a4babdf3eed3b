"""Packets that share what was read of the first one, compared with packets that are read one by one."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_rewrites import in_transaction
from msmq.structures.packet.user_message_view import UserMessageView, have_one_shape, views_of
from tests.builders import numbered_packet, user_packet
from tests.strategies import packet_of, user_messages, user_packets

FIELDS = set(PacketShape.__slots__) - {"before", "names", "rest"}


def answers(view: UserMessageView) -> dict[str, object]:
    """What a view says about its packet."""
    return {
        "packet": view.packet,
        "identity": view.identity,
        "body": bytes(view.body),
        "label": view.label,
        "sequence": (view.tx_sequence_id, view.tx_sequence_number, view.is_first, view.is_last),
        **{name: getattr(view.shape, name) for name in FIELDS},
    }


def together(packets: list[bytes]) -> list[dict[str, object]] | str:
    """The answers of views that were made together, or the error."""
    try:
        return [answers(view) for view in views_of(packets)]
    except RemoteProtocolError as error:
        return str(error)


def apart(packets: list[bytes]) -> list[dict[str, object]] | str:
    """The same of views that were made one by one."""
    try:
        return [answers(UserMessageView(packet)) for packet in packets]
    except RemoteProtocolError as error:
        return str(error)


class PacketShapeTests(SynchronousTestCase):
    """L{views_of}."""

    @given(user_packets(), st.data())
    def test_neighbours(self, packet: bytes, data: st.DataObject) -> None:
        """A packet that differs from the one before in some bytes is judged as if it were alone."""
        other = bytearray(packet)
        for _ in range(data.draw(st.integers(0, 3))):
            other[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
        packets = [packet, bytes(other), packet]
        self.assertEqual(together(packets), apart(packets))

    @given(st.lists(user_packets(), max_size=4), st.lists(st.integers(0, 3), max_size=8))
    def test_mixtures(self, some: list[bytes], order: list[int]) -> None:
        """Packets of several kinds, in any order, are read as if each were alone."""
        packets = [some[index] for index in order if index < len(some)]
        self.assertEqual(together(packets), apart(packets))

    @given(user_packets(), st.integers(-20, 20))
    def test_sizes(self, packet: bytes, change: int) -> None:
        """A packet that is longer or shorter than it says is refused also behind one that is not."""
        other = packet[:change] if change < 0 else packet + bytes(change)
        self.assertEqual(together([packet, other]), apart([packet, other]))

    def test_one_shape(self) -> None:
        """Messages of one sender to one queue share a shape, whatever their numbers and bodies."""
        packets = [numbered_packet(body, message_id=number) for number, body in enumerate((b"a", b"b", b"c"))]
        views = views_of(packets)
        self.assertTrue(have_one_shape(views))
        self.assertEqual([view.message_id for view in views], [0, 1, 2])
        [following] = views_of([numbered_packet(b"d", message_id=3)], views[0].shape)
        self.assertIs(following.shape, views[0].shape)

    def test_other_shapes(self) -> None:
        """Messages of another size, or with another label, do not share it."""
        for other in (user_packet(body=b"longer"), user_packet(body=b"a", label="another")):
            self.assertFalse(have_one_shape(views_of([user_packet(body=b"a", label="one"), other])))


class InTransactionTests(SynchronousTestCase):
    """L{in_transaction}."""

    @given(
        user_messages(has_session_header=False).filter(lambda message: message.transaction is not None),
        st.integers(1, 3),
        st.integers(1, 0xFFFFFF00),
        st.integers(0, 0xFFFFFFFFFFFFFFFF),
        st.integers(0, 0xFFFFF),
    )
    def test_places(
        self, message: UserMessage, count: int, first: int, sequence: int, transaction_id: int
    ) -> None:
        """Each message has its place in the sequence and the transaction, and all else stays."""
        view = UserMessageView(packet_of(message))
        placed = in_transaction([view] * count, sequence, first, transaction_id)
        for number, one in enumerate(placed, first):
            self.assertEqual(answers(one), answers(UserMessageView(one.packet)))
            assert message.transaction is not None
            expected = attrs.evolve(
                message.transaction,
                tx_sequence_id=TxSequenceID.from_value(sequence),
                tx_sequence_number=number,
                previous_tx_sequence_number=number - 1,
                is_first=number == first,
                is_last=number == first + count - 1,
                transaction_id=transaction_id,
            )
            self.assertEqual(one.parse(), attrs.evolve(message, transaction=expected))

    def test_other_messages(self) -> None:
        """A message that is not transactional is refused."""
        self.assertRaises(LocalProtocolError, in_transaction, [UserMessageView(user_packet())], 1, 1, 1)
