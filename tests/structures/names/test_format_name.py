r"""[MS-MQMQ] 2.1.2 to 2.1.7: format names are read, printed and compared as the documents say."""

from __future__ import annotations

from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DirectProtocol,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    QueueSuffix,
    is_read_only,
    parse_format_name,
    parse_format_names,
)
from msmq.structures.status import MQError, Status
from tests.strategies_names import direct_format_names, format_names

GUID = "B6E84B3A-0A15-4B3C-9C35-6D2C7A6E4C01"
QUEUE = UUID(GUID)

ALMOST_NAMES = st.lists(
    st.sampled_from(
        [
            *("DIRECT=", "public=", "PRIVATE=", "DL=", "MACHINE=", "CONNECTOR=", "MULTICAST="),
            *(
                "TCP:",
                "os:",
                "HTTP:",
                "HTTPS:",
                "IPX:",
                "//",
                "/MSMQ",
                "[::1]",
                ":80",
                "10.0.0.1",
                "00000001:0080C7",
            ),
            *(
                "\\",
                "/",
                ";",
                ",",
                "@",
                "private$\\",
                "SYSTEM$;",
                "journal",
                "DEADXACT",
                "q",
                GUID,
                "234.1.1.1",
                ":",
            ),
            *(" ", "\0", "é", "\ud800", "İ", "٣", '"', "+", "0000000F", "99999", "%"),
        ]
    ),
    max_size=9,
).map("".join)
"""Texts made of the pieces of names, which come near to being names."""


class Refusing(SynchronousTestCase):
    """Asserts on texts that are no format names."""

    def refused(self, text: str, *, lenient: bool = False) -> str:
        """Assert that C{text} is not a format name, and give the detail."""
        error: MQError = self.assertRaises(MQError, parse_format_name, text, lenient)
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
        return error.detail


class RoundTripTests(SynchronousTestCase):
    """Texts and values."""

    @given(format_names())
    def test_any_name_is_read_back_from_its_text(self, name: FormatName) -> None:
        """The text of a name is parsed into an equal name."""
        self.assertEqual(parse_format_name(str(name)), name)
        self.assertEqual(parse_format_names(str(name)), (name,))

    @given(format_names(lenient=True))
    def test_any_lenient_name_is_read_back_leniently(self, name: FormatName) -> None:
        """Spaces and letters beyond ASCII round-trip too."""
        self.assertEqual(parse_format_name(str(name), lenient=True), name)

    @given(format_names())
    def test_the_case_of_the_literal_parts_does_not_matter(self, name: FormatName) -> None:
        """A name means the same in capitals, and hashes the same."""
        louder = parse_format_name(str(name).upper())
        self.assertEqual(louder, name)
        self.assertEqual(hash(louder), hash(name))

    @given(st.text() | ALMOST_NAMES, st.booleans())
    @example("DIRECT=OS:" + "h" * 100_000, False)
    def test_any_text_is_a_name_or_illegal(self, text: str, lenient: bool) -> None:
        """No text can cause anything but a name or MQ_ERROR_ILLEGAL_FORMATNAME."""
        try:
            name = parse_format_name(text, lenient)
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
            self.assertLess(len(error.detail), 1000)
        else:
            self.assertEqual(parse_format_name(str(name), lenient), name)

    @given(ALMOST_NAMES, st.booleans())
    def test_any_list_is_read_or_illegal(self, text: str, lenient: bool) -> None:
        """The same holds of several names with commas."""
        try:
            parse_format_names(text, lenient)
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)

    @given(direct_format_names())
    def test_any_direct_name_is_read_back_from_its_wire_text(self, name: DirectFormatName) -> None:
        """Packets carry the name without its prefix, and a prefix does no harm."""
        self.assertEqual(DirectFormatName.from_wire_text(name.wire_text), name)
        self.assertEqual(DirectFormatName.from_wire_text(str(name)), name)


