"""Filters and sort orders of directory reads. [MS-MQDMPR] 3.1.7.1.20, 3.1.7.1.21."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.membership.attributes import DirectoryObject, attributes_of_type
from msmq.membership.entry import DirectoryEntry, check_names
from msmq.quoting import quoted

T = TypeVar("T", bound=DirectoryObject)


class FilterOperator(enum.Enum):
    """The operators of an attribute-filter expression. [MS-MQDMPR] 3.1.7.1.20."""

    EQUALS = "EQUALS"
    NOT_EQUALS = "NOT-EQUALS"
    LESS_THAN = "LESS-THAN"
    GREATER_THAN = "GREATER-THAN"
    LESS_THAN_OR_EQUAL = "LESS-THAN-OR-EQUAL"
    GREATER_THAN_OR_EQUAL = "GREATER-THAN-OR-EQUAL"


_EQUALITIES: Final = (FilterOperator.EQUALS, FilterOperator.NOT_EQUALS)
_COMPARISONS: Final[dict[FilterOperator, Callable[[Any, Any], bool]]] = {
    FilterOperator.EQUALS: operator.eq,
    FilterOperator.NOT_EQUALS: operator.ne,
    FilterOperator.LESS_THAN: operator.lt,
    FilterOperator.GREATER_THAN: operator.gt,
    FilterOperator.LESS_THAN_OR_EQUAL: operator.le,
    FilterOperator.GREATER_THAN_OR_EQUAL: operator.ge,
}


@attrs.frozen
class AttributeFilter:
    """An attribute-filter expression. [MS-MQDMPR] 3.1.7.1.20.

    Texts compare without case, as the names of computers, queues and sites do.
    A list attribute matches if any member matches; NOT EQUALS requires that no member is equal.
    An unset attribute never matches.

    @ivar attribute: the left side, the name of a Directory attribute.
    @ivar value: the right side.
    """

    attribute: str
    operator: FilterOperator
    value: Any

    def matches(self, values: Mapping[str, Any]) -> bool:
        """Whether an object with these set attributes matches the expression."""
        held = values.get(self.attribute)
        if held is None:
            return False
        compare = _COMPARISONS[self.operator]
        right = _comparable(self.value)
        if not isinstance(held, tuple):
            return compare(_comparable(held), right)
        each = (compare(_comparable(member), right) for member in held)
        return all(each) if self.operator is FilterOperator.NOT_EQUALS else any(each)


def equals(attribute: str, value: Any) -> AttributeFilter:
    """Create the expression: attribute EQUALS value."""
    return AttributeFilter(attribute, FilterOperator.EQUALS, value)


@attrs.frozen
class SortOrder:
    """An attribute-sort-order value. [MS-MQDMPR] 3.1.7.1.21.

    @ivar priority: SortPriority; the highest first; 0 is ignored.
    @ivar ascending: SortAscending.
    """

    priority: int = 0
    ascending: bool = True


def check_query(
    of: type[DirectoryObject],
    filters: Sequence[AttributeFilter],
    attributes: Sequence[str] | None,
    order: Sequence[SortOrder] = (),
) -> None:
    """Check the filters and sort orders of a read.

    @raise LocalProtocolError: an unpublished attribute, a value of the wrong kind, a sort order of values
        without an order, or not one sort order per attribute.
    """
    check_names(of, [expression.attribute for expression in filters])
    for expression in filters:
        row = attributes_of_type(of)[expression.attribute]
        value = (expression.value,) if row.kind.is_list else expression.value
        if not row.kind.holds(value):
            raise LocalProtocolError(
                f"{of.TYPE}.{row.name} is {row.kind.name}, not {quoted(expression.value)}"
            )
        if not row.kind.is_ordered and expression.operator not in _EQUALITIES:
            raise LocalProtocolError(f"{of.TYPE}.{row.name} has no order for {expression.operator.value}")
    if attributes is not None:
        check_names(of, attributes)
    if order and len(order) != len(attributes or ()):
        raise LocalProtocolError(f"{len(order)} sort orders for {len(attributes or ())} attributes")


def is_match(entry: DirectoryEntry[T], filters: Sequence[AttributeFilter]) -> bool:
    """Whether an object matches all expressions, possibly none."""
    return all(expression.matches(entry.values) for expression in filters)


def select(
    entries: Sequence[DirectoryEntry[T]],
    filters: Sequence[AttributeFilter],
    attributes: tuple[str, ...] | None = None,
    order: Sequence[SortOrder] = (),
) -> list[DirectoryEntry[T]]:
    """The objects that match a read, sorted, with the requested attributes. [MS-MQDMPR] 3.1.7.1.21.

    Unset values come first; the sort is stable.

    @param order: as many as C{attributes}, or none.
    """
    found = [entry for entry in entries if is_match(entry, filters)]
    for name, direction in directions(attributes, order):
        keyed = [(key(entry.values), entry) for key in (sort_key(name),) for entry in found]
        keyed.sort(key=operator.itemgetter(0), reverse=not direction.ascending)
        found = [entry for _, entry in keyed]
    return [entry.only(attributes) for entry in found]


def directions(
    attributes: tuple[str, ...] | None, order: Sequence[SortOrder]
) -> Sequence[tuple[str, SortOrder]]:
    """The sort keys in order of precedence.

    Of two with the same priority the first one takes precedence.
    """
    keys = sorted(zip(reversed(attributes or ()), reversed(order), strict=False), key=_priority)
    return [(name, direction) for name, direction in keys if direction.priority > 0]


def sort_key(name: str) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Sort key of an object with these attributes; unset values come first."""

    def key(values: Mapping[str, Any]) -> tuple[Any, ...]:
        value = values.get(name)
        if value is None:
            return (0,)
        members = value if isinstance(value, tuple) else (value,)
        return (1, *map(_sortable, members))

    return key


def _priority(key: tuple[str, SortOrder]) -> int:
    return key[1].priority


def _comparable(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _sortable(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return value if isinstance(value, int | bytes) else str(value).lower()
