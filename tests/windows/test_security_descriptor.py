"""[MS-DTYP] 2.4.4 to 2.4.6: security descriptors as bytes."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.windows.access_check import Token, check_access
from msmq.windows.access_masks import (
    CONNECTED_NETWORK_KIND,
    ENTERPRISE_KIND,
    QUEUE_KIND,
    QUEUE_MANAGER_KIND,
    SITE_KIND,
)
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import (
    Control,
    SecurityDescriptor,
    allow,
    deny,
    restricted,
    with_entry,
    without_entries_of,
)
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, UnknownAce
from msmq.windows.well_known_sids import ADMINISTRATORS, ANONYMOUS, EVERYONE, parse_principal, sid_text
from msmq.wire.sid import parse_sid

# As a Windows tool writes it: owner and group behind the head, then the DACL of two entries.
PLAIN = bytes.fromhex(
    "01000480"  # revision, Sbz1, Control: SELF_RELATIVE, DACL_PRESENT
    "14000000 24000000 00000000 34000000"  # owner, group, SACL, DACL
    "01020000 00000005 20000000 20020000"  # S-1-5-32-544
    "01020000 00000005 20000000 20020000"
    "02003000 02000000"  # ACL_REVISION, 48 bytes, two entries
    "01001400 04000000 01010000 00000005 07000000"  # deny 0x4 to S-1-5-7
    "00001400 3f000f00 01010000 00000001 00000000"  # allow 0xf003f to S-1-1-0
)

DESCRIPTION = SecurityDescriptor(
    ADMINISTRATORS, ADMINISTRATORS, Acl((deny(ANONYMOUS, 4), allow(EVERYONE, 0xF003F)))
)

SIDS = st.sampled_from(["S-1-1-0", "S-1-5-7", "S-1-5-21-1-2-3-1001", "S-1-0x0100000000FF-7"]).map(parse_sid)
FOURS = st.binary(max_size=6).map(lambda data: data * 4)
MASKS = st.integers(0, 0xFFFFFFFF)
FLAGS = st.integers(0, 255)
OBJECT_TYPES = (
    AceType.ACCESS_ALLOWED_OBJECT,
    AceType.ACCESS_DENIED_OBJECT,
    AceType.SYSTEM_AUDIT_CALLBACK_OBJECT,
)
ACES = st.one_of(
    st.builds(
        Ace,
        st.sampled_from([AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_CALLBACK]),
        MASKS,
        SIDS,
        FLAGS,
        data=FOURS,
    ),
    st.builds(
        Ace,
        st.sampled_from(OBJECT_TYPES),
        MASKS,
        SIDS,
        FLAGS,
        st.none() | st.uuids(),
        st.none() | st.uuids(),
        FOURS,
    ),
    st.builds(UnknownAce, st.sampled_from([3, 4, 8, 0x10, 0x14, 0xFF]), FLAGS, FOURS),
)
ACLS = st.none() | st.builds(Acl, st.lists(ACES, max_size=4).map(tuple))
DESCRIPTORS = st.builds(
    SecurityDescriptor,
    st.none() | SIDS,
    st.none() | SIDS,
    ACLS,
    ACLS,
    st.integers(0, 0x3FFF).map(lambda bits: Control(bits & ~0x14)),
    st.integers(0, 255),
)


def read(data: bytes) -> SecurityDescriptor | None:
    """The descriptor, or C{None} if it is refused as it should be; any other error is one of ours."""
    try:
        return SecurityDescriptor.from_bytes(data)
    except RemoteProtocolError as error:
        assert str(error)
        return None


class BytesTests(SynchronousTestCase):
    """Descriptors that are read and written."""

    def test_a_descriptor_of_windows(self) -> None:
        """The fields of a descriptor of Windows are at their offsets."""
        self.assertEqual(SecurityDescriptor.from_bytes(PLAIN), DESCRIPTION)
        self.assertEqual(SecurityDescriptor.from_bytes(bytearray(PLAIN)), DESCRIPTION)
        self.assertEqual(SecurityDescriptor.from_bytes(memoryview(PLAIN)), DESCRIPTION)
        self.assertEqual(
            DESCRIPTION.control, Control.SELF_RELATIVE | Control.DACL_PRESENT, "whatever it was made with"
        )

    def test_without_an_owner(self) -> None:
        """Every part may be missing."""
        empty = SecurityDescriptor()
        self.assertEqual(empty.to_bytes().hex(), "01000080" + "00" * 16)
        self.assertEqual(SecurityDescriptor.from_bytes(empty.to_bytes()), empty)

    def test_null_and_empty_lists_stay_what_they_are(self) -> None:
        """A NULL list grants all access, an empty one none."""
        null = SecurityDescriptor(control=Control.DACL_PRESENT)
        self.assertIsNone(SecurityDescriptor.from_bytes(null.to_bytes()).dacl)
        denies_all = SecurityDescriptor(dacl=Acl())
        self.assertEqual(SecurityDescriptor.from_bytes(denies_all.to_bytes()).dacl, Acl())

    @given(DESCRIPTORS)
    def test_written_descriptors_are_read(self, descriptor: SecurityDescriptor) -> None:
        """Every descriptor round-trips, with entries of unknown types; every prefix of it is refused."""
        data = descriptor.to_bytes()
        self.assertEqual(SecurityDescriptor.from_bytes(data), descriptor)
        self.assertEqual(SecurityDescriptor.from_bytes(data + b"rubbish behind it"), descriptor)

    def test_cut_short(self) -> None:
        """At any byte."""
        for size in range(len(PLAIN)):
            self.assertIsNone(read(PLAIN[:size]), size)

    @given(st.integers(0, len(PLAIN) - 1), st.integers(0, 255))
    def test_any_byte_is_another(self, position: int, byte: int) -> None:
        """It is read, or refused with the one error."""
        read(PLAIN[:position] + bytes([byte]) + PLAIN[position + 1 :])

    @given(st.binary(max_size=200))
    def test_garbage(self, data: bytes) -> None:
        """Is refused with the one error, also behind a head that looks well."""
        read(data)
        read(PLAIN[:20] + data)

    def test_errors_name_the_field(self) -> None:
        """With the field, and its position."""
        for position, byte, words in (
            (0, 2, "SECURITY_DESCRIPTOR.Revision at offset 0: 2 is not 1"),
            (3, 0, "SECURITY_DESCRIPTOR.Control at offset 2: lacks SELF_RELATIVE"),
            (2, 0, "SECURITY_DESCRIPTOR.OffsetDacl at offset 20: 52 although Control lacks"),
            (4, 3, "OffsetOwner at offset 20: 3 is not between the header and the end of 100 bytes"),
            (5, 9, "OffsetOwner at offset 20: 2324 is not between the header and the end of 100 bytes"),
            (20, 7, "SID.Revision at offset 20: 7 is not 1"),
            (21, 16, "SID.SubAuthorityCount at offset 21: 16 is more than 15"),
            (52, 3, "ACL.AclRevision at offset 52: 3 is neither 2 nor 4"),
            (54, 7, "ACL.AclSize at offset 54: 7 is less than 8"),
            (54, 49, "ACL.AclSize"),
            (56, 3, "ACE.AceType at offset 100"),
            (62, 0x15, "ACE.AceSize at offset 62: 21 is not a multiple of 4 from 4 on"),
            (62, 0x50, "ACE.AceSize"),
            (62, 0, "ACE.AceSize at offset 62: 0 is not a multiple of 4 from 4 on"),
        ):  # fmt: skip
            data = PLAIN[:position] + bytes([byte]) + PLAIN[position + 1 :]
            error = self.assertRaises(RemoteProtocolError, SecurityDescriptor.from_bytes, data)
            self.assertIn(words, str(error))

    def test_wrong_counts_and_sizes_are_detected_early(self) -> None:
        """65535 entries announced, none there."""
        self.assertIsNone(read(PLAIN[:56] + b"\xff\xff" + PLAIN[58:]))
        nothing = PLAIN[:52] + bytes.fromhex("0200ffffffff0000") + b"\0\0\4\0" * 16381
        self.assertIsNone(read(nothing))
        many = PLAIN[:52] + bytes.fromhex("0200fcff") + (16381).to_bytes(4, "little") + b"\xff\0\4\0" * 16381
        descriptor = SecurityDescriptor.from_bytes(many)
        assert descriptor.dacl is not None
        self.assertEqual(len(descriptor.dacl.aces), 16381)

    def test_parts_may_overlap_and_stand_in_any_order(self) -> None:
        """Owner and group are one SID here, behind the list."""
        acl = Acl((allow(EVERYONE, 4),)).to_bytes()
        head = bytes.fromhex("01000480") + b"".join(
            number.to_bytes(4, "little") for number in (20 + len(acl), 20 + len(acl), 0, 20)
        )
        descriptor = SecurityDescriptor.from_bytes(head + acl + ADMINISTRATORS)
        self.assertEqual(
            descriptor, SecurityDescriptor(ADMINISTRATORS, ADMINISTRATORS, Acl((allow(EVERYONE, 4),)))
        )

    def test_what_does_not_fit_is_refused_by_name(self) -> None:
        """Invalid values of our own are refused with the name of the field."""
        self.assertRaises(LocalProtocolError, Ace, AceType.ACCESS_ALLOWED, 4, EVERYONE, data=b"abc")
        guid = parse_sddl("D:(OA;;4;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)").dacl
        assert guid is not None
        self.assertRaises(LocalProtocolError, attrs.evolve, guid.aces[0], type=AceType.ACCESS_ALLOWED)
        many = SecurityDescriptor(dacl=Acl((allow(EVERYONE, 1),) * 4000))
        self.assertRaises(LocalProtocolError, many.to_bytes)


class RightsTests(SynchronousTestCase):
    """Entries have the rights that there are to their object."""

    def test_a_foreign_right_is_refused(self) -> None:
        """Entries have the rights that there are to their object alone.

        MQDMPR-3.1.1.2-14, MQDMPR-3.1.1.1-23, MQDMPR-3.1.1.6-05, MQDMPR-3.1.1.7-03, MQDMPR-3.1.1.9-02.
        """
        for kind, other in (
            (QUEUE_KIND, 0x80),
            (QUEUE_MANAGER_KIND, 0x8),
            (ENTERPRISE_KIND, 0x8),
            (SITE_KIND, 0x40),
            (CONNECTED_NETWORK_KIND, 0x2),
        ):
            descriptor = SecurityDescriptor(dacl=Acl((allow(EVERYONE, 0x20), allow(EVERYONE, other | 1))))
            error = self.assertRaises(LocalProtocolError, restricted, descriptor, kind)
            self.assertEqual(
                str(error),
                f"entry 2 of the DACL, about S-1-1-0, has 0x{other:08X} in its mask, which is not a right to"
                f" a {kind.name}",
            )

    def test_generic_rights_become_those_that_they_stand_for(self) -> None:
        """In every entry; a descriptor without a list stays as it is."""
        dacl = restricted(parse_sddl("D:(A;;GR;;;WD)(D;;GA;;;AN)"), QUEUE_KIND).dacl
        assert dacl is not None
        self.assertEqual([ace.mask for ace in dacl.aces if isinstance(ace, Ace)], [0x2002B, 0xF003F])
        bare = SecurityDescriptor(EVERYONE)
        self.assertEqual(restricted(bare, QUEUE_KIND), bare)


class EntryTests(SynchronousTestCase):
    """Entries that are put in, and taken out."""

    def test_entries_stand_in_their_order(self) -> None:
        """Denying entries precede allowing ones, and inherited entries are last."""
        descriptor = parse_sddl("D:(D;;0x1;;;AN)(A;;0x2;;;WD)(D;ID;0x4;;;WD)(A;ID;0x4;;;AU)")
        for ace in (deny(ADMINISTRATORS, 8), allow(ADMINISTRATORS, 4)):
            descriptor = with_entry(descriptor, ace)
        self.assertEqual(
            descriptor,
            parse_sddl(
                "D:(D;;0x1;;;AN)(D;;0x8;;;BA)(A;;0x2;;;WD)(A;;0x4;;;BA)(D;ID;0x4;;;WD)(A;ID;0x4;;;AU)"
            ),
        )

    def test_one_entry_for_what_one_may(self) -> None:
        """A right more goes into the entry that is there; what is allowed is not denied any more."""
        descriptor = parse_sddl("D:(D;;0x3;;;AN)(A;;0x20;;;AN)(A;;0x1;;;WD)")
        descriptor = with_entry(descriptor, allow(ANONYMOUS, 2))
        self.assertEqual(descriptor, parse_sddl("D:(D;;0x1;;;AN)(A;;0x22;;;AN)(A;;0x1;;;WD)"))
        descriptor = with_entry(descriptor, deny(ANONYMOUS, 0x20))
        self.assertEqual(descriptor, parse_sddl("D:(D;;0x21;;;AN)(A;;0x2;;;AN)(A;;0x1;;;WD)"))
        descriptor = with_entry(descriptor, allow(ANONYMOUS, 0x21))
        self.assertEqual(descriptor, parse_sddl("D:(A;;0x23;;;AN)(A;;0x1;;;WD)"))

    def test_into_no_list(self) -> None:
        """A list that grants everyone everything takes no entry; a denial begins with that grant as an
        entry.
        """
        nothing = SecurityDescriptor(ADMINISTRATORS)
        self.assertEqual(with_entry(nothing, allow(ANONYMOUS, 4)), nothing)
        denied = with_entry(nothing, deny(ANONYMOUS, 4))
        self.assertEqual(denied, parse_sddl("O:BAD:(D;;0x4;;;AN)(A;;GA;;;WD)"))

    def test_all_of_one(self) -> None:
        """All entries of one account are removed, allowing and denying."""
        descriptor = parse_sddl(
            "D:(XD;;0x1;;;AN;(a))(D;;0x1;;;AN)(A;;0x2;;;WD)(A;IO;0x4;;;AN)(AU;SA;0x4;;;AN)(XA;;0x1;;;AN;(a))"
        )
        self.assertEqual(
            without_entries_of(descriptor, ANONYMOUS), parse_sddl("D:(A;;0x2;;;WD)(AU;SA;0x4;;;AN)")
        )
        self.assertEqual(without_entries_of(SecurityDescriptor(), ANONYMOUS), SecurityDescriptor())

    def test_flags_keep_entries_apart(self) -> None:
        """An inherit-only entry is not merged with one for the object."""
        descriptor = with_entry(parse_sddl("D:(A;IO;0x2;;;AN)"), allow(ANONYMOUS, 4))
        self.assertEqual(descriptor, parse_sddl("D:(A;IO;0x2;;;AN)(A;;0x4;;;AN)"))
        self.assertTrue(AceFlags.INHERIT_ONLY)

    def test_a_change_takes_effect(self) -> None:
        """A change takes effect for any existing list, in any order: a denied account has no access."""
        anonymous = Token(ANONYMOUS, frozenset({EVERYONE}))
        for before in (
            "D:(A;;0xf003f;;;WD)(D;;0x1;;;AN)",
            "D:(A;;0xf003f;;;AN)(D;;0x1;;;AN)(A;;0x4;;;WD)(D;;0x2;;;AN)",
            "D:(A;OI;0x4;;;AN)",
            "D:(A;ID;0x4;;;WD)(D;ID;0x1;;;AN)",
            "D:(D;IO;0x4;;;AN)(A;;0x4;;;WD)",
        ):
            after = with_entry(parse_sddl(before), deny(ANONYMOUS, 4))
            self.assertFalse(check_access(after, anonymous, 4, QUEUE_KIND).granted, before)
        self.assertEqual(
            with_entry(parse_sddl("D:(A;;0x7;;;WD)(D;;0x1;;;AN)"), deny(ANONYMOUS, 4)),
            parse_sddl("D:(D;;0x4;;;AN)(A;;0x7;;;WD)(D;;0x1;;;AN)"),
        )
        # A flag that is for children changes nothing of what it is to the queue itself.
        for before in ("D:(D;OI;0x4;;;AN)", "D:(A;;0x2;;;WD)(D;NP;0x4;;;AN)"):
            after = with_entry(parse_sddl(before), allow(ANONYMOUS, 4))
            self.assertTrue(check_access(after, anonymous, 4, QUEUE_KIND).granted, before)


class PrincipalTests(SynchronousTestCase):
    """Well-known accounts by name."""

    def test_names(self) -> None:
        """Read in any case, and shown with the SID."""
        self.assertEqual(parse_principal("Everyone"), EVERYONE)
        self.assertEqual(parse_principal("BA"), ADMINISTRATORS)
        self.assertEqual(parse_principal("S-1-5-7"), ANONYMOUS)
        self.assertEqual(sid_text(ANONYMOUS), "anonymous (S-1-5-7)")
        self.assertEqual(sid_text(parse_sid("S-1-5-21-1-2-3-4")), "S-1-5-21-1-2-3-4")
        error = self.assertRaises(ValueError, parse_principal, "alice")
        self.assertIn("'alice' is neither a SID nor any of everyone, anonymous", str(error))
