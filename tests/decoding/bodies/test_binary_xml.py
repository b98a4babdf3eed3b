"""Binary XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.bodies import BodyNotDecoded, Limits
from msmq.decoding.bodies.binary_xml import parse_binary_xml
from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.xml_text import parse_xml
from msmq.errors import RemoteProtocolError
from tests.decoding.bodies.vectors import vectors

EXAMPLES = Path(__file__).resolve().parents[2] / "vectors" / "mc-nbfx-3.txt"


def parse(
    data: str | bytes, limits: Limits | None = None, *, table: list[str] | None = None
) -> dict[str, Any]:
    data = bytes.fromhex(data) if isinstance(data, str) else data
    return parse_binary_xml(data, Budget(limits or Limits()), table=table)


class ExampleTests(SynchronousTestCase):
    """[MC-NBFX] 3, where each record has the characters that it means."""

    def test_every_record_says_what_the_document_says(self) -> None:
        """The characters, parsed as XML in text, give the same as the bytes.

        What holds several elements or none, which is not a document, is put inside another.
        """
        count = 0
        for line in EXAMPLES.read_text(encoding="ascii").splitlines():
            record, data, characters = line.split(" ", 2)
            whole = bytes.fromhex("4001 78") + bytes.fromhex(data) + b"\x01"
            found = parse_binary_xml(whole, Budget(Limits()), strings="str{}".format)
            expected, _ = parse_xml(f"<x>{characters}</x>".encode(), Limits())
            self.assertEqual(found, expected, record)
            count += 1
        self.assertEqual(count, 83)

    def test_the_example_of_soap(self) -> None:
        """[MC-NBFS] 3, whose names are all in its table."""
        data = "56020B0161060B01730456 08440A1E00829906616374696F6E01560E4009496E76656E746F7279810101"
        self.assertEqual(
            parse(data),
            {
                "Envelope": {
                    "Header": {"Action": {"@mustUnderstand": "1", "#text": "action"}},
                    "Body": {"Inventory": "0"},
                }
            },
        )


class VectorTests(SynchronousTestCase):
    """Documents from a writer of .NET."""

    def test_every_type_of_value(self) -> None:
        """Each is the text that the same value has in XML."""
        self.assertEqual(
            parse(vectors()["nbfx"].data),
            {
                "all": {
                    "text": "héllo",
                    "int": "-70000",
                    "long": "9223372036854775807",
                    "float": "32.45",
                    "double": "0.1",
                    "decimal": "-5.12",
                    "date": "2026-03-01T12:30:15Z",
                    "guid": "00112233-4455-6677-8899-aabbccddeeff",
                    "span": "-PT5M44S",
                    "bool": "true",
                    "bytes": "AAECAw==",
                    "id": "urn:uuid:00112233-4455-6677-8899-aabbccddeeff",
                    "child": {"@a": "1"},
                }
            },
        )

    def test_an_envelope_of_wcf(self) -> None:
        """A data contract in a SOAP envelope."""
        envelope = parse(vectors()["soap"].data)["Envelope"]
        self.assertEqual(envelope["Header"]["To"]["#text"], "net.msmq://host/private/orders")
        order = envelope["Body"]["Order"]
        self.assertEqual(order["_x003C_Customer_x003E_k__BackingField"], "Müller & Söhne")
        self.assertEqual(order["_x003C_Note_x003E_k__BackingField"], None)


class TableTests(SynchronousTestCase):
    """[MC-NBFSE] 2.1: a document that brings its own strings."""

    def test_odd_numbers_are_of_its_table_and_even_ones_of_soap(self) -> None:
        """The first refers to string 1."""
        table = b"\x07\x03Bad\x02ly"
        data = table + b"\x42\x02" + b"\x42\x01" + b"\x99\x01x" + b"\x42\x03\x01" + b"\x01"
        self.assertEqual(parse(data, table=[]), {"Envelope": {"Bad": "x", "ly": ""}})

    def test_the_strings_of_documents_before_it_keep_their_numbers(self) -> None:
        """A consumer keeps the mapping until there are no further documents; new strings go on behind it."""
        data = b"\x03\x02ly" + b"\x42\x02" + b"\x42\x01" + b"\x99\x01x" + b"\x42\x03\x01" + b"\x01"
        self.assertEqual(parse(data, table=["Bad"]), {"Envelope": {"Bad": "x", "ly": ""}})

    def test_strings_that_do_not_fill_the_table_are_refused(self) -> None:
        for size in (6, 8):
            data = bytes((size,)) + b"\x03Bad\x02ly" + b"\x42\x02\x01"
            self.assertRaises(RemoteProtocolError, parse, data[:8] if size == 8 else data, table=[])


class DamagedTests(SynchronousTestCase):
    """Malformed documents."""

    def refused(self, data: str | bytes, words: str, limits: Limits | None = None) -> None:
        error = self.assertRaises((BodyNotDecoded, RemoteProtocolError), parse, data, limits)
        self.assertIn(words, str(error))

    def test_a_document_that_is_cut_short_is_refused_wherever_it_is_cut(self) -> None:
        for vector in ("nbfx", "soap"):
            data = vectors()[vector].data
            for size in range(len(data)):
                self.assertRaises((BodyNotDecoded, RemoteProtocolError), parse, data[:size])

    def test_content_after_the_root_is_refused(self) -> None:
        """Another element, text, an end; a comment is not one of them."""
        self.refused("400161 01 400162 01", "second root")
        self.refused("400161 01 9801 78", "outside its root")
        self.refused("400161 01 01", "outside its root")
        self.assertEqual(parse("400161 01 020163"), {"a": ""})

    def test_records_in_the_wrong_order_are_refused(self) -> None:
        """An attribute after content, reserved types, a text that ends an element inside an attribute."""
        self.refused("400161 9801 78 04016182 01", "0x04 is out of order")
        for reserved in ("00", "78", "7f"):
            self.refused(f"400161 {reserved} 01", "out of order")
        for reserved in ("be", "fe"):
            self.refused(f"400161 {reserved} 01", "not a text record")
        self.refused("400161 04016183", "not text of an attribute")
        self.refused("400161 a4 a4 a6 a6", "is in a list")

    def test_numbers_of_missing_strings_are_refused(self) -> None:
        self.refused("42ce07 01", "which does not exist")
        self.refused("4201 01", "refers to string 1")
        self.refused("42ffffffffff", "more than 31 bits")

    def test_arrays_are_not_believed(self) -> None:
        """More values than bytes, none at all, of a type that has no size, of what is not an element."""
        self.refused("4001 78 03 400161 01 8b ffffff7f 0000 01", "where 3 remain")
        self.refused("4001 78 03 400161 01 8b 00 01", "is 0 values")
        self.refused("4001 78 03 400161 01 99 01 01", "not a type of an array")
        self.refused("4001 78 03 9801 78", "is not an element")
        self.refused("4001 78 03 400161 82", "is missing")

    def test_arrays_keep_the_limits(self) -> None:
        """Each value is an element, with all its attributes."""
        data = bytes.fromhex("400178 03 400161 04016182 01 b5 64") + bytes(100) + b"\x01"
        self.assertEqual(len(parse(data)["x"]["a"]), 100)
        self.refused(data, "more than 150 items", Limits(items=150))

    def test_depth_is_limited(self) -> None:
        self.refused(b"\x40\x01a" * 101 + b"\x01" * 101, "deeper than 100")

    def test_names_that_come_often_are_limited(self) -> None:
        """Repeated names of elements, attributes and array items are limited, since a short number stands for
        a long name.
        """
        limits = Limits(characters=1000)
        for many in (
            "4001 72" + "4001 61 4201 01 01" * 11 + "01",
            "4001 72" + "4001 61 0601 82 01" * 11 + "01",
            "4001 72" + "4001 61 0701 70 01 82 01" * 11 + "01",
            "4001 72" + "4001 61 BD00 01" * 11 + "01",
            "4001 72 03 4201 01 B5 0B" + "00" * 11 + "01",
            "4001 72 03 4001 61 0601 82 01 B5 0B" + "00" * 11 + "01",
        ):
            data = bytes((101, 100)) + b"n" * 100 + bytes.fromhex(many)
            error = self.assertRaises(BodyNotDecoded, parse, data, limits, table=[])
            self.assertIn("more than 1000 characters", str(error))
            parse(data, table=[])

    def test_strings_that_come_often_are_limited(self) -> None:
        """A reference of two bytes to a string of a hundred."""
        self.refused("400178 " + "aa04" * 100, "more than 1000 characters", Limits(characters=1000))
        self.refused("400178 a4" + "aa04" * 100, "more than 1000 characters", Limits(characters=1000))

    def test_invalid_values_are_refused(self) -> None:
        """Negative lengths, odd UTF-16, bad UTF-8, scales and times beyond their ranges."""
        for data, words in (
            ("9c ffffffff", "is -1"),
            ("b6 03 610062", "odd number"),
            ("98 01 ff", "not UTF-8"),
            ("94 00 00 1d 00" + "00" * 12, "scale 29"),
            ("96" + "ff" * 7 + "2b", "not a time before"),
            ("96" + "00" * 7 + "c0", "not a time before"),
            ("bc 1a 02", "not from 0 to 25"),
        ):
            self.refused("400161" + data + "01", words)
