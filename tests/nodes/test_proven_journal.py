"""[queues] journal_on = "acknowledgement": the journal holds what was proven to arrive, or to be received."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.manager.peers import source_journal
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.persistence.changes import Change
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.transfer.awaiting_acknowledgements import AFTER_START
from msmq.transfer.source_journaling import SourceJournaling
from msmq.wire.addresses import AddressSet, parse_network
from tests.builders import ALPHA, GAMMA, base_header
from tests.nodes.scripted import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    Heard,
    Peer,
    ScriptedTestCase,
)
from tests.nodes.support import Node
from tests.nodes.test_routing import EnterpriseTestCase

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"
STRANGER = UUID("57a40000-0000-4000-8000-000000000009")
ARRIVED, RECEIVED, REFUSED, PURGED = 0x0002, 0x4000, 0x8003, 0xC001
UNKNOWN, UNREAD = 0x8002, 0xC002
WAIT = 100.0
ARRIVAL = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL
RECEIPT = Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
ON: dict[str, Any] = {"source_journaling": SourceJournaling.ACKNOWLEDGEMENT}

_NUMBERS = itertools.count(5000)


def admin_ack(
    message: Heard,
    message_class: int = ARRIVED,
    *,
    source: UUID = GAMMA,
    owner: UUID = GAMMA,
    admin: str | int = "TCP:127.0.0.2\\private$\\admin",
) -> bytes:
    """[MS-MQQB] 3.1.7.15 an administration acknowledgement of a received message, from the byte layouts
    alone.
    """
    name = message.destination
    if isinstance(name, str):
        kind, about = 7, _direct(name)
    else:
        kind, about = 6, owner.bytes_le + struct.pack("<I", name)
    flags = 0x00200000 | (message.user_flags & 0x20) | kind << 16
    if isinstance(admin, str):
        address, to = bytes(16), _direct(admin)
        flags |= 7 << 10
    else:
        address, to = ALPHA.bytes_le, struct.pack("<I", admin)
        flags |= 3 << 10
    user = source.bytes_le + address + struct.pack("<IIII", 0xFFFFFFFF, 6, next(_NUMBERS), flags)
    user += to + about
    properties = struct.pack("<BBH", 0, 0, message_class) + message.source.bytes_le
    properties += struct.pack("<I", message.message_id)
    properties += struct.pack("<IIIIIIII", 0, 0, 0, 0, 0, 0, 0, 0)
    return base_header(3, 16 + len(user) + len(properties)) + user + properties


def _direct(text: str) -> bytes:
    encoded = (text + "\0").encode("utf-16-le")
    name = struct.pack("<H", len(encoded)) + encoded
    return name + b"\0" * (-len(name) % 4)


class CutStore(MemoryMessageStore):
    """A disk that a crash cuts off after some commits.

    @ivar left: how many commits it still does; C{None} for any number.
    @ivar done: how many it has done.
    @ivar is_slow: commits wait for L{finish}.
    """

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.left: int | None = None
        self.done = 0
        self.is_slow = False
        self._pending: list[tuple[Sequence[Change], Deferred[None]]] = []

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        if self.left == 0 or self.is_slow:
            waiting: Deferred[None] = Deferred()
            self._pending.append((changes, waiting))
            return waiting
        if self.left is not None:
            self.left -= 1
        self.done += 1
        return super().commit(changes)

    def finish(self) -> None:
        """Do what waits."""
        self.is_slow = False
        pending, self._pending = self._pending, []
        for changes, waiting in pending:
            self.commit(changes).chainDeferred(waiting)

    def names(self) -> list[str]:
        """The values of journal copies that wait."""
        return [name for name in self._contents.snapshot().state if name.startswith("source/")]


class ProvenTestCase(ScriptedTestCase):
    """ALPHA journals on acknowledgement; its administration queue is its own."""

    settings = SessionSettings(acknowledgement_wait=WAIT)
    options = ON

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if identifier == ALPHA:
            kwargs.setdefault("options", self.options)
            kwargs.setdefault("store", CutStore())
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.alpha, "admin")

    def ask(self, name: str, *bodies: bytes, acknowledge: Acknowledge = ARRIVAL, **kwargs: Any) -> None:
        """Send messages that ask for a journal copy and for acknowledgements."""
        kwargs = {"journal": True, "admin_queue": ADMIN, "delivery": Delivery.RECOVERABLE, **kwargs}
        self.send(self.alpha, name, *bodies, acknowledge=acknowledge, **kwargs)
        self.clock.advance(1)

    def kept(self, path: str) -> list[tuple[bytes, int]]:
        """The copies in a system queue of ALPHA, received permanently: bodies and classes."""
        return [(bytes(view.body), view.message_class) for view in self.take(self.alpha, path)]

    @property
    def journal(self) -> list[bytes]:
        """The bodies of the copies in the journal of ALPHA, received permanently."""
        return [body for body, _ in self.kept(JOURNAL)]

    @property
    def unproven(self) -> int:
        """How many messages ALPHA keeps aside."""
        return self.alpha.model.collection.unproven.message_count

    def reasons(self) -> list[tuple[str, str]]:
        """The events of ALPHA about messages: words and reasons."""
        events = self.successResultOf(self.alpha.store.read_events(0, 1000))
        return [(each.event.event, each.event.reason) for each in events if each.event.identity]

    def verify_nothing_left(self) -> None:
        """No message waits, and after a minute the store holds no value about any."""
        self.clock.advance(61)
        assert isinstance(self.alpha.store, CutStore)
        self.assertEqual((self.unproven, self.waiting(self.alpha), self.alpha.store.names()), (0, 0, []))


class TwoServersTests(ProvenTestCase):
    """ALPHA sends to BETA, which acknowledges at its own pace."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.beta)
        self.queue(self.beta, "ordered", transactional=True)

    def test_half_is_refused(self) -> None:
        """Of twenty messages of which the receiver refuses ten the journal holds ten, and ten have failed."""
        for delivery in (Delivery.RECOVERABLE, Delivery.EXPRESS):
            for number in range(10):
                self.ask(TO_BETA, b"%d" % number, delivery=delivery)
                name = TO_BETA.replace("orders", "ordered")
                self.ask(name, b"refused", delivery=delivery, dead_letter=number < 3)
            self.clock.advance(5)
            self.assertEqual(self.journal, [b"%d" % number for number in range(10)])
            self.assertEqual(self.kept(DEADLETTER), [(b"refused", 0x800A)] * 3)
            self.verify_nothing_left()
        nack = "acknowledgement MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG"
        kept, lost = ("failed", f"{nack}; kept as a dead letter"), ("failed", nack)
        self.assertEqual(self.reasons(), ([kept] * 3 + [lost] * 7) * 2)

    def test_receipt(self) -> None:
        """A sender that asks for the acknowledgement of receipt gets the copy on receipt, and not on
        arrival.
        """
        self.ask(TO_BETA, b"read", b"purged", acknowledge=RECEIPT | ARRIVAL, dead_letter=True)
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([], 2))
        self.run_to_end(self.beta.service.receive(".\\private$\\orders", timeout=0))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([b"read"], 1))
        self.run_to_end(self.beta.service.purge_queue(".\\private$\\orders"))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"purged", PURGED)]))
        self.verify_nothing_left()

    def test_no_answer(self) -> None:
        """Without an answer a message is not journaled: it is a dead letter, if it asked for one.

        A missing queue draws no negative acknowledgement by default; the event says that nothing is proven.
        """
        name = TO_BETA.replace("orders", "missing")
        self.ask(name, b"kept", b"gone", time_to_reach_queue=50)
        self.ask(name, b"letter", time_to_reach_queue=50, dead_letter=True)
        self.clock.advance(50 + WAIT - 4)
        self.assertEqual((self.unproven, self.reasons()), (3, []))
        self.clock.advance(10)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"letter", UNKNOWN)]))
        why = "no acknowledgement came in time; it may have arrived"
        self.assertEqual(
            sorted(self.reasons()),
            [("unacknowledged", why)] * 2 + [("unacknowledged", f"{why}; kept as a dead letter")],
        )
        self.verify_nothing_left()

    def test_arrived_and_never_read(self) -> None:
        """The class of a dead letter whose arrival was acknowledged says that its receipt was not."""
        self.ask(TO_BETA, b"x", acknowledge=RECEIPT | ARRIVAL, dead_letter=True)
        self.clock.advance(WAIT + 5)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"x", UNREAD)]))

    def test_at_the_handover(self) -> None:
        """A message that no positive acknowledgement can prove is journaled when it is handed over."""
        self.queue(self.alpha, "serial", transactional=True)
        others: tuple[dict[str, Any], ...] = (
            {"acknowledge": Acknowledge.NONE},
            {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.5\\private$\\admin")},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\missing")},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\serial")},
        )
        for number, kwargs in enumerate(others):
            self.ask(TO_BETA, b"%d" % number, **kwargs)
            self.clock.advance(1)
            self.assertEqual((self.journal, self.unproven), ([b"%d" % number], 0))

    def test_transactional(self) -> None:
        """A transactional message waits for its FinalAck, whatever it asks for."""
        name, path = TO_BETA.replace("orders", "ordered"), ".\\private$\\ordered"
        self.ask(name, b"1", transactional=True)
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([], 0))
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.kept(DEADXACT)), ([b"1"], []))
        self.verify_nothing_left()

    def test_two_destinations(self) -> None:
        """Each copy of a message to several queues goes by the acknowledgement of its own queue."""
        refusing = TO_BETA.replace("orders", "ordered")
        self.ask(f"{TO_BETA},{refusing}", b"1", dead_letter=True)
        self.clock.advance(5)
        [journaled], [letter] = self.take(self.alpha, JOURNAL), self.take(self.alpha, DEADLETTER)
        self.assertEqual(str(journaled.destination_format_name()), TO_BETA)
        self.assertEqual(str(letter.destination_format_name()), refusing)
        self.assertEqual(journaled.identifier, letter.identifier)
        self.verify_nothing_left()

    def test_the_default(self) -> None:
        """Without the setting a copy is made at the handover, and an acknowledgement changes nothing."""
        self.alpha = self.restart(self.alpha, options={})
        self.ask(TO_BETA.replace("orders", "ordered"), b"refused")
        self.clock.advance(5)
        self.assertEqual((self.journal, self.reasons()), ([b"refused"], []))

    def test_explained(self) -> None:
        """C{explain} shows a message that waits, and where."""
        self.ask(TO_BETA, b"x", acknowledge=Acknowledge.POSITIVE_RECEIVE)
        [position] = self.alpha.model.collection.unproven.positions.values()
        assert position.view is not None
        explanation = self.run_to_end(self.alpha.service.inspection.explain(position.view.identifier))
        self.assertEqual(
            [(place.queue, place.state) for place in explanation.places],
            [(".\\system$;awaiting_acknowledgement", "available")],
        )


