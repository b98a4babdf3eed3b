"""[MS-MQSD] 3.1: the discovery client, by what it sends, when it gives up, and what it knows in the end."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.discovery.client import (
    RESPONSE_TIME,
    BroadcastNetwork,
    DiscoveryClient,
    DiscoveryEffect,
    DiscoveryEnded,
    SendRequest,
)
from msmq.discovery.packets import DirectoryServer, TopologyClientRequest, TopologyServerReply
from msmq.moment import Moment
from msmq.wire.guid import NULL_GUID
from tests.vectors import vector

ENTERPRISE = UUID("e6eaba61-d1c6-11db-baac-0003ff4e2d22")
SITE = UUID("c51bf6dd-d4ad-4543-8739-71568e8f9128")
RUN = UUID("f291a103-e33c-ab4f-a930-be3a33e432dd")
OTHER_RUN = UUID("11111111-2222-3333-4444-555555555555")
FOREIGN_SITE = UUID("00000000-0000-0000-0000-0000000000f1")
NETS = (UUID(int=1), UUID(int=2))
OLD_NETS = (UUID(int=99),)
FIRST, SECOND, THIRD = (BroadcastNetwork(f"10.0.{number}.5") for number in (1, 2, 3))
START = Moment(1000.0, 1_700_000_000.0)


def at(seconds: float) -> Moment:
    return START.later(seconds)


def foreign(*names: str, networks: Sequence[UUID] = NETS, run: UUID = RUN) -> bytes:
    """The reply of a server of another site."""
    servers = tuple(map(DirectoryServer, names or ("DS1", "DS2")))
    return TopologyServerReply(run, tuple(networks), FOREIGN_SITE, servers).to_bytes()


def own(networks: Sequence[UUID] = NETS, run: UUID = RUN) -> bytes:
    """The reply of a server of the client's site."""
    return TopologyServerReply(run, tuple(networks)).to_bytes()


def client(**settings: bool) -> DiscoveryClient:
    return DiscoveryClient(
        ENTERPRISE, SITE, directory_servers=("CONFIGURED",), connected_networks=OLD_NETS, **settings
    )


def begin(
    discovery: DiscoveryClient, *networks: BroadcastNetwork, run: UUID = RUN, now: Moment = START
) -> list[DiscoveryEffect]:
    return discovery.get_directory_server_list(networks or (FIRST, SECOND), run, now)


def known(discovery: DiscoveryClient) -> tuple[object, ...]:
    """All that can be seen of a client, what it waits for included."""
    return (
        discovery.directory_servers,
        discovery.connected_networks,
        discovery.last_successful_address,
        discovery.is_running,
        discovery.deadline,
    )


def sent_on(effects: Sequence[DiscoveryEffect]) -> list[str]:
    return [effect.network.address for effect in effects if isinstance(effect, SendRequest)]


