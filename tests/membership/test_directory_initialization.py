"""How a queue manager starts, with a directory and without one, and what it does about it later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs

from msmq.membership.attributes import directory_attributes
from msmq.membership.enumerations import DirectoryOperationResult, QueueManagerState
from msmq.membership.initialization import Provisioning, initialize
from msmq.membership.local import QUEUE_MANAGER, HostIdentity, KnownSite
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    SiteObject,
)
from msmq.membership.queries import equals
from msmq.membership.requests import (
    AskDirectory,
    Outcome,
    Procedure,
    QueueManagerChanged,
    ReadObject,
    Store,
)
from msmq.membership.timers import DirectoryTimer, DirectoryTimes
from msmq.membership.upkeep import expire
from msmq.persistence.changes import Change
from msmq.structures.status import Status
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    ENTERPRISE,
    FAILED,
    NOW,
    OWN,
    SITE,
    access,
    found,
    play,
    replies,
)
from tests.membership.directory_machine import (
    HOST,
    IN_LONDON,
    LINK,
    NOTIFICATION,
    PARIS,
    WORKGROUP,
    MachineTestCase,
)


class HostTests(MachineTestCase):
    """[MS-MQDMPR] 3.1.3 what the host says."""

    def test_names(self) -> None:
        """MQDMPR-3.1.3-05 MQDMPR-3.1.1.1-04: the qualified name is the name, a full stop, and the domain."""
        local = self.initialize(HostIdentity("HOST1", "ex.test"))
        self.assertEqual(local.object.computer_name, "HOST1")
        self.assertEqual(local.object.qualified_computer_name, "HOST1.ex.test")

    def test_name_without_domain(self) -> None:
        """MQDMPR-3.1.3-05: without a domain there is no full stop at the end."""
        self.assertEqual(self.initialize(WORKGROUP).object.qualified_computer_name, "ALPHA")

    def test_other_qualified_name(self) -> None:
        """A host that says its qualified name itself has that."""
        host = HostIdentity("ALPHA", "example.com", qualified_computer_name="mq.example.net")
        self.assertEqual(self.initialize(host).object.qualified_computer_name, "mq.example.net")

    def test_domain(self) -> None:
        """MQDMPR-3.1.1.1-24: the GUID of the domain is known, and not published."""
        self.assertEqual(self.initialize().machine_domain_id, HOST.domain_identifier)
        self.assertNotIn("machine_domain_id", directory_attributes(QueueManagerObject))

    def test_last_domain(self) -> None:
        """MQDMPR-3.1.1.1-25: the domain of the last start is remembered; none at first, or outside of one."""
        self.assertIsNone(self.machine.access.local.last_domain)
        self.initialize(HOST)
        self.assertEqual(self.machine.start().local.last_domain, HOST.domain_identifier)
        self.initialize(WORKGROUP)
        self.assertIsNone(self.machine.start().local.last_domain)


class SettingsTests(MachineTestCase):
    """[MS-MQDMPR] 3.1.1.1 what is persistent and never published."""

    SETTINGS = (
        "last_domain",
        "directory_server_list",
        "directory_integrated",
        "srmp_http_support",
        "srmp_pgm_support",
        "hardened_security",
        "initialization_retry_timer_duration",
    )

    def test_they_survive(self) -> None:
        """MQDMPR-3.1.1.1-02: each of them is after a restart what it was before, and none is as at first."""
        at_first = attrs.asdict(self.machine.start().local, recurse=False)
        local = self.machine.start(integrated=True).local
        local.last_domain = UUID(int=0xD1)
        local.directory_server_list = ("dc1", "dc2")
        local.srmp_http_support = local.srmp_pgm_support = True
        local.initialization_retry_timer_duration = 77
        changes = [local.settings_change(), local.harden(True)]
        self.run_procedure(self.stored(changes))
        again = attrs.asdict(self.machine.start().local, recurse=False)
        before = {**attrs.asdict(local, recurse=False), "hardened_security": True}
        for name in self.SETTINGS:
            self.assertEqual(again[name], before[name], name)
            self.assertNotEqual(again[name], at_first[name], name)

    def stored(self, changes: Sequence[Change]) -> Procedure[None]:
        yield Store(changes)


class WorkgroupTests(MachineTestCase):
    """A queue manager without a directory."""

    def test_start(self) -> None:
        """It queries no directory, and no timer runs."""
        self.initialize(provisioning=Provisioning(site=SITE))
        self.assertEqual([type(effect) for effect in self.machine.performed], [Store])
        self.assertIsNone(self.machine.access.timers.deadline())
        self.assertIs(self.machine.access.local.queue_manager_state, QueueManagerState.READY)

    def test_time_to_reach_queue(self) -> None:
        """Messages that do not say have four days."""
        self.assertEqual(self.initialize().default_time_to_reach_queue, 345_600)


class IntegratedTests(MachineTestCase):
    """A start with a directory that knows this queue manager."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.start(integrated=True)

    def test_own_object(self) -> None:
        """MQDMPR-3.1.3-14: our object is read by its Identifier, and what it says holds."""
        self.furnish(attrs.evolve(IN_LONDON, queue_manager_quota=4096, journal_quota=17))
        procedure, requests = self.spied(self.initialization())
        self.run_procedure(procedure)
        self.assertEqual(requests[0], ReadObject(QueueManagerObject, (equals("identifier", OWN),)))
        local = self.machine.access.local
        self.assertEqual((local.object.queue_manager_quota, local.object.journal_quota), (4096, 17))
        [changed] = [effect for effect in self.machine.performed if isinstance(effect, QueueManagerChanged)]
        self.assertEqual((changed.object, changed.former_identifier), (local.object, None))

    def test_sites(self) -> None:
        """MQDMPR-3.1.3-15: the own sites that can be read are known."""
        self.furnish(attrs.evolve(ALPHA, site_identifier_list=(SITE, PARIS.identifier, UUID(int=0xBAD))))
        local = self.initialize()
        self.assertEqual({known.site.name for known in local.sites.values()}, {"london", "paris"})
        self.assertLessEqual(set(local.sites), set(local.object.site_identifier_list))

    def test_site_gates(self) -> None:
        """The gates of a site are those of its links that belong to it."""
        self.furnish()
        local = self.initialize()
        gates = local.sites[SITE].site_gate_collection
        self.assertEqual([gate.computer_name for gate in gates], ["GATE"])

    def test_members_of_lists(self) -> None:
        """Every site that is known stands in the list of sites, and every gate of it in that of a link.

        Also after the directory has changed, and after a restart without it.
        MQDMPR-3.1.1.1-36 MQDMPR-3.1.1.8-03
        """
        self.furnish(attrs.evolve(IN_LONDON, site_identifier_list=(SITE, PARIS.identifier)))
        self.assertEqual(set(self.initialize().sites), {SITE, PARIS.identifier})
        self.check_members()
        moved = attrs.evolve(IN_LONDON, site_identifier_list=(PARIS.identifier,))
        self.successResultOf(self.directory.write(moved, ("site_identifier_list",)))
        self.machine.start()
        self.assertEqual(set(self.initialize().sites), {PARIS.identifier})
        self.check_members()
        self.directory.is_connected = False
        self.machine.start()
        self.assertEqual(set(self.initialize().sites), {PARIS.identifier})
        self.check_members()

    def check_members(self) -> None:
        """Assert that the known objects are exactly those in the lists of identifiers."""
        local = self.machine.access.local
        self.assertLessEqual(set(local.sites), set(local.object.site_identifier_list))
        for identifier, known in local.sites.items():
            self.assertEqual(known.site.identifier, identifier)
            self.assertIn(identifier, (LINK.site1_identifier, LINK.site2_identifier))
            gates = {gate.identifier for gate in known.site_gate_collection}
            self.assertTrue(gates)
            self.assertLessEqual(gates, set(LINK.site_gate_identifier_list))

    def test_enterprise(self) -> None:
        """MQDMPR-3.1.3-17: the enterprise is known, and with it the time to reach a queue."""
        self.directory.add(IN_LONDON)
        self.directory.add(
            EnterpriseObject(
                identifier=ENTERPRISE,
                default_time_to_live=60,
                non_ldap_capable_queue_manager_notification=False,
            )
        )
        procedure, requests = self.spied(self.initialization())
        self.run_procedure(procedure)
        self.assertIn(ReadObject(EnterpriseObject, (), (NOTIFICATION,)), requests)
        local = self.machine.access.local
        assert local.enterprise_reference is not None
        self.assertEqual(local.enterprise_reference.identifier, ENTERPRISE)
        self.assertFalse(local.enterprise_reference.non_ldap_capable_queue_manager_notification)
        self.assertEqual(local.default_time_to_reach_queue, 60)

    def spied(self, procedure: Procedure[None]) -> tuple[Procedure[None], list[Any]]:
        """The same procedure, and what it asks the directory for."""
        requests: list[Any] = []

        def spy() -> Procedure[None]:
            effect = next(procedure)
            while True:
                if isinstance(effect, AskDirectory):
                    requests.append(effect.request)
                answer = yield effect
                try:
                    effect = procedure.send(answer)
                except StopIteration:
                    return

        return spy(), requests

    def test_silent_enterprise(self) -> None:
        """MQDMPR-3.1.3-18: an enterprise that does not say whether others are notified has them notified."""
        self.directory.add(IN_LONDON)
        names = directory_attributes(EnterpriseObject) - {NOTIFICATION}
        self.directory.add(EnterpriseObject(identifier=ENTERPRISE), names)
        reference = self.initialize().enterprise_reference
        assert reference is not None
        self.assertTrue(reference.non_ldap_capable_queue_manager_notification)

    def test_enterprise_that_cannot_be_read_whole(self) -> None:
        """Whether others are notified counts also if the rest of the enterprise cannot be read: they are,
        unless the enterprise says otherwise (MQDMPR-3.1.3-18).
        """
        unset = Outcome(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        silenced = EnterpriseObject(non_ldap_capable_queue_manager_notification=False)
        for answer, expected in (
            (unset, True),
            (found(EnterpriseObject(), [NOTIFICATION]), True),
            (
                found(silenced, [NOTIFICATION]),
                False,
            ),
        ):
            machine = access()
            play(initialize(machine, HOST, NOW), replies(found(ALPHA), answer, FAILED))
            reference = machine.local.enterprise_reference
            assert reference is not None
            self.assertIs(reference.non_ldap_capable_queue_manager_notification, expected)
            self.assertIs(machine.local.queue_manager_state, QueueManagerState.READY)

    def test_enterprise_of_before(self) -> None:
        """While the directory is away the enterprise of before stays."""
        machine = access()
        known = machine.local.enterprise_reference = EnterpriseObject(name="ours")
        play(initialize(machine, HOST, NOW), replies(found(ALPHA), DISCONNECTED))
        self.assertIs(machine.local.enterprise_reference, known)

    def test_no_enterprise(self) -> None:
        """MQDMPR-3.1.3-26: what the directory has to know and does not is an error; nothing runs then."""
        self.directory.add(IN_LONDON)
        error = self.fails(self.initialization())
        self.assertIs(error.status, Status.MQ_ERROR_DS_ERROR)
        self.assertIs(self.machine.access.local.queue_manager_state, QueueManagerState.STOPPED)
        self.assertIsNone(self.machine.access.timers.deadline())

    def test_store_fails(self) -> None:
        """MQDMPR-3.1.3-26: a start that cannot keep what it has to is an error."""
        self.furnish()
        self.machine.failing = Store
        error = self.fails(self.initialization())
        self.assertIs(error.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertIs(self.machine.access.local.queue_manager_state, QueueManagerState.STOPPED)

    def test_unknown_queue_manager(self) -> None:
        """A queue manager that the directory does not know does not start, unless it is provisioned."""
        self.furnish(None)
        self.assertIs(self.fails(self.initialization()).status, Status.MQ_ERROR_MACHINE_NOT_FOUND)

    def test_state(self) -> None:
        """MQDMPR-3.1.4.1-01: Stopped, Initializing while it asks, and Ready."""
        self.furnish()
        local = self.machine.access.local
        states = [local.queue_manager_state]

        def watch(procedure: Procedure[None]) -> Procedure[None]:
            effect = next(procedure)
            while True:
                states.append(local.queue_manager_state)
                answer = yield effect
                try:
                    effect = procedure.send(answer)
                except StopIteration:
                    return

        self.run_procedure(watch(self.initialization()))
        states.append(local.queue_manager_state)
        self.assertEqual(
            list(dict.fromkeys(states)),
            [QueueManagerState.STOPPED, QueueManagerState.INITIALIZING, QueueManagerState.READY],
        )

    def test_timers(self) -> None:
        """MQDMPR-3.1.3-19 MQDMPR-3.1.3-09 MQDMPR-3.1.2.1-01 MQDMPR-3.1.2.2-01: twelve hours and one."""
        self.furnish()
        self.initialize()
        timers = self.machine.access.timers
        self.assertEqual(timers.deadline(), self.machine.clock.now().monotonic + 3600)
        for timer in (
            DirectoryTimer.SITES_UPDATE,
            DirectoryTimer.SITE_GATES_UPDATE,
            DirectoryTimer.DIRECTORY_SERVER_LIST_UPDATE,
        ):
            self.assertTrue(timers.is_running(timer))
        now = self.machine.clock.now()
        self.assertNotIn(DirectoryTimer.SITES_UPDATE, timers.expired(now.later(12 * 3600 - 1)))
        self.assertEqual(timers.expired(now.later(12 * 3600)), [DirectoryTimer.SITES_UPDATE])
        self.machine.start(integrated=True, times=DirectoryTimes(sites_update=60, site_gates_update=90))
        self.initialize()
        timers = self.machine.access.timers
        self.assertEqual(timers.expired(now.later(60)), [DirectoryTimer.SITES_UPDATE])
        self.assertEqual(timers.expired(now.later(90)), [DirectoryTimer.SITE_GATES_UPDATE])


class OfflineStartTests(MachineTestCase):
    """A start while the directory is away."""

    def test_known_queue_manager(self) -> None:
        """It starts with what it knew, and takes over what has changed once the directory is back."""
        self.machine.start(integrated=True)
        self.furnish()
        self.initialize()
        self.machine.start()
        self.directory.is_connected = False
        local = self.initialize()
        self.assertTrue(local.directory_offline)
        self.assertIs(local.queue_manager_state, QueueManagerState.READY)
        self.assertEqual(local.sites[SITE], KnownSite(self.read_site(), (self.read_gate(),)))
        assert local.enterprise_reference is not None
        self.assertEqual(local.enterprise_reference.identifier, ENTERPRISE)
        self.directory.is_connected = True
        changed = attrs.evolve(IN_LONDON, journal_quota=5)
        self.successResultOf(self.directory.write(changed, ("journal_quota",)))
        self.machine.clock.advance(60)
        self.expire()
        self.assertEqual((local.directory_offline, local.object.journal_quota), (False, 5))

    def read_site(self) -> SiteObject:
        self.directory.is_connected = True
        read = self.successResultOf(self.directory.read(SiteObject, [equals("identifier", SITE)]))
        site: SiteObject = read.object
        return site

    def read_gate(self) -> QueueManagerObject:
        read = self.successResultOf(
            self.directory.read(QueueManagerObject, [equals("computer_name", "GATE")])
        )
        gate: QueueManagerObject = read.object
        return gate

    def test_provisioning(self) -> None:
        """It starts offline, and is published when the directory is back; a start in between begins anew."""
        self.machine.start(integrated=True)
        self.directory.is_connected = False
        local = self.initialize(provisioning=Provisioning())
        self.assertIs(local.queue_manager_state, QueueManagerState.READY)
        self.assertTrue(local.directory_offline)
        self.assertNotIn(QUEUE_MANAGER, self.machine.state)
        self.machine.clock.advance(60)
        self.expire()
        self.assertTrue(local.directory_offline)
        self.directory.is_connected = True
        self.furnish()
        self.assertFalse(self.run_procedure(self.machine.access.ask_whether_online()))
        self.assertTrue(local.directory_offline, "it is published first")
        self.machine.clock.advance(60)
        self.expire()
        self.assertFalse(local.directory_offline)
        read = self.directory.read(QueueManagerObject, [equals("identifier", local.object.identifier)])
        self.assertEqual(self.successResultOf(read).object.computer_name, "ALPHA")
        assert local.enterprise_reference is not None
        self.assertEqual(local.enterprise_reference.identifier, ENTERPRISE)
        self.assertIn(QUEUE_MANAGER, self.machine.state)
        self.assertFalse(self.machine.access.timers.is_running(DirectoryTimer.DIRECTORY_ONLINE))
        again = self.machine.start().local
        self.assertEqual(again.enterprise_reference, local.enterprise_reference)
        self.assertEqual(again.object, local.object)

    def test_second_start(self) -> None:
        """A start asks the directory even if it was away before."""
        self.machine.start(integrated=True)
        self.furnish()
        self.directory.is_connected = False
        self.assertTrue(self.initialize().directory_offline)
        self.directory.is_connected = True
        local = self.initialize()
        self.assertFalse(local.directory_offline)
        self.assertEqual(set(local.sites), {SITE})

    def test_store_fails_when_it_is_back(self) -> None:
        """A queue manager whose new identity cannot be stored remains what it was, and offline."""
        self.machine.start(integrated=True)
        self.directory.is_connected = False
        local = self.initialize(provisioning=Provisioning())
        held = local.object
        self.directory.is_connected = True
        self.furnish(attrs.evolve(IN_LONDON, queue_manager_quota=77))
        self.machine.failing = Store
        self.machine.clock.advance(60)
        [procedure] = expire(self.machine.access, HOST, self.machine.clock.now())
        self.fails(procedure)
        self.assertEqual((local.directory_offline, local.object), (True, held))
        self.machine.failing = None
        self.machine.clock.advance(60)
        self.expire()
        self.assertEqual((local.directory_offline, local.object.queue_manager_quota), (False, 77))

    def test_provisioning_is_refused(self) -> None:
        """A directory that refuses the queue manager when it is back is asked again; nothing is stored."""
        self.machine.start(integrated=True)
        self.directory.is_connected = False
        local = self.initialize(provisioning=Provisioning())
        held = local.object
        self.directory.is_connected = True
        self.furnish(None)
        self.machine.failing = QueueManagerChanged
        for _ in range(2):
            self.machine.clock.advance(60)
            [procedure] = expire(self.machine.access, HOST, self.machine.clock.now())
            self.fails(procedure)
            self.assertEqual((local.directory_offline, local.object), (True, held))
            self.assertNotIn(QUEUE_MANAGER, self.machine.state)
        self.machine.failing = None
        self.machine.clock.advance(60)
        self.expire()
        self.assertFalse(local.directory_offline)