class ReceiverTestCase(ProvenTestCase):
    """ALPHA sends to the plain peer GAMMA, which says when it acknowledges what."""

    to = TO_GAMMA

    def setUp(self) -> None:
        super().setUp()
        self.listen()

    @property
    def peer(self) -> Peer:
        return self.peers[-1]

    def say(self, *packets: bytes, peer: Peer | None = None) -> None:
        (peer or self.peer).send(*packets)
        self.clock.advance(1)

    def hand_over(self) -> None:
        """The session acknowledges what came."""
        self.peer.acknowledge()
        self.clock.advance(1)

    def refused(self) -> dict[str, int]:
        return dict(self.alpha.service.inspection.status().refused)


class OrderTests(ReceiverTestCase):
    """The two acknowledgements come in either order."""

    def test_handover_first(self) -> None:
        """The session acknowledgement alone journals nothing; the acknowledgement that follows does."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        self.hand_over()
        self.assertEqual((self.waiting(self.alpha), self.unproven, self.journal), (0, 2, []))
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"1"], [(b"2", REFUSED)]))
        self.verify_nothing_left()

    def test_acknowledgement_first(self) -> None:
        """A message does not leave its outgoing queue by an administration acknowledgement alone."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.assertEqual((self.waiting(self.alpha), self.journal, self.kept(DEADLETTER)), (2, [], []))
        self.hand_over()
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"1"], [(b"2", REFUSED)]))
        self.verify_nothing_left()

    def test_same_packet(self) -> None:
        """An acknowledgement that carries the session acknowledgement counts for both."""
        self.ask(self.to, b"1")
        [message] = self.peer.messages
        self.say(admin_ack(message))
        self.peer.acknowledge()
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_answers_about_other_messages(self) -> None:
        """Answers about messages that ask for no copy are forgotten with them."""
        assert isinstance(self.alpha.store, CutStore)
        self.ask(self.to, b"1", journal=False)
        self.say(admin_ack(self.peer.messages[0]))
        self.assertEqual((self.alpha.store.names(), self.refused()), ([], {}))
        self.ask(self.to, b"2")
        self.ask(self.to, b"3", journal=False)
        self.say(*map(admin_ack, self.peer.messages[1:]))
        self.assertEqual(len(self.alpha.store.names()), 1)
        self.hand_over()
        self.assertEqual(self.journal, [b"2"])
        self.ask(self.to, b"4", journal=False)
        self.clock.advance(61)
        self.assertEqual((self.waiting(self.alpha), self.alpha.store.names()), (1, []))
        self.hand_over()
        self.verify_nothing_left()

    def test_invented_answers(self) -> None:
        """Answers about messages that were never sent do not keep a message from being journaled."""
        self.ask(self.to, b"1", b"2")
        first, second = self.peer.messages
        invented = [
            Heard(each.packet[:56] + struct.pack("<I", each.message_id + 100 * number) + each.packet[60:])
            for number in range(1, 50)
            for each in (first, second)
        ]
        self.say(*map(admin_ack, invented))
        self.say(admin_ack(first), admin_ack(second))
        self.hand_over()
        self.assertEqual(self.journal, [b"1", b"2"])
        self.verify_nothing_left()

    def test_another_queue(self) -> None:
        """An acknowledgement counts only where the message said that it is to go."""
        self.queue(self.alpha, "other")
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        self.say(admin_ack(message, admin="TCP:127.0.0.2\\private$\\other"))
        self.assertEqual((self.journal, self.unproven), ([], 1))
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_it_has_to_be_enqueued(self) -> None:
        """An acknowledgement that its administration queue refuses proves nothing."""
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        self.run_to_end(self.alpha.service.set_queue(".\\private$\\admin", {"quota": 0}))
        self.say(admin_ack(message))
        self.assertEqual((self.journal, self.unproven), ([], 1))
        self.run_to_end(self.alpha.service.set_queue(".\\private$\\admin", {"quota": 100}))
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])


