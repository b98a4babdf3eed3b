"""[MS-MQSD] 2.2: the packets of directory discovery."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.discovery.packets import (
    DirectoryServer,
    TopologyClientRequest,
    TopologyServerReply,
    read_topology_packet,
)
from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from tests.vectors import vector

ENTERPRISE = UUID("E6EABA61-D1C6-11DB-BAAC-0003FF4E2D22")
REQUEST = UUID("F291A103-E33C-AB4F-A930-BE3A33E432DD")
CLIENT_SITE = UUID("DCC51BF6-D4AD-4543-8739-71568E8F9128")
NETWORK = UUID("E6EABA62-D1C6-11DB-BAAC-0003FF4E2D22")
SERVER_SITE = UUID("E6EABA60-D1C6-11DB-BAAC-0003FF4E2D22")
REPLY_TO_NEIGHBOUR = TopologyServerReply(REQUEST, (NETWORK,))

names = st.text(st.characters(exclude_characters=",\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
servers = st.lists(st.builds(DirectoryServer, names, st.booleans(), st.booleans()), max_size=4).map(tuple)
networks = st.lists(st.uuids(), min_size=1, max_size=32).map(tuple)


@st.composite
def replies(draw: st.DrawFn) -> TopologyServerReply:
    listed = draw(servers)
    site = draw(st.uuids()) if listed else None
    return TopologyServerReply(draw(st.uuids()), draw(networks), site, listed)


def array(text: str) -> bytes:
    """A reply with this DirectoryServiceServerArray."""
    data = text.encode("utf-16-le", "surrogatepass")
    fixed = TopologyServerReply(REQUEST, (NETWORK,)).to_bytes()
    return fixed[:28] + len(data).to_bytes(4, "little") + fixed[32:] + SERVER_SITE.bytes_le + data


class MalformedPacketTests(SynchronousTestCase):
    """What the error of a malformed packet says."""

    def assert_refuses(self, data: bytes, where: tuple[str, str, int], rule: str) -> None:
        error = self.assertRaises(RemoteProtocolError, read_topology_packet, data)
        self.assertEqual((error.header, error.field, error.offset), where)
        self.assertEqual(error.rule, rule)
        section = {"TopologyPacketHeader": "2.2.1", "TopologyServerReply": "2.2.3"}[error.header]
        self.assertEqual(error.section, f"[MS-MQSD] {section}")

    def test_header(self) -> None:
        """An undefined Type, or no whole header."""
        for number in (0, 3, 255):
            where = ("TopologyPacketHeader", "Type", 1)
            self.assert_refuses(bytes([0, number]) + bytes(200), where, f"{number} is neither 1 nor 2")
        self.assert_refuses(b"\0\2\0", ("TopologyPacketHeader", "Version", 0), "needs 4 bytes where 3 remain")

    def test_the_other_packet(self) -> None:
        """The Type of a packet that was expected to be the other one."""
        request = TopologyClientRequest(ENTERPRISE, REQUEST, NULL_GUID).to_bytes()
        error = self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, request)
        self.assertEqual(str(error), "[MS-MQSD] 2.2.1 TopologyPacketHeader.Type at offset 1: should be 2")
        reader = Reader(REPLY_TO_NEIGHBOUR.to_bytes(), base=40)
        error = self.assertRaises(RemoteProtocolError, TopologyClientRequest.read, reader)
        self.assertEqual(str(error), "[MS-MQSD] 2.2.1 TopologyPacketHeader.Type at offset 41: should be 1")

    def test_counts(self) -> None:
        """A count of networks that is not within 1 to 32, of a request over IPX too."""
        fixed = REPLY_TO_NEIGHBOUR.to_bytes()
        for count in (0, 33, 0xFFFFFFFF):
            number = count.to_bytes(4, "little")
            data = fixed[:20] + number + fixed[24:] + bytes(600)
            where = ("TopologyServerReply", "ConnectedNetworkCount", 20)
            self.assert_refuses(data, where, f"{count} is not within 1 to 32")
            data = TopologyClientRequest(ENTERPRISE, REQUEST, NULL_GUID).to_bytes() + number + bytes(200)
            error = self.assertRaises(
                RemoteProtocolError, TopologyClientRequest.from_bytes, data, is_ipx=True
            )
            self.assertEqual((error.header, error.field), ("TopologyClientRequest", "IPXNetworkCount"))
            self.assertEqual((error.offset, error.rule), (52, f"{count} is not within 1 to 32"))

    def test_sizes_of_the_server_list(self) -> None:
        """A list has an even number of bytes, at least 8: two flags, a character and a NUL."""
        fixed = REPLY_TO_NEIGHBOUR.to_bytes()
        where = ("TopologyServerReply", "DirectoryServiceServerSize", 28)
        for size in (1, 2, 6, 7, 9, 11, 0xFFFFFFFF):
            data = fixed[:28] + size.to_bytes(4, "little") + fixed[32:] + bytes(100)
            self.assert_refuses(data, where, f"{size} bytes hold no server entry")
        for name in ("a", "ab", "abc", "abcd"):
            reply = TopologyServerReply.from_bytes(array(f"10{name}\0"))
            self.assertEqual(reply.servers, (DirectoryServer(name),))

    def test_server_list(self) -> None:
        """No NUL at its end, or an entry that is not two flags and a name; the list begins at 64 here."""
        where = ("TopologyServerReply", "DirectoryServiceServerArray", 64)
        for text in ("10ab", "10a\0b"):
            self.assert_refuses(array(text), where, "does not end with a NUL")
        for text in (
            "20a\0",
            "12a\0",
            "/0a\0",
            "1/a\0",
            "10a,10\0",
            "10a,,10b\0",
            "10\0\0",
            "0\0\0\0",
            "\0\0\0\0",
        ):
            self.assert_refuses(array(text), where, "an entry is not two flags 0 or 1 and a name")

    def test_what_cannot_be_sent(self) -> None:
        """The error of a value that the packet cannot express names the field and the value."""
        one, site = (NETWORK,), SERVER_SITE
        for packet, problem in (
            (
                TopologyClientRequest(ENTERPRISE, REQUEST, NULL_GUID, (1,) * 33),
                "IPXNetworkCount: 33 exceed 32",
            ),
            (TopologyServerReply(REQUEST, ()), "ConnectedNetworkCount: 0 is not within 1 to 32"),
            (TopologyServerReply(REQUEST, one * 33), "ConnectedNetworkCount: 33 is not within 1 to 32"),
            (
                TopologyServerReply(REQUEST, one, connected_network_mask=3),
                "ConnectedNetworkMask: has not one bit for each network",
            ),
            (
                TopologyServerReply(REQUEST, one, site),
                "RespondingSiteID: is there exactly when servers are listed",
            ),
            (
                TopologyServerReply(REQUEST, one, site, (DirectoryServer("a"), DirectoryServer("b,c"))),
                "DirectoryServiceServerArray: 'b,c' is not a server name",
            ),
        ):
            self.assertEqual(str(self.assertRaises(LocalProtocolError, packet.to_bytes)), problem)


class TopologyClientRequestTests(SynchronousTestCase):
    def test_the_request_of_the_document_round_trips(self) -> None:
        """MQSD-2.2.2-01, MQSD-2.2-01: the worked example is understood and written byte for byte."""
        data = vector("mqsd-4-topology-client-request")
        request = TopologyClientRequest.from_bytes(data)
        self.assertEqual(request, TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE))
        self.assertEqual(request.to_bytes(), data)

    def test_a_request_on_ip_is_52_bytes(self) -> None:
        """MQSD-2.2.2-06: no IPX fields are written."""
        self.assertEqual(len(TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE).to_bytes()), 52)

    def test_the_header_is_version_type_reserved(self) -> None:
        """MQSD-2.2.1-01, MQSD-2.2.1-02, MQSD-2.2.1-04, MQSD-2.2.1-07: a request begins with 00 01 00 00."""
        data = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE).to_bytes()
        self.assertEqual(data[:4].hex(), "00010000")
        self.assertEqual(data[4:20], ENTERPRISE.bytes_le)

    def test_version_and_reserved_are_not_looked_at(self) -> None:
        """Bytes 0, 2 and 3 of a request are ignored."""
        data = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE).to_bytes()
        changed = b"\xff\x01\xff\xff" + data[4:]
        self.assertEqual(TopologyClientRequest.from_bytes(changed), TopologyClientRequest.from_bytes(data))

    def test_what_follows_on_ip_is_ignored(self) -> None:
        """MQSD-2.2.2-06: a datagram of an IPX client, received over IP, is read without its IPX part."""
        data = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE, (1, 2)).to_bytes()
        self.assertEqual(TopologyClientRequest.from_bytes(data).ipx_networks, ())

    def test_ipx_networks_are_counted_and_listed(self) -> None:
        """MQSD-2.2.2-07, MQSD-2.2.2-09: IPXNetworkCount is at 52, the numbers at 56."""
        request = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE, (0x12345678, 2))
        data = request.to_bytes()
        self.assertEqual((len(data), data[52:].hex()), (64, "020000007856341202000000"))
        self.assertEqual(TopologyClientRequest.from_bytes(data, is_ipx=True), request)

    def test_ipx_networks_are_1_to_32(self) -> None:
        """MQSD-2.2.2-08: a count of 0 or 33 is malformed, 1 and 32 are not."""
        start = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE).to_bytes()
        for count in (1, 32):
            data = start + count.to_bytes(4, "little") + bytes(4 * count)
            self.assertEqual(len(TopologyClientRequest.from_bytes(data, is_ipx=True).ipx_networks), count)
        for count in (0, 33):
            data = start + count.to_bytes(4, "little") + bytes(4 * 33)
            self.assertRaises(RemoteProtocolError, TopologyClientRequest.from_bytes, data, is_ipx=True)
        too_many = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE, (1,) * 33)
        self.assertRaises(LocalProtocolError, too_many.to_bytes)

    def test_thirty_two_ipx_networks(self) -> None:
        """As many as a request can have, with the least and the greatest number."""
        request = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE, (0, *range(30), 0xFFFFFFFF))
        data = request.to_bytes()
        self.assertEqual(len(data), 52 + 4 + 4 * 32)
        self.assertEqual(TopologyClientRequest.from_bytes(data, is_ipx=True), request)

    def test_less_than_60_bytes_hold_no_ipx_networks(self) -> None:
        """Four bytes behind a request are no IPX part, over IPX neither."""
        data = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE).to_bytes() + b"\1\0\0\0"
        self.assertEqual(TopologyClientRequest.from_bytes(data, is_ipx=True).ipx_networks, ())

    def test_a_shorter_datagram_is_malformed(self) -> None:
        """Every strict prefix of the worked example is refused."""
        data = vector("mqsd-4-topology-client-request")
        for length in range(len(data)):
            self.assertRaises(RemoteProtocolError, TopologyClientRequest.from_bytes, data[:length])

    def test_a_reply_is_no_request(self) -> None:
        """The Type decides, and the error names it."""
        data = vector("mqsd-4-topology-server-reply-other-site")
        error = self.assertRaises(RemoteProtocolError, TopologyClientRequest.from_bytes, data)
        self.assertEqual((error.header, error.field, error.offset), ("TopologyPacketHeader", "Type", 1))

    @given(st.uuids(), st.uuids(), st.uuids(), st.lists(st.integers(0, 0xFFFFFFFF), max_size=32).map(tuple))
    def test_every_request_round_trips(
        self, enterprise: UUID, request: UUID, site: UUID, ipx: tuple[int, ...]
    ) -> None:
        """Every request round-trips."""
        value = TopologyClientRequest(enterprise, request, site, ipx)
        self.assertEqual(TopologyClientRequest.from_bytes(value.to_bytes(), is_ipx=True), value)


class TopologyServerReplyTests(SynchronousTestCase):
    def test_the_reply_of_a_neighbour_round_trips(self) -> None:
        """A reply from the client's own site is 32 bytes and its networks, no more."""
        data = vector("mqsd-4-topology-server-reply-same-site")
        reply = TopologyServerReply.from_bytes(data)
        self.assertEqual(reply, TopologyServerReply(REQUEST, (NETWORK,)))
        self.assertEqual(reply.to_bytes(), data)
        self.assertEqual(len(data), 48)

    def test_the_reply_of_another_site_round_trips(self) -> None:
        """MQSD-2.2.3-01, MQSD-2.2.3-10, MQSD-2.2.3-11, MQSD-2.2.3-15: the example's site and server."""
        data = vector("mqsd-4-topology-server-reply-other-site")
        reply = TopologyServerReply.from_bytes(data)
        nt4pec = DirectoryServer("nt4pec", supports_ip=True, supports_ipx=False)
        self.assertEqual(reply, TopologyServerReply(REQUEST, (NETWORK,), SERVER_SITE, (nt4pec,)))
        self.assertEqual(reply.to_bytes(), data)

    def test_the_header_says_reply(self) -> None:
        """MQSD-2.2.1-05: a reply begins with 00 02 00 00."""
        self.assertEqual(REPLY_TO_NEIGHBOUR.to_bytes()[:4].hex(), "00020000")

    def test_the_size_counts_the_closing_nul(self) -> None:
        """MQSD-2.2.3-07, MQSD-2.2.3-20: one server named nt4pec takes 18 bytes."""
        reply = TopologyServerReply(REQUEST, (NETWORK,), SERVER_SITE, (DirectoryServer("nt4pec"),))
        self.assertEqual(reply.to_bytes()[28:32].hex(), "12000000")
        self.assertEqual(len(reply.to_bytes()), 48 + 16 + 18)

    def test_the_mask_is_zero_on_ip(self) -> None:
        """MQSD-2.2.3-05: bytes 24 to 27 are 0."""
        self.assertEqual(REPLY_TO_NEIGHBOUR.to_bytes()[24:28], bytes(4))

    def test_the_mask_on_ipx_has_a_bit_for_each_network(self) -> None:
        """MQSD-2.2.3-06: another number of bits is refused, the right one is written."""
        three = (NETWORK, ENTERPRISE, SERVER_SITE)
        good = TopologyServerReply(REQUEST, three, connected_network_mask=0b111)
        self.assertEqual(good.to_bytes()[24:28].hex(), "07000000")
        bad = TopologyServerReply(REQUEST, three, connected_network_mask=0b11)
        self.assertRaises(LocalProtocolError, bad.to_bytes)

    def test_the_mask_is_carried_as_received(self) -> None:
        """Also one that has not a bit for each network."""
        data = REPLY_TO_NEIGHBOUR.to_bytes()
        for mask in (1, 0xFFFFFFFF, 0x80000001):
            changed = data[:24] + mask.to_bytes(4, "little") + data[28:]
            self.assertEqual(TopologyServerReply.from_bytes(changed).connected_network_mask, mask)

    def test_thirty_two_networks(self) -> None:
        """MQSD-2.2.3-04: as many as a reply can have, with a mask of as many bits."""
        reply = TopologyServerReply(REQUEST, (NETWORK,) * 32, connected_network_mask=0xFFFFFFFF)
        self.assertEqual(len(reply.to_bytes()), 32 + 16 * 32)
        self.assertEqual(TopologyServerReply.from_bytes(reply.to_bytes()), reply)

    def test_networks_keep_their_order(self) -> None:
        """MQSD-2.2.3-03, MQSD-2.2.3-09: two networks are counted and come back in order."""
        data = TopologyServerReply(REQUEST, (NETWORK, ENTERPRISE)).to_bytes()
        self.assertEqual(data[20:24].hex(), "02000000")
        self.assertEqual(TopologyServerReply.from_bytes(data).connected_networks, (NETWORK, ENTERPRISE))

    def test_no_network_or_too_many_are_malformed(self) -> None:
        """MQSD-2.2.3-04: counts of 0 and 33 are refused, in both directions."""
        for count in (0, 33):
            data = bytearray(REPLY_TO_NEIGHBOUR.to_bytes()) + bytes(16 * 40)
            data[20] = count
            error = self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, bytes(data))
            self.assertEqual((error.field, error.offset), ("ConnectedNetworkCount", 20))
            local = TopologyServerReply(REQUEST, (NETWORK,) * count)
            self.assertRaises(LocalProtocolError, local.to_bytes)

    def test_servers_are_separated_by_commas(self) -> None:
        """MQSD-2.2.3-12, MQSD-2.2.3-13, MQSD-2.2.3-14: two entries, each with its two flags."""
        data = array("10A,01B\0")
        reply = TopologyServerReply.from_bytes(data)
        self.assertEqual(
            reply.servers, (DirectoryServer("A", True, False), DirectoryServer("B", False, True))
        )
        self.assertEqual(reply.to_bytes(), data)

    def test_flags_are_0_or_1(self) -> None:
        """MQSD-2.2.3-18: any other flag character is malformed."""
        for text in ("20x\0", "12x\0", "10a,x1b\0"):
            self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, array(text))

    def test_an_entry_needs_a_name(self) -> None:
        """MQSD-2.2.3-17, MQSD-2.2.3-19: a lone NUL, an empty entry or two flags alone are malformed."""
        for text in ("\0", "\0\0\0\0", "10\0\0", "10a,\0", "10a,10\0", ",10a\0"):
            self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, array(text))

    def test_a_name_holds_any_other_character(self) -> None:
        """U+2C01 and U+0100 have the bytes of a comma and a NUL in them, and are neither."""
        reply = TopologyServerReply.from_bytes(array("10\u2c01\u0100\ud800\0"))
        self.assertEqual(reply.servers, (DirectoryServer("\u2c01\u0100\ud800"),))

    def test_a_name_with_a_comma_or_nul_cannot_be_sent(self) -> None:
        """MQSD-2.2.3-16: they would end the name; nor can a name be empty."""
        for name in ("a,b", "a\0b", ""):
            reply = TopologyServerReply(REQUEST, (NETWORK,), SERVER_SITE, (DirectoryServer(name),))
            self.assertRaises(LocalProtocolError, reply.to_bytes)

    def test_servers_and_site_come_together(self) -> None:
        """MQSD-2.2.3-17: one without the other cannot be expressed, so a list has an entry."""
        for reply in (
            TopologyServerReply(REQUEST, (NETWORK,), SERVER_SITE),
            TopologyServerReply(REQUEST, (NETWORK,), None, (DirectoryServer("a"),)),
        ):
            self.assertRaises(LocalProtocolError, reply.to_bytes)

    def test_a_server_list_ends_with_a_nul(self) -> None:
        """Text without one is malformed; what follows the first one is ignored."""
        self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, array("10abc"))
        reply = TopologyServerReply.from_bytes(array("10a\0rest\0"))
        self.assertEqual(reply.servers, (DirectoryServer("a"),))

    def test_an_odd_or_tiny_size_is_malformed(self) -> None:
        """No server entry takes fewer than 8 bytes or an odd number."""
        data = bytearray(array("10nt4pec\0"))
        for size in (1, 6, 7, 17):
            data[28] = size
            error = self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, bytes(data))
            self.assertEqual((error.field, error.offset), ("DirectoryServiceServerSize", 28))

    def test_a_shorter_datagram_is_malformed(self) -> None:
        """Every strict prefix of the worked examples is refused."""
        for name in ("same", "other"):
            data = vector(f"mqsd-4-topology-server-reply-{name}-site")
            for length in range(len(data)):
                self.assertRaises(RemoteProtocolError, TopologyServerReply.from_bytes, data[:length])

    def test_trailing_bytes_are_ignored(self) -> None:
        """Bytes after a reply are ignored."""
        data = vector("mqsd-4-topology-server-reply-other-site")
        whole = TopologyServerReply.from_bytes(data)
        self.assertEqual(TopologyServerReply.from_bytes(data + b"rest"), whole)

    @given(replies())
    def test_every_reply_round_trips(self, reply: TopologyServerReply) -> None:
        """Every reply round-trips."""
        self.assertEqual(TopologyServerReply.from_bytes(reply.to_bytes()), reply)


