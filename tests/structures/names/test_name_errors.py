r"""[MS-MQMQ] 2.1: the faults of names with their positions, and the limits of names that programs make."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import (
    DistributionListFormatName,
    MachineFormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
    parse_format_names,
)
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathKind, PathName, parse_path_name
from msmq.structures.names.queue_names import DirectQueueFormatName
from msmq.structures.status import MQError
from msmq.wire.writer import Writer

GUID = "b6e84b3a-0a15-4b3c-9c35-6d2c7a6e4c01"
QUEUE = UUID(GUID)
JOURNAL, DEADXACT = QueueSuffix.JOURNAL, QueueSuffix.DEADXACT
HTTP, OS, TCP = DirectProtocol.HTTP, DirectProtocol.OS, DirectProtocol.TCP


class ErrorTests(SynchronousTestCase):
    """The details of errors, as an operator sees them."""

    def assert_detail(self, parse: Callable[[str], object], text: str, problem: str, at: int) -> None:
        """A text is illegal for this reason, at this character."""
        error: MQError = self.assertRaises(MQError, parse, text)
        self.assertEqual(error.detail, f"{problem} at character {at} of {text!r}".replace("\\\\", "\\"))

    def test_direct_names(self) -> None:
        """Each fault of an address and of what follows it is named where it is."""
        for text, problem, at in (
            ("DIRECT=", "expected TCP:, OS:, HTTP:, HTTPS: or IPX:", 8),
            ("DIRECT=OS", "expected TCP:, OS:, HTTP:, HTTPS: or IPX:", 8),
            ("DIRECT=OS:srv", "a backslash and a queue name are missing", 14),
            ("DIRECT=OS:\\q", "a computer name is missing", 11),
            ("DIRECT=OS:a,b\\q", "',' is not allowed in a computer name", 12),
            ("DIRECT=OS:a b\\q", "' ' is not allowed in a computer name", 12),
            ("DIRECT=TCP:[srv]\\q", "[srv] is not an IPv6 address in brackets", 12),
            ("DIRECT=TCP:srv\\q", "'srv' is not an IP address", 12),
            ("DIRECT=IPX:12\\q", "'12' is not an IPX network number, colon and host number", 12),
            ("DIRECT=HTTP:h/msmq\\q", "expected //", 13),
            ("DIRECT=HTTP:/h/msmq\\q", "expected //", 13),
            ("DIRECT=HTTP:///msmq\\q", "a computer name is missing", 15),
            ("DIRECT=HTTP://:80/msmq\\q", "a computer name is missing", 15),
            ("DIRECT=HTTP://h h/msmq\\q", "' ' is not allowed in a computer name", 16),
            ("DIRECT=HTTP://h", "/MSMQ is missing", 16),
            ("DIRECT=HTTP://h:x/msmq\\q", "expected a colon and a port of 0 to 65535", 16),
            ("DIRECT=HTTP://h:123456/msmq\\q", "expected a colon and a port of 0 to 65535", 16),
            ("DIRECT=HTTP://h:65536/msmq\\q", "expected a colon and a port of 0 to 65535", 16),
            ("DIRECT=HTTP://h/queue\\q", "expected MSMQ and a backslash", 17),
            ("DIRECT=HTTP://h/abcd\\q", "expected MSMQ and a backslash", 17),
            ("DIRECT=HTTP://h/msmq", "expected MSMQ and a backslash", 17),
            ("DIRECT=HTTP://h/msmq/private$", "private$ is not a name of a public queue", 22),
            ("DIRECT=OS:srv\\system$;FOO", "'FOO' is not one of JOURNAL, DEADLETTER and DEADXACT", 23),
            ("DIRECT=OS:srv\\q;deadxact", "deadxact cannot follow the name of a queue", 17),
            ("DIRECT=OS:srv\\q;", "a subqueue name is missing", 17),
            ("DIRECT=OS:srv\\q;a b", "' ' is not allowed in a subqueue name", 18),
        ):
            self.assert_detail(parse_format_name, text, problem, at)

    def test_other_format_names(self) -> None:
        """Each fault of a GUID and of what follows it is named where it is."""
        kinds = "expected DIRECT=, PUBLIC=, PRIVATE=, DL=, MACHINE=, CONNECTOR= or MULTICAST="
        guid = "expected a GUID of 8-4-4-4-12 hex digits without braces"
        for text, problem, at in (
            ("", kinds, 1),
            ("PUBLIC", kinds, 1),
            ("=1", "'' is not a kind of format name", 1),
            ("QUEUE=1", "'QUEUE' is not a kind of format name", 1),
            (f"PUBLIC={GUID[:-1]}", guid, 8),
            (f"PUBLIC={GUID}0", "expected the end or ;JOURNAL", 44),
            (f"PRIVATE={GUID}", "a backslash and a queue number are missing", 45),
            (f"PRIVATE={GUID}\\", "expected a queue number of 1 to 8 hex digits", 46),
            (f"PRIVATE={GUID}\\G", "expected a queue number of 1 to 8 hex digits", 46),
            (f"PRIVATE={GUID}\\123456789", "expected the end or ;JOURNAL", 54),
            (f"DL={GUID};", "expected @ and a domain name, or the end", 40),
            (f"DL={GUID}@", "a domain name is missing", 41),
            (f"DL={GUID}@a b", "' ' is not allowed in a domain name", 42),
            ("MULTICAST=1.2.3:4", "'1.2.3' is not a dotted IPv4 address", 11),
            ("MULTICAST=234.1.1.256:4", "'234.1.1.256' is not a dotted IPv4 address", 11),
            (
                "MULTICAST=223.1.1.1:4",
                "223.1.1.1 is not a multicast address (224.0.0.0 to 239.255.255.255)",
                11,
            ),
            (
                "MULTICAST=240.1.1.1:4",
                "240.1.1.1 is not a multicast address (224.0.0.0 to 239.255.255.255)",
                11,
            ),
            ("MULTICAST=234.1.1.1", "a colon and a port are missing", 20),
            (
                "MULTICAST=234.1.1.1:65536",
                "'65536' is not a port (0 to 65535, without leading zeros)",
                21,
            ),
            ("MULTICAST=234.1.1.1:01", "'01' is not a port (0 to 65535, without leading zeros)", 21),
        ):
            self.assert_detail(parse_format_name, text, problem, at)
        read_only = f"PUBLIC={GUID},MACHINE={GUID};JOURNAL"
        self.assert_detail(parse_format_names, read_only, "a read-only queue cannot be one of several", 45)

    def test_path_names(self) -> None:
        """Each fault of a computer, a queue and a subqueue is named where it is."""
        for text, problem, at in (
            ("", "a computer name is missing", 1),
            ("\\q", "a computer name is missing", 1),
            ("srv", "a backslash and a queue name are missing", 4),
            ("s;v\\q", "';' is not allowed in a computer name", 2),
            ("private$\\orders", "expected a computer, such as . for this one,", 1),
            ("System$\\orders", "expected a computer, such as . for this one,", 1),
            ("srv\\", "a queue name is missing", 5),
            ("srv\\private$", "private$ is not a name of a public queue", 5),
            ("srv\\System$", "System$ is not a name of a public queue", 5),
            ("srv\\private$\\a\\b", "'\\' is not allowed in a queue name", 15),
            ("srv\\system$;", "a queue name is missing", 13),
            ("srv\\q;DeadLetter", "DeadLetter cannot follow the name of a queue", 7),
            (
                f"srv\\{'q' * 125}",
                "a queue name of 125 characters, where 124 are allowed,",
                5,
            ),
            (f"srv\\q;{'s' * 33}", "a subqueue name of 33 characters, where 32 are allowed,", 7),
        ):
            self.assert_detail(parse_path_name, text, problem, at)

    def test_a_long_text_is_cut(self) -> None:
        """An error shows up to 200 characters of a text, and of a longer one the first 200."""
        for length, shown in ((200, "s" * 200), (201, "s" * 200 + "...")):
            error: MQError = self.assertRaises(MQError, parse_path_name, "s" * length)
            self.assertEqual(
                error.detail,
                f"a backslash and a queue name are missing at character {length + 1} of '{shown}'",
            )


class ValueTests(SynchronousTestCase):
    """Names that are made without a text."""

    def test_ports(self) -> None:
        """Only a URL has a port, of 0 to 65535."""
        for port in (0, 65535):
            self.assertEqual(DirectFormatName(HTTP, "h", "q", port=port).port, port)
        refused: tuple[tuple[DirectProtocol, int | None], ...] = (
            (HTTP, -1),
            (HTTP, 65536),
            (HTTP, None),
            (OS, 0),
            (OS, 80),
        )
        for protocol, number in refused:
            with self.assertRaises(MQError) as raised:
                DirectFormatName(protocol, "h", "q", port=number)
            self.assertIn(f"{protocol.value} with port {number}", str(raised.exception))

    def test_printable_characters_are_allowed(self) -> None:
        """A program may make the names that lenient parsing accepts, and no others."""
        direct = DirectFormatName(OS, "srv é", "q é", subqueue="s é")
        self.assertEqual(parse_format_name(str(direct), lenient=True), direct)
        path = PathName("srv é", "q é", PathKind.PRIVATE, "s é")
        self.assertEqual(parse_path_name(str(path), lenient=True), path)
        for text in (str(direct), str(path)):
            self.assertRaises(MQError, parse_format_name, text)
            self.assertRaises(MQError, parse_path_name, text)
        for bad in ("", "a\0b", "a\\b", "a;b"):
            for make in (
                lambda bad: DirectFormatName(OS, bad, "q"),
                lambda bad: DirectFormatName(OS, "srv", "q", subqueue=bad),
                lambda bad: PathName(bad, "q"),
                lambda bad: PathName("srv", bad),
                lambda bad: PathName("srv", "q", subqueue=bad),
            ):
                self.assertRaises(MQError, make, bad)

    def test_queue_numbers(self) -> None:
        """They have 32 bits."""
        for number, text in ((0, "00000000"), (0xFFFFFFFF, "FFFFFFFF")):
            name = PrivateFormatName(QUEUE, number)
            self.assertEqual(str(name), f"PRIVATE={GUID}\\{text}".replace(GUID, GUID.upper()))
        for number in (-1, 1 << 32):
            error: MQError = self.assertRaises(MQError, PrivateFormatName, QUEUE, number)
            self.assertTrue(error.detail.startswith(f"queue number {number} does not fit 32 bits at"))

    def test_domains(self) -> None:
        """The domain of a distribution list has 1 to 255 characters, of which none is a comma."""
        for domain in (None, "d", "d" * 255, "d é"):
            self.assertEqual(DistributionListFormatName(QUEUE, domain).domain, domain)
        for domain in ("", "d" * 256, "a,b"):
            self.assertRaises(MQError, DistributionListFormatName, QUEUE, domain)

    def test_reserved_words(self) -> None:
        """A subqueue has none of the names of system queues, in any case."""
        for word in ("journal", "DEADLETTER", "DeadXact", "xactonly"):
            for make in (
                lambda word: DirectFormatName(OS, "srv", "q", subqueue=word),
                lambda word: PathName("srv", "q", subqueue=word),
            ):
                error: MQError = self.assertRaises(MQError, make, word)
                self.assertIn(f"{word} is reserved and cannot name a subqueue", error.detail)

    def test_suffixes(self) -> None:
        """The error says which suffixes the kind of name may have."""
        for make, problem in (
            (lambda: PublicFormatName(QUEUE, DEADXACT), "expected no suffix or ;JOURNAL"),
            (lambda: PrivateFormatName(QUEUE, 1, DEADXACT), "expected no suffix or ;JOURNAL"),
            (
                lambda: MachineFormatName(QUEUE, QueueSuffix.NONE),
                "expected ;JOURNAL or ;DEADLETTER or ;DEADXACT",
            ),
            (lambda: DirectFormatName(OS, "srv", "q", suffix=DEADXACT), "DEADXACT belongs to a computer"),
            (lambda: PathName("srv", "q", suffix=DEADXACT), "DEADXACT belongs to a computer"),
            (
                lambda: DirectFormatName(OS, "srv", "q", suffix=JOURNAL, subqueue="s"),
                "both a subqueue and a suffix",
            ),
            (lambda: PathName("srv", "q", subqueue="s", suffix=JOURNAL), "both a subqueue and a suffix"),
            (
                lambda: PathName("srv", "journal", PathKind.SYSTEM, "s"),
                "a system queue has no subqueue and no suffix of its own",
            ),
            (lambda: DirectFormatName(OS, "srv"), "a queue name is missing"),
        ):
            error: MQError = self.assertRaises(MQError, make)
            self.assertTrue(error.detail.startswith(f"{problem} at character 1 of "), error.detail)

    def test_brackets(self) -> None:
        """An IPv6 address in brackets may end with colons."""
        for address in ("::", "fe80::", "::1"):
            name = parse_format_name(f"DIRECT=TCP:[{address}]\\q")
            self.assertEqual(name, DirectFormatName(TCP, address, "q"))

    def test_a_direct_name_in_a_packet_has_a_limit(self) -> None:
        """Count has 16 bits and is even: 32766 characters and a NUL fit, and no more."""
        writer = Writer()
        DirectQueueFormatName("x" * 32766).write(writer)
        self.assertEqual(writer.getvalue()[:2], b"\xfe\xff")
        error = self.assertRaises(LocalProtocolError, DirectQueueFormatName("x" * 32767).write, Writer())
        self.assertEqual(str(error), "DirectFormatName: 65536 bytes are more than 65534")
