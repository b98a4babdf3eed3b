"""[MS-DTYP] 2.5.3.2: the access check, and its reasons."""

from __future__ import annotations

import random
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.windows.access_check import AccessDecision, Cause, check_access
from msmq.windows.access_masks import QUEUE_KIND, AccessMask, QueueAccess
from msmq.windows.claims import Claim, Claims, Value, ValueType, named
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import Control, SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceType, Acl
from msmq.windows.well_known_sids import EVERYONE, PRINCIPAL_SELF
from msmq.wire.sid import parse_sid
from tests.structures.packet.test_hostile_packets import steps
from tests.windows.access_support import DOMAIN, TOKENS, ask_samba, question, rows, token

MAX = int(AccessMask.MAXIMUM_ALLOWED)
TO_A_QUEUE = QUEUE_KIND.every_right | AccessMask.ACCESS_SYSTEM_SECURITY


def granted(decision: AccessDecision) -> int | None:
    """The rights that were granted, or C{None}."""
    return decision.granted_rights if decision.granted else None


class TableTests(SynchronousTestCase):
    """access_table.txt."""

    def test_every_row(self) -> None:
        """Each is as it was written down."""
        table = list(rows())
        self.assertGreater(len(table), 200)
        for row in table:
            decision = check_access(row.descriptor, TOKENS[row.who], row.asked, QUEUE_KIND)
            self.assertEqual(granted(decision), row.granted, f"line {row.line}: {decision.why()}")
            self.assertTrue(decision.why())

    def test_samba_agrees(self) -> None:
        """Samba's access check says the same of every row."""
        table = list(rows())
        answers = ask_samba([question(row.descriptor, TOKENS[row.who], row.asked) for row in table])
        for row, answer in zip(table, answers, strict=True):
            shown = None if answer is None else answer & TO_A_QUEUE
            self.assertEqual(shown, row.granted, f"line {row.line}: {row}")

    def test_samba_agrees_about_any_descriptor(self) -> None:
        """And about two thousand random ones."""
        chance = random.Random(20261121)
        sids = [parse_sid(text) for text in ("S-1-1-0", "S-1-5-7", "S-1-5-11", "S-1-3-4", "S-1-3-0")]
        sids += [TOKENS["alice"].user, *TOKENS["alice"].groups]
        bits = [1 << bit for bit in (0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 28, 29, 30, 31)]
        types = [AceType.ACCESS_ALLOWED] * 3 + [AceType.ACCESS_DENIED] * 2 + [AceType.SYSTEM_AUDIT]
        names = list(TOKENS)

        def mask() -> int:
            return sum(bit for bit in bits if chance.random() < 0.2)

        asked = []
        for _ in range(2000):
            aces = [
                Ace(chance.choice(types), mask(), chance.choice(sids), chance.choice([0, 0, 0, 8, 16, 3]))
                for _ in range(chance.randrange(7))
            ]
            owner = chance.choice(sids) if chance.random() < 0.9 else None
            # With MAXIMUM_ALLOWED Samba grants no rights at all where there are none, and we deny.
            wanted = mask() or 0x4
            asked.append(
                (SecurityDescriptor(owner, None, Acl(tuple(aces))), TOKENS[chance.choice(names)], wanted)
            )
        answers = ask_samba([question(*each) for each in asked])
        for (descriptor, who, wanted), answer in zip(asked, answers, strict=True):
            decision = check_access(descriptor, who, wanted, QUEUE_KIND)
            self.assertEqual(granted(decision), answer, f"{descriptor} {who} 0x{wanted:x}: {decision.why()}")


