"""From samples of a server to rows, totals and alarms."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.watch.model import VIEWS, ViewOrder, ViewRow, WatchModel
from tests.cli.watch.samples import WALL, moment, outgoing, queue, sample, session

ORDERS = ".\\private$\\orders"
BETA = "DIRECT=OS:BETA\\private$\\orders"


def cells(view: str, row: ViewRow) -> dict[str, str]:
    """The texts of a row by the titles of their columns."""
    return {column.title: cell for column, cell in zip(VIEWS[view], row.cells, strict=True)}


class ModelTestCase(SynchronousTestCase):
    """A monitor."""

    def setUp(self) -> None:
        self.model = WatchModel()

    def names(self, order: ViewOrder, view: str = "queues") -> list[str]:
        """The rows in their order."""
        return [row.cells[0] for row in self.model.rows(view, order)]

    def alarms(self, time: float = 0.0) -> list[str]:
        """The alarms."""
        return [alarm.text for alarm in self.model.alarms(time)]


class RowTests(ModelTestCase):
    """The views."""

    def test_queue(self) -> None:
        """A queue has its rates between two samples, its depth, age, quota and trend."""
        self.model.take(sample(0, (queue(ORDERS, messages=1, came=10, left=9),)))
        self.assertEqual(cells("queues", self.model.rows("queues", ViewOrder())[0])["in/s"], "0")
        oldest = moment(WALL - 183)
        held = {"quota": 100, "oldest_message_time": oldest, "journal_messages": 7}
        self.model.take(sample(2, (queue(ORDERS, messages=41, came=60, left=19, **held),)))
        [row] = self.model.rows("queues", ViewOrder())
        self.assertEqual(
            cells("queues", row),
            {
                "queue": ORDERS,
                "in/s": "25",
                "out/s": "5",
                "messages": "41",
                "bytes": "40.0K",
                "age": "3 m 5 s",
                "quota": "40%",
                "journal": "7",
                "trend": "▁█",
            },
        )

    def test_what_uses_the_quota(self) -> None:
        """The quota of a queue holds its subqueues and open transactions too; one of 0 is used up."""
        aside = [{"name": "aside", "messages": 1, "bytes": 51200}]
        held = queue("a", quota=100, subqueues=aside, uncommitted_bytes=25600)
        self.model.take(sample(0, (held, queue("b", quota=0))))
        shown = [cells("queues", row)["quota"] for row in self.model.rows("queues", ViewOrder(0, False))]
        self.assertEqual(shown, ["75%", "100%"])

    def test_restart_of_the_server(self) -> None:
        """A server that restarts counts from 0; no rate is negative."""
        self.model.take(sample(0, (queue(ORDERS, came=1000, left=900),)))
        self.model.take(sample(2, (queue(ORDERS, came=8, left=0),)))
        shown = cells("queues", self.model.rows("queues", ViewOrder())[0])
        self.assertEqual((shown["in/s"], shown["out/s"]), ("4", "0"))

    def test_outgoing_and_sessions(self) -> None:
        """Outgoing queues have their next attempt, sessions their rates and how long the peer is silent."""
        due = moment(WALL + 42)
        waiting = outgoing(BETA, messages=3, state="WAITING", next_attempt=due)
        self.model.take(sample(0, outgoing=(waiting,), sessions=(session("192.0.2.7", sent=5),)))
        alarm = {"severity": 1, "subject": BETA, "text": "it is not reached"}
        self.model.take(
            sample(2, outgoing=(waiting,), sessions=(session("192.0.2.7", sent=9),), alarms=(alarm,))
        )
        [row] = self.model.rows("outgoing", ViewOrder())
        self.assertEqual((cells("outgoing", row)["retry"], row.severity), ("in 40 s", 1))
        [row] = self.model.rows("sessions", ViewOrder())
        self.assertEqual((cells("sessions", row)["out/s"], cells("sessions", row)["silent"]), ("2", "2 s"))

    def test_order(self) -> None:
        """Rows with alarms come first, then busy ones, then full ones; any column can be sorted by."""
        first = (queue("busy"), queue("full", messages=9), queue("empty"), queue("stuck", quota=0))
        self.model.take(sample(0, first))
        stuck = {"severity": 2, "subject": "stuck", "text": "its quota is used"}
        self.model.take(sample(1, (queue("busy", came=5), *first[1:]), alarms=(stuck,)))
        self.assertEqual(self.names(ViewOrder()), ["stuck", "busy", "full", "empty"])
        by_name = ViewOrder().next_column(VIEWS["queues"])
        self.assertEqual(self.names(by_name), ["busy", "empty", "full", "stuck"])
        self.assertEqual(self.names(ViewOrder(3))[0], "full")
        self.assertEqual(self.names(ViewOrder(3, descends=False))[:3], ["busy", "empty", "stuck"])
        order = ViewOrder(pattern="f")
        for _ in VIEWS["queues"]:
            order = order.next_column(VIEWS["queues"])
        self.assertEqual(order.next_column(VIEWS["queues"]), ViewOrder(pattern="f"))

    def test_filter(self) -> None:
        """A filter is a part of the name, or a pattern with wildcards, without case."""
        self.model.take(sample(0, (queue(".\\private$\\Orders"), queue(".\\private$\\mail[1]"))))
        for pattern, found in (
            ("ord", 1),
            ("*\\ord*", 1),
            ("ord*", 1),
            ("rd*", 0),
            ("*[1]", 1),
            ("", 2),
            ("x", 0),
        ):
            with self.subTest(pattern=pattern):
                self.assertEqual(len(self.names(ViewOrder(pattern=pattern))), found)


class AlarmTests(ModelTestCase):
    """Alarms: states that need attention."""

    def test_no_alarm(self) -> None:
        """A server in normal operation has none, and a paused outgoing queue neither."""
        self.model.take(
            sample(0, (queue(ORDERS, messages=5),), (outgoing(BETA, messages=3, state="ONHOLD"),))
        )
        self.assertEqual(self.alarms(), [])

    def test_alarms_of_the_server(self) -> None:
        """The alarms of the server are shown, those about a queue in its row too; the others are counted."""
        of_queue = {"severity": 2, "subject": ORDERS, "text": "orders: 100% of the quota is used"}
        of_route = {"severity": 1, "subject": "out", "text": "route out is stopped"}
        self.model.take(sample(0, (queue(ORDERS),), alarms=(of_route, of_queue), further=4))
        self.assertEqual(
            self.alarms(),
            ["orders: 100% of the quota is used", "route out is stopped", "4 more alarms about queues"],
        )
        self.assertEqual([alarm.severity for alarm in self.model.alarms(0)], [2, 1, 1])

    def test_what_is_dropped(self) -> None:
        """Copies dropped since the monitor began are an alarm for a quarter of an hour."""
        self.model.take(sample(0, copies_dropped=2))
        self.assertEqual(self.alarms(), [])
        rose: dict[str, Any] = {"copies_dropped": 4}
        self.model.take(sample(10, **rose))
        self.model.take(sample(40, **rose))
        self.assertEqual(self.alarms(), ["2 journal copies or dead letters were dropped, the last 30 s ago"])
        self.model.take(sample(911, **rose))
        self.assertEqual(self.alarms(), [])

    def test_server_does_not_answer(self) -> None:
        """It is the only alarm; the rows stay, and the first answer ends it."""
        self.model.take(sample(0, (queue(ORDERS),), dead_letters=1))
        self.model.lose(10, "no queue manager answers")
        self.model.lose(70, "no queue manager answers")
        self.assertEqual(self.alarms(75), ["no answer for 1 m 5 s: no queue manager answers"])
        self.assertEqual(self.names(ViewOrder()), [ORDERS])
        self.model.take(sample(80, (queue(ORDERS),)))
        self.assertEqual(self.alarms(80), [])
