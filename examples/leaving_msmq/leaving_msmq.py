"""Three queue managers leave, one endpoint at a time, while orders are taken: see README.md."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msmq import MQError
from msmq.client import Client, message_to

ORDERS, INVOICES, TRIAL = ".\\private$\\orders", ".\\private$\\invoices", ".\\private$\\trial"
SHADOW = f"""
[[shadow]]
queue = '{ORDERS}'
to = 'DIRECT=OS:NEWOFFICE\\private$\\trial'
compare = {{ original = '{INVOICES}', shadow = '{TRIAL}', late = 60 }}
"""


class Machine:
    """One queue manager, with the data directory DIRECTORY/NAME."""

    def __init__(self, name: str, addresses: Mapping[str, str], directory: Path) -> None:
        self.name, self.data = name, directory / name
        self._addresses, self._directory = addresses, directory
        self.client = Client(self.data, reconnect=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, settings: str = "") -> None:
        """Start its server; its client waits until it runs."""
        hosts = "".join(f'{name} = "{address}"\n' for name, address in self._addresses.items())
        configuration = self._directory / f"{self.name}.toml"
        configuration.write_text(f"{settings}\n[timers]\nsession_retry = 0.2\n[hosts]\n{hosts}")
        command = ["twistd", "-n", "--pidfile=", f"--logfile={self.data}.log", "msmq"]
        command += ["--name", self.name, "--address", self._addresses[self.name]]
        command += ["--data", str(self.data), "--config", str(configuration)]
        self._process = subprocess.Popen(command)

    def stop(self) -> None:
        """Stop its server."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def msmq(self, *arguments: str) -> None:
        """Run the command as an administrator of this machine does, and show it."""
        self.client.status()
        print(f"{self.name}$ msmq {' '.join(arguments)}", flush=True)
        subprocess.run(["msmq", "--data", str(self.data), *arguments], check=True)


class Application:
    """A program that works until it is stopped; it looks whether it has been, after each piece of work."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=work, args=(self._stopping,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after what it is doing."""
        self._stopping.set()
        self._thread.join()


class Shop:
    """Takes orders: it sends each to the office."""

    def __init__(self) -> None:
        self.taken = 0

    def order_from(self, machine: Machine, office: str) -> Callable[[threading.Event], None]:
        """Take orders, in the shop on this machine."""

        def take_orders(stopping: threading.Event) -> None:
            destination = f"DIRECT=OS:{office}\\private$\\orders"
            while not stopping.wait(0.02):
                machine.client.send(destination, f"{self.taken + 1}", transactional=True)
                self.taken += 1

        return take_orders


