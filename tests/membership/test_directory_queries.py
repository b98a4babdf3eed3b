"""Which objects a read of the directory finds, and in which order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueManagerObject, QueueObject, RoutingLinkObject
from msmq.membership.queries import (
    AttributeFilter,
    FilterOperator,
    SortOrder,
    check_query,
    equals,
    select,
)
from msmq.persistence.definition import QueuePrivacy

COSTS = (1, 2, 3)
LINKS = [
    DirectoryEntry.holding(RoutingLinkObject(identifier=UUID(int=cost), actual_cost=cost)) for cost in COSTS
]


def queue(number: int, **attributes: Any) -> DirectoryEntry[QueueObject]:
    return DirectoryEntry(QueueObject, {"identifier": UUID(int=number), **attributes})


class FilterTests(SynchronousTestCase):
    """Attribute-filter expressions."""

    def costs(self, *filters: AttributeFilter) -> list[int]:
        return [entry["actual_cost"] for entry in select(LINKS, filters)]

    def test_operators(self) -> None:
        """MQDMPR-3.1.7.1.20-02: the six operators, on the cost of a link."""
        for name, costs in (
            ("EQUALS", [2]),
            ("NOT-EQUALS", [1, 3]),
            ("LESS-THAN", [1]),
            ("GREATER-THAN", [3]),
            ("LESS-THAN-OR-EQUAL", [1, 2]),
            ("GREATER-THAN-OR-EQUAL", [2, 3]),
        ):
            expression = AttributeFilter("actual_cost", FilterOperator(name), 2)
            self.assertEqual(self.costs(expression), costs, name)

    def test_no_filter(self) -> None:
        """Without an expression every object is found."""
        self.assertEqual(self.costs(), [1, 2, 3])

    @given(st.lists(st.tuples(st.sampled_from(FilterOperator), st.integers(0, 4)), max_size=4))
    def test_all_have_to_match(self, expressions: list[tuple[FilterOperator, int]]) -> None:
        """The result of several expressions is the intersection of their results."""
        filters = [AttributeFilter("actual_cost", *expression) for expression in expressions]
        expected = set(COSTS).intersection(*[self.costs(expression) for expression in filters])
        self.assertEqual(self.costs(*filters), sorted(expected))

    def test_texts_have_no_case(self) -> None:
        """A computer is found however its name is written."""
        held = DirectoryEntry.holding(QueueManagerObject(computer_name="Alpha"))
        self.assertEqual(select([held], [equals("computer_name", "aLPHA")]), [held])
        smaller = AttributeFilter("computer_name", FilterOperator.LESS_THAN, "BETA")
        self.assertEqual(select([held], [smaller]), [held])

    def test_lists(self) -> None:
        """For a list, one equal member is enough for equality, and no member may be equal for inequality."""
        sites = (UUID(int=1), UUID(int=2))
        held = DirectoryEntry.holding(QueueManagerObject(site_identifier_list=sites))
        for operator, number, expected in (
            (FilterOperator.EQUALS, 2, True),
            (FilterOperator.EQUALS, 3, False),
            (FilterOperator.NOT_EQUALS, 2, False),
            (FilterOperator.NOT_EQUALS, 3, True),
        ):
            expression = AttributeFilter("site_identifier_list", operator, UUID(int=number))
            self.assertEqual(expression.matches(held.values), expected, operator)

    def test_unset_attribute(self) -> None:
        """An attribute that is not set fulfils nothing, not even that it is not something."""
        for operator in FilterOperator:
            self.assertEqual(select([queue(1)], [AttributeFilter("quota", operator, 5)]), [])


class SortTests(SynchronousTestCase):
    """Attribute-sort-order values."""

    queues = (
        queue(1, label="b", quota=2),
        queue(2, label="A", quota=1),
        queue(3, label="B", quota=1),
        queue(4, quota=2),
    )

    def order(self, *order: SortOrder, attributes: tuple[str, ...] = ("label", "quota")) -> list[int]:
        names = ("identifier", *attributes)
        found = select(self.queues, (), names, (SortOrder(), *order))
        return [entry["identifier"].int for entry in found]

    def test_priorities(self) -> None:
        """MQDMPR-3.1.7.1.21-03: the higher priority counts first, 0 not at all, each in its direction."""
        self.assertEqual(self.order(SortOrder(0), SortOrder(0)), [1, 2, 3, 4])
        self.assertEqual(self.order(SortOrder(0), SortOrder(1)), [2, 3, 1, 4])
        self.assertEqual(self.order(SortOrder(1), SortOrder(2)), [2, 3, 4, 1])
        self.assertEqual(self.order(SortOrder(2), SortOrder(1)), [4, 2, 3, 1])
        self.assertEqual(self.order(SortOrder(2), SortOrder(1, ascending=False)), [4, 2, 1, 3])
        self.assertEqual(self.order(SortOrder(2, ascending=False), SortOrder(0)), [1, 3, 2, 4])

    def test_no_priority(self) -> None:
        """MQDMPR-3.1.7.1.21-03: an attribute without a priority does not sort, not even where nothing else
        decides.
        """
        found = select(self.queues[::-1], (), ("identifier", "quota"), (SortOrder(0), SortOrder(1)))
        self.assertEqual([entry["identifier"].int for entry in found], [3, 2, 4, 1])
        found = select(self.queues[::-1], (), ("identifier",), (SortOrder(0),))
        self.assertEqual([entry["identifier"].int for entry in found], [4, 3, 2, 1])

    def test_same_priority(self) -> None:
        """Of two sort keys with the same priority the first one takes precedence."""
        self.assertEqual(self.order(SortOrder(1), SortOrder(1)), [4, 2, 3, 1])
        both = self.order(SortOrder(1), SortOrder(1), attributes=("quota", "label"))
        self.assertEqual(both, [2, 3, 4, 1])

    def test_every_kind(self) -> None:
        """Objects can be sorted by an attribute of any type."""
        queues = [
            queue(2, type=UUID(int=2), security=b"b", journaling=True, privacy_level=QueuePrivacy.OPTIONAL),
            queue(1, type=UUID(int=1), security=b"a", journaling=False, privacy_level=QueuePrivacy.BODY),
        ]
        for name in ("identifier", "type", "security", "journaling", "privacy_level"):
            found = select(queues, (), ("identifier", name), (SortOrder(), SortOrder(1)))
            self.assertEqual([entry["identifier"].int for entry in found], [1, 2], name)
        managers = [
            DirectoryEntry.holding(QueueManagerObject(site_identifier_list=sites))
            for sites in ((UUID(int=2),), (), (UUID(int=1), UUID(int=3)))
        ]
        found_managers = select(managers, (), ("site_identifier_list",), (SortOrder(1),))
        lists = [[site.int for site in entry["site_identifier_list"]] for entry in found_managers]
        self.assertEqual(lists, [[], [1, 3], [2]])

    def test_only_what_was_asked_for(self) -> None:
        """Results have the requested attributes only."""
        [entry] = select(self.queues, [equals("label", "a")], ("quota",))
        self.assertEqual((entry.read, dict(entry.values)), (("quota",), {"quota": 1}))


class MeaninglessQueryTests(SynchronousTestCase):
    """Reads that no directory could answer."""

    def test_refused(self) -> None:
        """Each is refused, with the reason."""
        less = FilterOperator.LESS_THAN
        for filters, attributes, order, problem in (
            ([equals("colour", 1)], None, (), "colour"),
            ([equals("scope", 1)], None, (), "scope"),
            ([equals("quota", "much")], None, (), "'much'"),
            ([AttributeFilter("type", less, UUID(int=1))], None, (), "LESS-THAN"),
            ([AttributeFilter("journaling", less, True)], None, (), "LESS-THAN"),
            ([], ("colour",), (), "colour"),
            ([], ("label",), (SortOrder(), SortOrder()), "2 sort orders for 1"),
            ([], None, (SortOrder(),), "1 sort orders for 0"),
        ):
            error = self.assertRaises(
                LocalProtocolError, check_query, QueueObject, filters, attributes, order
            )
            self.assertIn(problem, str(error))

    def test_allowed(self) -> None:
        """Attributes may be read without an order, or with one for each."""
        check_query(QueueObject, [], ("label", "quota"))
        check_query(QueueObject, [], ("label", "quota"), (SortOrder(), SortOrder(1)))
        check_query(QueueObject, [], None)

    def test_member_of_a_list(self) -> None:
        """A list is compared with a member, not with a list."""
        check_query(QueueManagerObject, [equals("site_identifier_list", UUID(int=1))], None)
        lists = [equals("site_identifier_list", (UUID(int=1),))]
        self.assertRaises(LocalProtocolError, check_query, QueueManagerObject, lists, None)
