"""Messages with malformed or unusable queue names."""

from __future__ import annotations

from tests.builders import GAMMA
from tests.nodes.arrivals.receiver import ReceiverTestCase
from tests.signed_messages import Fields

RUBBISH = ("x", "OS:here\\private$\\", "TCP:999.9.9.9\\private$\\q", "OS:a\\private$\\b\x1b[2J")


class SentAgainTests(ReceiverTestCase):
    """No acknowledgement can be sent there, but the message can be read, and sent again."""

    def test_a_log_is_replayed_to_its_end(self) -> None:
        """A peer's unusable names of queues for answers or acknowledgements do not stop the replay."""
        again = self.queue(self.beta, "again")
        logged = self.queue(self.beta, "logged", log=True)
        number = 0
        for name in RUBBISH:
            for admin, response in ((name, ""), ("", name), (name, name)):
                number += 1
                fields = Fields(
                    source=GAMMA,
                    recoverable=False,
                    destination="TCP:127.0.0.3\\private$\\logged",
                    message_id=number,
                    body=b"%d" % number,
                    admin=admin,
                    response=response,
                )
                self.say(fields.packet())
        bodies = [bytes(view.body) for view in self.take(self.beta, logged)]
        self.assertEqual(len(bodies), number)
        self.assertEqual(self.run_to_end(self.beta.service.replay(logged, again)), number)
        copies = self.take(self.beta, again)
        self.assertEqual([bytes(view.body) for view in copies], bodies)
        self.assertEqual({view.response_format_name() for view in copies}, {None})
