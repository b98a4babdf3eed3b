"""C{msmq drain}: a queue is moved to another queue manager, with a proof of both sides."""

from __future__ import annotations

from typing import Any

from msmq.cli.options import Settings
from msmq.cli.queues import drain as command
from msmq.cli.queues.drain_proof import DrainProof
from msmq.control.client.client import ControlClient
from msmq.control.server.factory import make_site
from msmq.queues.arriving.message import Delivery
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from tests.builders import BETA
from tests.cli.served import MemoryLocation, ServedCommandTestCase
from tests.control.support import ORDERS
from tests.nodes.support import Node

TO = "DIRECT=OS:BETA\\private$\\orders"
DRAIN = ("drain", ORDERS, "--to", TO, "--json")
LOSS = "--accept-loss"
UNKNOWN = (
    "msmq: {} messages were moved, and {} may have refused them after their hand-over: compare with that"
    " queue, and see the events and dead letters of its queue manager\n"
)


class DrainCommandTests(ServedCommandTestCase):
    """ALPHA, whose control API the command uses, and BETA with a message log."""

    def setUp(self) -> None:
        super().setUp()
        store = MemoryMessageStore(durable=True)
        self.beta = Node(self.network, self.clock, "BETA", BETA, SessionSettings(), store)
        self.beta.start()
        self.addCleanup(self.beta.service.stopService)
        self.run_to_end(self.beta.service.create_queue(ORDERS, log=True))
        own = MemoryLocation(self.site, self.clock)
        site = make_site(
            self.beta.service,
            configuration=self.server_configuration(),
            members=self.members(),
            limits=self.limits,
            clock=self.clock.reactor,
        )
        other = MemoryLocation(site, self.clock)
        self.patch(
            Settings,
            "_client_at",
            lambda settings, place, option: ControlClient(other if "beta" in place else own),
        )
        self.patch(command, "sleep", self.clock.advance)
        self.patch(command, "monotonic", lambda: self.clock.now().monotonic)

    def orders(self, *bodies: bytes) -> None:
        """Recoverable messages in the queue of ALPHA."""
        self.put(*bodies, delivery=Delivery.RECOVERABLE)

    def proof(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """What the command prints; only a drain whose arrivals are not known says so as an error."""
        ended = self.msmq(*DRAIN, *arguments)
        [found] = ended.objects
        assert isinstance(found, dict)
        is_known = found["arrival"] != "unproven" or not found["moved"]
        errors = "" if is_known else UNKNOWN.format(found["moved"], TO)
        self.assertEqual((ended.status, ended.errors), (status, errors), ended.errors)
        return found

    def test_proof(self) -> None:
        """It waits until all messages have arrived, and prints equal counts and digests of both sides; those
        that others have sent there do not count.
        """
        self.orders(*[b"%d" % number for number in range(1500)])
        self.run_to_end(self.beta.service.create_queue(".\\private$\\other"))
        found = self.proof("--verify", "unix:beta")
        self.assertEqual(
            [
                found[key]
                for key in ("moved", "remaining", "sent", "arrived", "missing", "twice", "reordered")
            ],
            [1500, 0, 1500, 1500, 0, 0, 0],
        )
        self.assertEqual(found["arrived_digest"], found["digest"])
        self.assertEqual(found["sent_digest"], found["digest"])

    def test_without_verification(self) -> None:
        """Without the other server's message log, it waits until that has acknowledged everything, and says
        that this does not prove the arrival.
        """
        self.orders(b"1", b"2")
        found = self.proof(LOSS)
        self.assertEqual((found["moved"], found["remaining"], found["in_transit"]), (2, 0, 0))
        self.assertEqual(found["arrival"], "unproven")
        self.assertEqual(len(self.run_to_end(self.beta.service.inspection.browse(ORDERS)).messages), 2)

    def test_loss_needs_consent(self) -> None:
        """A queue that is not transactional is not drained to a destination whose refusals would not be
        noticed; a transactional one is, since its messages stay until their FinalAcks.
        """
        self.orders(b"1")
        refused = ("not transactional", "--acknowledge-to", "--verify", "--accept-loss")
        for more in ([], ["--no-wait"], ["--in-clear"]):
            with self.subTest(more=more):
                self.assert_ended([*DRAIN, *more], 2, *refused)
        self.clock.advance(10)
        self.assertEqual(self.msmq("drain", "--json").objects, [])
        self.assertEqual(self.bodies(), [b"1"])
        invoices = ".\\private$\\invoices"
        for service in (self.service, self.beta.service):
            self.run_to_end(service.create_queue(invoices, transactional=True))
        ended = self.msmq("drain", invoices, "--to", f"DIRECT=OS:BETA\\{invoices[2:]}", "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(ended.objects[0]["arrival"], "acknowledged")

    def test_all_refused(self) -> None:
        """The destination refuses the whole queue, which it has acknowledged: nothing that is printed looks
        like an arrival, neither at once nor when the drain is shown or ended.
        """
        self.run_to_end(self.beta.service.delete_queue(ORDERS))
        self.orders(b"1", b"2")
        for arguments in ((*DRAIN[1:-1], LOSS), (ORDERS,), (ORDERS, "--end")):
            with self.subTest(arguments=arguments):
                ended = self.msmq("drain", *arguments)
                parts = dict(line.split(maxsplit=1) for line in ended.output.splitlines() if " " in line)
                self.assertEqual([parts[name] for name in ("arrival", "refused")], ["unproven"] * 2)
                if len(arguments) > 1:
                    self.assertEqual(ended.errors, UNKNOWN.format(2, TO))

    def test_end_that_takes_too_long(self) -> None:
        """A drain that --end has not ended in time is still there, and the command says how to end it."""
        self.beta.deaf()
        self.orders(b"1")
        self.proof(LOSS, "--no-wait")
        ended = self.msmq("drain", ORDERS, "--end", "--timeout", "2", "--json")
        self.assertEqual(ended.status, 3)
        self.assertIn("the drain is not ended: --end --no-wait ends it at once", ended.errors)
        self.assertEqual(self.msmq("drain", ORDERS, "--end", "--no-wait").status, 0)
        self.assertEqual(self.msmq("drain", "--json").objects, [])

    def test_time_out(self) -> None:
        """While the destination is away the command ends with status 3 in time; repeated, it continues."""
        self.beta.deaf()
        self.orders(b"1")
        found = self.proof(LOSS, "--timeout", "2", status=3)
        self.assertEqual((found["moved"], found["in_transit"]), (1, 1))
        self.beta.listen()
        self.assertEqual(self.proof("--verify", "unix:beta")["arrived"], 1)

    def test_messages_that_leave_otherwise(self) -> None:
        """The command does not wait for messages that another reader receives meanwhile."""
        self.orders(b"1", b"2")
        held = self.run_to_end(self.service.reserve(ORDERS))

        def wait(seconds: float) -> None:
            self.clock.advance(seconds)
            self.waits += 1
            if self.waits == 3:
                self.run_to_end(held.confirm())
            self.assertLess(self.waits, 100, "the command waits for a message that is gone")

        self.waits = 0
        self.patch(command, "sleep", wait)
        found = self.proof(LOSS)
        self.assertEqual((found["moved"], found["remaining"]), (1, 0))

    def test_refused(self) -> None:
        """What the destination refuses is named as an error, not in a column alone."""
        self.run_to_end(self.beta.service.set_queue(ORDERS, {"quota": 0}))
        self.orders(b"1", b"2")
        ended = self.msmq(*DRAIN, "--verify", "unix:beta", "--timeout", "2")
        self.assertEqual((ended.status, ended.objects[0]["missing"]), (3, 2))
        self.assertEqual(
            ended.errors,
            f"msmq: 2 of the moved messages have not arrived at {TO}: see the events and dead letters of both"
            " queue managers\n",
        )

    def test_refused_without_a_time_limit(self) -> None:
        """What the destination refuses is missing when nothing has arrived for a minute; with --end the drain
        goes on, so that the proof can be repeated.
        """

        def wait(seconds: float) -> None:
            self.clock.advance(seconds)
            self.assertLess(self.clock.now().monotonic - began, 100, "the command waits for what was refused")

        self.patch(command, "sleep", wait)
        self.run_to_end(self.beta.service.set_queue(ORDERS, {"quota": 0}))
        self.orders(b"1", b"2")
        missing = (
            f"msmq: 2 of the moved messages have not arrived at {TO}: see the events and dead letters of"
        )
        for arguments, rest in (
            (DRAIN, " both queue managers\n"),
            (("drain", ORDERS, "--end", "--json"), " both queue managers; the drain is not ended\n"),
        ):
            began = self.clock.now().monotonic
            ended = self.msmq(*arguments, "--verify", "unix:beta")
            self.assertEqual((ended.status, ended.objects[0]["missing"]), (1, 2))
            self.assertEqual(ended.errors, missing + rest)
        self.assertEqual(len(self.msmq("drain", "--json").objects), 1)

    def test_kept_messages(self) -> None:
        """With --acknowledge-to what the destination refuses is a dead letter here, and the others stay; the
        command says so, and ends when nothing is in transit, with and without a proof.
        """
        acks = ("--acknowledge-to", "DIRECT=OS:ALPHA\\private$\\acks")
        self.run_to_end(self.service.create_queue(".\\private$\\acks"))
        self.orders(b"1")
        self.assertEqual(self.proof(*acks)["in_transit"], 0)
        self.run_to_end(self.beta.service.set_queue(ORDERS, {"quota": 0}))
        self.orders(b"2")
        for more in ((), ("--verify", "unix:beta")):
            ended = self.msmq(*DRAIN, *acks, *more)
            self.assertEqual((ended.status, ended.objects[0]["refused"]), (1, 1), more)
            self.assertIn("1 of the moved messages", ended.errors)
        [place] = self.run_to_end(self.service.inspection.dead_letters())
        self.assertEqual(bytes(place.message.view.body), b"2")
        self.assert_ended(["drain", "--acknowledge-to", "x"], 2, "QUEUE is missing")

    def test_end(self) -> None:
        """At the end the queue is empty and proven; what comes later stays."""
        self.proof(LOSS, "--no-wait")
        self.orders(b"1")
        ended = self.msmq("drain", ORDERS, "--end", "--verify", "unix:beta", "--json")
        self.assertEqual(ended.status, 0, ended.errors)
        [found] = ended.objects
        self.assertEqual((found["condition"], found["moved"], found["arrived"]), ("ended", 1, 1))
        self.orders(b"2")
        self.clock.advance(10)
        self.assertEqual(self.bodies(), [b"2"])
        self.assert_ended(["drain", ORDERS], 1, "MQ_ERROR_QUEUE_NOT_FOUND", "not drained")

    def test_list(self) -> None:
        """Without options it lists the drains, or shows one."""
        self.assertEqual(self.msmq("drain", "--json").objects, [])
        self.proof(LOSS, "--no-wait")
        [found] = self.msmq("drain", "--json").objects
        self.assertEqual((found["queue"], found["destination"], found["condition"]), (ORDERS, TO, "running"))
        self.assertEqual(self.msmq("drain", ORDERS, "--json").objects, [found])

    def test_wrong_use(self) -> None:
        """A drain without a queue, two purposes at once, options that would be ignored, and a destination
        without a message log are refused before anything is moved.
        """
        self.assert_ended(["drain", "--to", TO], 2, "QUEUE")
        self.assert_ended(["drain", ORDERS, "--to", TO, "--end"], 2, "--end")
        self.proof(LOSS, "--no-wait")
        for ignored, *words in (
            (["--verify", "unix:beta"], "--verify", "--to", "--end"),
            (["--in-clear"], "--in-clear", "--to"),
            ([LOSS], LOSS, "--to"),
            (["--end", "--acknowledge-to", "x"], "--acknowledge-to", "--to"),
            (["--end", "--verify", "unix:beta", "--no-wait"], "--no-wait", "--verify"),
        ):
            with self.subTest(ignored=ignored):
                self.assert_ended(["drain", ORDERS, *ignored], 2, *words)
        self.assertEqual(len(self.msmq("drain", "--json").objects), 1)
        self.assertEqual(self.msmq("drain", ORDERS, "--end").status, 0)
        self.orders(b"1")
        self.run_to_end(self.beta.service.set_queue(ORDERS, {"log": False}))
        self.assert_ended([*DRAIN, "--verify", "unix:beta"], 1, "no message log")
        self.assertEqual(self.msmq("drain", "--json").objects, [])
        self.assertEqual(self.bodies(), [b"1"])


class ProofTests(ServedCommandTestCase):
    """The comparison of identifiers."""

    def result(self, *arrived: int) -> tuple[Any, ...]:
        """The counts for five messages that were sent, of which these arrive."""
        names = [f"{{85916c8e-d71b-4ca1-9ec1-c93ff842fa18}}\\{number}" for number in range(10)]
        proof = DrainProof(names[:5])
        proof.add(names[number] for number in arrived)
        found = proof.result()
        equal = found["sent_digest"] == found["arrived_digest"]
        return proof.holds, equal, found["missing"], found["twice"], found["reordered"]

    def test_faults(self) -> None:
        """A missing message, one that comes twice and another order are each found; messages of others and
        another order do not disprove it.
        """
        self.assertEqual(self.result(0, 1, 2, 3, 4), (True, True, 0, 0, 0))
        self.assertEqual(self.result(0, 7, 1, 2, 3, 9, 4), (True, True, 0, 0, 0))
        self.assertEqual(self.result(0, 1, 3, 4), (False, False, 1, 0, 0))
        self.assertEqual(self.result(0, 1, 2, 1, 3, 4), (False, True, 0, 1, 0))
        self.assertEqual(self.result(0, 2, 1, 3, 4), (True, True, 0, 0, 1))
