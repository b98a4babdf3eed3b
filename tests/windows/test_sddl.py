"""[MS-DTYP] 2.5.1: security descriptors as text."""

from __future__ import annotations

from struct import pack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.windows.claims import ClaimKind, ResourceAttribute, resource_claims
from msmq.windows.sddl import MOST_CHARACTERS, format_sddl, parse_sddl
from msmq.windows.security_descriptor import Control, SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceType, Acl, AnyAce, UnknownAce
from msmq.windows.well_known_sids import ANONYMOUS, EVERYONE, SDDL_DOMAIN_RIDS, SDDL_SIDS
from msmq.wire.sid import format_sid, parse_sid
from tests.windows.access_support import DOMAIN, ask_samba, rows
from tests.windows.test_security_descriptor import DESCRIPTORS

TEXTS = (
    "",
    "O:BA",
    "O:S-1-5-21-1-2-3-500G:BA",
    "D:",
    "D:NO_ACCESS_CONTROL",
    "D:PARAI",
    "O:BAG:BAD:P(D;;GA;;;AN)(A;OICIIO;0x26;;;S-1-5-21-1-2-3-1001)S:AI(AU;SAFA;WD;;;WD)",
    "D:(OA;;0x4;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)",
    "D:(OD;CI;0x4;06bd3202-df3e-11d1-9c86-006008764d0e;bf967aba-0de6-11d0-a285-00aa003049e2;WD)",
    "S:(ML;;0x1;;;HI)",
    "D:(A;;GAGXGWGRWOWDRCSD;;;OW)",
    'D:(XD;CI;0x4;;;AN;(Title == "V)P;" || @Device.x != -0x5))(A;;0x4;;;WD)',
    "O:BAD:(XA;;0x4;;;AU;(Member_of {SID(BA), SID(S-1-5-21-1-2-3-1001)} && !(Exists @Resource.a%0020b)))",
    'D:(ZA;;0x4;06bd3202-df3e-11d1-9c86-006008764d0e;;WD;(a))S:(XU;SAFA;WD;;;WD;(a Any_of {#0a, "x"}))',
)


ATTRIBUTES = {
    '("Project",TS,0x0,"Windows","SQL")': ResourceAttribute("Project", ClaimKind.STRING, ("Windows", "SQL")),
    '("Secrecy",TU,0x2,3,18446744073709551615)': ResourceAttribute(
        "Secrecy", ClaimKind.UINT64, (3, (1 << 64) - 1), 2
    ),
    '("a%0020%0022b\u00fc\U0001f600",TI,0x10001,-9223372036854775808)': ResourceAttribute(
        'a "b\u00fc\U0001f600', ClaimKind.INT64, (-(1 << 63),), 0x10001
    ),
    '("Owner",TD,0x3f,BA,S-1-5-21-1-2-3-4)': ResourceAttribute(
        "Owner", ClaimKind.SID, (parse_sid("S-1-5-32-544"), parse_sid("S-1-5-21-1-2-3-4")), 0x3F
    ),
    '("Key",TX,0x0,#0102ff,#)': ResourceAttribute("Key", ClaimKind.OCTETS, (b"\1\2\xff", b"")),
    '("Open",TB,0x0,1,0)': ResourceAttribute("Open", ClaimKind.BOOLEAN, (1, 0)),
    '("Nothing",TS,0x0)': ResourceAttribute("Nothing", ClaimKind.STRING, ()),
    '("Text",TS,0x0,"","(a);b)","\u00fc\U0001f600")': ResourceAttribute(
        "Text", ClaimKind.STRING, ("", "(a);b)", "\u00fc\U0001f600")
    ),
}
"""Texts of attributes, and what they say."""