class BeliefTests(ReceiverTestCase):
    """Trusted and untrusted sources of acknowledgements."""

    def test_forged_before_the_send(self) -> None:
        """What another peer says about a message that is about to leave is not believed."""
        stranger = self.dial("ALPHA", host=self.network.host("127.0.0.9"), identifier=STRANGER)
        namesake = self.dial("ALPHA", host=self.network.host("127.0.0.8"), identifier=GAMMA)
        self.ask(self.to, b"0")
        [message] = self.peer.messages
        following = Heard(
            message.packet[:56] + struct.pack("<I", message.message_id + 1) + message.packet[60:]
        )
        forgers = (stranger, STRANGER), (namesake, GAMMA)
        for peer, source in forgers:
            for forged in (message, following):
                self.say(admin_ack(forged, source=source), peer=peer)
        self.assertEqual(self.refused(), {"ACKNOWLEDGEMENT_BY_ANOTHER": 4})
        self.ask(self.to, b"1")
        self.hand_over()
        self.assertEqual((self.journal, self.unproven), ([], 2))
        for peer, source in forgers:
            self.say(admin_ack(message, REFUSED, source=source), peer=peer)
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (2, []))
        self.say(*map(admin_ack, self.peer.messages))
        self.assertEqual(self.journal, [b"0", b"1"])
        self.verify_nothing_left()

    def test_the_receiver_dials(self) -> None:
        """The receiver may acknowledge on a session of its own."""
        self.ask(self.to, b"1")
        self.hand_over()
        self.say(admin_ack(self.peer.messages[0]), peer=self.dial("ALPHA"))
        self.assertEqual(self.journal, [b"1"])

    def test_nothing_of_ours(self) -> None:
        """Acknowledgements about messages of others, or about none, change nothing."""
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        other = Heard(message.packet[:16] + STRANGER.bytes_le + message.packet[32:])
        self.say(admin_ack(other), admin_ack(message, 0x0123), admin_ack(message, 0x0001))
        self.assertEqual((self.journal, self.unproven, self.refused()), ([], 1, {}))


