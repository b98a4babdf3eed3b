"""Range Retrieval of Attribute Values: value lists that are longer than an answer. [MS-ADTS] 3.1.1.3.1.3.3.

A server with MaxValRange (1,500 by default) answers C{member;range=0-1499} in place of C{member}; the rest is
read with C{member;range=1500-*} until an answer ends with an asterisk.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from msmq.directory.ldap.transport.wire import Entry, LdapControl

MOST_VALUES: Final = 200_000
"""Limit on the values of one attribute that are read in ranges."""

NO_RANGE_ERROR: Final = LdapControl(b"1.2.840.113556.1.4.1948")
"""LDAP_SERVER_RANGE_RETRIEVAL_NOERR_OID: a range behind the last value is empty. [MS-ADTS] 3.1.1.3.4.1.22."""

CHANGE_NUMBER: Final = "uSNChanged"
"""The attribute that changes with every change of an entry."""

_MARK: Final = ";range="
_RANGED: Final = re.compile(r"(?P<attribute>[^;]+);range=(?P<first>[0-9]{1,10})-(?P<last>[0-9]{1,10}|\*)")


class ValueRangeError(ValueError):
    """A server returns a range of values that was not requested, or more values than the limit."""


def ranged_attributes(entry: Entry) -> list[str]:
    """The attributes, in lower case, of which an entry has a range of the values instead of all."""
    return [name.partition(_MARK)[0] for name in entry.values if _MARK in name]


@attrs.define
class ValueList:
    """The values of one attribute of an entry, read range by range.

    @ivar values: those that are read so far.
    @ivar is_changed: whether the entry was changed while its values were read, so that one may be missing.
    """

    entry: str
    attribute: str
    values: list[bytes] = attrs.field(factory=list)
    is_changed: bool = False
    _change: bytes | None = None

    @property
    def following(self) -> tuple[str, str]:
        """The attribute descriptions that ask for the next range."""
        return f"{self.attribute};range={len(self.values)}-*", CHANGE_NUMBER

    def add(self, answered: Entry) -> bool:
        """Take the next range from an answer.

        @return: whether it was the last one.
        @raise ValueRangeError: the range does not begin where the last one ended, or does not hold as many
            values as it says, or there are more values than L{MOST_VALUES}.
        """
        change = answered.first(CHANGE_NUMBER)
        self.is_changed = self.is_changed or bool(self.values and change != self._change)
        self._change = change
        ranges = [name for name in answered.values if name.startswith(self.attribute + _MARK)]
        if not ranges:
            # All values at once, or none after the known ones.
            self.values += answered.all(self.attribute)
            return True
        held = answered.all(ranges[0])
        found = _RANGED.fullmatch(ranges[0])
        expected = len(self.values)
        if (
            found is None
            or int(found["first"]) != expected
            or (found["last"] != "*" and int(found["last"]) - expected + 1 != len(held))
        ):
            raise ValueRangeError(
                f"{self.entry}: the server answers {ranges[0]} with {len(held)} values"
                f" to the request for {self.following[0]}"
            )
        self.values += held
        if len(self.values) > MOST_VALUES:
            raise ValueRangeError(f"{self.entry}: {self.attribute} has more than {MOST_VALUES} values")
        return found["last"] == "*"


def with_values(entry: Entry, lists: dict[str, list[bytes]]) -> Entry:
    """An entry with these value lists in place of their ranges."""
    kept = {name: values for name, values in entry.values.items() if _MARK not in name}
    return Entry(entry.name, {**kept, **{name: tuple(values) for name, values in lists.items() if values}})