class ReadTopologyPacketTests(SynchronousTestCase):
    def test_the_type_says_which_packet_it_is(self) -> None:
        """Requests and replies are distinguished by their Type."""
        request = TopologyClientRequest(ENTERPRISE, REQUEST, NULL_GUID)
        for packet in (request, REPLY_TO_NEIGHBOUR):
            self.assertEqual(read_topology_packet(packet.to_bytes()), packet)

    def test_other_types_are_malformed(self) -> None:
        """Types 0, 3 and 255 are not defined."""
        for number in (0, 3, 255):
            data = bytes([0, number, 0, 0]) + bytes(200)
            self.assertRaises(RemoteProtocolError, read_topology_packet, data)

    def test_a_packet_is_all_that_is_left(self) -> None:
        """A packet ends with its datagram: what follows its fields belongs to it, and is not left to read."""
        request = TopologyClientRequest(ENTERPRISE, REQUEST, CLIENT_SITE)
        for packet in (request, REPLY_TO_NEIGHBOUR):
            reader = Reader(packet.to_bytes() + b"rest")
            self.assertEqual(type(packet).read(reader), packet)
            self.assertEqual(reader.remaining, 0)

    @given(st.binary(max_size=120), st.sampled_from((1, 2, 3)))
    def test_garbage_is_a_packet_or_malformed(self, data: bytes, number: int) -> None:
        """Any bytes are parsed or raise the error of malformed packets."""
        try:
            read_topology_packet(bytes([0, number, 0, 0]) + data)
        except RemoteProtocolError:
            pass
