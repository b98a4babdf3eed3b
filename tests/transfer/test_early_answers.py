"""L{AwaitingAcknowledgements}: answers that come before their messages are handed over."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.awaiting_acknowledgements import MOST_ANSWERS
from msmq.transfer.source_journaling import AWAITS_RECEIPT
from msmq.transfer.stream_changes import Disposal
from tests.transfer.test_awaiting_acknowledgements import (
    ARRIVED,
    FULL,
    ORDERS,
    RECEIVED,
    ProofTable,
    answer,
    message,
)


class EarlyAnswerTests(SynchronousTestCase):
    """Answers of a message that is still in its outgoing queue, or waits."""

    def test_pending_work(self) -> None:
        """Early answers and removals that are not taken yet are work; a message that waits is none."""
        table = ProofTable()
        core = table.core
        self.assertEqual((core.has_early, core.has_pending_work), (False, False))
        value = core.add([message(1), message(2)], [1, 2])
        self.assertEqual((core.has_early, core.has_pending_work), (False, False))
        self.assertEqual([core.concerns(answer(number)) for number in (1, 2, 3)], [True, True, False])
        self.assertFalse(core.concerns(answer(1, destination="direct=os:other\\private$\\orders")))
        core.answered(core.answer([answer(3)]), table.sending)
        self.assertEqual((core.has_early, core.has_pending_work), (True, True))
        core.forget(ORDERS, 3)
        self.assertEqual((core.has_early, core.has_pending_work), (False, True))
        core.take_changes()
        self.assertEqual((core.has_early, core.has_pending_work), (False, False))
        core.stored(value)
        for number in (1, 2):
            core.settled(core.answered(core.answer([answer(number, is_recoverable=False)]), {}))
            self.assertIs(core.has_pending_work, number == 2)

    def test_the_latest_are_kept(self) -> None:
        """Of more answers than are kept the first is dropped, whatever it said."""
        for more, ends in ((MOST_ANSWERS - 1, [(1, Disposal.FORGET, FULL)]), (MOST_ANSWERS, [])):
            table = ProofTable()
            table.say(answer(1, FULL))
            for _ in range(more):
                table.say(answer(1, ARRIVED))
            table.hand_over(message(1, AWAITS_RECEIPT))
            self.assertEqual(table.ends, ends)
            if not ends:
                table.say(answer(1, RECEIVED))
                self.assertEqual(table.ends, [(1, Disposal.JOURNAL, RECEIVED)])
            table.verify_empty(self)
