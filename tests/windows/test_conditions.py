"""[MS-DTYP] 2.4.4.17: what comes of conditional expressions, as bytes and as text."""

from __future__ import annotations

import tracemalloc
from struct import pack

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.windows import claims as claims_module
from msmq.windows.claims import (
    Claim,
    Claims,
    Value,
    ValueType,
    named,
    read_claim,
    resource_claims,
)
from msmq.windows.condition_text import (
    DEEPEST,
    ConditionTextError,
    format_condition,
    parse_condition,
)
from msmq.windows.conditions import (
    Circumstances,
    Operator,
    Truth,
    evaluate,
    read_condition,
)
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl
from msmq.windows.well_known_sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    EVERYONE,
    USERS,
    parse_principal,
)

# (Title=="VP"), as the document prints it (2.4.4.17.9), with three bytes of padding.
VP = bytes.fromhex("61727478f80a000000 5400690074006c006500 1004000000 56005000 80 000000".replace(" ", ""))


def integers(name: str, *numbers: int) -> Claim:
    return Claim(name, tuple(Value(ValueType.INTEGER, number) for number in numbers))


def texts(name: str, *held: str, is_case_sensitive: bool = False) -> Claim:
    values = tuple(Value(ValueType.STRING, text) for text in held)
    return Claim(name, values, is_case_sensitive)


CLAIMS = Claims(
    local=named(texts("Title", "vp"), integers("age", 44), integers("none")),
    user=named(
        integers("clearance", 5),
        integers("Zero", 0),
        texts("groups", "Sales", "HR"),
        texts("exact", "Sales", is_case_sensitive=True),
        texts("empty", ""),
        Claim("smart", (Value(ValueType.BOOLEAN, True),)),
        Claim("dumb", (Value(ValueType.BOOLEAN, False),)),
        Claim("badge", (Value(ValueType.OCTETS, b"\x0a\x0b"),)),
        Claim("boss", (Value(ValueType.SID, ADMINISTRATORS),)),
    ),
    device=named(integers("managed", 1)),
)
RESOURCE = named(integers("required", 5), texts("dept", "sales"), texts("both", "hr", "SALES"))
SIDS = frozenset({USERS, EVERYONE})
KNOWN = Circumstances(SIDS, frozenset({USERS}), CLAIMS, RESOURCE)


def compiled(text: str) -> bytes:
    """An expression of its text."""
    condition, end = parse_condition(text, 0, lambda letters, _: parse_principal(letters))
    assert end == len(text), text[end:]
    return condition


def truth(text: str, known: Circumstances = KNOWN) -> Truth:
    return evaluate(compiled(text), known)


class MemoryTests(SynchronousTestCase):
    """Expressions of many queues."""

    def test_long_expressions_are_not_all_kept(self) -> None:
        """Of the long expressions that were evaluated a few are kept, which take ten times their size."""
        attribute = b"\xf8" + pack("<I", 6) + "age".encode("utf-16-le")
        conditions = []
        for first in range(8):
            members = b"".join(
                b"\x04" + pack("<qBB", 1_000_000 * first + number, 3, 2) for number in range(2000)
            )
            conditions.append(b"artx" + attribute + b"\x50" + pack("<I", len(members)) + members + b"\x88")
        tracemalloc.start()
        for condition in conditions:
            evaluate(condition, KNOWN)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(held, 2_000_000)