class ReasonTests(SynchronousTestCase):
    """The reason of a result."""

    def why(self, sddl: str, who: str, asked: int) -> str:
        return check_access(parse_sddl(sddl, DOMAIN), TOKENS[who], asked, QUEUE_KIND).why()

    def test_every_cause_has_its_words(self) -> None:
        """The entry, the right, and the account."""
        send, alice = QueueAccess.MQSEC_WRITE_MESSAGE, "S-1-5-21-1-2-3-1001"
        for sddl, who, asked, words in (
            ("D:(A;;0x2;;;WD)(D;;0x4;;;AN)", "anonymous", send,
             "MQSEC_WRITE_MESSAGE: entry 2 of the DACL denies it to anonymous (S-1-5-7)"),
            ("D:(A;;0x6;;;WD)", "anonymous", send,
             "MQSEC_WRITE_MESSAGE: entry 1 of the DACL allows it to everyone (S-1-1-0)"),
            ("D:(A;;0x2;;;WD)", "alice", send,
             f"MQSEC_WRITE_MESSAGE: no entry of the DACL allows it to {alice} or its groups"),
            ("D:", "alice", send,
             "MQSEC_WRITE_MESSAGE: the DACL is empty, which grants no right to any account"),
            ("O:BA", "alice", send,
             "MQSEC_WRITE_MESSAGE: the descriptor has no DACL, which grants every right to every account"),
            (f"O:{alice}D:", "alice", QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS,
             f"MQSEC_GET_QUEUE_PERMISSIONS: {alice} owns the queue"),
            (f"O:{alice}D:(D;;RC;;;OW)", "alice", QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS,
             "MQSEC_GET_QUEUE_PERMISSIONS: entry 1 of the DACL denies it to the owner"),
            ("D:", "dave", QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP,
             "MQSEC_TAKE_QUEUE_OWNERSHIP: S-1-5-21-1-2-3-1004 holds the privilege for it"),
            ("D:", "alice", AccessMask.ACCESS_SYSTEM_SECURITY,
             f"ACCESS_SYSTEM_SECURITY: {alice} does not hold the privilege for it"),
            ("D:", "alice", 0, "no right was requested"),
            ("D:(XA;;0x4;;;WD;(Member_of {SID(AU)}))", "alice", send,
             "MQSEC_WRITE_MESSAGE: entry 1 of the DACL allows it to everyone (S-1-1-0),"
             " as its condition is met"),
            ("D:(XD;;0x4;;;WD;(@User.x == 1))(A;;0x4;;;WD)", "alice", send,
             "MQSEC_WRITE_MESSAGE: entry 1 of the DACL denies it to everyone (S-1-1-0),"
             " as its condition has no result"),
        ):  # fmt: skip
            self.assertEqual(self.why(sddl, who, int(asked)), words)

    def test_a_refusal_names_only_what_is_missing(self) -> None:
        """And a grant names the entry of each right."""
        both = int(QueueAccess.MQSEC_WRITE_MESSAGE | QueueAccess.MQSEC_PEEK_MESSAGE)
        self.assertEqual(
            self.why("D:(A;;0x4;;;WD)", "anonymous", both),
            "MQSEC_PEEK_MESSAGE: no entry of the DACL allows it to anonymous (S-1-5-7) or its groups",
        )
        decision = check_access(
            parse_sddl("D:(A;;0x4;;;WD)(A;;0x2;;;AN)"), TOKENS["anonymous"], both, QUEUE_KIND
        )
        self.assertEqual([(part.index, part.rights) for part in decision.decided], [(0, 4), (1, 2)])
        self.assertEqual(decision.missing, 0)
        refused = check_access(parse_sddl("D:(A;;0x4;;;WD)"), TOKENS["anonymous"], both, QUEUE_KIND)
        self.assertEqual((refused.granted, refused.missing), (False, int(QueueAccess.MQSEC_PEEK_MESSAGE)))


class CostTests(SynchronousTestCase):
    """Descriptors that an owner of a queue has made as expensive as possible."""

    def check(self, sddl: str) -> AccessDecision:
        descriptor = parse_sddl(sddl)
        SecurityDescriptor.from_bytes(descriptor.to_bytes())
        found: list[AccessDecision] = []
        taken = steps(
            lambda: found.append(
                check_access(descriptor, TOKENS["bob"], int(QueueAccess.MQSEC_WRITE_MESSAGE), QUEUE_KIND)
            )
        )
        self.assertLess(taken, 200_000)
        return found[0]

    def test_many_conditions_and_many_attributes(self) -> None:
        """The attributes of the object are read once, and not once for each condition."""
        conditions = "".join(f"(XA;;0x4;;;WD;(@Resource.a{number} == 7))" for number in range(500))
        attributes = "".join(f'(RA;;;;;WD;("a{number}",TI,0x0,{number}))' for number in range(500))
        decision = self.check(f"D:{conditions}S:{attributes}")
        self.assertEqual([part.index for part in decision.decided if part.granted], [7])

    def test_many_comparisons_of_long_sets(self) -> None:
        """The values of an attribute are prepared once for all comparisons with them."""
        compared = " || ".join(["@Resource.a == @Resource.b"] * 240)

        def attribute(name: str) -> str:
            values = ",".join(f'"{name * 40}{number}"' for number in range(250))
            return f'(RA;;;;;WD;("{name}",TS,0x0,{values}))'

        attributes = attribute("a") + attribute("b")
        decision = self.check("D:" + f"(XA;;0x4;;;WD;({compared}))" * 5 + f"S:{attributes}")
        self.assertFalse(decision.granted)


