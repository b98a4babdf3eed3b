"""[MS-MQBR] 3.1.2, 3.1.3, 3.1.6: when the enterprise is read, and what holds until then."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.routing.next_hops import NoRoute
from msmq.routing.table import EMPTY_TABLE
from msmq.routing.topology_refresh import (
    ReadTopology,
    RoutingCore,
    RoutingSnapshot,
    RoutingTimes,
    TopologyRefused,
    TopologyTaken,
)
from tests.routing.builders import Estate, guid, names

DIRECT = "A-B 3, A-C 1, B-C 9"
AROUND = "A-B 3, A-C 9, B-C 1"
FAULTY = "A-B 3, A-C 9, B-C 0"


def at(seconds: float) -> Moment:
    return Moment(monotonic=seconds, wall=1_700_000_000.0)


def snapshot(links: str, own: str = "gA") -> RoutingSnapshot:
    return RoutingSnapshot.of(Estate(links).build(), guid(own))


class RoutingCoreTests(SynchronousTestCase):
    """The timer, and the last good table."""

    def running(self, links: str = DIRECT) -> RoutingCore:
        """One that has read the enterprise at second 0."""
        core = RoutingCore(guid("gA"))
        self.assertEqual(core.start(at(0)), [ReadTopology()])
        [taken] = core.topology_read(snapshot(links), at(0))
        self.assertIsInstance(taken, TopologyTaken)
        return core

    def hops(self, core: RoutingCore, destination: str = "cC") -> list[str]:
        return names(core.next_hops(guid(destination)))

    def read(self, core: RoutingCore, links: str, seconds: float) -> object:
        """The timer's event at this second finds this."""
        self.assertEqual(core.expire(at(seconds)), [ReadTopology()])
        [effect] = core.topology_read(snapshot(links), at(seconds))
        return effect

    def test_timer(self) -> None:
        """MQBR-3.1.2-01, MQBR-3.1.2.1-01, MQBR-3.1.3-01: after 3600 seconds, not a second before, the
        enterprise is read again, and again.
        """
        core = self.running()
        for hour in (1, 2, 3):
            self.assertEqual(core.deadline, hour * 3600)
            self.assertEqual(core.expire(at(hour * 3600 - 1)), [])
            self.read(core, DIRECT, hour * 3600)

    def test_times(self) -> None:
        """The times can be set."""
        core = RoutingCore(guid("gA"), RoutingTimes(query=10, shortest=1))
        core.start(at(0))
        core.topology_read(snapshot(DIRECT), at(2))
        self.assertEqual(core.deadline, 12)

    def test_event(self) -> None:
        """MQBR-3.1.6.1-01: what changed in the enterprise holds from the timer's event on."""
        core = self.running()
        self.assertEqual(self.hops(core), ["gC"])
        after = snapshot(AROUND)
        self.assertEqual(self.read(core, AROUND, 3600), TopologyTaken(after, is_changed=True))
        self.assertEqual(self.hops(core), ["gB"])

    def test_between_events(self) -> None:
        """MQBR-3.1.6.1-03: until then, and while it is being read, all goes on as before."""
        core = self.running()
        table = core.snapshot.table
        self.assertEqual(core.expire(at(3599)), [])
        core.expire(at(3600))
        self.assertEqual((core.is_reading, core.deadline), (True, None))
        self.assertEqual(core.expire(at(9999)), [])
        self.assertIs(core.snapshot.table, table)
        self.assertEqual(self.hops(core), ["gC"])

    def test_no_gate_any_more(self) -> None:
        """MQBR-3.1.6.1-02: a former gate has an empty table after the event."""
        core = self.running("A-B 1, B-C 1")
        self.assertEqual(len(core.snapshot.table.rows), 3)
        self.read(core, "A-B 1 gB, B-C 1", 3600)
        self.assertEqual(len(core.snapshot.table.rows), 0)
        self.assertRaises(NoRoute, core.next_hops, guid("cC"))

    def test_new_gate(self) -> None:
        """MQBR-3.1.6.1-01: a new gate has a table after the event."""
        core = self.running("A-B 1 gB, B-C 1")
        self.assertEqual(len(core.snapshot.table.rows), 0)
        self.read(core, "A-B 1, B-C 1", 3600)
        self.assertEqual(self.hops(core), ["gB"])

    def test_nothing_changed(self) -> None:
        """A reading that finds the same says that nothing changed."""
        self.assertEqual(
            self.read(self.running(), DIRECT, 3600), TopologyTaken(snapshot(DIRECT), is_changed=False)
        )

    def test_what_counts_as_a_change(self) -> None:
        """A new queue manager is a change although no route is another, and so is another table."""
        core = self.running()
        estate = Estate(DIRECT)
        estate.machine("new", "B")
        more = RoutingSnapshot.of(estate.build(), guid("gA"))
        self.assertEqual(more.table, core.snapshot.table)
        core.refresh(at(10))
        self.assertEqual(core.topology_read(more, at(11)), [TopologyTaken(more, is_changed=True)])
        other = attrs.evolve(more, table=EMPTY_TABLE)
        core.refresh(at(20))
        self.assertEqual(core.topology_read(other, at(21)), [TopologyTaken(other, is_changed=True)])
        core.refresh(at(30))
        self.assertEqual(core.topology_read(other, at(31)), [TopologyTaken(other, is_changed=False)])

    def test_faults(self) -> None:
        """A reading with faults is refused by name, and the last good table goes on to hold."""
        core = self.running()
        refused = self.read(core, FAULTY, 3600)
        assert isinstance(refused, TopologyRefused)
        self.assertEqual(refused.detail, "link B - C: cost 0 is not within 1 to 999999; the link is left out")
        self.assertEqual([str(problem) for problem in refused.problems], [refused.detail])
        self.assertEqual((core.refused, self.hops(core)), (refused, ["gC"]))
        self.read(core, AROUND, 7200)
        self.assertEqual((core.refused, self.hops(core)), (None, ["gB"]))

    def test_several_faults(self) -> None:
        """The first of several faults is named, with the number of the others."""
        for links, expected in (("A-B 0, B-C 0", 1), ("A-B 0, B-C 0, A-A 1", 2)):
            refused = self.read(self.running(), links, 3600)
            assert isinstance(refused, TopologyRefused)
            self.assertTrue(refused.detail.endswith(f"left out, and {expected} more"), refused.detail)

    def test_each_kind_of_fault(self) -> None:
        """Each kind of malformed data leaves the last good table in use."""
        unknown, cycle, duplicate = Estate(DIRECT), Estate(DIRECT), Estate(DIRECT)
        unknown.link("A", "X", 1)
        cycle.machine("r1", "A", routing_server=True, out="r2")
        cycle.machine("r2", "A", routing_server=True, out="r1")
        duplicate.machine("gA", "A")
        core = self.running()
        before = core.snapshot
        for hour, estate in enumerate((unknown, cycle, duplicate, Estate(), Estate(sites="A B")), 1):
            core.expire(at(hour * 3600))
            [effect] = core.topology_read(RoutingSnapshot.of(estate.build(), guid("gA")), at(hour * 3600))
            self.assertIsInstance(effect, TopologyRefused)
            self.assertIs(core.snapshot, before)

    def test_faults_from_the_start(self) -> None:
        """As long as nothing better was read, what is left of a faulty reading is used, the newest first."""
        core = RoutingCore(guid("gA"))
        core.start(at(0))
        [effect] = core.topology_read(snapshot(FAULTY), at(0))
        self.assertIsInstance(effect, TopologyTaken)
        self.assertEqual(self.hops(core), ["gC"])
        self.read(core, "A-B 1, B-C 1, A-C 0", 3600)
        self.assertEqual(self.hops(core), ["gB"])
        self.read(core, DIRECT, 7200)
        self.assertIsInstance(self.read(core, FAULTY, 10800), TopologyRefused)

    def test_notices(self) -> None:
        """A topology with notices only is used."""
        core = self.running()
        self.assertIsInstance(self.read(core, "A-B 3 gA, A-C 1", 3600), TopologyTaken)

    def test_failure(self) -> None:
        """A directory that cannot be read changes nothing; it is read again after the usual time."""
        core = self.running()
        core.expire(at(3600))
        refused = TopologyRefused("the directory is away")
        self.assertEqual(core.reading_failed("the directory is away", at(3610)), [refused])
        self.assertEqual((self.hops(core), core.refused, core.deadline), (["gC"], refused, 7210))

    def test_missing_route(self) -> None:
        """A message without a route has the enterprise read anew, but at most once a minute."""
        core = self.running()
        self.assertRaises(NoRoute, core.next_hops, guid("new"))
        self.assertEqual(core.route_missing(at(59)), [])
        self.assertEqual(core.route_missing(at(60)), [ReadTopology()])
        self.assertEqual(core.route_missing(at(200)), [])
        core.topology_read(snapshot(DIRECT), at(201))
        self.assertEqual(core.route_missing(at(202)), [ReadTopology()])
        core.reading_failed("away", at(203))
        self.assertEqual(core.deadline, 3803)

    def test_why_there_is_none(self) -> None:
        """A query without result says whether the data is old."""
        core = RoutingCore(guid("gA"))
        early = self.assertRaises(NoRoute, core.next_hops, guid("cC"))
        self.assertTrue(early.detail.endswith("; the enterprise was not read yet"), early.detail)
        core = self.running()
        plain = self.assertRaises(NoRoute, core.next_hops, guid("new"))
        self.assertTrue(plain.detail.endswith("is known to routing"), plain.detail)
        core.expire(at(3600))
        core.reading_failed("it is away", at(3600))
        late = self.assertRaises(NoRoute, core.next_hops, guid("new"))
        self.assertTrue(late.detail.endswith("; the last reading was not taken: it is away"), late.detail)
        self.assertEqual(late.status, plain.status)

    def test_on_demand(self) -> None:
        """A reading starts on request, unless one is pending."""
        core = self.running()
        self.assertEqual(core.refresh(at(5)), [ReadTopology()])
        self.assertEqual(core.refresh(at(6)), [])

    def test_change_during_a_reading(self) -> None:
        """What is reported as changed during a reading is read after it, once."""
        core = self.running()
        core.expire(at(3600))
        core.refresh(at(3601))
        core.refresh(at(3602))
        taken, again = core.topology_read(snapshot(DIRECT), at(3603))
        self.assertIsInstance(taken, TopologyTaken)
        self.assertEqual((again, core.is_reading), (ReadTopology(), True))
        core.refresh(at(3604))
        refused, again = core.reading_failed("it is away", at(3605))
        self.assertIsInstance(refused, TopologyRefused)
        self.assertEqual(again, ReadTopology())
        [_] = core.topology_read(snapshot(AROUND), at(3606))
        self.assertEqual((self.hops(core), core.is_reading, core.deadline), (["gB"], False, 7206))
        core.refresh(at(3607))
        core.refresh(at(3608))
        core.stop()
        core.start(at(3609))
        self.assertEqual(len(core.topology_read(snapshot(AROUND), at(3610))), 1)

    def test_stop(self) -> None:
        """After the end nothing is read, and what was being read comes to nothing."""
        core = self.running()
        core.expire(at(3600))
        core.stop()
        self.assertEqual(core.topology_read(snapshot(AROUND), at(3601)), [])
        self.assertEqual(core.reading_failed("late", at(3601)), [])
        self.assertEqual((core.deadline, core.refresh(at(4000)), core.expire(at(9999))), (None, [], []))
        self.assertEqual(self.hops(core), ["gC"])
        self.assertEqual(core.start(at(5000)), [ReadTopology()])

    def test_stop_between_readings(self) -> None:
        """After the end no timer is left, and what arrives unasked is ignored."""
        core = self.running()
        core.stop()
        self.assertEqual((core.deadline, core.is_reading, core.expire(at(3600))), (None, False, []))
        self.assertEqual(core.route_missing(at(9999)), [])

    def test_before_the_start(self) -> None:
        """Before the start nothing is read, whatever asks for it, and nothing restored is used."""
        core = RoutingCore(guid("gA"))
        self.assertEqual(
            (core.refresh(at(0)), core.route_missing(at(0)), core.expire(at(9999))), ([], [], [])
        )
        self.assertEqual(core.restored(snapshot(DIRECT)), [])
        self.assertEqual(core.topology_read(snapshot(DIRECT), at(1)), [])
        self.assertRaises(NoRoute, core.next_hops, guid("cC"))
        self.assertEqual((core.deadline, core.has_read, core.is_reading), (None, False, False))
        self.assertEqual(core.start(at(1)), [ReadTopology()])

    def test_restored(self) -> None:
        """[MS-MQOD] 2.7.4: the topology of before a restart is used until the enterprise is read, and
        messages that wait for a route are tried with it.
        """
        core = RoutingCore(guid("gA"))
        core.start(at(0))
        before = snapshot(DIRECT)
        self.assertEqual(core.restored(before), [TopologyTaken(before, is_changed=True)])
        self.assertIs(core.snapshot, before)
        self.assertEqual((self.hops(core), core.has_read), (["gC"], False))
        early = self.assertRaises(NoRoute, core.next_hops, guid("new"))
        self.assertTrue(early.detail.endswith("; the enterprise was not read yet"), early.detail)
        self.assertEqual(core.topology_read(before, at(1)), [TopologyTaken(before, is_changed=True)])
        self.assertTrue(core.has_read)

    def test_restored_too_late(self) -> None:
        """What was read is newer than what is restored."""
        core = self.running(AROUND)
        taken = core.snapshot
        self.assertEqual(core.restored(snapshot(DIRECT)), [])
        self.assertIs(core.snapshot, taken)
