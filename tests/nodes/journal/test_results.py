"""[queues] journal_on = "acknowledgement": results of messages to real receivers, also beyond gates."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from tests.nodes.journal.support import (
    ARRIVAL,
    ON,
    PURGED,
    RECEIPT,
    TO_BETA,
    UNKNOWN,
    UNREAD,
    WAIT,
    ProvenTestCase,
)
from tests.nodes.routes.test_routing import EnterpriseTestCase
from tests.nodes.scripted import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
)


class TwoServersTests(ProvenTestCase):
    """ALPHA sends to BETA, which acknowledges at its own pace."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.beta)
        self.queue(self.beta, "ordered", transactional=True)

    def test_half_is_refused(self) -> None:
        """If the receiver refuses ten of twenty messages, the journal has ten, and ten have failed."""
        for delivery in (Delivery.RECOVERABLE, Delivery.EXPRESS):
            for number in range(10):
                self.ask(TO_BETA, b"%d" % number, delivery=delivery)
                name = TO_BETA.replace("orders", "ordered")
                self.ask(name, b"refused", delivery=delivery, dead_letter=number < 3)
            self.clock.advance(5)
            self.assertEqual(self.journal, [b"%d" % number for number in range(10)])
            self.assertEqual(self.kept(DEADLETTER), [(b"refused", 0x800A)] * 3)
            self.verify_nothing_left()
        nack = "acknowledgement MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG"
        kept, lost = ("failed", f"{nack}; kept as a dead letter"), ("failed", nack)
        self.assertEqual(self.reasons(), ([kept] * 3 + [lost] * 7) * 2)

    def test_receipt(self) -> None:
        """A sender that asks for the acknowledgement of receipt gets the copy on receipt, and not on
        arrival.
        """
        self.ask(TO_BETA, b"read", b"purged", acknowledge=RECEIPT | ARRIVAL, dead_letter=True)
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([], 2))
        self.run_to_end(self.beta.service.receive(".\\private$\\orders", timeout=0))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([b"read"], 1))
        self.run_to_end(self.beta.service.purge_queue(".\\private$\\orders"))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"purged", PURGED)]))
        self.verify_nothing_left()

    def test_no_answer(self) -> None:
        """Without an answer a message is not journaled: it is a dead letter, if it asked for one.

        A missing queue draws no negative acknowledgement by default; the event says that nothing is proven.
        """
        name = TO_BETA.replace("orders", "missing")
        self.ask(name, b"kept", b"gone", time_to_reach_queue=50)
        self.ask(name, b"letter", time_to_reach_queue=50, dead_letter=True)
        self.clock.advance(50 + WAIT - 4)
        self.assertEqual((self.unproven, self.reasons()), (3, []))
        self.clock.advance(10)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"letter", UNKNOWN)]))
        why = "no acknowledgement came in time; it may have arrived"
        self.assertEqual(
            sorted(self.reasons()),
            [("unacknowledged", why)] * 2 + [("unacknowledged", f"{why}; kept as a dead letter")],
        )
        self.verify_nothing_left()

    def test_arrived_and_never_read(self) -> None:
        """The class of a dead letter whose arrival was acknowledged says that its receipt was not."""
        self.ask(TO_BETA, b"x", acknowledge=RECEIPT | ARRIVAL, dead_letter=True)
        self.clock.advance(WAIT + 5)
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], [(b"x", UNREAD)]))

    def test_at_the_handover(self) -> None:
        """A message that no positive acknowledgement can prove is journaled when it is handed over."""
        self.queue(self.alpha, "serial", transactional=True)
        others: tuple[dict[str, Any], ...] = (
            {"acknowledge": Acknowledge.NONE},
            {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.5\\private$\\admin")},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\missing")},
            {"admin_queue": parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\serial")},
        )
        for number, kwargs in enumerate(others):
            self.ask(TO_BETA, b"%d" % number, **kwargs)
            self.clock.advance(1)
            self.assertEqual((self.journal, self.unproven), ([b"%d" % number], 0))

    def test_transactional(self) -> None:
        """A transactional message waits for its FinalAck, with any requested acknowledgements."""
        name, path = TO_BETA.replace("orders", "ordered"), ".\\private$\\ordered"
        self.ask(name, b"1", transactional=True)
        self.clock.advance(5)
        self.assertEqual((self.journal, self.unproven), ([], 0))
        self.run_to_end(self.beta.service.receive(path, timeout=0))
        self.clock.advance(5)
        self.assertEqual((self.journal, self.kept(DEADXACT)), ([b"1"], []))
        self.verify_nothing_left()

    def test_two_destinations(self) -> None:
        """Each copy of a message to several queues goes by the acknowledgement of its own queue."""
        refusing = TO_BETA.replace("orders", "ordered")
        self.ask(f"{TO_BETA},{refusing}", b"1", dead_letter=True)
        self.clock.advance(5)
        [journaled], [dead_letter] = self.take(self.alpha, JOURNAL), self.take(self.alpha, DEADLETTER)
        self.assertEqual(str(journaled.destination_format_name()), TO_BETA)
        self.assertEqual(str(dead_letter.destination_format_name()), refusing)
        self.assertEqual(journaled.identifier, dead_letter.identifier)
        self.verify_nothing_left()

    def test_the_default(self) -> None:
        """Without the setting a copy is made at the handover, and an acknowledgement changes nothing."""
        self.alpha = self.restart(self.alpha, options={})
        self.ask(TO_BETA.replace("orders", "ordered"), b"refused")
        self.clock.advance(5)
        self.assertEqual((self.journal, self.reasons()), ([b"refused"], []))

    def test_explained(self) -> None:
        """C{explain} shows a message that waits, and where."""
        self.ask(TO_BETA, b"x", acknowledge=Acknowledge.POSITIVE_RECEIVE)
        [position] = self.alpha.model.collection.unproven.positions.values()
        assert position.view is not None
        explanation = self.run_to_end(self.alpha.service.inspection.explain(position.view.identifier))
        self.assertEqual(
            [(place.queue, place.state) for place in explanation.places],
            [(".\\system$;awaiting_acknowledgement", "available")],
        )


class GateTests(EnterpriseTestCase):
    """A message passes two gates, and fails or arrives behind them."""

    def test_beyond_the_first_hop(self) -> None:
        """The acknowledgement of a gate journals nothing; what the last queue manager says does."""
        self.queue(self.zeta, "serial", transactional=True)
        self.queue(self.zeta)
        self.queue(self.alpha, "admin")
        admin = self.alpha.service.inspection.queue(".\\private$\\admin").format_name
        for name in ("orders", "serial"):
            self.send(
                self.alpha,
                self.zeta.service.inspection.queue(f".\\private$\\{name}").format_name,
                name.encode(),
                journal=True,
                dead_letter=True,
                acknowledge=ARRIVAL,
                admin_queue=parse_format_name(admin),
            )
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.zeta, ".\\private$\\orders"), [b"orders"])
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"orders"])
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"serial"])

    options = ON
