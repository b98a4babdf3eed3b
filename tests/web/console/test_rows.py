"""Sorting, filtering and paging of tables."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.status import MQError
from msmq.web.console.rows import PAGE, TablePage, TableRows, read_query

COLUMNS = {"number": lambda row: row, "text": lambda row: str(row)}


def table(total: int, **query: str) -> TablePage[int]:
    """A page of the numbers below C{total}."""
    rows: TableRows[int] = TableRows(read_query(dict(query), COLUMNS, "number"), COLUMNS, str)
    for number in range(total):
        rows.add(number)
    return rows.page()


class TableTests(SynchronousTestCase):
    """A table of any length is shown one page at a time."""

    def test_sort(self) -> None:
        """Rows are sorted by a column, in both directions."""
        self.assertEqual(list(table(3).rows), [0, 1, 2])
        self.assertEqual(list(table(3, order="down").rows), [2, 1, 0])
        self.assertEqual(list(table(11, sort="text").rows)[:3], [0, 1, 10])

    def test_filter(self) -> None:
        """Only rows with the text are shown, and both numbers of rows are known."""
        page = table(120, filter="11")
        self.assertEqual((list(page.rows)[:2], page.matching, page.total), ([11, 110], 11, 120))

    def test_pages(self) -> None:
        """A page after the last is the last; an empty table has one page."""
        page = table(2 * PAGE + 1, page="2")
        self.assertEqual((page.rows[0], len(page.rows), page.pages), (PAGE, PAGE, 3))
        page = table(2 * PAGE + 1, page="99999999")
        self.assertEqual((list(page.rows), page.query.page), ([2 * PAGE], 3))
        self.assertEqual((table(0).pages, list(table(0).rows)), (1, []))

    def test_many_rows(self) -> None:
        """Of many rows a page has the same as of few, also of those with equal keys, in both directions."""
        columns = {"rest": lambda row: row % 7}
        numbers = [(number * 7919) % 5003 for number in range(5003)]
        for order, is_descending in (("up", False), ("down", True)):
            for page in (1, 3, 101, 500):
                query = read_query({"order": order, "page": str(page)}, columns, "rest")
                rows: TableRows[int] = TableRows(query, columns, str)
                for number in numbers:
                    rows.add(number)
                found = rows.page()
                expected = sorted(numbers, key=columns["rest"], reverse=is_descending)
                first = (found.query.page - 1) * PAGE
                self.assertEqual(list(found.rows), expected[first : first + PAGE], (order, page))
                self.assertEqual((found.matching, found.total), (5003, 5003))

    def test_bad_input(self) -> None:
        """An unknown column, order or page is refused with the value."""
        for query, text in (
            ({"sort": "size"}, "sort: 'size' is not a column; there are number, text"),
            ({"order": "sideways"}, "order is up or down"),
            ({"page": "two"}, "page"),
        ):
            error = self.assertRaises(MQError, table, 1, **query)
            self.assertIn(text, error.detail)
