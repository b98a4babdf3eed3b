"""The rights to a queue in the form of a directory, and back."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.rights import (
    CONTROL_ACCESS,
    MESSAGE_RIGHTS,
    PEEK,
    RECEIVE,
    RECEIVE_JOURNAL,
    SEND,
    class_default,
    entries_of_others,
    from_directory,
    is_untranslated,
    lists_rights,
)
from msmq.membership.rights_change import to_directory
from msmq.windows.access_check import Token, check_access
from msmq.windows.access_masks import QUEUE_KIND
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor, with_entry, without_entries_of
from msmq.windows.security_descriptor import allow as allowing
from msmq.windows.security_descriptor import deny as denying
from msmq.windows.security_descriptor_aces import Ace, AceType, Acl
from msmq.windows.well_known_sids import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE
from msmq.wire.sid import parse_sid

DOMAIN = parse_sid("S-1-5-21-1-2-3")
BOB, CAROL, CLERKS = (parse_sid(f"S-1-5-21-1-2-3-{rid}") for rid in (1105, 1106, 2001))
B = "S-1-5-21-1-2-3-1105"
ALL = "CCDCLCSWRPWPDTLOCRSDRCWDWO"
DEFAULT = f"(A;;{ALL};;;S-1-5-21-1-2-3-512)(A;;{ALL};;;SY)(A;;LCRPLORC;;;AU)"
R, P, S, J = (f"(OA;;CR;{right};;{{}})" for right in (RECEIVE, PEEK, SEND, RECEIVE_JOURNAL))

TO_DIRECTORY = (
    # What the list of a new queue allows, and what its object gets.
    (f"D:(A;;0x4;;;{B})", S),
    (f"D:(A;;0x2;;;{B})", P),
    (f"D:(A;;0x3;;;{B})", R + P),
    (f"D:(A;;0xa;;;{B})", P + J),
    (f"D:(A;;0xf;;;{B})", R + P + S + J),
    (f"D:(A;;0x10;;;{B})", "(A;;WP;;;{})"),
    (f"D:(A;;0x20;;;{B})", "(A;;RP;;;{})"),
    (f"D:(A;;0x10000;;;{B})", "(A;;SD;;;{})"),
    (f"D:(A;;0x20000;;;{B})", "(A;;RC;;;{})"),
    (f"D:(A;;0x40000;;;{B})", "(A;;WD;;;{})"),
    (f"D:(A;;0x80000;;;{B})", "(A;;WO;;;{})"),
    (f"D:(A;;GA;;;{B})", R + P + S + J + "(A;;RPWPSDRCWDWO;;;{})"),
)
DENIED = (
    (f"D:(D;;0x1;;;{B})", R),
    (f"D:(D;;0x2;;;{B})", P),
    (f"D:(D;;0x3;;;{B})", R + P),
    (f"D:(D;;0x4;;;{B})", S),
    (f"D:(D;;0x8;;;{B})", J),
    (f"D:(D;;0x10;;;{B})", "(D;;WP;;;{})"),
)
READ = (
    # What a tool of Windows or an administrator writes, and what it says of the queue.
    (f"D:(A;;GA;;;{B})", "D:(A;;0xf003f;;;{})"),
    (f"D:(A;;CR;;;{B})", "D:(A;;0xf;;;{})"),
    (f"D:(D;;CR;;;{B})", "D:(D;;0xf;;;{})"),
    (f"D:(OA;;CR;;;{B})", "D:(A;;0xf;;;{})"),
    (f"D:(A;;GR;;;{B})", "D:(A;;0x20020;;;{})"),
    (f"D:(A;;GW;;;{B})", "D:(A;;0x20010;;;{})"),
    (f"D:(A;;GX;;;{B})", "D:(A;;0x20000;;;{})"),
    (f"D:(A;;LCCCDCSWDTLO;;;{B})", "D:"),
    (f"D:(D;;LC;;;{B})", "D:"),
    (f"D:(OA;;CR;{RECEIVE};;{B})", "D:(A;;0x3;;;{})"),
    (f"D:(OD;;CR;{RECEIVE};;{B})", "D:(D;;0x1;;;{})"),
    (f"D:(OA;;CR;{RECEIVE_JOURNAL};;{B})", "D:(A;;0xa;;;{})"),
    # Another right of the directory: Send-As.
    (f"D:(OA;;CR;ab721a54-1e2f-11d0-9819-00aa0040529b;;{B})", "D:"),
    # One attribute: mSMQLabelEx.
    (f"D:(OA;;RPWP;4580ad25-d407-48d2-ad24-43e6e56793d7;;{B})", "D:"),
    (f"D:(OD;;WP;4580ad25-d407-48d2-ad24-43e6e56793d7;;{B})", "D:(D;;0x10;;;{})"),
    # Rights of the object that an entry gives for a part of it, or with a GUID that stands for nothing.
    (f"D:(OA;;SDRCWDWO;4580ad25-d407-48d2-ad24-43e6e56793d7;;{B})", "D:"),
    (f"D:(OA;;SDWDWO;00000000-1111-2222-3333-444444444444;;{B})", "D:"),
    (f"D:(OA;;CRSDWD;{SEND};;{B})", "D:(A;;0x4;;;{})"),
    (f"D:(OA;;SDWD;9a0dc343-c100-11d1-bbc5-0080c76670c0;;{B})", "D:(A;;0x50000;;;{})"),
    # Inherited by objects of this class, by those of another, and by none but others.
    (f"D:(OA;CIID;CR;{SEND};9a0dc343-c100-11d1-bbc5-0080c76670c0;{B})", "D:(A;;0x4;;;{})"),
    (f"D:(OA;CIID;CR;{SEND};bf967aba-0de6-11d0-a285-00aa003049e2;{B})", "D:"),
    (f"D:(OD;CIID;CR;{SEND};bf967aba-0de6-11d0-a285-00aa003049e2;{B})", "D:(D;;0x4;;;{})"),
    (f"D:(OA;CIIOID;CR;{SEND};;{B})", "D:"),
    (f"D:(A;CIID;GA;;;{B})", "D:(A;;0xf003f;;;{})"),
    (f"D:(AU;SA;CR;;;{B})", "D:"),
    # Conditions, also on the attributes of the object, which are not read.
    (f"D:(XA;;CR;;;{B};(Member_of {{SID(BA)}}))", "D:(XA;;0xf;;;{};(Member_of {{SID(BA)}}))"),
    (f"D:(XA;;CR;;;{B};(Not_Exists @Resource.secret))", "D:"),
    (f"D:(XA;;CR;;;{B};(@Resource.open == 1))", "D:"),
    (f"D:(XD;;CR;;;{B};(Exists @Resource.secret))", "D:(D;;0xf;;;{})"),
)


def token(*sids: bytes) -> Token:
    """The account with these SIDs."""
    return Token(sids[0], frozenset(sids[1:]))


def is_allowed_there(found: SecurityDescriptor, who: Token, right: object) -> bool:
    """[MS-ADTS] 5.1.3.3.4 Checking Control Access Right-Based Access, word for word."""
    assert found.dacl is not None
    for ace in found.dacl.aces:
        assert isinstance(ace, Ace)
        if not who.has(ace.sid) or not ace.mask & CONTROL_ACCESS or ace.object_type not in (None, right):
            continue
        return ace.type in (AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT)
    return False


def entries(found: SecurityDescriptor) -> list[str]:
    """The entries of a list as text."""
    assert found.dacl is not None
    return [format_sddl(SecurityDescriptor(dacl=Acl((ace,)))) for ace in found.dacl.aces]


class TranslationTests(SynchronousTestCase):
    """Each right in both directions."""

    def test_to_directory(self) -> None:
        """Each right of a list becomes its own right of the object, and nothing else."""
        default = class_default(DOMAIN)
        for text, added in TO_DIRECTORY:
            made = to_directory(default, None, parse_sddl(text))
            expected = parse_sddl(f"D:{DEFAULT}{added.format(B, B, B, B, B)}")
            self.assertEqual(sorted(entries(made)), sorted(entries(expected)), text)
        for text, added in DENIED:
            made = to_directory(default, None, parse_sddl(text))
            expected = parse_sddl(f"D:{added.replace('(OA', '(OD').format(B, B)}{DEFAULT}")
            self.assertEqual(entries(made), entries(expected), text)

    def test_from_directory(self) -> None:
        """Entries as administrators write them say the same of a queue."""
        for found, read in READ:
            made = from_directory(parse_sddl(found))
            self.assertEqual(format_sddl(made), format_sddl(parse_sddl(read.format(B))), found)

    def test_class_default(self) -> None:
        """[MS-ADSC] 2.166: what the class gives each queue says nothing about messages."""
        default = class_default(DOMAIN)
        self.assertEqual(entries(default), entries(parse_sddl(f"D:{DEFAULT}")))
        self.assertFalse(lists_rights(default))
        self.assertFalse(is_untranslated(default))
        self.assertTrue(lists_rights(to_directory(default, None, parse_sddl(f"D:(A;;0x4;;;{B})"))))

    def test_untranslated(self) -> None:
        """A list with masks of MSMQ, which earlier versions wrote, is known as one."""
        inherited = "(A;CIID;GA;;;S-1-5-21-1-2-3-519)"
        self.assertTrue(is_untranslated(parse_sddl(f"D:(D;;0x4;;;{B})(A;;0xf003f;;;WD){inherited}")))
        self.assertFalse(is_untranslated(parse_sddl(f"D:{inherited}")))
        self.assertFalse(is_untranslated(parse_sddl(f"D:(A;;0xf003f;;;WD)(A;;GA;;;{B})")))
        self.assertFalse(is_untranslated(parse_sddl(f"D:(OA;;CR;{SEND};;{B})")))
        self.assertFalse(is_untranslated(SecurityDescriptor()))

    def test_entries_of_others(self) -> None:
        """When such a list is replaced, what others have for objects below it stays."""
        others = f"(A;CIIO;GA;;;{B})(OA;CIIO;CR;{SEND};;{B})(A;CIID;GA;;;S-1-5-21-1-2-3-519)"
        found = parse_sddl(f"D:(D;;0x4;;;{B})(A;;0xf003f;;;WD){others}")
        self.assertTrue(is_untranslated(found))
        kept = SecurityDescriptor(dacl=Acl(entries_of_others(found)))
        self.assertEqual(entries(kept), entries(parse_sddl(f"D:{others}")))

    def test_rights_without_an_entry(self) -> None:
        """A right without a directory entry is refused, with the entry and the remedy."""
        default = class_default(DOMAIN)
        for text, reported in (
            (f"D:(A;;0x4;;;WD)(A;;0x1;;;{B})", "entry 2, about .*1105, allows delete-message without peek"),
            (f"D:(A;;0x8;;;{B})", "allows delete-journal-message without peek"),
            (f"D:(A;;0x4;;;WD)(D;;0x4;;;{B})", "entry 2, .* denies behind an entry that allows"),
            (f"D:(XA;;0x4;;;{B};(Member_of {{SID(BA)}}))", "entry 1, .* has a condition"),
        ):
            error = self.assertRaises(LocalProtocolError, to_directory, default, None, parse_sddl(text))
            self.assertRegex(str(error), reported)
        error = self.assertRaises(
            LocalProtocolError, to_directory, SecurityDescriptor(), None, parse_sddl(f"D:(A;;0x4;;;{B})")
        )
        self.assertIn("no access control list", str(error))
        many = SecurityDescriptor(
            dacl=Acl(tuple(allowing(parse_sid(f"S-1-5-21-1-2-3-{rid}"), 0xF) for rid in range(400)))
        )
        error = self.assertRaises(LocalProtocolError, to_directory, default, None, many)
        self.assertIn("allow groups", str(error))


class ChangeTests(SynchronousTestCase):
    """A list that changes, in a directory that others write to as well."""

    def change(self, present: str, before: str, after: str, about: bytes | None = None) -> list[str]:
        return entries(to_directory(parse_sddl(present), parse_sddl(before), parse_sddl(after), about))

    def test_defaults_are_no_rights_of_the_directory(self) -> None:
        """A denial for one account grants no other account rights on the object."""
        all_of_them, denial = "(A;;0xf003f;;;WD)", f"(D;;0x4;;;{B})"
        made = self.change(f"D:{DEFAULT}", f"D:{all_of_them}", f"D:{denial}{all_of_them}")
        expected = f"D:{S.replace('(OA', '(OD').format(B)}{DEFAULT}" + (R + P + S + J).format(*["WD"] * 4)
        self.assertEqual(made, entries(parse_sddl(expected)))

    def test_entries_of_others_stay(self) -> None:
        """Audits, inherited entries and what administrators have written are there after each change."""
        others = (
            f"(OA;;CR;{SEND};;S-1-5-21-1-2-3-7)(A;;RPWP;;;S-1-5-21-1-2-3-8)"
            "(OD;;WP;4580ad25-d407-48d2-ad24-43e6e56793d7;;S-1-5-21-1-2-3-9)(A;CIID;GA;;;BA)"
        )
        present = parse_sddl(f"O:BAG:BAD:PAI{DEFAULT}{others}S:(AU;SA;WP;;;WD)")
        none, some = parse_sddl("D:"), parse_sddl(f"D:(A;;0x3f;;;{B})")
        made = to_directory(present, none, some)
        self.assertEqual(
            (made.owner, made.sacl, made.control), (present.owner, present.sacl, present.control)
        )
        self.assertLessEqual(set(entries(present)), set(entries(made)))
        self.assertEqual(entries(made)[-1], "D:(A;CIID;GA;;;BA)")
        self.assertEqual(to_directory(made, some, none), present)

    def test_only_the_change(self) -> None:
        """Entries that an administrator of the directory has removed do not return with a change about
        another account.
        """
        both = f"D:(A;;0x4;;;{B})(A;;0x4;;;WD)"
        made = self.change(f"D:{DEFAULT}{S.format(B)}", both, both + "(A;;0x2;;;WD)")
        self.assertNotIn(f"D:(OA;;0x100;{SEND};;WD)", made)
        self.assertIn(f"D:(OA;;0x100;{PEEK};;WD)", made)

    def test_the_account_that_is_named(self) -> None:
        """A change about an account restores what the list has of it, and a removal takes all of it away."""
        own = f"D:(A;;0x4;;;{B})"
        made = self.change(f"D:{DEFAULT}{P.format(B)}", own, own, BOB)
        self.assertEqual(made, entries(parse_sddl(f"D:{DEFAULT}{P.format(B)}{S.format(B)}")))
        made = self.change(f"D:{DEFAULT}{P.format(B)}{R.format(B)}", "D:", "D:", BOB)
        self.assertEqual(made, entries(parse_sddl(f"D:{DEFAULT}")))

    def test_removal_of_what_others_have_written(self) -> None:
        """A removal also takes away what others have allowed the account: each right, or all by one entry."""
        queues = "9a0dc343-c100-11d1-bbc5-0080c76670c0"
        for found, left in (
            (f"(OA;CI;CR;{SEND};;{B})", ""),
            (f"(OA;CI;CRRP;{SEND};{queues};{B})", f"(OA;CI;RP;{SEND};{queues};{B})"),
            (f"(A;;CR;;;{B})", ""),
            (f"(OA;;CR;;;{B})", ""),
            (f"(A;CI;RPCR;;;{B})", f"(A;CI;RP;;;{B})"),
            (f"(OD;;CR;{SEND};;{B})", ""),
            # What denies, what is inherited, of another account, another right, or all of the object.
            (f"(D;;CR;;;{B})", f"(D;;CR;;;{B})"),
            (f"(OA;CIID;CR;{SEND};;{B})", f"(OA;CIID;CR;{SEND};;{B})"),
            (f"(OA;CIIO;CR;{SEND};;{B})", f"(OA;CIIO;CR;{SEND};;{B})"),
            ("(A;;CR;;;WD)", "(A;;CR;;;WD)"),
            (f"(A;;GA;;;{B})", f"(A;;GA;;;{B})"),
        ):
            made = self.change(f"D:{DEFAULT}{found}", "D:", "D:", BOB)
            self.assertEqual(made, entries(parse_sddl(f"D:{DEFAULT}{left}")), found)

    def test_rights_to_the_object(self) -> None:
        """They come with the command that gives them, and go with the one that takes them away."""
        before, after = f"D:(A;;0x4;;;{B})", f"D:(A;;0x34;;;{B})"
        given = self.change(f"D:{DEFAULT}{S.format(B)}", before, after)
        self.assertEqual(given, entries(parse_sddl(f"D:{DEFAULT}{S.format(B)}(A;;RPWP;;;{B})")))
        taken = self.change(f"D:{DEFAULT}{S.format(B)}(A;;RPWP;;;{B})", after, before)
        self.assertEqual(taken, entries(parse_sddl(f"D:{DEFAULT}{S.format(B)}")))


SIDS = st.sampled_from((EVERYONE, ANONYMOUS, BOB, CAROL, CLERKS))
TOKENS = (token(ANONYMOUS, EVERYONE), token(BOB, EVERYONE, CLERKS), token(CAROL, EVERYONE), token(CLERKS))
MASKS = st.integers(0, 0xFF).map(lambda bits: (bits & 0xF) | (bits >> 4 & 3) << 4 | (bits >> 6) << 16)


def expressible(mask: int) -> int:
    """A mask that may be allowed: receiving includes peeking."""
    return mask | 2 if mask & 0b1001 else mask


@st.composite
def lists(draw: st.DrawFn) -> SecurityDescriptor:
    """Any list of a queue that a directory can hold."""

    def some(make: object, masks: Iterable[int]) -> list[Ace]:
        return [make(draw(SIDS), mask) for mask in masks if mask]  # type: ignore[operator]

    denied = some(denying, draw(st.lists(MASKS, max_size=4)))
    allowed = some(allowing, map(expressible, draw(st.lists(MASKS, max_size=4))))
    return SecurityDescriptor(dacl=Acl((*denied, *allowed)))


class RoundTripTests(SynchronousTestCase):
    """Round trips of any access lists."""

    @given(lists())
    def test_there_and_back(self, listed: SecurityDescriptor) -> None:
        """An access list grants the same rights after a round trip through a directory, for every account."""
        made = to_directory(SecurityDescriptor(dacl=Acl()), None, listed)
        back = from_directory(SecurityDescriptor.from_bytes(made.to_bytes()))
        for who in TOKENS:
            for right in (0x1, 0x2, 0x3, 0x4, 0x8, 0xA, 0x10, 0x20, 0x10000, 0x20000, 0x40000, 0x80000):
                here = check_access(listed, who, right, QUEUE_KIND).granted
                there = check_access(back, who, right, QUEUE_KIND).granted
                self.assertEqual(here, there, f"{right:x}: {format_sddl(listed)} and {format_sddl(back)}")

    @given(lists())
    def test_judged_by_a_directory(self, listed: SecurityDescriptor) -> None:
        """[MS-ADTS] 5.1.3.3.4: a directory judges what is written there as MSMQ judges the list."""
        made = to_directory(class_default(DOMAIN), None, listed)
        for who in TOKENS:
            for right, mask in ((PEEK, 0x2), (SEND, 0x4)):
                here = check_access(listed, who, mask, QUEUE_KIND).granted
                self.assertEqual(here, is_allowed_there(made, who, right), f"{right}: {format_sddl(listed)}")
            for right, mask in ((RECEIVE, 0x3), (RECEIVE_JOURNAL, 0xA)):
                if check_access(listed, who, mask, QUEUE_KIND).granted:
                    self.assertTrue(is_allowed_there(made, who, right), format_sddl(listed))

    @given(lists(), SIDS, MASKS, st.booleans())
    def test_no_right_that_was_not_asked_for(
        self, listed: SecurityDescriptor, sid: bytes, mask: int, is_denial: bool
    ) -> None:
        """A change allows the account that it names the rights that it names, and no other account any."""
        entry = denying(sid, mask) if is_denial else allowing(sid, expressible(mask))
        present = class_default(DOMAIN)
        assert present.dacl is not None
        try:
            made = to_directory(present, listed, with_entry(listed, entry), sid)
        except LocalProtocolError:
            # Denied to look at messages, an account that may take them has a right that a directory has not.
            return
        assert made.dacl is not None
        of_object = entry.mask & 0xF0000
        asked = of_object | (entry.mask & 0x10) << 1 | (entry.mask & 0x20) >> 1
        for ace in set(made.dacl.aces) - set(present.dacl.aces):
            assert isinstance(ace, Ace)
            if ace.type is AceType.ACCESS_ALLOWED:
                self.assertEqual((ace.sid, ace.mask & ~asked, is_denial), (sid, 0, False))
            elif ace.type is AceType.ACCESS_ALLOWED_OBJECT:
                self.assertEqual(ace.mask, CONTROL_ACCESS)

    @given(lists(), SIDS, MASKS)
    def test_a_change_and_back(self, listed: SecurityDescriptor, sid: bytes, mask: int) -> None:
        """An account that is allowed something and revoked leaves the directory as it was."""
        bare = without_entries_of(listed, sid)
        more = with_entry(bare, allowing(sid, expressible(mask)))
        before = to_directory(class_default(DOMAIN), None, bare)
        after = to_directory(before, bare, more, sid) if expressible(mask) else before
        back = to_directory(after, more, bare, sid)
        self.assertEqual(back.dacl, before.dacl)

    @given(st.binary(max_size=64), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFF))
    def test_any_entry_is_read(self, data: bytes, mask: int, flags: int) -> None:
        """Any entry of a directory is read to rights of queues, and to no others."""
        data = data[: len(data) & ~3]
        for kind in AceType:
            ace = Ace(kind, mask, BOB, flags, data=data)
            made = from_directory(SecurityDescriptor(dacl=Acl((ace,))))
            assert made.dacl is not None
            for read in made.dacl.aces:
                assert isinstance(read, Ace)
                self.assertFalse(read.mask & ~QUEUE_KIND.every_right)

    def test_message_rights(self) -> None:
        """The four rights to messages are all that is translated to control access rights."""
        self.assertEqual(MESSAGE_RIGHTS, 0xF)
        self.assertTrue(is_allowed_there(class_default(DOMAIN), token(parse_sid("S-1-5-18")), SEND))
        self.assertFalse(is_allowed_there(class_default(DOMAIN), token(BOB, AUTHENTICATED_USERS), SEND))
