"""Fates of messages: each one, and any estate compared with a naive calculation."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.loss import FATES, fates, losses
from tests.pipeline.jobs.builders import QUEUE, SENT, SOURCE, TARGET, Row, event, message, messages, name_of
from tests.pipeline.jobs.builders import events as event_table
from tests.pipeline.local_spark import FEW, rows

DEAD = ("dead_letter", "dead_letter_transactional")


def naive(held: list[Row], happened: list[Row]) -> dict[tuple[Any, Any], tuple[str, str | None, int]]:
    """ArrivalOutcome, reason and copies of each message, one by one."""

    def tells(row: Row) -> bool:
        return row["class"] in (1, 2, 0xFF) or bool(row["class"] & 0xC000)

    found: dict[tuple[Any, Any], list[Row]] = {}
    for row in held:
        if row["place"] in ("source_journal", *DEAD) or not tells(row):
            found.setdefault((row["id"], row["destination"]), []).append(row)
    copies: dict[tuple[Any, Any], int] = {}
    for key, same in found.items():
        copies[key] = 0
        for store in {row["store"] for row in same}:
            places = Counter((row["place"], row["queue"]) for row in same if row["store"] == store)
            logs = [often for (place, _), often in places.items() if place == "log"]
            kept = sum(often for (place, _), often in places.items() if place in ("queue", "journal"))
            copies[key] += max([kept, *logs])
    fate: dict[tuple[Any, Any], tuple[str, str | None, int]] = {}
    for key, same in found.items():
        about = [
            row
            for row in held
            if tells(row) and row["correlation_id"] == key[0] and row["place"] in ("queue", "log", "journal")
        ]
        dead = [row["class_name"] for row in same if row["place"] in DEAD]
        refusals = [row["class_name"] for row in about if row["class"] & 0x8000]
        receipts = [row["class_name"] for row in about if row["class"] in (2, 0x4000)]
        lines = [
            (row["time"], row["event"] + (f": {row['reason']}" if row["reason"] else ""))
            for row in happened
            if row["id"] == key[0] and row["event"] != "administered"
        ]
        alike = [other for other in found if other[1] == key[1] and key[1] is not None and copies[other]]
        recorded = any(row["place"] in ("log", "journal") for other in alike for row in found[other])
        reason = None
        if copies[key]:
            word = "delivered" if copies[key] == 1 else "duplicated"
        elif dead:
            word, reason = "dead_letter", max(dead)
        elif refusals:
            word, reason = "refused", max(refusals)
        elif receipts:
            word, reason = "acknowledged", max(receipts)
        elif lines:
            word, reason = "explained", max(lines)[1]
        else:
            word = ("lost" if recorded else "missing") if alike else "unseen"
        fate[key] = (word, reason, copies[key])
    return fate


ACK, NACK_LATE, NACK_PURGED = {"class": 0x4000}, {"class": 0x8002}, {"class": 0xC001}


def receipt(number: int, about: int, facts: dict[str, Any]) -> Row:
    """An acknowledgement of a message that ALPHA received."""
    return message(
        number, "queue", correlation_id=name_of(about), destination=r"DIRECT=OS:alpha\private$\admin", **facts
    )


# Each for a destination of its own, so that none has to do with another: what is meant, the fate of the
# message with the smallest number, and the rows.
CASES: dict[str, tuple[tuple[str, str | None], list[Row]]] = {
    "lies in its queue": (("delivered", None), [message(1, "source_journal"), message(1, "queue")]),
    "was received": (("delivered", None), [message(2, "source_journal"), message(2, "journal")]),
    "was moved": (
        ("delivered", None),
        [message(3, "log"), message(3, "log", queue=r".\private$\other"), message(3, "journal")],
    ),
    "came twice": (("duplicated", None), [message(4, "queue"), message(4, "queue", position=9)]),
    "is in the log twice": (("duplicated", None), [message(5, "log"), message(5, "log", position=9)]),
    "came to two": (("duplicated", None), [message(6, "queue"), message(6, "queue", store="GAMMA")]),
    "is dead": (
        ("dead_letter", "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT"),
        [message(7, "dead_letter", **NACK_LATE)],
    ),
    "was received elsewhere": (
        ("acknowledged", "MQMSG_CLASS_ACK_RECEIVE"),
        [message(8, "source_journal"), receipt(101, 8, ACK)],
    ),
    "was purged elsewhere": (
        ("refused", "MQMSG_CLASS_NACK_Q_PURGED"),
        [message(9, "source_journal"), receipt(102, 9, ACK), receipt(103, 9, NACK_PURGED)],
    ),
    "the event log tells": (("explained", "purged: by hand"), [message(10, "source_journal")]),
    "the journal lacks it": (("lost", None), [message(11, "source_journal"), message(21, "journal")]),
    "the log lacks it": (("lost", None), [message(12, "source_journal"), message(22, "log")]),
    "no record is kept": (("missing", None), [message(13, "source_journal"), message(23, "queue")]),
    "nothing came": (("unseen", None), [message(14, "source_journal")]),
}
HAPPENED = [
    event(10, "refused", time=SENT),
    event(10, "purged", reason="by hand", time=SENT + 1),
    event(10, "administered", reason="somebody: done", time=SENT + 2),
    event(11, "administered", reason="somebody: done"),
]


class FateTests(SynchronousTestCase):
    """Fate of a message."""

    def test_no_messages(self) -> None:
        """Without messages there is no loss."""
        self.assertEqual(rows(losses(fates(messages(), event_table()))), [])

    def test_each_fate(self) -> None:
        """A message that is in its queue, was received, is dead, was acknowledged, or is lost."""
        held, expected = [], {}
        for name, (fate, case) in CASES.items():
            own = [{**row, "destination": name} if row["destination"] == TARGET else row for row in case]
            expected[own[0]["id"], name] = fate
            held += own
        table = fates(messages(*held), event_table(*HAPPENED))
        found = {(row["id"], row["destination"]): (row["fate"], row["reason"]) for row in table.collect()}
        self.assertEqual({key: found[key] for key in expected}, expected)
        by_hand = naive(held, HAPPENED)
        self.assertEqual({key: fate[:2] for key, fate in by_hand.items()}, found)
        self.assertEqual({fate for fate, _ in found.values()}, set(FATES))

    def test_counts(self) -> None:
        """Fates are counted by sender, destination and reason."""
        held = [message(number, "source_journal", sent=SENT + number) for number in (1, 2, 3)]
        held.append(message(1, "log"))
        self.assertEqual(
            rows(losses(fates(messages(*held), event_table()))),
            [
                (SOURCE, TARGET, "delivered", None, 1, SENT, SENT),
                (SOURCE, TARGET, "lost", None, 2, SENT + 2, SENT + 3),
            ],
        )

    @FEW
    @given(st.data())
    def test_any_estate(self, data: st.DataObject) -> None:
        """For any estate, each message has the fate of the naive calculation."""
        places = ("queue", "log", "journal", "source_journal", "wire", *DEAD)
        held = []
        for position in range(data.draw(st.integers(0, 40))):
            number, about = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
            held.append(
                message(
                    number,
                    data.draw(st.sampled_from(places)),
                    position=position,
                    store=data.draw(st.sampled_from(["ALPHA", "BETA"])),
                    queue=data.draw(st.sampled_from([QUEUE, r".\private$\other"])),
                    destination=data.draw(st.sampled_from([TARGET, "DIRECT=OS:gamma\\q", None])),
                    correlation_id=data.draw(st.sampled_from([name_of(about), None])),
                    **{"class": data.draw(st.sampled_from([0, 0, 0, 2, 0x4000, 0x8002, 0xC001]))},
                )
            )
        happened = [
            event(number, data.draw(st.sampled_from(["expired", "purged"])), reason=reason, time=SENT + turn)
            for turn, (number, reason) in enumerate(
                data.draw(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["", "why", None]))))
            )
        ]
        table = fates(messages(*held), event_table(*happened))
        found = {
            (row["id"], row["destination"]): (row["fate"], row["reason"], row["copies"])
            for row in table.collect()
        }
        self.assertEqual(found, naive(held, happened))
