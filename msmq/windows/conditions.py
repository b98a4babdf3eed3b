"""Conditional expressions of access control entries, and their evaluation. [MS-DTYP] 2.4.4.17, 2.5.3.1.5.

An expression is a sequence of tokens in postfix order. Its result is TRUE, FALSE or UNKNOWN, which is C{None}
here; one that is malformed, or whose operators do not fit their operands, is UNKNOWN.

What the document leaves open is decided as follows:

  - What was not looked up is UNKNOWN: without the claims of a token, even the existence of one (Exists), and
    without the SIDs of its device, the groups of that device. Treating them as empty would grant access where
    a condition excludes members.
  - Padding is at most three zero bytes at the end; a zero byte elsewhere is malformed.
  - A set without members is malformed, as the grammar of SDDL has none.
  - Sets are equal if they have the same members, in any order.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

from msmq.errors import RemoteProtocolError
from msmq.windows.claims import Claim, Claims, Value, ValueType, folded
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid

SIGNATURE: Final = b"artx"
"""ACE_CONDITION_SIGNATURE."""

MOST_TOKENS: Final = 1000
"""Limit on the tokens of an expression; one with more counts as malformed."""

Truth: TypeAlias = bool | None
"""C{None} is UNKNOWN."""


class Operator(enum.IntEnum):
    """The operators, by their byte-codes. [MS-DTYP] 2.4.4.17.6 and 2.4.4.17.7."""

    EQUAL = 0x80
    NOT_EQUAL = 0x81
    LESS = 0x82
    LESS_OR_EQUAL = 0x83
    GREATER = 0x84
    GREATER_OR_EQUAL = 0x85
    CONTAINS = 0x86
    EXISTS = 0x87
    ANY_OF = 0x88
    MEMBER_OF = 0x89
    DEVICE_MEMBER_OF = 0x8A
    MEMBER_OF_ANY = 0x8B
    DEVICE_MEMBER_OF_ANY = 0x8C
    NOT_EXISTS = 0x8D
    NOT_CONTAINS = 0x8E
    NOT_ANY_OF = 0x8F
    NOT_MEMBER_OF = 0x90
    NOT_DEVICE_MEMBER_OF = 0x91
    NOT_MEMBER_OF_ANY = 0x92
    NOT_DEVICE_MEMBER_OF_ANY = 0x93
    AND = 0xA0
    OR = 0xA1
    NOT = 0xA2


class AttributeSource(enum.IntEnum):
    """The source of an attribute: local, user, device or resource. [MS-DTYP] 2.4.4.17.8."""

    LOCAL = 0xF8
    USER = 0xF9
    RESOURCE = 0xFA
    DEVICE = 0xFB


class LiteralType(enum.IntEnum):
    """The literals. [MS-DTYP] 2.4.4.17.5."""

    INT8 = 0x01
    INT16 = 0x02
    INT32 = 0x03
    INT64 = 0x04
    STRING = 0x10
    OCTETS = 0x18
    COMPOSITE = 0x50
    SID = 0x51


class Sign(enum.IntEnum):
    """The sign of a number, which overrides that of its bits. [MS-DTYP] 2.4.4.17.5."""

    PLUS = 1
    MINUS = 2
    NONE = 3


class Base(enum.IntEnum):
    """The base in which a number is shown. [MS-DTYP] 2.4.4.17.5."""

    OCTAL = 1
    DECIMAL = 2
    HEXADECIMAL = 3


@attrs.frozen
class Literal:
    """Literal values in the expression.

    @ivar values: at least one.
    @ivar is_set: they are a set, perhaps of one member.
    @ivar shown: the sign and base of each number; empty for other types.
    """

    values: tuple[Value, ...]
    is_set: bool = False
    shown: tuple[tuple[Sign, Base] | None, ...] = ()


@attrs.frozen
class Attribute:
    """The name of an attribute."""

    source: AttributeSource
    name: str


Token: TypeAlias = Operator | Literal | Attribute

_BITS: Final = {LiteralType.INT8: 8, LiteralType.INT16: 16, LiteralType.INT32: 32, LiteralType.INT64: 64}


_LONGEST_REMEMBERED: Final = 4096
"""Bytes of an expression beyond which few are kept: its tokens take up to fifteen times as much memory."""


def read_condition(data: bytes) -> tuple[Token, ...] | None:
    """The tokens of an expression, in order; C{None} if the data is not an expression, or malformed."""
    return _read_long(data) if len(data) > _LONGEST_REMEMBERED else _read_short(data)


def _tokens(data: bytes) -> tuple[Token, ...] | None:
    if not data.startswith(SIGNATURE):
        return None
    reader = Reader(memoryview(data)[len(SIGNATURE) :], base=len(SIGNATURE))
    tokens: list[Token] = []
    try:
        while reader.remaining:
            if len(tokens) > MOST_TOKENS:
                return None
            code = reader.u8("token")
            if not code:
                is_padding = reader.remaining < 3 and not any(data[-reader.remaining - 1 :])
                return tuple(tokens) if is_padding else None
            tokens.append(_token(reader, code))
    except (RemoteProtocolError, ValueError):
        return None
    return tuple(tokens)


_read_short: Final = lru_cache(1024)(_tokens)
_read_long: Final = lru_cache(4)(_tokens)


def _token(reader: Reader, code: int) -> Token:
    if code in _OPERATORS:
        return Operator(code)
    if code in _SOURCES:
        return Attribute(AttributeSource(code), _text(reader))
    if code == LiteralType.COMPOSITE:
        values: list[Value] = []
        shown: list[tuple[Sign, Base] | None] = []
        with reader.confined(reader.u32("Length"), "Composite"):
            while reader.remaining:
                value, how = _value(reader, LiteralType(reader.u8("token")))
                values.append(value)
                shown.append(how)
        if not values:
            raise ValueError("a set has no members")
        return Literal(tuple(values), True, tuple(shown))
    value, how = _value(reader, LiteralType(code))
    return Literal((value,), False, (how,))


def _value(reader: Reader, kind: LiteralType) -> tuple[Value, tuple[Sign, Base] | None]:
    if (bits := _BITS.get(kind)) is not None:
        number = reader.i64("QWORD")
        sign, base = Sign(reader.u8("Sign")), Base(reader.u8("Base"))
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number} has more than {bits} bits")
        return Value(ValueType.INTEGER, -abs(number) if sign is Sign.MINUS else abs(number)), (sign, base)
    if kind is LiteralType.STRING:
        return Value(ValueType.STRING, _text(reader)), None
    octets = reader.bytes(reader.u32("Length"), kind.name)
    if kind is LiteralType.OCTETS:
        return Value(ValueType.OCTETS, octets), None
    if kind is LiteralType.SID:
        format_sid(octets)
        return Value(ValueType.SID, octets), None
    raise ValueError("a set contains a set")


def _text(reader: Reader) -> str:
    return reader.bytes(reader.u32("Length"), "Characters").decode("utf-16-le", "surrogatepass")


@attrs.frozen
class Circumstances:
    """The facts against which an expression is evaluated. [MS-DTYP] 2.5.2.

    @ivar sids: Token.Sids.
    @ivar device_sids: Token.DeviceSids; C{None} if unknown.
    @ivar claims: of the token; C{None} if unknown.
    @ivar resource: the resource attributes in the SACL, by L{folded} names; C{None} if one is malformed.
    """

    sids: frozenset[bytes]
    device_sids: frozenset[bytes] | None = None
    claims: Claims | None = None
    resource: Mapping[str, Claim] | None = attrs.field(factory=dict)
    _prepared: dict[tuple[int, bool], _Compared] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def compared(self, claim: Claim, *, is_exact: bool) -> _Compared:
        """The values of a claim of these, for comparisons; prepared once, since many may refer to it."""
        key = id(claim), is_exact
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = _prepared(claim.values, is_exact=is_exact)
        return found


def evaluate(condition: bytes, circumstances: Circumstances) -> Truth:
    """EvaluateAceCondition. [MS-DTYP] 2.5.3.1.5.

    @param condition: the ApplicationData of an entry.
    """
    tokens = read_condition(condition)
    if tokens is None:
        return None
    stack: list[_Operand] = []
    try:
        for token in tokens:
            if isinstance(token, Literal):
                stack.append(token)
            elif isinstance(token, Attribute):
                stack.append(_look_up(token, circumstances))
            elif token in _ONE_OPERAND:
                stack.append(_Result(_of_one(token, stack.pop(), circumstances)))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(_Result(_of_two(token, left, right, circumstances)))
    except (_Misfit, IndexError):
        return None
    if len(stack) != 1 or not isinstance(stack[0], _Result):
        return None
    return stack[0].truth


class _Misfit(Exception):
    """An operator does not fit its operands, so that the whole expression is UNKNOWN."""


@attrs.frozen
class _Result:
    truth: Truth


@attrs.frozen
class _Found:
    """An attribute that was looked up.

    @ivar claim: C{None} if there is none.
    @ivar is_known: whether the claims that could hold it are known.
    """

    source: AttributeSource
    claim: Claim | None
    is_known: bool


_Operand: TypeAlias = Literal | _Found | _Result

_OPERATORS: Final = frozenset(int(each) for each in Operator)
_SOURCES: Final = frozenset(int(each) for each in AttributeSource)
_OF_DEVICE: Final = frozenset(
    {
        Operator.DEVICE_MEMBER_OF,
        Operator.DEVICE_MEMBER_OF_ANY,
        Operator.NOT_DEVICE_MEMBER_OF,
        Operator.NOT_DEVICE_MEMBER_OF_ANY,
    }
)
_OF_MEMBERS: Final = _OF_DEVICE | {
    Operator.MEMBER_OF,
    Operator.MEMBER_OF_ANY,
    Operator.NOT_MEMBER_OF,
    Operator.NOT_MEMBER_OF_ANY,
}
_OF_ANY: Final = frozenset(
    {
        Operator.MEMBER_OF_ANY,
        Operator.DEVICE_MEMBER_OF_ANY,
        Operator.NOT_MEMBER_OF_ANY,
        Operator.NOT_DEVICE_MEMBER_OF_ANY,
    }
)
_NEGATED: Final = frozenset(each for each in Operator if each.name.startswith("NOT_"))
_ONE_OPERAND: Final = _OF_MEMBERS | {Operator.EXISTS, Operator.NOT_EXISTS, Operator.NOT}
_ORDERING: Final = frozenset(
    {Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL}
)


def _look_up(attribute: Attribute, circumstances: Circumstances) -> _Found:
    """Look up an attribute of the token or of the object. [MS-DTYP] 2.5.3.1.6 and 2.5.3.1.7."""
    known: Mapping[str, Claim] | None
    if attribute.source is AttributeSource.RESOURCE:
        known = circumstances.resource
    elif circumstances.claims is None:
        known = None
    else:
        claims = circumstances.claims
        known = {AttributeSource.LOCAL: claims.local, AttributeSource.USER: claims.user}.get(
            attribute.source, claims.device
        )
    if known is None:
        return _Found(attribute.source, None, False)
    claim = known.get(folded(attribute.name))
    return _Found(attribute.source, claim if claim is not None and claim.values else None, True)


def _of_one(operator: Operator, operand: _Operand, circumstances: Circumstances) -> Truth:
    if operator is Operator.NOT:
        return _not(_truth(operand))
    truth: Truth
    if operator in _OF_MEMBERS:
        if not isinstance(operand, Literal) or any(each.type is not ValueType.SID for each in operand.values):
            raise _Misfit
        sids = circumstances.device_sids if operator in _OF_DEVICE else circumstances.sids
        if sids is None:
            return None
        found = [each.value in sids for each in operand.values]
        truth = any(found) if operator in _OF_ANY else all(found)
    else:
        if not isinstance(operand, _Found) or operand.source not in (
            AttributeSource.LOCAL,
            AttributeSource.RESOURCE,
        ):
            raise _Misfit
        truth = operand.claim is not None if operand.is_known else None
    return _not(truth) if operator in _NEGATED else truth


def _of_two(operator: Operator, left: _Operand, right: _Operand, circumstances: Circumstances) -> Truth:
    if operator is Operator.AND:
        both = _truth(left), _truth(right)
        return False if False in both else None if None in both else True
    if operator is Operator.OR:
        both = _truth(left), _truth(right)
        return True if True in both else None if None in both else False
    if not isinstance(left, _Found) or isinstance(right, _Result):
        raise _Misfit
    if isinstance(right, _Found) and right.source is AttributeSource.LOCAL:
        # It would need the prefix @, which local attributes do not have.
        raise _Misfit
    claims = [each.claim for each in (left, right) if isinstance(each, _Found)]
    if None in claims:
        return None
    is_exact = any(claim is not None and claim.is_case_sensitive for claim in claims)
    one, other = (_side(each, circumstances, is_exact=is_exact) for each in (left, right))
    truth = _compared(operator, one, other)
    return _not(truth) if operator in _NEGATED else truth


def _side(operand: Literal | _Found, circumstances: Circumstances, *, is_exact: bool) -> _Compared:
    if isinstance(operand, Literal):
        return _prepared(operand.values, is_exact=is_exact)
    if operand.claim is None:
        return _prepared((), is_exact=is_exact)
    return circumstances.compared(operand.claim, is_exact=is_exact)


@attrs.frozen
class _Compared:
    """The values of an operand, so that those that are equal have equal keys."""

    types: frozenset[ValueType]
    keys: tuple[int | bytes, ...]
    distinct: frozenset[int | bytes]


def _prepared(values: tuple[Value, ...], *, is_exact: bool) -> _Compared:
    keys = tuple(_key(each, is_exact=is_exact) for each in values)
    return _Compared(frozenset(each.type for each in values), keys, frozenset(keys))


def _compared(operator: Operator, left: _Compared, right: _Compared) -> Truth:
    is_equality = operator in (Operator.EQUAL, Operator.NOT_EQUAL)
    if operator in _ORDERING or operator is Operator.NOT_EQUAL:
        if len(left.keys) != 1 or len(right.keys) != 1:
            return None
    types = left.types | right.types
    if len(types) != 1:
        if not is_equality or types != {ValueType.BOOLEAN, ValueType.INTEGER}:
            raise _Misfit
        if not left.distinct | right.distinct <= {0, 1}:
            raise _Misfit
    if is_equality:
        return left.distinct == right.distinct
    if operator in (Operator.CONTAINS, Operator.NOT_CONTAINS):
        return right.distinct <= left.distinct
    if operator in (Operator.ANY_OF, Operator.NOT_ANY_OF):
        return not right.distinct.isdisjoint(left.distinct)
    if types & {ValueType.SID, ValueType.BOOLEAN}:
        raise _Misfit
    return _is_ordered(operator, left.keys[0], right.keys[0])


def _is_ordered(operator: Operator, left: int | bytes, right: int | bytes) -> bool:
    comes: int
    if isinstance(left, int) and isinstance(right, int):
        comes = (left > right) - (left < right)
    elif isinstance(left, bytes) and isinstance(right, bytes):
        comes = (left > right) - (left < right)
    else:
        raise _Misfit
    match operator:
        case Operator.LESS:
            return comes < 0
        case Operator.LESS_OR_EQUAL:
            return comes <= 0
        case Operator.GREATER:
            return comes > 0
    return comes >= 0


def _key(value: Value, *, is_exact: bool) -> int | bytes:
    if isinstance(value.value, str):
        text = value.value if is_exact else folded(value.value)
        # Texts are ordered by their UTF-16 code units.
        return text.encode("utf-16-be", "surrogatepass")
    return value.value


def _truth(operand: _Operand) -> Truth:
    """The logical value of an operand. [MS-DTYP] 2.4.4.17.7."""
    if isinstance(operand, _Result):
        return operand.truth
    if isinstance(operand, Literal):
        raise _Misfit
    if operand.claim is None or len(operand.claim.values) != 1:
        return None
    [value] = operand.claim.values
    if value.type in (ValueType.INTEGER, ValueType.BOOLEAN, ValueType.STRING):
        return bool(value.value)
    raise _Misfit


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth
