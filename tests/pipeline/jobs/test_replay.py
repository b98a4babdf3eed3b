"""Which messages are sent again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.schema import MESSAGE_COLUMNS
from msmq.pipeline.spark.jobs.replay import CHOSEN_BY, CONTENT, addressed, chosen
from tests.pipeline.jobs.builders import QUEUE, SENT, Row, name_of
from tests.pipeline.local_spark import FEW, rows, table

NOON = datetime.fromtimestamp(SENT / 1_000_000, UTC)
OTHER = r".\private$\other"
_TYPES = {column.name: column.type for column in MESSAGE_COLUMNS}
SCHEMA = ", ".join(f"`{name}` {_TYPES[name]}" for name in (*CHOSEN_BY, *CONTENT))


def row(number: int, second: float | None, topic: str = QUEUE, **facts: Any) -> Row:
    """A message as the data source has it, which came then."""
    came = None if second is None else NOON + timedelta(seconds=second)
    known: Row = {"topic": topic, "offset": number, "timestamp": came, "timestampType": 1, "class": 0}
    return {**known, "id": name_of(number), "value": b"%d" % number, "label": f"{number}", **facts}


def naive(held: list[Row], queues: list[str], since: int | None, until: int | None) -> list[tuple[Any, ...]]:
    """The identifiers and queues of the messages to send, in order."""

    def place(one: Row) -> tuple[Any, ...]:
        # What has no time comes first.
        return one["timestamp"] is not None, one["timestamp"] or 0, one["offset"], one["topic"]

    found: dict[str, Row] = {}
    for one in sorted(held, key=place):
        time = one["timestamp"] and round(
            (one["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6
        )
        path = one["topic"].partition(";")[0]
        if one["id"] is None or (one["class"] != 0 and not one["topic"].startswith(r".\System$;dead")):
            continue
        if queues and path.lower() not in [queue.lower() for queue in queues]:
            continue
        if (since is not None and (time is None or time < since)) or (
            until is not None and (time is None or time >= until)
        ):
            continue
        found.setdefault(one["id"], one)
    return [(turn, one["id"], one["topic"].partition(";")[0]) for turn, one in enumerate(found.values(), 1)]


class ReplayTests(SynchronousTestCase):
    """Selection of messages to send again, and their properties."""

    def check(
        self, held: list[Row], queues: list[str], since: int | None = None, until: int | None = None
    ) -> list[tuple[Any, ...]]:
        found = chosen(table(held, SCHEMA), queues=queues, since=since, until=until)
        reported = sorted((one["turn"], one["id"], one["topic"]) for one in found.collect())
        self.assertEqual(reported, naive(held, queues, since, until))
        return reported

    def test_choice(self) -> None:
        """Each message once, by queue and time, and nothing that only queue managers send."""
        held = [
            row(3, 3),
            row(1, 1),
            row(2, 2, f"{QUEUE};journal"),
            row(2, 5, f"{QUEUE};journal"),
            row(4, 4, OTHER),
            row(5, 5, QUEUE, **{"class": 2}),
            row(6, 6, id=None),
            row(7, None),
            row(8, 8, r".\System$;deadletter", **{"class": 0xC004}),
            row(9, 9, r".\System$;deadxact", **{"class": 0x8003}),
            row(10, 10, r".\System$;journal", **{"class": 2}),
        ]
        self.assertEqual(
            [reported[1] for reported in self.check(held, [])],
            [name_of(one) for one in (7, 1, 2, 3, 4, 8, 9)],
        )
        reported = self.check(held, [QUEUE.upper()], SENT + 1_000_000, SENT + 3_000_000)
        self.assertEqual([one[1] for one in reported], [name_of(1), name_of(2)])

    def test_rows(self) -> None:
        """A row has the content of the message, where it goes, and a key that is always the same."""
        found = addressed(chosen(table([row(1, 1, priority=5)], SCHEMA)), "DIRECT=OS:b\\q", "second try")
        [sent] = [one.asDict() for one in found.collect()]
        self.assertEqual((sent["destination"], sent["key"]), ("DIRECT=OS:b\\q", f"second try:{name_of(1)}"))
        self.assertEqual((bytes(sent["value"]), sent["label"], sent["priority"]), (b"1", "1", 5))
        self.assertEqual(set(sent), {"id", *CONTENT, "destination", "key"})
        self.assertEqual(
            rows(addressed(chosen(table([row(1, 1)], SCHEMA)), ".\\q"), ("key",)), [(name_of(1),)]
        )

    @FEW
    @given(st.data())
    def test_any_messages(self, data: st.DataObject) -> None:
        """For any messages, the selection is that of the naive calculation."""
        held = [
            row(
                number,
                data.draw(st.none() | st.integers(0, 20)),
                data.draw(st.sampled_from([QUEUE, OTHER, f"{QUEUE};journal"])),
                id=data.draw(st.none() | st.integers(1, 9).map(name_of)),
                **{"class": data.draw(st.sampled_from([0, 0, 0, 1, 0x8002]))},
            )
            for number in range(data.draw(st.integers(0, 30)))
        ]
        bound = st.none() | st.integers(0, 20).map(lambda second: SENT + second * 1_000_000)
        self.check(held, data.draw(st.sampled_from([[], [QUEUE]])), data.draw(bound), data.draw(bound))