class PrefixTests(Refusing):
    """C{FormatName:}, which Windows' programming interfaces write before a format name."""

    def test_is_taken_off(self) -> None:
        """In any case, and before each of several names; an error counts it among the characters."""
        plain = f"DIRECT=OS:srv\\q,PUBLIC={GUID}"
        spelled = f"FormatName:DIRECT=OS:srv\\q,FORMATNAME:PUBLIC={GUID}"
        self.assertEqual(parse_format_names(spelled), parse_format_names(plain))
        self.assertIn("at character 12 of", self.refused("FormatName:UDP=x"))

    def test_packets_have_none(self) -> None:
        """A name in a packet has to be a format name without prefix."""
        self.assertRaises(MQError, parse_format_name, "FormatName:DIRECT=OS:srv\\q", lenient=True)


class ErrorTests(Refusing):
    """Texts of errors."""

    def test_error_names_what_is_wrong_and_where(self) -> None:
        """The text leads to the fault in the typed name."""
        detail = self.refused("DIRECT=OS:srv\\a+b")
        self.assertEqual(detail, "'+' is not allowed in a queue name at character 16 of 'DIRECT=OS:srv\\a+b'")

    def test_counts_from_the_beginning_of_a_list(self) -> None:
        """The position is right in the second of several names as well."""
        error = self.assertRaises(MQError, parse_format_names, f"PUBLIC={GUID},UDP=x")
        self.assertIn("'UDP' is not a kind of format name at character 45", error.detail)

    def test_an_unknown_kind_is_named(self) -> None:
        """The error for a text without any kind lists them."""
        self.assertIn("expected DIRECT=, PUBLIC=, PRIVATE=", self.refused("srv\\private$\\q"))


