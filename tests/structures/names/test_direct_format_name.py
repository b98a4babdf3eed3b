"""[MS-MQMQ] 2.1.2 direct format names, and their errors."""

from __future__ import annotations

from msmq.structures.names.format_name import (
    DirectFormatName,
    DirectProtocol,
    QueueSuffix,
    parse_format_name,
)
from msmq.structures.status import MQError
from tests.structures.names.test_format_name import Refusing


class DirectFormatNameTests(Refusing):
    """[MS-MQMQ] 2.1.2."""

    def test_is_protocol_address_and_queue(self) -> None:
        r"""MQMQ-2.1.2-01: DIRECT=OS:srv\q says where the queue is by itself; nothing is looked up."""
        name = parse_format_name("DIRECT=OS:srv\\q")
        self.assertEqual(name, DirectFormatName(DirectProtocol.OS, "srv", "q"))
        self.assertEqual(str(name), "DIRECT=OS:srv\\q")

    def test_has_five_protocols(self) -> None:
        """MQMQ-2.1.2-02: TCP, OS, HTTP, HTTPS and IPX are read, UDP is illegal."""
        for text, protocol in (
            ("TCP:1.2.3.4", DirectProtocol.TCP),
            ("OS:srv", DirectProtocol.OS),
            ("HTTP://srv/msmq", DirectProtocol.HTTP),
            ("HTTPS://srv/msmq", DirectProtocol.HTTPS),
            ("IPX:00000001:0080C7112233", DirectProtocol.IPX),
        ):
            name = parse_format_name(f"DIRECT={text}\\q")
            self.assertIsInstance(name, DirectFormatName)
            self.assertEqual(getattr(name, "protocol", None), protocol)
        self.assertIn("expected TCP:, OS:, HTTP:, HTTPS: or IPX:", self.refused("DIRECT=UDP:1.2.3.4\\q"))

    def test_a_private_queue_and_its_journal(self) -> None:
        """MQMQ-2.1.2-03: private$ has no case, and ;journal may follow."""
        queue = DirectFormatName(DirectProtocol.TCP, "1.2.3.4", "q", is_private=True)
        self.assertEqual(parse_format_name("DIRECT=TCP:1.2.3.4\\PRIVATE$\\q"), queue)
        journal = parse_format_name("DIRECT=TCP:1.2.3.4\\private$\\q;journal")
        expected = DirectFormatName(
            DirectProtocol.TCP, "1.2.3.4", "q", is_private=True, suffix=QueueSuffix.JOURNAL
        )
        self.assertEqual(journal, expected)
        self.assertEqual(str(journal), "DIRECT=TCP:1.2.3.4\\private$\\q;JOURNAL")

    def test_a_public_queue_and_its_journal(self) -> None:
        """MQMQ-2.1.2-04: without private$ the queue is public."""
        journal = DirectFormatName(DirectProtocol.OS, "srv", "q", suffix=QueueSuffix.JOURNAL)
        self.assertEqual(parse_format_name("DIRECT=OS:srv\\q;JOURNAL"), journal)

    def test_the_queues_of_a_computer(self) -> None:
        """MQMQ-2.1.2-05: system$; goes with JOURNAL, DEADLETTER and DEADXACT alone."""
        for word, suffix in (
            ("JOURNAL", QueueSuffix.JOURNAL),
            ("DeadLetter", QueueSuffix.DEADLETTER),
            ("deadxact", QueueSuffix.DEADXACT),
        ):
            name = parse_format_name(f"DIRECT=OS:srv\\SYSTEM$;{word}")
            self.assertEqual(name, DirectFormatName(DirectProtocol.OS, "srv", suffix=suffix))
            self.assertEqual(str(name), f"DIRECT=OS:srv\\system$;{suffix.value}")
        self.assertIn("'FOO' is not one of JOURNAL", self.refused("DIRECT=OS:srv\\SYSTEM$;FOO"))

    def test_a_tcp_name_has_an_ip_address(self) -> None:
        """MQMQ-2.1.2-06: a host name is not an address."""
        self.assertEqual(getattr(parse_format_name("DIRECT=TCP:10.0.0.1\\q"), "address", None), "10.0.0.1")
        self.assertIn("'srv' is not an IP address at character 12", self.refused("DIRECT=TCP:srv\\q"))

    def test_a_tcp_name_may_have_an_ipv6_address(self) -> None:
        """The address ends at the first backslash; the brackets of a URL may stand around it."""
        expected = DirectFormatName(DirectProtocol.TCP, "2001:db8::7", "q", is_private=True)
        for address in ("2001:db8::7", "[2001:db8::7]", "[2001:DB8::7]"):
            name = parse_format_name(f"DIRECT=TCP:{address}\\private$\\q")
            self.assertEqual(name, expected)
        self.assertEqual(str(parse_format_name("DIRECT=TCP:[::1]\\q")), "DIRECT=TCP:::1\\q")
        for address in (
            "[]",
            "[",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "[srv]",
            "[[::1]]",
            "[::1]:1801",
        ):
            self.refused(f"DIRECT=TCP:{address}\\q")
        self.assertIn(
            "[127.0.0.1] is not an IPv6 address in brackets", self.refused("DIRECT=TCP:[127.0.0.1]\\q")
        )

    def test_an_ipx_name_has_network_and_host(self) -> None:
        """MQMQ-2.1.2-07: two hex numbers with a colon between them."""
        name = parse_format_name("DIRECT=IPX:00000001:0080C7112233\\q")
        self.assertEqual(name, DirectFormatName(DirectProtocol.IPX, "00000001:0080C7112233", "q"))
        self.refused("DIRECT=IPX:00000001\\q")

    def test_an_os_name_has_a_computer_name(self) -> None:
        """MQMQ-2.1.2-08: dots and hyphens are part of it."""
        name = parse_format_name("DIRECT=OS:mail-2.host.example\\q")
        self.assertEqual(name, DirectFormatName(DirectProtocol.OS, "mail-2.host.example", "q"))

    def test_an_http_name_is_a_url(self) -> None:
        """MQMQ-2.1.2-09: host, optional port and /MSMQ, whose case does not matter."""
        name = parse_format_name("DIRECT=HTTP://h:8080/msmq\\q")
        self.assertEqual(name, DirectFormatName(DirectProtocol.HTTP, "h", "q", port=8080))
        self.assertEqual(str(name), "DIRECT=HTTP://h:8080/MSMQ\\q")
        for text in (
            "HTTP:h/msmq\\q",
            "HTTP:xxh/msmq\\q",
            "HTTP://h",
            "HTTP://h\\q",
            "HTTP://h/other\\q",
            "HTTP://h/mail\\q",
            "HTTP://h:1:2/msmq\\q",
            "HTTP:///msmq\\q",
        ):
            self.refused(f"DIRECT={text}")

    def test_the_queue_of_a_url_may_stand_behind_slashes(self) -> None:
        """People write URLs with slashes throughout."""
        for text in ("/MSMQ/private$/q", "/msmq\\private$\\q"):
            name = parse_format_name(f"DIRECT=HTTP://h{text}")
            self.assertEqual(name, DirectFormatName(DirectProtocol.HTTP, "h", "q", is_private=True))

    def test_http_uses_port_80(self) -> None:
        """MQMQ-2.1.2-10: when no port is given, or an empty one."""
        for text in ("//h/msmq\\q", "//h:/msmq\\q", "//h:80/msmq\\q"):
            self.assertEqual(getattr(parse_format_name(f"DIRECT=HTTP:{text}"), "port", None), 80)

    def test_https_uses_port_443(self) -> None:
        """MQMQ-2.1.2-11: when no port is given."""
        name = parse_format_name("DIRECT=HTTPS://h/msmq\\q")
        self.assertEqual(getattr(name, "port", None), 443)
        self.assertEqual(str(name), "DIRECT=HTTPS://h/MSMQ\\q")

    def test_a_port_has_sixteen_bits(self) -> None:
        """65535 is the last one."""
        self.assertEqual(getattr(parse_format_name("DIRECT=HTTP://h:65535/msmq\\q"), "port", None), 65535)
        self.assertIn("port of 0 to 65535", self.refused("DIRECT=HTTP://h:65536/msmq\\q"))

    def test_a_subqueue_stands_behind_a_semicolon(self) -> None:
        """The reserved words win over it, and only one part may follow."""
        name = parse_format_name("DIRECT=OS:srv\\private$\\q;poison")
        expected = DirectFormatName(DirectProtocol.OS, "srv", "q", is_private=True, subqueue="poison")
        self.assertEqual(name, expected)
        for tail in (";sub;JOURNAL", ";", ";DEADLETTER", ";deadxact", ";XactOnly", ";" + "s" * 33):
            self.refused(f"DIRECT=OS:srv\\q{tail}")

    def test_host_and_queue_compare_without_case_and_keep_their_spelling(self) -> None:
        """One queue is one queue however it is written, and is shown as it was written."""
        one, other = parse_format_name("DIRECT=OS:Srv\\Orders"), parse_format_name("direct=os:SRV\\orders")
        self.assertEqual(one, other)
        self.assertEqual(len({one, other}), 1)
        self.assertEqual(str(one), "DIRECT=OS:Srv\\Orders")

    def test_the_queue_part(self) -> None:
        """On arrival only this part of a direct name counts."""
        for text, path in (
            ("OS:srv\\private$\\orders;journal", "private$\\orders"),
            ("TCP:1.2.3.4\\Orders;sub", "Orders"),
            ("OS:srv\\SYSTEM$;deadletter", "system$"),
        ):
            self.assertEqual(DirectFormatName.from_wire_text(text).queue_path, path)

    def test_each_spelling_is_kept(self) -> None:
        """Names that are equal have the spelling of the packet all the same, however often they were read."""
        for _ in range(2):
            for text in ("OS:srv\\private$\\orders", "OS:SRV\\private$\\Orders"):
                self.assertEqual(DirectFormatName.from_wire_text(text).wire_text, text)

    def test_strict_after_lenient(self) -> None:
        """A name that a packet may have is no name that may be given, though it was read before."""
        text = "OS:a b\\private$\\q"
        self.assertEqual(DirectFormatName.from_wire_text(text).address, "a b")
        with self.assertRaises(MQError):
            DirectFormatName.from_wire_text(text, lenient=False)

    def test_the_order_queue_is_understood(self) -> None:
        """Acknowledgements of the order are addressed so, with SPX for IPX on old networks."""
        name = DirectFormatName.from_wire_text("TCP:10.0.0.5\\PRIVATE$\\order_queue$")
        expected = DirectFormatName(DirectProtocol.TCP, "10.0.0.5", "order_queue$", is_private=True)
        self.assertEqual(name, expected)
        old = DirectFormatName.from_wire_text("SPX:00000001:0080C7112233\\PRIVATE$\\order_queue$")
        self.assertEqual(old.protocol, DirectProtocol.IPX)

    def test_a_name_without_a_queue_is_illegal(self) -> None:
        """An address alone is not enough."""
        for text in (
            "OS:srv",
            "OS:srv\\",
            "OS:srv\\private$",
            "OS:srv\\private$\\",
            "OS:srv\\system$",
            "OS:\\q",
            "",
        ):
            self.refused(f"DIRECT={text}")

    def test_values_that_no_text_could_say_are_refused(self) -> None:
        """A program cannot make them either."""
        tcp, http = DirectProtocol.TCP, DirectProtocol.HTTP
        for make in (
            lambda: DirectFormatName(tcp, "1.2.3.4"),
            lambda: DirectFormatName(tcp, "1.2.3.4", is_private=True, suffix=QueueSuffix.JOURNAL),
            lambda: DirectFormatName(tcp, "1.2.3.4", "system$", suffix=QueueSuffix.JOURNAL),
            lambda: DirectFormatName(tcp, "1.2.3.4", "a\\b"),
            lambda: DirectFormatName(tcp, "1.2.3.4", "q", suffix=QueueSuffix.DEADXACT),
            lambda: DirectFormatName(tcp, "1.2.3.4", "q", suffix=QueueSuffix.JOURNAL, subqueue="s"),
            lambda: DirectFormatName(tcp, "1.2.3.4", "q", subqueue="journal"),
            lambda: DirectFormatName(tcp, "1.2.3.4", "q", port=1801),
            lambda: DirectFormatName(http, "h", "q", port=None),
            lambda: DirectFormatName(http, "h", "private$/q"),
            lambda: DirectFormatName(http, "h/x", "q"),
        ):
            self.assertRaises(MQError, make)

    def test_characters_beyond_ascii(self) -> None:
        """The rule for the names of queues is that of path names."""
        text = "DIRECT=OS:srv\\private$\\Aufträge;ältere"
        self.assertEqual(str(parse_format_name(text)), text)

    def test_spaces_need_leniency(self) -> None:
        """They occur in real names, but are outside the grammar."""
        text = "DIRECT=OS:srv\\private$\\Aufträge alt"
        self.assertIn("' ' is not allowed in a queue name", self.refused(text))
        self.assertEqual(str(parse_format_name(text, lenient=True)), text)
        self.assertIn("'\\t' is not allowed", self.refused("DIRECT=OS:srv\\a\tb", lenient=True))
