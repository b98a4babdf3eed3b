"""[MS-MQDMPR] 3.1.3: the first start in a directory, and what is known of it later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import fail

from msmq.directory.memory import MemoryDirectory
from msmq.membership.enumerations import DirectoryError, DirectoryOperationResult, QueueManagerState
from msmq.membership.initialization import KEYS, Provisioning
from msmq.membership.local import LocalQueueManager
from msmq.membership.object_json import StateDamaged
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
)
from msmq.membership.publication import publish_roles
from msmq.membership.queries import equals
from msmq.membership.requests import (
    Answer,
    AskDirectory,
    FindDirectoryServers,
    MakeKeys,
    QueueManagerChanged,
    Store,
    WriteObject,
)
from msmq.persistence.changes import PutState
from msmq.structures.directory.public_key_blob import KeyAlgorithm
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
)
from msmq.structures.status import Status
from tests.membership.directory_builders import ALPHA, OWN, QUEUE, SITE
from tests.membership.directory_machine import (
    FAR_GATE,
    GATE,
    IN_LONDON,
    LINK,
    LONDON,
    PARIS,
    WORKGROUP,
    Machine,
    MachineTestCase,
)


class ProvisioningTests(MachineTestCase):
    """[MS-MQDMPR] 3.1.3 the first start."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.start(integrated=True)
        self.furnish(None)

    def provision(self, site: UUID | None = SITE) -> LocalQueueManager:
        return self.initialize(provisioning=Provisioning(site))

    def test_published(self) -> None:
        """MQDMPR-3.1.3-16 MQDMPR-3.1.3-01 MQDMPR-3.1.1.1-16: an object that is not there is published."""
        local = self.provision()
        self.assertEqual(self.held(), local.object)
        self.assertEqual(local.object.identifier, OWN)
        self.assertIn("CN=ALPHA", local.object.full_path)
        self.assertEqual(self.held().connected_network_identifier_list, ())
        self.assertIs(local.queue_manager_state, QueueManagerState.READY)

    def test_site(self) -> None:
        """MQDMPR-3.1.3-06: it belongs to the site that was configured, and knows it."""
        local = self.provision()
        self.assertEqual(local.object.site_identifier_list, (SITE,))
        self.assertEqual(local.sites[SITE].site.name, "london")
        self.assertEqual(self.held().site_identifier_list, (SITE,))

    def test_no_site(self) -> None:
        """Without a site it belongs to none."""
        self.assertEqual(self.provision(None).object.site_identifier_list, ())

    def test_keys(self) -> None:
        """MQDMPR-3.1.3-10 MQDMPR-3.1.3-11: a key of each provider for each purpose, of the lengths stated."""
        local = self.provision()
        for held in (local.object, self.held()):
            for keys, algorithm in (
                (held.public_encryption_key_list, KeyAlgorithm.KEY_EXCHANGE),
                (held.public_signing_key_list, KeyAlgorithm.SIGNATURE),
            ):
                self.assertEqual(
                    [(key.provider_name, key.key.bit_length) for key in keys.keys],
                    [(BASE_PROVIDER, 512), (ENHANCED_PROVIDER, 1024), (AES_PROVIDER, 1024)],
                )
                self.assertEqual({key.key.algorithm for key in keys.keys}, {algorithm})
        [made] = [effect for effect in self.machine.performed if isinstance(effect, MakeKeys)]
        self.assertEqual(made.keys, KEYS)

    def test_directory_servers(self) -> None:
        """MQDMPR-3.1.3-07 MQDMPR-3.1.1.1-26: the domain controllers that DNS knows, also after a restart."""
        self.assertEqual(self.machine.access.local.directory_server_list, ())
        self.machine.servers["_ldap._tcp.dc._msdcs.example.com"] = ["dc1.example.com", "dc2.example.com"]
        self.assertEqual(self.provision().directory_server_list, ("dc1.example.com", "dc2.example.com"))
        again = self.machine.start().local
        self.assertEqual(again.directory_server_list, ("dc1.example.com", "dc2.example.com"))

    def test_no_domain(self) -> None:
        """Outside of a domain DNS is not asked, and others may know."""
        self.machine.servers[""] = ["elsewhere"]
        local = self.initialize(WORKGROUP, Provisioning())
        self.assertIn(FindDirectoryServers(""), self.machine.performed)
        self.assertEqual(local.directory_server_list, ("elsewhere",))

    def test_retry_duration(self) -> None:
        """MQDMPR-3.1.1.1-38: 120 seconds, also after a restart."""
        self.machine.access.local.initialization_retry_timer_duration = 7
        self.assertEqual(self.provision().initialization_retry_timer_duration, 120)
        self.machine.start()
        self.assertEqual(self.initialize().initialization_retry_timer_duration, 120)

    def test_only_once(self) -> None:
        """MQDMPR-3.1.3-01: a start that is not the first makes no keys and asks for no servers."""
        self.provision()
        keys = self.machine.access.local.object.public_encryption_key_list
        self.machine.performed.clear()
        self.machine.start()
        local = self.initialize()
        kinds = {type(effect) for effect in self.machine.performed}
        self.assertEqual(kinds & {MakeKeys, FindDirectoryServers}, set())
        self.assertEqual(local.object.public_encryption_key_list, keys)

    def test_identifier_of_the_directory(self) -> None:
        """A directory that chooses identifiers chooses ours; the caller that stores it is notified."""
        self.machine = Machine(assigns_identifiers=True)
        self.directory = self.machine.directory
        self.machine.start(integrated=True)
        self.directory.add(EnterpriseObject())
        local = self.provision(None)
        self.assertNotEqual(local.object.identifier, OWN)
        self.assertEqual(self.held().identifier, local.object.identifier)
        [changed] = [effect for effect in self.machine.performed if isinstance(effect, QueueManagerChanged)]
        self.assertEqual((changed.object, changed.former_identifier), (local.object, OWN))
        self.assertEqual(self.machine.start().local.object.identifier, local.object.identifier)

    def test_computer_that_comes_back(self) -> None:
        """A computer that was there before takes over its object, with its sites and other keys."""
        former = QueueManagerObject(
            identifier=UUID(int=0xA77),
            computer_name="alpha",
            queue_manager_quota=99,
            site_identifier_list=(PARIS.identifier,),
        )
        self.directory.add(former)
        local = self.provision()
        self.assertEqual(local.object.identifier, former.identifier)
        held = self.held()
        self.assertEqual((held.identifier, held.queue_manager_quota), (former.identifier, 99))
        self.assertEqual(held.site_identifier_list, (PARIS.identifier, SITE))
        self.assertEqual(len(held.public_signing_key_list.keys), 3)
        self.assertEqual(set(local.sites), {PARIS.identifier, SITE})

    def test_identifier_that_is_known(self) -> None:
        """A queue manager that is provisioned again keeps its object, and has other keys."""
        self.directory.add(attrs.evolve(ALPHA, queue_manager_quota=99))
        self.provision()
        held = self.held()
        self.assertEqual((held.identifier, held.queue_manager_quota), (OWN, 99))
        self.assertEqual((held.site_identifier_list, len(held.public_signing_key_list.keys)), ((SITE,), 3))

    def test_object_that_was_created_empty(self) -> None:
        """MQDMPR-3.1.3-16: an object without values, as a domain creates it to give it a GUID, gets all."""
        self.machine = Machine()
        self.directory = self.machine.directory
        self.machine.start(integrated=True)
        self.furnish(None)
        own = self.machine.access.local.object
        self.machine.access.local.object = attrs.evolve(own, routing_server=True, queue_manager_quota=77)
        self.directory.add(QueueManagerObject(identifier=OWN, computer_name="ALPHA"), ("computer_name",))
        local = self.provision()
        held = self.held()
        self.assertTrue(held.routing_server and local.object.routing_server)
        self.assertEqual((held.queue_manager_quota, held.journal_quota), (77, own.journal_quota))
        values = self.successResultOf(
            self.directory.read(QueueManagerObject, [equals("identifier", OWN)])
        ).values
        for name in ("operating_system_type", "foreign_system", "directory_server", "supporting_server"):
            self.assertIn(name, values)

    def test_roles_of_the_directory_stay(self) -> None:
        """Roles that an administrator set before the first start take precedence over the configuration."""
        own = self.machine.access.local.object
        self.machine.access.local.object = attrs.evolve(own, routing_server=True)
        self.directory.add(
            QueueManagerObject(computer_name="ALPHA", identifier=OWN), ("computer_name", "routing_server")
        )
        self.assertFalse(self.provision().object.routing_server or self.held().routing_server)

    def test_directory_refuses(self) -> None:
        """The reason for a refused publication is reported as the reason of the failed start."""
        for refused, result, status in (
            ("create", DirectoryOperationResult.GENERIC_ERROR, Status.MQ_ERROR_DS_ERROR),
            ("create", DirectoryOperationResult.OBJECT_ALREADY_EXISTS, Status.MQ_ERROR_MACHINE_NOT_FOUND),
            ("write", DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, Status.MQ_ERROR_NO_DS),
        ):
            if refused == "write":
                self.directory.add(ALPHA)
            self.machine.start(integrated=True)
            self.patch(self.directory, refused, self.refusing(result))
            error = self.fails(self.initialization(provisioning=Provisioning()))
            self.assertIs(error.status, status)
            self.assertIn("ALPHA", error.detail)

    def test_read_only(self) -> None:
        """A directory that has the object and refuses to change it does not stop the queue manager.

        It is what its object says, without the keys and the site that could not be written.
        """
        self.directory.add(attrs.evolve(ALPHA, identifier=OWN, queue_manager_quota=77))
        self.patch(self.directory, "write", self.refusing(DirectoryOperationResult.GENERIC_ERROR))
        local = self.provision(PARIS.identifier)
        self.assertIs(local.queue_manager_state, QueueManagerState.READY)
        self.assertEqual(local.object.queue_manager_quota, 77)
        self.assertEqual(local.object.public_encryption_key_list, self.held().public_encryption_key_list)
        self.assertEqual(self.machine.access.publication_refusal, "no")
        self.assertNotIn(PARIS.identifier, local.object.site_identifier_list)

    def test_read_only_with_an_object_of_another(self) -> None:
        """An object of its name with another Identifier may be another computer's, so that stops it."""
        self.directory.add(attrs.evolve(ALPHA, identifier=UUID(int=0xAA)))
        self.patch(self.directory, "write", self.refusing(DirectoryOperationResult.GENERIC_ERROR))
        error = self.fails(self.initialization(provisioning=Provisioning()))
        self.assertIs(error.status, Status.MQ_ERROR_DS_ERROR)

    def refusing(self, result: DirectoryOperationResult) -> Callable[..., Any]:
        def refuse(*args: object) -> Any:
            return fail(DirectoryError(result, "no"))

        return refuse

    def test_key_store_fails(self) -> None:
        """Without keys there is no queue manager."""
        self.machine.failing = MakeKeys
        self.fails(self.initialization(provisioning=Provisioning()))
        self.assertIs(self.machine.access.local.queue_manager_state, QueueManagerState.STOPPED)


