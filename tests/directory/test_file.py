"""The directory that is one TOML file."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import LogLevel, capturedLogs, formatEvent
from zope.interface.verify import verifyObject

from msmq.directory.enterprise_copy import EnterpriseCopy
from msmq.directory.file import CHECK_INTERVAL, RETRY_EVERY, FileDirectory
from msmq.interfaces import DirectoryError, IAddressBook, IDirectory, IObservedDirectory, IWatchedDirectory
from msmq.interfaces.directory import DirectoryCondition
from msmq.interfaces.security.access import IAccounts
from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.membership.queries import equals
from msmq.structures.directory.user_sign_certs import MqUserSignCerts
from msmq.structures.names.format_name import DistributionListFormatName
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.clock import ManualClock
from msmq.wire.sid import parse_sid
from tests.directory.test_enterprise_file import (
    ACCOUNTS,
    ALPHA,
    BETA,
    SID,
    WHOLE,
    EnterpriseFileTests,
    certificate_with,
    keyed,
)

ORDERS = UUID(int=0xF)
CHANGED_ALPHA = f"""
[[queue_manager]]
name = "NEW"
id = "{ALPHA}"
dns_name = "new.example.com"
sites = ["Paris"]
routing_server = true
in_routing_servers = ["GAMMA"]
out_routing_servers = ["GAMMA"]
"""


class FileDirectoryTests(EnterpriseFileTests):
    """Queries of a queue manager, and changes of the file."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.path = self.written(WHOLE)
        self.copy = EnterpriseCopy(Path(self.mktemp()))
        self.directory = self.made()

    def made(self) -> FileDirectory:
        """A directory of a process that has just started."""
        return FileDirectory(self.path, self.clock, self.clock.reactor, self.copy, in_thread=maybeDeferred)

    def opened(self) -> FileDirectory:
        self.successResultOf(self.directory.open())
        self.addCleanup(self.directory.close)
        return self.directory

    def restarted(self) -> list[DirectoryCondition]:
        """End the process and start another; the conditions that it reports from then on."""
        self.successResultOf(self.directory.close())
        self.directory = self.made()
        conditions: list[DirectoryCondition] = []
        self.directory.observe(conditions.append)
        self.opened()
        return conditions

    def result_of(self, asked: Deferred[Any]) -> tuple[DirectoryOperationResult, str]:
        error = self.failureResultOf(asked, DirectoryError).value
        assert isinstance(error, DirectoryError)
        return error.result, error.detail

    def found(self, of: type[DirectoryObject], name: str, value: object) -> Any:
        return self.successResultOf(self.directory.read(of, [equals(name, value)]))

    def change(self, text: str) -> None:
        """Write the file anew, so that its time is another."""
        before = self.path.stat().st_mtime_ns
        self.path.write_text(text, encoding="utf-8")
        os.utime(self.path, ns=(before + 10**9, before + 10**9))

    def test_interfaces(self) -> None:
        """It is a directory that has addresses, and notifies of changes."""
        for interface in (IDirectory, IAccounts, IAddressBook, IWatchedDirectory, IObservedDirectory):
            verifyObject(interface, self.directory)

    def test_two_links_between_two_sites(self) -> None:
        """Two links between two sites are only advised against: the directory has the cheapest of them."""
        for cost, left in ((9, 7), (3, 3)):
            self.path = self.written(WHOLE + f'[[link]]\nsites = ["Berlin", "Paris"]\ncost = {cost}\n')
            self.directory = self.made()
            self.opened()
            berlin = self.found(SiteObject, "name", "Berlin").object.identifier
            link = self.found(RoutingLinkObject, "site1_identifier", berlin)
            self.assertEqual(link["actual_cost"], left)

    def test_keys_that_the_file_does_not_say(self) -> None:
        """A key that differs from the file's is logged once, since no other member sees it."""
        self.opened()
        ciphers = MemoryCiphers("alpha")
        ciphers.open()
        own = QueueManagerObject(
            identifier=ALPHA, computer_name="ALPHA", public_encryption_key_list=ciphers.encryption_keys
        )
        names = ("public_encryption_key_list",)
        with capturedLogs() as reported:
            self.successResultOf(self.directory.write(own, names))
        warnings = [formatEvent(event) for event in reported if event.get("log_level") is LogLevel.warn]
        self.assertEqual(len(warnings), 1)
        self.assertIn("encryption_keys", warnings[0])
        self.assertIn("ALPHA", warnings[0])
        text = base64.b64encode(ciphers.encryption_keys.to_bytes()).decode()
        self.change(keyed(text))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(
            self.found(QueueManagerObject, "identifier", ALPHA)["public_encryption_key_list"],
            ciphers.encryption_keys,
        )
        with capturedLogs() as reported:
            self.successResultOf(self.directory.write(own, names))
        self.assertEqual([event for event in reported if event.get("log_level") is LogLevel.warn], [])

    def test_reading(self) -> None:
        """Objects of the file are found by Identifier and by attributes."""
        self.opened()
        self.assertEqual(self.found(SiteObject, "name", "BERLIN")["name"], "Berlin")
        self.assertEqual(self.found(QueueManagerObject, "identifier", ALPHA)["computer_name"], "ALPHA")
        self.assertEqual(self.found(QueueObject, "pathname", r"alpha\ORDERS")["identifier"], ORDERS)
        everything = self.successResultOf(self.directory.read(EnterpriseObject))
        self.assertEqual(everything["identifier"], UUID(int=0xEE))
        handle = self.successResultOf(self.directory.begin_read(QueueManagerObject))
        names = [self.successResultOf(self.directory.read_next(handle))["computer_name"] for _ in range(3)]
        self.assertEqual(names, ["ALPHA", "BETA", "GAMMA"])
        result, _ = self.result_of(self.directory.read_next(handle))
        self.assertEqual(result, DirectoryOperationResult.END_OF_DATA)
        self.successResultOf(self.directory.end_read(handle))

    def test_what_no_file_holds(self) -> None:
        """Distribution lists, and the SIDs of computers."""
        self.opened()
        for asked in (
            self.directory.resolve_distribution_list(DistributionListFormatName(ORDERS)),
            self.directory.object_sid("NOBODY"),
        ):
            result, _ = self.result_of(asked)
            self.assertEqual(result, DirectoryOperationResult.OBJECT_NOT_FOUND)

    def test_never_read(self) -> None:
        """A file that is missing or has faults, without a copy: every request says so, until it is good."""
        faulty = WHOLE.replace("cost = 7", "cost = 0").replace("foreign = true", "foreign = 1")
        for text, problem in (
            (None, f"{self.path}: cannot be read: No such file or directory"),
            (
                faulty,
                f"{self.path}:11: site[2].foreign: must be true or false, not a whole number, and 2 more",
            ),
        ):
            with self.subTest(problem=problem):
                self.path.unlink(missing_ok=True)
                if text is not None:
                    self.path.write_text(text, encoding="utf-8")
                [condition] = self.restarted()
                self.assertEqual(
                    condition,
                    DirectoryCondition(
                        source=str(self.path),
                        is_reached=False,
                        since=self.clock.now().wall,
                        problem=problem,
                    ),
                )
                self.assertEqual(self.directory.condition, condition)
                own = QueueManagerObject(identifier=ALPHA, computer_name="ALPHA")
                for asked in (
                    self.directory.read(SiteObject),
                    self.directory.begin_read(SiteObject),
                    self.directory.write(own, ("computer_name",)),
                    self.directory.create(own),
                    self.directory.delete(own),
                    self.directory.account(parse_sid("S-1-5-21-1-2-3-1001")),
                ):
                    self.assertEqual(
                        self.result_of(asked), (DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, problem)
                    )
        reported: list[str] = []
        self.directory.watch(lambda: reported.append("changed"))
        self.clock.advance(5 * CHECK_INTERVAL)
        self.change(WHOLE)
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(reported, ["changed"])
        self.assertTrue(self.directory.condition.is_reached)
        self.assertEqual(self.found(SiteObject, "name", "Berlin")["name"], "Berlin")

    def test_copy(self) -> None:
        """A start without a good file uses the last good one, whose age is known, and watches the file."""
        self.opened()
        read = self.clock.now().wall
        for text in (None, WHOLE[: len(WHOLE) // 2] + "[[", "\0" * 4000):
            with self.subTest(text=text):
                self.clock.advance(3600)
                self.path.unlink(missing_ok=True)
                if text is not None:
                    self.path.write_text(text, encoding="utf-8")
                [condition] = self.restarted()
                self.assertEqual(
                    (condition.is_reached, condition.since, condition.read),
                    (False, self.clock.now().wall, read),
                )
                self.assertIn(str(self.path), condition.problem)
                self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.2")
                self.assertEqual(self.found(SiteObject, "name", "Berlin")["name"], "Berlin")
        self.path.write_text(WHOLE.replace('"127.0.0.2"', '"127.0.0.5"'))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.5")
        self.assertEqual(self.directory.condition.read, self.clock.now().wall)
        self.path.unlink()
        self.restarted()
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.5")

    def test_copy_has_the_certificates(self) -> None:
        """All that the file names is in the copy, and what was missing is noticed when it is there again."""
        self.opened()
        moved = self.path.parent.with_name("unmounted")
        self.path.parent.rename(moved)
        conditions = self.restarted()
        self.assertIsNotNone(conditions[0].read)
        user = self.found(UserObject, "security_identifier", parse_sid(SID))
        self.assertEqual(len(user["certificates"].certificates), 2)
        self.path.parent.mkdir()
        moved.joinpath("estate.toml").rename(self.path)
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(len(conditions), 2)
        self.assertIn("one.pem", conditions[1].problem)
        for name in ("one.pem", "two.der"):
            moved.joinpath(name).rename(self.path.with_name(name))
        self.clock.advance(CHECK_INTERVAL)
        self.assertTrue(self.directory.condition.is_reached)

    def test_certificate_that_is_replaced(self) -> None:
        """A certificate file that changes alone is read again, and one with faults changes nothing."""

        def certificates() -> list[bytes]:
            user = self.found(UserObject, "security_identifier", parse_sid(SID))
            return [each.certificate for each in user["certificates"].certificates]

        self.opened()
        before = certificates()
        conditions: list[DirectoryCondition] = []
        self.directory.observe(conditions.append)
        path = self.path.with_name("two.der")
        renewed = certificate_with(b"renewed")
        path.write_bytes(renewed)
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(certificates(), [before[0], renewed])
        path.unlink()
        for _ in range(3):
            self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(certificates(), [before[0], renewed])
        [problem] = [each.problem for each in conditions]
        self.assertIn("'two.der' cannot be read: No such file", problem)
        path.write_bytes(renewed)
        self.clock.advance(CHECK_INTERVAL)
        self.assertTrue(self.directory.condition.is_reached)

    def test_certificate_with_the_same_metadata(self) -> None:
        """One with faults is read again after a while, though nothing of its file seems to have changed."""
        self.opened()
        path = self.path.with_name("two.der")
        content = path.read_bytes()
        path.write_bytes(b"x" * len(content))
        faulty = path.stat().st_mtime_ns
        self.clock.advance(CHECK_INTERVAL)
        self.assertIn("is neither PEM nor DER", self.directory.condition.problem)
        path.write_bytes(content)
        os.utime(path, ns=(faulty, faulty))
        self.clock.advance(CHECK_INTERVAL)
        self.assertFalse(self.directory.condition.is_reached)
        self.clock.advance(RETRY_EVERY)
        self.assertTrue(self.directory.condition.is_reached)

    def test_copy_of_another_file(self) -> None:
        """A copy holds for the file that it was made of, and a damaged one for none."""
        self.opened()
        self.path.rename(self.path.with_name("elsewhere.toml"))
        content = self.copy.path.read_bytes()
        for damaged in (b"", b"{}", b"[" * 100_000, content[:-9], content.replace(b"estate", b"ESTATE")):
            self.copy.path.write_bytes(damaged)
            [condition] = self.restarted()
            self.assertEqual((condition.is_reached, condition.read), (False, None))
        self.copy.path.write_bytes(content)
        [condition] = self.restarted()
        self.assertIsNotNone(condition.read)

    def test_copy_cannot_be_written(self) -> None:
        """A disk that takes no copy is reported, and the directory works."""
        self.copy.path.parent.write_text("a file where the data directory should be")
        with capturedLogs() as reported:
            self.opened()
        errors = [formatEvent(event) for event in reported if event.get("log_level") is LogLevel.error]
        self.assertEqual(len(errors), 1, errors)
        self.assertIn(str(self.copy.path), errors[0])
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.2")

    def test_unreadable(self) -> None:
        """A file that could not be read is tried again although it has not changed since."""
        self.opened()
        moved = self.path.with_name("moved")
        self.path.rename(moved)
        self.path.mkdir()
        conditions = self.restarted()
        self.clock.advance(10 * CHECK_INTERVAL)
        self.assertEqual(len(conditions), 1, "it is reported once")
        self.assertIn("Is a directory", conditions[0].problem)
        self.path.rmdir()
        moved.rename(self.path)
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual([each.is_reached for each in conditions], [False, True])

    def test_queue_that_the_file_names(self) -> None:
        """It can be made, once, and gets the Identifier of the file; what it is given is remembered."""
        self.opened()
        queue = QueueObject(pathname=r"Alpha\Orders", label="orders of today", transactional=True)
        self.assertEqual(self.successResultOf(self.directory.create(queue)), ORDERS)
        self.assertEqual(self.found(QueueObject, "identifier", ORDERS)["label"], "orders of today")
        result, detail = self.result_of(self.directory.create(queue))
        self.assertEqual(result, DirectoryOperationResult.OBJECT_ALREADY_EXISTS)
        self.assertIn(r"Alpha\Orders", detail)
        self.successResultOf(self.directory.delete(QueueObject(identifier=ORDERS)))
        self.assertEqual(self.successResultOf(self.directory.create(queue)), ORDERS)

    def test_what_the_file_does_not_name(self) -> None:
        """It cannot be made, and the error says where it would have to stand."""
        self.opened()
        for created, part in (
            (QueueObject(pathname=r"ALPHA\others"), "add a [[queue]] there"),
            (QueueManagerObject(computer_name="DELTA"), "contains no QueueManager DELTA"),
        ):
            result, detail = self.result_of(self.directory.create(created))
            self.assertEqual(result, DirectoryOperationResult.GENERIC_ERROR)
            self.assertIn(str(self.path), detail)
            self.assertIn(part, detail)
        result, _ = self.result_of(self.directory.create(QueueManagerObject(computer_name="alpha")))
        self.assertEqual(result, DirectoryOperationResult.OBJECT_ALREADY_EXISTS)

    def test_deleting(self) -> None:
        """Objects cannot be deleted from the file; a missing object is reported as not found."""
        self.opened()
        result, detail = self.result_of(self.directory.delete(SiteObject(name="Berlin")))
        self.assertEqual(result, DirectoryOperationResult.GENERIC_ERROR)
        self.assertIn("remove Site Berlin there", detail)
        result, _ = self.result_of(self.directory.delete(QueueObject(pathname=r"ALPHA\others")))
        self.assertEqual(result, DirectoryOperationResult.OBJECT_NOT_FOUND)

    def test_addresses(self) -> None:
        """A queue manager is found by both of its names, if the file says where it is."""
        self.assertIsNone(self.directory.address_of("ALPHA"))
        self.opened()
        self.assertEqual(self.directory.address_of("alpha"), "127.0.0.2")
        self.assertEqual(self.directory.address_of("ALPHA.example.com"), "127.0.0.2")
        self.assertIsNone(self.directory.address_of("BETA"))
        self.assertIsNone(self.directory.address_of("NOBODY"))

    def test_file_changes(self) -> None:
        """It is read anew, watchers are notified, and what a queue manager wrote of itself stays."""
        self.opened()
        reported: list[str] = []
        self.directory.watch(lambda: reported.append("changed"))
        own = QueueManagerObject(identifier=ALPHA, computer_name="ALPHA", foreign_system=True)
        self.successResultOf(self.directory.write(own, ("foreign_system",)))
        handle = self.successResultOf(self.directory.begin_read(SiteObject))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(reported, [])
        self.change(WHOLE.replace('"127.0.0.2"', '"127.0.0.9"').replace('"Paris"', '"Lyon"'))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(reported, ["changed"])
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.9")
        self.assertTrue(self.found(QueueManagerObject, "identifier", ALPHA)["foreign_system"])
        self.assertEqual(self.found(SiteObject, "name", "Lyon")["name"], "Lyon")
        # A read that had begun goes on with what it found then.
        names = [self.successResultOf(self.directory.read_next(handle))["name"] for _ in range(2)]
        self.assertEqual(names, ["Berlin", "Paris"])
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(reported, ["changed"])

    def test_values_of_a_changed_file(self) -> None:
        """All that the file states of a queue manager is as there, whatever that has written of itself."""
        self.opened()
        own = self.found(QueueManagerObject, "identifier", ALPHA).object
        self.successResultOf(self.directory.write(own))
        start, end = (WHOLE.index(f'[[queue_manager]]\nname = "{name}"') for name in ("ALPHA", "BETA"))
        rest = WHOLE[end:].replace("ALPHA\\", "NEW\\")
        self.change(f"{WHOLE[:start]}\n{CHANGED_ALPHA}\n{rest}")
        self.clock.advance(CHECK_INTERVAL)
        found = self.found(QueueManagerObject, "identifier", ALPHA)
        self.directory = self.made()
        self.opened()
        fresh = self.found(QueueManagerObject, "identifier", ALPHA)
        times = {"create_time", "modify_time"}
        different = {name for name in fresh.values if found[name] != fresh[name]} - times
        self.assertEqual(different, set())
        self.assertEqual(found["computer_name"], "NEW")

    def test_all_writes_stay(self) -> None:
        """A changed file leaves what several writes have set, and its own values win over written ones."""
        self.opened()
        queue = QueueObject(pathname=r"ALPHA\orders", label="orders")
        identifier = self.successResultOf(self.directory.create(queue))
        queue = attrs.evolve(queue, identifier=identifier, quota=7)
        self.successResultOf(self.directory.write(queue, ("quota",)))
        queue = attrs.evolve(queue, label="bills", quota=9)
        self.successResultOf(self.directory.write(queue, ("label",)))
        paris = self.found(SiteObject, "name", "Paris")["identifier"]
        own = QueueManagerObject(identifier=ALPHA, computer_name="ALPHA", site_identifier_list=(paris,))
        self.successResultOf(self.directory.write(own, ("site_identifier_list", "queue_manager_quota")))
        user = self.found(UserObject, "security_identifier", parse_sid(SID)).object
        user = attrs.evolve(user, certificates=MqUserSignCerts(user.certificates.certificates[:1]))
        self.successResultOf(self.directory.write(user, ("certificates",)))
        self.change(WHOLE.replace('"127.0.0.2"', '"127.0.0.9"'))
        self.clock.advance(CHECK_INTERVAL)
        found = self.found(QueueObject, "identifier", ORDERS)
        self.assertEqual((found["label"], found["quota"]), ("bills", 7))
        berlin = self.found(SiteObject, "name", "Berlin")["identifier"]
        self.assertEqual(
            self.found(QueueManagerObject, "identifier", ALPHA)["site_identifier_list"], (berlin,)
        )
        user = self.found(UserObject, "security_identifier", parse_sid(SID)).object
        self.assertEqual(len(user.certificates.certificates), 2)

    def test_accounts(self) -> None:
        """Its users and groups are found by SID and name, as the file has them now."""
        self.opened()
        alice = parse_sid("S-1-5-21-1-2-3-1001")
        not_found = DirectoryOperationResult.OBJECT_NOT_FOUND
        self.assertIs(self.result_of(self.directory.account(alice))[0], not_found)
        self.change(WHOLE + ACCOUNTS)
        self.clock.advance(CHECK_INTERVAL)
        found = self.successResultOf(self.directory.account(alice))
        self.assertEqual((found.name, len(found.groups)), ("alice", 3))
        self.assertEqual(self.successResultOf(self.directory.account_named("ESTATE\\ALICE")), found)
        self.assertIs(self.result_of(self.directory.account_named("bob"))[0], not_found)

    def test_change_with_faults(self) -> None:
        """It changes nothing; when the file is right again it is read."""
        self.opened()
        reported: list[str] = []
        self.directory.watch(lambda: reported.append("changed"))
        self.change(WHOLE.replace('"127.0.0.2"', '"127.0.0.9"') + "[[sight]]\n")
        self.clock.advance(CHECK_INTERVAL)
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual((reported, self.directory.address_of("ALPHA")), ([], "127.0.0.2"))
        self.change(WHOLE.replace('"127.0.0.2"', '"127.0.0.7"'))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual((reported, self.directory.address_of("ALPHA")), (["changed"], "127.0.0.7"))

    def test_file_is_gone(self) -> None:
        """The last content stays in use while the file is missing; when it is back it is read."""
        self.opened()
        self.path.unlink()
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.2")
        self.path.write_text(WHOLE.replace('"127.0.0.2"', '"127.0.0.5"'))
        self.clock.advance(CHECK_INTERVAL)
        self.assertEqual(self.directory.address_of("ALPHA"), "127.0.0.5")

    def test_queue_manager_leaves_the_file(self) -> None:
        """Written attributes of a queue manager are removed with it."""
        self.opened()
        own = QueueManagerObject(identifier=BETA, computer_name="BETA", queue_manager_quota=77)
        self.successResultOf(self.directory.write(own, ("queue_manager_quota",)))
        without = WHOLE.replace(str(BETA), str(UUID(int=0xBB)))
        self.change(without)
        self.clock.advance(CHECK_INTERVAL)
        self.change(WHOLE)
        self.clock.advance(CHECK_INTERVAL)
        self.assertNotEqual(self.found(QueueManagerObject, "identifier", BETA)["queue_manager_quota"], 77)

    def test_closed(self) -> None:
        """It is looked at no more."""
        self.opened()
        self.successResultOf(self.directory.close())
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        self.successResultOf(self.directory.close())
