"""The endpoints of the example: a shop that sends orders, and an office that sends an invoice for each."""

from __future__ import annotations

import threading
from collections.abc import Callable

from machines import Machine

from msmq.client import message_to

ORDERS, INVOICES, TRIAL = ".\\private$\\orders", ".\\private$\\invoices", ".\\private$\\trial"


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
