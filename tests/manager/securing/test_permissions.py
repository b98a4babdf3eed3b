"""Who may do what, as an operator sees and changes it, here and in the directory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.access import Account, Ruling
from msmq.manager.securing.descriptors import AccessPolicy, DefaultDescriptor
from msmq.manager.securing.public_descriptors import LIFETIME, PublicDescriptors, of_a_queue
from msmq.queues.directory.objects import QueueObject
from msmq.security.access.memory import MemoryAccessControl
from msmq.security.access.rules import QueueRule, Rules
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.sddl import format_sddl, parse_sddl
from msmq.structures.security_descriptor import SecurityDescriptor
from msmq.structures.status import MQError, Status
from msmq.wire.sid import parse_sid
from tests.control.support import Disk
from tests.nodes.support import Node, NodesTestCase
from tests.nodes.test_public_queues import ORDERS, DirectoryTestCase

ALICE = parse_sid("S-1-5-21-1-2-3-1001")
MACHINE = parse_sid("S-1-5-21-1-2-3-1501")
TEXT = "S-1-5-21-1-2-3-1001"
QUEUE = ".\\private$\\orders"


class SlowDirectory:
    """Tells the SID of a computer when the test lets it."""

    def __init__(self) -> None:
        self.answers: list[Deferred[bytes]] = []

    def machine_sid(self) -> Deferred[bytes]:
        """See L{DescriptorDirectory}."""
        self.answers.append(Deferred())
        return self.answers[-1]


class PermissionsTests(NodesTestCase):
    """BETA is asked by its operator."""

    default = DefaultDescriptor.DOCUMENTS

    def setUp(self) -> None:
        ruling = Ruling(parse_sddl("O:SYD:(A;;0x4;;;AU)"), "rules.toml:7")
        self.access = MemoryAccessControl(Rules(queues=(QueueRule("private$\\ruled", ruling),)))
        self.access.add(Account(ALICE, "alice"))
        super().setUp()
        self.queue(self.beta)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {"access": AccessPolicy(self.access, ALICE, self.default)} if name == "BETA" else {}
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, options=options, **kwargs)

    def renew(self) -> None:
        """Stop BETA, and start it on the same store."""
        self.beta.deaf()
        self.successResultOf(self.beta.service.stopService())
        self.beta = self.node("BETA", self.beta.model.identifier, store=self.beta.store)
        self.beta.start()

    def status_of(self, asked: Any) -> tuple[Status, str]:
        error = self.failureResultOf(Deferred.fromCoroutine(asked), MQError).value
        return error.status, str(error)

    def sddl(self, path: str = QUEUE) -> str:
        found = self.run_to_end(self.beta.service.acl(path))
        text: str = found["sddl"]
        return text

    def test_attributes_of_a_queue(self) -> None:
        """What a descriptor says of its queue decides where a condition asks for it, and is shown."""
        for number, granted in ((1, True), (0, False)):
            path = f".\\private$\\open{number}"
            condition = "(XA;;0x4;;;WD;(@Resource.Open == 1))"
            attribute = f'(RA;;;;;WD;("Open",TI,0x0,{number}))'
            self.run_to_end(self.beta.service.create_queue(path, security=f"D:{condition}S:{attribute}"))
            why = self.run_to_end(self.beta.service.why(path, "everyone", "send"))
            self.assertEqual(why["granted"], granted)
            self.assertTrue(self.sddl(path).endswith(f"D:{condition}S:{attribute}"), self.sddl(path))

    def test_a_name_is_known_by_asking(self) -> None:
        """The owner, and whom entries are about, are shown by their names."""
        found = self.run_to_end(self.beta.service.acl(QUEUE))
        names = [entry["name"] for entry in found["entries"]]
        self.assertEqual(names, ["everyone (S-1-1-0)", f"alice ({TEXT})"])
        found = self.run_to_end(self.beta.service.deny(QUEUE, "EXAMPLE\\Alice", ["send", "peek"]))
        denied, everybody, own = found["entries"]
        self.assertEqual((denied["action"], denied["rights"]), ("deny", ["send", "peek"]))
        self.assertEqual(everybody["rights"], ["get-properties", "get-permissions"])
        self.assertEqual(own["mask"], 0xF003F & ~0x6)

    def test_strict(self) -> None:
        """Nobody but the owner may do anything with what is made from then on."""
        self.default = DefaultDescriptor.STRICT
        self.renew()
        self.queue(self.beta, "closed")
        self.assertEqual(self.sddl(".\\private$\\closed"), f"O:{TEXT}G:{TEXT}D:(A;;0xf003f;;;{TEXT})")
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\closed", b"1")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\closed"), [])

    def test_who_may_write_follows_at_once(self) -> None:
        """What arrives next is judged by it."""
        to = "DIRECT=TCP:127.0.0.3\\private$\\orders"
        self.run_to_end(self.beta.service.allow(QUEUE, "everyone", ["send"]))
        self.send(self.alpha, to, b"1")
        self.clock.advance(1)
        self.run_to_end(self.beta.service.deny(QUEUE, "anonymous", ["send"]))
        self.send(self.alpha, to, b"2")
        self.clock.advance(1)
        self.run_to_end(self.beta.service.revoke(QUEUE, "anonymous"))
        self.send(self.alpha, to, b"3")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, QUEUE), [b"1", b"3"])

    def test_a_journal_has_that_of_its_queue(self) -> None:
        """So it is shown, and changed, by either name."""
        self.run_to_end(self.beta.service.deny(QUEUE + ";journal", "anonymous", ["receive-journal"]))
        self.assertEqual(self.sddl(QUEUE + ";journal"), self.sddl())
        self.assertIn("(D;;0xa;;;AN)", self.sddl())

    def test_the_queue_manager(self) -> None:
        """What it is changed to is there after a restart (MQDMPR-3.1.1.1-23)."""
        before = self.sddl(".")
        self.assertEqual(before, f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf00f7;;;{TEXT})")
        self.run_to_end(self.beta.service.allow(".", "everyone", ["create-queue"]))
        self.assertEqual(self.sddl("."), before.replace("0x20020", "0x20024"))
        self.renew()
        self.assertEqual(self.sddl("."), before.replace("0x20020", "0x20024"))
        status, words = self.status_of(self.beta.service.allow(".", "everyone", ["send"]))
        self.assertEqual(status, Status.MQ_ERROR_INVALID_PARAMETER)
        self.assertIn("'send' is no right to a queue manager, which are all, receive-dead-letters", words)

    def test_conditions(self) -> None:
        """An entry that has one is judged by it, is shown with it, and goes with all that is said of one."""
        text = "(XD;;0x4;;;AN;(Not_Member_of {SID(S-1-5-21-1-2-3-1001)}))"
        path = self.queue(self.beta, "conditional", security=f"D:{text}(A;;0x4;;;WD)")
        self.assertIn(text, self.sddl(path))
        [denied, _] = self.run_to_end(self.beta.service.acl(path))["entries"]
        self.assertEqual(
            (denied["action"], denied["condition"]),
            ("deny if", "(Not_Member_of {SID(S-1-5-21-1-2-3-1001)})"),
        )
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\conditional", b"1")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, path), [])
        found = self.run_to_end(self.beta.service.why(path, "anonymous", "send"))
        self.assertIn("denies it to anonymous (S-1-5-7), as its condition is met", found["reason"])
        self.run_to_end(self.beta.service.revoke(path, "anonymous"))
        self.assertTrue(self.run_to_end(self.beta.service.why(path, "anonymous", "send"))["granted"])

    def test_changes_at_the_same_time(self) -> None:
        """None of them is lost, of a queue or of the queue manager, however slow the disk is."""
        disk = Disk()
        self.beta.deaf()
        self.successResultOf(self.beta.service.stopService())
        self.beta = self.node("BETA", self.beta.model.identifier, store=disk)
        self.beta.start()
        self.queue(self.beta)
        for path, right in ((QUEUE, "send"), (".", "create-queue")):
            disk.is_slow = True
            asked = [
                Deferred.fromCoroutine(self.beta.service.deny(path, principal, [right]))
                for principal in ("anonymous", "users", "guests")
            ]
            disk.is_slow = False
            disk.catch_up()
            shown = [self.successResultOf(each)["sddl"] for each in asked][-1]
            for letters in ("AN", "BU", "BG"):
                self.assertIn(f"(D;;0x4;;;{letters})", shown)
            self.assertEqual(self.sddl(path), shown)

    def test_a_change_while_the_computer_is_looked_for(self) -> None:
        """What the queue manager has by default does not take the place of what it was changed to."""
        directory = SlowDirectory()
        descriptors = self.beta.service._parts.descriptors
        self.patch(descriptors, "_directory", directory)
        self.patch(descriptors, "_machine", None)
        shown = Deferred.fromCoroutine(self.beta.service.acl("."))
        changed = Deferred.fromCoroutine(self.beta.service.deny(".", "anonymous", ["create-queue"]))
        for answer in reversed(directory.answers):
            answer.callback(b"")
        self.successResultOf(shown)
        self.assertEqual(self.sddl("."), self.successResultOf(changed)["sddl"])
        self.assertIn("(D;;0x4;;;AN)", self.sddl("."))

    def test_what_could_not_be_read_again(self) -> None:
        """Does not become the descriptor of a queue, whatever somebody's directory takes for a SID."""
        self.access.add(Account(b"rubbish", "mallory"))
        before = self.sddl()
        status, _ = self.status_of(self.beta.service.allow(QUEUE, "mallory", ["send"]))
        self.assertEqual(status, Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
        self.assertEqual(self.sddl(), before)

    def test_what_is_refused(self) -> None:
        """Nothing of it changes anything."""
        self.queue(self.beta, "ruled")
        service = self.beta.service
        for asked, status, words in (
            (service.allow(QUEUE, "bob", ["send"]), Status.MQ_ERROR_COULD_NOT_GET_USER_SID, "be found"),
            (service.allow(QUEUE, "everyone", []), Status.MQ_ERROR_INVALID_PARAMETER, "no right is named"),
            (service.deny(QUEUE, "everyone", ["0x40"]), Status.MQ_ERROR_INVALID_PARAMETER, "is no right"),
            (service.acl(".\\private$\\x"), Status.MQ_ERROR_QUEUE_NOT_FOUND, "no queue"),
            (
                service.revoke(".\\private$\\ruled", "everyone"),
                Status.MQ_ERROR_PROPERTY_NOTALLOWED,
                "rules.toml:7 says who may do what with .\\private$\\ruled; change it there",
            ),
            (
                service.acl(".\\system$;deadletter"),
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                "the queue manager itself, which is named '.', says who may read",
            ),
            (self.alpha.service.acl(QUEUE), Status.MQ_ERROR_ILLEGAL_OPERATION, "nobody here is asked"),
        ):  # fmt: skip
            found = self.status_of(asked)
            self.assertEqual(found[0], status, found)
            self.assertIn(words, found[1])
        self.assertEqual(self.sddl(".\\private$\\ruled"), "O:SYD:(A;;0x4;;;AU)")

    def test_why_somebody_may_not(self) -> None:
        """Who cannot be looked up is denied, and the reason is that."""
        self.access.is_connected = False
        found = self.run_to_end(self.beta.service.why(QUEUE, TEXT, "send"))
        self.assertEqual((found["granted"], found["reason"]), (False, "the accounts in memory are away"))
        found = self.run_to_end(self.beta.service.why(".\\private$\\orders", "anonymous", "get-properties"))
        self.assertIs(found["granted"], True)
        self.assertNotIn("unauthenticated", found)
        self.queue(self.beta, "signed", authenticate=True, security="D:(A;;GA;;;WD)")
        for path, demanded in ((".\\private$\\signed", "a signature"), (QUEUE, None)):
            found = self.run_to_end(self.beta.service.why(path, "anonymous", "send"))
            self.assertEqual((found["unauthenticated"], found.get("demanded")), ("loopback", demanded))

    def test_changes_are_logged(self) -> None:
        """With what there was, and what there is; what changes nothing leaves no line."""
        with capturedLogs() as events:
            self.run_to_end(self.beta.service.deny(QUEUE, "anonymous", ["send"]))
            self.run_to_end(self.beta.service.deny(QUEUE, "anonymous", ["send"]))
        told = [formatEvent(event) for event in events if "is changed" in event["log_format"]]
        before = f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf003f;;;{TEXT})"
        self.assertEqual(
            told,
            [
                f"who may do what with {QUEUE} is changed: it was {before},"
                f" it is {before.replace('D:', 'D:(D;;0x4;;;AN)')}"
            ],
        )


