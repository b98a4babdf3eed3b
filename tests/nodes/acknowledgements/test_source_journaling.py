"""[MS-MQQB] 1.3.4: copies that the sending queue manager keeps, in the journal or as dead letters."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from tests.nodes.scripted import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    Peer,
    ScriptedTestCase,
    final_ack,
    order_ack,
)
from tests.nodes.support import Node

TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
BOTH: dict[str, Any] = {"journal": True, "dead_letter": True}
KINDS: tuple[dict[str, Any], ...] = ({}, {"delivery": Delivery.RECOVERABLE}, {"transactional": True})
TIMEOUT = 0x8002


class JournalTestCase(ScriptedTestCase):
    """ALPHA sends to GAMMA."""

    def kept(self, path: str, node: Node | None = None) -> list[tuple[bytes, int]]:
        """The copies in a system queue, received permanently: bodies and classes."""
        return [(bytes(view.body), view.message_class) for view in self.take(node or self.alpha, path)]

    @property
    def peer(self) -> Peer:
        return self.peers[-1]


class ExpiryTests(JournalTestCase):
    """TimeToReachQueue has expired."""

    def expect(self, kind: dict[str, Any]) -> None:
        """A dead letter, in its queue, if one was asked for; none is a success."""
        is_transactional = bool(kind.get("transactional"))
        dead_letters = [(b"kept", TIMEOUT)]
        self.assertEqual(self.kept(DEADXACT), dead_letters if is_transactional else [])
        self.assertEqual(self.kept(DEADLETTER), [] if is_transactional else dead_letters)
        self.assertEqual(self.kept(JOURNAL), [])
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_waiting_to_send(self) -> None:
        """The destination does not listen.

        MQQB-3.1.1.1.1.3-02, MQQB-3.1.7.1.2-05, MQQB-3.1.7.1.2-06, MQQB-3.1.1.1.1.7-02.
        """
        for kind in KINDS:
            self.send(self.alpha, TO_GAMMA, b"kept", time_to_reach_queue=5, **BOTH, **kind)
            self.send(self.alpha, TO_GAMMA, b"gone", time_to_reach_queue=5, journal=True, **kind)
            self.clock.advance(5)
            self.assertEqual(self.waiting(self.alpha), 2)
            self.clock.advance(1.5)
            self.expect(kind)

    def test_waiting_for_an_acknowledgement(self) -> None:
        """It was sent, and the peer says nothing of it, or only that the session brought it.

        MQQB-3.1.1.1.1.3-02, MQQB-3.1.1.1.1.7-02.
        """
        self.listen()
        for kind in KINDS:
            self.send(self.alpha, TO_GAMMA, b"kept", time_to_reach_queue=5, **BOTH, **kind)
            self.send(self.alpha, TO_GAMMA, b"gone", time_to_reach_queue=5, journal=True, **kind)
            self.clock.advance(1)
            self.assertEqual(self.peer.bodies[-2:], [b"kept", b"gone"])
            if kind.get("transactional"):
                self.peer.acknowledge()
            self.clock.advance(4)
            self.assertEqual(self.waiting(self.alpha), 2)
            self.clock.advance(1.5)
            self.expect(kind)

    def test_expiry_in_its_queue(self) -> None:
        """A transactional message that is not received in time fails; one that is received does not.

        MQQB-1.3.4.2-01.
        """
        path = self.queue(self.beta, transactional=True)
        for body in (b"read", b"not read"):
            self.send(self.alpha, TO_BETA, body, transactional=True, dead_letter=True, time_to_be_received=60)
        self.clock.advance(5)
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.assertEqual(self.kept(DEADXACT), [])
        self.clock.advance(90)
        self.assertEqual(self.kept(DEADXACT), [(b"not read", 0xC002)])
        self.assertEqual((self.kept(DEADLETTER), self.kept(DEADXACT, self.beta)), ([], []))


class RefusedByReceiverTests(JournalTestCase):
    """A message that the receiver acknowledges on the session and then refuses ([MS-MQQB] 3.1.5.5.4)."""

    def verify_journal(self, kind: dict[str, Any], *, is_insecure: bool, classes: list[int]) -> None:
        """Both messages are journaled; which of them arrived shows in the acknowledgements alone."""
        self.beta = self.reconfigured(self.beta, send_insecure_nacks=is_insecure)
        self.queue(self.beta)
        self.queue(self.alpha, "admin")
        for name, body in ((TO_BETA, b"arrives"), (TO_BETA.replace("orders", "missing"), b"refused")):
            self.send(
                self.alpha,
                name,
                body,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin"),
                **BOTH,
                **kind,
            )
        self.clock.advance(15)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\orders"), [b"arrives"])
        self.assertEqual(sorted(self.kept(JOURNAL)), [(b"arrives", 0), (b"refused", 0)])
        self.assertEqual((self.kept(DEADLETTER), self.kept(DEADXACT)), ([], []))
        self.assertEqual(self.kept(DEADLETTER, self.beta), [(b"refused", 0x8000)])
        answers = self.take(self.alpha, ".\\private$\\admin")
        self.assertEqual(sorted(answer.message_class for answer in answers), classes)

    def test_no_negative_acknowledgement(self) -> None:
        """By default a refusal for a missing queue draws no acknowledgement, and the message is journaled."""
        self.verify_journal(KINDS[1], is_insecure=False, classes=[2])

    def test_express(self) -> None:
        """The same holds for an express message."""
        self.verify_journal(KINDS[0], is_insecure=False, classes=[2])

    def test_negative_acknowledgement(self) -> None:
        """With permit_insecure_nacks at the receiver, the sender has the refusal and the journal copy."""
        self.verify_journal(KINDS[1], is_insecure=True, classes=[2, 0x8000])


class SystemQueueTests(JournalTestCase):
    """[MS-MQQB] note 2."""

    def test_no_copies(self) -> None:
        """No copy is kept of a message for the notification queue of another queue manager.

        MQQB-3.1.5.5.4-02.
        """
        self.listen(is_prompt=True)
        for name in (TO_GAMMA, TO_GAMMA.replace("orders", "notify_queue$")):
            self.send(self.alpha, name, b"1", **BOTH)
        self.clock.advance(1)
        self.assertEqual(self.peer.bodies, [b"1", b"1"])
        self.assertEqual(self.kept(JOURNAL), [(b"1", 0)])
        self.peer.is_prompt = False
        for name in (TO_GAMMA, TO_GAMMA.replace("orders", "notify_queue$")):
            self.send(self.alpha, name, b"2", time_to_reach_queue=1, **BOTH)
        self.clock.advance(5)
        self.assertEqual(self.kept(DEADLETTER), [(b"2", TIMEOUT)])


class SeveralTests(JournalTestCase):
    """One message to several queues: each copy has its own result."""

    def setUp(self) -> None:
        super().setUp()
        self.names = f"{TO_GAMMA},{TO_BETA}"
        self.queue(self.beta)
        self.queue(self.beta, "payments", transactional=True)
        self.queue(self.alpha, "admin")

    def test_each_delivery(self) -> None:
        """A copy in the journal for each queue that the message reached, with the name of that queue."""
        self.listen(is_prompt=True)
        for number, kind in enumerate(KINDS[:2]):
            self.send(self.alpha, self.names, b"%d" % number, **BOTH, **kind)
        self.clock.advance(15)
        views = self.take(self.alpha, JOURNAL)
        self.assertEqual(
            sorted((bytes(view.body), str(view.destination_format_name())) for view in views),
            [(b"0", TO_BETA), (b"0", TO_GAMMA), (b"1", TO_BETA), (b"1", TO_GAMMA)],
        )
        self.assertEqual(len({view.identifier for view in views}), 2)
        self.assertEqual(self.kept(DEADLETTER), [])

    def test_one_fails(self) -> None:
        """A copy that arrived is in the journal, one that did not is a dead letter."""
        self.send(self.alpha, self.names, b"1", time_to_reach_queue=5, **BOTH, **KINDS[1])
        self.clock.advance(20)
        [journaled], [dead_letter] = self.take(self.alpha, JOURNAL), self.take(self.alpha, DEADLETTER)
        self.assertEqual(str(journaled.destination_format_name()), TO_BETA)
        self.assertEqual(str(dead_letter.destination_format_name()), TO_GAMMA)
        self.assertEqual((journaled.message_class, dead_letter.message_class), (0, TIMEOUT))
        self.assertEqual(journaled.identifier, dead_letter.identifier)

    def test_transactional(self) -> None:
        """Each copy waits for its own FinalAck."""
        self.listen(is_prompt=True)
        names = self.names.replace("orders", "payments")
        self.send(self.alpha, names, b"1", transactional=True, **BOTH)
        self.clock.advance(1)
        [message] = self.peer.messages
        self.run_to_end(self.beta.service.receive(".\\private$\\payments", timeout=0))
        self.clock.advance(1)
        [journaled] = self.take(self.alpha, JOURNAL)
        self.assertEqual(str(journaled.destination_format_name()), TO_BETA.replace("orders", "payments"))
        self.peer.send(order_ack(message.place[0], 1), final_ack(message, 0xC001))
        self.clock.advance(1)
        [dead_letter] = self.take(self.alpha, DEADXACT)
        self.assertEqual(str(dead_letter.destination_format_name()), TO_GAMMA.replace("orders", "payments"))
        self.assertEqual((self.kept(JOURNAL), dead_letter.message_class), ([], 0xC001))

    def test_each_is_acknowledged(self) -> None:
        """Each queue answers for itself, and names itself."""
        self.listen(is_prompt=True)
        self.queue(self.alpha, "here")
        here = self.alpha.service.inspection.queue(".\\private$\\here").format_name
        self.send(
            self.alpha,
            f"{TO_BETA},{TO_BETA.replace('orders', 'payments')},{here}",
            b"1",
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin"),
        )
        self.clock.advance(5)
        answers = self.take(self.alpha, ".\\private$\\admin")
        self.assertEqual(
            sorted((answer.message_class, str(answer.response_format_name())) for answer in answers),
            [(2, TO_BETA), (2, here), (0x800A, TO_BETA.replace("orders", "payments"))],
        )
        self.assertEqual(len({answer.correlation_id for answer in answers}), 1)
