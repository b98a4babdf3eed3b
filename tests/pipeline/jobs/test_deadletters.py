"""Clusters of failed messages."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.deadletters import clusters, failures
from tests.pipeline.jobs.builders import SENT, TARGET, Row, message, messages
from tests.pipeline.local_spark import FEW, rows

NAMES = (
    "class_name",
    "destination",
    "exception",
    "pattern",
    "messages",
    "stores",
    "first",
    "last",
    "example",
)


def headers(**facts: str) -> list[tuple[str, bytes]]:
    """The headers of NServiceBus, by the last words of their names."""
    return [("NServiceBus.MessageId", b"x")] + [
        (f"NServiceBus.ExceptionInfo.{name}", text.encode()) for name, text in facts.items()
    ]


def naive(held: list[Row]) -> list[tuple[Any, ...]]:
    """The clusters, one message after the other."""
    found: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in held:
        dead = row["place"].startswith("dead_letter")
        if not dead and row["place"] not in ("queue", "log", "journal"):
            continue
        reported = dict(reversed(row.get("headers") or []))
        kind = reported.get("NServiceBus.ExceptionInfo.ExceptionType")
        text = reported.get("NServiceBus.ExceptionInfo.Message", reported.get("rbs2-error-details"))
        body = json.loads(row.get("decoded") or "{}")
        if body.get("format") == "nrbf" and isinstance(body["value"], dict):
            kind = body["value"].get("ClassName", "").encode() if kind is None else kind
            text = body["value"].get("Message", "").encode() if text is None else text
        exception = kind.decode() if kind else None
        pattern = None
        if text is not None:
            line = re.match(r"\s*([^\r\n]*)", text.decode())
            assert line is not None
            typed = re.match(r"([A-Za-z_][\w.+`]*(?:Exception|Error))\b", line[1], re.ASCII)
            exception = exception or (typed[1] if typed else None)
            pattern = line[1]
            for shape, word in (
                (r"\{?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}?", "<id>"),
                (r"'[^']*'|\"[^\"]*\"", "<text>"),
                (r"[0-9]+", "<number>"),
            ):
                pattern = re.sub(shape, word, pattern)
            pattern = pattern.strip(" ")[:200] or None
        cluster = (row["class_name"] if dead else None, row["destination"], exception, pattern)
        if cluster[0] or exception or pattern:
            found[cluster].append(row)
    return sorted(
        (
            (
                *cluster,
                len({row["id"] for row in alike}),
                len({row["store"] for row in alike}),
                min((row["sent"] for row in alike if row["sent"] is not None), default=None),
                max((row["sent"] for row in alike if row["sent"] is not None), default=None),
                min(row["id"] for row in alike),
            )
            for cluster, alike in found.items()
        ),
        key=repr,
    )


class DeadLetterTests(SynchronousTestCase):
    """Messages that failed for the same reason."""

    def check(self, held: list[Row]) -> list[tuple[Any, ...]]:
        found = rows(clusters(failures(messages(*held))), NAMES)
        self.assertEqual(found, naive(held))
        return found

    def test_clusters(self) -> None:
        """Dead letters cluster by class, messages that a receiver gave up by its exception; the rest
        did not fail.
        """
        late = {"class": 0x8002}
        order = "Order 17 of 'Miller' {A1FA0000-0000-4000-8000-000000000001} is gone\r\n   at Shop.Find()"
        other = order.replace("17", "4711").replace("Miller", "Smith")
        held = [
            message(1, "dead_letter", sent=SENT, **late),
            message(2, "dead_letter", sent=SENT + 5, **late),
            message(2, "dead_letter_transactional", store="BETA", **late),
            message(3, "dead_letter", **{"class": 0x8004}),
            message(4, "queue", headers=headers(ExceptionType="Shop.Gone", Message=order)),
            message(5, "journal", headers=headers(ExceptionType="Shop.Gone", Message=other)),
            message(6, "queue", headers=[("rbs2-error-details", b"System.IO.IOException: disk 3 is full")]),
            message(7, "queue"),
            message(8, "queue", headers=[("NServiceBus.MessageId", b"x")]),
            message(9, "source_journal", headers=headers(ExceptionType="Shop.Gone")),
        ]
        gone = "Order <number> of <text> <id> is gone"
        disk = "System.IO.IOException: disk <number> is full"
        nack = "MQMSG_CLASS_NACK_"
        self.assertEqual(
            {row[:5] for row in self.check(held)},
            {
                (f"{nack}REACH_QUEUE_TIMEOUT", TARGET, None, None, 2),
                (f"{nack}ACCESS_DENIED", TARGET, None, None, 1),
                (None, TARGET, "Shop.Gone", gone, 2),
                (None, TARGET, "System.IO.IOException", disk, 1),
            },
        )

    def test_a_body_that_is_an_exception(self) -> None:
        """A .NET exception object is used with its text; other objects are not, and headers take
        precedence.
        """
        thrown = {"$type": "Shop.Gone", "ClassName": "Shop.Gone", "Message": "Order 17 is gone"}
        held = [
            message(1, "queue", decoded=json.dumps({"format": "nrbf", "value": thrown})),
            message(2, "queue", decoded=json.dumps({"format": "json", "value": thrown})),
            message(3, "queue", decoded=json.dumps({"format": "nrbf", "value": "Gone"})),
            message(
                4,
                "queue",
                headers=headers(ExceptionType="Shop.Late", Message="7"),
                decoded=json.dumps({"format": "nrbf", "value": thrown}),
            ),
        ]
        self.assertEqual(
            {row[:5] for row in self.check(held)},
            {
                (None, TARGET, "Shop.Gone", "Order <number> is gone", 1),
                (None, TARGET, "Shop.Late", "<number>", 1),
            },
        )

    def test_a_fault_of_a_service(self) -> None:
        """Faults of SOAP 1.2 and of SOAP 1.1."""
        reason = {"Text": {"@lang": "en", "#text": "no order 7"}}
        faults = ({"Code": {"Value": "s:Sender"}, "Reason": reason}, {"faultcode": "a", "faultstring": "b 8"})
        held = [
            message(
                number,
                "queue",
                decoded=json.dumps({"format": "wcf", "value": {"Envelope": {"Body": {"Fault": fault}}}}),
            )
            for number, fault in enumerate(faults)
        ]
        self.assertEqual(
            {row[2:5] for row in rows(clusters(failures(messages(*held))), NAMES)},
            {("s:Sender", "no order <number>", 1), ("a", "b <number>", 1)},
        )

    def test_no_failures(self) -> None:
        """Without failures there are no clusters."""
        self.assertEqual(self.check([]), [])

    @FEW
    @given(st.data())
    def test_any_failures(self, data: st.DataObject) -> None:
        """For any failures, the clusters are those of the naive calculation."""
        texts = st.text("ab '\"17:\r\n{}Ä", max_size=12) | st.sampled_from(
            ["My.Exception: 7", "", " ", "Error"]
        )
        names = st.sampled_from(
            [
                "NServiceBus.ExceptionInfo.ExceptionType",
                "NServiceBus.ExceptionInfo.Message",
                "rbs2-error-details",
            ]
        )
        held = [
            message(
                data.draw(st.integers(1, 9)),
                data.draw(st.sampled_from(["queue", "dead_letter", "dead_letter_transactional", "wire"])),
                store=data.draw(st.sampled_from(["ALPHA", "BETA"])),
                destination=data.draw(st.sampled_from([TARGET, None])),
                sent=data.draw(st.none() | st.integers(SENT, SENT + 3)),
                headers=data.draw(
                    st.none()
                    | st.lists(st.tuples(names, texts.map(str.encode)), unique_by=lambda one: one[0])
                ),
                **{"class": data.draw(st.sampled_from([0x8002, 0x8004]))},
            )
            for _ in range(data.draw(st.integers(0, 40)))
        ]
        self.check(held)