class BeginTests(SynchronousTestCase):
    """Get Directory Server List."""

    def test_request_of_the_worked_example(self) -> None:
        """MQSD-3.1.3-01 MQSD-3.1.5.1-04 MQSD-3.1.4.1-12 MQSD-1.8-01: 52 bytes, as section 4 prints them.

        MQSD-3.1.1.1-01 MQSD-3.1.1.1-02 MQSD-3.1.3-03 MQSD-1.3-03 MQSD-1.3-04: both identifiers are what the
        client was configured with.
        """
        wanted = vector("mqsd-4-topology-client-request")
        request = TopologyClientRequest.from_bytes(wanted)
        discovery = DiscoveryClient(request.enterprise_id, request.site_id)
        effects = begin(discovery, FIRST, run=request.request_id)
        self.assertEqual(effects, [SendRequest(FIRST, wanted)])
        self.assertEqual(len(wanted), 52)

    def test_request_has_enterprise_and_site(self) -> None:
        """MQSD-2.2.2-02 MQSD-2.2.2-05: a request has its enterprise and its site."""
        [effect] = begin(client(), FIRST)
        assert isinstance(effect, SendRequest)
        self.assertEqual(effect.datagram[4:20], ENTERPRISE.bytes_le)
        self.assertEqual(effect.datagram[36:52], SITE.bytes_le)

    def test_one_identifier_for_all_networks(self) -> None:
        """MQSD-3.1.1.2-01, reading 30: each request of a run has the RequestID of that."""
        discovery = client()
        effects = begin(discovery, FIRST, SECOND, THIRD)
        effects += discovery.expire(at(15)) + discovery.expire(at(30))
        requests = [
            TopologyClientRequest.from_bytes(effect.datagram)
            for effect in effects
            if isinstance(effect, SendRequest)
        ]
        self.assertEqual([request.request_id for request in requests], [RUN] * 3)

    def test_client_without_a_site(self) -> None:
        """Reading 26: it says the null GUID."""
        [effect] = begin(DiscoveryClient(ENTERPRISE, NULL_GUID), FIRST)
        assert isinstance(effect, SendRequest)
        self.assertEqual(TopologyClientRequest.from_bytes(effect.datagram).site_id, NULL_GUID)

    def test_no_network_at_all(self) -> None:
        """MQSD-3.1.4.1-02, reading 12: that fails at once, and nothing is sent."""
        discovery = client()
        self.assertEqual(discovery.get_directory_server_list((), RUN, START), [DiscoveryEnded(False)])
        self.assertFalse(discovery.is_running)

    def test_second_call_after_success(self) -> None:
        """MQSD-3.1.4.1-06 MQSD-3.1.3-02: the first run queries, for any configuration; the next
        one need not.
        """
        discovery = client()
        self.assertEqual(sent_on(begin(discovery, FIRST)), [FIRST.address])
        discovery.receive(own(), FIRST.address, START)
        self.assertEqual(begin(discovery, FIRST, run=OTHER_RUN), [DiscoveryEnded(True)])
        self.assertFalse(discovery.is_running)

    def test_dial_up_network(self) -> None:
        """MQSD-3.1.4.1-07 MQSD-3.1.4.1-08 MQSD-3.1.4.1-09 MQSD-3.1.4.1-10: each run asks anew.

        It begins with the first network, and has a RequestID of its own.
        """
        discovery = client()
        networks = (FIRST, attrs.evolve(SECOND, is_dial_up=True))
        begin(discovery, *networks)
        discovery.receive(own(), FIRST.address, START)
        discovery.receive(own(), SECOND.address, START)
        [effect] = begin(discovery, *networks, run=OTHER_RUN)
        assert isinstance(effect, SendRequest)
        self.assertEqual(effect.network, FIRST)
        self.assertEqual(TopologyClientRequest.from_bytes(effect.datagram).request_id, OTHER_RUN)

    def test_answers_of_an_earlier_run(self) -> None:
        """MQSD-3.1.4.1-11: that one succeeded does not make the next one succeed."""
        discovery = client()
        dial_up = attrs.evolve(FIRST, is_dial_up=True)
        begin(discovery, dial_up)
        discovery.receive(own(), FIRST.address, START)
        begin(discovery, dial_up, run=OTHER_RUN, now=at(100))
        self.assertEqual(discovery.expire(at(115)), [DiscoveryEnded(False)])

    def test_forgotten_success(self) -> None:
        """Reading 10: an administrator can have it ask again."""
        discovery = client()
        begin(discovery, FIRST)
        discovery.receive(own(), FIRST.address, START)
        discovery.forget()
        self.assertEqual(sent_on(begin(discovery, FIRST)), [FIRST.address])

    def test_second_call_during_a_run(self) -> None:
        """Reading 31: nothing more is sent."""
        discovery = client()
        begin(discovery)
        before = known(discovery)
        self.assertEqual(begin(discovery, run=OTHER_RUN, now=at(3)), [])
        self.assertEqual(known(discovery), before)
        self.assertEqual(sent_on(discovery.receive(own(), FIRST.address, at(4))), [SECOND.address])

    def test_cancelled(self) -> None:
        """Later replies are discarded."""
        discovery = client()
        begin(discovery, FIRST)
        discovery.cancel()
        self.assertIsNone(discovery.deadline)
        self.assertEqual(discovery.receive(own(), FIRST.address, START), [])
        self.assertEqual(discovery.expire(at(60)), [])


