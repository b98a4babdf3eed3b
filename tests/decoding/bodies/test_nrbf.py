"""Objects of .NET in its binary format."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.bodies import Body, BodyNotDecoded, Limits
from msmq.decoding.bodies.nrbf import NrbfDecoder
from tests.decoding.bodies.vectors import vectors

HEADER = bytes.fromhex("0001000000ffffffff0100000000000000")
END = b"\x0b"


def text(identifier: int, value: str) -> bytes:
    """A BinaryObjectString of less than 128 bytes."""
    data = value.encode()
    return b"\x06" + pack("<i", identifier) + bytes((len(data),)) + data


def name(value: str) -> bytes:
    return bytes((len(value),)) + value.encode()


def system_class(identifier: int, class_name: str, **members: bytes) -> bytes:
    """A SystemClassWithMembers, whose members are records."""
    head = b"\x02" + pack("<i", identifier) + name(class_name) + pack("<i", len(members))
    return head + b"".join(map(name, members)) + b"".join(members.values())


def reference(identifier: int) -> bytes:
    return b"\x09" + pack("<i", identifier)


def objects(identifier: int, *items: bytes, length: int | None = None) -> bytes:
    """An ArraySingleObject."""
    return b"\x10" + pack("<ii", identifier, len(items) if length is None else length) + b"".join(items)


def decode(data: bytes, limits: Limits | None = None) -> Any:
    return NrbfDecoder().decode(Body(data, 768), limits or Limits()).value


class VectorTests(SynchronousTestCase):
    """Streams written by BinaryFormatter itself."""

    def value(self, vector: str) -> Any:
        body = vectors()[vector]
        self.assertTrue(NrbfDecoder().recognises(body))
        self.assertTrue(NrbfDecoder().recognises(Body(body.data)), "without its BodyType")
        return decode(body.data)

    def test_a_string_is_text(self) -> None:
        """The most usual body of all."""
        self.assertEqual(self.value("nrbf-string"), "héllo")

    def test_a_boxed_number_is_the_number(self) -> None:
        """A boxed number is decoded as its value."""
        self.assertEqual(self.value("nrbf-int"), 42)

    def test_a_class_is_an_object(self) -> None:
        """Members have the names of their properties, and a list its items without what it keeps spare."""
        self.assertEqual(
            self.value("nrbf-order"),
            {
                "$type": "Shop.Order",
                "Id": 7,
                "Customer": "Müller & Söhne",
                "Placed": "2026-03-01T12:30:15Z",
                "Lines": [
                    {"$type": "Shop.Line", "Article": "nail", "Price": "0.05", "Count": 100},
                    {"$type": "Shop.Line", "Article": "hammer", "Price": "12.30", "Count": None},
                ],
                "Urgent": True,
                "Note": None,
            },
        )

    def test_every_primitive_type(self) -> None:
        """Numbers to their last digit, times to 100 ns, and what is not a number by its name."""
        value = self.value("nrbf-everything")
        expected = {
            "truth": True,
            "octet": 200,
            "signed": -5,
            "letter": "€",
            "small": -2,
            "usmall": 65535,
            "number": -7,
            "unumber": 4000000000,
            "large": -(2**63),
            "ularge": 2**64 - 1,
            "single": 1.5,
            "real": 3.141592653589793,
            "nan": "NaN",
            "money": "-12.3400",
            "utc": "2026-03-01T12:30:15.1234567Z",
            "plain": "1999-12-31T00:00:00",
            "span": "-1.02:03:04.005",
            "guid": "00112233-4455-6677-8899-aabbccddeeff",
            "nothing": None,
            "empty": "",
            "astral": "\U0001f600",
        }
        self.assertEqual({key: value[key] for key in expected}, expected)

    def test_arrays_of_every_shape(self) -> None:
        """Arrays of bytes, of other primitives, of objects with nulls, rectangular and jagged."""
        value = self.value("nrbf-everything")
        self.assertEqual(value["octets"], "AQID/w==")
        self.assertEqual(value["numbers"], [1, 2, 3])
        self.assertEqual(value["truths"], [True, False])
        self.assertEqual(value["words"], ["one", None, None, "two"])
        self.assertEqual(value["mixed"], [1, "x", None, 2.5, {"$type": "Shop.Point", "X": 1, "Y": 2}])
        self.assertEqual(value["table"], [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(value["square"], [[1, 2], [3, 4]])
        self.assertEqual(value["jagged"], [[1], [2, 3]])
        self.assertEqual(value["nulls"], [None] * 300)

    def test_enumerations_and_structures_say_what_they_are(self) -> None:
        """Both look like classes in the stream."""
        value = self.value("nrbf-everything")
        self.assertEqual(value["colour"], {"$type": "Shop.Colour", "value__": 2})
        self.assertEqual(value["point"], {"$type": "Shop.Point", "X": 3, "Y": 4})

    def test_a_cycle_ends(self) -> None:
        """A reference to an object in progress becomes a reference in the result."""
        self.assertEqual(
            self.value("nrbf-cycle"),
            {
                "$id": 1,
                "$type": "Shop.Node",
                "name": "a",
                "next": {"$id": 4, "$type": "Shop.Node", "name": "b", "next": {"$ref": 1}, "all": None},
                "all": [{"$ref": 1}, {"$ref": 4}, None],
            },
        )

    def test_shared_objects_keep_their_identity(self) -> None:
        """An array that two fields refer to keeps its identity."""
        self.assertEqual(self.value("nrbf-shared"), [{"$id": 2, "$values": [1, 2]}, {"$ref": 2}, "s", "s"])

    def test_an_exception_has_its_message(self) -> None:
        """Which is what dead letters are grouped by."""
        value = self.value("nrbf-exception")
        self.assertEqual(value["Message"], "no such order")
        self.assertEqual(value["InnerException"]["ClassName"], "System.ArgumentException")

    def test_a_list_whose_array_is_not_its_own_stays_an_object(self) -> None:
        """Else each list would have all of the array, and the array would be there twice."""
        lists = [
            system_class(
                number, "System.Collections.ArrayList", _items=reference(9), _size=b"\x08\x08\1\0\0\0"
            )
            for number in (2, 3)
        ]
        value = decode(HEADER + objects(1, *lists) + objects(9, b"\x0a", b"\x0a") + END)
        name = "System.Collections.ArrayList"
        self.assertEqual(
            value,
            [
                {"$type": name, "_items": {"$id": 9, "$values": [None, None]}, "_size": 1},
                {"$type": name, "_items": {"$ref": 9}, "_size": 1},
            ],
        )
        self.assertEqual(decode(HEADER + objects(1, lists[0]) + objects(9, b"\x0a") + END), [[None]])

    def test_boxed_text_is_text(self) -> None:
        """Which no formatter writes, but an attacker may."""
        boxed = system_class(1, "System.String", m_value=text(2, "x"))
        self.assertEqual(decode(HEADER + boxed + END), "x")

    def test_everything_is_json(self) -> None:
        """The result has nothing that JSON does not know."""
        for vector, body in vectors().items():
            if vector.startswith("nrbf"):
                json.dumps(decode(body.data), allow_nan=False)


class DamagedTests(SynchronousTestCase):
    """Streams that no formatter wrote."""

    def refused(self, data: bytes, words: str, limits: Limits | None = None) -> None:
        error = self.assertRaises(BodyNotDecoded, decode, data, limits)
        self.assertIn(words, str(error))

    def test_a_stream_that_is_cut_short_is_refused_wherever_it_is_cut(self) -> None:
        """And each time with what is missing."""
        for vector in ("nrbf-order", "nrbf-everything", "nrbf-cycle", "nrbf-shared"):
            data = vectors()[vector].data
            for size in range(len(data)):
                self.assertRaises(BodyNotDecoded, decode, data[:size])

    def test_bytes_after_the_end_are_ignored(self) -> None:
        """The stream has its own end."""
        self.assertEqual(decode(HEADER + text(1, "x") + END + b"rubbish"), "x")

    def test_other_headers_are_refused(self) -> None:
        """Headers of another version, of another format, and of a call are refused."""
        self.refused(b"\x01" + HEADER[1:], "RecordTypeEnum at offset 0")
        self.refused(HEADER[:9] + b"\x02" + HEADER[10:] + END, "is not 1.0")
        self.refused(HEADER + b"\x15", "a call of a remote method")

    def test_a_root_that_is_not_there_is_refused(self) -> None:
        self.refused(HEADER + text(2, "x") + END, "is 1, which is not the identifier of an object")

    def test_references_and_metadata_must_lead_somewhere(self) -> None:
        """A reference to nothing, a class like one that was not, an identifier twice."""
        self.refused(HEADER + objects(1, reference(9)) + END, "refers to object 9")
        self.refused(HEADER + b"\x01" + pack("<ii", 1, 9) + END, "names no class")
        self.refused(HEADER + text(1, "x") + text(1, "y") + END, "1 is that of another object")

    def test_counts_are_not_believed(self) -> None:
        """Lengths and counts far beyond the bytes that there are cost nothing."""
        many = 0x7FFFFFFF
        self.refused(HEADER + objects(1, length=many), "more than 10104 items")
        self.refused(HEADER + objects(1, length=many) + bytes(1_000_000), "more than 1000000 items")
        self.refused(HEADER + objects(1, length=-1), "is -1")
        self.refused(HEADER + b"\x0f" + pack("<ii", 1, many) + b"\x02", "needs 2147483647 bytes")
        self.refused(
            HEADER + b"\x02" + pack("<i", 1) + name("C") + pack("<i", many), "more than bytes remain"
        )
        self.refused(HEADER + b"\x06" + pack("<i", 1) + b"\xff\xff\xff\xff\xff", "more than 31 bits")
        ranks = b"\x07" + pack("<ib", 1, 2) + pack("<i", 2) + pack("<ii", many, many) + b"\x02"
        self.refused(HEADER + ranks, "more than 10144 items")
        self.refused(HEADER + b"\x07" + pack("<ibi", 1, 2, many), "is not from 1 to 32")

    def test_a_small_body_has_no_large_value(self) -> None:
        """The result of a small body is limited by its size, so a queue full of them costs little."""
        nulls = objects(1, b"\x0e" + pack("<i", 500_000), length=500_000)
        self.refused(HEADER + nulls + END, "more than 10128 items")
        self.assertEqual(decode(HEADER + nulls + END + bytes(125_000)), [None] * 500_000)
        long = b"\x06" + pack("<i", 2) + b"\xe8\x07" + b"x" * 1000
        self.refused(HEADER + objects(1, *[reference(2)] * 4000) + long + END, "characters")
        self.assertEqual(decode(HEADER + objects(1, *[reference(2)] * 100) + long + END), ["x" * 1000] * 100)

    def test_nulls_stay_inside_their_array(self) -> None:
        """Many nulls in a record of five bytes must be expected."""
        self.refused(HEADER + objects(1, b"\x0e" + pack("<i", 9), length=3), "goes beyond the end")
        self.refused(HEADER + system_class(1, "C", m=b"\x0d\x02") + END, "is not 1 outside an array")
        self.refused(HEADER + b"\x0a" + END, "a null object outside")

    def test_depth_is_limited(self) -> None:
        """The depth of nested objects and of references is limited."""
        inside = text(1000, "x")
        for number in range(200, 0, -1):
            inside = system_class(number, "C", m=inside)
        self.refused(HEADER + inside + END, "nested deeper than 100")
        chain = b"".join(objects(number, reference(number + 1)) for number in range(1, 2000))
        self.refused(HEADER + chain + text(2000, "x") + END, "nested deeper than 100")

    def test_each_dimension_of_an_array_is_a_level(self) -> None:
        """The result is not nested deeper than the limit allows."""

        def arrays(rank: int, count: int) -> bytes:
            head = [
                b"\x07" + pack("<ibi", number + 1, 2, rank) + pack("<i", 1) * rank for number in range(count)
            ]
            return HEADER + b"".join(one + b"\x02" for one in head) + b"\x0a" + END

        self.refused(arrays(32, 4), "nested deeper than 100")
        self.assertEqual(json.dumps(decode(arrays(32, 3))), "[" * 96 + "null" + "]" * 96)

    def test_rows_are_items(self) -> None:
        """A short body with many dimensions of one row has no result with a list for each item in each."""
        count = 9000
        array = b"\x07" + pack("<ibi", 1, 2, 32) + pack("<i", count) + pack("<i", 1) * 31
        data = HEADER + array + b"\x02" + b"\x0e" + pack("<i", count) + END
        self.refused(data, "more than 10648 items")
        plane = b"\x07" + pack("<ibi", 1, 2, 2) + pack("<ii", 3, 2) + b"\x02" + b"\x0d\x06"
        self.assertEqual(decode(HEADER + plane + END), [[None, None]] * 3)

    def test_what_is_referred_to_often_is_looked_at_once(self) -> None:
        """A class of a hundred thousand members that looks like a boxed number, and text in a box."""
        count = 100_000
        boxes = b"\x04" + pack("<i", 2) + name("System.X") + pack("<i", count) + name("m_value") * count
        boxes += b"\0" * count + b"\2" * count + b"\1" * count
        data = objects(1, boxes, *[reference(2)] * count, length=count + 1)
        value = decode(HEADER + data + END)
        self.assertEqual(value[1:], [{"$ref": 2}] * count)
        boxed = b"\x04" + pack("<i", 2) + name("System.X") + pack("<i", 1) + name("m_value") + b"\0\5"
        data = objects(1, boxed + name("9" * 100), *[reference(2)] * 999)
        self.refused(HEADER + data + END, "more than 99999 characters", Limits(characters=99_999))

    def test_text_that_is_referred_to_often_is_limited(self) -> None:
        """A short stream cannot make a long result."""
        data = HEADER + objects(1, *[reference(2)] * 1000) + text(2, "x" * 100) + END
        self.refused(data, "more than 99999 characters", Limits(characters=99_999))
        self.assertEqual(len(decode(data, Limits(characters=100_000))), 1000)

    def test_an_end_inside_something_is_refused(self) -> None:
        self.refused(HEADER + objects(1, length=1) + END, "ends the stream inside")
        self.refused(HEADER + system_class(1, "C", m=END), "ends the stream inside")

    def test_invalid_values_are_refused(self) -> None:
        """A decimal with other characters than digits, a time after the year 9999, and invalid UTF-8 are
        refused.
        """
        self.refused(HEADER + objects(1, b"\x08\x05" + name("1e9")) + END, "not a decimal number")
        self.refused(HEADER + objects(1, b"\x08\x0d" + b"\xff" * 7 + b"\x3f") + END, "not a time before")
        self.refused(HEADER + b"\x06" + pack("<i", 1) + b"\x01\xff" + END, "not UTF-8")
        self.refused(HEADER + objects(1, b"\x08\x12" + name("x")) + END, "is STRING")