class EvaluationTests(SynchronousTestCase):
    """TRUE, FALSE or UNKNOWN."""

    def check(self, expected: Truth, *conditions: str, known: Circumstances = KNOWN) -> None:
        for condition in conditions:
            self.assertIs(truth(condition, known), expected, condition)

    def test_the_examples_of_the_document(self) -> None:
        """2.4.4.17.9."""
        self.assertEqual(compiled('(Title=="VP")'), VP)
        self.assertIs(evaluate(VP, KNOWN), True)
        self.assertIs(evaluate(VP, Circumstances(SIDS, None, Claims())), None)
        second = '((@User.smartcard==1 || @Device.managed==1) && (@Resource.dept Any_of{"Sales","HR"}))'
        self.check(True, second)
        self.check(True, "(@User.clearance>=@Resource.required || (Member_of{SID(BA)}))")

    def test_groups(self) -> None:
        """All of them, any of them, and the inverse of both."""
        self.check(
            True,
            "(Member_of {SID(BU)})",
            "(Member_of{SID(BU), SID(WD)})",
            "(Member_of_Any {SID(BA),SID(WD)})",
            "(Not_Member_of {SID(BU),SID(BA)})",
            "(Not_Member_of_Any {SID(BA)})",
            "(device_member_of {SID(BU)})",
            "(Not_Device_Member_of_Any{SID(WD)})",
            "(Device_Member_of_Any{SID(S-1-5-32-545)})",
        )
        self.check(
            False,
            "(Member_of {SID(BU), SID(BA)})",
            "(Member_of_Any {SID(BA),SID(AN)})",
            "(Not_Member_of {SID(BU)})",
            "(Not_Member_of_Any {SID(BU), SID(BA)})",
            "(Device_Member_of {SID(WD)})",
            "(Not_Device_Member_of {SID(BU)})",
        )

    def test_comparisons(self) -> None:
        """Numbers, texts without regard to case unless the claim says so, octets, SIDs and truth values."""
        self.check(
            True,
            '(Title == "VP")',
            '(TITLE != "V")',
            '(Title > "V" && Title < "vpa" && Title <= "VP")',
            "(@User.clearance == 5 && @User.clearance == +5 && @User.clearance == 05)",
            "(@user.clearance > -6 && @User.clearance <= 0x5)",
            '(@User.exact == "Sales" && @User.exact != "SALES")',
            "(@User.badge == #0a0b && @User.badge < #0A0B00 && @User.badge > #0a)",
            "(@User.smart == 1 && @User.dumb == 0 && @User.smart != 0)",
            "(@User.boss == @User.boss)",
        )
        self.check(
            False,
            '(Title == "VP2")',
            "(@User.clearance < 5)",
            "(@User.clearance == -5)",
            '(@User.exact == "sales")',
            "(@User.smart == 0)",
            "(@User.boss != @User.boss)",
        )

    def test_sets(self) -> None:
        """Only where the operator takes them."""
        self.check(
            True,
            '(@User.groups == {"hr", "sales"})',
            "(@User.groups == @Resource.both)",
            '(@User.groups Contains "HR")',
            '(@User.groups Contains {"HR"})',
            '(@User.groups Not_Contains {"HR","IT"})',
            '(@User.groups Any_of {"IT","HR"})',
            "(@User.groups Any_of @Resource.dept)",
            '(@User.groups Not_Any_of {"IT"})',
            "(@User.clearance == {5})",
        )
        self.check(
            False,
            '(@User.groups == {"hr"})',
            '(@User.groups Contains {"HR","IT"})',
            '(@User.groups Any_of "IT")',
        )
        self.check(
            None,
            '(@User.groups == {"hr", 1})',
            '(@User.groups != {"hr"})',
            '(@User.groups > "hr")',
            '(@User.groups != "hr")',
            "(@User.groups && Member_of{SID(BU)})",
        )

    def test_logic(self) -> None:
        """The operators on TRUE, FALSE and UNKNOWN."""
        yes, no, unknown = "Member_of{SID(BU)}", "Member_of{SID(BA)}", "@User.nothing == 1"
        self.check(True, f"({yes} || {unknown})", f"({unknown} || {yes})", f"(!({no}))", f"(! ! {yes})")
        self.check(False, f"({no} && {unknown})", f"({unknown} && {no})", f"(!{yes})", f"({no} || {no})")
        self.check(None, f"({yes} && {unknown})", f"({no} || {unknown})", f"(!({unknown}))")
        self.check(True, f"({yes} || {no} && {no})", f"({no} && {no} || {yes})")
        self.check(False, f"(({yes} || {no}) && {no})")
        # An attribute may stand for itself.
        self.check(True, f"(Title && {yes})", f"(@User.clearance && @User.smart || {no})")
        self.check(False, f"(@User.Zero || {no})", f"(@User.empty || {no})", f"(@User.dumb && {yes})")
        self.check(None, f"(@User.badge || {yes})", f"(@User.boss && {yes})", "(Title)")

    def test_whether_there_is_one(self) -> None:
        """Exists, for local and resource attributes; an attribute without values is missing."""
        self.check(True, "(Exists Title)", "(Exists @Resource.dept)", "(Not_Exists none)", "(Not_Exists x)")
        self.check(False, "(Not_exists title)", "(Exists @Resource.x)", "(Exists none)")
        self.check(None, "(Exists @User.clearance)", "(Not_Exists @Device.managed)")

    def test_what_does_not_fit(self) -> None:
        """Unsuitable operands make the whole expression UNKNOWN."""
        yes = "Member_of{SID(BU)}"
        for condition in (
            '(@User.clearance == "5")',
            "(Title == 1)",
            "(@User.smart == 2)",
            "(@User.smart < 1)",
            "(@User.boss < @User.boss)",
            "(@User.smart Contains 1)",
        ):
            self.check(None, condition, f"({condition} || {yes})", f"({yes} || {condition})")

    def test_unknown_claims(self) -> None:
        """Claims that were not looked up are not treated as absent."""
        known = Circumstances(SIDS, resource=None)
        self.check(
            None,
            "(Not_Exists Title)",
            "(Exists @Resource.dept)",
            "(!(@User.clearance == 1))",
            "(Not_Device_Member_of {SID(BA)})",
            "(Device_Member_of_Any {SID(BA)})",
            known=known,
        )
        self.check(True, "(Member_of {SID(BU)} || @User.x)", known=known)