class NamedTests(ReceiverTestCase):
    """ALPHA sends to GAMMA by its identifier, on a session that GAMMA has opened."""

    to = str(PrivateFormatName(GAMMA, 1))
    options: dict[str, Any] = {  # noqa: RUF012
        **ON,
        "gate": TrustedPeers(Unauthenticated.ALLOW, acknowledgers=AddressSet((parse_network("10.9.9.9"),))),
    }

    def setUp(self) -> None:
        super().setUp()
        self.peers.append(self.dial("ALPHA"))
        self.admin = self.alpha.service.inspection.queue(".\\private$\\admin").format_name

    def ack(self, message: Heard, message_class: int = ARRIVED, **kwargs: Any) -> bytes:
        """An acknowledgement to the name by which gates find ALPHA."""
        return admin_ack(message, message_class, admin=int(self.admin.rpartition("\\")[2], 16), **kwargs)

    def router(self, address: str) -> Peer:
        """A session of another queue manager."""
        return self.dial("ALPHA", host=self.network.host(address), identifier=STRANGER)

    def test_other_identifiers(self) -> None:
        """Only the named queue manager may say that a message arrived; a gate in between may refuse it."""
        self.ask(self.to, b"1", b"2", dead_letter=True, admin_queue=parse_format_name(self.admin))
        self.hand_over()
        first, second = self.peer.messages
        router = self.router("127.0.0.5")
        self.say(self.ack(first, source=STRANGER), peer=router)
        self.assertEqual((self.journal, self.refused()), ([], {"ACKNOWLEDGEMENT_BY_ANOTHER": 1}))
        self.say(self.ack(second, REFUSED, source=STRANGER), peer=router)
        self.assertEqual(self.kept(DEADLETTER), [(b"2", REFUSED)])
        self.say(self.ack(first), peer=router)
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_other_addresses(self) -> None:
        """An address that may not acknowledge is not believed, although its messages are accepted."""
        self.ask(self.to, b"1", admin_queue=parse_format_name(self.admin))
        self.hand_over()
        [message] = self.peer.messages
        self.say(self.ack(message), peer=self.router("10.0.0.1"))
        self.assertEqual((self.journal, self.refused()), ([], {"ACKNOWLEDGEMENT_FROM_ELSEWHERE": 1}))
        self.say(self.ack(message), peer=self.router("10.9.9.9"))
        self.assertEqual(self.journal, [b"1"])


