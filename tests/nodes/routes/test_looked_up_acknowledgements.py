"""Acknowledgements for public queues elsewhere, while the directory has not answered yet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.persistence.changes import RemoveMessages
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError
from tests.manager.support import FaultyStore
from tests.nodes.routes.test_public_queues import SlowDirectory
from tests.nodes.routes.test_routing import EnterpriseTestCase

UNKNOWN = f"PUBLIC={UUID(int=0x77)}"


class LookedUpTests(EnterpriseTestCase):
    """GAMMA receives messages whose acknowledgements go to the public queue ZETA\\orders."""

    directory_type = SlowDirectory

    def setUp(self) -> None:
        super().setUp()
        self.disk = self.disks["GAMMA"] = FaultyStore()
        self.restart("GAMMA")
        creating = self.deferred(self.zeta.service.create_queue("ZETA\\orders"))
        self.slow.finish()
        self.successResultOf(creating)
        self.name: str = self.zeta.service.inspection.queue("ZETA\\orders").format_name
        self.path = self.queue(self.nodes["GAMMA"])

    @property
    def slow(self) -> SlowDirectory:
        assert isinstance(self.directory, SlowDirectory)
        return self.directory

    def answer(self) -> None:
        """The directory answers what it was asked, and at once from now on."""
        answers, self.slow.answers = self.slow.answers, None
        for later, found in answers or ():
            found.chainDeferred(later)

    def arrive(self, name: str = "", **properties: Any) -> None:
        """A message arrives at GAMMA, whose administration queue the directory is asked for."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        properties.setdefault("acknowledge", Acknowledge.POSITIVE_ARRIVAL)
        self.slow.answers = []
        self.send(
            self.alpha,
            self.private_name(self.nodes["GAMMA"], self.path),
            b"x",
            admin_queue=parse_format_name(name or self.name),
            **properties,
        )
        self.clock.advance(10)
        self.assertEqual(len(self.slow.answers), Acknowledge.POSITIVE_ARRIVAL in properties["acknowledge"])

    def acknowledged(self) -> list[int]:
        """What ZETA has got."""
        self.clock.advance(100)
        return [view.message_class for view in self.take(self.zeta, "ZETA\\orders")]

    def recorded(self) -> list[str]:
        """The records of acknowledgements that GAMMA owes."""
        return [name for name in self.disk.names() if name.startswith("results/")]

    def test_a_restart_meanwhile(self) -> None:
        """The acknowledgement is stored with the message, so it is sent after the next start."""
        self.arrive()
        self.assertEqual(len(self.recorded()), 1)
        self.kill("GAMMA")
        self.answer()
        self.assertEqual(self.acknowledged(), [])
        self.revive("GAMMA")
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_REACH_QUEUE])
        self.assertEqual(self.recorded(), [])
        self.assertEqual(self.bodies(self.nodes["GAMMA"], self.path), [b"x"])

    def test_a_restart_while_a_receipt_is_reported(self) -> None:
        """The same of one that is stored with the removal of its message."""
        self.arrive(acknowledge=Acknowledge.POSITIVE_RECEIVE)
        self.assertEqual(self.bodies(self.nodes["GAMMA"], self.path), [b"x"])
        self.assertEqual(len(self.recorded()), 1)
        self.kill("GAMMA")
        self.slow.answers = None
        self.revive("GAMMA")
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_RECEIVE])

    def test_an_answer(self) -> None:
        """It is sent once; nothing of it remains for the next start."""
        self.arrive()
        self.answer()
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_REACH_QUEUE])
        self.assertEqual(self.recorded(), [])
        self.restart("GAMMA")
        self.assertEqual(self.acknowledged(), [])

    def test_a_queue_that_does_not_exist(self) -> None:
        """It is dropped, also for the next start."""
        self.arrive(UNKNOWN)
        self.assertEqual(len(self.recorded()), 1)
        self.answer()
        self.clock.advance(1)
        self.assertEqual(self.recorded(), [])
        self.assertEqual(self.nodes["GAMMA"].service.inspection.outgoing(), [])

    def test_a_receipt_that_is_not_stored(self) -> None:
        """Nothing is owed for it."""
        self.arrive(acknowledge=Acknowledge.POSITIVE_RECEIVE)
        self.disk.fail_commit(1, of=RemoveMessages)
        held = self.run_to_end(self.nodes["GAMMA"].service.reserve(self.path, timeout=0))
        self.failureResultOf(self.deferred(held.confirm()), MQError)
        self.disk.recover()
        self.assertEqual(self.recorded(), [])
        self.kill("GAMMA")
        self.answer()
        self.revive("GAMMA")
        self.assertEqual(self.acknowledged(), [])
        self.assertEqual(self.bodies(self.nodes["GAMMA"], self.path), [b"x"])
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_RECEIVE])

    def test_a_store_that_fails_when_it_is_known(self) -> None:
        """It is sent when the store works again, once."""
        self.arrive()
        self.disk.break_down()
        self.answer()
        self.assertEqual(self.acknowledged(), [])
        self.disk.recover()
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_REACH_QUEUE])
        self.assertEqual(self.recorded(), [])

    def test_an_express_message(self) -> None:
        """Its acknowledgement is express as well, and is not stored."""
        self.arrive(delivery=Delivery.EXPRESS)
        self.assertEqual(self.recorded(), [])
        self.answer()
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_REACH_QUEUE])
