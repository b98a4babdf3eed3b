"""Applications that send in transactions, or under keys, recorded as a history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count as counting
from typing import TYPE_CHECKING, Final

from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError
from tests.history_checker.recorder import Recorder
from tests.simulation.applications import PAYMENTS, Aborted, Applications, Sending, path_of, pause

if TYPE_CHECKING:
    from tests.simulation.host import Host

ATTEMPTS: Final = 4
"""How often messages with keys are sent."""
SOONEST: Final = 0.05
"""Seconds from one attempt to the next, at least."""


class TransactingApplications:
    """Sends with keys; sends to several queues; receives and sends together."""

    def __init__(self, applications: Applications, recorder: Recorder) -> None:
        self._applications = applications
        self._record = recorder
        self._numbers = counting(1)

    # Keys

    def send_keyed(self, sender: Host, receiver: Host, queue: str, count: int, again: float) -> None:
        """Send messages with keys several times, whatever became of the attempt before."""
        sending = self._applications.begin_send(sender, receiver, queue, count)
        self._attempt(sender, sending, again + SOONEST, ATTEMPTS, [])

    def _attempt(
        self, sender: Host, sending: Sending, again: float, left: int, found: list[list[MessageIdentifier]]
    ) -> None:
        world = sender.world
        # The wall clock is set right at the end, by a day sometimes, after which keys have expired.
        if world.is_healing:
            return
        if sender.is_up:
            sender.begin(self._send_with_keys(sender, sending, found))
        if left > 1:
            world.later(again, partial(self._attempt, sender, sending, again, left - 1, found))

    async def _send_with_keys(
        self, sender: Host, sending: Sending, found: list[list[MessageIdentifier]]
    ) -> None:
        life = sender.life
        keys = [f"{message.application_tag}" for message in sending.messages]
        try:
            identifiers = await sender.service.send(sending.destination, sending.messages, keys=keys)
        except MQError:
            # Another attempt may succeed, so that the result stays unknown until one does.
            return
        if life != sender.life:
            return
        if not found:
            sending.batch.first_id = identifiers[0].ordinal
            self._record.end(sending.operation, "done")
        elif found[0] != identifiers:
            sender.errors.append(f"keys {keys}: {identifiers} after {found[0]}")
        found.append(identifiers)

    # Transactions

    def send(self, sender: Host, receivers: Sequence[Host], count: int, commits: bool, held: float) -> None:
        """Send to a queue of each of these hosts in one transaction, and commit or abort it."""
        transaction = f"transaction {next(self._numbers)}"
        sendings = [
            self._applications.begin_send(sender, receiver, PAYMENTS, count, transaction=transaction)
            for receiver in receivers
        ]
        sender.begin(self._send(sender, sendings, commits, held))

    async def _send(self, sender: Host, sendings: Sequence[Sending], commits: bool, held: float) -> None:
        life, result, is_unclear = sender.life, "refused", False
        try:
            async with sender.service.begin() as transaction:
                for each in sendings:
                    identifiers = await sender.service.send(
                        each.destination, each.messages, transaction=transaction
                    )
                    # They are not used again, whether it is committed or not: the event logs name messages by
                    # them, also if the result stays unknown.
                    each.batch.first_id = identifiers[0].ordinal
                await pause(sender, held)
                if not commits:
                    raise Aborted
            result = "done"
        except Aborted:
            pass
        except MQError:
            is_unclear = sender.system.is_unclear
        if life == sender.life and not is_unclear:
            for each in sendings:
                self._record.end(each.operation, result)

    def forward(
        self, host: Host, receiver: Host, count: int, timeout: float, commits: bool, held: float
    ) -> None:
        """Receive messages, send another one for each to a host, and commit or abort both."""
        operation = self._record.begin("receive", queue=f"{host.name} {PAYMENTS}")
        host.begin(self._forward(host, receiver, count, timeout, commits, held, operation))

    async def _forward(
        self,
        host: Host,
        receiver: Host,
        count: int,
        timeout: float,
        commits: bool,
        held: float,
        operation: int,
    ) -> None:
        life, is_committed, is_unclear = host.life, False, False
        sending: Sending | None = None
        try:
            async with host.service.begin() as transaction:
                reservation = await host.service.reserve(
                    path_of(PAYMENTS), count=count, timeout=timeout, transaction=transaction
                )
                if life != host.life:
                    return
                self._applications.shown(operation, reservation)
                sending = self._applications.begin_send(
                    host, receiver, PAYMENTS, len(reservation.messages), received_by=operation
                )
                identifiers = await host.service.send(
                    sending.destination, sending.messages, transaction=transaction
                )
                sending.batch.first_id = identifiers[0].ordinal
                await pause(host, held)
                if not commits:
                    raise Aborted
            is_committed = True
        except Aborted:
            pass
        except MQError:
            is_unclear = sending is not None and host.system.is_unclear
        if life != host.life or is_unclear:
            return
        if sending is None:
            self._record.end(operation, "refused")
            return
        self._record.end(operation, "done" if is_committed else "returned")
        self._record.end(sending.operation, "done" if is_committed else "refused")