class SessionEndTests(ReceiverTestCase):
    """A session ends while messages are being removed from the outgoing queue."""

    def test_while_messages_leave(self) -> None:
        """Messages that leave when the session closes leave once, and are not sent again."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"1", b"2", dead_letter=True)
        first, second = self.peer.messages
        self.say(admin_ack(first))
        store.is_slow = True
        self.hand_over()
        self.peer.hang_up()
        self.clock.advance(1)
        store.finish()
        self.clock.advance(10)
        self.assertEqual((self.journal, self.unproven, len(self.peers)), ([b"1"], 1, 1))
        store.is_slow = True
        self.say(admin_ack(second, REFUSED), peer=self.dial("ALPHA"))
        store.finish()
        self.assertEqual(self.kept(DEADLETTER), [(b"2", REFUSED)])
        self.verify_nothing_left()

    def test_expiry_while_messages_leave(self) -> None:
        """A message that expires while it is being moved waits on like any other."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"1", dead_letter=True, time_to_reach_queue=3)
        store.is_slow = True
        self.hand_over()
        self.clock.advance(5)
        store.finish()
        self.clock.advance(1)
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (1, []))
        self.say(admin_ack(self.peer.messages[0]))
        self.assertEqual((self.journal, self.reasons()), ([b"1"], []))
        self.verify_nothing_left()

    def test_before_the_handover(self) -> None:
        """A message whose acknowledgement came is sent again, and is journaled with the next handover."""
        self.ask(self.to, b"1")
        self.say(admin_ack(self.peer.messages[0]))
        self.peer.hang_up()
        self.clock.advance(6)
        self.assertEqual((len(self.peers), self.peer.bodies, self.journal), (2, [b"1"], []))
        self.hand_over()
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_answer_in_between(self) -> None:
        """An acknowledgement that comes while its message is being moved settles it once it is."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        for number in range(2):
            self.ask(self.to, b"%d" % number)
            store.is_slow = True
            self.hand_over()
            self.say(admin_ack(self.peer.messages[-1]))
            self.assertEqual(self.journal, [])
            store.finish()
            self.clock.advance(1)
            self.assertEqual(self.journal, [b"%d" % number])
        self.verify_nothing_left()


class EndOfWaitTests(ReceiverTestCase):
    """A message waits until a time, and only so many do."""

    def test_late_answers(self) -> None:
        """What comes after the end of the wait changes nothing; the application has it all the same."""
        self.ask(self.to, b"1", acknowledge=RECEIPT, dead_letter=True, time_to_be_received=20)
        self.hand_over()
        [message] = self.peer.messages
        self.clock.advance(20 + WAIT + 2)
        self.assertEqual(self.kept(DEADLETTER), [(b"1", UNKNOWN)])
        # The session was idle for so long that it closed.
        self.say(admin_ack(message, RECEIVED), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], []))
        self.assertEqual(len(self.take(self.alpha, ".\\private$\\admin")), 1)
        self.verify_nothing_left()

    def test_many_at_once(self) -> None:
        """Hundreds of waits that end together end in several commits."""
        self.ask(self.to, *(b"x" for _ in range(30)), time_to_reach_queue=5)
        self.hand_over()
        self.patch(source_journal, "AT_ONCE", 7)
        self.clock.advance(1)
        self.ask(self.to, b"waits on", time_to_reach_queue=1000)
        self.hand_over()
        self.clock.advance(WAIT + 5)
        self.assertEqual((len(self.reasons()), self.unproven), (30, 1))

    def test_after_a_start(self) -> None:
        """A wait that has ended meanwhile goes on for ten minutes after a start."""
        self.ask(self.to, b"1", b"2", time_to_reach_queue=1)
        self.hand_over()
        first, _ = self.peer.messages
        self.alpha.service.stopService()
        self.alpha.deaf()
        self.clock.advance(1000)
        self.alpha = self.restart(self.alpha)
        self.clock.advance(AFTER_START - 5)
        self.say(admin_ack(first), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.unproven), ([b"1"], 1))
        self.clock.advance(10)
        self.assertEqual((self.unproven, len(self.reasons())), (0, 1))
        self.verify_nothing_left()


class LimitTests(ReceiverTestCase):
    """At most three messages wait."""

    settings = SessionSettings(acknowledgement_wait=WAIT, awaiting_acknowledgements=3)

    def test_the_oldest_wait_no_longer(self) -> None:
        """Those beyond the limit are dead letters if they asked for it, and an event says why."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        self.hand_over()
        self.ask(self.to, b"3", b"4", b"5")
        self.hand_over()
        self.assertEqual(self.kept(DEADLETTER), [(b"1", UNKNOWN), (b"2", UNKNOWN)])
        reason = (
            "more messages than [limits] awaiting_acknowledgements waited; it may have arrived;"
            " kept as a dead letter"
        )
        self.assertEqual(self.reasons(), [("unacknowledged", reason)] * 2)
        self.say(*map(admin_ack, self.peer.messages))
        self.assertEqual(self.journal, [b"3", b"4", b"5"])
        self.verify_nothing_left()

    def test_a_batch_beyond_it(self) -> None:
        """Of a batch that is larger than the limit the first are ended with it."""
        self.ask(self.to, b"1", b"2", b"3", b"4", dead_letter=True)
        self.hand_over()
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (3, [(b"1", UNKNOWN)]))


