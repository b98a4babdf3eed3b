"""Contract of writable directories."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs

from msmq.interfaces import IConditionalDirectory, IDirectory
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject, UserObject
from msmq.membership.queries import equals
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.testing.contracts.directory import CERTIFICATE, NOWHERE, SID, DirectoryContract
from msmq.windows.sddl import parse_sddl


class WritableDirectoryContract(DirectoryContract):
    """Mixin for directories in which queue managers and queues can be published."""

    async def created(self, directory: IDirectory, queue: QueueObject) -> Any:
        """The directory's object of a published queue."""
        identifier = await directory.create(queue)
        return await directory.read(QueueObject, [equals("identifier", identifier)])

    async def test_publish(self) -> None:
        """MQDMPR-3.1.7.1.18-01 MQDMPR-3.1.7.1.18-03: all attributes of an object are published."""
        directory = await self.opened()
        await self.alpha()
        queue = QueueObject(pathname="ALPHA\\orders", label="orders", quota=5, journaling=True)
        read = await self.created(directory, queue)
        held = attrs.evolve(queue, identifier=read["identifier"])
        self.assert_holds(read, held, "qualified_pathname")

    async def test_publish_some(self) -> None:
        """MQDMPR-3.1.7.1.18-01: only the named attributes are published; the rest have their defaults."""
        directory = await self.opened()
        await self.alpha()
        queue = QueueObject(pathname="ALPHA\\orders", label="orders", quota=5)
        identifier = await directory.create(queue, ("pathname", "quota"))
        read = await directory.read(QueueObject, [equals("identifier", identifier)])
        self.assertEqual((read["quota"], read["label"]), (5, ""))

    async def test_publish_queue_manager(self) -> None:
        """MQDMPR-3.1.1.1-13: a published queue manager gets a FullPath by which it is found."""
        directory = await self.opened()
        [site] = await self.sites("london")
        manager = QueueManagerObject(computer_name="BETA", site_identifier_list=(site.identifier,))
        identifier = await self.publish_queue_manager(directory, manager)
        read = await directory.read(QueueManagerObject, [equals("identifier", identifier)])
        self.assertTrue(read["full_path"])
        again = await directory.read(QueueManagerObject, [equals("full_path", read["full_path"])])
        self.assertEqual(again["identifier"], identifier)

    async def publish_queue_manager(self, directory: IDirectory, manager: QueueManagerObject) -> UUID:
        """Publish a queue manager; override it if this needs preparation."""
        return await directory.create(manager)

    async def test_paths_and_times(self) -> None:
        """MQDMPR-3.1.1.2-13: the directory sets the paths of a queue, and its creation and change times."""
        directory = await self.opened()
        await self.alpha()
        read = await self.created(directory, QueueObject(pathname="ALPHA\\orders", full_path="mine"))
        self.assertTrue(read["full_path"])
        self.assertNotEqual(read["full_path"], "mine")
        self.assertIn(read["full_path"], read["directory_path"])
        self.assertGreater(read["create_time"], 1_500_000_000)
        self.assertGreaterEqual(read["modify_time"], read["create_time"])
        again = await directory.read(QueueObject, [equals("full_path", read["full_path"])])
        self.assertEqual(again["identifier"], read["identifier"])

    async def test_twice(self) -> None:
        """MQDMPR-3.1.7.1.18-05: a name cannot be published twice, case-insensitively."""
        directory = await self.opened()
        await self.alpha()
        await directory.create(QueueObject(pathname="ALPHA\\orders"))
        asked = directory.create(QueueObject(pathname="alpha\\ORDERS"))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_ALREADY_EXISTS)

    async def test_two_at_one_time(self) -> None:
        """A change that another client made since the read is not overwritten."""
        directory = await self.opened()
        conditional = IConditionalDirectory(directory)
        entries = [MqUserSignCert.of(CERTIFICATE + bytes([number]), UUID(int=number)) for number in range(4)]

        def holding(*numbers: int) -> Any:
            held = tuple(entries[number] for number in numbers)
            return attrs.evolve(
                user,
                certificate_digest_list=tuple(each.digest for each in held),
                certificates=MqUserSignCerts(held),
            )

        async def read() -> Any:
            found = [equals("security_identifier", user.security_identifier)]
            return await directory.read(UserObject, found)

        user: Any = UserObject(security_identifier=SID)
        user = await self.add(user)
        names = ("certificate_digest_list", "certificates")
        nothing = await read()
        self.assertTrue(await conditional.write_if_unchanged(holding(0), nothing, names))
        self.assertFalse(await conditional.write_if_unchanged(holding(1), nothing, names))
        one = await read()
        self.assertEqual(one["certificates"].certificates, tuple(entries[:1]))
        done = [conditional.write_if_unchanged(holding(0, number), one, names) for number in (1, 2, 3)]
        outcomes = [await each for each in done]
        self.assertEqual(sum(outcomes), 1, outcomes)
        held = (await read())["certificates"].certificates
        self.assertEqual(held, (entries[0], entries[1 + outcomes.index(True)]))
        self.assertTrue(await conditional.write_if_unchanged(holding(3), await read(), names))
        self.assertEqual((await read())["certificate_digest_list"], (entries[3].digest,))

    async def test_security_at_one_time(self) -> None:
        """A security descriptor that another client has changed since the read is not overwritten."""
        directory = await self.opened()
        conditional = IConditionalDirectory(directory)
        await self.alpha()
        queue = await self.queue("orders")

        async def read() -> Any:
            return await directory.read(QueueObject, [equals("identifier", queue.identifier)])

        def with_security(*accounts: str) -> QueueObject:
            entries = "".join(f"(A;;0x20094;;;{account})" for account in accounts)
            return attrs.evolve(queue, security=parse_sddl(f"D:{entries}").to_bytes())

        first = await read()
        self.assertTrue(await conditional.write_if_unchanged(with_security("AU"), first, ("security",)))
        second = await read()
        self.assertFalse(await conditional.write_if_unchanged(with_security("WD"), first, ("security",)))
        self.assertEqual((await read())["security"], second["security"])
        both = with_security("AU", "WD")
        self.assertTrue(await conditional.write_if_unchanged(both, second, ("security",)))
        self.assertNotEqual((await read())["security"], second["security"])

    async def test_queue_without_queue_manager(self) -> None:
        """A queue cannot be published on a computer that has no queue manager."""
        directory = await self.opened()
        asked = directory.create(QueueObject(pathname="NOWHERE\\orders"))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_nameless(self) -> None:
        """An object without a name, or whose name is not published, is refused."""
        directory = await self.opened()
        await self.alpha()
        for asked in (
            directory.create(QueueObject(label="orders")),
            directory.create(QueueObject(pathname="ALPHA\\orders"), ("label",)),
            directory.create(SiteObject()),
        ):
            self.assertIs(await self.result_of(asked), DirectoryOperationResult.GENERIC_ERROR)

    async def test_write(self) -> None:
        """MQDMPR-3.1.7.1.24-01: all attributes, or the named ones, are written."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders", label="one", quota=1)
        await directory.write(attrs.evolve(queue, label="two", quota=2), ("label",))
        by_identifier = [equals("identifier", queue.identifier)]
        read = await directory.read(QueueObject, by_identifier)
        self.assertEqual((read["label"], read["quota"]), ("two", 1))
        await directory.write(attrs.evolve(queue, label="three", quota=3))
        read = await directory.read(QueueObject, by_identifier)
        self.assertEqual((read["label"], read["quota"]), ("three", 3))
        self.assertEqual(read["pathname"].lower(), "alpha\\orders")

    async def test_removed_value(self) -> None:
        """MQDMPR-3.1.1.2-13: a removed multicast address is not set any more."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders", multicast_address="234.1.1.1:8001")
        await directory.write(attrs.evolve(queue, multicast_address=None), ("multicast_address",))
        read = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assertFalse(read["multicast_address"])

    async def test_write_by_name(self) -> None:
        """An object without an Identifier is selected by its name."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders")
        await directory.write(QueueObject(pathname="ALPHA\\Orders", label="new"), ("label",))
        read = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assertEqual(read["label"], "new")

    async def test_delete(self) -> None:
        """MQDMPR-3.1.7.1.19-02: a deleted object is not found, and its name can be used again."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders")
        await directory.delete(queue)
        asked = directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)
        again = await directory.create(QueueObject(pathname="ALPHA\\orders"))
        self.assertNotEqual(again, queue.identifier)
        await directory.delete(QueueObject(pathname="alpha\\orders"))
        self.assertEqual(await self.all_of(directory, QueueObject), [])

    async def test_change_what_is_not_there(self) -> None:
        """A missing object can be neither written nor deleted."""
        directory = await self.opened()
        await self.alpha()
        for queue in (QueueObject(identifier=NOWHERE, pathname="ALPHA\\x"), QueueObject(pathname="ALPHA\\x")):
            for asked in (directory.write(queue, ("label",)), directory.delete(queue)):
                self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_delete_queue_manager(self) -> None:
        """A queue manager without queues can be deleted."""
        directory = await self.opened()
        manager = await self.alpha()
        queue = await self.queue("orders")
        self.assertIs(await self.result_of(directory.delete(manager)), DirectoryOperationResult.GENERIC_ERROR)
        await directory.delete(queue)
        await directory.delete(manager)
        asked = directory.read(QueueManagerObject, [equals("computer_name", "ALPHA")])
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)