class PublicTests(DirectoryTestCase):
    """GAMMA's public queues have their descriptors in the directory."""

    def setUp(self) -> None:
        self.access = MemoryAccessControl()
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {"access": AccessPolicy(self.access, ALICE)} if name == "GAMMA" else {}
        return super().node(name, identifier, options=options, **kwargs)

    def say(self, body: bytes) -> None:
        self.send(self.alpha, "DIRECT=TCP:127.0.0.4\\orders", body)
        self.clock.advance(1)

    def write(self, sddl: str) -> None:
        """Somebody else has changed it in the directory."""
        changed = attrs.evolve(self.published(), security=parse_sddl(sddl).to_bytes())
        self.successResultOf(self.directory.write(changed, ("security",)))

    def test_the_directory_says_who_may_write(self) -> None:
        """MQQB-3.1.5.8.3-20: within a minute; until it says so the queue manager's own descriptor holds."""
        self.create()
        self.say(b"1")
        self.write("D:(A;;0x4;;;AU)")
        self.clock.advance(LIFETIME)
        self.say(b"2")
        self.write("D:(A;;0x4;;;AU)(A;;0x4;;;AN)")
        self.clock.advance(LIFETIME)
        self.say(b"3")
        # What the directory gives to every object of its own is no descriptor of a queue.
        self.write("D:(A;;0xf01ff;;;BA)(A;;0x20094;;;AU)")
        self.clock.advance(LIFETIME)
        self.say(b"4")
        self.directory.is_connected = False
        self.clock.advance(LIFETIME)
        self.say(b"5")
        self.directory.is_connected = True
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1", b"3", b"4", b"5"])
        stored = self.successResultOf(self.gamma.store.read_events(0, 100))
        [reason] = [entry.event.reason for entry in stored if entry.event.event == "refused"]
        self.assertTrue(reason.endswith("or its groups, by its descriptor in the directory"), reason)

    def test_what_an_operator_changes_is_there_too(self) -> None:
        """And counts at once, here and there; while the directory is away nothing changes."""
        self.create()
        found = self.run_to_end(self.service.deny(ORDERS, "anonymous", ["send"]))
        self.assertEqual(found["sddl"], "O:ANG:AND:(D;;0x4;;;AN)(A;;0xf003f;;;WD)")
        published = SecurityDescriptor.from_bytes(self.published().security)
        self.assertEqual(format_sddl(published), "D:(D;;0x4;;;AN)(A;;0xf003f;;;WD)")
        self.say(b"1")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        source = self.run_to_end(self.service.acl(ORDERS))["source"]
        self.assertEqual(source, "its descriptor in the directory")
        self.directory.is_connected = False
        self.assertEqual(self.refused(self.service.revoke(ORDERS, "anonymous")), Status.MQ_ERROR_NO_DS)

    def test_made_with_a_descriptor(self) -> None:
        """A queue that is made with a list has it in the directory from the first moment on.

        What it gets by default is not written there.
        """
        self.create()
        self.assertEqual(self.published().security, b"")
        self.run_to_end(self.service.delete_queue(ORDERS))
        made = self.service.create_queue(ORDERS, security="O:BAD:(A;;0x4;;;AU)(A;;0x2;;;WD)")
        self.run_to_end(made)
        published = SecurityDescriptor.from_bytes(self.published().security)
        self.assertEqual(format_sddl(published), "D:(A;;0x4;;;AU)(A;;0x2;;;WD)")
        self.say(b"1")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        found = self.run_to_end(self.service.acl(ORDERS))
        self.assertEqual(
            (found["source"], found["sddl"]),
            ("its descriptor in the directory", "D:(A;;0x4;;;AU)(A;;0x2;;;WD)"),
        )
        self.directory.is_connected = False
        self.restart(directory=self.directory)
        self.say(b"2")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])

    def test_made_with_an_owner(self) -> None:
        """Who owns it is for the directory to say, so that an owner alone is not told to it."""
        self.run_to_end(self.service.create_queue(ORDERS, security="O:BA"))
        self.assertEqual(self.published().security, b"")

    def test_made_while_the_directory_is_away(self) -> None:
        """Then there is no such queue, neither there nor here."""
        self.directory.is_connected = False
        making = self.service.create_queue(ORDERS, security="D:(A;;0x4;;;AU)")
        self.assertEqual(self.refused(making), Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.service.queues(), [])
        self.directory.is_connected = True
        self.assertFalse(self.is_published())

    def test_a_directory_that_is_away_opens_nothing(self) -> None:
        """What it said last of who may write holds meanwhile, and after a restart."""
        self.create()
        self.write("D:(A;;0x4;;;AU)")
        self.say(b"1")
        self.directory.is_connected = False
        for _ in range(2):
            self.clock.advance(LIFETIME)
            self.say(b"2")
        self.restart(directory=self.directory)
        self.say(b"3")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [])
        self.assertEqual(self.run_to_end(self.service.acl(ORDERS))["sddl"], "D:(A;;0x4;;;AU)")
        self.directory.is_connected = True
        self.write("D:(A;;0x4;;;AN)")
        self.clock.advance(LIFETIME)
        self.clock.advance(LIFETIME)
        self.say(b"4")
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"4"])

    def test_the_directory_says_who_owns_it(self) -> None:
        """Nobody is told that he does who does not."""
        self.create()
        self.write("O:BAD:(A;;0xf003f;;;S-1-5-21-1-2-3-1001)")
        self.access.add(Account(ALICE, "alice"))
        alice = self.run_to_end(self.service.acting_as("alice"))
        self.assertEqual(self.refused(alice.take_ownership(ORDERS)), Status.MQ_ERROR_PROPERTY_NOTALLOWED)
        self.assertEqual(self.run_to_end(self.service.acl(ORDERS))["owner"], "administrators (S-1-5-32-544)")

    def test_an_answer_from_before_a_change(self) -> None:
        """Is not believed for longer than by who waited for it."""
        answers: list[Deferred[bytes]] = []

        def read(identifier: UUID) -> Deferred[bytes]:
            answers.append(Deferred())
            return answers[-1]

        public = PublicDescriptors(read, self.clock)
        identifier = UUID(int=1)
        before, after = (parse_sddl(text).to_bytes() for text in ("D:(A;;0x4;;;WD)", "D:(D;;0x4;;;WD)"))
        asked = public.get(identifier)
        assert isinstance(asked, Deferred)
        public.forget(identifier)
        answers[0].callback(before)
        self.successResultOf(asked)
        again = public.get(identifier)
        assert isinstance(again, Deferred)
        answers[1].callback(after)
        self.assertEqual(self.successResultOf(again), of_a_queue(after))
        self.assertEqual(public.get(identifier), of_a_queue(after))

    def test_its_computer_may_look_at_it(self) -> None:
        """MQDMPR-3.1.7.1.3.1-06: the directory knows the SID of the computer."""
        self.directory.set_object_sid("GAMMA", MACHINE)
        self.create(".\\private$\\orders")
        found = self.run_to_end(self.service.acl(".\\private$\\orders"))
        self.assertEqual(found["sddl"], "O:ANG:AND:(A;;0xf003f;;;WD)(A;;0x20020;;;S-1-5-21-1-2-3-1501)")

    def test_no_descriptor_of_a_queue(self) -> None:
        """Nothing, rubbish, no list, or foreign rights; what is inherited is passed over."""
        for security in (b"", b"rubbish", SecurityDescriptor(ALICE).to_bytes()):
            self.assertIsNone(of_a_queue(security))
        self.assertIsNone(of_a_queue(parse_sddl("D:(A;;0x100;;;AU)(A;;0x4;;;WD)").to_bytes()))
        found = of_a_queue(parse_sddl("O:BAD:AI(A;;GW;;;WD)(A;ID;0xf01ff;;;BA)").to_bytes())
        assert found is not None
        self.assertEqual(format_sddl(found), "O:BAD:AI(A;;0x20024;;;WD)")
        self.assertEqual(QueueObject().security, b"")