class GuidFormatNameTests(Refusing):
    """[MS-MQMQ] 2.1.3 to 2.1.6: the names that begin with a GUID."""

    def test_a_public_name_has_the_guid_of_the_queue(self) -> None:
        """MQMQ-2.1.3-01: and nothing instead of it."""
        self.assertEqual(parse_format_name(f"PUBLIC={GUID}"), PublicFormatName(QUEUE))
        self.assertIn("expected a GUID", self.refused("PUBLIC="))

    def test_a_guid_has_hyphens_and_no_braces(self) -> None:
        """MQMQ-2.1.3-02: capitals or not, 8-4-4-4-12 hex digits."""
        self.assertEqual(parse_format_name(f"PUBLIC={GUID.lower()}"), PublicFormatName(QUEUE))
        for text in (f"{{{GUID}}}", GUID.replace("-", ""), GUID[:-1], GUID[:-1] + "G", GUID + "0"):
            self.refused(f"PUBLIC={text}")

    def test_a_public_name_may_mean_the_journal(self) -> None:
        """But no other queue."""
        name = parse_format_name(f"PUBLIC={GUID};journal")
        self.assertEqual(name, PublicFormatName(QUEUE, QueueSuffix.JOURNAL))
        self.assertIn("expected the end or ;JOURNAL", self.refused(f"PUBLIC={GUID};DEADLETTER"))

    def test_a_private_name_has_a_number_of_up_to_eight_hex_digits(self) -> None:
        """MQMQ-2.1.4-01: with the journal's suffix or without."""
        name = parse_format_name(f"PRIVATE={GUID}\\0000000F;JOURNAL")
        self.assertEqual(name, PrivateFormatName(QUEUE, 15, QueueSuffix.JOURNAL))
        self.assertEqual(parse_format_name(f"PRIVATE={GUID}\\f"), PrivateFormatName(QUEUE, 15))
        for text in ("\\123456789", "\\000000001", "\\", "", "\\x", "15"):
            self.refused(f"PRIVATE={GUID}{text}")

    def test_the_number_is_printed_with_eight_digits(self) -> None:
        """However it was written."""
        self.assertEqual(str(parse_format_name(f"PRIVATE={GUID}\\4")), f"PRIVATE={GUID}\\00000004")

    def test_a_number_has_32_bits(self) -> None:
        """A program cannot make another."""
        self.assertRaises(MQError, PrivateFormatName, QUEUE, 1 << 32)
        self.assertRaises(MQError, PrivateFormatName, QUEUE, -1)

    def test_a_distribution_list_may_have_a_domain(self) -> None:
        """MQMQ-2.1.5-01: behind an at sign."""
        self.assertEqual(parse_format_name(f"DL={GUID}"), DistributionListFormatName(QUEUE))
        name = parse_format_name(f"DL={GUID}@dom")
        self.assertEqual((name, str(name)), (DistributionListFormatName(QUEUE, "dom"), f"DL={GUID}@dom"))
        self.refused(f"DL={GUID}dom")

    def test_a_domain_has_1_to_255_characters(self) -> None:
        """MQMQ-2.1.5-02: of printable ASCII without the space."""
        for domain in ("d", "d" * 255, "!~"):
            self.assertEqual(getattr(parse_format_name(f"DL={GUID}@{domain}"), "domain", None), domain)
        for domain in ("", "d" * 256, "a b", "a\x7f", "é"):
            self.refused(f"DL={GUID}@{domain}")

    def test_a_machine_name_chooses_one_of_its_queues(self) -> None:
        """MQMQ-2.1.6-01: with a suffix; a bare machine name means none of them."""
        for suffix in (QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT):
            name = parse_format_name(f"MACHINE={GUID};{suffix.value}")
            self.assertEqual(name, MachineFormatName(QUEUE, suffix))
            self.assertEqual(str(name), f"MACHINE={GUID};{suffix.value}")
        self.assertIn("expected ;JOURNAL or ;DEADLETTER or ;DEADXACT", self.refused(f"MACHINE={GUID}"))
        self.assertRaises(MQError, MachineFormatName, QUEUE, QueueSuffix.NONE)

    def test_a_connector_name_may_be_transactional(self) -> None:
        """MQMQ-2.1.6-02: a GUID, with ;XACTONLY or without."""
        self.assertEqual(parse_format_name(f"CONNECTOR={GUID}"), ConnectorFormatName(QUEUE))
        name = parse_format_name(f"CONNECTOR={GUID};xactonly")
        self.assertEqual(name, ConnectorFormatName(QUEUE, is_transactional=True))
        self.assertEqual(str(name), f"CONNECTOR={GUID};XACTONLY")

    def test_suffixes_that_a_name_does_not_have_are_refused(self) -> None:
        """A program cannot make them either."""
        self.assertRaises(MQError, PublicFormatName, QUEUE, QueueSuffix.XACTONLY)
        self.assertRaises(MQError, PrivateFormatName, QUEUE, 1, QueueSuffix.DEADLETTER)


class MulticastFormatNameTests(Refusing):
    """[MS-MQMQ] 2.1.6."""

    def test_is_an_address_and_a_port(self) -> None:
        """MQMQ-2.1.6-03: dotted, with a colon between them."""
        name = parse_format_name("MULTICAST=234.1.1.1:8001")
        self.assertEqual(name, MulticastFormatName("234.1.1.1", 8001))
        self.assertEqual(str(name), "MULTICAST=234.1.1.1:8001")
        self.assertIn("a colon and a port are missing", self.refused("MULTICAST=234.1.1.1"))

    def test_the_address_is_of_class_d(self) -> None:
        """MQMQ-2.1.6-04: 224 to 239 first, then 0 to 255 without leading zeros."""
        for address in ("224.0.0.0", "239.255.255.255", "230.10.99.249"):
            self.assertEqual(getattr(parse_format_name(f"MULTICAST={address}:1"), "address", None), address)
        for address in ("223.1.1.1", "240.1.1.1", "234.256.1.1", "234.01.1.1", "234.1.1", "234.1.1.1.1", ""):
            self.refused(f"MULTICAST={address}:1")

    def test_the_port_has_sixteen_bits_and_no_leading_zeros(self) -> None:
        """MQMQ-2.1.6-05: every number of 0 to 65535 is accepted."""
        for port in (0, 9, 20, 200, 2000, 59999, 65535):
            name = parse_format_name(f"MULTICAST=234.1.1.1:{port}")
            self.assertEqual(name, MulticastFormatName("234.1.1.1", port))
        for text in ("65536", "01", "", "-1", "1 ", "100000", "٣"):
            self.refused(f"MULTICAST=234.1.1.1:{text}")


