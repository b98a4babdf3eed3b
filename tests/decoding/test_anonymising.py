"""Copies of captures that may be shared: what they keep, and what they do not contain."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from struct import pack
from typing import Any
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.anonymising.captures import anonymise
from msmq.decoding.anonymising.packets import anonymised_packet
from msmq.decoding.anonymising.pseudonyms import Pseudonyms
from msmq.decoding.captures import decode
from msmq.decoding.values import guid_text
from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.names.queue_names import DirectQueueFormatName, QueueNameKind
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import ProviderInfo
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA
from tests.decoding.builders import block, ip, link, pcap, tcp, udp
from tests.decoding.test_captures import CLIENT, ESTABLISH, PING, REQUEST, SERVER, session
from tests.decoding.test_packets_json import whole_message
from tests.vectors import vector

KEY = b"k" * 32
KEPT = ("PacketSize", "MessageID", "TxSequenceNumber", "MessageClass", "BodyType", "LabelLength", "SentTime")


def lines(data: bytes) -> list[Any]:
    return list(decode(data))


def sent(name: str, body: bytes, **properties: Any) -> bytes:
    """A message with all headers to a direct name."""
    message = whole_message()
    user = attrs.evolve(
        message.user,
        queue_manager_address=NULL_GUID,
        destination_kind=QueueNameKind.DIRECT,
        destination_queue=DirectQueueFormatName(name),
    )
    changed = attrs.evolve(
        message.properties, message_body=body, allocation_body_size=len(body), **properties
    )
    return attrs.evolve(message, user=user, properties=changed).to_bytes()


def secured(**fields: Any) -> bytes:
    """A message with all headers and another SecurityHeader."""
    message = whole_message()
    assert message.security is not None
    return attrs.evolve(message, security=attrs.evolve(message.security, **fields)).to_bytes()


def destination(packet: bytes) -> str:
    [line] = lines(packet)
    return str(line["UserHeader"]["DestinationQueue"]["FormatName"])


class PacketTests(SynchronousTestCase):
    """One packet."""

    def test_structure(self) -> None:
        """The copy has the same headers, sizes, numbers and flags."""
        for packet in (whole_message().to_bytes(), vector("mqqb-4.1.7-user-message")):
            [before], [after] = lines(packet), lines(anonymised_packet(packet, Pseudonyms(KEY)))
            self.assertEqual((list(before), before["size"]), (list(after), after["size"]))
            for header in (key for key, value in before.items() if isinstance(value, dict)):
                self.assertEqual(list(before[header]), list(after[header]), header)
                for name in KEPT:
                    self.assertEqual(before[header].get(name), after[header].get(name), name)

    def test_contents(self) -> None:
        """No name, label, body, signature or GUID of the original is in the copy."""
        packet = sent("OS:beta\\private$\\payroll", b"Ada Lovelace: 42000", label="salaries of beta")
        copy = anonymised_packet(packet, Pseudonyms(KEY))
        for secret in ("payroll", "beta", "salaries", "Lovelace", "42000"):
            forms = [secret.lower().encode(), secret.lower().encode("utf-16-le")]
            self.assertTrue(any(form in packet.lower() for form in forms), secret)
            self.assertFalse(any(form in copy.lower() for form in forms), secret)
        [before], [after] = lines(packet), lines(copy)
        for header, field in (
            ("UserHeader", "SourceQueueManager"),
            ("TransactionHeader", "ConnectorQMGuid"),
            ("SecurityHeader", "Signature_base64"),
            ("DebugHeader", "QueueIdentifier"),
        ):
            self.assertNotEqual(before[header].get(field, 1), after[header].get(field, 2), field)

    def test_names(self) -> None:
        """The form of a name stays, and equal names stay equal, wherever they are."""
        names = Pseudonyms(KEY)
        found = [
            destination(anonymised_packet(sent(name, b"x"), names))
            for name in ("OS:beta\\private$\\pay", "OS:BETA\\private$\\pay", "OS:beta\\private$\\buy")
        ]
        self.assertRegex(found[0], r"^DIRECT=OS:[a-z]{4}\\private\$\\[a-z]{3}$")
        self.assertEqual(found[0].lower(), found[1].lower())
        self.assertNotEqual(found[0], found[2])
        self.assertEqual(found[0].rpartition("\\")[0], found[2].rpartition("\\")[0])

    def test_xml_body(self) -> None:
        """XML is still XML with the same tree."""
        body = b'<?xml version="1.0" encoding="utf-8"?><order id="7"><name>A &amp; B</name><name/></order>'
        copy = Pseudonyms(KEY).data(body)
        before, after = ElementTree.fromstring(body), ElementTree.fromstring(copy)
        self.assertEqual(len(body), len(copy))
        self.assertNotEqual(before.tag, after.tag)
        self.assertEqual([child.tag == after[0].tag for child in after], [True, True])
        self.assertRegex(str(after[0].text), r"^[A-Z] & [A-Z]$")

    def test_long_form_of_an_address(self) -> None:
        """An address that is not written in its shortest form is replaced, and no byte moves."""
        for address in ("2001:0db8::0001", "FD00:0:0:0:0:0:0:7", "::ffff:10.1.2.3", "300.1.2.3"):
            packet = sent(f"TCP:{address}\\private$\\pay", b"x")
            copy = anonymised_packet(packet, Pseudonyms(KEY))
            self.assertEqual(len(copy), len(packet))
            [before], [after] = lines(packet), lines(copy)
            self.assertEqual(list(before), list(after))
            self.assertNotIn(address.encode("utf-16-le"), copy)

    def test_senders(self) -> None:
        """A SID stays a SID, also one of 16 bytes, and an unknown type of sender is replaced whole."""
        administrators = bytes.fromhex("01020000000000052000000020020000")
        for sender_type, is_kept in ((1, True), (2, False), (9, False)):
            packet = secured(sender_id_type=sender_type, security_id=administrators)
            copy = anonymised_packet(packet, Pseudonyms(KEY))
            self.assertEqual(administrators in copy, is_kept, sender_type)

    def test_malformed_senders(self) -> None:
        """An identifier that is not of its type is replaced whole."""
        for sender_type in (1, 2):
            for sender in (b"abc", b"CONTOSO\\ada", b"CONTOSO\\lovelace-ada"):
                copy = anonymised_packet(
                    secured(sender_id_type=sender_type, security_id=sender), Pseudonyms(KEY)
                )
                self.assertNotIn(sender[:3], copy, sender_type)
                self.assertEqual(lines(copy)[0]["SecurityHeader"]["SenderIdSize"], len(sender))

    def test_distribution_list(self) -> None:
        """A distribution list among the destinations has another GUID, and the names after it are there."""
        header = MultiQueueFormatHeader.of(
            [MQFDistributionQueueFormatName(ALPHA), MQFDirectQueueFormatName("OS:beta\\pay")]
        )
        message = attrs.evolve(whole_message(), multi_queue_format=header)
        [line] = lines(anonymised_packet(message.to_bytes(), Pseudonyms(KEY)))
        [group, queue] = line["MultiQueueFormatHeader"]["Destination"]["FormatNameList"]
        self.assertRegex(group["FormatName"], "^DL=[0-9A-F-]{36}$")
        self.assertNotIn(str(ALPHA).upper(), group["FormatName"])
        self.assertRegex(queue["FormatName"], r"^DIRECT=OS:[a-z]{4}\\[a-z]{3}$")

    def test_values(self) -> None:
        """A body of a type of COM that is a number, a time or a GUID is replaced whole."""
        for body_type, body in ((3, pack("<i", 40)), (18, b"@A"), (5, pack("<d", 42000.0)), (17, b"7")):
            packet = sent("OS:beta\\pay", body, body_type=body_type)
            [line] = lines(anonymised_packet(packet, Pseudonyms(KEY)))
            properties = line["MessagePropertiesHeader"]
            self.assertEqual((properties["BodyType"], properties["MessageSize"]), (body_type, len(body)))
            before = lines(packet)[0]["MessagePropertiesHeader"]
            for key in ("MessageBody", "MessageBody_base64"):
                self.assertNotEqual(properties.get(key, 1), before.get(key, 2), body)

    def test_markup(self) -> None:
        """What looks like markup is replaced too, except for what every document has."""
        names = Pseudonyms(KEY)
        for text in (
            '<?xml-stylesheet href="payroll.xsl"?>',
            '<?xml version="1.0" payroll="1"?>',
            "tom&payroll;",
            "&#112;&#97;&#121;&#x72;",
            "<!-- payroll -->",
        ):
            other = names.text(text)
            self.assertEqual(len(other), len(text))
            self.assertNotIn("payroll", other)
            self.assertNotIn("&#112;&#97;", other)
        for body in (
            b"<r>&#9;&#65;&#233;&#8364;&#128169;&#x20AC;&#x1F4A9;</r>",
            b"<a><![CDATA[pay]]></a><!-- x -->",
        ):
            before, after = (ElementTree.fromstring(each) for each in (body, names.data(body)))
            self.assertEqual(len(before.text or ""), len(after.text or ""), body)

    def test_final_acknowledgement(self) -> None:
        """The queue manager in a FinalAck is the one of the message that it acknowledges."""
        envelope = AckEnvelope(BETA, f"TCP:{CLIENT[0]}")
        packet = FinalAck(envelope, 0x4000, TxSequenceID(5, 6), 7, 3, ALPHA, 9).to_bytes()
        names = Pseudonyms(KEY)
        [before], [after] = lines(packet), lines(anonymised_packet(packet, names))
        self.assertEqual(after["packet"], "FinalAck")
        body = {**before["FinalAckBody"], **after["FinalAckBody"]}
        changed = {key for key, value in body.items() if value != before["FinalAckBody"][key]}
        self.assertEqual(len(changed), 1, changed)
        self.assertEqual(body[changed.pop()], guid_text(names.guid(ALPHA.bytes_le)))


class CaptureCopyTests(SynchronousTestCase):
    """Captures, streams and datagrams."""

    def copied(self, packets: list[bytes], link_type: int = 1) -> Any:
        return anonymise(pcap([link(link_type, packet) for packet in packets], link_type), KEY)

    def test_session(self) -> None:
        """The copy of a session has its frames, times, ports and packets, for any link type."""
        for link_type in (1, 113, 276, 0, 101):
            data = pcap([link(link_type, packet) for packet in session()], link_type)
            copy = anonymise(data, KEY)
            self.assertEqual((copy.packets, copy.cleared, copy.omitted), (6, 0, 0))
            before, after = lines(data), lines(copy.data)
            for key in ("frame", "time", "offset", "packet", "size"):
                self.assertEqual([each[key] for each in before], [each[key] for each in after], key)
            self.assertEqual(
                [each["source"].rpartition(":")[2] for each in before],
                [each["source"].rpartition(":")[2] for each in after],
            )
            for address in (b"\x0a\0\0\1", b"\x0a\0\0\2"):
                self.assertNotIn(address, copy.data)

    def test_addresses_in_names(self) -> None:
        """An address in a direct name is replaced by the same one as in the headers of IP."""
        packet = sent(f"TCP:{SERVER[0]}\\private$\\pay", b"x")
        copy = self.copied([tcp(CLIENT, SERVER, 1, syn=True), tcp(CLIENT, SERVER, 2, packet)])
        [line] = lines(copy.data)
        name = line["UserHeader"]["DestinationQueue"]["FormatName"]
        self.assertIn(f"TCP:{line['destination'].rpartition(':')[0]}\\", name)
        self.assertNotIn(SERVER[0], name)

    def test_ipv6_in_names(self) -> None:
        """So is one of IPv6, as it is written in a direct name."""
        names = Pseudonyms(KEY)
        other = names.address("fe80::1:2")
        self.assertNotEqual(other, "fe80::1:2")
        self.assertEqual(names.text("DIRECT=TCP:fe80::1:2\\private$"), f"DIRECT=TCP:{other}\\private$")

    def test_ipv6(self) -> None:
        """Addresses of IPv6 are replaced too."""
        client, server = ("fd00::1", 49759), ("fd00::2", 1801)
        copy = self.copied(session(client, server))
        [*after] = lines(copy.data)
        self.assertEqual(len(after), 6)
        self.assertNotIn("fd00::", str([each["source"] for each in after]))

    def test_order_on_the_wire(self) -> None:
        """Late and repeated segments are late and repeated in the copy."""
        frames = session()
        frames = [*frames[:6], frames[7], frames[6], frames[6], *frames[8:]]
        data = pcap([link(1, frame) for frame in frames])
        before, after = lines(data), lines(anonymise(data, KEY).data)
        self.assertEqual([each["frame"] for each in before], [each["frame"] for each in after])
        self.assertEqual([each["packet"] for each in before], [each["packet"] for each in after])

    def test_what_is_not_understood(self) -> None:
        """Malformed bytes are cleared, other protocols are left out, and both are counted."""
        secret = b"secret secret secret"
        frames = [
            tcp(CLIENT, SERVER, 1, syn=True),
            tcp(CLIENT, SERVER, 2, secret),
            tcp(CLIENT, ("10.0.0.2", 80), 2, secret),
            udp(CLIENT, ("10.0.0.2", 53), secret),
            udp(CLIENT, ("10.0.0.2", 3527), secret),
        ]
        copy = self.copied(frames)
        self.assertEqual((copy.packets, copy.cleared, copy.omitted), (0, 2 * len(secret), 2))
        self.assertNotIn(b"secret", copy.data)

    def test_lower_layers(self) -> None:
        """Addresses of Ethernet are not in the copy."""
        frame = b"\xaa\xbb\xcc\xdd\xee\xff" * 2 + b"\x08\x00" + session()[0]
        self.assertNotIn(b"\xaa\xbb\xcc", anonymise(pcap([frame]), KEY).data)

    def test_options(self) -> None:
        """Addresses in the options of IP and TCP, and in extension headers, are not in the copy."""
        segment = tcp(CLIENT, SERVER, 2, ESTABLISH)[20:]
        source = bytes((10, 9, 8, 7))
        route = bytes((0x83, 7, 4)) + source + b"\0"
        fixed = pack(">BBHHHBBH", 0x47, 0, 28 + len(segment), 1, 0, 64, 6, 0)
        in_ip = fixed + bytes((10, 0, 0, 1, 10, 0, 0, 2)) + route + segment
        added = bytes((30, 8, 0x34, 1)) + source
        in_tcp = ip(CLIENT[0], SERVER[0], 6, segment[:12] + b"\x70" + segment[13:20] + added + ESTABLISH)
        routing = bytes((6, 2, 0, 1)) + bytes(4) + source * 4
        in_ipv6 = ip("fd00::1", "fd00::2", 43, routing + segment)
        for packet in (in_ip, in_tcp, in_ipv6):
            copy = self.copied([packet])
            self.assertEqual((copy.packets, copy.omitted), (1, 0))
            self.assertNotIn(source, copy.data)
            self.assertEqual([line["packet"] for line in lines(copy.data)], ["EstablishConnection"])

    def test_joined_segments(self) -> None:
        """A frame that is longer than IP can express, as network cards join segments, is left out."""
        packet = sent("OS:beta\\private$\\pay", bytes(70_000))
        header = tcp(CLIENT, SERVER, 2)
        joined = header[:2] + b"\0\0" + header[4:] + packet
        copy = anonymise(pcap([tcp(CLIENT, SERVER, 1, syn=True), joined], 101), KEY)
        self.assertEqual((copy.packets, copy.omitted), (1, 1))

    def test_datagrams(self) -> None:
        """A ping and a topology request have other GUIDs, and the same cookie and size."""
        for packet, header, field in (
            (PING, "PingPacket", "QMGuid"),
            (REQUEST, "TopologyClientRequest", "EnterpriseID"),
        ):
            copy = anonymise(packet, KEY)
            [before], [after] = lines(packet), lines(copy.data)
            self.assertEqual(before["size"], after["size"])
            self.assertEqual(before[header].get("Cookie"), after[header].get("Cookie"))
            self.assertNotEqual(before[header][field], after[header][field])

    def test_damaged_capture(self) -> None:
        """A capture that was cut off, as by the end of the program that wrote it, is copied up to there."""
        whole = pcap([link(1, packet) for packet in session()])
        copy = anonymise(whole[:-3], KEY)
        self.assertEqual((copy.packets, copy.omitted), (5, 0))
        self.assertIn("pcap", copy.damage)
        self.assertEqual(anonymise(whole, KEY).damage, "")

    def test_times(self) -> None:
        """A frame whose time a pcap file cannot express is copied without it."""
        packet = udp(CLIENT, ("10.0.0.2", 3527), PING)
        for first, high in ((-100, 0), (1 << 62, 0), (5_000_000_000, 0), (0, 0xFFFFFFFF)):
            offset = pack("<HHq", 14, 8, first)
            data = block("<", 0x0A0D0D0A, pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
            data += block("<", 1, pack("<HHI", 101, 0, 65535) + offset)
            data += block("<", 6, pack("<IIIII", 0, high, 5, len(packet), len(packet)) + packet)
            copy = anonymise(data, KEY)
            self.assertEqual((copy.packets, copy.damage), (1, ""))
            self.assertEqual([line["time"] for line in lines(copy.data)], ["1970-01-01T00:00:00+00:00"])

    def test_frame_before_a_connection(self) -> None:
        """A segment without data, whose sequence number is of an earlier connection, hides no packets."""
        data = pcap(
            [link(1, each) for each in (tcp(CLIENT, SERVER, 16), tcp(CLIENT, SERVER, 0xF0000000, ESTABLISH))]
        )
        copy = anonymise(data, KEY)
        self.assertEqual((copy.packets, copy.cleared, copy.omitted), (1, 0, 0))
        self.assertEqual([line["packet"] for line in lines(copy.data)], ["EstablishConnection"])

    def test_several_dumps(self) -> None:
        """A text with several dumps is refused with the reason."""
        text = "\n\n".join("00000000: 0102 0304" for _ in range(2)).encode()
        with self.assertRaisesRegex(RemoteProtocolError, "2 dumps"):
            anonymise(text, KEY)


class PseudonymTests(SynchronousTestCase):
    """Replacements."""

    @given(st.text())
    def test_lengths(self, text: str) -> None:
        """A text keeps its length in characters, in UTF-8 and in UTF-16."""
        other = Pseudonyms(KEY).text(text)
        for encoding in ("utf-8", "utf-16-le"):
            sizes = [len(each.encode(encoding, "surrogatepass")) for each in (text, other)]
            self.assertEqual(sizes[0], sizes[1], (text, other))
        self.assertEqual(len(text), len(other))

    @given(st.binary())
    def test_data(self, data: bytes) -> None:
        """So does a content of any kind."""
        self.assertEqual(len(Pseudonyms(KEY).data(data)), len(data))

    @given(st.ip_addresses().map(str))
    def test_addresses(self, address: str) -> None:
        """The text of an address keeps its length, and is an address."""
        names = Pseudonyms(KEY)
        other = names.address(address)
        self.assertEqual(len(other), len(address))
        self.assertEqual(other, names.text(address))

    def test_distinct(self) -> None:
        """Different names and addresses get different ones, even where there are few of a length."""
        names = Pseudonyms(KEY)
        words = [chr(code) for code in range(ord("a"), ord("z") + 1)]
        self.assertEqual(len({names.text(word) for word in words}), 26)
        hosts = [f"10.0.{high}.{low}" for high in range(10, 40) for low in range(10, 40)]
        self.assertEqual(len({names.address(host) for host in hosts}), len(hosts))

    def test_scripts(self) -> None:
        """Letters of all scripts are replaced, with their marks, and take as many bytes."""
        names = Pseudonyms(KEY)
        for text in ("\u023anna", "Müller", "हिन्दी", "ภาษาไทย", "東京", "\U0001d49cda", "\ud800x", "\uffff"):
            other = names.text(text)
            self.assertEqual({char for char in text if char > "\x7f"} & set(other), set(), text)
            for encoding in ("utf-8", "utf-16-le"):
                sizes = {len(each.encode(encoding, "surrogatepass")) for each in (text, other)}
                self.assertEqual(len(sizes), 1, (text, other))

    def test_numbers(self) -> None:
        """Binary numbers are no text, although small ones look like the characters of UTF-16."""
        names = Pseudonyms(KEY)
        for layout, numbers in (("<4H", (7, 12, 33, 40)), ("<4I", (33, 40, 45, 58)), ("<2I", (40, 65))):
            data = pack(layout, *numbers)
            self.assertNotEqual(names.data(data)[0], data[0], numbers)

    def test_digits_of_other_scripts(self) -> None:
        """Numbers with dots between them are replaced in all scripts."""
        text = "\u0661\u0662.\u0663.\u0664.\u0665"
        other = Pseudonyms(KEY).text(text)
        self.assertEqual((set(text) & set(other), len(other)), ({"."}, len(text)))

    def test_provider(self) -> None:
        """A provider of Windows keeps its name, another does not."""
        names = Pseudonyms(KEY)
        for name, is_kept in (("Microsoft Base Cryptographic Provider v1.0", True), ("Acme", False)):
            packet = secured(provider_info=ProviderInfo(1, name, b"second signature"))
            copy = anonymised_packet(packet, names)
            self.assertEqual(name.encode("utf-16-le") in copy, is_kept)
            self.assertNotIn(b"second signature", copy)
            self.assertEqual(len(copy), len(packet))

    def test_key(self) -> None:
        """Another key gives other pseudonyms, so a guess of a name cannot be verified."""
        self.assertNotEqual(Pseudonyms(KEY).text("payroll"), Pseudonyms(b"j" * 32).text("payroll"))
        guid = UUID(int=5).bytes_le
        self.assertNotEqual(Pseudonyms(KEY).guid(guid), Pseudonyms(b"j" * 32).guid(guid))

    def test_kept(self) -> None:
        """The null GUID, loopback addresses, well-known SIDs and the words of format names stay."""
        names = Pseudonyms(KEY)
        self.assertEqual(names.guid(bytes(16)), bytes(16))
        self.assertEqual(names.address("127.0.0.1"), "127.0.0.1")
        self.assertEqual(names.text("DIRECT=TCP:127.0.0.1\\private$"), "DIRECT=TCP:127.0.0.1\\private$")
        everyone = bytes.fromhex("010100000000000100000000")
        self.assertEqual(names.sid(everyone), everyone)
        user = bytes.fromhex("0105000000000005") + b"".join(
            number.to_bytes(4, "little") for number in (21, 111111, 222222, 333333, 1105)
        )
        self.assertEqual(names.sid(user)[:12], user[:12])
        self.assertNotEqual(names.sid(user)[12:], user[12:])