class SilenceTests(SynchronousTestCase):
    """No server answers."""

    def test_networks_one_after_the_other(self) -> None:
        """MQSD-3.1.2.1-01 MQSD-3.1.2.1-02 MQSD-3.1.5.1-03 MQSD-3.1.6.1-01 MQSD-3.1.5.1-01: 15 seconds each.

        MQSD-3.1.1.2-05 MQSD-3.1.1.2-06 MQSD-3.1.4.1-04 MQSD-3.1.5.1-05: all of them, in their order.
        """
        discovery = client()
        asked = sent_on(begin(discovery, FIRST, SECOND, THIRD))
        for seconds in (15, 30):
            self.assertEqual(discovery.expire(at(seconds - 0.1)), [])
            self.assertEqual(discovery.deadline, START.monotonic + seconds)
            asked += sent_on(discovery.expire(at(seconds)))
        self.assertEqual(asked, [FIRST.address, SECOND.address, THIRD.address])
        self.assertEqual(discovery.expire(at(45)), [DiscoveryEnded(False)])

    def test_failure(self) -> None:
        """MQSD-3.1.6.1-02 MQSD-3.1.4.1-02: what is known stays as it is; the next call asks again."""
        discovery = client()
        begin(discovery, FIRST)
        self.assertEqual(discovery.expire(at(15)), [DiscoveryEnded(False)])
        self.assertEqual(known(discovery), (("CONFIGURED",), OLD_NETS, None, False, None))
        self.assertEqual(sent_on(begin(discovery, FIRST, run=OTHER_RUN, now=at(16))), [FIRST.address])

    def test_one_event_for_one_request(self) -> None:
        """MQSD-3.1.2.1-03: however late the clock is looked at, and however often."""
        discovery = client()
        begin(discovery, FIRST)
        self.assertEqual(discovery.expire(at(60)), [DiscoveryEnded(False)])
        self.assertEqual(discovery.expire(at(61)), [])

    def test_failure_after_success(self) -> None:
        """MQSD-3.1.6.1-02: the network that answered once is not trusted any more."""
        discovery = client()
        dial_up = attrs.evolve(FIRST, is_dial_up=True)
        begin(discovery, dial_up)
        discovery.receive(own(), FIRST.address, START)
        begin(discovery, dial_up, run=OTHER_RUN)
        discovery.expire(at(15))
        self.assertIsNone(discovery.last_successful_address)
        self.assertEqual(sent_on(begin(discovery, FIRST)), [FIRST.address])


