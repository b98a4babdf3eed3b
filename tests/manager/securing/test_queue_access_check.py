"""The right to send to a queue: what a peer sees on the wire, and what the event log says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import fail

from msmq.interfaces.security.access import Account, AccountUnknown, Ruling
from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted
from msmq.manager.securing.queue_access_check import QueueAccessCheck
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.queues.queue import Queue
from msmq.security.access.guarded_access_control import GuardedAccessControl
from msmq.security.access.rules import QueueRule, Rules
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.sddl import parse_sddl
from msmq.wire.addresses import AddressSet
from msmq.wire.sid import parse_sid
from tests.builders import ALPHA, with_security
from tests.manager.securing.slow_accounts import SlowAccounts
from tests.nodes.arrivals.receiver import (
    ADMIN,
    EXPRESS,
    NEGATIVE_ARRIVAL,
    PLAIN,
    RECOVERABLE,
    ReceiverTestCase,
    X,
    express,
)
from tests.nodes.scripted import transactional
from tests.nodes.support import Node

UNTRUSTED = "198.51.100.7"
SID = ALICE = parse_sid("S-1-5-21-1-2-3-1001")
CLERKS = parse_sid("S-1-5-21-1-2-3-2001")
STRANGE_SID = parse_sid("S-1-5-21-9-9-9-1")
ADMITTING = (
    f'its sender is not authenticated; peers = ["{UNTRUSTED}"] under [security] in the configuration'
    " would accept it"
)


class AdmissionTestCase(ReceiverTestCase):
    """BETA has a gate of the test's; GAMMA is on its machine."""

    gate = TrustedPeers()
    insecure_nacks = False
    policy: AccessPolicy | None = None

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {
            "trusted_peers": self.gate,
            "send_insecure_nacks": self.insecure_nacks,
            "access": self.policy,
        }
        return super().node(name, identifier, options=options if name == "BETA" else {}, **kwargs)

    def reasons(self) -> list[str]:
        """The reasons of refused messages in the event log."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.reason for entry in stored if entry.event.event == "refused"]

    def classes(self) -> list[int]:
        """And their classes."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.message_class for entry in stored if entry.event.event == "refused"]


class GateTests(AdmissionTestCase):
    """By default unauthenticated messages are accepted only from this machine."""

    def untrusted(self) -> None:
        """From now on the peer sends from elsewhere."""
        self.peer = self.dial(host=self.network.host(UNTRUSTED), identifier=UUID(int=77))

    def test_this_machine_is_trusted(self) -> None:
        """Whichever of its addresses a message comes from, be there a header in it that proves nothing."""
        self.say(express(b"1"), with_security(express(b"2"), SID))
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"2"])
        self.assertEqual(self.reasons(), [])

    def test_an_unauthenticated_peer_is_refused(self) -> None:
        """Its message is counted and acknowledged by the session, and the event names the line to write."""
        self.untrusted()
        self.say(
            express(b"1", source=UUID(int=77)),
            transactional(
                b"2", (0, 0, 0), message_id=2, destination=PLAIN, source=UUID(int=77), **RECOVERABLE
            ),
            transactional(b"3", (X, 1, 0), source=UUID(int=77)),
            seconds=1,
        )
        self.assertEqual(self.bodies(self.beta, self.plain), [])
        self.assertEqual(self.bodies(self.beta, self.path), [])
        self.assertEqual(
            self.reasons(), [f"NACK_ACCESS_DENIED from {UNTRUSTED}: {ADMITTING}"] * 3, "and nothing else"
        )
        self.assertEqual(self.classes(), [0x8004] * 3)
        self.clock.advance(25)
        self.assertFalse(self.peer.is_lost)
        self.assertEqual(self.named(self.peer), 2)

    def test_a_refusal_is_not_sent(self) -> None:
        """An unauthenticated peer does not learn that it is refused."""
        self.untrusted()
        self.listen(self.gamma)
        asking: dict[str, Any] = {"acknowledge": NEGATIVE_ARRIVAL, "admin": ADMIN}
        self.say(
            express(b"1", **asking),
            # Of another kind than its queue takes, and too late: the right to send at all comes first.
            transactional(b"2", (0, 0, 0), **EXPRESS, **asking),
            transactional(b"3", (X, 1, 0), destination=PLAIN, source=UUID(int=77), **asking),
            express(b"4", times=(1, 1, 1), **asking),
            seconds=5,
        )
        self.assertEqual(self.classes(), [0x8004] * 4)
        self.assertEqual(self.peers, [])

    def test_a_name_is_no_proof(self) -> None:
        """A mere name, or a signature that cannot be verified, authenticates no sender."""
        self.untrusted()
        self.say(with_security(express(b"1"), SID), with_security(express(b"2"), SID, signature=b"s" * 64))
        self.assertEqual(self.bodies(self.beta, self.plain), [])
        first, second = self.reasons()
        self.assertEqual(first, f"NACK_ACCESS_DENIED from {UNTRUSTED}: {ADMITTING}")
        self.assertTrue(second.startswith("NACK_"), second)

    def test_what_passes_through_is_not_judged(self) -> None:
        """Only the queue manager of the destination decides about its rights."""
        self.untrusted()
        self.say(transactional(b"1", (0, 0, 0), queue_manager=ALPHA, number=7, **EXPRESS))
        self.assertNotIn("ACCESS", " ".join(self.reasons()))


