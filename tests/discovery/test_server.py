"""[MS-MQSD] 3.2: the discovery server, by what it answers."""

from __future__ import annotations

from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.discovery.packets import TopologyClientRequest, TopologyServerReply
from msmq.discovery.server import LARGEST_REPLY, DiscoveryServer, Unanswered
from msmq.wire.guid import NULL_GUID
from tests.vectors import vector

ENTERPRISE = UUID("e6eaba61-d1c6-11db-baac-0003ff4e2d22")
SITE = UUID("e6eaba60-d1c6-11db-baac-0003ff4e2d22")
NETWORK = UUID("e6eaba62-d1c6-11db-baac-0003ff4e2d22")
OTHER_SITE = UUID(int=5)
REQUEST = TopologyClientRequest(ENTERPRISE, UUID(int=0x1234), OTHER_SITE)
EXAMPLE = vector("mqsd-4-topology-client-request")


def server(*names: str, checks_enterprise: bool = False) -> DiscoveryServer:
    return DiscoveryServer(
        ENTERPRISE,
        SITE,
        "GAMMA",
        directory_servers=names,
        connected_networks=(NETWORK,),
        checks_enterprise=checks_enterprise,
    )


class AnswerTests(SynchronousTestCase):
    """Replies, byte for byte or as a client reads them."""

    def reply(
        self, serving: DiscoveryServer, request: TopologyClientRequest = REQUEST, *, is_ipx: bool = False
    ) -> TopologyServerReply:
        answer = serving.answer(request.to_bytes(), is_ipx=is_ipx)
        assert isinstance(answer, bytes)
        return TopologyServerReply.from_bytes(answer)

    def test_client_of_the_own_site(self) -> None:
        """MQSD-3.2.5.1-07 MQSD-3.2.5.1-03 MQSD-3.2.5.1-05: the first reply of the worked example.

        MQSD-2.2.3-08: neither a site nor servers are in it.
        """
        serving = server("nt4pec")
        serving.site = TopologyClientRequest.from_bytes(EXAMPLE).site_id
        reply = vector("mqsd-4-topology-server-reply-same-site")
        self.assertEqual(serving.answer(EXAMPLE), reply)
        self.assertEqual(len(reply), 32 + 16)

    def test_client_of_another_site(self) -> None:
        """MQSD-3.2.5.1-08 MQSD-3.2.5.1-09 MQSD-3.2.5.1-10: the second reply of the worked example."""
        self.assertEqual(server("nt4pec").answer(EXAMPLE), vector("mqsd-4-topology-server-reply-other-site"))

    def test_client_without_a_site(self) -> None:
        """Reading 26: it gets the servers."""
        reply = self.reply(server("DS1"), attrs.evolve(REQUEST, site_id=NULL_GUID))
        self.assertEqual(reply.responding_site_id, SITE)
        serving = server("DS1")
        serving.site = NULL_GUID
        self.assertEqual(self.reply(serving, attrs.evolve(REQUEST, site_id=NULL_GUID)).servers, reply.servers)

    def test_servers_in_their_order(self) -> None:
        """MQSD-3.2.5.1-09: all of them."""
        reply = self.reply(server("DS3", "DS1", "DS2"))
        self.assertEqual([each.name for each in reply.servers], ["DS3", "DS1", "DS2"])
        self.assertTrue(all(each.supports_ip and not each.supports_ipx for each in reply.servers))

    def test_no_servers_are_configured(self) -> None:
        """Reading 22: it names itself."""
        self.assertEqual([each.name for each in self.reply(server()).servers], ["GAMMA"])

    def test_changed_networks(self) -> None:
        """MQSD-3.2.1.1-01 MQSD-3.2.1.1-02 MQSD-3.2.5.1-02: the next reply says it, the last one does not."""
        serving = server("DS1")
        before = serving.answer(REQUEST.to_bytes())
        again = serving.answer(REQUEST.to_bytes())
        serving.directory_servers = ("DS9",)
        serving.connected_networks = (UUID(int=8), UUID(int=9))
        reply = self.reply(serving)
        self.assertEqual([each.name for each in reply.servers], ["DS9"])
        self.assertEqual(reply.connected_networks, (UUID(int=8), UUID(int=9)))
        self.assertEqual(before, again)

    def test_networks(self) -> None:
        """MQSD-3.2.5.1-04, reading 23: all of them in their order, of more than 32 the first."""
        serving = server("DS1")
        serving.connected_networks = tuple(UUID(int=number) for number in range(40))
        self.assertEqual(self.reply(serving).connected_networks, serving.connected_networks[:32])

    def test_masks(self) -> None:
        """MQSD-3.2.5.1-05 MQSD-3.2.5.1-06: over IPX a bit for each network, over IP none."""
        serving = server("DS1")
        serving.connected_networks = tuple(UUID(int=number) for number in range(3))
        self.assertEqual(self.reply(serving).connected_network_mask, 0)
        self.assertEqual(self.reply(serving, is_ipx=True).connected_network_mask, 0b111)

    def test_other_enterprise(self) -> None:
        """MQSD-3.2.5.1-12: it is answered, unless it is to be passed over (reading 16)."""
        foreign = attrs.evolve(REQUEST, enterprise_id=UUID(int=3))
        self.assertEqual(self.reply(server("DS1"), foreign).correlation_id, REQUEST.request_id)
        strict = server("DS1", checks_enterprise=True)
        self.assertEqual(strict.answer(foreign.to_bytes()), Unanswered.OTHER_ENTERPRISE)
        self.assertIsInstance(strict.answer(REQUEST.to_bytes()), bytes)

    @given(st.integers(0, 255), st.binary(min_size=2, max_size=2))
    def test_other_version(self, version: int, reserved: bytes) -> None:
        """MQSD-1.7-01 MQSD-1.6-01 MQSD-2.2.1-03 MQSD-2.2.1-08: Version and Reserved are not looked at."""
        packet = bytes([version]) + REQUEST.to_bytes()[1:2] + reserved + REQUEST.to_bytes()[4:]
        self.assertEqual(server("DS1").answer(packet), server("DS1").answer(REQUEST.to_bytes()))

    def test_what_follows_a_request(self) -> None:
        """MQSD-3.2.5.1-01, reading 17: fields of IPX are read over IPX only, and from 60 bytes on."""
        serving = server("DS1")
        plain = serving.answer(REQUEST.to_bytes())
        for rest in (b"\0" * 7, b"\0" * 8, b"\xff" * 300):
            self.assertEqual(serving.answer(REQUEST.to_bytes() + rest), plain)
        over_ipx = serving.answer(REQUEST.to_bytes(), is_ipx=True)
        self.assertEqual(serving.answer(REQUEST.to_bytes() + b"\0" * 7, is_ipx=True), over_ipx)
        self.assertEqual(serving.answer(REQUEST.to_bytes() + b"\0" * 8, is_ipx=True), Unanswered.MALFORMED)

    def test_very_many_servers(self) -> None:
        """A reply is one datagram: it has the first servers, as many as fit."""
        names = [f"DIRECTORY-{number:05}" for number in range(5000)]
        serving = server(*names)
        answer = serving.answer(REQUEST.to_bytes())
        assert isinstance(answer, bytes)
        self.assertLessEqual(len(answer), LARGEST_REPLY)
        self.assertGreater(len(answer), LARGEST_REPLY - 40)
        reported = [each.name for each in TopologyServerReply.from_bytes(answer).servers]
        self.assertEqual(reported, names[: len(reported)])

    def test_names_that_a_list_cannot_have(self) -> None:
        """A name of the directory with a comma or a NUL is left out, as is one that is longer than a
        datagram; the request is answered all the same, with the server's own name if no other is left.
        """
        for names, reported in (
            (("A", "B,C", "", "D\0", "E"), ["A", "E"]),
            (("B,C",), ["GAMMA"]),
            (("F" * LARGEST_REPLY,), ["GAMMA"]),
        ):
            serving = server()
            serving.directory_servers = names
            self.assertEqual([each.name for each in self.reply(serving).servers], reported)

    def test_the_last_server_that_fits(self) -> None:
        """A server is listed if the reply with it is at most as long as a datagram.

        Its entry takes two bytes for each UTF-16 unit of its name, of which characters beyond U+FFFF have
        two, four bytes for its flags, and two for a separator.
        """
        for networks in (1, 2, 32):
            for text in ("D", "\u0100", "\ud800", "\U0001f642"):
                serving = server()
                serving.connected_networks = tuple(UUID(int=number) for number in range(networks))
                # 65,507 is odd, and all that is listed has an even size.
                left = LARGEST_REPLY - 1 - 32 - 16 * (networks + 1) - 2 * len("10A,10\0")
                name = text * (left // len(text.encode("utf-16-le", "surrogatepass")))
                serving.directory_servers = ("A", name, "B")
                answer = serving.answer(REQUEST.to_bytes())
                assert isinstance(answer, bytes)
                self.assertEqual(len(answer), LARGEST_REPLY - 1)
                reported = TopologyServerReply.from_bytes(answer).servers
                self.assertEqual([each.name for each in reported], ["A", name])
                serving.directory_servers = ("A", f"{name}D", "B")
                self.assertEqual([each.name for each in self.reply(serving).servers], ["A"])


class SilenceTests(SynchronousTestCase):
    """Datagrams without an answer."""

    @given(st.binary(max_size=200))
    def test_garbage(self, data: bytes) -> None:
        """Reading 15: what is not a request is dropped, and the next request is answered."""
        serving = server("DS1")
        serving.answer(data)
        self.assertIsInstance(serving.answer(REQUEST.to_bytes()), bytes)

    def test_cut_short(self) -> None:
        """Reading 15: a request truncated at any length is not answered, nor is a reply."""
        serving = server("DS1")
        packet = REQUEST.to_bytes()
        for length in range(len(packet)):
            self.assertEqual(serving.answer(packet[:length]), Unanswered.MALFORMED)
        reply = serving.answer(packet)
        assert isinstance(reply, bytes)
        self.assertEqual(serving.answer(reply), Unanswered.MALFORMED)
        self.assertEqual(serving.unanswered[Unanswered.MALFORMED], len(packet) + 1)
        self.assertEqual(serving.answered, 1)

    def test_other_types(self) -> None:
        """MQSD-2.2.1-06: only a request is answered."""
        serving = server("DS1")
        packet = REQUEST.to_bytes()
        for number in (0, *range(2, 256)):
            self.assertEqual(serving.answer(packet[:1] + bytes([number]) + packet[2:]), Unanswered.MALFORMED)

    def test_no_network_is_configured(self) -> None:
        """Reading 23: a reply needs a network, so none is sent."""
        serving = server("DS1")
        serving.connected_networks = ()
        self.assertEqual(serving.answer(REQUEST.to_bytes()), Unanswered.NO_NETWORK)

    def test_many_in_a_row(self) -> None:
        """MQSD-3.2.5-01 MQSD-2.2.2-04 MQSD-2.2.3-02: each of a thousand requests has its own answer."""
        serving = server("DS1")
        for number in range(1000):
            # Those of the server's own site have an answer without servers.
            site = serving.site if number % 2 else REQUEST.site_id
            request = attrs.evolve(REQUEST, request_id=UUID(int=number), site_id=site)
            answer = serving.answer(request.to_bytes())
            assert isinstance(answer, bytes)
            self.assertEqual(TopologyServerReply.from_bytes(answer).correlation_id, UUID(int=number))
            self.assertEqual(answer[4:20], request.to_bytes()[20:36])

    def test_own_request(self) -> None:
        """The requests of this queue manager's own client are not answered, and those of all others are."""
        serving = server("DS1")
        self.assertIsInstance(serving.answer(REQUEST.to_bytes()), bytes)
        serving.own_request = REQUEST.request_id
        self.assertEqual(serving.answer(REQUEST.to_bytes()), Unanswered.OWN)
        other = attrs.evolve(REQUEST, request_id=UUID(int=REQUEST.request_id.int ^ 1))
        self.assertIsInstance(serving.answer(other.to_bytes()), bytes)
        serving.own_request = None
        self.assertIsInstance(serving.answer(REQUEST.to_bytes()), bytes)
        self.assertEqual((serving.answered, dict(serving.unanswered)), (3, {Unanswered.OWN: 1}))

    def test_no_return_address(self) -> None:
        """A request is answered only if its source, where that is known, can be one host."""
        serving = server("DS1")
        answer = serving.answer(REQUEST.to_bytes())
        self.assertEqual(serving.answer(REQUEST.to_bytes(), ("192.0.2.7", 3527)), answer)
        for source in (("192.0.2.7", 0), ("255.255.255.255", 3527), ("224.0.0.1", 3527), ("", 3527)):
            self.assertEqual(serving.answer(REQUEST.to_bytes(), source), Unanswered.NO_RETURN_ADDRESS)
        self.assertEqual((serving.answered, dict(serving.unanswered)), (2, {Unanswered.NO_RETURN_ADDRESS: 4}))

    def test_the_reason_that_is_counted(self) -> None:
        """A datagram is dropped for one reason: what it is comes before what is configured and its source."""
        serving = server("DS1", checks_enterprise=True)
        serving.own_request = UUID(int=77)
        serving.connected_networks = ()
        own = attrs.evolve(REQUEST, request_id=UUID(int=77), enterprise_id=UUID(int=3))
        foreign = attrs.evolve(REQUEST, enterprise_id=UUID(int=3))
        nowhere = ("0.0.0.0", 0)
        for datagram, reason in (
            (REQUEST.to_bytes()[:-1], Unanswered.MALFORMED),
            (own.to_bytes(), Unanswered.OWN),
            (foreign.to_bytes(), Unanswered.OTHER_ENTERPRISE),
            (REQUEST.to_bytes(), Unanswered.NO_NETWORK),
        ):
            self.assertEqual(serving.answer(datagram, nowhere), reason)
            self.assertEqual(serving.unanswered[reason], 1)
        self.assertEqual(serving.unanswered.total(), 4)
        self.assertEqual(serving.answered, 0)
