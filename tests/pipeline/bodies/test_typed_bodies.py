"""Bodies as structs: with declared fields, and with inferred ones."""

from __future__ import annotations

import io
import json
import math
import struct
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import json as arrow_json
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.body_shapes import DEEPEST, MOST_FIELDS, MOST_PATHS, BodyShape, parent_of, paths_of
from msmq.pipeline.typed_bodies import typed_column
from tests.samples import examples

ORDER = pyarrow.struct(
    [
        ("id", pyarrow.int64()),
        ("customer", pyarrow.string()),
        ("paid", pyarrow.bool_()),
        ("total", pyarrow.decimal128(10, 2)),
        ("weight", pyarrow.float64()),
        ("placed", pyarrow.timestamp("us", "UTC")),
        ("lines", pyarrow.list_(pyarrow.struct([("sku", pyarrow.string()), ("count", pyarrow.int32())]))),
    ]
)
LARGEST_FLOAT = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]


def decoded(value: Any) -> str:
    """The column C{decoded} of a body."""
    return json.dumps({"format": "json", "reading": "JSON", "value": value})


class TypedColumnTests(SynchronousTestCase):
    """Conversion to declared types."""

    def typed(self, value: Any, type_: pyarrow.DataType = ORDER) -> tuple[Any, str | None]:
        array, [error] = typed_column([decoded(value)], type_)
        return array[0].as_py(), error

    def test_fields(self) -> None:
        """Each field has its type; further fields are left out, and missing ones are null."""
        line = {"sku": "A-1", "count": 2}
        found, error = self.typed({"id": 7, "total": 5.5, "lines": [line], "also": 1, "paid": True})
        self.assertIsNone(error)
        expected = {"id": 7, "customer": None, "paid": True, "weight": None, "placed": None, "lines": [line]}
        self.assertEqual({key: found[key] for key in expected}, expected)
        self.assertEqual(str(found["total"]), "5.50")

    def test_texts(self) -> None:
        """XML has texts only, and a list of one element is the element."""
        line = {"sku": "A", "count": "2"}
        xml = {"id": " 7", "paid": "false", "total": "12.3", "weight": "1e3", "lines": line}
        found, error = self.typed({**xml, "placed": "2026-01-31T12:00:00+02:00"})
        self.assertIsNone(error)
        self.assertEqual((found["id"], found["paid"], found["weight"]), (7, False, 1000.0))
        self.assertEqual(found["lines"], [{"sku": "A", "count": 2}])
        self.assertEqual(found["placed"].isoformat(), "2026-01-31T10:00:00+00:00")

    def test_limits_of_types(self) -> None:
        """Each value that a type can hold is read, and none that it cannot."""
        digits = "123456789012345678901234567890.12"
        for value, type_, expected in (
            (digits, pyarrow.decimal128(38, 2), Decimal(digits)),
            (-(10**37), pyarrow.decimal128(38, 0), Decimal(-(10**37))),
            ("0.1234567890123456789012345678901234567", pyarrow.decimal128(38, 2), Decimal("0.12")),
            (10**38, pyarrow.decimal128(38, 0), None),
            ("1e999999", pyarrow.decimal128(38, 2), None),
            (3.4e38, pyarrow.float32(), struct.unpack("f", struct.pack("f", 3.4e38))[0]),
            (3.4028235e38, pyarrow.float32(), LARGEST_FLOAT),
            ("-3.4028235E+38", pyarrow.float32(), -LARGEST_FLOAT),
            (3.4028236e38, pyarrow.float32(), None),
            (1e300, pyarrow.float32(), None),
            ("-1e39", pyarrow.float32(), None),
            ("INF", pyarrow.float32(), math.inf),
            (1e300, pyarrow.float64(), 1e300),
            ("1_000", pyarrow.int64(), None),
            ("1_0.5", pyarrow.float64(), None),
            ("1_000", pyarrow.decimal128(10, 2), None),
            ("\u0661", pyarrow.int64(), None),
            ("2026-01-31", pyarrow.date32(), date(2026, 1, 31)),
            ("2026-01-31Z", pyarrow.date32(), date(2026, 1, 31)),
            ("2026-01-31T12:00:00+02:00", pyarrow.date32(), date(2026, 1, 31)),
            ("20260131T1200", pyarrow.date32(), date(2026, 1, 31)),
            ("2026-01-31 or so", pyarrow.date32(), None),
        ):
            with self.subTest(value=value, type=type_):
                found, error = self.typed(value, type_)
                self.assertEqual((expected, expected is None), (found, error is not None))

    def test_wrong_values(self) -> None:
        """A value that its type cannot hold is null, and the reason names its path and the value."""
        for value, reason in (
            ({"id": "seven"}, "body.id is not a whole number of 64 bits: 'seven'"),
            ({"id": 1.5}, "body.id is not a whole number of 64 bits: '1.5'"),
            ({"id": True}, "body.id is not a whole number of 64 bits: 'true'"),
            ({"id": 1 << 63}, f"body.id is not a whole number of 64 bits: '{1 << 63}'"),
            ({"total": "12345678901.00"}, "body.total is not a number of 10 digits, 2 of them after"),
            ({"total": "nan"}, "body.total is not a number of 10 digits"),
            ({"paid": "perhaps"}, "body.paid is not true or false: 'perhaps'"),
            ({"placed": 5}, "body.placed is not a time in ISO 8601: '5'"),
            ({"lines": [{"count": 1 << 31}]}, "body.lines[].count is not a whole number of 32 bits"),
            ({"lines": "none"}, "body.lines[] is not an object: 'none'"),
            ({"id": "9" * 5000}, "body.id is not a whole number of 64 bits: '999"),
        ):
            found, error = self.typed({"customer": "Ada", **value})
            self.assertIn(reason, str(error))
            self.assertLess(len(str(error)), 200)
            self.assertEqual(found["customer"], "Ada")
        self.assertEqual(self.typed([1]), (None, "body is not an object: '[1]'"))
        array, errors = typed_column([None, decoded(None)], ORDER)
        self.assertEqual((array.null_count, errors), (2, [None, None]))

    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    "id": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
                    "customer": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                    "paid": st.none() | st.booleans(),
                    "weight": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                    "lines": st.none()
                    | st.lists(st.fixed_dictionaries({"sku": st.text("abc"), "count": st.integers(0, 99)})),
                }
            ),
            min_size=1,
        )
    )
    @settings(max_examples=examples(20), deadline=None)
    def test_any_bodies(self, bodies: list[dict[str, Any]]) -> None:
        """Of valid bodies the values are those of Arrow's own reader of JSON."""
        type_ = pyarrow.struct([field for field in ORDER if field.name not in ("total", "placed")])
        lines = b"".join(json.dumps({"body": body}).encode() + b"\n" for body in bodies)
        options = arrow_json.ParseOptions(pyarrow.schema([("body", type_)]))
        expected = arrow_json.read_json(io.BytesIO(lines), parse_options=options)["body"].to_pylist()
        found, errors = typed_column([decoded(body) for body in bodies], type_)
        self.assertEqual((found.to_pylist(), {*errors}), (expected, {None}))