class DiscardTests(SynchronousTestCase):
    """Replies that change nothing: no effect, no timer, nothing that is known."""

    def check(self, datagram: bytes, address: str) -> None:
        discovery = client()
        begin(discovery, FIRST, SECOND)
        discovery.expire(at(15))
        before = known(discovery)
        self.assertEqual(discovery.receive(datagram, address, at(16)), [])
        self.assertEqual(known(discovery), before)
        self.assertEqual(discovery.discarded, 1)
        # The reply that is awaited is taken all the same.
        self.assertEqual(discovery.receive(own(), SECOND.address, at(17)), [DiscoveryEnded(True)])

    def test_other_network(self) -> None:
        """MQSD-3.1.5.2-01: it comes late, from the network that was asked before."""
        self.check(own(), FIRST.address)
        self.check(foreign(), FIRST.address)

    def test_other_request(self) -> None:
        """MQSD-3.1.5.2-03: one bit of CorrelationID is enough."""
        self.check(own(run=UUID(int=RUN.int ^ 1)), SECOND.address)

    def test_malformed(self) -> None:
        """MQSD-3.1.5.2-02: cut short at any length, of another type, without networks, with a bad list."""
        for packet in (own(), foreign()):
            for length in range(len(packet)):
                self.check(packet[:length], SECOND.address)
        self.check(TopologyClientRequest(ENTERPRISE, RUN, SITE).to_bytes(), SECOND.address)
        self.check(own()[:20] + bytes(4) + own()[24:], SECOND.address)
        self.check(
            foreign("DS1").replace("10DS1".encode("utf-16-le"), "12DS1".encode("utf-16-le")), SECOND.address
        )

    def test_other_types(self) -> None:
        """MQSD-2.2.1-06: a packet of another type is not a reply."""
        packet = own()
        for number in (0, 1, *range(3, 256)):
            self.check(packet[:1] + bytes([number]) + packet[2:], SECOND.address)

    @given(st.binary(max_size=200))
    def test_garbage(self, data: bytes) -> None:
        """MQSD-3.1.5.2-02: the run continues after any invalid datagram."""
        self.check(data, SECOND.address)

    def test_nothing_is_awaited(self) -> None:
        """MQSD-4-01: after the end nothing counts, as in the worked example."""
        discovery = DiscoveryClient(ENTERPRISE, SITE)
        request = TopologyClientRequest.from_bytes(vector("mqsd-4-topology-client-request"))
        begin(discovery, FIRST, run=request.request_id)
        first = vector("mqsd-4-topology-server-reply-same-site")
        second = vector("mqsd-4-topology-server-reply-other-site")
        self.assertEqual(discovery.receive(first, FIRST.address, at(1)), [DiscoveryEnded(True)])
        after = known(discovery)
        self.assertEqual(discovery.receive(second, FIRST.address, at(2)), [])
        self.assertEqual(known(discovery), after)
        self.assertEqual(discovery.connected_networks, (UUID("e6eaba62-d1c6-11db-baac-0003ff4e2d22"),))


