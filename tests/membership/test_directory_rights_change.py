"""Which entries of a queue's directory object a change of its list adds, and which it takes away."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.rights import PEEK, RECEIVE, RECEIVE_JOURNAL, SEND, from_directory
from msmq.membership.rights_change import message_entries, to_directory
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor, allow
from msmq.windows.security_descriptor_aces import Acl
from msmq.wire.sid import parse_sid

B, C = "S-1-5-21-1-2-3-1105", "S-1-5-21-1-2-3-1106"
BOB = parse_sid(B)
SEND_AS = "ab721a54-1e2f-11d0-9819-00aa0040529b"
BASE = "(A;;LCRPLORC;;;AU)"


def changed(present: str, before: str, after: str, about: bytes | None = None) -> str:
    """The list of the object after a change, as text."""
    found, former, new = (parse_sddl(f"D:{text}") for text in (present, before, after))
    return format_sddl(to_directory(found, former, new, about))


def listed(entries: str) -> str:
    return format_sddl(parse_sddl(f"D:{entries}"))


class ChangeTests(SynchronousTestCase):
    """Small changes of small lists."""

    def test_what_is_there_already(self) -> None:
        """A right that an entry of the object itself gives is not added again, with or without other rights
        in that entry; one for descendants, or of another kind, does not count.
        """
        message, properties = f"(OA;;CR;{SEND};;{B})", f"(A;;WP;;;{B})"
        for entry, mask, added in (
            (message, 0x4, ""),
            (f"(OA;;CRRP;{SEND};;{B})", 0x4, ""),
            (f"(OA;;GA;{SEND};;{B})", 0x4, ""),
            (f"(OA;;RP;{SEND};;{B})", 0x4, message),
            (f"(OA;CI;CR;{SEND};;{B})", 0x4, message),
            (f"(OA;;CR;{PEEK};;{B})", 0x4, message),
            (f"(OA;;CR;{SEND};;{C})", 0x4, message),
            (properties, 0x10, ""),
            (f"(A;;GW;;;{B})", 0x10, ""),
            (f"(A;;RP;;;{B})", 0x10, properties),
            (f"(OA;;WP;{SEND_AS};;{B})", 0x10, properties),
        ):
            made = changed(BASE + entry, "", f"(A;;0x{mask:x};;;{B})")
            self.assertEqual(made, listed(BASE + entry + added), entry)

    def test_what_is_taken_away(self) -> None:
        """A right that the list loses goes from the entry for it; entries for descendants, of others, and
        plain ones with more than the rights to a queue, stay.
        """
        for entry, left in (
            (f"(OA;;CR;{SEND};;{B})", ""),
            (f"(OA;;CRRP;{SEND};;{B})", f"(OA;;RP;{SEND};;{B})"),
            (f"(OA;CI;CR;{SEND};;{B})", f"(OA;CI;CR;{SEND};;{B})"),
            (f"(OA;;CR;{PEEK};;{B})", f"(OA;;CR;{PEEK};;{B})"),
            (f"(OA;;CR;{SEND};;{C})", f"(OA;;CR;{SEND};;{C})"),
            (f"(A;;RPWP;;;{B})", f"(A;;RP;;;{B})"),
            (f"(A;;WP;;;{B})", ""),
            (f"(A;;RPWPLC;;;{B})", f"(A;;RPWPLC;;;{B})"),
            (f"(A;CI;WP;;;{B})", f"(A;CI;WP;;;{B})"),
        ):
            made = changed(BASE + entry, f"(A;;0x14;;;{B})", "")
            self.assertEqual(made, listed(BASE + left), entry)

    def test_denial_with_a_condition_on_the_object(self) -> None:
        """It is read without its condition, and is not written so: a change for its account is refused."""
        denial = f"(XD;;CR;;;{B};(Exists @Resource.secret))"
        entry, other = f"(OA;;CR;{SEND};;{B})", f"(OA;;CR;{SEND};;{C})"
        before = format_sddl(from_directory(parse_sddl(f"D:{denial}{BASE}{entry}")))[2:]
        for about, after in ((BOB, before), (BOB, f"(A;;0x4;;;{B})")):
            with self.assertRaises(LocalProtocolError) as raised:
                changed(denial + BASE + entry, before, after, about)
            self.assertIn("whose condition depends on its attributes", str(raised.exception))
        made = changed(denial + BASE + entry, before, f"{before}(A;;0x4;;;{C})", parse_sid(C))
        self.assertEqual(made, listed(denial + BASE + entry + other))

    def test_account_without_any_entry(self) -> None:
        """When an account leaves the list, entries for other rights, and without control access, stay."""
        for entry in (f"(OA;;RP;{SEND};;{B})", f"(OA;;CR;{SEND_AS};;{B})", f"(A;;RPWP;;;{B})"):
            self.assertEqual(changed(BASE + entry, "", "", BOB), listed(BASE + entry), entry)

    def test_former_entries_without_a_right(self) -> None:
        """What the former list has and a directory cannot express does not prevent the change, in the new
        one it does.
        """
        taking = f"(A;;0x1;;;{B})"
        self.assertEqual(changed(BASE, taking, f"(A;;0x4;;;{B})"), listed(f"{BASE}(OA;;CR;{SEND};;{B})"))
        self.assertRaises(LocalProtocolError, changed, BASE, "", taking)
        self.assertEqual(message_entries(parse_sddl(f"D:{taking}")), [])

    def test_entries_of_a_directory_in_the_list_of_a_queue(self) -> None:
        """An entry with an object type has no meaning in the list of a queue."""
        self.assertEqual(changed(BASE, "", f"(OA;;0x4;{SEND};;{B})"), listed(BASE))

    def test_no_list(self) -> None:
        """A queue without a list allows everybody everything."""
        made = to_directory(parse_sddl(f"D:{BASE}"), None, SecurityDescriptor())
        rights = "".join(f"(OA;;CR;{right};;WD)" for right in (RECEIVE, PEEK, SEND, RECEIVE_JOURNAL))
        self.assertEqual(format_sddl(made), listed(f"{BASE}{rights}(A;;RPWPSDRCWDWO;;;WD)"))

    def test_greatest_list(self) -> None:
        """A list has at most 65,535 bytes with its own eight, whose number is stored in two."""
        accounts = [parse_sid(f"S-1-5-21-1-2-3-{rid}") for rid in range(1169)]
        wanted = SecurityDescriptor(
            dacl=Acl(tuple(allow(sid, 0x4) for sid in (*accounts, parse_sid("S-1-5-32-545"))))
        )
        made = to_directory(parse_sddl("D:"), None, wanted)
        assert made.dacl is not None
        self.assertEqual(sum(len(ace.to_bytes()) for ace in made.dacl.aces), 65_508)
        self.assertEqual(SecurityDescriptor.from_bytes(made.to_bytes()), made)
        # One entry of twenty bytes more.
        refused = self.assertRaises(
            LocalProtocolError, to_directory, parse_sddl("D:(A;;RP;;;WD)"), None, wanted
        )
        self.assertIn("1171 entries are more than the list of an object can hold", str(refused))


class ReadingTests(SynchronousTestCase):
    """What the entries of an object say of the queue."""

    def test_joined(self) -> None:
        """Entries of one kind for one account that follow each other are one; others are not."""
        one, two = (f"(OA;;CR;{right};;{{}})" for right in (SEND, PEEK))
        condition, other = "(Member_of {SID(BA)})", "(Member_of {SID(BU)})"
        for found, read in (
            (one.format(B) + two.format(B), f"(A;;0x6;;;{B})"),
            (one.format(B) + one.format(B), f"(A;;0x4;;;{B})"),
            (one.format(C) + one.format(B) + two.format(B), f"(A;;0x4;;;{C})(A;;0x6;;;{B})"),
            (
                one.format(B) + one.format(C) + two.format(B),
                f"(A;;0x4;;;{B})(A;;0x4;;;{C})(A;;0x2;;;{B})",
            ),
            (one.format(B).replace("OA", "OD") + two.format(B), f"(D;;0x4;;;{B})(A;;0x2;;;{B})"),
            (
                f"(XA;;WP;;;{B};{condition})(XA;;RP;;;{B};{condition})(XA;;SD;;;{B};{other})",
                f"(XA;;0x30;;;{B};{condition})(XA;;0x10000;;;{B};{other})",
            ),
            (f"(A;;WP;;;{B})(XA;;RP;;;{B};{condition})", f"(A;;0x10;;;{B})(XA;;0x20;;;{B};{condition})"),
        ):
            self.assertEqual(format_sddl(from_directory(parse_sddl(f"D:{found}"))), listed(read), found)

    def test_no_list(self) -> None:
        """An object without a list is a queue without one; owner and group are those of the object."""
        found = parse_sddl("O:BAG:BU")
        self.assertEqual(from_directory(found), SecurityDescriptor(found.owner, found.group))
        made = from_directory(parse_sddl("O:BAG:BUD:"))
        self.assertEqual((made.owner, made.group, made.dacl), (found.owner, found.group, Acl()))
