"""Fates of messages: each one, and any estate compared with a naive calculation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.archive.erased import IDENTIFIER_COLUMNS
from msmq.pipeline.message_fates import FATES
from msmq.pipeline.spark.jobs.loss import fates, losses
from msmq.pipeline.spark.running.loss import headline
from tests.pipeline.jobs.builders import QUEUE, SENT, SOURCE, TARGET, Row, event, message, messages, name_of
from tests.pipeline.jobs.builders import events as event_table
from tests.pipeline.local_spark import FEW, rows, table

DEAD = ("dead_letter", "dead_letter_transactional")


def naive(
    held: list[Row], happened: list[Row], gone: Sequence[Row] = ()
) -> dict[tuple[Any, Any], tuple[str, str | None, int]]:
    """ArrivalOutcome, reason and copies of each message, one by one."""

    def tells(row: Row) -> bool:
        return row["class"] in (1, 2, 0xFF) or bool(row["class"] & 0xC000)

    found: dict[tuple[Any, Any], list[Row]] = {}
    for row in held:
        if row["place"] in ("source_journal", *DEAD) or not tells(row):
            found.setdefault((row["id"], row["destination"]), []).append(row)
    erased: dict[tuple[Any, Any], list[str]] = {}
    for row in gone:
        is_copy = row["destination_queue"] is not None and row["stream"] != "events"
        where = erased.setdefault((row["id"], row["destination_queue"] if is_copy else ...), [])
        where.append(f"erased from {row['stream']} {row['topic']}")
        if is_copy:
            found.setdefault((row["id"], row["destination_queue"]), [])
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
        refusals = [(row["class_name"], row["class"]) for row in about if row["class"] & 0x8000]
        receipts = [row["class_name"] for row in about if row["class"] in (2, 0x4000)]
        lines = verdicts(row for row in happened if row["id"] == key[0])
        alike = [other for other in found if other[1] == key[1] and key[1] is not None and copies[other]]
        recorded = any(row["place"] in ("log", "journal") for other in alike for row in found[other])
        reason = None
        held_now = [row for row in same if row["place"] in ("queue", "journal")]
        here = {(row["store"], row["queue"].removeprefix(".\\").lower()) for row in same}
        ends = verdicts(
            row
            for row in happened
            if row["id"] == key[0]
            and row["event"] in ENDS
            and row["class"] >= 0xC000
            and not (row["queue"] or "").endswith(";journal")
            and (row["store"], (row["queue"] or "").lower()) in here
        )
        if copies[key] > 1:
            word = "duplicated"
        elif copies[key] and ends and not held_now:
            word, reason = max(ends)[3], max(ends)[2]
        elif copies[key]:
            word = "delivered"
        elif dead:
            word, reason = "dead_letter", max(dead)
        elif refusals:
            reason, refusal = max(refusals)
            word = {0xC001: "purged", 0x8002: "expired", 0xC002: "expired_unread"}.get(refusal, "refused")
        elif receipts:
            word, reason = "acknowledged", max(receipts)
        elif lines:
            word, reason = max(lines)[3], max(lines)[2]
        elif where := erased.get(key if key[1] else ("", ""), erased.get((key[0], ...), [])):
            word, reason = "erased", min(where)
        else:
            word = ("lost" if recorded else "missing") if alike else "unknown"
        fate[key] = (word, reason, copies[key])
    known = {row["id"] for row in held} | {identifier for identifier, _ in found}
    for identifier in {row["id"] for row in happened} - known:
        rows_of = [row for row in happened if row["id"] == identifier]
        if lines := verdicts(rows_of):
            rank, time, line, word = max(lines)
            latest = [row for row in rows_of if (rank, time) in {each[:2] for each in verdicts([row])}]
            queue = max(row["queue"] or "" for row in latest)
            fate[identifier, queue or None] = (word, line, 0)
    return fate


ENDS = {"refused": "refused", "purged": "purged", "expired": "expired", "rejected": "refused"}
REACHED = {"received": (2, "delivered"), "handed_over": (1, "acknowledged"), "moved": (0, "explained")}


def verdicts(happened: Iterable[Row]) -> list[tuple[int, int, str, str]]:
    """Rank, time, line and fate of the events that say what became of their message."""
    found = []
    for row in happened:
        line = row["event"] + (f": {row['reason']}" if row["reason"] else "")
        if row["event"] == "expired" and row["class"] == 0xC002:
            found.append((3, row["time"], line, "expired_unread"))
        elif row["event"] == "purged" and row["queue"] == "system$;journal":
            found.append((1, row["time"], line, "acknowledged"))
        elif row["event"] == "purged" and (row["queue"] or "").endswith(";journal"):
            found.append((2, row["time"], line, "delivered"))
        elif row["event"] == "purged" and (row["queue"] or "").startswith("system$;"):
            found.append((0, row["time"], line, "explained"))
        elif row["event"] in ENDS:
            found.append((3, row["time"], line, ENDS[row["event"]]))
        elif row["event"] in REACHED:
            rank, other = REACHED[row["event"]]
            found.append((rank, row["time"], line, other))
    return found


ACK, NACK_LATE, NACK_PURGED = {"class": 0x4000}, {"class": 0x8002}, {"class": 0xC001}


def receipt(number: int, about: int, facts: dict[str, Any]) -> Row:
    """An acknowledgement of a message that ALPHA received."""
    return message(
        number, "queue", correlation_id=name_of(about), destination=r"DIRECT=OS:alpha\private$\admin", **facts
    )


def gone(number: int, destination: str | None, **facts: Any) -> Row:
    """What is left of an erased row."""
    return {
        "store": "BETA",
        "stream": "log",
        "topic": QUEUE,
        "id": name_of(number),
        "destination_queue": destination,
        "date": "2023-11-14",
        **facts,
    }


def gone_table(*rows: Row) -> DataFrame:
    """The table of erased identifiers."""
    return table(rows, "store STRING, " + ", ".join(f"{name} {kind}" for name, kind in IDENTIFIER_COLUMNS))


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
        ("purged", "MQMSG_CLASS_NACK_Q_PURGED"),
        [message(9, "source_journal"), receipt(102, 9, ACK), receipt(103, 9, NACK_PURGED)],
    ),
    "the event log tells": (("purged", "purged: by hand"), [message(10, "source_journal")]),
    "was not received in time": (("expired_unread", "expired: late"), [message(15, "log")]),
    "was purged after it was logged": (("purged", "purged"), [message(16, "log")]),
    "another message was purged": (("delivered", None), [message(17, "log"), message(17, "journal")]),
    "was not in time": (
        ("expired", "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT"),
        [message(18, "source_journal"), receipt(104, 18, NACK_LATE)],
    ),
    "was handed over": (("acknowledged", "handed_over"), [message(19, "source_journal")]),
    "was refused": (
        ("refused", "MQMSG_CLASS_NACK_Q_EXCEED_QUOTA"),
        [message(20, "source_journal"), receipt(105, 20, {"class": 0x8003})],
    ),
    "was moved away": (("explained", "moved: by hand"), [message(24, "wire")]),
    "its copy in a journal was purged": (("delivered", "purged"), [message(32, "wire")]),
    "its dead letter was purged": (("refused", "refused"), [message(33, "wire")]),
    "its copy in the source journal was purged": (("acknowledged", "purged"), [message(34, "wire")]),
    "the journal lacks it": (("lost", None), [message(11, "source_journal"), message(21, "journal")]),
    "its copy was erased": (
        ("erased", "erased from log .\\private$\\orders"),
        [message(25, "source_journal")],
    ),
    "its acknowledgement was erased": (
        ("erased", "erased from log .\\private$\\admin"),
        [message(26, "source_journal"), message(27, "log")],
    ),
    "a copy of another destination was erased": (
        ("lost", None),
        [message(28, "source_journal"), message(29, "log")],
    ),
    "the log lacks it": (("lost", None), [message(12, "source_journal"), message(22, "log")]),
    "no record is kept": (("missing", None), [message(13, "source_journal"), message(23, "queue")]),
    "nothing came": (("unknown", None), [message(14, "source_journal")]),
}
GONE = [
    gone(25, "its copy was erased"),
    gone(26, None, topic=r".\private$\admin"),
    gone(28, "another destination"),
]
HAPPENED = [
    event(10, "refused", time=SENT),
    event(10, "purged", reason="by hand", time=SENT + 1),
    event(10, "administered", reason="an operator: done", time=SENT + 2),
    event(11, "administered", reason="an operator: done"),
    event(15, "expired", reason="late", queue=r"private$\orders", **{"class": 0xC002}),
    event(16, "purged", queue=r"private$\Orders", **{"class": 0xC001}),
    event(17, "purged", queue=r"private$\orders", **{"class": 0xC001}),
    event(19, "handed_over", time=SENT + 1),
    event(24, "moved", reason="by hand"),
    event(32, "purged", queue=r"private$\orders;journal", **{"class": 0xC001}),
    event(33, "refused", time=SENT),
    event(33, "purged", queue=r"system$;deadletter", time=SENT + 1, **{"class": 0xC001}),
    event(34, "purged", queue=r"system$;journal", **{"class": 0xC001}),
]


class HeadlineTests(SynchronousTestCase):
    """The headline of the report."""

    def test_every_fate(self) -> None:
        """Each fate is named with its number, so that the numbers sum to that of all messages."""
        numbers = {fate: 1 << place for place, fate in enumerate(FATES)}
        said = headline(numbers)
        total, delivered, *others = map(int, re.findall(r"\d+", said.replace(",", "")))
        self.assertEqual((total, delivered), ((1 << len(FATES)) - 1, 1))
        self.assertEqual(sorted(others), sorted(numbers.values())[1:])
        self.assertIn("16 in dead-letter queues, 32 refused, 64 expired before they arrived", said)

    def test_nothing_else(self) -> None:
        """Of fates that no message has only losses and duplicates are named, as none."""
        self.assertEqual(
            headline({"delivered": 1200}), "1,200 messages, 1,200 delivered: 0 lost, 0 arrived more than once"
        )


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
        found_fates = fates(messages(*held), event_table(*HAPPENED), gone_table(*GONE))
        found = {
            (row["id"], row["destination"]): (row["fate"], row["reason"]) for row in found_fates.collect()
        }
        self.assertEqual({key: found[key] for key in expected}, expected)
        by_hand = naive(held, HAPPENED, GONE)
        self.assertEqual({key: fate[:2] for key, fate in by_hand.items()}, found)
        self.assertEqual({fate for fate, _ in found.values()}, set(FATES))

    def test_only_events_know(self) -> None:
        """A message that was refused at once, and is nowhere, has a fate and is counted."""
        happened = [event(number, "refused", queue=r"private$\orders", reason="full") for number in range(40)]
        happened += [event(1, "administered"), event(50, "copied"), event(51, "acknowledged")]
        held = [message(39, "source_journal"), receipt(60, 39, ACK)]
        # An acknowledgement that was purged is no message of an application.
        happened.append(event(60, "purged"))
        counted = losses(fates(messages(*held), event_table(*happened))).collect()
        self.assertEqual(
            {(row["destination"], row["fate"], row["reason"], row["messages"]) for row in counted},
            {
                (r"private$\orders", "refused", "refused: full", 39),
                (TARGET, "acknowledged", "MQMSG_CLASS_ACK_RECEIVE", 1),
            },
        )
        self.assertEqual({row["source"] for row in counted}, {SOURCE})

    def test_only_its_erasure_is_known(self) -> None:
        """A message whose copies were all erased is counted once, also if an event names it; one that only an
        erased event named is not known.
        """
        left = [
            gone(1, TARGET),
            gone(2, TARGET),
            gone(2, TARGET, topic="journal"),
            gone(3, "q", stream="events"),
        ]
        happened = event_table(event(2, "received", queue=r"private$\orders"))
        self.assertEqual(
            rows(losses(fates(messages(), happened, gone_table(*left)))),
            [
                (SOURCE, TARGET, "delivered", "received", 1, None, None),
                (SOURCE, TARGET, "erased", f"erased from log {QUEUE}", 1, None, None),
            ],
        )

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
        words = ["expired", "purged", "received", "handed_over", "moved", "copied"]
        happened = [
            event(
                number,
                data.draw(st.sampled_from(words)),
                reason=reason,
                time=SENT + turn,
                store=data.draw(st.sampled_from(["ALPHA", "BETA"])),
                queue=data.draw(st.sampled_from([r"private$\orders", r"private$\other"])),
                **{"class": data.draw(st.sampled_from([0, 0x8002, 0xC001, 0xC002]))},
            )
            for turn, (number, reason) in enumerate(
                data.draw(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "why", None]))))
            )
        ]
        left = [
            gone(
                data.draw(st.integers(1, 9)),
                data.draw(st.sampled_from([TARGET, "DIRECT=OS:gamma\\q", None])),
                stream=data.draw(st.sampled_from(["log", "journal", "events"])),
            )
            for _ in range(data.draw(st.integers(0, 6)))
        ]
        found_fates = fates(messages(*held), event_table(*happened), gone_table(*left))
        rows = found_fates.collect()
        found = {(row["id"], row["destination"]): (row["fate"], row["reason"], row["copies"]) for row in rows}
        self.assertEqual(found, naive(held, happened, left))
        self.assertEqual(len(rows), len(found))