class OwnWayTests(SynchronousTestCase):
    """Cases in which the document is followed, and Samba differs."""

    def test_a_list_that_is_not_there_lets_everybody_in(self) -> None:
        """[MS-DTYP] 2.5.3.2 says so of an absent list too; Samba lets in by one that is there and null."""
        for control in (Control(0), Control.DACL_PRESENT):
            descriptor = SecurityDescriptor(EVERYONE, None, None, None, control)
            decision = check_access(descriptor, TOKENS["foreign"], QUEUE_KIND.every_right, QUEUE_KIND)
            self.assertEqual((decision.granted, decision.decided[0].cause), (True, Cause.NO_DACL))
            self.assertEqual(
                granted(check_access(descriptor, TOKENS["foreign"], MAX, QUEUE_KIND)), QUEUE_KIND.every_right
            )

    def test_an_entry_gives_no_privilege(self) -> None:
        """The audit entries need SeSecurityPrivilege; Samba takes an entry of the list for it."""
        sddl = "D:(A;;0x1000000;;;WD)"
        asked = int(AccessMask.ACCESS_SYSTEM_SECURITY)
        for who, expected in (("alice", False), ("carol", True)):
            decision = check_access(parse_sddl(sddl), TOKENS[who], asked, QUEUE_KIND)
            self.assertEqual(decision.granted, expected)

    def test_the_most_of_nothing_is_a_refusal(self) -> None:
        """Samba grants no right at all."""
        decision = check_access(parse_sddl("D:"), TOKENS["alice"], MAX, QUEUE_KIND)
        self.assertFalse(decision.granted)
        self.assertIn("the DACL is empty", decision.why())

    def test_entries_about_parts_decide_nothing(self) -> None:
        """Without an object tree neither kind applies; Samba applies those that deny."""
        part = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")
        for object_type in (part, None):
            for kind, asked in ((AceType.ACCESS_DENIED_OBJECT, 2), (AceType.ACCESS_ALLOWED_OBJECT, 4)):
                aces = (Ace(kind, asked, EVERYONE, 0, object_type), Ace(AceType.ACCESS_ALLOWED, 2, EVERYONE))
                decision = check_access(
                    SecurityDescriptor(None, None, Acl(aces)), TOKENS["bob"], asked, QUEUE_KIND
                )
                self.assertEqual(decision.granted, asked == 2)

    def test_conditions(self) -> None:
        """[MS-DTYP] 2.4.4.17.3: an allowing entry applies if it is TRUE, a denying one unless it is FALSE."""
        clerk, no_clerk, unknown, rubbish = (
            "Member_of {SID(S-1-5-21-1-2-3-2001)}",
            "Not_Member_of {SID(S-1-5-21-1-2-3-2001)}",
            "@User.clearance == 1",
            None,
        )
        for condition, allows, denies in (
            (clerk, True, True),
            (no_clerk, False, False),
            (unknown, False, True),
            (rubbish, False, True),
        ):
            for letters, others, expected in (("XA", "", allows), ("XD", "(A;;0x4;;;WD)", not denies)):
                text = f"D:({letters};;0x4;;;WD;({condition or clerk}))(A;;0x2;;;WD){others}"
                descriptor = parse_sddl(text)
                assert descriptor.dacl is not None
                if condition is None:
                    [first, *rest] = descriptor.dacl.aces
                    assert isinstance(first, Ace)
                    broken = attrs.evolve(first, data=b"artx\xff\xff\xff\xff")
                    descriptor = attrs.evolve(descriptor, dacl=Acl((broken, *rest)))
                decision = check_access(descriptor, TOKENS["alice"], 4, QUEUE_KIND)
                self.assertIs(decision.granted, expected, text)
                self.assertTrue(check_access(descriptor, TOKENS["alice"], 2, QUEUE_KIND).granted)
        anonymous = parse_sddl(f"D:(XA;;0x4;;;AN;({clerk}))")
        self.assertFalse(check_access(anonymous, TOKENS["alice"], 4, QUEUE_KIND).granted)

    def test_resource_attributes(self) -> None:
        """Conditions can use the attributes in its SACL, and the claims of the account."""
        attribute = bytes.fromhex(
            "1c000000 0100 0000 00000000 01000000 14000000 0500000000000000 61000000".replace(" ", "")
        )
        said = Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=attribute)
        plain = parse_sddl("D:(XA;;0x4;;;WD;(@User.level >= @Resource.a))")
        descriptor = attrs.evolve(plain, sacl=Acl((said,)))
        for level, expected in ((5, True), (4, False)):
            claim = Claim("Level", (Value(ValueType.INTEGER, level),))
            who = attrs.evolve(TOKENS["bob"], claims=Claims(user=named(claim)))
            self.assertIs(check_access(descriptor, who, 4, QUEUE_KIND).granted, expected)
        self.assertFalse(check_access(descriptor, TOKENS["bob"], 4, QUEUE_KIND).granted)

    def test_oneself(self) -> None:
        """[MS-DTYP] 2.5.3.1.1 S-1-5-10 is the account that the caller names, in entries and as owner."""
        me, other = TOKENS["alice"], TOKENS["bob"]
        descriptor = SecurityDescriptor(
            PRINCIPAL_SELF, None, Acl((Ace(AceType.ACCESS_ALLOWED, 4, PRINCIPAL_SELF),))
        )
        for asked in (4, int(QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS)):
            for who, itself, expected in ((me, me.user, True), (other, me.user, False), (me, None, False)):
                decision = check_access(descriptor, who, asked, QUEUE_KIND, principal_self=itself)
                self.assertEqual(decision.granted, expected)
        self.assertFalse(token(PRINCIPAL_SELF).has(PRINCIPAL_SELF))
