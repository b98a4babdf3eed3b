"""The fields of C{decodeSchema}: checked before Spark parses the whole schema, whose error would name none.

id BIGINT, `the total`: DECIMAL(10, 2) NOT NULL, lines ARRAY<STRUCT<sku: STRING>> COMMENT 'of the order'
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from msmq.quoting import quoted

LONGEST: Final = 100_000
"""Characters of the longest schema."""

DEEPEST: Final = 100
"""How deep types may be nested."""

_PLAIN: Final = {
    **dict.fromkeys(("BIGINT", "LONG", "INT", "INTEGER", "SMALLINT", "SHORT", "TINYINT", "BYTE"), 0),
    **dict.fromkeys(("BOOLEAN", "FLOAT", "REAL", "DOUBLE", "STRING", "BINARY", "DATE"), 0),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"), 0),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), 2),
}
"""The types without parts, and how many numbers each may have in parentheses."""

_SHOWN: Final = (
    *("BIGINT", "INT", "SMALLINT", "TINYINT", "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<...>", "STRUCT<...>", "MAP<STRING, ...>"),
)
_TOKEN: Final = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))"
)
_END: Final = ""


def check_fields(text: str) -> None:
    """Check the fields of a struct, as DDL of Spark with types that bodies can be read as.

    @raise ValueError: they are not; the text names the field and its type.
    """
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} characters")
    _Fields(_tokens(text)).read()


def _tokens(text: str) -> list[str]:
    found, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"cannot be read from {quoted(text[position:end].lstrip(), 40)}")
        found.append(match[match.lastindex or 0])
        position = match.end()
    return found


@attrs.define
class _Fields:
    """Recursive descent over the tokens; C{field} is the path of the one that is read."""

    tokens: list[str]
    place: int = 0
    field: str = ""

    def read(self) -> None:
        self._struct("", _END, 0)

    @property
    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else _END

    def _take(self) -> str:
        token = self._next
        self.place += 1
        return token

    def _struct(self, path: str, end: str, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError(f"is nested deeper than {DEEPEST} types, in the field {self.field}")
        if end and self._next == end:
            self.place += 1
            return
        names: set[str] = set()
        while True:
            name = self._take()
            if not (name[:1] == "`" or re.fullmatch(r"\w+", name)):
                raise ValueError(f"lacks the name of a field {self._before(name)}")
            plain = name.strip("`").replace("``", "`")
            self.field = f"{path}{plain}"
            if not path and plain.upper() == "STRUCT" and self._next == "<":
                raise ValueError("is a type: give its fields alone, without STRUCT< and >")
            if plain in names:
                raise ValueError(f"has the field {quoted(self.field)} twice")
            names.add(plain)
            if self._next == ":":
                self.place += 1
            self._type(depth)
            self._details()
            token = self._take()
            if token == end:
                return
            if token != ",":
                wanted = f"a comma or {end}" if end else "a comma"
                raise ValueError(f"lacks {wanted} after the field {self.field} {self._before(token)}")

    def _type(self, depth: int) -> None:
        field, name = self.field, self._take()
        match name.upper():
            case "ARRAY":
                self._open(name)
                self._nested(f"{field}[]", depth)
            case "MAP":
                self._open(name)
                if (key := self._take()).upper() != "STRING":
                    raise ValueError(f"has the field {quoted(field)} as a MAP with keys {key}, not STRING")
                self._expect(",", field)
                self._nested(f"{field}[]", depth)
            case "STRUCT":
                self._open(name)
                self._struct(f"{field}.", ">", depth + 1)
            case plain if plain in _PLAIN:
                if self._next == "(":
                    self._numbers(_PLAIN[plain], plain)
            case _ if name in (_END, ",", ">"):
                raise ValueError(f"has the field {quoted(field)} without a type")
            case _:
                raise ValueError(
                    f"has the field {quoted(field)} as {quoted(name)}, which is not one of"
                    f" {', '.join(_SHOWN)}"
                )
        self.field = field

    def _nested(self, field: str, depth: int) -> None:
        """The type of an element, and the end of the type that contains it."""
        if depth > DEEPEST:
            raise ValueError(f"is nested deeper than {DEEPEST} types, in the field {self.field}")
        self.field = field
        self._type(depth + 1)
        self._expect(">", field)

    def _open(self, name: str) -> None:
        if self._next != "<":
            raise ValueError(f"has the field {quoted(self.field)} as {name} without its parts in < and >")
        self.place += 1

    def _expect(self, token: str, field: str) -> None:
        found = self._take()
        if found != token:
            raise ValueError(f"lacks {token} in the type of the field {quoted(field)} {self._before(found)}")

    def _numbers(self, most: int, name: str) -> None:
        given = []
        self.place += 1
        while (token := self._take()) != ")":
            if not token.isdecimal() and token != ",":
                raise ValueError(f"lacks ) in the type of the field {quoted(self.field)}")
            if token != ",":
                given.append(int(token[:9]))
        if not 1 <= len(given) <= most or given[0] > 38 or given[-1] > given[0]:
            raise ValueError(
                f"has the field {quoted(self.field)} as {name}({', '.join(map(str, given))}), which is not a"
                f" type: {'DECIMAL has up to 38 digits' if most else f'{name} has no numbers'}"
            )

    def _details(self) -> None:
        """NOT NULL and COMMENT 'text'."""
        if self._next.upper() == "NOT":
            self.place += 1
            if self._take().upper() != "NULL":
                raise ValueError(f"has NOT without NULL after the field {quoted(self.field)}")
        if self._next.upper() == "COMMENT":
            self.place += 1
            if self._take()[:1] not in ("'", '"'):
                raise ValueError(f"has COMMENT without a quoted text after the field {quoted(self.field)}")

    def _before(self, token: str) -> str:
        return f"before {quoted(token, 40)}" if token else "at the end"
