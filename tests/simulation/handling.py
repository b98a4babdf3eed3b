"""Messages that are handled one by one: requeued, moved, browsed, looked up, rejected; as a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.status import MQError, Status
from tests.history_checker.recorder import Recorder
from tests.simulation.applications import (
    MISSING,
    PAYMENTS,
    QUEUES,
    Aborted,
    Applications,
    Sending,
    body_of,
    drain,
    path_of,
    pause,
)
from tests.simulation.handling_plan import ASIDE, FOREVER, POISON
from tests.simulation.plan import DIRECT

if TYPE_CHECKING:
    from msmq.interfaces.manager.received_messages import MessageLocation
    from msmq.manager.applications.open_queue import OpenQueue
    from tests.simulation.host import Host
    from tests.simulation.world import World

SUBQUEUES: Final = tuple(f"{queue};{name}" for queue in QUEUES for name in (ASIDE, POISON))
NOTHING: Final = (Status.MQ_ERROR_IO_TIMEOUT, Status.MQ_ERROR_MESSAGE_NOT_FOUND)
"""A read found nothing, and has locked nothing."""
FULL: Final = ("full", "quota")
"""Steps after which copies may be left out, as is documented."""


class HandlingApplications:
    """Operators and readers that name messages."""

    def __init__(self, applications: Applications, recorder: Recorder) -> None:
        self._applications = applications
        self._record = recorder

    # Dead letters

    def requeue(self, host: Host, are_together: bool) -> None:
        """Send all dead letters of a host again, all at once or one after the other."""
        host.begin(self._requeue(host, are_together))

    async def _requeue(self, host: Host, are_together: bool) -> None:
        life = host.life
        dead_letters = await host.service.inspection.dead_letters()
        for dead_letter in dead_letters:
            if life != host.life:
                return
            if (sending := self._replacement(host, dead_letter)) is None:
                continue
            work = self._requeue_one(host, dead_letter, sending)
            if are_together:
                host.begin(work)
            else:
                await work

    def _replacement(self, host: Host, dead_letter: MessageLocation) -> Sending | None:
        """What is sent instead of a dead letter; C{None} if that is not one of an application."""
        view = dead_letter.message.view
        name = view.destination_format_name()
        world = host.world
        for receiver in world.hosts:
            for queue in (*QUEUES, MISSING):
                if world.format_name(host, receiver, queue).lower() == str(name).lower():
                    letter_name = f"{host.name} {dead_letter.message.lookup_id}"
                    return self._applications.begin_again(host, receiver, queue, view, requeues=letter_name)
        return None

    async def _requeue_one(self, host: Host, dead_letter: MessageLocation, sending: Sending) -> None:
        life, is_unclear = host.life, False
        result = "refused"
        number = sending.batch.first
        try:
            changes = await host.service.message_administration.requeue(
                dead_letter.queue,
                [dead_letter.message.lookup_id],
                edited={"application_tag": number, "body": body_of(number)},
            )
        except MQError:
            is_unclear = host.system.is_unclear
        else:
            # None of one that is locked or gone.
            for change in changes:
                if change.new is None:
                    is_unclear = host.system.is_unclear
                else:
                    sending.batch.first_id, result = change.new.ordinal, "done"
        if life == host.life and not is_unclear:
            self._record.end(sending.operation, result)

    # Moves

    def move(self, host: Host, queue: str, target: str, count: int, how: str, held: float) -> None:
        """Move the first messages of a queue to a subqueue of it, or back."""
        host.begin(self._move(host, queue, target, count, how, held))

    async def _move(self, host: Host, queue: str, target: str, count: int, how: str, held: float) -> None:
        life = host.life
        page = await host.service.inspection.browse(path_of(queue), count=count)
        if life != host.life or not page.messages:
            return
        shown = [self._applications.look(message.view) for message in page.messages]
        ends = {"queue": f"{host.name} {queue}", "to": f"{host.name} {target}"}
        operation = self._record.begin("move", **ends, labels=[label for label, _ in shown])
        result, is_unclear = "refused", False
        try:
            if how in ("commit", "abort") and queue.startswith(PAYMENTS):
                await self._move_in_transaction(host, queue, target, page.messages, how == "commit", held)
            elif how == "each":
                for message in page.messages:
                    await host.service.move(message.view.identifier, path_of(target))
            else:
                moved = await host.service.message_administration.move(
                    path_of(queue), [message.lookup_id for message in page.messages], path_of(target)
                )
                moved_ids = {change.lookup_id for change in moved}
                shown = [
                    label
                    for label, message in zip(shown, page.messages, strict=True)
                    if message.lookup_id in moved_ids
                ]
            result = "done"
        except Aborted:
            pass
        except MQError:
            # Of several moves the first may have been made.
            is_unclear = host.system.is_unclear or how == "each"
        if life == host.life and not is_unclear:
            if result == "done":
                self._record.shown(operation, shown)
            self._record.end(operation, result)

    async def _move_in_transaction(
        self,
        host: Host,
        queue: str,
        target: str,
        messages: Sequence[ReceivedMessage],
        commits: bool,
        held: float,
    ) -> None:
        service = host.service
        async with (
            service.open_queue(path_of(queue)) as source,
            service.open_queue(path_of(target), QueueAccessType.MOVE) as into,
            service.begin() as transaction,
        ):
            for message in messages:
                await source.move(message.lookup_id, into, transaction=transaction)
            await pause(host, held)
            if not commits:
                raise Aborted

    # Readers

    def browse(self, host: Host, queue: str, count: int, seconds: float, every: int) -> None:
        """Go through a queue with a cursor, and receive some of its messages."""
        host.begin(self._browse(host, queue, count, seconds, every))

    async def _browse(self, host: Host, queue: str, count: int, seconds: float, every: int) -> None:
        life = host.life
        async with host.service.open_queue(path_of(queue)) as opened, opened.cursor() as cursor:
            for number in range(1, count + 1):
                # What it finds may be received by another reader while it is read.
                operation = self._record.begin("receive", queue=f"{host.name} {queue}", peeks=True)
                try:
                    message = await anext(cursor, None)
                except MQError:
                    message = None
                if life != host.life:
                    return
                if message is None:
                    self._record.end(operation, "refused")
                    return
                self._record.shown(operation, [self._applications.look(message.view)])
                self._record.end(operation, "returned")
                await pause(host, seconds)
                if every and number % every == 0 and life == host.life:
                    await self._receive(host, queue, opened, message, 0.0, is_kept=True)
                if life != host.life:
                    return

    def look_up(self, host: Host, queue: str, count: int, which: str, is_kept: bool, held: float) -> None:
        """Receive messages by their LookupIdentifiers, from the end or out of the middle of a queue."""
        host.begin(self._look_up(host, queue, count, which, is_kept, held))

    async def _look_up(
        self, host: Host, queue: str, count: int, which: str, is_kept: bool, held: float
    ) -> None:
        life = host.life
        async with host.service.open_queue(path_of(queue)) as opened:
            found = await opened.read(action=MessageSeekAction.LAST, peek=True)
            for number in range(count):
                if number or which == "middle":
                    found = await opened.read(found.lookup_id, MessageSeekAction.PREVIOUS, peek=True)
                if life != host.life:
                    return
                await self._receive(host, queue, opened, found, held, is_kept=is_kept)
                if life != host.life:
                    return

    async def _receive(
        self,
        host: Host,
        queue: str,
        opened: OpenQueue,
        message: ReceivedMessage,
        held: float,
        *,
        is_kept: bool,
    ) -> None:
        """Receive a message that was peeked, unless it is not there any more."""
        life = host.life
        shown = self._applications.look(message.view)
        # Without a transaction it is gone before it is returned, which the power may prevent.
        operation = self._record.begin("receive", queue=f"{host.name} {queue}", picks=shown[0])
        result, is_unclear = "refused", False
        try:
            if queue == PAYMENTS:
                async with host.service.begin() as transaction:
                    await opened.read(message.lookup_id, transaction=transaction)
                    if life != host.life:
                        return
                    self._record.shown(operation, [shown])
                    result = "returned"
                    await pause(host, held)
                    if not is_kept:
                        raise Aborted
            else:
                await opened.read(message.lookup_id)
                if life == host.life:
                    self._record.shown(operation, [shown])
            result = "done"
        except Aborted:
            pass
        except MQError as error:
            is_unclear = host.system.is_unclear
            if result == "refused" and error.status not in NOTHING:
                result = "failed"
        if life == host.life and not is_unclear:
            self._record.end(operation, result)

    def reject(self, host: Host, queue: str, count: int, held: float) -> None:
        """Receive messages, and reject them."""
        operation = self._record.begin("receive", queue=f"{host.name} {queue}")
        host.begin(self._reject(host, queue, count, held, operation))

    async def _reject(self, host: Host, queue: str, count: int, held: float, operation: int) -> None:
        life = host.life
        result = "refused"
        try:
            reservation = await host.service.reserve(path_of(queue), count=count, timeout=0.0)
            if life != host.life:
                return
            self._applications.shown(operation, reservation)
            await pause(host, held)
            reservation.reject()
            result = "rejected"
        except MQError:
            pass
        if life == host.life:
            self._record.end(operation, result)

    def remove(self, host: Host, queue: str, count: int) -> None:
        """Remove the first messages of a queue, as a purge does."""
        self._record.note("purge", queue=f"{host.name} {queue}")
        host.begin(self._remove(host, queue, count))

    async def _remove(self, host: Host, queue: str, count: int) -> None:
        life = host.life
        page = await host.service.inspection.browse(path_of(queue), count=count)
        if life == host.life:
            numbers = [message.lookup_id for message in page.messages]
            labels = [self._applications.look(message.view)[0] for message in page.messages]
            # Until that has failed, they are held.
            self._record.note("hold", labels=labels)
            await host.service.message_administration.remove(path_of(queue), numbers)


# Steps


def requeue(world: World, number: int, are_together: bool) -> None:
    """Send dead letters again."""
    if (host := world.hosts[number]).is_up:
        world.handling.requeue(host, are_together)


def move(world: World, number: int, queue: str, target: str, count: int, how: str, held: float) -> None:
    """Move messages to a subqueue, or back."""
    if (host := world.hosts[number]).is_up:
        world.handling.move(host, queue, target, count, how, held)


def browse(world: World, number: int, queue: str, count: int, seconds: float, every: int) -> None:
    """Look through a queue."""
    if (host := world.hosts[number]).is_up:
        world.handling.browse(host, queue, count, seconds, every)


def look_up(
    world: World, number: int, queue: str, count: int, which: str, is_kept: bool, held: float
) -> None:
    """Receive messages that are named."""
    if (host := world.hosts[number]).is_up:
        world.handling.look_up(host, queue, count, which, is_kept, held)


def reject(world: World, number: int, queue: str, count: int, held: float) -> None:
    """Reject messages."""
    if (host := world.hosts[number]).is_up:
        world.handling.reject(host, queue, count, held)


def remove(world: World, number: int, queue: str, count: int) -> None:
    """Remove messages."""
    if (host := world.hosts[number]).is_up:
        world.handling.remove(host, queue, count)


# Ends


async def note_journals(world: World, host: Host, sent: Sequence[str]) -> None:
    """Note what the journals of a host have.

    A journal is complete if it was never switched off or without space, and its queue not deleted.

    @param sent: the labels of the messages in the journal of those that this host has sent.
    """
    handling = world.plan.handling
    if handling is None:
        return
    steps = [each for each in world.plan.steps if each.arguments[:1] == (host.number,)]
    has_space = not host.is_rotten and all(each.kind not in FULL for each in steps)
    # A queue that was created again is another one, and while there is none, no message waits for an
    # acknowledgement in it: the copy is made at the hand-over.
    has_lost_admin = any(each.kind == "delete admin" for each in steps)
    world.recorder.note(
        "sent_journal",
        node=host.name,
        labels=sent,
        complete=has_space and not (handling.is_proven and has_lost_admin),
        proven=handling.is_proven and not has_lost_admin,
        # What gates forward comes from another address.
        decided=world.plan.shape == DIRECT and handling.wait == FOREVER,
    )
    for queue in QUEUES:
        changed = any(
            each.arguments[1] == queue
            and (each.kind == "delete" or (each.kind == "property" and "journal" in each.arguments[2]))
            for each in steps
            if each.kind in ("delete", "property")
        )
        labels = [
            world.applications.look(message.view)[0]
            for message in await drain(host, f"{path_of(queue)};journal")
        ]
        is_complete = host.number in handling.journaled and has_space and not changed
        world.recorder.note("journal", queue=f"{host.name} {queue}", labels=labels, complete=is_complete)
