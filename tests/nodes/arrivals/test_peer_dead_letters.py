"""Dead letters of messages that fail beyond the first hop: each is kept where it fails. Reading 64."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.python.failure import Failure

from msmq.interfaces.security.access import Account, IAccounts
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.membership.objects import EnterpriseObject
from msmq.queues.arriving.message import Delivery, Message
from msmq.security.access.control import AccessControl
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT
from msmq.structures.packet.user_message_patches import patch_hop_count, patch_queue_manager_address
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.testing.contracts.signing import OTHER_SID, SID
from tests.manager.support import FaultyStore
from tests.nodes.routes.test_routing import EnterpriseTestCase
from tests.nodes.scripted import DEADLETTER, NEGATIVE, ScriptedTestCase, transactional
from tests.nodes.security.test_access import FOR_CLERKS, UNTRUSTED
from tests.nodes.signed import WALL, CountedDirectory, SigningTestCase
from tests.nodes.support import Node, NodesTestCase

TO_NOWHERE = "TCP:127.0.0.3\\private$\\nowhere"
ELSEWHERE = UUID(int=0xE15E)
FLAGS_AS = 1 | SecurityHeader.AI | 3 << SecurityHeader.AS_SHIFT
"""A sender identifier, and a signature of 2.0 that was verified."""

DENIED = TrustedPeers(Unauthenticated.DENY)


def dead_letters(case: NodesTestCase, node: Node) -> list[tuple[bytes, int]]:
    """The messages in the dead-letter queue of a queue manager, which stay in it."""
    reading = case.deferred(node.service.reserve(DEADLETTER, count=1000, timeout=0, peek=True))
    if isinstance(reading.result, Failure):
        case.failureResultOf(reading, MQError)
        return []
    reservation = case.successResultOf(reading)
    return [(bytes(each.view.body), each.view.message_class) for each in reservation.messages]


def reasons(case: NodesTestCase, node: Node) -> list[str]:
    """The reasons in the event log of a queue manager, by message."""
    events = case.successResultOf(node.store.read_events(0, 1000))
    return [entry.event.reason for entry in events if entry.event.identity]


class ArrivalTests(ScriptedTestCase):
    """GAMMA sends to BETA what BETA refuses."""

    options: dict[str, Any] = {}  # noqa: RUF012
    limits: dict[str, Any] = {}  # noqa: RUF012

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", FaultyStore())
        return super().node(name, identifier, options=self.options, **{**self.limits, **kwargs})

    def setUp(self) -> None:
        super().setUp()
        self.plain = self.queue(self.beta, "plain")
        self.ordered = self.queue(self.beta, "ordered", transactional=True)
        self.peer = self.dial()

    def say(self, *packets: bytes) -> None:
        self.peer.send(*packets)
        self.clock.advance(1)

    def message(self, body: bytes = b"x", *, recoverable: bool = True, **kwargs: Any) -> bytes:
        kwargs.setdefault("destination", TO_NOWHERE)
        kwargs.setdefault("user_flags", NEGATIVE)
        number = kwargs.pop("message_id", 1)
        return transactional(
            body,
            (7, number, 0),
            message_id=number,
            is_transactional=False,
            is_recoverable=recoverable,
            **kwargs,
        )


class ReasonTests(ArrivalTests):
    """BETA trusts GAMMA's address."""

    def test_no_such_queue(self) -> None:
        """Kept with the class that says why, counted as refused, with the event that says so."""
        self.say(self.message())
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})
        self.assertEqual(reasons(self, self.beta), ["NACK_BAD_DST_Q from 127.0.0.4; kept as a dead letter"])

    def test_express(self) -> None:
        """An express message is kept in memory, as it was sent."""
        self.say(self.message(recoverable=False))
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        self.beta = self.restart(self.beta)
        self.assertEqual(dead_letters(self, self.beta), [])

    def test_expired_on_arrival(self) -> None:
        """A message that arrives after its time to reach the queue."""
        self.say(self.message(destination="TCP:127.0.0.3\\private$\\plain", times=(1, 0xFFFFFFFF, 0)))
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_REACH_QUEUE_TIMEOUT)])

    def test_wrong_kind_of_queue(self) -> None:
        """A message outside a transaction for a transactional queue."""
        self.say(self.message(destination="TCP:127.0.0.3\\private$\\ordered"))
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_NOT_TRANSACTIONAL_MSG)])

    def test_not_for_this_queue_manager(self) -> None:
        """A message for another queue manager at one that is not a routing server."""
        packet = patch_queue_manager_address(self.message(), ELSEWHERE.bytes_le)
        self.say(packet)
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        self.assertEqual(reasons(self, self.beta), ["NOT_FOR_US from 127.0.0.4; kept as a dead letter"])

    def test_invalid_destination(self) -> None:
        """A dead letter whose destination is not a valid name is sent to another queue, and not again to its
        own.
        """
        self.say(self.message(destination="no direct name"))
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        [place] = self.run_to_end(self.beta.service.inspection.dead_letters())
        dead = [place.message.lookup_id]
        messages = self.beta.service.message_administration
        [refused] = self.run_to_end(messages.requeue(DEADLETTER, dead))
        assert refused.error is not None
        self.assertEqual(refused.error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
        [sent] = self.run_to_end(messages.requeue(DEADLETTER, dead, to=self.plain))
        self.assertIs(sent.error, None)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"x"])
        self.assertEqual(dead_letters(self, self.beta), [])

    def test_not_asked_for(self) -> None:
        """No dead letter of a message that does not ask for one, nor of a transactional message."""
        self.say(self.message(user_flags=0))
        self.say(transactional(b"t", (7, 1, 0), destination=TO_NOWHERE, user_flags=NEGATIVE))
        self.assertEqual(dead_letters(self, self.beta), [])

    def test_restart(self) -> None:
        """A recoverable one is on disk with its event before it is acknowledged."""
        store = self.beta.store
        assert isinstance(store, FaultyStore)
        store.is_slow = True
        self.say(self.message())
        self.clock.advance(20)
        self.assertEqual([ack for ack in self.peer.acks if ack[2]], [])
        store.catch_up()
        self.clock.advance(1)
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))
        store.lose()
        self.beta = self.restart(self.beta)
        self.assertEqual(dead_letters(self, self.beta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        self.assertEqual(len(reasons(self, self.beta)), 1)

    def test_sent_again(self) -> None:
        """A message that was not acknowledged comes again, and there is still one dead letter."""
        self.say(self.message())
        self.peer.hang_up()
        self.peer = self.dial()
        self.say(self.message())
        self.assertEqual(len(dead_letters(self, self.beta)), 1)


class UntrustedTests(ArrivalTests):
    """BETA takes unsigned messages from nowhere."""

    options = {"trusted_peers": DENIED}  # noqa: RUF012

    def test_nothing_is_kept(self) -> None:
        """The disk is not filled by an address that the configuration does not trust; its event says so."""
        self.say(self.message(), self.message(message_id=2, recoverable=False))
        self.assertEqual(dead_letters(self, self.beta), [])
        why = "NACK_BAD_DST_Q from 127.0.0.4; no dead letter, since [security] does not trust "
        self.assertEqual([reason.startswith(why) for reason in reasons(self, self.beta)], [True, True])
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 0)


class LimitTests(ArrivalTests):
    """BETA keeps a kilobyte of them."""

    limits = {"peer_dead_letters": 1}  # noqa: RUF012

    def test_limit(self) -> None:
        """Beyond the limit a message is refused as usual and counted, and its event gives the limit as the
        reason.
        """
        self.say(*(self.message(b"%d" % number, message_id=number) for number in range(1, 9)))
        kept = dead_letters(self, self.beta)
        size = self.beta.service.inspection.queue(DEADLETTER).bytes
        self.assertTrue(0 < len(kept) < 8)
        self.assertTrue(1024 - size < size / len(kept), size)
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 8 - len(kept))
        full = "NACK_BAD_DST_Q from 127.0.0.4; the dead-letter queue is full"
        self.assertEqual(reasons(self, self.beta).count(full), 8 - len(kept))
        self.run_to_end(self.beta.service.purge_queue(DEADLETTER))
        self.say(self.message(b"later", message_id=9))
        self.assertEqual(dead_letters(self, self.beta), [(b"later", MessageClass.NACK_BAD_DST_Q)])

    def test_own_messages_are_not_limited(self) -> None:
        """The limit for peers does not count BETA's own messages."""
        for number in range(8):
            self.send(
                self.beta,
                "DIRECT=TCP:127.0.0.9\\private$\\orders",
                b"%d" % number,
                time_to_reach_queue=1,
                dead_letter=True,
            )
        self.clock.advance(5)
        self.assertEqual(len(dead_letters(self, self.beta)), 8)