class BytesTests(SynchronousTestCase):
    """Any bytes in an entry."""

    def of(self, *tokens: bytes) -> Truth:
        return evaluate(b"artx" + b"".join(tokens), KNOWN)

    def test_signs(self) -> None:
        """The sign that is written goes before that of the bits (2.4.4.17.5)."""
        clearance = b"\xf9" + pack("<I", 18) + "clearance".encode("utf-16-le")
        for bits, sign, expected in (
            (5, 3, True),
            (-5, 3, True),
            (-5, 1, True),
            (5, 2, False),
            (-5, 2, False),
        ):
            for code in (1, 2, 3, 4):
                literal = pack("<BqBB", code, bits, sign, 2)
                self.assertIs(self.of(clearance, literal, b"\x80"), expected)

    def test_malformed(self) -> None:
        """Is UNKNOWN, and no error."""
        sid = b"\x51" + pack("<I", len(USERS)) + USERS
        member = b"\x50" + pack("<I", len(sid)) + sid + b"\x89"
        self.assertIs(self.of(member), True)
        self.assertIs(self.of(sid, b"\x89"), True)
        for padding in range(6):
            self.assertIs(self.of(member, bytes(padding)), True if padding < 4 else None)
        title = b"\xf8" + pack("<I", 10) + "Title".encode("utf-16-le")
        for tokens in (
            b"",
            b"\x89",
            b"\xa0",
            member + member,
            member + b"\x00\x01",
            b"\x00" + member,
            member + b"\xff",
            member + b"\xa0",
            b"\x05" + bytes(10),
            pack("<BqBB", 1, 128, 3, 2) + b"\x89",
            pack("<BqBB", 4, 1, 0, 2) + b"\x89",
            pack("<BqBB", 4, 1, 3, 4) + b"\x89",
            b"\x51" + pack("<I", 4) + USERS[:4] + b"\x89",
            b"\x51" + pack("<I", 0xFFFFFFFF) + USERS + b"\x89",
            b"\x50" + pack("<I", 0) + b"\x89",
            b"\x50" + pack("<I", len(member) - 1) + member[:-1] + b"\x89",
            b"\x50" + pack("<I", len(sid) - 1) + sid + b"\x89",
            title + b"\x89",
            title + b"\xf8" + title[1:] + b"\x80",
            pack("<BqBB", 4, 1, 3, 2) + title + b"\x80",
            member + title + b"\x80",
            title + member + b"\x80",
            member + b"\x87",
            b"\xf8" + pack("<I", 3) + b"abc",
            pack("<BqBB", 4, 1, 3, 2),
            pack("<BqBB", 4, 1, 3, 2) + b"\xa2",
        ):
            self.assertIs(self.of(tokens), None, tokens.hex())
        self.assertIs(evaluate(member, KNOWN), None)
        self.assertIs(evaluate(b"artx" + member * 10_000, KNOWN), None)

    @given(st.binary(max_size=200))
    def test_garbage(self, data: bytes) -> None:
        """Any bytes are handled, and the text of an expression has the same meaning."""
        for condition in (data, b"artx" + data):
            found = evaluate(condition, KNOWN)
            self.assertIn(found, (True, False, None))
            try:
                text = format_condition(condition)
            except LocalProtocolError:
                continue
            self.assertIs(truth(text), found)

    OPERANDS = st.sampled_from(
        [
            compiled(text)[4:].rstrip(b"\0")
            for text in ("(Member_of{SID(BU)})", '(Title=="VP")', "(@User.nothing==1)", "(Exists x)")
        ]
        + [
            b"\xf8" + pack("<I", 10) + "Title".encode("utf-16-le"),
            b"\xf9" + pack("<I", 10) + "a%b &".encode("utf-16-le"),
            pack("<BqBB", 2, -7, 2, 1),
            b"\x50" + pack("<I", 11) + pack("<BqBB", 4, 8, 1, 3),
            b"\x51" + pack("<I", len(ADMINISTRATORS)) + ADMINISTRATORS,
        ]
    )

    @given(st.lists(OPERANDS | st.sampled_from([bytes((code,)) for code in Operator]), max_size=12))
    def test_any_tokens(self, tokens: list[bytes]) -> None:
        """The same of what is made of tokens."""
        condition = b"artx" + b"".join(tokens)
        self.assertIsNotNone(read_condition(condition))
        found = evaluate(condition, KNOWN)
        try:
            text = format_condition(condition)
        except LocalProtocolError:
            return
        self.assertIs(truth(text), found, text)
        self.assertEqual(format_condition(compiled(text)), text)