class RoleTests(MachineTestCase):
    """[MS-MQDSSM] 3.1.6.7.1.9 what a server has the directory make of its roles."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.start(integrated=True)

    def publish(self) -> list[WriteObject]:
        """Start, publish the roles, and answer what was written for that."""
        self.initialize()
        procedure = publish_roles(self.machine.access)
        asked: list[WriteObject] = []
        try:
            effect = next(procedure)
            while True:
                if isinstance(effect, AskDirectory) and isinstance(effect.request, WriteObject):
                    asked.append(effect.request)
                effect = procedure.send(Answer(self.machine.clock.now()))
        except StopIteration as end:
            self.assertTrue(end.value.succeeded)
        return asked

    def test_server(self) -> None:
        """A routing server writes its roles only, also if its site has changed."""
        self.furnish(attrs.evolve(IN_LONDON, routing_server=True))
        [written] = self.publish()
        self.assertEqual(written.object, self.machine.access.local.object)
        self.assertEqual(written.attributes, ("routing_server", "directory_server", "supporting_server"))

    def test_no_server(self) -> None:
        """A queue manager that serves no others writes nothing."""
        self.furnish(IN_LONDON)
        self.assertEqual(self.publish(), [])

    def test_directory_away(self) -> None:
        """A directory that is away is not asked a second time."""
        self.furnish(attrs.evolve(IN_LONDON, routing_server=True))
        self.initialize()
        self.machine.access.local.directory_offline = True
        with self.assertRaises(StopIteration):
            next(publish_roles(self.machine.access))


class UpkeepTests(MachineTestCase):
    """Effects of the timers."""

    def setUp(self) -> None:
        super().setUp()
        self.machine.start(integrated=True)
        self.furnish(attrs.evolve(ALPHA, site_identifier_list=(SITE, PARIS.identifier)))
        self.local = self.initialize()

    def write(self, written: Any, *attributes: str) -> None:
        self.successResultOf(self.directory.write(written, attributes))

    def test_sites(self) -> None:
        """MQDMPR-3.1.6.1-01: each site is read anew; one that cannot be read stays as it was."""
        self.write(
            attrs.evolve(LONDON, inter_site_replication_interval=99), "inter_site_replication_interval"
        )
        self.successResultOf(self.directory.delete(LINK))
        self.successResultOf(self.directory.delete(PARIS))
        self.machine.clock.advance(12 * 3600)
        self.expire()
        self.assertEqual(self.local.sites[SITE].site.inter_site_replication_interval, 99)
        self.assertEqual(self.local.sites[PARIS.identifier].site.name, "paris")
        self.assertEqual(self.local.sites[SITE].site_gate_collection, ())
        self.machine.start()
        self.assertEqual(self.machine.access.local.sites, self.local.sites)

    def test_site_gates(self) -> None:
        """MQDMPR-3.1.6.2-01: each gate of each site is read anew; one that cannot be read stays as it was."""
        self.write(attrs.evolve(GATE, journal_quota=5), "journal_quota")
        self.successResultOf(self.directory.delete(FAR_GATE))
        self.machine.clock.advance(3600)
        self.expire()
        [gate] = self.local.sites[SITE].site_gate_collection
        self.assertEqual(gate.journal_quota, 5)
        [far] = self.local.sites[PARIS.identifier].site_gate_collection
        self.assertEqual(far.computer_name, "FAR")
        self.machine.start()
        self.assertEqual(self.machine.access.local.sites, self.local.sites)

    def test_other_site_and_role(self) -> None:
        """A site and a role that an administrator has set are known an hour later, without another start."""
        moved = attrs.evolve(self.local.object, site_identifier_list=(PARIS.identifier,), routing_server=True)
        self.write(moved, "site_identifier_list", "routing_server")
        self.machine.clock.advance(3600)
        self.expire()
        self.assertTrue(self.local.object.routing_server)
        self.assertEqual(set(self.local.sites), {PARIS.identifier})
        self.machine.start()
        self.assertEqual(set(self.machine.access.local.sites), {PARIS.identifier})

    def test_away_in_the_middle(self) -> None:
        """A directory that goes away while sites are read takes no gate with it."""
        before = dict(self.local.sites)
        for questions in range(1, 12):
            self.machine.clock.advance(12 * 3600)
            self.leave_after(questions)
            self.expire()
            self.assertEqual(self.local.sites, before)
            self.directory.is_connected = True
            self.machine.clock.advance(60)
            self.expire()

    def leave_after(self, questions: int) -> None:
        """Let the directory go away once it was asked so often."""
        left = iter(range(questions))
        for name in ("read", "begin_read", "read_next", "end_read"):
            answer = getattr(MemoryDirectory, name)

            def asked(*args: Any, answer: Any = answer) -> Any:
                self.directory.is_connected = self.directory.is_connected and next(left, None) is not None
                return answer(self.directory, *args)

            self.patch(self.directory, name, asked)

    def test_nothing_has_changed(self) -> None:
        """Unchanged objects are not stored again."""
        self.machine.performed.clear()
        self.machine.clock.advance(12 * 3600)
        self.expire()
        self.assertEqual([effect for effect in self.machine.performed if isinstance(effect, Store)], [])

    def test_again_and_again(self) -> None:
        """The timers run again, each after its own time."""
        for hour in range(1, 25):
            self.machine.clock.advance(3600)
            due = self.machine.access.timers.deadline()
            self.assertEqual(due, self.machine.clock.now().monotonic, hour)
            self.expire()
            self.assertEqual(self.machine.access.timers.deadline(), self.machine.clock.now().monotonic + 3600)

    def test_directory_servers(self) -> None:
        """New domain controllers are found within a day; known ones stay."""
        record = "_ldap._tcp.dc._msdcs.example.com"
        for servers in (["dc2"], ["dc1", "dc2"], []):
            self.machine.servers[record] = servers
            self.machine.clock.advance(24 * 3600)
            self.expire()
        self.assertEqual(self.local.directory_server_list, ("dc2", "dc1"))
        self.assertEqual(self.machine.start().local.directory_server_list, ("dc2", "dc1"))

    def test_deletion_that_was_not_possible(self) -> None:
        """A queue that could not be taken out of the directory is, once it is back."""
        queue = QueueObject(identifier=QUEUE, pathname="ALPHA\\orders")
        self.directory.add(queue)
        self.local.deletions[QUEUE] = queue
        self.directory.is_connected = False
        self.machine.clock.advance(3600)
        self.expire()
        self.assertTrue(self.local.directory_offline)
        self.directory.is_connected = True
        self.machine.clock.advance(60)
        self.expire()
        self.assertEqual((self.local.directory_offline, self.local.deletions), (False, {}))
        read = self.directory.read(QueueObject)
        self.failureResultOf(read)

    def test_site_that_we_left(self) -> None:
        """A site that we do not belong to any more is not known any more after a start."""
        self.write(attrs.evolve(ALPHA, site_identifier_list=(SITE,)), "site_identifier_list")
        self.machine.start()
        self.assertEqual(set(self.initialize().sites), {SITE})
        self.assertEqual(set(self.machine.start().local.sites), {SITE})


class SettingsTests(MachineTestCase):
    """Local settings of the queue manager, over a restart."""

    def restarted(self, change: Callable[[LocalQueueManager], None]) -> LocalQueueManager:
        change(self.machine.access.local)
        self.machine.state |= self.kept(self.machine.access.local.settings_change())
        return self.machine.start().local

    def kept(self, change: object) -> dict[str, bytes]:
        assert isinstance(change, PutState)
        return {change.name: change.value}

    def test_switches(self) -> None:
        """MQDMPR-3.1.1.1-27: three switches keep their values, either way."""
        for name in ("directory_integrated", "srmp_http_support", "srmp_pgm_support"):
            for value in (True, False):
                local = self.restarted(lambda known, name=name, value=value: setattr(known, name, value))  # type: ignore[misc]
                self.assertIs(getattr(local, name), value)

    def test_persistent(self) -> None:
        """MQDMPR-3.1.1.1-38: the attributes that are persistent and not published survive."""

        def change(local: LocalQueueManager) -> None:
            local.last_domain = UUID(int=4)
            local.directory_server_list = ("dc1",)
            local.initialization_retry_timer_duration = 240

        local = self.restarted(change)
        self.assertEqual((local.last_domain, local.directory_server_list), (UUID(int=4), ("dc1",)))
        self.assertEqual(local.initialization_retry_timer_duration, 240)

    def test_volatile(self) -> None:
        """MQDMPR-3.1.1-03: attributes that are neither persistent nor published are reset."""

        def change(local: LocalQueueManager) -> None:
            local.directory_offline = True
            local.queue_manager_state = QueueManagerState.READY
            local.bring_online()

        local = self.restarted(change)
        self.assertFalse(local.directory_offline or local.connection_active)
        self.assertIs(local.queue_manager_state, QueueManagerState.STOPPED)

    def test_hardened(self) -> None:
        """MQDMPR-3.1.1.1-32: hardening is off at first, and a change holds from the next start on."""
        local = self.machine.access.local
        self.assertFalse(local.hardened_security)
        for hardened in (True, False):
            self.machine.state |= self.kept(local.harden(hardened))
            self.assertIs(local.hardened_security, not hardened)
            self.machine.state |= self.kept(local.settings_change())
            local = self.machine.start().local
            self.assertIs(local.hardened_security, hardened)

    def test_connection(self) -> None:
        """Taken offline, and brought online again."""
        local = self.machine.access.local
        local.bring_online()
        self.assertTrue(local.connection_active)
        local.take_offline()
        self.assertFalse(local.connection_active)

    def test_damage(self) -> None:
        """A value that was never stored is refused with its name."""
        site = f"directory.site.{str(SITE).upper()}"
        for name, value in (
            ("directory.settings", b"{"),
            ("directory.settings", b"[]"),
            ("directory.settings", b"{}"),
            ("directory.queue_manager", b'{"colour":1}'),
            ("directory.enterprise", b"[]"),
            ("directory.site.x", b"{}"),
            (site, b"{}"),
            (site, b'{"site":{},"gates":[5]}'),
            (f"directory.queue.{str(QUEUE).upper()}", b'{"quota":-1}'),
        ):
            self.machine.state = {name: value}
            error = self.assertRaises(StateDamaged, self.machine.start)
            self.assertIn(name, str(error))

    def test_other_names(self) -> None:
        """State values of other parts are not touched."""
        self.machine.state = {"sequential_id": b"\1", "directory": b"x"}
        self.assertEqual(self.machine.start().local.public_queues, {})