def office(machine: Machine, ledger: str, queue: str = ORDERS) -> Callable[[threading.Event], None]:
    """Answer each order with an invoice: to its response queue, or else to the ledger."""

    def write_invoices(stopping: threading.Event) -> None:
        while not stopping.is_set():
            with machine.client.consume(queue, timeout=0.2) as consumer:
                while not stopping.is_set() and (batch := consumer.next_batch()):
                    machine.client.send_all(
                        message_to(
                            order.properties["response_queue"] or f"DIRECT=OS:{ledger}\\private$\\invoices",
                            f"invoice {order.text}",
                            transactional=True,
                            correlation_id=order.identifier,
                            # If the batch comes again, its invoices are not sent again.
                            key=f"invoice for {order.identifier}",
                        )
                        for order in batch
                    )
                    batch.confirm()

    return write_invoices


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that has to happen."""
    give_up = time.monotonic() + 120
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit(f"it did not happen: {what}")
        time.sleep(0.05)


def leave(directory: Path, addresses: Mapping[str, str]) -> int:
    """Move the estate; returns the number of orders, each of which has one invoice in the new ledger."""
    machines = {name: Machine(name, addresses, directory) for name in addresses}
    shop, ledger, new_ledger = machines["SHOP"], machines["LEDGER"], machines["NEWLEDGER"]
    old, new = machines["OFFICE"], machines["NEWOFFICE"]
    running: list[Application] = []

    def run(work: Callable[[threading.Event], None]) -> Application:
        running.append(Application(work))
        return running[-1]

    try:
        for machine in (shop, old, ledger, new):
            machine.start()
        for machine, queue in ((old, ORDERS), (old, TRIAL), (ledger, INVOICES), (new, ORDERS), (new, TRIAL)):
            machine.client.create_queue(queue, transactional=True, log=True)
        old.stop()
        old.start(SHADOW)
        old.client.status()
        orders = Shop()
        taking, writing = run(orders.order_from(shop, "OFFICE")), run(office(old, "LEDGER"))

        print("\n1. A new office gets copies of the orders, and its invoices are compared.", flush=True)
        trial = run(office(new, "LEDGER", TRIAL))
        until(lambda: orders.taken > 30, "30 orders")
        taking.stop()
        until(lambda: old.client.queue(TRIAL)["messages"] == orders.taken, "an invoice for each copy")
        until(lambda: ledger.client.queue(INVOICES)["messages"] == orders.taken, "an invoice for each order")
        old.msmq("shadow", "report", ORDERS, "--original-at", str(ledger.data))
        trial.stop()

        print("\n2. The orders move to the new office, while the shop takes more.", flush=True)
        taking = run(orders.order_from(shop, "OFFICE"))
        writing.stop()
        old.stop()
        old.start()
        to = "DIRECT=OS:NEWOFFICE\\private$\\orders"
        old.msmq("drain", ORDERS, "--to", to, "--verify", str(new.data))
        writing = run(office(new, "LEDGER"))

        print("\n3. The shop sends to the new office; the old one ends.", flush=True)
        taking.stop()
        taking = run(orders.order_from(shop, "NEWOFFICE"))
        until(lambda: not _pending(shop, "OFFICE"), "the shop has sent all orders to the old office")
        old.msmq("drain", ORDERS, "--end", "--verify", str(new.data))
        old.stop()

        print("\n4. The invoices move to the new ledger, and the office sends there.", flush=True)
        new_ledger.start()
        new_ledger.client.create_queue(INVOICES, transactional=True, log=True)
        to = "DIRECT=OS:NEWLEDGER\\private$\\invoices"
        ledger.msmq("drain", INVOICES, "--to", to, "--verify", str(new_ledger.data))
        writing.stop()
        run(office(new, "NEWLEDGER"))
        until(lambda: not _pending(new, "LEDGER"), "the office has sent all invoices to the old ledger")
        ledger.msmq("drain", INVOICES, "--end", "--verify", str(new_ledger.data))
        ledger.stop()

        print("\n5. The shop moves last: it only sends.", flush=True)
        taking.stop()
        until(lambda: not _pending(shop, "NEWOFFICE"), "the shop has sent all orders")
        shop.stop()
        machines["NEWSHOP"].start()
        taking = run(orders.order_from(machines["NEWSHOP"], "NEWOFFICE"))
        time.sleep(0.5)
        taking.stop()
        until(
            lambda: int(new_ledger.client.queue(INVOICES)["messages"]) >= orders.taken,
            "all orders have invoices",
        )
        invoices: list[int] = []
        with new_ledger.client.consume(INVOICES, timeout=0) as consumer:
            for batch in consumer:
                invoices += (int(invoice.text.split()[1]) for invoice in batch)
                batch.confirm()
        invoices.sort()
        if invoices != list(range(1, orders.taken + 1)):
            raise SystemExit(f"{orders.taken} orders have other invoices: {invoices}")
        print(f"\n{orders.taken} orders, each with one invoice in the new ledger.", flush=True)
        return orders.taken
    finally:
        for application in running:
            application.stop()
        for machine in machines.values():
            machine.stop()


def _pending(machine: Machine, to: str) -> int:
    """Messages of a machine that another one has not acknowledged."""
    command = ["msmq", "--data", str(machine.data), "outgoing", "list", f"*OS:{to}\\*"]
    listed = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    return sum('"messages": 0,' not in line for line in listed.splitlines())


if __name__ == "__main__":
    NAMES = ("SHOP", "OFFICE", "LEDGER", "NEWOFFICE", "NEWLEDGER", "NEWSHOP")
    ADDRESSES = sys.argv[1:] or [f"127.0.0.{number}" for number in range(31, 37)]
    with tempfile.TemporaryDirectory(prefix="leaving-") as temporary:
        try:
            leave(Path(temporary), dict(zip(NAMES, ADDRESSES, strict=True)))
        except (MQError, subprocess.CalledProcessError) as failed:
            raise SystemExit(str(failed)) from failed