class PeersTests(AdmissionTestCase):
    """The line in the event admits it."""

    gate = TrustedPeers(peers=AddressSet.of([UNTRUSTED]))

    def test_a_peer_is_taken_at_its_word(self) -> None:
        """As this machine is; its neighbour is not."""
        for number, address in enumerate((UNTRUSTED, "198.51.100.8")):
            who = UUID(int=77 + number)
            peer = self.dial(host=self.network.host(address), identifier=who)
            peer.send(express(address.encode(), source=who))
            self.clock.advance(0.1)
        self.say(express(b"here"))
        self.assertEqual(self.bodies(self.beta, self.plain), [UNTRUSTED.encode(), b"here"])
        [reason] = self.reasons()
        self.assertIn('peers = ["198.51.100.8"]', reason)


class AllowTests(AdmissionTestCase):
    """All peers are trusted."""

    gate = TrustedPeers(Unauthenticated.ALLOW)

    def test_an_unauthenticated_peer_is_admitted(self) -> None:
        """Without a query to the directory."""
        peer = self.dial(host=self.network.host(UNTRUSTED), identifier=UUID(int=77))
        peer.send(express(b"1", source=UUID(int=77)))
        self.clock.advance(0.1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1"])


class DenyTests(AdmissionTestCase):
    """No peer is trusted."""

    gate = TrustedPeers(Unauthenticated.DENY)
    insecure_nacks = True

    def test_this_machine_is_refused_too(self) -> None:
        """And gets acknowledgements, where these are permitted; the sequence of a refused message
        continues.
        """
        self.listen(self.gamma)
        self.say(
            express(b"1", acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN),
            transactional(b"2", (X, 1, 0)),
            transactional(b"3", (X, 2, 1)),
            seconds=5,
        )
        self.assertEqual(self.bodies(self.beta, self.plain) + self.bodies(self.beta, self.path), [])
        self.assertEqual(len(self.reasons()), 3)
        self.assertIn('unauthenticated = "loopback" under [security]', self.reasons()[0])
        heard = [answer for peer in (self.peer, *self.peers) for answer in peer.heard]
        self.assertIn(0x8004, [answer.message_class for answer in heard])


class Proves:
    """Instead of the steps that verify signatures: the sender of each message counts as authenticated."""

    name = "a check"
    message_class = MessageClass.NACK_BAD_SIGNATURE

    def guards(self, session: ISession, queue: Queue) -> bool:
        """See L{SecurityStep.guards}."""
        return False

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Accepted:
        """See L{SecurityStep.check}."""
        security = message.security
        return message if security is None else attrs.evolve(message, sender=security.security_id)


class AccessTests(AdmissionTestCase):
    """Rights of senders in a descriptor."""

    def setUp(self) -> None:
        self.access = SlowAccounts(Rules(queues=self.rules()))
        self.access.add(Account(ALICE, "alice", frozenset({CLERKS})))
        self.policy = AccessPolicy(self.access, ALICE)
        super().setUp()
        self.beta.service._parts.security.messages.inspector.steps = (
            self.gate,
            Proves(),
            QueueAccessCheck(self.gate, self.beta.service._parts.security.descriptors),
        )

    def rules(self) -> tuple[QueueRule, ...]:
        ruling = Ruling(parse_sddl("D:(A;;0x4;;;S-1-5-21-1-2-3-2001)"), "rules.toml:7")
        return (QueueRule("private$\\ruled", ruling),)

    def to(self, name: str, sddl: str, body: bytes, sid: bytes = b"", **kwargs: Any) -> bytes:
        """A message to a new queue that has this descriptor."""
        if sddl:
            self.queue(self.beta, name, security=sddl)
        packet = transactional(body, (0, 0, 0), destination=f"TCP:127.0.0.3\\private$\\{name}", **EXPRESS)
        return with_security(packet, sid, **kwargs) if sid else packet

    def taken(self, name: str) -> list[bytes]:
        return self.bodies(self.beta, f".\\private$\\{name}")

    def test_the_right_to_write(self) -> None:
        """Its own entry, that of a group of its, or that of Everyone admits a sender; a denial refuses it.

        MQQB-3.1.5.8.3-20, MQMQ-2.2.24-04.
        """
        for name, sddl, is_taken in (
            ("a", "D:(A;;0x4;;;S-1-5-21-1-2-3-1001)", True),
            ("b", "D:(A;;0x4;;;S-1-5-21-1-2-3-2001)", True),
            ("c", "D:(A;;0x4;;;AU)", True),
            ("d", "D:(D;;0x4;;;S-1-5-21-1-2-3-2001)(A;;GA;;;WD)", False),
            ("e", "D:(A;;0x3;;;WD)", False),
            ("f", "D:", False),
        ):
            self.say(self.to(name, sddl, name.encode(), ALICE))
            self.assertEqual(self.taken(name), [name.encode()] if is_taken else [], sddl)
        alice = "S-1-5-21-1-2-3-1001"
        self.assertEqual(
            self.reasons(),
            [
                "NACK_ACCESS_DENIED from 127.0.0.4: MQSEC_WRITE_MESSAGE: entry 1 of the DACL denies it to"
                " S-1-5-21-1-2-3-2001, by its descriptor",
                "NACK_ACCESS_DENIED from 127.0.0.4: MQSEC_WRITE_MESSAGE: no entry of the DACL allows it to"
                f" {alice} or its groups, by its descriptor",
                "NACK_ACCESS_DENIED from 127.0.0.4: MQSEC_WRITE_MESSAGE: the DACL is empty, which grants no"
                " right to any account, by its descriptor",
            ],
        )
        self.assertEqual(self.classes(), [0x8004] * 3)

    def test_an_unauthenticated_sender_is_anonymous(self) -> None:
        """With any header it belongs to Everyone, and not to Authenticated Users.

        MQQB-3.1.5.8.3-21: a sender without a header belongs to Everyone, which may be denied.
        """
        steps = self.beta.service._parts.security.messages.inspector.steps
        self.beta.service._parts.security.messages.inspector.steps = (steps[0], steps[2])
        for name, sddl, is_taken in (
            ("a", "D:(A;;0x4;;;WD)", True),
            ("b", "D:(A;;0x4;;;AN)", True),
            ("c", "D:(A;;0x4;;;AU)", False),
            ("d", "D:(D;;0x4;;;AN)(A;;GA;;;WD)", False),
            ("e", "D:(D;;0x4;;;WD)(A;;GA;;;AN)", False),
        ):
            self.say(self.to(name, sddl, b"1"), self.to(name, "", b"2", ALICE))
            self.assertEqual(self.taken(name), [b"1", b"2"] if is_taken else [], sddl)

    def test_each_type_of_sender_identifier(self) -> None:
        """A SID is authorized as its account, no identifier as anonymous, a queue manager as neither.

        MQDMPR-3.1.1.12-51.
        """
        alice, anonymous = "D:(A;;0x4;;;S-1-5-21-1-2-3-1001)", "D:(A;;0x4;;;AN)"
        for name, sddl, expected in (
            ("a", alice, [b"sid"]),
            ("b", anonymous, [b"none"]),
            ("c", "D:(A;;0x4;;;WD)", [b"sid", b"none", b"manager"]),
        ):
            self.say(
                self.to(name, sddl, b"sid", ALICE, flags=1),
                self.to(name, "", b"none"),
                self.to(name, "", b"manager", ALPHA.bytes_le, flags=2),
            )
            self.assertEqual(self.taken(name), expected, sddl)

    def test_rights_that_change_during_the_check(self) -> None:
        """A message is refused if the right of its sender was revoked before the directory has answered."""
        self.access.is_slow = True
        self.say(self.to("a", "D:(A;;0x4;;;S-1-5-21-1-2-3-1001)", b"1", ALICE))
        [lookup] = self.access.waiting
        self.access.is_slow = False
        self.run_to_end(self.beta.service.access.revoke(".\\private$\\a", "alice"))
        lookup.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.taken("a"), [])
        self.assertIn("the DACL is empty", self.reasons()[-1])

    def test_a_queue_manager_is_everybody(self) -> None:
        """MQQB-3.1.5.8.3-23: so it is not anonymous either; one that cannot be looked up is denied."""
        for name, sddl, is_taken in (
            ("a", "D:(A;;0x4;;;WD)", True),
            ("b", "D:(D;;0x4;;;AN)(A;;0x4;;;WD)", True),
            ("c", "D:(A;;0x4;;;AU)", False),
        ):
            self.say(self.to(name, sddl, b"1", ALPHA.bytes_le, flags=2))
            self.assertEqual(self.taken(name), [b"1"] if is_taken else [], sddl)
        self.say(self.to("d", "D:(A;;GA;;;WD)", b"1", STRANGE_SID))
        self.access.is_connected = False
        self.say(self.to("e", "D:(A;;GA;;;WD)", b"1", ALICE), self.to("e", "", b"2"))
        self.assertEqual((self.taken("d"), self.taken("e")), ([], [b"2"]))
        self.assertIn("the groups of S-1-5-21-9-9-9-1 are not known: there is no such", self.reasons()[-2])
        self.assertIn("the accounts in memory are away", self.reasons()[-1])

    def test_a_transactional_message(self) -> None:
        """MQQB-3.1.5.8.3-24: the sequence continues behind a refused message, and its sender is notified.

        Where the requested acknowledgement is not sent, the FinalAck is.
        """
        self.queue(self.beta, "closed", transactional=True, security="D:(A;;0x4;;;AU)")
        to = "TCP:127.0.0.3\\private$\\closed"
        first = transactional(b"1", (X, 1, 0), destination=to, acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN)
        second = with_security(transactional(b"2", (X, 2, 1), destination=to), ALICE)
        self.say(first, second, seconds=5)
        self.assertEqual(self.taken("closed"), [b"2"])
        self.assertEqual(len(self.reasons()), 1)
        self.assertNotIn("admin", " ".join(str(answer.destination) for answer in self.peer.heard))
        self.assertIn(0x8004, [answer.message_class for answer in self.peer.heard])

    def test_a_rule_replaces_the_descriptor(self) -> None:
        """And the event names its line."""
        self.say(self.to("ruled", "D:(A;;GA;;;WD)", b"1"), self.to("ruled", "", b"2", ALICE))
        self.assertEqual(self.taken("ruled"), [b"2"])
        [reason] = self.reasons()
        self.assertTrue(reason.endswith("or its groups, by rules.toml:7"), reason)

    def test_rules_that_are_reloaded(self) -> None:
        """A rule of a reloaded file applies to the next message of a queue that was open to all before."""
        self.say(self.to("later", "D:(A;;GA;;;WD)", b"1"))
        ruling = Ruling(parse_sddl("D:(A;;0x4;;;S-1-5-21-1-2-3-2001)"), "rules.toml:9")
        self.access.configure(Rules(queues=(QueueRule("private$\\later", ruling),)))
        self.say(self.to("later", "", b"2"))
        self.assertEqual(self.taken("later"), [b"1"])
        self.access.configure(Rules())
        self.say(self.to("later", "", b"3"))
        self.assertEqual(self.taken("later"), [b"3"])

    def test_access_control_of_an_application(self) -> None:
        """One that decides otherwise from one message to the next is queried for each."""

        class Hours(MemoryAccessControl):
            is_closed = False

            def check(self, *args: Any) -> Any:
                return fail(AccountUnknown("closed after 18:00")) if self.is_closed else super().check(*args)

        hours = Hours()
        parts = self.beta.service._parts
        self.patch(parts.security.descriptors, "access", GuardedAccessControl(hours, self.clock))
        self.say(self.to("shop", "D:(A;;GA;;;WD)", b"1"))
        hours.is_closed = True
        self.say(self.to("shop", "", b"2"))
        self.assertEqual(self.taken("shop"), [b"1"])
        self.assertIn("closed after 18:00", self.reasons()[-1])

    def test_a_queue_of_the_default(self) -> None:
        """MQDMPR-3.1.7.1.33-03: its owner is a user of the domain, so no other account may write."""
        self.say(self.to("a", "", b"0"))
        self.queue(self.beta, "a")
        self.say(self.to("a", "", b"1"), self.to("a", "", b"2", ALICE))
        self.assertEqual(self.taken("a"), [b"2"])

    def test_it_is_kept(self) -> None:
        """A queue that was closed is closed after a restart; one of before there were descriptors is open."""
        self.queue(self.beta, "closed", security="D:(A;;0x4;;;AU)")
        self.beta = self.restart(self.beta)
        parts = self.beta.service._parts
        parts.security.messages.inspector.steps = (
            self.gate,
            QueueAccessCheck(self.gate, parts.security.descriptors),
        )
        self.peer = self.dial()
        self.say(self.to("closed", "", b"1"))
        self.assertEqual(self.taken("closed"), [])
        queue = self.beta.model.find(parse_path_name(self.plain))
        assert queue is not None
        queue.definition = attrs.evolve(queue.definition, security=b"")
        self.say(express(b"2"))
        self.assertEqual(self.bodies(self.beta, self.plain), [b"2"])

    def test_an_invalid_descriptor(self) -> None:
        """MQDMPR-3.1.1.2-14: a descriptor with unknown rights is refused, and the queue is not created."""
        for sddl, words in (
            ("D:(A;;0x40;;;WD)", "entry 1 of the DACL, about S-1-1-0, has 0x00000040 in its mask"),
            ("D:(A", "expected O:, G:, D: or S:"),
        ):
            creating = self.deferred(self.beta.service.create_queue(".\\private$\\a", security=sddl))
            error = self.failureResultOf(creating, MQError).value
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
            self.assertIn(words, str(error))
        self.assertIsNone(self.beta.model.find(parse_path_name(".\\private$\\a")))
