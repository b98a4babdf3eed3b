"""Demonstration of the Spark jobs: among fifty thousand messages they find exactly the injected faults.

C{make demo-pipeline} runs this.  It starts ALPHA on 127.0.0.2 and BETA on 127.0.0.3 as real processes, which
exchange

  - 20,000 express messages, through a proxy that loses some, repeats some, whose duplicates BETA
    discards, and swaps some;
  - 20,000 transactional and 8,000 recoverable messages, without faults;
  - 1,000 messages that are not received in time, and 1,000 for an unreachable host.

The jobs read both stores while the servers run and, as Parquet, the packets that the proxy recorded.  Their
findings are compared, message by message, with the injected faults.
Then the records of the transactional messages are exported and edited: some are removed, some duplicated,
some swapped; and the jobs run again.

Their reports go to the directory that is given as argument, or to C{_demo_pipeline}; status 0 means that
they found all faults, and nothing else.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pyarrow
from demo_edited_records import Edited, edit, export
from demo_meddler import Meddler, Mischief, identifier
from demo_servers import QueueManager, ServerFailed, queue_manager
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark import SparkContext
from pyspark.errors import PySparkException

from msmq import MsmqError, UserMessageView
from msmq.control.client.client import Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.reports import text_page
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import MESSAGE_COLUMNS, names_of
from msmq.pipeline.spark.command import parser
from msmq.pipeline.spark.command import run as run_job
from msmq.pipeline.spark.session import find_java, find_spark, make_session, settings_for_little_data
from msmq.pipeline.stored_packets import StoredPacket

ALPHA, BETA, DEAD = "127.0.0.2", "127.0.0.3", "127.0.0.9"
ORDERS = r".\private$\orders"
PAYMENTS = r".\private$\payments"
LETTERS = r".\private$\letters"
OFFERS = r".\private$\offers"
RECEIPTS = r".\private$\receipts"
EXPRESS, TRANSACTIONAL, RECOVERABLE, LATE, NOWHERE = 20_000, 20_000, 8_000, 1_000, 1_000
TOGETHER = 200
"""Messages in one transaction."""
AT_ONCE = 2
"""Jobs that run at the same time."""
PATIENCE = 120.0
LIMIT = 3
"""Seconds in which the late messages are not received, and the dead host does not answer."""


@attrs.define
class Verdict:
    """Comparison of findings with injected faults.

    @ivar wrong: the differences, as texts.
    """

    wrong: list[str] = attrs.field(factory=list)

    def compare(self, what: str, done: Iterable[object], found: Iterable[object]) -> None:
        """Compare findings with injected faults, including their counts."""
        wanted, got = Counter(done), Counter(found)
        agree = wanted == got
        print(f"  {what:<58} {wanted.total():>7,} {got.total():>7,}  {'as injected' if agree else 'WRONG'}")
        if not agree:
            self.wrong.append(
                f"{what}: {wanted.total()} injected, {got.total()} found,"
                f" {(wanted - got).total()} of the first are missing, {(got - wanted).total()} are too many"
            )


@attrs.frozen
class Estate:
    """Sent messages, by their identifiers."""

    express: Sequence[str]
    transactional: Sequence[str]
    recoverable: Sequence[str]
    late: Sequence[str]
    nowhere: Sequence[str]


def destination(address: str, queue: str) -> str:
    """The direct format name of a queue at an address."""
    return rf"DIRECT=TCP:{address}\{queue[2:]}"


def is_express(view: UserMessageView) -> bool:
    """Whether the meddler may change a message: those for the queue of orders, and no acknowledgements."""
    return not view.is_recoverable and view.message_class == 0


def send(manager: QueueManager, address: str, queue: str, count: int, **properties: object) -> list[str]:
    """Send this number of messages; return their identifiers, in sending order."""
    header = {"destination": destination(address, queue), **properties}

    def records() -> Iterator[StreamRecord]:
        for number in range(count):
            body = f"{queue} {number}".encode()
            yield StreamRecord({**header, "label": f"{number:06}"}, body)

    return list(manager.client.send(records()))


def send_in_transactions(
    manager: QueueManager, address: str, queue: str, count: int, **properties: object
) -> list[str]:
    """Send messages, many in each transaction; the sender keeps copies in its journal."""
    header = {
        "destination": destination(address, queue),
        "journal": True,
        "transactional": True,
        **properties,
    }
    sent: list[str] = []
    for first in range(0, count, TOGETHER):
        batch = [
            StreamRecord({**header, "label": f"{first + number:06}"}, b"paid") for number in range(TOGETHER)
        ]
        sent += manager.client.send(batch, one_transaction=True)
    return sent


def take(manager: QueueManager, queue: str, count: int) -> None:
    """Receive this number of messages: a sender journals transactional ones only once they are received."""
    with manager.client.receive(queue, count=count, timeout=PATIENCE) as stream:
        for item in stream:
            if isinstance(item, Receipt):
                item.confirm()


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    """Wait until a condition holds.

    @raise ServerFailed: it takes too long.
    """
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{what} after {PATIENCE:.0f} seconds")
        time.sleep(0.2)


def exchange(
    alpha: QueueManager, beta: QueueManager, mischief: Mischief, threads: ThreadPoolExecutor
) -> Estate:
    """Send all messages in both directions at once, and wait until each has arrived or failed."""
    for queue, manager, options in (
        (ORDERS, beta, {"log": True}),
        (PAYMENTS, beta, {"log": True, "transactional": True}),
        (OFFERS, beta, {}),
        (LETTERS, alpha, {"log": True}),
        (RECEIPTS, beta, {"log": True}),
    ):
        manager.client.create_queue(queue, options)
    dead = {"delivery": "recoverable", "dead_letter": True}
    receipts = {"acknowledge": ["reach"], "admin_queue": destination(BETA, RECEIPTS)}
    kept = {"delivery": "recoverable", "journal": True}
    calls: Sequence[tuple[Callable[..., list[str]], Sequence[Any], Mapping[str, Any]]] = (
        (send, (alpha, BETA, ORDERS, EXPRESS), {}),
        (send_in_transactions, (alpha, BETA, PAYMENTS, TRANSACTIONAL), {}),
        (send, (beta, ALPHA, LETTERS, RECOVERABLE), {**kept, **receipts}),
        (send, (alpha, BETA, OFFERS, LATE), {**dead, "time_to_be_received": LIMIT}),
        (send, (alpha, DEAD, OFFERS, NOWHERE), {**dead, "time_to_reach_queue": LIMIT}),
    )
    sending = [threads.submit(sender, *what, **properties) for sender, what, properties in calls]
    take(beta, PAYMENTS, TRANSACTIONAL)
    sent = Estate(*(each.result() for each in sending))
    wait_for("the proxy has not seen every express message", lambda: len(mischief.packets) == EXPRESS)
    wanted = {
        # Duplicates of express messages are discarded on arrival.
        (beta, ORDERS): EXPRESS - len(mischief.lost),
        (beta, PAYMENTS): 0,
        (alpha, LETTERS): RECOVERABLE,
        (beta, RECEIPTS): RECOVERABLE,
        (beta, OFFERS): 0,
        (beta, r".\system$;deadletter"): LATE,
        (alpha, r".\system$;deadletter"): NOWHERE,
        (alpha, r".\system$;journal"): TRANSACTIONAL,
        (beta, r".\system$;journal"): RECOVERABLE,
    }
    for (manager, queue), count in wanted.items():
        wait_for(
            f"{manager.name} has not {count} messages in {queue}",
            lambda manager=manager, queue=queue, count=count: (  # type: ignore[misc]
                manager.client.queue(queue)["messages"] == count
            ),
        )
    return sent


class Jobs:
    """Runs jobs, as C{python -m msmq.pipeline} does, several at once in one Spark session.

    The session starts while the messages travel.  A job plans its queries in one thread, so that one job
    alone leaves a second core idle.

    @ivar pages: the reports, in the order in which the jobs were started.
    """

    def __init__(self, reports: Path, verdict: Verdict) -> None:
        self._reports = reports
        self._verdict = verdict
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="job")
        self._started = self._threads.submit(start_spark)
        self.pages: list[Path] = []

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if kind is not None and not self._started.exception():
            self._started.result().cancelAllJobs()
        self._threads.shutdown()

    def start(self, job: str, name: str, inputs: Mapping[str, Path]) -> Future[Path]:
        """Start a job; the result is the directory with its tables, or L{ServerFailed}."""
        output = self._reports / name
        given = [f"--input={store}={path}" for store, path in inputs.items()]
        self.pages.append(output / "report.html")
        return self._threads.submit(self._run, [job, *given, "--output", str(output)], output)

    def _run(self, arguments: Sequence[str], output: Path) -> Path:
        self._started.result()
        options = parser().parse_args(arguments)
        try:
            outcome = run_job(options.job, options)
        except (PySparkException, Py4JError) as error:
            raise ServerFailed(f"the job {options.job.name} failed: {error}") from error
        title, _, _, headline, *_ = text_page(outcome.report).splitlines()
        # One write, since the other jobs write too.
        print(f"\n$ python -m msmq.pipeline {' '.join(arguments)}\n{title}: {headline}\n", end="", flush=True)
        if "<svg" not in (output / "report.html").read_text(encoding="utf-8"):
            self._verdict.wrong.append(f"{output / 'report.html'} has no plots")
        return output


def start_spark() -> SparkContext:
    """Start the session that the jobs use."""
    # The jobs plan queries once, with few parts of each table, in a session that they have made, and leave
    # other ones as they are.
    few = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    context = make_session("msmq demo", settings={**settings_for_little_data(), **few}).sparkContext
    context.setLogLevel("OFF")
    return context


def table(output: Path, name: str, **wanted: object) -> list[dict[str, object]]:
    """The rows with these values of a table that a job wrote."""
    rows = parquet.read_table(output / name).to_pylist()
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def ids(rows: Iterable[Mapping[str, object]]) -> list[object]:
    """The identifiers of rows."""
    return [row["id"] for row in rows]


@attrs.frozen
class Findings:
    """Directories with the tables of the jobs on both stores, once they are done."""

    loss: Future[Path]
    sequences: Future[Path]
    deadletters: Future[Path]
    latency: Future[Path]
    quota: Future[Path]


def examine_stores(jobs: Jobs, stores: Mapping[str, Path]) -> Findings:
    """Start the jobs on both stores."""
    both = {name: stores[name] for name in ("ALPHA", "BETA")}
    others = ("sequences", "deadletters", "latency", "quota")
    return Findings(jobs.start("loss", "loss", stores), *(jobs.start(job, job, both) for job in others))


def judge_stores(found: Findings, verdict: Verdict, sent: Estate, mischief: Mischief) -> None:
    """Check the findings of the jobs in both stores."""
    loss, streams, dead_letters = found.loss.result(), found.sequences.result(), found.deadletters.result()
    latency, _ = found.latency.result(), found.quota.result()
    print("\nInjected by the proxy, by time limits and by a dead host: injected, found")
    own = {*sent.express, *sent.transactional, *sent.recoverable, *sent.late, *sent.nowhere}
    fates = [row for row in table(loss, "fates") if row["id"] in own]
    by_fate = {fate: [row for row in fates if row["fate"] == fate] for fate in {row["fate"] for row in fates}}
    verdict.compare("loss: express messages lost", mischief.lost, ids(by_fate.get("lost", ())))
    verdict.compare("loss: express messages kept twice", [], ids(by_fate.get("duplicated", ())))
    dead = by_fate.get("dead_letter", ())
    for what, messages, reason in (
        ("expired in their queue", sent.late, "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT"),
        ("for the dead host", sent.nowhere, "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT"),
    ):
        verdict.compare(
            f"loss: messages {what}", messages, ids(row for row in dead if row["reason"] == reason)
        )
    touched = {*mischief.lost, *sent.late, *sent.nowhere}
    verdict.compare("loss: all others were delivered", own - touched, ids(by_fate.get("delivered", ())))
    verdict.compare("sequences: express duplicates", [], ids(table(streams, "findings", kind="duplicate")))
    verdict.compare(
        "sequences: express reordered", mischief.swapped, ids(table(streams, "findings", kind="reordered"))
    )
    verdict.compare("sequences: transactional gaps", [], ids(table(streams, "findings", kind="gap")))
    whole = [row for row in table(streams, "streams") if row["exactly_once"]]
    verdict.compare(
        "sequences: transactional messages, exactly once and in order",
        range(TRANSACTIONAL),
        range(sum(int(str(row["messages"])) for row in whole)),
    )
    clusters = {row["class_name"]: row["messages"] for row in table(dead_letters, "clusters")}
    verdict.compare(
        "deadletters: clusters",
        {"MQMSG_CLASS_NACK_RECEIVE_TIMEOUT": LATE, "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT": NOWHERE}.items(),
        clusters.items(),
    )
    answered = [row for row in table(latency, "skews") if row["answers"]]
    acknowledged = sum(int(str(row["answers"])) for row in answered)
    verdict.compare("latency: acknowledged messages", range(RECOVERABLE), range(acknowledged))
    same = all(int(str(row["skew_at_least"])) <= 0 <= int(str(row["skew_at_most"])) for row in answered)
    verdict.compare("latency: routes whose clocks may be the same", [True], [same])


@attrs.frozen
class EditedFindings:
    """Changes of exported records, and directories with what the jobs find in them, once they are done."""

    done: Edited
    sequences: Future[Path]
    loss: Future[Path]


def examine_edited(jobs: Jobs, stores: Mapping[str, Path], place: Path) -> EditedFindings:
    """Export the transactional messages, edit them, and start the jobs on the result."""
    records, edited = place / "records", place / "BETA.parquet"
    export(stores["BETA"], PAYMENTS, records)
    done = edit(records, edited)
    return EditedFindings(
        done,
        jobs.start("sequences", "sequences-edited", {"BETA": edited}),
        jobs.start("loss", "loss-edited", {"ALPHA": stores["ALPHA"], "BETA": edited}),
    )


def judge_edited(found: EditedFindings, verdict: Verdict, sent: Estate) -> None:
    """Check the findings of the jobs in edited records."""
    done, streams, loss = found.done, found.sequences.result(), found.loss.result()
    print("\nInjected by editing the exported records of the transactional messages: injected, found")
    findings = table(streams, "findings")
    by_kind = Counter(row["kind"] for row in findings)
    missing = sum(int(str(row["missing"])) for row in findings if row["kind"] == "gap")
    verdict.compare("sequences: gaps", range(done.gaps), range(by_kind["gap"]))
    verdict.compare("sequences: messages missing in gaps", range(len(done.removed)), range(missing))
    for kind, names in (("duplicate", done.repeated), ("reordered", done.swapped)):
        verdict.compare(f"sequences: {kind}", names, ids(row for row in findings if row["kind"] == kind))
    lost = ids(row for row in table(loss, "fates") if row["fate"] == "lost")
    verdict.compare("loss: messages without a record", done.removed, lost)
    doubled = ids(table(loss, "fates", fate="duplicated"))
    verdict.compare("loss: messages with two records", done.repeated, doubled)
    paid = {*sent.transactional} - {*done.removed, *done.repeated}
    delivered = {*ids(table(loss, "fates", fate="delivered"))} & {*sent.transactional}
    verdict.compare("loss: all other transactional messages", paid, delivered)


def run(directory: Path, reports: Path) -> Verdict:
    """Run all steps."""
    verdict = Verdict()
    mischief = Mischief(lose=251, swap=173)
    with (
        Jobs(reports, verdict) as jobs,
        Meddler(mischief, is_express) as meddler,
        ThreadPoolExecutor() as threads,
        queue_manager("ALPHA", ALPHA, {BETA: meddler.tap(ALPHA, BETA)}, directory) as alpha,
        queue_manager("BETA", BETA, {}, directory) as beta,
    ):
        started = time.monotonic()
        print(
            f"ALPHA on {ALPHA} and BETA on {BETA} run; no server runs at {DEAD}."
            f" {EXPRESS + TRANSACTIONAL + RECOVERABLE + LATE + NOWHERE:,} messages leave.",
            flush=True,
        )
        sent = exchange(alpha, beta, mischief, threads)
        print(
            f"All have come, or are dead, after {time.monotonic() - started:.1f} s. The proxy lost"
            f" {len(mischief.lost)} express messages, let {len(mischief.repeated)} come more than once,"
            f" of which BETA kept one, and swapped {len(mischief.swapped)} pairs."
        )
        seen = directory / "WIRE.parquet"
        packets = [
            StoredPacket(packet, "wire", place, timestamp_type=0)
            for place, packet in enumerate(mischief.packets)
        ]
        batch = message_batch(packets, names_of(MESSAGE_COLUMNS))
        parquet.write_table(pyarrow.Table.from_batches([batch]), seen)
        verdict.compare("the proxy saw what ALPHA sent", sent.express, map(identifier, mischief.packets))
        stores = {"ALPHA": directory / "ALPHA", "BETA": directory / "BETA", "WIRE": seen}
        found = examine_stores(jobs, stores)
        found_in_edited = examine_edited(jobs, stores, directory)
        judge_stores(found, verdict, sent, mischief)
        judge_edited(found_in_edited, verdict, sent)
    print("\nReports with plots:")
    for page in jobs.pages:
        print(f"  {page}")
    return verdict


def main(arguments: Sequence[str]) -> int:
    """Run the demo, print its result, and return the exit status."""
    if len(arguments) > 1:
        print("usage: demo_pipeline.py [DIRECTORY]", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reports = Path(arguments[0] if arguments else "_demo_pipeline")
    if reports.exists() and not arguments:
        shutil.rmtree(reports)
    started = time.monotonic()
    try:
        find_spark()
        find_java()
        with tempfile.TemporaryDirectory(prefix="msmq-demo-") as directory:
            wrong = run(Path(directory), reports).wrong
    except (ServerFailed, MsmqError, OSError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        wrong = ["interrupted"]
    for problem in wrong:
        print(f"demo-pipeline: {problem}", file=sys.stderr)
    if not wrong:
        print(
            "\nVerdict: the jobs found exactly what was injected, and nothing else."
            f"  The demo took {time.monotonic() - started:.1f} s."
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
