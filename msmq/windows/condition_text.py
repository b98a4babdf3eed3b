"""Conditional expressions in SDDL text: cond-expr. [MS-DTYP] 2.5.1.1.

C{(@User.clearance >= @Resource.required || Member_of {SID(BA)})}.  Operators ignore case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

from msmq.errors import LocalProtocolError
from msmq.windows.claims import Value, ValueType
from msmq.windows.conditions import (
    MOST_TOKENS,
    SIGNATURE,
    Attribute,
    AttributeSource,
    Base,
    Literal,
    LiteralType,
    Operator,
    Sign,
    read_condition,
)
from msmq.wire.sid import format_sid
from msmq.wire.writer import Writer

DEEPEST: Final = 50
"""Limit on the nesting of parentheses and negations."""

ReadSid: TypeAlias = Callable[[str, int], bytes]
"""Parses a SID or its abbreviation, which begins at an offset of the text."""


class ConditionTextError(ValueError):
    """A text is not a conditional expression.

    @ivar offset: where the text is malformed, in characters.
    """

    def __init__(self, rule: str, offset: int) -> None:
        super().__init__(rule)
        self.offset = offset


_WORDS: Final = {
    "Member_of": Operator.MEMBER_OF,
    "Not_Member_of": Operator.NOT_MEMBER_OF,
    "Member_of_Any": Operator.MEMBER_OF_ANY,
    "Not_Member_of_Any": Operator.NOT_MEMBER_OF_ANY,
    "Device_Member_of": Operator.DEVICE_MEMBER_OF,
    "Device_Member_of_Any": Operator.DEVICE_MEMBER_OF_ANY,
    "Not_Device_Member_of": Operator.NOT_DEVICE_MEMBER_OF,
    "Not_Device_Member_of_Any": Operator.NOT_DEVICE_MEMBER_OF_ANY,
    "Exists": Operator.EXISTS,
    "Not_Exists": Operator.NOT_EXISTS,
    "Contains": Operator.CONTAINS,
    "Not_Contains": Operator.NOT_CONTAINS,
    "Any_of": Operator.ANY_OF,
    "Not_Any_of": Operator.NOT_ANY_OF,
}
_SIGNS: Final = {
    "==": Operator.EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<=": Operator.LESS_OR_EQUAL,
    "<": Operator.LESS,
    ">=": Operator.GREATER_OR_EQUAL,
    ">": Operator.GREATER,
}
_LOGICAL: Final = {"||": Operator.OR, "&&": Operator.AND}
_PREFIXES: Final = {
    "@User.": AttributeSource.USER,
    "@Device.": AttributeSource.DEVICE,
    "@Resource.": AttributeSource.RESOURCE,
}

_BY_WORD: Final = {word.lower(): operator for word, operator in _WORDS.items()}
_BY_PREFIX: Final = {prefix.lower(): source for prefix, source in _PREFIXES.items()}
_OF_SETS: Final = {Operator.CONTAINS, Operator.NOT_CONTAINS, Operator.ANY_OF, Operator.NOT_ANY_OF}
_TAKES_SET: Final = _OF_SETS | {Operator.EQUAL, Operator.NOT_EQUAL}
_OF_ATTRIBUTE: Final = {Operator.EXISTS, Operator.NOT_EXISTS}
_OF_MEMBERS: Final = {each for word, each in _WORDS.items() if "Member" in word}

_BLANK: Final = re.compile(r"[\t-\r ]*")
_SIMPLE: Final = re.compile(r"[A-Za-z0-9:./_][A-Za-z0-9:./_@]*")
_PREFIX: Final = re.compile(r"@(?:User|Device|Resource)\.", re.IGNORECASE | re.ASCII)
NAME: Final = re.compile(
    r"(?:[A-Za-z0-9#$'*+\-./:;?@\[\\\]^_`{}~\u0080-\U0010FFFF]|%(?!0000)[0-9A-Fa-f]{4})+"
)
"""The characters of attribute names: attr-char2. [MS-DTYP] 2.5.1.1."""
_HIDDEN: Final = re.compile(r"%([0-9A-Fa-f]{4})")
_SIGN: Final = re.compile(r"==|!=|<=|>=|<|>")
_NUMBER: Final = re.compile(r"([+-]?)(0x[0-9A-Fa-f]{1,16}|[0-9]{1,23})(?![A-Za-z0-9_])", re.ASCII)
_STRING: Final = re.compile(r'"([^"]*)"')
_OCTETS: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})*)", re.ASCII)
_SID: Final = re.compile(r"SID\([\t-\r ]*([A-Za-z0-9-]+)[\t-\r ]*\)", re.IGNORECASE | re.ASCII)


def parse_condition(text: str, start: int, read_sid: ReadSid) -> tuple[bytes, int]:
    """Parse an expression in parentheses.

    @return: the ApplicationData, and the offset behind it.
    @raise ConditionTextError: it is malformed.
    """
    return _Text(text, start, read_sid).condition()


def escaped(name: str) -> str:
    """The name of an attribute, escaped for SDDL text."""
    return "".join(character if NAME.fullmatch(character) else f"%{ord(character):04X}" for character in name)


def unescaped(text: str) -> str:
    """The name of an attribute from its escaped form."""
    return _HIDDEN.sub(lambda hidden: chr(int(hidden[1], 16)), text)


class _Text:
    def __init__(self, text: str, start: int, read_sid: ReadSid) -> None:
        self._text = text
        self._position = start
        self._read_sid = read_sid
        self._writer = Writer()

    def condition(self) -> tuple[bytes, int]:
        self._writer.bytes(SIGNATURE)
        self._must("(")
        self._any_of(0)
        self._must(")")
        self._writer.align(4)
        condition = self._writer.getvalue()
        if read_condition(condition) is None:
            self._refuse(f"the expression has more than {MOST_TOKENS} parts")
        return condition, self._position

    def _any_of(self, depth: int) -> None:
        self._joined("||", lambda: self._joined("&&", lambda: self._factor(depth)))

    def _joined(self, sign: str, read: Callable[[], None]) -> None:
        read()
        while self._may(sign):
            read()
            self._writer.u8(_LOGICAL[sign], "token")

    def _factor(self, depth: int) -> None:
        if depth >= DEEPEST:
            self._refuse(f"more than {DEEPEST} nested parentheses and negations")
        if self._may("("):
            self._any_of(depth + 1)
            self._must(")")
        elif self._may("!"):
            self._factor(depth + 1)
            self._writer.u8(Operator.NOT, "token")
        else:
            self._term()

    def _term(self) -> None:
        operator = self._word(_OF_MEMBERS | _OF_ATTRIBUTE)
        if operator in _OF_MEMBERS:
            self._literal((self._members(), True))
        else:
            self._attribute(is_prefixed=False)
            if operator is None:
                operator = self._relation()
                if operator is None:
                    return
                self._operand(may_be_set=operator in _TAKES_SET)
        self._writer.u8(operator or 0, "token")

    def _relation(self) -> Operator | None:
        self._blank()
        found = _SIGN.match(self._text, self._position)
        if found is None:
            return self._word(_OF_SETS)
        self._position = found.end()
        return _SIGNS[found[0]]

    def _operand(self, *, may_be_set: bool) -> None:
        self._blank()
        if _PREFIX.match(self._text, self._position):
            self._attribute(is_prefixed=True)
        else:
            self._literal(self._values(may_be_set=may_be_set))

    def _attribute(self, *, is_prefixed: bool) -> None:
        self._blank()
        prefix = _PREFIX.match(self._text, self._position)
        if prefix is not None:
            self._position = prefix.end()
        elif is_prefixed:
            self._refuse("expected the name of an attribute, with @")
        found = (_SIMPLE if prefix is None else NAME).match(self._text, self._position)
        if found is None:
            self._refuse("expected the name of an attribute")
        self._position = found.end()
        source = AttributeSource.LOCAL if prefix is None else _BY_PREFIX[prefix[0].lower()]
        self._writer.u8(source, "token")
        self._counted(unescaped(found[0]))

    def _members(self) -> list[Writer]:
        """Parse the SIDs of an operator of membership: sid-array. [MS-DTYP] 2.5.1.1."""
        self._must("{")
        found = [self._member()]
        while self._may(","):
            found.append(self._member())
        self._must("}")
        return found

    def _member(self) -> Writer:
        self._blank()
        found = _SID.match(self._text, self._position)
        if found is None:
            self._refuse("expected a SID, as SID(BA)")
        sid = self._read_sid(found[1], found.start(1))
        self._position = found.end()
        return _octets(LiteralType.SID, sid)

    def _values(self, *, may_be_set: bool) -> tuple[list[Writer], bool]:
        if not (may_be_set and self._may("{")):
            return [self._value()], False
        found = [self._value()]
        while self._may(","):
            found.append(self._value())
        self._must("}")
        return found, True

    def _value(self) -> Writer:
        self._blank()
        writer = Writer()
        if (found := _NUMBER.match(self._text, self._position)) is not None:
            self._number(writer, found[1], found[2])
        elif (found := _STRING.match(self._text, self._position)) is not None:
            writer = _octets(LiteralType.STRING, found[1].encode("utf-16-le", "surrogatepass"))
        elif (found := _OCTETS.match(self._text, self._position)) is not None:
            writer = _octets(LiteralType.OCTETS, bytes.fromhex(found[1]))
        else:
            self._refuse('expected a value: a number, a text as "HR", or octets as #0a')
        self._position = found.end()
        return writer

    def _number(self, writer: Writer, sign: str, digits: str) -> None:
        is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] != "x"
        base = Base.OCTAL if is_octal else Base.HEXADECIMAL if digits.startswith("0x") else Base.DECIMAL
        try:
            number = int(digits, {Base.OCTAL: 8, Base.HEXADECIMAL: 16, Base.DECIMAL: 10}[base])
        except ValueError:
            self._refuse(f"{digits} is not a number")
        number = -number if sign == "-" else number
        if not -(1 << 63) <= number < 1 << 63:
            self._refuse(f"{number} does not fit into 64 bits")
        writer.u8(LiteralType.INT64, "token")
        writer.i64(number, "QWORD")
        writer.u8({"+": Sign.PLUS, "-": Sign.MINUS, "": Sign.NONE}[sign], "Sign")
        writer.u8(base, "Base")

    def _literal(self, literal: tuple[list[Writer], bool]) -> None:
        values, is_set = literal
        if is_set:
            self._writer.u8(LiteralType.COMPOSITE, "token")
            self._writer.u32(sum(value.position for value in values), "Length")
        for value in values:
            self._writer.bytes(value.getvalue())

    def _counted(self, text: str) -> None:
        encoded = text.encode("utf-16-le", "surrogatepass")
        self._writer.u32(len(encoded), "Length")
        self._writer.bytes(encoded)

    def _word(self, known: set[Operator]) -> Operator | None:
        self._blank()
        found = _SIMPLE.match(self._text, self._position)
        operator = None if found is None else _BY_WORD.get(found[0].lower())
        if found is None or operator not in known:
            return None
        self._position = found.end()
        return operator

    def _blank(self) -> None:
        blank = _BLANK.match(self._text, self._position)
        self._position = self._position if blank is None else blank.end()

    def _may(self, sign: str) -> bool:
        self._blank()
        if not self._text.startswith(sign, self._position):
            return False
        self._position += len(sign)
        return True

    def _must(self, sign: str) -> None:
        if not self._may(sign):
            self._refuse(f"expected {sign}")

    def _refuse(self, rule: str) -> NoReturn:
        raise ConditionTextError(rule, self._position)


def _octets(kind: LiteralType, octets: bytes) -> Writer:
    writer = Writer()
    writer.u8(kind, "token")
    writer.u32(len(octets), "Length")
    writer.bytes(octets)
    return writer


_SIGN_OF: Final = {operator: sign for sign, operator in (*_SIGNS.items(), *_LOGICAL.items())}
_WORD_OF: Final = {operator: word for word, operator in _WORDS.items()}
_PREFIX_OF: Final = {source: prefix for prefix, source in _PREFIXES.items()}
_OR, _AND, _TERM, _OPERAND = range(4)

_Part: TypeAlias = tuple[str, int, int]
"""A text, the precedence of its operator, and its nesting depth."""


def format_condition(data: bytes, show_sid: Callable[[bytes], str] = format_sid) -> str:
    """Format an expression, in parentheses.

    @raise LocalProtocolError: it is malformed or nested too deeply, or has no text form.
    """
    tokens = read_condition(data)
    if tokens is None:
        raise LocalProtocolError("the data is not an expression, or has too many tokens")
    stack: list[_Part] = []
    try:
        for before, token in zip((None, *tokens), tokens, strict=False):
            if isinstance(token, Attribute):
                stack.append((_attribute_text(token), _OPERAND, 0))
            elif isinstance(token, Literal):
                stack.append((_literal_text(token, show_sid), _OPERAND, -1))
            else:
                if isinstance(before, Literal):
                    _check_values(before, token)
                stack.append(_operated(token, stack))
        [(text, _, depth)] = stack
    except (IndexError, ValueError):
        raise LocalProtocolError("operators and operands do not match") from None
    if depth < 0:
        raise LocalProtocolError("the expression is a single value")
    return f"({text})"


def _operated(operator: Operator, stack: list[_Part]) -> _Part:
    right = stack.pop()
    if operator is Operator.NOT:
        return f"!({_logical(right)})", _TERM, _deeper(right[2] + 2)
    if operator in _OF_MEMBERS:
        if right[2] >= 0:
            raise ValueError("the operand is not a literal")
        members = right[0] if right[0].startswith("{") else f"{{{right[0]}}}"
        return f"{_WORD_OF[operator]} {members}", _TERM, 0
    if operator in _OF_ATTRIBUTE:
        if right[1] != _OPERAND or right[2] < 0:
            raise ValueError("the operand is not an attribute")
        return f"{_WORD_OF[operator]} {right[0]}", _TERM, 0
    left = stack.pop()
    if operator in _LOGICAL.values():
        own = _AND if operator is Operator.AND else _OR
        first, depth = _within(left, left[1] < own)
        second, other = _within(right, right[1] <= own)
        return f"{first} {_SIGN_OF[operator]} {second}", own, _deeper(max(depth, other))
    if left[1] != _OPERAND or right[1] != _OPERAND or left[2] < 0:
        raise ValueError("only attributes are compared")
    if right[2] >= 0 and not right[0].startswith("@"):
        raise ValueError("the attribute has no form with an @")
    if right[0].startswith("{") and operator not in _TAKES_SET:
        raise ValueError("a set has no order")
    return f"{left[0]} {_SIGN_OF.get(operator) or _WORD_OF[operator]} {right[0]}", _TERM, 0


def _check_values(literal: Literal, operator: Operator) -> None:
    """The right operand: SIDs for an operator of membership, and for no other."""
    for value in literal.values:
        if (value.type is ValueType.SID) is not (operator in _OF_MEMBERS):
            raise ValueError("a value of this type has no text form after this operator")


def _logical(part: _Part) -> str:
    if part[2] < 0:
        raise ValueError("a literal is not an expression")
    return part[0]


def _within(part: _Part, is_weaker: bool) -> tuple[str, int]:
    text = _logical(part)
    return (f"({text})", part[2] + 1) if is_weaker else (text, part[2])


def _deeper(depth: int) -> int:
    if depth >= DEEPEST:
        raise ValueError("the expression is nested too deeply")
    return depth


def _attribute_text(attribute: Attribute) -> str:
    if attribute.source is AttributeSource.LOCAL:
        if _SIMPLE.fullmatch(attribute.name) is None or attribute.name.lower() in _BY_WORD:
            raise ValueError("an attribute with this name has no text form")
        return attribute.name
    if not attribute.name or "\0" in attribute.name:
        raise ValueError("an attribute with this name has no text form")
    return _PREFIX_OF[attribute.source] + escaped(attribute.name)


def _literal_text(literal: Literal, show_sid: Callable[[bytes], str]) -> str:
    shown = [
        _value_text(value, how, show_sid) for value, how in zip(literal.values, literal.shown, strict=True)
    ]
    return f"{{{', '.join(shown)}}}" if literal.is_set else shown[0]


def _value_text(value: Value, how: tuple[Sign, Base] | None, show_sid: Callable[[bytes], str]) -> str:
    held = value.value
    if isinstance(held, str):
        if '"' in held:
            raise ValueError("a value with a quotation mark has no text form")
        return f'"{held}"'
    if isinstance(held, bytes):
        return f"SID({show_sid(held)})" if value.type is ValueType.SID else f"#{held.hex()}"
    sign, base = how or (Sign.NONE, Base.DECIMAL)
    digits = {Base.OCTAL: "0{:o}", Base.HEXADECIMAL: "0x{:x}", Base.DECIMAL: "{:d}"}[base].format(abs(held))
    return {Sign.PLUS: "+", Sign.MINUS: "-", Sign.NONE: ""}[sign] + digits