class TextTests(SynchronousTestCase):
    """[MS-DTYP] 2.5.1.1 cond-expr."""

    def test_texts(self) -> None:
        """Blanks and parentheses that mean nothing are left out, and what is hidden in names stays so."""
        for text, shown in (
            ('( ( Title=="VP" ) )', '(Title == "VP")'),
            ("(a&&b&&c)", "(a && b && c)"),
            ("(a&&(b&&c))", "(a && (b && c))"),
            ("(a||b&&c)", "(a || b && c)"),
            ("((a||b)&&c)", "((a || b) && c)"),
            ("(!a)", "(!(a))"),
            ("(x==+017)", "(x == +017)"),
            ("(x==-0xFF)", "(x == -0xff)"),
            ("(x=={ 1 ,2})", "(x == {1, 2})"),
            ("(x Contains 1)", "(x Contains 1)"),
            ('(x=="a)(;b")', '(x == "a)(;b")'),
            ("(x==#)", "(x == #)"),
            ("(@user.a%0020b{}==@RESOURCE.c)", "(@User.a%0020b{} == @Resource.c)"),
            ("(MEMBER_OF{sid(BA)})", "(Member_of {SID(S-1-5-32-544)})"),
            ("(Member_of_x)", "(Member_of_x)"),
        ):
            self.assertEqual(format_condition(compiled(text)), shown)
            self.assertEqual(compiled(shown), compiled(text))

    def test_errors_have_a_position(self) -> None:
        """The message names it."""
        for text, words, offset in (
            ("a", "expected (", 0),
            ("(a", "expected )", 2),
            ("()", "expected the name of an attribute", 1),
            ("(a ==)", "expected a value", 5),
            ("(a == b)", "expected a value", 6),
            ("(a < {1})", "expected a value", 5),
            ("(a == 08)", "08 is not a number", 6),
            ("(a == 9223372036854775808)", "does not fit into 64 bits", 6),
            ("(a == 1x)", "expected a value", 6),
            ("(Exists)", "expected the name of an attribute", 7),
            ("(Member_of BA)", "expected {", 11),
            ("(Member_of {})", "expected a SID", 12),
            ("(@Nobody.x == 1)", "expected the name of an attribute", 1),
            ("(@User.%0000 == 1)", "expected the name of an attribute", 7),
            ("(" + "a && " * 500 + "a)", "has more than 1000 parts", 2503),
            ("(" * (DEEPEST + 2) + "a", "nested", DEEPEST + 1),
            ("(" + "!" * (DEEPEST + 2) + "a", "nested", DEEPEST + 1),
        ):
            error = self.assertRaises(ConditionTextError, compiled, text)
            self.assertIn(words, str(error))
            self.assertEqual(error.offset, offset, text)

    def test_values_without_a_text_form(self) -> None:
        """Is refused, however large it is."""
        local = b"\xf8" + pack("<I", 2) + "a".encode("utf-16-le")
        for tokens in (
            b"\xff",
            b"\xf8" + pack("<I", 2) + b" \0",
            b"\xf9" + pack("<I", 0),
            local + b"\x10" + pack("<I", 2) + b'"\0' + b"\x80",
            pack("<BqBB", 4, 1, 3, 2),
            pack("<BqBB", 4, -7, 2, 1) + b"\x89",
            local + b"\x51" + pack("<I", len(ADMINISTRATORS)) + ADMINISTRATORS + b"\x80",
            local + b"\xa2" * DEEPEST,
            local + b"\xa2" * 5000,
            local * 3000 + b"\xa0" * 2999,
        ):
            self.assertRaises(LocalProtocolError, format_condition, b"artx" + tokens)
        many = "(" + " && ".join(["a"] * 500) + ")"
        self.assertEqual(format_condition(compiled(many)), many)


