"""Access rights, as an operator sees and changes them, here and in the directory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail
from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.security.access import Account, AccountUnknown, Ruling
from msmq.manager.securing.security_descriptors import AccessPolicy, DefaultDescriptor
from msmq.security.access.guarded_access_control import GuardedAccessControl
from msmq.security.access.rules import QueueRule, Rules
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError, Status
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.access_check import AccessDecision
from msmq.windows.sddl import parse_sddl
from msmq.wire.sid import parse_sid
from tests.control.support import Disk
from tests.nodes.support import Node, NodesTestCase

ALICE = parse_sid("S-1-5-21-1-2-3-1001")
MACHINE = parse_sid("S-1-5-21-1-2-3-1501")
TEXT = "S-1-5-21-1-2-3-1001"
QUEUE = ".\\private$\\orders"


class SlowDirectory:
    """Answers with the SID of a computer when the test lets it."""

    def __init__(self) -> None:
        self.answers: list[Deferred[bytes]] = []

    def machine_sid(self) -> Deferred[bytes]:
        """See L{PublicSecurity}."""
        self.answers.append(Deferred())
        return self.answers[-1]


class RefusingAccessControl(MemoryAccessControl):
    """An access control of an application.

    @ivar refusal: the error of every check; C{None} for decisions by the descriptors.
    """

    refusal: Exception | None = None

    def check(self, *asked: Any) -> AccessDecision | Deferred[AccessDecision]:
        """See L{IAccessControl.check}."""
        return super().check(*asked) if self.refusal is None else fail(self.refusal)


class PermissionsTests(NodesTestCase):
    """BETA is asked by its operator."""

    default = DefaultDescriptor.DOCUMENTS

    def setUp(self) -> None:
        ruling = Ruling(parse_sddl("O:SYD:(A;;0x4;;;AU)"), "rules.toml:7")
        self.access = RefusingAccessControl(Rules(queues=(QueueRule("private$\\ruled", ruling),)))
        self.access.add(Account(ALICE, "alice"))
        super().setUp()
        self.queue(self.beta)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        guarded = GuardedAccessControl(self.access, self.clock)
        options = {"access": AccessPolicy(guarded, ALICE, self.default)} if name == "BETA" else {}
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
        found = self.run_to_end(self.beta.service.access.acl(path))
        assert found.sddl is not None
        return found.sddl

    def test_attributes_of_a_queue(self) -> None:
        """The resource attributes in a descriptor decide conditions, and are shown."""
        for number, granted in ((1, True), (0, False)):
            path = f".\\private$\\open{number}"
            condition = "(XA;;0x4;;;WD;(@Resource.Open == 1))"
            attribute = f'(RA;;;;;WD;("Open",TI,0x0,{number}))'
            self.run_to_end(self.beta.service.create_queue(path, security=f"D:{condition}S:{attribute}"))
            why = self.run_to_end(self.beta.service.access.why(path, "everyone", "send"))
            self.assertEqual(why.granted, granted)
            self.assertTrue(self.sddl(path).endswith(f"D:{condition}S:{attribute}"), self.sddl(path))

    def test_attributes_are_replaced(self) -> None:
        """The resource attributes of a new list replace the former ones, on which its conditions depend."""
        access = self.beta.service.access
        condition = "(XA;;0x4;;;WD;(@Resource.Open == 1))"

        def is_granted(sddl: str) -> bool:
            self.run_to_end(access.replace(QUEUE, sddl))
            return self.run_to_end(access.why(QUEUE, "everyone", "send")).granted

        attribute = 'S:(RA;;;;;WD;("Open",TI,0x0,{}))'
        self.assertTrue(is_granted(f"D:{condition}{attribute.format(1)}"))
        self.assertTrue(is_granted(f"D:{condition}"), "without attributes those of the queue stay")
        self.assertFalse(is_granted(f"D:{condition}{attribute.format(0)}"))
        self.assertTrue(self.sddl().endswith(f"D:{condition}{attribute.format(0)}"), self.sddl())

    def test_entries_without_effect(self) -> None:
        """A list is refused if one of its entries would deny or allow nothing, as for a new queue."""
        before = self.sddl()
        right = "06bd3202-df3e-11d1-9c86-006008764d0e"
        for entry in (f"(OD;;0x4;{right};;{TEXT})", f"(OA;;0x4;{right};;{TEXT})"):
            for is_dry in (True, False):
                asked = self.beta.service.access.replace(QUEUE, f"D:{entry}(A;;0x4;;;WD)", dry_run=is_dry)
                status, text = self.status_of(asked)
                self.assertIs(status, Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
                self.assertIn("entry 1 of the DACL", text)
        self.assertEqual(self.sddl(), before)

    def test_a_name_is_known_by_asking(self) -> None:
        """The owner, and the accounts of entries, are shown by their names."""
        found = self.run_to_end(self.beta.service.access.acl(QUEUE))
        names = [entry.name for entry in found.entries]
        self.assertEqual(names, ["everyone (S-1-1-0)", f"alice ({TEXT})"])
        found = self.run_to_end(self.beta.service.access.deny(QUEUE, "EXAMPLE\\Alice", ["send", "peek"]))
        denied, everybody, own = found.entries
        self.assertEqual((denied.action, denied.rights), ("deny", ["send", "peek"]))
        self.assertEqual(everybody.rights, ["get-properties", "get-permissions"])
        self.assertEqual(own.mask, 0xF003F & ~0x6)

    def test_strict(self) -> None:
        """Only the owner has rights to what is created from then on."""
        self.default = DefaultDescriptor.STRICT
        self.renew()
        self.queue(self.beta, "closed")
        self.assertEqual(self.sddl(".\\private$\\closed"), f"O:{TEXT}G:{TEXT}D:(A;;0xf003f;;;{TEXT})")
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\closed", b"1")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\closed"), [])

    def test_the_right_to_write_follows_at_once(self) -> None:
        """It applies to the next arrival."""
        to = "DIRECT=TCP:127.0.0.3\\private$\\orders"
        self.run_to_end(self.beta.service.access.allow(QUEUE, "everyone", ["send"]))
        self.send(self.alpha, to, b"1")
        self.clock.advance(1)
        self.run_to_end(self.beta.service.access.deny(QUEUE, "anonymous", ["send"]))
        self.send(self.alpha, to, b"2")
        self.clock.advance(1)
        self.run_to_end(self.beta.service.access.revoke(QUEUE, "anonymous"))
        self.send(self.alpha, to, b"3")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, QUEUE), [b"1", b"3"])

    def test_a_journal_has_that_of_its_queue(self) -> None:
        """So it is shown, and changed, by either name."""
        self.run_to_end(self.beta.service.access.deny(QUEUE + ";journal", "anonymous", ["receive-journal"]))
        self.assertEqual(self.sddl(QUEUE + ";journal"), self.sddl())
        self.assertIn("(D;;0xa;;;AN)", self.sddl())

    def test_the_queue_manager(self) -> None:
        """A changed descriptor survives a restart (MQDMPR-3.1.1.1-23)."""
        before = self.sddl(".")
        self.assertEqual(before, f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf00f7;;;{TEXT})")
        self.run_to_end(self.beta.service.access.allow(".", "everyone", ["create-queue"]))
        self.assertEqual(self.sddl("."), before.replace("0x20020", "0x20024"))
        self.renew()
        self.assertEqual(self.sddl("."), before.replace("0x20020", "0x20024"))
        status, words = self.status_of(self.beta.service.access.allow(".", "everyone", ["send"]))
        self.assertEqual(status, Status.MQ_ERROR_INVALID_PARAMETER)
        self.assertIn("'send' is not a right to a queue manager, which are all, receive-dead-letters", words)

    def test_conditions(self) -> None:
        """An entry that has one is judged by it, is shown with it, and goes with all that is said of one."""
        text = "(XD;;0x4;;;AN;(Not_Member_of {SID(S-1-5-21-1-2-3-1001)}))"
        path = self.queue(self.beta, "conditional", security=f"D:{text}(A;;0x4;;;WD)")
        self.assertIn(text, self.sddl(path))
        [denied, _] = self.run_to_end(self.beta.service.access.acl(path)).entries
        self.assertEqual(
            (denied.action, denied.condition),
            ("deny if", "(Not_Member_of {SID(S-1-5-21-1-2-3-1001)})"),
        )
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\conditional", b"1")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, path), [])
        found = self.run_to_end(self.beta.service.access.why(path, "anonymous", "send"))
        self.assertIn("denies it to anonymous (S-1-5-7), as its condition is met", found.reason)
        self.run_to_end(self.beta.service.access.revoke(path, "anonymous"))
        self.assertTrue(self.run_to_end(self.beta.service.access.why(path, "anonymous", "send")).granted)

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
                Deferred.fromCoroutine(self.beta.service.access.deny(path, principal, [right]))
                for principal in ("anonymous", "users", "guests")
            ]
            disk.is_slow = False
            disk.catch_up()
            shown = [self.successResultOf(each).sddl for each in asked][-1]
            for dead_letters in ("AN", "BU", "BG"):
                self.assertIn(f"(D;;0x4;;;{dead_letters})", shown)
            self.assertEqual(self.sddl(path), shown)

    def test_a_change_while_the_computer_is_looked_for(self) -> None:
        """The queue manager's default does not overwrite the change."""
        directory = SlowDirectory()
        descriptors = self.beta.service._parts.security.descriptors
        self.patch(descriptors, "_public", directory)
        self.patch(descriptors, "_machine", None)
        shown = Deferred.fromCoroutine(self.beta.service.access.acl("."))
        changed = Deferred.fromCoroutine(self.beta.service.access.deny(".", "anonymous", ["create-queue"]))
        for answer in reversed(directory.answers):
            answer.callback(b"")
        self.successResultOf(shown)
        self.assertEqual(self.sddl("."), self.successResultOf(changed).sddl)
        self.assertIn("(D;;0x4;;;AN)", self.sddl("."))

    def test_a_descriptor_that_does_not_round_trip(self) -> None:
        """An owner with a malformed SID from the directory does not get into the descriptor of a queue."""
        self.access.add(Account(b"rubbish", "mallory"))
        before = self.sddl()
        status, _ = self.status_of(self.beta.service.access.allow(QUEUE, "mallory", ["send"]))
        self.assertEqual(status, Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
        self.assertEqual(self.sddl(), before)

    def test_what_is_refused(self) -> None:
        """A refused change has no effect."""
        self.queue(self.beta, "ruled")
        access = self.beta.service.access
        for asked, status, words in (
            (access.allow(QUEUE, "bob", ["send"]), Status.MQ_ERROR_COULD_NOT_GET_USER_SID, "be found"),
            (access.allow(QUEUE, "everyone", []), Status.MQ_ERROR_INVALID_PARAMETER, "no right is given"),
            (access.deny(QUEUE, "everyone", ["0x40"]), Status.MQ_ERROR_INVALID_PARAMETER, "is not a right"),
            (access.acl(".\\private$\\x"), Status.MQ_ERROR_QUEUE_NOT_FOUND, "does not exist"),
            (
                access.revoke(".\\private$\\ruled", "everyone"),
                Status.MQ_ERROR_PROPERTY_NOTALLOWED,
                "rules.toml:7 defines the access control of .\\private$\\ruled; change it there",
            ),
            (
                access.acl(".\\system$;deadletter"),
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                "are rights to the queue manager, which is named '.'",
            ),
            (self.alpha.service.access.acl(QUEUE), Status.MQ_ERROR_ILLEGAL_OPERATION, "no access control"),
        ):  # fmt: skip
            found = self.status_of(asked)
            self.assertEqual(found[0], status, found)
            self.assertIn(words, found[1])
        self.assertEqual(self.sddl(".\\private$\\ruled"), "O:SYD:(A;;0x4;;;AU)")

    def test_absent_list(self) -> None:
        """SDDL of an absent list is refused, and not taken for one that leaves the list as it is."""
        before, absent = self.sddl(), "D:NO_ACCESS_CONTROL"
        service = self.beta.service
        for asked in (
            service.access.replace(QUEUE, absent),
            service.access.replace(QUEUE, absent, dry_run=True),
            service.create_queue(".\\private$\\absent", security=absent),
        ):
            status, words = self.status_of(asked)
            self.assertEqual(status, Status.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR)
            self.assertIn("D:(A;;GA;;;WD) grants", words)
        self.assertEqual(self.sddl(), before)

    def test_reason_of_a_denial(self) -> None:
        """An account that cannot be looked up is denied, with that reason."""
        self.access.is_connected = False
        found = self.run_to_end(self.beta.service.access.why(QUEUE, TEXT, "send"))
        self.assertEqual((found.granted, found.reason), (False, "the accounts in memory are away"))
        found = self.run_to_end(
            self.beta.service.access.why(".\\private$\\orders", "anonymous", "get-properties")
        )
        self.assertIs(found.granted, True)
        self.assertIsNone(found.unauthenticated)
        self.queue(self.beta, "signed", authenticate=True, security="D:(A;;GA;;;WD)")
        for path, demanded in ((".\\private$\\signed", "a signature"), (QUEUE, None)):
            found = self.run_to_end(self.beta.service.access.why(path, "anonymous", "send"))
            self.assertEqual((found.unauthenticated, found.demanded), ("loopback", demanded))

    def test_reason_of_an_access_control(self) -> None:
        """One that denies a known account, or has an error, is shown with its reason as well."""
        for error, reason in (
            (AccountUnknown("closed after 18:00"), "closed after 18:00"),
            (ZeroDivisionError(), "access control failed: ZeroDivisionError"),
        ):
            self.access.refusal = error
            found = self.run_to_end(self.beta.service.access.why(QUEUE, TEXT, "send"))
            self.assertEqual((found.granted, found.reason), (False, reason))
            self.assertEqual(found.groups, ["everyone (S-1-1-0)", "authenticated users (S-1-5-11)"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_changes_are_logged(self) -> None:
        """With what there was, and what there is; what changes nothing leaves no line."""
        with capturedLogs() as events:
            self.run_to_end(self.beta.service.access.deny(QUEUE, "anonymous", ["send"]))
            self.run_to_end(self.beta.service.access.deny(QUEUE, "anonymous", ["send"]))
        reported = [formatEvent(event) for event in events if "was changed" in event["log_format"]]
        before = f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf003f;;;{TEXT})"
        self.assertEqual(
            reported,
            [
                f"the access control of {QUEUE} was changed from {before}"
                f" to {before.replace('D:', 'D:(D;;0x4;;;AN)')}"
            ],
        )
