"""C{decodeSchema}: bodies as structs in Spark, as Spark's own reader of JSON reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from msmq.persistence.changes import PutQueue, PutState
from msmq.pipeline.spark.failures import reason
from tests.builders import ALPHA
from tests.pipeline.spark_support import SparkTestCase
from tests.pipeline.stores import ORDERS, packet, put, write_log

FIELDS = "id BIGINT, total DOUBLE, lines ARRAY<STRUCT<sku: STRING, count: INT>>"


LINE = "sku:string,count:bigint"


def order(number: int) -> bytes:
    """The body of an order."""
    lines = [{"sku": f"s{line}", "count": line} for line in range(number % 3)]
    return json.dumps({"id": number, "total": number * 1.5, "lines": lines}).encode()


class DecodedStructTests(SparkTestCase):
    """Fields of bodies as fields of a column."""

    def setUp(self) -> None:
        super().setUp()
        bodies = [*map(order, range(1, 20)), b'{"id": "many"}', b"[1]", b"not JSON"]
        self.path = write_log(
            Path(self.mktemp()).absolute(),
            [
                PutState("queue_manager", ALPHA.bytes),
                PutQueue(ORDERS),
                *(put(number, content=packet(number, body)) for number, body in enumerate(bodies, 1)),
            ],
        )

    def read(self, **options: Any) -> DataFrame:
        reader = self.spark.read.format("msmq").options(**{"decode": "json", **options})
        return reader.option("columns", "offset,value,decoded,decode_error").load(str(self.path))

    def test_declared(self) -> None:
        """The fields are those that Spark reads from the same texts; what does not fit says why."""
        frame = self.read(decodeSchema=FIELDS)
        expected = F.from_json(F.col("value").cast("string"), FIELDS)
        found = self.rows(frame.where("offset < 20").select("decoded", expected.alias("expected")))
        self.assertEqual(len(found), 19)
        for row in found:
            self.assertEqual(row["decoded"], row["expected"])
        errors = {row["offset"]: row["decode_error"] for row in self.rows(frame.where("offset >= 20"))}
        self.assertEqual(errors[20], "body.id is not a whole number of 64 bits: 'many'")
        self.assertEqual(errors[21], "body is not an object: '[1]'")
        self.assertIn("JSON", errors[22])
        sums = frame.selectExpr("sum(decoded.total)", "count(decoded)").collect()[0]
        self.assertEqual(tuple(sums), (sum(number * 1.5 for number in range(1, 20)), 20))

    def test_inferred(self) -> None:
        """The inferred type is that of all bodies, and is the one that Spark infers."""
        frame = self.read(decodeSchema="infer", endingTimestamp="1700000020250")
        texts = frame.select(F.col("value").cast("string"))
        theirs = self.spark.read.json(texts.rdd.map(lambda row: row[0])).schema
        ours = frame.schema["decoded"].dataType
        assert isinstance(ours, StructType)
        self.assertEqual(
            {field.name: field.dataType.simpleString() for field in ours},
            # Spark sorts the fields.
            {
                field.name: field.dataType.simpleString().replace("count:bigint,sku:string", LINE)
                for field in theirs
            },
        )

    def refused(self, **options: Any) -> str:
        with self.assertRaises(PySparkException) as caught:
            self.read(**options).collect()
        self.assertNotIn("Traceback", str(caught.exception))
        return reason(caught.exception)

    def test_refusals(self) -> None:
        """A schema without a format, and nothing to infer from, are one line."""
        self.assertIn("decodeSchema needs decode", self.refused(decode="none", decodeSchema="id INT"))
        said = self.refused(decode="xml", decodeSchema="infer")
        self.assertIn("can be decoded as xml: give the fields, such as id BIGINT", said)
        self.assertIn("decodeSchema is '': must be infer, or fields", self.refused(decodeSchema=""))
