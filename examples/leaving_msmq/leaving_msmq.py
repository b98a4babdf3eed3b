"""Three queue managers leave, one endpoint at a time, while orders are taken: see README.md."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from endpoints import INVOICES, ORDERS, TRIAL, Shop, office
from machines import Application, Machine, until

from msmq import MQError

SHADOW = f"""
[[shadow]]
queue = '{ORDERS}'
to = 'DIRECT=OS:NEWOFFICE\\private$\\trial'
compare = {{ original = '{INVOICES}', shadow = '{TRIAL}', late = 60 }}
"""


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
        until(lambda: not shop.pending("OFFICE"), "the shop has sent all orders to the old office")
        old.msmq("drain", ORDERS, "--end", "--verify", str(new.data))
        old.stop()

        print("\n4. The invoices move to the new ledger, and the office sends there.", flush=True)
        new_ledger.start()
        new_ledger.client.create_queue(INVOICES, transactional=True, log=True)
        to = "DIRECT=OS:NEWLEDGER\\private$\\invoices"
        ledger.msmq("drain", INVOICES, "--to", to, "--verify", str(new_ledger.data))
        writing.stop()
        run(office(new, "NEWLEDGER"))
        until(lambda: not new.pending("LEDGER"), "the office has sent all invoices to the old ledger")
        ledger.msmq("drain", INVOICES, "--end", "--verify", str(new_ledger.data))
        ledger.stop()

        print("\n5. The shop moves last: it only sends.", flush=True)
        taking.stop()
        until(lambda: not shop.pending("NEWOFFICE"), "the shop has sent all orders")
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


if __name__ == "__main__":
    NAMES = ("SHOP", "OFFICE", "LEDGER", "NEWOFFICE", "NEWLEDGER", "NEWSHOP")
    ADDRESSES = sys.argv[1:] or [f"127.0.0.{number}" for number in range(31, 37)]
    with tempfile.TemporaryDirectory(prefix="leaving-") as temporary:
        try:
            leave(Path(temporary), dict(zip(NAMES, ADDRESSES, strict=True)))
        except (MQError, subprocess.CalledProcessError) as failed:
            raise SystemExit(str(failed)) from failed
