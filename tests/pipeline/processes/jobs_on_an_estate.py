"""All jobs on three servers with three kinds of store: what they report is what their senders know.

C{MSMQ_ESTATE} is the number of messages of each kind where it shall be another than usual;
C{make estate-jobs} runs with two thousand, and runs the jobs on an archive and an export too.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
from pyarrow import parquet

from msmq.pipeline.spark.command import main
from tests.pipeline.processes.fateful_estate import AGAIN, MACHINES, PAYMENTS, SCHEMA, FatefulEstate
from tests.pipeline.spark_support import SparkTestCase
from tests.servers.postgresql import shared_server

SIZE = int(os.environ.get("MSMQ_ESTATE") or 0)
COUNT = SIZE or 20


def named(definition: Any) -> str:
    """The path in the stored definition of a queue, of those that are looked at."""
    paths = ("system$;journal", "system$;deadletter", "orders")
    return next((path for path in paths if path.encode() in bytes(definition)), "")


class EstateJobTests(SparkTestCase):
    """Jobs on SQLite, the record log and PostgreSQL at once."""

    def setUp(self) -> None:
        super().setUp()
        running = ExitStack()
        self.addCleanup(running.close)
        self.estate = FatefulEstate(running, shared_server())
        self.output = self.estate.directory / "reports"

    def run_job(self, job: str, *arguments: str, status: int = 0, name: str = "", inputs: Any = None) -> str:
        """Run a job on all stores; gives its report."""
        out, err = StringIO(), StringIO()
        places = self.estate.locations if inputs is None else inputs
        given = [f"--input={place}={location}" for place, location in places.items()]
        with redirect_stdout(out), redirect_stderr(err):
            found = main([job, *given, "--output", str(self.output / (name or job)), *arguments])
        self.assertEqual((found, err.getvalue()), (status, ""))
        return out.getvalue()

    def table(self, job: str, name: str) -> list[dict[str, Any]]:
        """A table that a job has written."""
        rows: list[dict[str, Any]] = parquet.read_table(self.output / job / name).to_pylist()
        return rows

    def fates(self, job: str) -> dict[str, str]:
        """The fate of each message by a run of C{loss}."""
        rows = self.table(job, "fates")
        found = {row["id"]: row["fate"] for row in rows}
        # One row a message, so that the fates sum to the messages.
        self.assertEqual(len(rows), len(found))
        return found

    def test_jobs(self) -> None:
        """Every message has the fate that its sender knows, and every job agrees with SQL on the stores."""
        estate = self.estate
        estate.happen(COUNT)
        report = self.run_job("loss")
        found = self.fates("loss")
        differences = {
            (estate.expected.get(one), found.get(one))
            for one in {*found, *estate.expected}
            if estate.expected.get(one) != found.get(one)
        }
        self.assertEqual(differences, set())
        total = len(estate.expected)
        self.assertRegex(report, rf"messages in all, the sum of the fates:? +{total:,}")
        self.assert_stored()
        self.assert_routes()
        self.assert_latency()
        self.run_job("sequences")
        streams = [row for row in self.table("sequences", "streams") if row["sequence_id"] is not None]
        self.assertEqual(sum(row["messages"] for row in streams), 2 * COUNT)
        self.assertTrue(all(row["exactly_once"] for row in streams))
        self.assert_replay()
        if SIZE:
            self.assert_other_jobs()
            self.assert_other_inputs()

    def assert_stored(self) -> None:
        """SQL on the files of ALPHA and the schema of GAMMA counts what the jobs have read."""
        counted: Counter[str] = Counter()
        sql = "SELECT definition, count(*) FROM {0} JOIN queue ON queue.id = {0}.queue GROUP BY definition"
        with closing(sqlite3.connect(self.estate.members["ALPHA"].data / "msmq.sqlite")) as connection:
            for definition, count in connection.execute(sql.format("message")):
                counted[f"ALPHA {named(definition)}"] = count
        with psycopg.connect(self.estate.server.url()) as link:
            link.execute(f"SET search_path = {SCHEMA}".encode())
            for definition, number in link.execute(sql.format("log").encode()).fetchall():
                counted[f"GAMMA {named(definition)}"] = int(str(number))
        self.assertEqual(counted["GAMMA orders"], 2 * COUNT + 5)
        self.assertEqual(counted["ALPHA system$;journal"], 2 * COUNT)
        self.assertEqual(counted["ALPHA system$;deadletter"], 4)
        # Each of the journaled copies is known to have arrived.
        rows = self.table("loss", "fates")
        journaled = [row for row in rows if row["journaled"]]
        self.assertEqual({row["fate"] for row in journaled}, {"delivered"})
        self.assertEqual(len(journaled), counted["ALPHA system$;journal"])

    def assert_routes(self) -> None:
        """The traced messages went through the gate, as the enterprise has it."""
        report = self.run_job("routes", "--enterprise", str(self.estate.enterprise))
        paths = self.table("routes", "paths")
        self.assertEqual(sorted(row["id"] for row in paths), sorted(self.estate.traced))
        machines = [f"00000000-0000-0000-0000-{0xB000 + number:012X}" for number in MACHINES.values()]
        self.assertEqual([row["path"] for row in paths], [machines] * len(paths))
        self.assertIn("ALPHA > BETA > GAMMA", report)
        self.assertEqual({row["verdict"] for row in self.table("routes", "routes")}, {"least_cost"})

    def assert_latency(self) -> None:
        """Each message that arrived is on the route that it took, by the names of the inputs."""
        report = self.run_job("latency")
        delays = self.table("latency", "delays")
        # What came into a queue without a log, and was received since, has no time of arrival any more.
        held = Counter((row["store"], row["queue"]) for row in delays)
        self.assertEqual(held["GAMMA", r".\orders"], 2 * COUNT + 5)
        self.assertEqual(held["BETA", PAYMENTS], 2 * COUNT)
        self.assertIn("ALPHA", report)

    def assert_replay(self) -> None:
        """The payments are sent again once, however often the replay runs."""
        control = str(self.estate.members["GAMMA"].data)
        inputs = {"BETA": self.estate.locations["BETA"]}
        for turn in range(2):
            self.run_job(
                *("replay", "--control", control, "--into", AGAIN, "--queue", PAYMENTS),
                name=f"replay {turn}",
                inputs=inputs,
            )
            self.assertEqual(self.estate.count("GAMMA", AGAIN), 2 * COUNT)

    def assert_other_jobs(self) -> None:
        """The jobs on dead letters, quotas, levels and shapes, and what an enterprise would cost."""
        self.run_job("deadletters")
        found = {row["class_name"]: row["messages"] for row in self.table("deadletters", "clusters")}
        expected = {"MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT": 4, "MQMSG_CLASS_NACK_BAD_DST_Q": 3}
        self.assertEqual(found, expected)
        refused = self.estate.fates()["refused"]
        report = self.run_job("quota")
        self.assertIn(f"{refused:,} were refused over a quota", report)
        self.run_job(
            *("sla", "--trust-clocks", "--limit", "lost=0", "--limit", f"refused={refused}"),
            *("--limit", "dead_letter=6"),
            status=3,
        )
        verdicts = {row["name"]: row["verdict"] for row in self.table("sla", "limits")}
        self.assertEqual(verdicts, {"lost": "kept", "refused": "kept", "dead_letter": "exceeded"})
        self.run_job("drift")
        self.assertEqual(self.table("drift", "changes"), [])
        output = str(self.output / "topology")
        with redirect_stdout(StringIO()):
            status = main(["topology", "--enterprise", str(self.estate.enterprise), "--output", output])
        self.assertEqual(status, 0)

    def assert_other_inputs(self) -> None:
        """The same fates from an archive of one server and an export of another."""
        archive, records = self.estate.directory / "archive", self.estate.directory / "records.parquet"
        self.msmq(
            *("GAMMA", "archive", "update", str(archive), "--compact"),
            *("--store", self.estate.locations["GAMMA"]),
        )
        self.msmq("BETA", "export", PAYMENTS, "--log", "--output", str(records))
        self.run_job("sequences", name="exported", inputs={"BETA": str(records)})
        streams = [row for row in self.table("exported", "streams") if row["sequence_id"] is not None]
        self.assertEqual(sum(row["messages"] for row in streams), 2 * COUNT)
        inputs = {**self.estate.locations, "GAMMA": str(archive)}
        self.run_job("loss", name="archived", inputs=inputs)
        found = self.fates("archived")
        orders = [row["id"] for row in self.table("latency", "delays") if row["queue"] == r".\orders"]
        self.assertEqual({found[one] for one in orders}, {"delivered"})

    def msmq(self, name: str, *arguments: str) -> None:
        """Run the command on a server."""
        program = Path(sys.executable).with_name("msmq")
        data = str(self.estate.members[name].data)
        done = subprocess.run(
            [program, "--data", data, *arguments], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