class ReplyTests(SynchronousTestCase):
    """The eight cases of a reply that counts: last network or not, a stored reply or none, servers or none.

    A stored reply is always one of another site that was the first of its network.
    """

    def on_network(self, *, is_last: bool, is_stored: bool) -> tuple[DiscoveryClient, str]:
        discovery = client()
        begin(discovery, FIRST, SECOND)
        network = FIRST
        if is_last:
            discovery.expire(at(15))
            network = SECOND
        if is_stored:
            discovery.receive(foreign("STORED", networks=(UUID(int=7),)), network.address, at(16))
        return discovery, network.address

    def test_own_site_and_networks_left(self) -> None:
        """MQSD-3.1.5.2-04 MQSD-3.1.5.2-05 MQSD-3.1.5.2-06 MQSD-3.1.5.2-07 MQSD-3.1.5.2-08: ask the next one.

        MQSD-3.1.1.2-02: the address is remembered. MQSD-3.1.1.2-04: so is that an answer has come.
        """
        for is_stored in (False, True):
            discovery, address = self.on_network(is_last=False, is_stored=is_stored)
            effects = discovery.receive(own(), address, at(17))
            self.assertEqual(sent_on(effects), [SECOND.address])
            self.assertEqual(len(effects), 1)
            self.assertEqual(discovery.last_successful_address, FIRST.address)
            self.assertEqual(discovery.deadline, at(17).monotonic + RESPONSE_TIME)
            # It was an answer, though the last network is silent.
            self.assertEqual(discovery.expire(at(32)), [DiscoveryEnded(True)])

    def test_second_foreign_and_networks_left(self) -> None:
        """MQSD-3.1.5.2-09 MQSD-3.1.5.2-10: ask the next one, and take nothing from the reply."""
        discovery, address = self.on_network(is_last=False, is_stored=True)
        before = known(discovery)[:3]
        effects = discovery.receive(foreign("ANOTHER"), address, at(17))
        self.assertEqual(sent_on(effects), [SECOND.address])
        self.assertEqual(known(discovery)[:3], before)
        # Reading 8: the deadline of the first network is none any more.
        self.assertEqual(discovery.deadline, at(17).monotonic + RESPONSE_TIME)
        self.assertEqual(discovery.expire(at(32)), [DiscoveryEnded(True)])
        self.assertEqual(discovery.directory_servers, ("CONFIGURED",))

    def test_own_site_on_the_last_network(self) -> None:
        """MQSD-3.1.5.2-11 MQSD-3.1.5.2-12 MQSD-3.1.5.2-13 MQSD-3.1.5.2-14 MQSD-3.1.5.2-16: that is the end.

        The directory servers that are configured are right, so they stay.
        """
        discovery, address = self.on_network(is_last=True, is_stored=False)
        self.assertEqual(discovery.receive(own(), address, at(17)), [DiscoveryEnded(True)])
        self.assertEqual(known(discovery), (("CONFIGURED",), NETS, SECOND.address, False, None))

    def test_own_site_after_a_foreign_one(self) -> None:
        """MQSD-3.1.5.2-14 MQSD-3.1.5.2-15 MQSD-3.1.5.2-11, reading 7: the foreign one counts."""
        discovery, address = self.on_network(is_last=True, is_stored=True)
        self.assertEqual(discovery.receive(own(), address, at(17)), [DiscoveryEnded(True)])
        self.assertEqual(known(discovery), (("STORED",), (UUID(int=7),), SECOND.address, False, None))

    def test_first_foreign(self) -> None:
        """MQSD-3.1.5.2-17 MQSD-3.1.5.2-18 MQSD-3.1.5.2-19 MQSD-3.1.5.2-20 MQSD-3.1.5.2-21: wait for another.

        MQSD-3.1.1.2-03: it is stored, and counts when no other comes. That of an earlier network makes the
        run succeed, and its servers are not taken (reading 4).
        """
        for is_last in (False, True):
            discovery, address = self.on_network(is_last=is_last, is_stored=False)
            self.assertEqual(discovery.receive(foreign(), address, at(25)), [])
            self.assertEqual(discovery.deadline, at(40).monotonic)
            self.assertEqual(discovery.last_successful_address, address)
            self.assertEqual(discovery.expire(at(39.9)), [])
            effects = discovery.expire(at(40))
            if not is_last:
                self.assertEqual(sent_on(effects), [SECOND.address])
                effects = discovery.expire(at(55))
            self.assertEqual(effects, [DiscoveryEnded(True)])
            self.assertEqual(discovery.directory_servers, ("DS1", "DS2") if is_last else ("CONFIGURED",))

    def test_the_network_of_the_latest_reply(self) -> None:
        """MQSD-3.1.1.2-02 MQSD-3.1.5.2-06 MQSD-3.1.5.2-13 MQSD-3.1.5.2-19: it is kept, not an earlier one."""
        for second, seconds in ((own(), 0), (foreign(), 15)):
            discovery = client()
            begin(discovery, FIRST, SECOND, THIRD)
            found: list[str | None] = []
            for network, reply in ((FIRST, own()), (SECOND, second), (THIRD, own())):
                discovery.receive(reply, network.address, START)
                found.append(discovery.last_successful_address)
                # After one of another site the next network is asked when no other has come.
                discovery.expire(at(seconds if network is SECOND else 0))
            self.assertEqual(found, [FIRST.address, SECOND.address, THIRD.address])

    def test_second_foreign_on_the_last_network(self) -> None:
        """MQSD-3.1.5.2-22 MQSD-3.1.5.2-23 MQSD-3.1.5.2-24 MQSD-3.1.5.2-25 MQSD-3.1.5.2-26: the first."""
        discovery, address = self.on_network(is_last=True, is_stored=True)
        self.assertEqual(discovery.receive(foreign("ANOTHER"), address, at(17)), [DiscoveryEnded(True)])
        self.assertEqual(known(discovery), (("STORED",), (UUID(int=7),), SECOND.address, False, None))


