"""Drains that are refused, with the reason."""

from __future__ import annotations

from msmq.structures.status import MQError
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase


class RefusedDrainTests(DrainTestCase):
    """Drains that are not begun."""

    def refusal(self, queue: str, destination: str) -> str:
        """The error of a drain that is refused."""
        failed = self.failureResultOf(
            self.deferred(self.alpha.service.drains.begin(queue, destination)), MQError
        )
        return str(failed.value)

    def test_refusals(self) -> None:
        """A drain needs a queue here, and the direct name of a queue elsewhere; a second one to another
        destination is refused, to the same one not.
        """
        self.both()
        self.assertIn("MQ_ERROR_QUEUE_NOT_FOUND", self.refusal(".\\private$\\nowhere", AT_BETA))
        self.assertIn("MQ_ERROR_ILLEGAL_OPERATION", self.refusal(ORDERS, AT_ALPHA))
        self.assertIn("MQ_ERROR_NO_DS", self.refusal(ORDERS, "PUBLIC=6f9b4c1e-7c1b-4f4c-9d38-0f9e1c4f3a11"))
        self.assertIn("system queue", self.refusal(".\\system$;deadletter", AT_BETA))
        self.assertIn("MQ_ERROR", self.refusal(ORDERS, AT_BETA + ";journal"))
        first = self.begin()
        self.assertEqual(self.begin(), first)
        self.assertIn("end that first", self.refusal(ORDERS, "DIRECT=OS:BETA\\private$\\other"))

    def test_no_message_log(self) -> None:
        """Without a message log nothing says what has arrived."""
        self.queue(self.beta)
        failed = self.failureResultOf(self.deferred(self.beta.service.inspection.logged(ORDERS)), MQError)
        self.assertIn("no message log", str(failed.value))
