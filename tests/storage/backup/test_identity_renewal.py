"""Data directories that get the identity of a new queue manager, from a backup or where they are."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from uuid import uuid5

from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.send_keys import digest_of as digest_of_key
from msmq.manager.drains.drain_record import DrainRecord, stored_drains
from msmq.persistence.changes import (
    PutQueue,
    PutState,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.service.data_directory.backup import renew_identity
from msmq.service.data_directory.data_lock import DataLock
from msmq.service.data_directory.identity import IdentityError, check_renewal, load_identity
from msmq.storage.migration.store_locations import store_location_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import ManualClock
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA, GAMMA
from tests.storage.backup.data_directory import DEADLETTER, ORDERS, TO_BETA, BackupTestCase, message


def at_beta(messages: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The same messages, for a private queue of BETA."""
    return [(number, patch_queue_manager_address(packet, BETA.bytes_le)) for number, packet in messages]


class IdentityRenewalTests(BackupTestCase):
    """Copies of a queue manager, in a store of SQLite, which is the quickest to make."""

    kind = "sqlite"

    async def test_new_identity(self) -> None:
        """Local messages stay, also dead letters; those to others become dead letters of the clone."""
        await self.stopped()
        self.back_up()
        summary = await self.restored(new_identity=True, make_identifier=lambda: BETA)
        self.assertEqual((load_identity(self.target), summary.moved), (BETA, 2))
        self.assertEqual(self.messages(self.target, ORDERS), at_beta(self.messages(self.data, ORDERS)))
        dead_letters = self.messages(self.target, uuid5(BETA, DEADLETTER))
        self.assertEqual([number for number, _ in dead_letters], [8, 9])
        self.assertEqual(UserMessageView(dead_letters[1][1]).message_class, MessageClass.NACK_DELETED)
        self.assertEqual(
            [number for number, _ in self.messages(self.target, uuid5(BETA, "system$;deadxact"))], [10]
        )
        self.assertEqual(self.messages(self.target, TO_BETA), [])
        reader = store_location_of(self.kind, self.target).make_reader()
        values = reader.values()
        reader.close()
        self.assertEqual(values["queue_manager"], BETA.bytes)
        gone = ("tx/awaiting/1", "results/1", "service/bridge.replies/in/1")
        self.assertEqual([values.get(name) for name in gone], [None, None, None])
        self.assertEqual(values["reserved"], b"7")

    async def test_drain_of_the_original(self) -> None:
        """A queue manager with a new identifier does not go on with a drain: the original moves the messages,
        and they would arrive twice.
        """
        drain = DrainRecord(
            queue=ORDERS,
            destination="DIRECT=OS:GAMMA\\private$\\orders",
            owner=NULL_GUID,
            in_clear=False,
            acknowledge_to="",
            began=1000.0,
        )
        await self.stopped(drain.created(), *drain.after([bytes(20)], 100)[1])
        self.back_up()
        await self.restored()
        self.assertEqual([each.queue for each in stored_drains(self.values())[0]], [ORDERS])
        shutil.rmtree(self.target)
        await self.restored(new_identity=True, make_identifier=lambda: BETA)
        values = self.values()
        self.assertEqual([name for name in values if name.startswith("drain")], [])
        self.assertEqual(self.messages(self.target, ORDERS), at_beta(self.messages(self.data, ORDERS)))

    async def test_keys_of_a_new_identity(self) -> None:
        """What the original has sent under a key is not sent again, and keeps the identifier that it has
        there, also after a second change of the identifier.
        """
        keys, clock = SendKeys(), ManualClock()
        digest = digest_of_key("order-7", [str(ORDERS)])
        page = keys.page({digest: 7}, clock.now())
        await self.stopped(*(PutState(name, value) for name, value in page.changes() if value is not None))
        self.back_up()
        await self.restored(new_identity=True, make_identifier=lambda: BETA)
        await renew_identity(self.target, None, report=lambda rows: None, make_identifier=lambda: GAMMA)
        again = SendKeys()
        again.load(self.values(), clock.now())
        self.assertEqual((again.find(digest, clock.now()), again.source(digest)), (7, ALPHA))

    def values(self) -> Mapping[str, bytes]:
        reader = store_location_of(self.kind, self.target).make_reader()
        try:
            return reader.values()
        finally:
            reader.close()

    async def test_counts_of_a_new_identity(self) -> None:
        """The parts that a restore names are those of the new store; what is left out has its counts."""
        in_transit = "system$;awaiting_final_ack"
        sent = uuid5(ALPHA, in_transit)
        await self.stopped(
            PutQueue(QueueDefinition(sent, in_transit, type=QueueType.SYSTEM)),
            *(message(number, sent, transactional=True) for number in (11, 12, 13)),
        )
        self.back_up()
        before = self.digest(self.data)
        summary = await self.restored(new_identity=True, make_identifier=lambda: BETA)
        after = self.digest(self.target)
        self.assertEqual(summary.sections, after)
        left_out = summary.left_out
        self.assertEqual((left_out.queues, left_out.messages, left_out.values), (2, 3, 3))
        self.assertEqual(after["messages"].rows + left_out.messages, before["messages"].rows)
        self.assertEqual(after["values"].rows + left_out.values, before["values"].rows)
        # The queue of transactional dead letters is new.
        self.assertEqual(after["queues"].rows + left_out.queues, before["queues"].rows + 1)

    async def test_renewed_identity(self) -> None:
        """A clone gets an identifier of its own; its former directory is kept, a running server refused."""
        await self.stopped()
        before = self.messages(self.data, ORDERS)
        (self.data / "msmq.toml").write_text("# mine")
        (self.data / "bridge").mkdir()
        for name in ("replies-in.jsonl", "notes"):
            (self.data / "bridge" / name).touch()
        lock = DataLock(self.data)
        lock.acquire()
        renewing = self.deferred(renew_identity(self.data, None, report=lambda rows: None))
        self.assert_fails("in use by another server", renewing)
        lock.release()
        summary = await renew_identity(
            self.data, None, report=lambda rows: None, make_identifier=lambda: BETA
        )
        self.assertEqual((load_identity(self.data), summary.moved), (BETA, 2))
        self.assertEqual((summary.left_out.queues, summary.sections), (1, self.digest(self.data)))
        self.assertEqual(self.messages(self.data, ORDERS), at_beta(before))
        self.assertEqual((self.data / "msmq.toml").read_text(), "# mine")
        # The original publishes the replies to requests that a bridge of an earlier version has stored.
        self.assertEqual([each.name for each in (self.data / "bridge").iterdir()], ["notes"])
        assert summary.former is not None
        self.assertEqual(load_identity(summary.former), ALPHA)

    async def test_renewed_link(self) -> None:
        """The clone stays on the volume that a symbolic link leads to, with its former directory."""
        await self.stopped()
        (self.base / "volume").mkdir()
        real = self.data.rename(self.base / "volume" / "real").absolute()
        self.data.symlink_to(real)
        summary = await renew_identity(
            self.data, None, report=lambda rows: None, make_identifier=lambda: BETA
        )
        assert summary.former is not None
        self.assertTrue(self.data.is_symlink())
        self.assertEqual(summary.former.parent, real.parent)
        self.assertEqual((load_identity(real), load_identity(summary.former)), (BETA, ALPHA))
        # After a kill between the two renames the link leads to nothing.
        real.rename(real.with_name(".real.new-killed"))
        self.assertRaises(IdentityError, check_renewal, self.data)

    async def test_interrupted_renewal(self) -> None:
        """After a kill between the two renames no new queue manager takes the name of the former one."""
        await self.stopped()
        check_renewal(self.data)
        summary = await renew_identity(self.data, None, report=lambda rows: None)
        assert summary.former is not None
        unfinished = self.base / ".data.new-killed"
        self.data.rename(unfinished)
        for is_created_again in (False, True):
            if is_created_again:
                self.data.mkdir()
            refused = self.assertRaises(IdentityError, check_renewal, self.data)
            self.assertIn(str(summary.former.name), str(refused))
            renewing = self.deferred(renew_identity(self.data, None, report=lambda rows: None))
            self.assert_fails("identity renew was interrupted", renewing)
        self.data.rmdir()
        summary.former.rename(self.data)
        check_renewal(self.data)
        self.assertEqual((await renew_identity(self.data, None, report=lambda rows: None)).moved, 2)
        # A data directory that was removed on purpose is no interrupted renewal.
        shutil.rmtree(unfinished)
        shutil.rmtree(self.data)
        check_renewal(self.data)