def claim_bytes(name: str, kind: int, *values: bytes, flags: int = 0) -> bytes:
    """A CLAIM_SECURITY_ATTRIBUTE_RELATIVE_V1."""
    start = 16 + 4 * len(values)
    offsets, body = [], b""
    for value in values:
        offsets.append(start + len(body))
        body += value
    head = pack("<IHHII", start + len(body), kind, 0, flags, len(values))
    return head + pack(f"<{len(values)}I", *offsets) + body + f"{name}\0".encode("utf-16-le")


class ClaimTests(SynchronousTestCase):
    """[MS-DTYP] 2.4.10.1."""

    def test_each_type(self) -> None:
        """Numbers with and without a sign, texts, SIDs, truth values, octets."""
        octets = pack("<I", 2) + b"ab"
        sid = pack("<I", len(ANONYMOUS)) + ANONYMOUS
        for kind, written, value in (
            (1, pack("<q", -5), Value(ValueType.INTEGER, -5)),
            (2, pack("<Q", 1 << 63), Value(ValueType.INTEGER, 1 << 63)),
            (3, "Ab\0".encode("utf-16-le"), Value(ValueType.STRING, "Ab")),
            (5, sid, Value(ValueType.SID, ANONYMOUS)),
            (6, pack("<Q", 1), Value(ValueType.BOOLEAN, True)),
            (16, octets, Value(ValueType.OCTETS, b"ab")),
        ):
            self.assertEqual(
                read_claim(claim_bytes("dept", kind, written, written)), Claim("dept", (value, value))
            )
        exact = read_claim(claim_bytes("x", 1, flags=2))
        self.assertEqual(exact, Claim("x", (), is_case_sensitive=True))

    def test_malformed(self) -> None:
        """Is nothing, and costs nothing."""
        whole = claim_bytes("dept", 3, "ab\0".encode("utf-16-le"))
        for end in range(len(whole)):
            self.assertIsNone(read_claim(whole[:end]))
        for kind, value in ((4, bytes(8)), (6, pack("<Q", 2)), (5, pack("<I", 2) + b"ab"), (16, b"\xff" * 9)):
            self.assertIsNone(read_claim(claim_bytes("dept", kind, value)))
        self.assertIsNone(read_claim(pack("<IHHII", 16, 1, 0, 0, 0xFFFFFFFF)))
        text = "a" * 20_000
        shared = claim_bytes(text, 3)
        shared = pack("<IHHII", 16 + 400, 3, 0, 0, 100) + pack("<I", 416) * 100 + shared[16:]
        self.assertIsNone(read_claim(shared))
        self.patch(claims_module, "MOST_VALUES", 1)
        self.assertIsNone(read_claim(claim_bytes("other", 1, bytes(8), bytes(8))))

    @given(st.binary(max_size=100))
    def test_garbage(self, data: bytes) -> None:
        """Any bytes are handled."""
        read_claim(data)
        read_claim(pack("<IHHII", 20, 3, 0, 0, 1) + data)

    def test_of_a_resource(self) -> None:
        """The attributes in the SACL, the first of a name; a malformed one hides all."""
        aces = [
            Ace(
                AceType.SYSTEM_RESOURCE_ATTRIBUTE,
                0,
                EVERYONE,
                flags,
                None,
                None,
                data + bytes(-len(data) % 4),
            )
            for flags, data in (
                (AceFlags.INHERIT_ONLY, claim_bytes("Dept", 1, pack("<q", 1))),
                (0, claim_bytes("Dept", 1, pack("<q", 2))),
                (0, claim_bytes("DEPT", 1, pack("<q", 3))),
            )
        ]
        self.assertEqual(resource_claims(Acl(tuple(aces))), {"DEPT": integers("Dept", 2)})
        self.assertEqual(resource_claims(None), {})
        broken = Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, 0, None, None, bytes(4))
        self.assertIsNone(resource_claims(Acl((*aces, broken))))
