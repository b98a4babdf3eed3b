"""Decoded bodies as values of Arrow: objects as structs, with each field as its declared type.

A value that its type cannot hold is null, and the reason names its path.
XML has texts only, so a text is accepted where a number, a time or a boolean is expected.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import attrs
import pyarrow

from msmq.quoting import quoted

_LONGEST_SHOWN: Final = 60
_LONGEST_NUMBER: Final = 100
_EXACT: Final = Context(prec=2 * _LONGEST_NUMBER)
"""No number of this length is rounded, except to the scale of its type."""
_ZONE: Final = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}")

Report: TypeAlias = Callable[[str], None]
Convert: TypeAlias = Callable[[Any, str, Report], Any]


def typed_column(
    decoded: Sequence[str | None], type_: pyarrow.DataType
) -> tuple[pyarrow.Array, list[str | None]]:
    """The bodies as values of a type, and for each the reason why a part of it is null, if one is.

    @param decoded: the values of the column C{decoded}, JSON of the decoders.
    """
    convert = converter(type_)
    values, errors = [], []
    for text in decoded:
        problem = _FirstProblem()
        content = None if text is None else json.loads(text).get("value")
        values.append(None if content is None else convert(content, "body", problem))
        errors.append(problem.text)
    return pyarrow.array(values, type_), errors


@attrs.define
class _FirstProblem:
    """Keeps the first reason that is reported."""

    text: str | None = None

    def __call__(self, reason: str) -> None:
        self.text = self.text or reason


def converter(type_: pyarrow.DataType) -> Convert:
    """The function that converts values of JSON to a type."""
    kinds = pyarrow.types
    if kinds.is_struct(type_):
        return _struct([(field.name, converter(field.type)) for field in type_])
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return _list(converter(type_.value_type))
    if kinds.is_map(type_):
        return _map(converter(type_.item_type))
    for matches, parse, name in _SCALARS:
        if matches(type_):
            return _scalar(parse, name(type_) if callable(name) else name)
    if kinds.is_integer(type_):
        return _integer(type_)
    if kinds.is_decimal(type_):
        return _decimal(type_.precision, type_.scale)
    return _unsupported(str(type_))


def _struct(fields: Iterable[tuple[str, Convert]]) -> Convert:
    inner = list(fields)

    def convert(value: Any, path: str, report: Report) -> Any:
        if not isinstance(value, dict):
            report(f"{path} is not an object: {_shown(value)}")
            return None
        return {
            name: None if (found := value.get(name)) is None else take(found, f"{path}.{name}", report)
            for name, take in inner
        }

    return convert


def _list(take: Convert) -> Convert:
    def convert(value: Any, path: str, report: Report) -> Any:
        # An element of XML that occurs once is not a list.
        items = value if isinstance(value, list) else [value]
        return [None if one is None else take(one, f"{path}[]", report) for one in items]

    return convert


def _map(take: Convert) -> Convert:
    def convert(value: Any, path: str, report: Report) -> Any:
        if not isinstance(value, dict):
            report(f"{path} is not an object: {_shown(value)}")
            return None
        return [
            (key, None if one is None else take(one, f"{path}.{key}", report)) for key, one in value.items()
        ]

    return convert


def _scalar(parse: Callable[[Any], Any], name: str) -> Convert:
    def convert(value: Any, path: str, report: Report) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, OverflowError, InvalidOperation, binascii.Error):
            report(f"{path} is not {name}: {_shown(value)}")
            return None

    return convert


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "1", "false", "0"):
        return value.strip().lower() in ("true", "1")
    raise ValueError


def _numeral(value: str) -> str:
    """The text of a number, without what only Python takes for a part of one."""
    if len(value) > _LONGEST_NUMBER or "_" in value or not value.isascii():
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    if isinstance(value, str):
        return int(_numeral(value))
    if value != int(value):
        raise ValueError
    return int(value)


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    return float(_numeral(value) if isinstance(value, str) else value)


def _float(value: Any) -> float:
    """A number that 32 bits can hold when it is rounded to them; a larger one would be infinite."""
    found = _double(value)
    # Raises OverflowError; the largest number is written as 3.4028235e38, which is more than it is.
    struct.pack("<f", found)
    return found


def _integer(type_: pyarrow.DataType) -> Convert:
    largest = (1 << (type_.bit_width - 1)) - 1

    def parse(value: Any) -> int:
        found = _whole(value)
        if not -largest - 1 <= found <= largest:
            raise ValueError
        return found

    return _scalar(parse, f"a whole number of {type_.bit_width} bits")


def _decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def parse(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        found = Decimal(_numeral(str(value))).quantize(unit, context=_EXACT)
        if not found.is_finite() or len(found.as_tuple().digits) > precision:
            raise ValueError
        return found

    return _scalar(parse, f"a number of {precision} digits, {scale} of them after the point")


def _stripped(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip()


def _time(value: Any) -> datetime:
    found = datetime.fromisoformat(_stripped(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    text = _stripped(value)
    if len(text) > 10 and _ZONE.fullmatch(text[10:]) is None:
        return datetime.fromisoformat(text).date()
    return date.fromisoformat(text[:10])


def _unsupported(type_: str) -> Convert:
    def convert(value: Any, path: str, report: Report) -> Any:
        report(f"{path} cannot be read as {type_}")
        return None

    return convert


_SCALARS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Any], Any], ...]] = (
    (lambda one: bool(pyarrow.types.is_string(one) or pyarrow.types.is_large_string(one)), _text, "a text"),
    (pyarrow.types.is_boolean, _boolean, "true or false"),
    (pyarrow.types.is_float32, _float, "a number of 32 bits"),
    (pyarrow.types.is_floating, _double, "a number"),
    (pyarrow.types.is_timestamp, _time, "a time in ISO 8601"),
    (pyarrow.types.is_date, _date, "a date in ISO 8601"),
    (
        lambda one: bool(pyarrow.types.is_binary(one) or pyarrow.types.is_large_binary(one)),
        lambda value: base64.b64decode(_stripped(value), validate=True),
        "base64",
    ),
)


def _shown(value: Any) -> str:
    return quoted(_text(value), _LONGEST_SHOWN)