class ShapeTests(SynchronousTestCase):
    """Shapes of bodies."""

    def ddl(self, *values: Any) -> str:
        return BodyShape.of(values).ddl()

    def test_types(self) -> None:
        """The type holds all values that were seen."""
        nested = "STRUCT<`a`: ARRAY<STRUCT<`b`: BIGINT, `c`: BOOLEAN>>>"
        for values, expected in (
            ((1, 2), "BIGINT"),
            ((1, 2.5), "DOUBLE"),
            ((1 << 64,), "DOUBLE"),
            ((True, None), "BOOLEAN"),
            ((1, "x"), "STRING"),
            ((True, 1), "STRING"),
            ((), "STRING"),
            (([],), "ARRAY<STRING>"),
            (([1], 2.5), "ARRAY<DOUBLE>"),
            (({},), "MAP<STRING, STRING>"),
            (({"a": 1}, {"b`c": "x"}), "STRUCT<`a`: BIGINT, `b``c`: STRING>"),
            (({"a": {"b": 1}}, {"a": [{"b": 2, "c": True}]}), nested),
            (({"a": 1}, "text"), "STRING"),
        ):
            self.assertEqual(self.ddl(*values), expected, values)

    def test_limits(self) -> None:
        """Senders choose names and nesting, so both have limits."""
        wide = BodyShape.of([{f"f{number}": 1 for number in range(MOST_FIELDS + 10)}])
        self.assertEqual(len(wide.fields), MOST_FIELDS)
        deep: Any = 1
        for _ in range(5000):
            deep = {"a": deep}
        self.assertEqual(self.ddl(deep).count("STRUCT"), DEEPEST)
        self.assertEqual(len(list(paths_of(deep))), DEEPEST + 1)
        many = {f"f{number}": 1 for number in range(MOST_PATHS * 2)}
        self.assertEqual(len(list(paths_of(many))), MOST_PATHS)

    def test_paths(self) -> None:
        """Each path once with each kind; a whole number is of the kind of others."""
        body = {"id": 1, "lines": [{"sku": "a"}, {"sku": None, "price": 5}, {"price": 5.5}]}
        self.assertEqual(
            sorted(paths_of(body)),
            [
                ("$", "object"),
                ("$.id", "number"),
                ("$.lines", "array"),
                ("$.lines[]", "object"),
                ("$.lines[].price", "number"),
                ("$.lines[].sku", "null"),
                ("$.lines[].sku", "string"),
            ],
        )
        parents = [parent_of(path) for path in ("$", "$.a", "$.a[]", "$.a[].b")]
        self.assertEqual(parents, ["", "$", "$.a", "$.a[]"])
