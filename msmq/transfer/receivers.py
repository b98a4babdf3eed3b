"""Receivers of each sequence; acknowledgements are accepted only from these. Reading 54."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

import attrs

from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import FormatName, PrivateFormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.addresses import read_address
from msmq.wire.guid import NULL_GUID, guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

PREFIX: Final = "tx/receivers/"
"""Prefix of the names of stored receivers of a destination; a number follows."""

ANYWHERE: Final = ""
"""The address of a receiver that is identified only by its GUID."""

SEQUENCE_PREFIX: Final = "tx/arrived/"
"""Prefix of the names of stored receivers of a sequence with delivered messages; the sequence follows."""

_VERSION: Final = 1

_RECEIVE: Final = 0x4000
"""The bit of message classes about the receipt of a message from its queue."""

MOST_SEQUENCES: Final = 10_000
"""Limit on sequences with recorded receivers; the least recently sent are dropped first."""

MOST_DESTINATIONS: Final = 10_000
"""Limit on destinations with recorded receivers; the least recently used are dropped first."""

SWEPT: Final = 16
"""Limit on recorded sequences that one call checks for waiting messages."""

MOST_RECEIVERS: Final = 16
"""Limit on the stored receivers of one sequence: one, unless another replaced it at its address."""


class RedirectedNames(Protocol):
    """The direct names that an operator has redirected to another address."""

    @property
    def folded(self) -> Iterable[tuple[str, str]]:
        """The texts of these names, casefolded, each with the IP address or computer name to which it is
        redirected.
        """


def _normalized(address: str) -> str:
    """A normalized address: IPv4 may be mapped to IPv6."""
    found = read_address(address)
    return address if found is None else str(found)


@attrs.frozen
class Receiver:
    """A queue manager as a session shows it.

    @ivar identifier: the one that it states, or that the name of its queue contains.
    @ivar address: the address of the session; L{ANYWHERE} if only a queue manager is named.
    """

    identifier: UUID
    address: str = attrs.field(converter=_normalized)


class Receivers:
    """The queue managers to which sequences were sent (reading 54).

    A direct name contains an address and no identifier, so that is learned from sessions.
    Any other name, or the directory, identifies a queue manager without an address: its address is
    L{ANYWHERE}.
    The receivers of a destination are stored before a message is sent to it, and those of a sequence only
    with its messages that wait for FinalAcks; so a restart loses nothing.

    @param redirects: redirected names: earlier receivers of such a name are accepted at the new address, if
    the queue manager there states the same identifier.
    @param trusts: whether an identifier is trusted at any address.
    """

    def __init__(self, redirects: RedirectedNames, *, trusts: bool) -> None:
        self._redirects = redirects
        self._trusts = trusts
        # Of both, the least recently used one comes first.
        self._by_sequence: dict[int, dict[Receiver, None]] = {}
        self._by_destination: dict[str, dict[Receiver, None]] = {}
        self._names: dict[str, int] = {}
        self._next = 1
        # Whether the store has all receivers of a sequence that it has.
        self._arrived: dict[int, bool] = {}

    def load(self, state: Mapping[str, bytes], awaited: Container[int]) -> list[StateChange]:
        """Load the stored state; returns the removal of obsolete values.

        @param awaited: the sequences with messages that wait for FinalAcks.
        @raise StateError: a value is damaged.
        """
        for number, name, value in numbered(state, PREFIX):
            with reading(name, value, _VERSION) as reader:
                destination = reader.utf16(reader.u32("Size"), "Destination")
                self._by_destination[destination] = _read(reader)
            self._names[destination] = number
            self._next = number + 1
        stale: list[StateChange] = []
        for sequence, name, value in numbered(state, SEQUENCE_PREFIX):
            if sequence not in awaited:
                stale.append((name, None))
                continue
            with reading(name, value, _VERSION) as reader:
                self._by_sequence[sequence] = _read(reader)
            self._arrived[sequence] = True
        return stale

    def is_known(self, destination: str, candidates: Sequence[Receiver]) -> bool:
        """Whether this queue manager is stored as a receiver of this destination.

        @param candidates: that queue manager, at each of its possible addresses.
        """
        known = self._by_destination.get(destination, ())
        return all(receiver in known for receiver in candidates)

    def unknown(self, destination: str, candidates: Sequence[Receiver]) -> list[Receiver]:
        """Those of these that are not stored as receivers of a destination, for L{withdraw}."""
        known = self._by_destination.get(destination, ())
        return [receiver for receiver in candidates if receiver not in known]

    def has_any(self, destination: str) -> bool:
        """Whether a receiver of messages for this destination is stored."""
        return bool(self._by_destination.get(destination))

    def introduce(self, destination: str, candidates: Sequence[Receiver]) -> list[StateChange]:
        """Messages for this destination are about to be sent to this queue manager; returns the changes to
        store first.
        """
        receivers = self._by_destination.pop(destination, {})
        for receiver in candidates:
            _add(receivers, receiver)
        self._by_destination[destination] = receivers
        if destination not in self._names:
            self._names[destination] = self._next
            self._next += 1
        writer = Writer()
        writer.u8(_VERSION, "Version")
        _write_text(writer, destination)
        _write(writer, receivers)
        changes: list[StateChange] = [(f"{PREFIX}{self._names[destination]}", writer.getvalue())]
        if len(self._by_destination) > MOST_DESTINATIONS:
            oldest = next(iter(self._by_destination))
            del self._by_destination[oldest]
            changes.append((f"{PREFIX}{self._names.pop(oldest)}", None))
        return changes

    def withdraw(self, destination: str, candidates: Sequence[Receiver]) -> None:
        """The changes of L{introduce} could not be stored.

        @param candidates: those that were L{unknown} before.
        """
        for receiver in candidates:
            self._by_destination.get(destination, {}).pop(receiver, None)

    def sent(self, sequence: int, receiver: Receiver) -> None:
        """Messages of a sequence are sent to this queue manager."""
        receivers = self._by_sequence.pop(sequence, {})
        if receiver not in receivers and sequence in self._arrived:
            # As after a redirect: its further messages are at another queue manager, or address.
            self._arrived[sequence] = False
        _add(receivers, receiver)
        self._by_sequence[sequence] = receivers
        if len(self._by_sequence) > MOST_SEQUENCES:
            del self._by_sequence[next(iter(self._by_sequence))]

    def are_others(self, sequence: int, candidates: Iterable[Receiver]) -> bool:
        """Whether messages of a sequence were sent before, and none to one or more of these."""
        known = {receiver.identifier for receiver in self._by_sequence.get(sequence, ())}
        return bool(known) and any(receiver.identifier not in known for receiver in candidates)

    def arrived(self, sequences: Iterable[int], awaited: Container[int]) -> list[StateChange]:
        """Messages of these sequences are about to wait for FinalAcks; returns the changes to store with
        that.

        @param awaited: the sequences of which messages wait.
        """
        changes: list[StateChange] = []
        for sequence in {each for each in sequences if not self._arrived.get(each)}:
            receivers = self._by_sequence.get(sequence)
            if receivers is not None:
                writer = Writer()
                writer.u8(_VERSION, "Version")
                _write(writer, receivers)
                changes.append((f"{SEQUENCE_PREFIX}{sequence}", writer.getvalue()))
                self._arrived[sequence] = True
        if changes:
            # There may be a million, so each call examines only some; more than can have been added since.
            for sequence in list(islice(self._arrived, len(changes) + SWEPT)):
                is_complete = self._arrived.pop(sequence)
                if sequence in awaited:
                    self._arrived[sequence] = is_complete
                else:
                    changes.append((f"{SEQUENCE_PREFIX}{sequence}", None))
        return changes

    def may_acknowledge(self, sequence: int, destination: str | None, peer: Receiver) -> bool:
        """Whether a queue manager may acknowledge messages of a sequence.

        @param destination: their destination, if that is a known direct name; otherwise an unknown sequence
        may be acknowledged by any receiver of any other.
        """
        receivers = self._by_sequence.get(sequence)
        if receivers is None and destination is not None:
            receivers = self._by_destination.get(destination, {})
        if receivers is not None:
            return self._is_among(peer, receivers) or self._has_moved(peer, receivers)
        return any(self._is_among(peer, known) for known in self._by_destination.values())

    def is_recorded(self, sequence: int) -> bool:
        """Whether the receivers of a sequence are known."""
        return sequence in self._by_sequence

    def named(self, sequence: int) -> frozenset[UUID]:
        """The receivers of a sequence that are identified only by GUID."""
        known = self._by_sequence.get(sequence, ())
        return frozenset(receiver.identifier for receiver in known if receiver.address == ANYWHERE)

    def _is_among(self, peer: Receiver, receivers: Mapping[Receiver, None]) -> bool:
        if self._trusts:
            return any(peer.identifier == receiver.identifier for receiver in receivers)
        return peer in receivers

    def _has_moved(self, peer: Receiver, receivers: Iterable[Receiver]) -> bool:
        """Whether an operator has redirected a name of one of these receivers to where the peer is."""
        former = [receiver for receiver in receivers if receiver.identifier == peer.identifier]
        if not former:
            return False
        for name, host in self._redirects.folded:
            known = self._by_destination.get(name, {})
            if not any(each in known for each in former):
                continue
            # It may acknowledge what it got before, though no message is pending that would go there.
            if peer in known or peer.address == _normalized(host):
                return True
        return False


def direct_destination(name: FormatName) -> str | None:
    """A direct name as its receivers are recorded; C{None} for any other name."""
    return str(name).casefold() if isinstance(name, DirectFormatName) else None


def receivers_at(name: FormatName, peer: Receiver | None) -> Sequence[Receiver]:
    """The receiver of messages for a direct name, at each of its possible addresses.

    These are the address of the session and the address in the name: they differ if connections are
    redirected, with C{[hosts]} for example, while its own sessions come directly.

    @param peer: of the session on which the messages leave.
    """
    if peer is None or not isinstance(name, DirectFormatName):
        return ()
    if name.protocol is not DirectProtocol.TCP:
        return (peer,)
    named = Receiver(peer.identifier, name.address)
    return (peer,) if named == peer else (peer, named)


def is_introduction_due(name: FormatName, peer: Receiver | None, records: Receivers) -> bool:
    """Whether messages about which an acknowledgement of their receiver decides wait until it is stored.

    Reading 54; only a direct name leaves open which queue manager receives them.

    @param name: of their outgoing queue.
    @param peer: of the session on which the messages leave.
    """
    destination = direct_destination(name)
    return destination is not None and not records.is_known(destination, receivers_at(name, peer))


def may_be_acknowledged(name: FormatName, records: Receivers, *, has_messages: bool) -> bool:
    """Whether an acknowledgement may refer to a message of an outgoing queue that is being handed over.

    The receiver of a direct name is stored before the first message that waits for one is sent to it.

    @param name: of the queue.
    @param has_messages: the queue is not empty.
    """
    if not has_messages:
        return False
    destination = direct_destination(name)
    return destination is None or records.has_any(destination)


def named_owners(name: FormatName | None) -> frozenset[UUID]:
    """The queue manager that a name contains; none if it contains none."""
    return frozenset((name.queue_manager,)) if isinstance(name, PrivateFormatName) else frozenset()


def addressees(views: Iterable[UserMessageView | None]) -> list[UUID]:
    """The queue managers to which messages are addressed, as far as packets contain them."""
    found = {view.queue_manager_address for view in views if view is not None}
    return [guid_from_bytes(address) for address in found if address != NULL_GUID.bytes_le]


def receivers_of(
    name: FormatName, peer: Receiver | None, views: Iterable[UserMessageView | None]
) -> Sequence[Receiver]:
    """The receivers to record for messages of a sequence that are sent on a session.

    @param name: of their outgoing queue.
    @param peer: of the session.
    """
    if isinstance(name, DirectFormatName):
        return receivers_at(name, peer)
    return [Receiver(owner, ANYWHERE) for owner in named_owners(name) or addressees(views)]


def is_of_receiver(ack: OrderAck | FinalAck) -> bool:
    """Whether only the receiver can send this; a gate in between can report that a message did not arrive.

    [MS-MQQB] 3.1.5.8.2 for example, of one that has made too many hops.
    """
    return isinstance(ack, OrderAck) or bool(ack.message_class & _RECEIVE)


def _add(receivers: dict[Receiver, None], receiver: Receiver) -> None:
    receivers.pop(receiver, None)
    receivers[receiver] = None
    if len(receivers) > MOST_RECEIVERS:
        del receivers[next(iter(receivers))]


def _read(reader: Reader) -> dict[Receiver, None]:
    receivers: dict[Receiver, None] = {}
    for _ in range(reader.u32("Count")):
        identifier = reader.guid("Identifier")
        receivers[Receiver(identifier, reader.utf16(reader.u32("Size"), "Address"))] = None
    return receivers


def _write(writer: Writer, receivers: Mapping[Receiver, None]) -> None:
    writer.u32(len(receivers), "Count")
    for receiver in receivers:
        writer.guid(receiver.identifier)
        _write_text(writer, receiver.address)


def _write_text(writer: Writer, text: str) -> None:
    writer.u32(len(text.encode("utf-16-le", "surrogatepass")) + 2, "Size")
    writer.utf16(text, "Text")