class EndTests(SynchronousTestCase):
    """Results when no more replies arrive."""

    def test_foreign_reply_on_the_last_network(self) -> None:
        """MQSD-3.1.6.1-04 MQSD-3.1.6.1-05 MQSD-3.1.6.1-06: its servers, in their order.

        MQSD-3.1.1.1-03 MQSD-3.1.7.1-01 MQSD-3.1.7.1-02 MQSD-3.1.7.1-03 MQSD-3.1.7.1-04: without their flags,
        and without those that were known before. MQSD-3.1.7.2-01 MQSD-3.1.7.2-02: so with the networks.
        """
        discovery = client()
        begin(discovery, FIRST)
        discovery.receive(foreign("nt4pec", "01B"), FIRST.address, at(1))
        self.assertEqual(discovery.expire(at(16)), [DiscoveryEnded(True)])
        self.assertEqual(discovery.directory_servers, ("nt4pec", "01B"))
        self.assertEqual(discovery.connected_networks, NETS)

    def test_reply_of_a_network_before_the_last(self) -> None:
        """MQSD-3.1.6.1-04 MQSD-3.1.5.1-02, readings 4 and 5: it succeeds, and only the networks count.

        MQSD-3.1.1.2-04: an answer of any network counts, also one of another site.
        """
        discovery = client()
        begin(discovery)
        discovery.receive(foreign(), FIRST.address, at(1))
        self.assertEqual(sent_on(discovery.expire(at(16))), [SECOND.address])
        self.assertEqual(discovery.expire(at(31)), [DiscoveryEnded(True)])
        self.assertEqual(discovery.directory_servers, ("CONFIGURED",))
        self.assertEqual(discovery.connected_networks, NETS)

    def test_as_in_the_document(self) -> None:
        """Reading 5: nothing is stored, so no connected network is left."""
        discovery = client(keeps_networks=False)
        begin(discovery)
        discovery.receive(foreign(), FIRST.address, at(1))
        discovery.expire(at(16))
        discovery.expire(at(31))
        self.assertEqual(discovery.connected_networks, ())

    def test_forged_reply(self) -> None:
        """MQSD-5.1-01: nothing in a reply authenticates its sender, so one with the right RequestID
        counts.
        """
        discovery = client()
        begin(discovery, FIRST)
        discovery.receive(foreign("EVIL", networks=[UUID(int=666)]), FIRST.address, at(1))
        discovery.expire(at(16))
        self.assertEqual(discovery.directory_servers, ("EVIL",))

    @given(
        st.lists(
            st.tuples(
                st.floats(0, 40),
                st.sampled_from((FIRST.address, SECOND.address, THIRD.address)),
                st.sampled_from((own(), foreign(), foreign(run=OTHER_RUN), b"rubbish")),
            ),
            max_size=12,
        )
    )
    def test_any_replies(self, replies: list[tuple[float, str, bytes]]) -> None:
        """MQSD-3.1.5.1-06 MQSD-3.1.4.1-01: with any replies, each network is queried at most once, and the
        run ends.

        All requests of the run are the same.
        """
        discovery = client()
        effects = begin(discovery, FIRST, SECOND, THIRD)
        now = 0.0
        for delay, address, datagram in replies:
            now += delay
            effects += discovery.expire(at(now))
            effects += discovery.receive(datagram, address, at(now))
        for _ in range(4):
            now += 15
            effects += discovery.expire(at(now))
        *requests, end = effects
        self.assertIsInstance(end, DiscoveryEnded)
        asked = sent_on(requests)
        self.assertEqual(asked, [FIRST.address, SECOND.address, THIRD.address][: len(asked)])
        datagrams = {effect.datagram for effect in requests if isinstance(effect, SendRequest)}
        self.assertEqual(len(datagrams), 1)
        self.assertFalse(discovery.is_running)