class MultipleElementTests(SynchronousTestCase):
    """[MS-MQMQ] 2.1.7."""

    def test_commas_separate_names(self) -> None:
        """MQMQ-2.1.7-01: of different kinds, in their order."""
        names = parse_format_names(f"DIRECT=OS:srv\\q,PUBLIC={GUID},DL={GUID}")
        expected = (
            DirectFormatName(DirectProtocol.OS, "srv", "q"),
            PublicFormatName(QUEUE),
            DistributionListFormatName(QUEUE),
        )
        self.assertEqual(names, expected)

    def test_machine_names_are_no_elements(self) -> None:
        """MQMQ-2.1.7-02: direct, public, private, list, connector and multicast names are."""
        elements = [
            "DIRECT=OS:srv\\q",
            f"PUBLIC={GUID}",
            f"PRIVATE={GUID}\\00000001",
            f"DL={GUID}",
            f"CONNECTOR={GUID}",
            "MULTICAST=234.1.1.1:8001",
        ]
        self.assertEqual([str(name) for name in parse_format_names(",".join(elements))], elements)
        error = self.assertRaises(MQError, parse_format_names, f"{elements[0]},MACHINE={GUID};JOURNAL")
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)

    def test_queues_that_can_only_be_read_are_no_elements(self) -> None:
        """MQMQ-2.1.7-03: no message can be sent to a journal."""
        for text in (
            f"PUBLIC={GUID};JOURNAL",
            "DIRECT=OS:srv\\system$;DEADXACT",
            f"PRIVATE={GUID}\\1;journal",
        ):
            error = self.assertRaises(MQError, parse_format_names, f"PUBLIC={GUID},{text}")
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
            self.assertIn("cannot be one of several at character 45", error.detail)

    def test_a_single_name_may_be_any(self) -> None:
        """Without a comma a journal can be named, to read from it."""
        [name] = parse_format_names(f"MACHINE={GUID};DEADLETTER")
        self.assertEqual(name, MachineFormatName(QUEUE, QueueSuffix.DEADLETTER))

    def test_an_empty_element_is_illegal(self) -> None:
        """A comma too many is a mistake."""
        for text in ("", ",", f"PUBLIC={GUID},", f",PUBLIC={GUID}"):
            self.assertRaises(MQError, parse_format_names, text)

    def test_a_comma_always_separates(self) -> None:
        """Even though MSMQ 1.0 knew queues with commas in their names."""
        self.assertRaises(MQError, parse_format_names, "DIRECT=OS:srv\\a,b", True)


class ReadOnlyTests(SynchronousTestCase):
    """L{is_read_only}."""

    def test_journals_and_dead_letter_queues_can_only_be_read(self) -> None:
        """All other names can be sent to."""
        for text in (f"PUBLIC={GUID};JOURNAL", f"MACHINE={GUID};DEADXACT", "DIRECT=OS:srv\\q;JOURNAL"):
            self.assertTrue(is_read_only(parse_format_name(text)))
        for text in (
            f"CONNECTOR={GUID};XACTONLY",
            f"DL={GUID}",
            "MULTICAST=234.1.1.1:1",
            "DIRECT=OS:srv\\q;sub",
        ):
            self.assertFalse(is_read_only(parse_format_name(text)))