class OffTests(ArrivalTests):
    """The limit is 0."""

    limits = {"peer_dead_letters": 0}  # noqa: RUF012

    def test_dead_letters_are_off(self) -> None:
        """No dead letter is kept."""
        self.say(self.message())
        self.assertEqual(dead_letters(self, self.beta), [])


class SignedTests(SigningTestCase):
    """Signed messages from an address that nothing trusts, for a queue that bob may not write to."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.beta, "closed", security=FOR_CLERKS)
        self.accounts.add_account(Account(SID, "alice"))
        self.accounts.add_account(Account(OTHER_SID, "bob"))
        self.peer = self.dial(host=self.network.host(UNTRUSTED))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if self.directory is None:
            self.directory = CountedDirectory(self.clock)
            self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        self.accounts = self.directory
        if name == "BETA":
            access = AccessControl(IAccounts(self.directory), self.clock)
            kwargs["options"] = {"access": AccessPolicy(access, SID)}
        return super().node(name, identifier, **kwargs)

    def to_closed(self) -> Any:
        return self.fields(destination="TCP:127.0.0.3\\private$\\closed", dead_letter=True)

    def test_authenticated_sender(self) -> None:
        """Refused by access control: the signature proves its sender, so it is kept."""
        self.say(self.signed(self.to_closed(), by=self.bob, security_id=OTHER_SID))
        self.assertEqual(dead_letters(self, self.beta), [(b"the body", MessageClass.NACK_ACCESS_DENIED)])

    def test_wrong_signature(self) -> None:
        """Refused by its signature: from an untrusted address nothing is kept, from a trusted one it is."""
        self.say(self.signed(self.to_closed(), by=self.bob))
        self.assertEqual(dead_letters(self, self.beta), [])
        self.peer = self.dial()
        self.say(self.signed(self.to_closed(), by=self.bob))
        self.assertEqual(dead_letters(self, self.beta), [(b"the body", MessageClass.NACK_BAD_SIGNATURE)])

    def test_claimed_authentication(self) -> None:
        """A packet that claims in Flags.AS that its signature was verified gains nothing by it."""
        packet = self.to_closed().with_security(SID, b"", b"", flags=FLAGS_AS)
        self.say(packet)
        self.assertEqual(dead_letters(self, self.beta), [])

    def test_expired_on_arrival_with_a_signature(self) -> None:
        """An authenticated message that arrives too late is kept."""
        late = self.fields(dead_letter=True, time_to_reach_queue=1, sent_time=int(WALL) - 9)
        self.say(self.signed(late))
        self.assertEqual(
            dead_letters(self, self.beta), [(b"the body", MessageClass.NACK_REACH_QUEUE_TIMEOUT)]
        )


class GateTests(EnterpriseTestCase):
    """Messages from ALPHA to ZETA fail at the gate BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.gate = self.nodes["BETA"]
        self.name = self.private_name(self.zeta, self.queue(self.zeta))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def stop_the_others(self) -> None:
        self.kill("DELTA")
        self.kill("EPSILON")

    def send_with_dead_letter(self, body: bytes = b"x", **kwargs: Any) -> None:
        kwargs.setdefault("delivery", Delivery.RECOVERABLE)
        self.send(self.alpha, self.name, body, dead_letter=True, **kwargs)

    def test_expired_at_a_gate(self) -> None:
        """A message of any delivery that expires at a gate is kept there, and not at its sender."""
        self.stop_the_others()
        self.send_with_dead_letter(b"express", time_to_reach_queue=30, delivery=Delivery.EXPRESS)
        self.send_with_dead_letter(b"recoverable", time_to_reach_queue=30)
        self.wait(60)
        late = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        self.assertCountEqual(dead_letters(self, self.gate), [(b"express", late), (b"recoverable", late)])
        self.assertEqual(dead_letters(self, self.alpha), [])
        self.assertEqual(reasons(self, self.gate), ["kept as a dead letter"] * 2)

    def test_after_a_restart(self) -> None:
        """A gate that was restarted meanwhile keeps it as well."""
        self.stop_the_others()
        self.send_with_dead_letter(time_to_reach_queue=30)
        self.wait(5)
        self.kill("BETA")
        self.revive("BETA")
        self.gate = self.nodes["BETA"]
        self.wait(60)
        self.assertEqual(dead_letters(self, self.gate), [(b"x", MessageClass.NACK_REACH_QUEUE_TIMEOUT)])

    def test_from_an_untrusted_address(self) -> None:
        """A gate that does not trust the address of its sender passes it on, and keeps nothing of it."""
        self.kill("BETA")
        self.options = {"trusted_peers": DENIED}
        self.revive("BETA")
        self.options = {}
        self.gate = self.nodes["BETA"]
        self.stop_the_others()
        self.send_with_dead_letter(time_to_reach_queue=30)
        self.wait(60)
        self.assertEqual(dead_letters(self, self.gate), [])

    def test_passed_on_as_it_came(self) -> None:
        """A queue behind gates gets the packet as it was sent, which still asks for a dead letter."""
        self.send_with_dead_letter()
        self.wait(5)
        [view] = self.take(self.zeta, ".\\private$\\orders")
        self.assertTrue(view.dead_letter)
        self.assertEqual(view.dead_letter_queue, "")

    def test_no_such_queue_behind_gates(self) -> None:
        """It is kept by the queue manager of its destination, and nowhere in between."""
        self.run_to_end(self.zeta.service.delete_queue(".\\private$\\orders"))
        self.send_with_dead_letter()
        self.wait(5)
        self.assertEqual(dead_letters(self, self.zeta), [(b"x", MessageClass.NACK_BAD_DST_Q)])
        for name in ("ALPHA", "BETA", "DELTA", "EPSILON"):
            self.assertEqual(dead_letters(self, self.nodes[name]), [], name)

    def test_too_many_hops(self) -> None:
        """A message with 29 hops is kept at the queue manager that refuses to forward it."""
        self.kill("BETA")
        self.send_with_dead_letter(b"tired")
        [queue] = self.alpha.model.outgoing_queues()
        for position in queue.positions.values():
            assert position.view is not None
            position.view = UserMessageView(patch_hop_count(position.view.packet, MAXIMUM_HOP_COUNT))
        self.revive("BETA")
        self.gate = self.nodes["BETA"]
        self.wait(90)
        self.assertEqual(dead_letters(self, self.gate), [(b"tired", MessageClass.NACK_HOP_COUNT_EXCEEDED)])

    def test_explained_by_its_sender(self) -> None:
        """The sender knows the next hop, and says where to ask further."""
        self.stop_the_others()
        body = Message(body=b"x", delivery=Delivery.RECOVERABLE, dead_letter=True, time_to_reach_queue=30)
        number = self.run_to_end(self.alpha.service.send(self.name, [body]))[0]
        self.wait(60)
        [event] = self.run_to_end(self.alpha.service.inspection.explain(number)).events
        self.assertEqual(event.event, "handed_over")
        self.assertTrue(
            event.reason.startswith(f"session acknowledgement of {self.gate.address}, queue manager {{")
        )
        [place] = self.run_to_end(self.gate.service.inspection.explain(number)).places
        self.assertEqual(place.queue, DEADLETTER)
