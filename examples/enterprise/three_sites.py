"""Six queue managers in three sites: messages are routed through gates, and around a gate that is killed.

C{python examples/enterprise/three_sites.py} starts them all from C{enterprise.toml}, or from another file
with the same names, on six addresses of this host.
ANNA in Berlin sends transactional messages to the public queue C{orders} of LUCA in Rome.
The gate of Paris, on the least-cost route, is killed with SIGKILL in the middle, and started
again at the end: acknowledgements may be in its store only.
It ends with status 0 only if every guarantee was kept:

  - each message arrives exactly once, and in the order of sending;
  - messages sent before the kill were routed through Paris, and later ones directly to Rome;
  - no acknowledgement is lost with the gate: ANNA has no pending message, and journals every message.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import attrs

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from demo_servers import QueueManager, ServerFailed, queue_manager  # noqa: E402

from msmq import MQError  # noqa: E402
from msmq.cli.readable import cell  # noqa: E402
from msmq.control.client.client import Delivered, Receipt  # noqa: E402
from msmq.control.protocol.records import StreamRecord  # noqa: E402
from msmq.directory.enterprise_file import EnterpriseFileError, load_enterprise  # noqa: E402

ENTERPRISE = HERE / "enterprise.toml"
COUNT = 100
"""Messages before the gate is killed, and after it."""
TOGETHER = 10
PATIENCE = 60.0
SETTINGS = "[timers]\nsession_retry = 0.5"
"""A gate that has lost a session reconnects before it uses an alternate; here it does so soon."""
ORDERS = r"LUCA\orders"
JOURNAL = r".\system$;journal"


@attrs.frozen
class Arrived:
    """The record of one message that arrived."""

    label: str
    hops: int


def send(sender: QueueManager, first: int) -> None:
    """Send numbered messages, some in each transaction."""

    def records(start: int) -> Iterator[StreamRecord]:
        for number in range(start, start + TOGETHER):
            label = f"{number:04}"
            yield StreamRecord(
                {"destination": ORDERS, "label": label, "transactional": True, "journal": True},
                label.encode(),
            )

    for start in range(first, first + COUNT, TOGETHER):
        for _ in sender.client.send(records(start), one_transaction=True):
            pass


def receive(receiver: QueueManager, count: int) -> list[Arrived]:
    """The messages that arrive, up to the expected number, or until a pause."""
    arrived: list[Arrived] = []
    with receiver.client.receive(ORDERS, count=count, timeout=PATIENCE) as stream:
        for item in stream:
            match item:
                case Delivered(properties, _):
                    arrived.append(Arrived(properties["label"], properties["hops"]))
                case Receipt():
                    item.confirm()
    return arrived


def settled(sender: QueueManager) -> list[str]:
    """Wait until every message is acknowledged from end to end, and return those that are not."""
    deadline = time.monotonic() + PATIENCE
    while True:
        waiting = sum(queue["messages"] for queue in sender.client.outgoing())
        journaled = sender.client.queue(JOURNAL)["messages"]
        if not waiting and journaled == 2 * COUNT:
            return []
        if time.monotonic() > deadline:
            return [f"{waiting} messages of {sender.name} wait, and {journaled} of {2 * COUNT} are journaled"]
        time.sleep(0.1)


def show_route(sender: QueueManager) -> None:
    """The route, as C{msmq route ANNA LUCA} prints it."""
    route = sender.client.route("ANNA", "LUCA")
    print(f"from ANNA to LUCA, cost {route['cost']}:")
    for hop in route["hops"]:
        print(f"  {hop['name']:<5} {cell(hop['cost'])}  {hop['reason']}")


def judge(arrived: Sequence[Arrived], first: int, hops: int) -> list[str]:
    """The violations among messages that should have passed this number of gates."""
    expected = [f"{number:04}" for number in range(first, first + COUNT)]
    broken = []
    if [each.label for each in arrived] != expected:
        broken.append(
            f"{len(arrived)} messages arrived, {len({each.label for each in arrived})} different,"
            f" where {COUNT} were sent from {expected[0]} on"
        )
    ways = {each.hops for each in arrived}
    if ways != {hops}:
        broken.append(f"messages made {sorted(ways)} hops, not {hops}")
    return broken


def run(enterprise: Path, directory: Path) -> list[str]:
    """Run all steps, and return the violated guarantees."""
    file = load_enterprise(enterprise)
    machines = file.topology.queue_managers
    with ThreadPoolExecutor(len(machines)) as threads, ExitStack() as running:
        starting = [
            threads.submit(
                running.enter_context,
                queue_manager(
                    machine.name, machine.address, {}, directory, enterprise=enterprise, settings=SETTINGS
                ),
            )
            for machine in machines
        ]
        members = {member.name: member for member in (each.result() for each in starting)}
        anna, luca, iris = members["ANNA"], members["LUCA"], members["IRIS"]
        luca.client.create_queue(ORDERS, {"transactional": True})
        print(f"{', '.join(members)} run.")
        wait_for_topology(anna)
        show_route(anna)
        send(anna, 0)
        broken = report(receive(luca, COUNT), 0, 3)
        iris.kill()
        print("IRIS, the gate of Paris, was killed with SIGKILL.", flush=True)
        send(anna, COUNT)
        broken += report(receive(luca, COUNT), COUNT, 2)
        iris.start()
        print("IRIS runs again, and hands on what it had.", flush=True)
        broken += settled(anna)
        print(f"ANNA has {anna.client.queue(JOURNAL)['messages']} messages in its journal, all delivered.")
        return broken


def wait_for_topology(member: QueueManager) -> None:
    """Wait until the directory has been read; nothing is routed before that."""
    deadline = time.monotonic() + PATIENCE
    while not member.client.topology()["sites"] and time.monotonic() < deadline:
        time.sleep(0.05)


def report(arrived: Sequence[Arrived], first: int, hops: int) -> list[str]:
    """Print the messages that arrived, and return the violations."""
    broken = judge(arrived, first, hops)
    order = "in the order of sending" if not broken else "NOT AS THEY SHOULD"
    ways = ", ".join(str(way) for way in sorted({each.hops for each in arrived}))
    print(f"{len(arrived)} messages arrived at LUCA over {ways} gates, {order}.")
    return broken


def main() -> int:
    """Run the example, print its result, and return the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    enterprise = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ENTERPRISE
    try:
        with tempfile.TemporaryDirectory(prefix="msmq-enterprise-") as directory:
            broken = run(enterprise, Path(directory))
    except (ServerFailed, EnterpriseFileError, MQError, OSError) as error:
        broken = [str(error)]
    except KeyboardInterrupt:
        broken = ["interrupted"]
    for problem in broken:
        print(f"enterprise: {problem}", file=sys.stderr)
    if not broken:
        print(f"Every promise held.  The example took {time.monotonic() - started:.1f} s.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