class FullJournalTests(ReceiverTestCase):
    """The quota of journals is used up."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        quota = {"journal_quota": 2} if identifier == ALPHA else {}
        return super().node(name, identifier, **quota, **kwargs)

    def test_no_copy(self) -> None:
        """A message for whose copy the journal has no space leaves without one, and is counted."""
        for number in range(4):
            self.ask(self.to, b"x" * 600)
            self.hand_over()
            self.say(admin_ack(self.peer.messages[-1]))
            self.assertEqual(self.unproven, 0, number)
        self.assertEqual(self.alpha.service.inspection.status().copies_dropped, 2)
        self.assertEqual(len(self.journal), 2)
        self.alpha = self.restart(self.alpha)
        self.assertEqual((self.unproven, self.waiting(self.alpha)), (0, 0))


class RestartTests(ReceiverTestCase):
    """ALPHA is killed."""

    def again(self, **kwargs: Any) -> None:
        """Start once more on what the store has."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        store.left = None
        self.alpha = self.restart(self.alpha, **kwargs)
        self.clock.advance(70)

    def run_until(self, commits: int | None, order: str) -> bytes:
        """Send two messages, of which one is refused; the store does only so many commits.

        @param order: of what the receiver does: A for its acknowledgements, H for the handover.
        @return: the acknowledgements.
        """
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"good", b"bad", dead_letter=True)
        good, bad = self.peer.messages[-2:]
        answers = admin_ack(good), admin_ack(bad, REFUSED)
        store.left, store.done = commits, 0
        for step in order:
            if step == "A":
                self.say(*answers)
            else:
                self.hand_over()
        self.clock.advance(3)
        return b"".join(answers)

    def verify_cut(self, order: str) -> None:
        commits = 0
        while True:
            with self.subTest(order=order, commits=commits):
                answers = self.run_until(commits, order)
                store = self.alpha.store
                assert isinstance(store, CutStore)
                is_last = store.left != 0
                self.again()
                # The receiver sends again what was not acknowledged, and refuses duplicates.
                peer = self.dial("ALPHA")
                self.say(answers[: len(answers) // 2], answers[len(answers) // 2 :], peer=peer)
                if self.peer.is_open:
                    self.hand_over()
                self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"good"], [(b"bad", REFUSED)]))
                self.assertEqual(len(self.take(self.alpha, ".\\private$\\admin")), 2)
                self.verify_nothing_left()
            if is_last:
                break
            commits += 1
        self.assertGreaterEqual(commits, 2)

    def test_between_commits(self) -> None:
        """A crash between any two commits leaves one copy in the journal, and one dead letter."""
        self.verify_cut("AH")

    def test_between_commits_of_the_other_order(self) -> None:
        """The same where the handover comes first."""
        self.verify_cut("HA")

    def test_the_setting_off(self) -> None:
        """Messages that wait are settled after the setting was removed; others are journaled at handover."""
        self.ask(self.to, b"waits", b"refused", dead_letter=True)
        self.hand_over()
        first, second = self.peer.messages
        self.again(options={})
        self.say(admin_ack(first), admin_ack(second, REFUSED), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"waits"], [(b"refused", REFUSED)]))
        self.ask(self.to, b"new")
        self.hand_over()
        self.assertEqual(self.journal, [b"new"])
        self.verify_nothing_left()

    def test_the_setting_off_before_the_handover(self) -> None:
        """Answers that came before the handover are dropped with the setting."""
        self.ask(self.to, b"1", b"2")
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.again(options={})
        self.hand_over()
        self.assertEqual(self.journal, [b"1", b"2"])
        self.verify_nothing_left()

    def test_express(self) -> None:
        """An express message that waits is gone with the process, and nothing waits for it."""
        self.ask(self.to, b"1", delivery=Delivery.EXPRESS)
        self.hand_over()
        assert isinstance(self.alpha.store, CutStore)
        self.assertEqual((self.unproven, self.alpha.store.names()), (1, []))
        self.again()
        self.assertEqual(self.journal, [])
        self.verify_nothing_left()


class GateTests(EnterpriseTestCase):
    """A message passes two gates, and fails or arrives behind them."""

    def test_beyond_the_first_hop(self) -> None:
        """The acknowledgement of a gate journals nothing; what the last queue manager says does."""
        self.queue(self.zeta, "serial", transactional=True)
        self.queue(self.zeta)
        self.queue(self.alpha, "admin")
        admin = self.alpha.service.inspection.queue(".\\private$\\admin").format_name
        for name in ("orders", "serial"):
            self.send(
                self.alpha,
                self.zeta.service.inspection.queue(f".\\private$\\{name}").format_name,
                name.encode(),
                journal=True,
                dead_letter=True,
                acknowledge=ARRIVAL,
                admin_queue=parse_format_name(admin),
            )
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.zeta, ".\\private$\\orders"), [b"orders"])
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"orders"])
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"serial"])

    options = ON