class SddlTests(SynchronousTestCase):
    """Texts that are read and written."""

    def test_parsed_text_is_written(self) -> None:
        """Parsed text is written in the order of the document, with abbreviations."""
        for text in TEXTS:
            self.assertEqual(format_sddl(parse_sddl(text)), text)

    def test_other_notations(self) -> None:
        """Numbers in any base, rights of files and directories by their letters, parts in any order."""
        for text, same in (
            ("D:(A;;4;;;WD)", "D:(A;;0x4;;;WD)"),
            ("D:(A;;0x0004;;;S-1-1-0)", "D:(A;;0x4;;;WD)"),
            ("D:(A;;017;;;WD)", "D:(A;;0xf;;;WD)"),
            ("D:(A;;0;;;WD)", "D:(A;;0x0;;;WD)"),
            ("D:(A;;;;;WD)", "D:(A;;0x0;;;WD)"),
            ("D:(A;;CCDCLC;;;WD)", "D:(A;;0x7;;;WD)"),
            ("D:(A;;FAGR;;;WD)", "D:(A;;0x801f01ff;;;WD)"),
            ("D:AIP(A;IOCI;RCSD;;;WD)", "D:PAI(A;CIIO;RCSD;;;WD)"),
            ("D:(A;;GA;;;WD)O:BA", "O:BAD:(A;;GA;;;WD)"),
        ):
            self.assertEqual(format_sddl(parse_sddl(text)), same)

    def test_accounts_of_a_domain(self) -> None:
        """Abbreviations of domain accounts are resolved with the SID of a domain."""
        for letters, rid in SDDL_DOMAIN_RIDS.items():
            self.assertEqual(parse_sddl(f"O:{letters}", DOMAIN), parse_sddl(f"O:{format_sid(DOMAIN)}-{rid}"))
            error = self.assertRaises(RemoteProtocolError, parse_sddl, f"O:{letters}")
            self.assertIn(f"{letters} is an account of a domain, and no domain is given", str(error))

    def test_samba_reads_the_same(self) -> None:
        """Samba parses every text of the table, and every abbreviation, to the same result."""
        texts = {row.sddl for row in rows()} | set(TEXTS[1:])
        texts |= {f"O:{letters}" for letters in (*SDDL_SIDS, *SDDL_DOMAIN_RIDS)}
        asked = sorted(text for text in texts if "NO_ACCESS_CONTROL" not in text)
        read = 0
        for text, answer in zip(asked, ask_samba([{"sddl": text} for text in asked]), strict=True):
            if answer is None:
                # Letters and types of entries that its version does not know yet.
                is_known = (text.startswith("O:") and len(text) == 4) or "ML;" in text or "(a" in text
                self.assertTrue(is_known or "(X" in text, text)
                continue
            read += 1
            # It writes every list with the revision for entries about parts of an object.
            theirs = SecurityDescriptor.from_bytes(bytes.fromhex(answer))
            self.assertEqual(format_sddl(theirs), format_sddl(parse_sddl(text, DOMAIN)), text)
        self.assertGreater(read, 90)

    @given(DESCRIPTORS)
    def test_any_descriptor(self, descriptor: SecurityDescriptor) -> None:
        """A descriptor with a text form round-trips, except bits without one."""
        try:
            text = format_sddl(descriptor)
        except LocalProtocolError:
            return
        again = parse_sddl(text)
        self.assertEqual(format_sddl(again), text)
        self.assertEqual((again.owner, again.group), (descriptor.owner, descriptor.group))
        self.assertEqual(_entries(again.dacl), _entries(descriptor.dacl))

    def test_cut_short(self) -> None:
        """Every beginning of a text is read, or refused with the one error."""
        for text in TEXTS:
            for size in range(len(text)):
                try:
                    parse_sddl(text[:size])
                except RemoteProtocolError as error:
                    self.assertIn("SDDL", str(error))

    @given(st.text(st.sampled_from("OGDSAIPUX:();x0123456789-WBRLN =!&|{},@"), max_size=60))
    def test_garbage(self, text: str) -> None:
        """Is read, or refused with the one error."""
        for each in (
            text,
            "D:" + text,
            f"D:({text})",
            "O:S-1-" + text,
            f"D:(XA;;4;;;WD;({text}))",
            f'S:(RA;;;;;WD;("a",T{text}))',
        ):
            try:
                parse_sddl(each, DOMAIN)
            except RemoteProtocolError as error:
                self.assertIn("[MS-DTYP] 2.5.1 SDDL.", str(error))

    def test_errors_have_a_position(self) -> None:
        """With the part, and the number of the character."""
        for text, words in (
            ("X:BA", "text at offset 0: expected O:, G:, D: or S:"),
            ("O:BAO:BA", "O at offset 4: appears twice"),
            ("D:D:", "D at offset 2: appears twice"),
            ("O:", "O at offset 2: has no SID"),
            ("O:ZZ", "sid-string at offset 2: 'ZZ' is neither a SID nor an abbreviation of one"),
            ("O:S-1-5-99999999999", "sid-string at offset 2: 'S-1-5-99999999999' is neither a SID"),
            ("D:(A;;GA;;WD)", "ace at offset 3: has 5 fields, not 6"),
            ("D:(Q;;GA;;;WD)", "ace-type at offset 3: 'Q' is not one of A, D, AU"),
            ("D:(XA;;GA;;;WD)", "conditional-ace at offset 3: XA needs a condition"),
            ("D:(XA;;GA;;;WD;(a == b))", "cond-expr at offset 21: expected a value"),
            ("D:(XA;;GA;;;WD;(a)", "conditional-ace at offset 18: unexpected text"),
            ("D:(XA;;GA;;;WD;(Member_of {SID(ZZ)}))", "sid-string at offset 31: 'ZZ' is neither a SID"),
            ("D:(XA;;GA;;WD;(a))", "ace at offset 3: has 5 fields, not 6"),
            ("D:(A;;GA;;;WD;(a))", "text at offset 2: expected O:"),
            ("S:(RA;;;;;WD)", "resource-attribute-ace at offset 3: RA needs an attribute"),
            ("S:(RA;;4;;;WD;(\"a\",TI,0x0))", "offset 3: an entry with an attribute has no rights"),
            ("S:(RA;;;;;AN;(\"a\",TI,0x0))", "offset 3: an entry with an attribute has no rights"),
            ("S:(RA;;;;WD;(\"a\",TI,0x0))", "ace at offset 3: has 5 fields, not 6"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0)", "resource-attribute-ace at offset 25: unexpected text"),
            ("S:(RA;;;;;WD;(a,TI,0x0))", "attribute-data at offset 13: expected an attribute"),
            ("S:(RA;;;;;WD;(\"\",TI,0x0))", "attribute-data at offset 13: expected an attribute"),
            ("S:(RA;;;;;WD;(\"a b\",TI,0x0))", "attribute-data at offset 13: expected an attribute"),
            ("S:(RA;;;;;WD;(\"a\",TI,0))", "attribute-data at offset 13: expected an attribute"),
            ("S:(RA;;;;;WD;(\"a\",TZ,0x0))", "attribute-data at offset 18: TZ is not one of TI, TU, TS, TD"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x40))", "offset 23: the flags 0x40 have reserved bits"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0,x))", "attribute-data at offset 25: expected a whole number"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0,1 2))", "expected a comma or the end of the attribute"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0,09))", "attribute-data at offset 25: 09 is not a number"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0,9223372036854775808))", "does not fit into 64 bits"),
            ("S:(RA;;;;;WD;(\"a\",TU,0x0,-1))", "expected a whole number of 64 bits without a sign"),
            ("S:(RA;;;;;WD;(\"a\",TB,0x0,2))", "expected 0 or 1"),
            ("S:(RA;;;;;WD;(\"a\",TX,0x0,#123))", "expected octets as #0a"),
            ("S:(RA;;;;;WD;(\"a\",TD,0x0,ZZ))", "sid-string at offset 25: 'ZZ' is neither a SID"),
            ("S:(RA;;;;;WD;(\"a\",TI,0x0" + ",1" * 257 + "))", "has more than 256 values"),
            ("S:(RA;;;;;WD;(\"a\",TS,0x0,\"" + "x" * 40000 + "\"))", "the values of the attribute are too"),
            ("D:(A;ZZ;GA;;;WD)", "ace-flag-string at offset 3: 'ZZ' is not one of OI"),
            ("D:(A;;G;;;WD)", "ace-rights at offset 3: 'G' is not one of GA"),
            ("D:(A;;0x100000000;;;WD)", "ace-rights at offset 3: 0x100000000 does not fit into 32 bits"),
            ("D:(A;;09;;;WD)", "ace-rights at offset 3: 09 is not a number"),
            ("D:(OA;;4;xyz;;WD)", "guid at offset 3: 'xyz' is not a GUID"),
            ("D:(A;;4;06bd3202-df3e-11d1-9c86-006008764d0e;;WD)", "ObjectType: an entry of type ACCESS"),
            ("D:NO_ACCESS_CONTROL(A;;4;;;WD)", "has entries as well as NO_ACCESS_CONTROL"),
            ("D:(A;;4;;;WD", "text at offset 2: expected O:"),
            (" " * (MOST_CHARACTERS + 1), "text at offset 0: has 1048577 characters"),
        ):  # fmt: skip
            self.assertIn(words, str(self.assertRaises(RemoteProtocolError, parse_sddl, text)))

    def test_values_without_a_text_form(self) -> None:
        """Invalid conditions and attributes, unknown types and unknown flags have no text form."""
        attribute = ResourceAttribute("a", ClaimKind.STRING, ("x",)).to_bytes()
        aces: tuple[AnyAce, ...] = (
            Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=bytes(16)),
            Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=b"rubbish!"),
            Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 1, EVERYONE, data=attribute),
            Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, ANONYMOUS, data=attribute),
            Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, 0x20, data=attribute),
            *(
                Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=each.to_bytes())
                for each in (
                    ResourceAttribute("a", ClaimKind.STRING, ('"',)),
                    ResourceAttribute("", ClaimKind.STRING, ("x",)),
                    ResourceAttribute("a", ClaimKind.STRING, ("x",), 0x80),
                )
            ),
            Ace(AceType.ACCESS_ALLOWED_CALLBACK, 4, EVERYONE, data=b"artx"),
            Ace(AceType.ACCESS_ALLOWED, 4, EVERYONE, data=b"more"),
            Ace(AceType.ACCESS_ALLOWED, 4, EVERYONE, 0x20),
            UnknownAce(0x77, 0, b""),
        )
        for ace in aces:
            descriptor = SecurityDescriptor(None, None, Acl((ace,)))
            self.assertRaises(LocalProtocolError, format_sddl, descriptor)

    def test_attributes(self) -> None:
        """[MS-DTYP] 2.5.1.1 resource-attribute-ace: each type of value, as the document has it."""
        for text, attribute in ATTRIBUTES.items():
            sddl = f"S:(RA;;;;;WD;{text})"
            read = parse_sddl(sddl)
            assert read.sacl is not None
            [ace] = read.sacl.aces
            assert isinstance(ace, Ace)
            self.assertEqual((ace.type, ace.mask, ace.sid), (AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE))
            self.assertEqual(ResourceAttribute.read(ace.data), attribute)
            self.assertEqual(len(ace.data) % 4, 0)
            self.assertEqual(format_sddl(read), sddl)
            self.assertEqual(SecurityDescriptor.from_bytes(read.to_bytes()), read)
            self.assertIsNotNone(resource_claims(read.sacl))

    @given(st.data())
    def test_any_attribute(self, data: st.DataObject) -> None:
        """An attribute with a text form round-trips."""
        kind = data.draw(st.sampled_from(ClaimKind))
        texts = st.characters(exclude_characters='"\0', exclude_categories=())
        values: dict[ClaimKind, st.SearchStrategy[Any]] = {
            ClaimKind.INT64: st.integers(-(1 << 63), (1 << 63) - 1),
            ClaimKind.UINT64: st.integers(0, (1 << 64) - 1),
            ClaimKind.STRING: st.text(texts, max_size=9),
            ClaimKind.SID: st.sampled_from([EVERYONE, DOMAIN]),
            ClaimKind.BOOLEAN: st.integers(0, 1),
            ClaimKind.OCTETS: st.binary(max_size=9),
        }
        name = data.draw(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=9))
        held = data.draw(st.lists(values[kind], max_size=5))
        flags = data.draw(st.integers(0, 0x3F)) | data.draw(st.integers(0, 0xFFFF)) << 16
        made = ResourceAttribute(name, kind, tuple(held), flags).to_bytes()
        ace = Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=made)
        text = format_sddl(SecurityDescriptor(None, None, None, Acl((ace,))))
        again = parse_sddl(text).sacl
        assert again is not None and isinstance(again.aces[0], Ace)
        self.assertEqual(ResourceAttribute.read(again.aces[0].data), ResourceAttribute.read(made))

    def test_attributes_in_other_words(self) -> None:
        """Blanks, other bases of numbers, and SIDs in full are read as well; they are written in one
        notation.
        """
        for text, same in (
            ('S:(RA;CI;;;;S-1-1-0;("a",TI,0x0,1))', 'S:(RA;CI;;;;WD;("a",TI,0x0,1))'),
            ('S:(RA;;;;;WD; ( "a" , TI , 0x0 , +0x10 , 010 , -7 ))', 'S:(RA;;;;;WD;("a",TI,0x0,16,8,-7))'),
            ('S:(RA;;;;;WD;("a",TD,0x0,S-1-5-32-544))', 'S:(RA;;;;;WD;("a",TD,0x0,BA))'),
            ('S:(RA;;;;;WD;("a",TX,0x00000000,#0A))', 'S:(RA;;;;;WD;("a",TX,0x0,#0a))'),
        ):
            self.assertEqual(format_sddl(parse_sddl(text)), same)

    def test_other_layouts(self) -> None:
        """Where in an entry the parts of an attribute lie makes no difference to its text."""
        name, value = "a\0".encode("utf-16-le"), (7).to_bytes(8, "little")
        data = pack("<IHHIII", 20, 1, 0, 0, 1, 24) + name + value
        ace = Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, data=data)
        descriptor = SecurityDescriptor(None, None, None, Acl((ace,)))
        self.assertEqual(format_sddl(descriptor), 'S:(RA;;;;;WD;("a",TI,0x0,7))')

    def test_null_and_absent_lists(self) -> None:
        """One says so, the other says nothing."""
        self.assertEqual(format_sddl(SecurityDescriptor(control=Control.DACL_PRESENT)), "D:NO_ACCESS_CONTROL")
        self.assertEqual(format_sddl(SecurityDescriptor()), "")


def _entries(acl: Acl | None) -> object:
    """The entries of a list; of attributes what they say, since their parts may lie anywhere."""
    return acl and [
        (ace.flags, ResourceAttribute.read(ace.data))
        if isinstance(ace, Ace) and ace.type is AceType.SYSTEM_RESOURCE_ATTRIBUTE
        else ace
        for ace in acl.aces
    ]
