"""[MS-MQQB] 3.1.5.8.8: dead letters of messages that exceed a queue's quota, where that queue is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.python.failure import Failure

from msmq.control.server.alarms.manager_alarms import server_alarms
from msmq.structures.status import MQError
from tests.builders import GAMMA
from tests.manager.support import FaultyStore
from tests.nodes.scripted import DEADLETTER, DEADXACT, NEGATIVE, Peer, ScriptedTestCase, transactional
from tests.nodes.support import Node

ADMIN = "TCP:127.0.0.4\\private$\\admin"
TO_FULL = "TCP:127.0.0.3\\private$\\full"
OVER_QUOTA = 0x8003


class RefusedTestCase(ScriptedTestCase):
    """BETA has a queue without room, and GAMMA sends to it."""

    is_transactional = False
    limits: dict[str, Any] = {}  # noqa: RUF012

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", FaultyStore())
        return super().node(name, identifier, **{**self.limits, **kwargs})

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta, "full", transactional=self.is_transactional, quota=0)
        self.listen(is_prompt=True)
        self.peer = self.dial()

    def message(
        self,
        number: int = 1,
        *,
        recoverable: bool = False,
        user_flags: int = NEGATIVE,
        destination: str = TO_FULL,
    ) -> bytes:
        return transactional(
            b"%d" % number,
            (7, number, number - 1),
            message_id=number,
            destination=destination,
            user_flags=user_flags,
            is_transactional=self.is_transactional,
            is_recoverable=recoverable or self.is_transactional,
            acknowledge=4,
            admin=ADMIN,
        )

    def say(self, *packets: bytes, seconds: float = 1, peer: Peer | None = None) -> None:
        (peer or self.peer).send(*packets)
        self.clock.advance(seconds)

    def dead_letters(self, path: str = DEADLETTER) -> list[tuple[bytes, int]]:
        """The messages in the dead-letter queue, which stay in it."""
        reading = self.deferred(self.beta.service.reserve(path, count=100, timeout=0, peek=True))
        if isinstance(reading.result, Failure):
            self.failureResultOf(reading, MQError)
            return []
        reservation = self.successResultOf(reading)
        return [(bytes(each.view.body), each.view.message_class) for each in reservation.messages]

    def reported(self) -> list[int]:
        """The classes of the administration acknowledgements."""
        self.clock.advance(1)
        return [message.message_class for peer in (self.peer, *self.peers) for message in peer.messages]

    @property
    def disk(self) -> FaultyStore:
        assert isinstance(self.beta.store, FaultyStore)
        return self.beta.store

    def alarms(self) -> list[tuple[str, str]]:
        """Kind and text of the alarms about the server that has the queue."""
        found = server_alarms(self.beta.service.inspection.status(), (), None, ())
        return [(each.kind, each.text) for each in found]

    @property
    def reasons(self) -> list[str]:
        """The events of the first message."""
        events = self.successResultOf(self.disk.read_events(0, 100, GAMMA.bytes_le + b"\1\0\0\0"))
        return [entry.event.reason for entry in events]


class RefusalAlarmTests(RefusedTestCase):
    """Messages of peers that are refused, as an alarm."""

    def test_alarm(self) -> None:
        """It counts them for 15 minutes after the refusal, with the reasons, the most frequent first; one
        that arrives a second time, which happens in normal operation, is none.
        """
        self.queue(self.beta, "open")
        for number in (1, 2):
            self.say(self.message(number, user_flags=0))
        self.say(self.message(3, user_flags=0, destination=TO_FULL.replace("full", "nowhere")))
        accepted = self.message(5, destination=TO_FULL.replace("full", "open"))
        self.say(accepted, accepted)
        self.assertEqual(self.beta.service.inspection.status().refused["DUPLICATE"], 1)
        text = "3 messages of peers were refused in the last 15 min: NACK_Q_EXCEED_QUOTA, NACK_BAD_DST_Q"
        self.assertEqual(self.alarms(), [("refused", text)])
        self.clock.advance(600)
        self.say(self.message(4, user_flags=0), peer=self.dial())
        self.clock.advance(300)
        self.assertEqual(
            self.alarms(),
            [("refused", "1 message of a peer was refused in the last 15 min: NACK_Q_EXCEED_QUOTA")],
        )
        self.clock.advance(900)
        self.assertEqual(self.alarms(), [])
        self.assertEqual(self.beta.service.inspection.status().refused["NACK_Q_EXCEED_QUOTA"], 3)


class LetterTests(RefusedTestCase):
    """Messages that are not transactional."""

    def test_express(self) -> None:
        """JN: it is refused, counted and acknowledged as ever, and is in the dead-letter queue here.

        MQQB-3.1.5.8.8-02.
        """
        self.say(self.message())
        self.assertEqual(self.dead_letters(), [(b"1", OVER_QUOTA)])
        self.assertEqual(self.there(self.beta, self.path), [])
        self.assertEqual(self.reported(), [OVER_QUOTA])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_Q_EXCEED_QUOTA": 1})
        self.assertEqual(self.reasons, ["NACK_Q_EXCEED_QUOTA from 127.0.0.4; kept as a dead letter"])
        self.clock.advance(20)
        self.assertEqual(self.peer.acks[-1][0], 1)
        self.assertFalse(self.peer.is_lost)

    def test_recoverable(self) -> None:
        """It is stored before anything is said about it, together with the event and the answer.

        MQQB-3.1.5.8.8-02.
        """
        self.disk.is_slow = True
        self.say(self.message(recoverable=True), seconds=20)
        self.assertEqual((self.dead_letters(), self.reported()), ([], []))
        self.assertEqual([ack for ack in self.peer.acks if ack[2]], [])
        self.disk.catch_up()
        self.clock.advance(1)
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))
        self.assertEqual(self.reported(), [OVER_QUOTA])
        self.disk.lose()
        self.beta = self.restart(self.beta)
        self.assertEqual(self.dead_letters(), [(b"1", OVER_QUOTA)])
        self.assertEqual(len(self.reasons), 1)

    def test_it_comes_again(self) -> None:
        """A message that was not acknowledged comes again, and there is still one dead letter."""
        self.say(self.message(recoverable=True))
        self.peer.hang_up()
        self.say(self.message(recoverable=True), peer=self.dial())
        self.assertEqual(self.dead_letters(), [(b"1", OVER_QUOTA)])
        self.assertEqual(self.reported(), [OVER_QUOTA])

    def test_the_store_fails(self) -> None:
        """The message is not stored, the session closes; the next attempt is stored, once."""
        self.disk.break_down()
        self.say(self.message(recoverable=True))
        self.assertTrue(self.peer.is_lost)
        self.assertEqual((self.dead_letters(), self.reported()), ([], []))
        self.disk.recover()
        self.say(self.message(recoverable=True), peer=self.dial())
        self.assertEqual(self.dead_letters(), [(b"1", OVER_QUOTA)])
        self.assertEqual(self.reported(), [OVER_QUOTA])
        self.beta = self.restart(self.beta)
        self.assertEqual(self.dead_letters(), [(b"1", OVER_QUOTA)])

    def test_without_negative_source_journaling(self) -> None:
        """Without JN no dead letter is kept."""
        self.say(self.message(user_flags=0), self.message(2, recoverable=True, user_flags=0))
        self.assertEqual(self.dead_letters(), [])
        self.assertEqual(self.reported(), [OVER_QUOTA, OVER_QUOTA])

    def test_only_what_has_no_room(self) -> None:
        """Messages within the quota arrive, the first one beyond it becomes a dead letter."""
        self.run_to_end(self.beta.service.set_queue(self.path, {"quota": 1}))
        self.say(self.message(2), *(self.message(number, recoverable=True) for number in range(3, 7)))
        self.assertEqual(self.there(self.beta, self.path), [b"2", b"3", b"4", b"5"])
        self.assertEqual(self.dead_letters(), [(b"6", OVER_QUOTA)])


class TransactionalTests(RefusedTestCase):
    """Messages in a sequence."""

    is_transactional = True

    def test_none_here(self) -> None:
        """Its sender keeps it, on a FinalAck."""
        self.say(self.message())
        self.assertEqual((self.dead_letters(), self.dead_letters(DEADXACT)), ([], []))
        self.assertEqual(
            [ack for peer in (self.peer, *self.peers) for ack in peer.final_acks], [(OVER_QUOTA, 1)]
        )


class NoRoomTests(RefusedTestCase):
    """The quota of dead letters is exceeded too."""

    limits = {"journal_quota": 0}  # noqa: RUF012

    def test_dropped(self) -> None:
        """It is refused all the same, and counted."""
        self.say(self.message(), self.message(2, recoverable=True))
        self.assertEqual((self.dead_letters(), self.reported()), ([], [OVER_QUOTA, OVER_QUOTA]))
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 2)
        self.assertEqual(self.reasons, ["NACK_Q_EXCEED_QUOTA from 127.0.0.4; the dead-letter queue is full"])

    def test_the_store_fails(self) -> None:
        """One that is sent again since its refusal was not stored counts once."""
        self.disk.break_down()
        self.say(self.message(recoverable=True))
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 0)
        self.disk.recover()
        self.say(self.message(recoverable=True), peer=self.dial())
        self.assertEqual(self.reported(), [OVER_QUOTA])
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 1)


class NoMemoryTests(RefusedTestCase):
    """Express messages may take no memory."""

    limits = {"express_memory": 0}  # noqa: RUF012

    def test_dropped(self) -> None:
        """Dead letters of unauthenticated peers stay within their limit."""
        self.say(self.message(), self.message(2, recoverable=True))
        self.assertEqual(self.dead_letters(), [(b"2", OVER_QUOTA)])
        self.assertEqual(self.beta.service.inspection.status().copies_dropped, 1)


class SwitchedOffTests(RefusedTestCase):
    """The configuration says no."""

    limits = {"options": {"dead_letter_over_quota": False}}  # noqa: RUF012

    def test_no_dead_letter(self) -> None:
        """It is refused, and that is all (reading 67)."""
        self.say(self.message(), self.message(2, recoverable=True))
        self.assertEqual((self.dead_letters(), self.reported()), ([], [OVER_QUOTA, OVER_QUOTA]))
