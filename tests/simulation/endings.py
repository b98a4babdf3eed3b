"""What is left at the end of a run, as a history has it: fates, acknowledgements and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from msmq.structures.packet.message_class import MessageClass
from tests.simulation.applications import ADMIN, drain, path_of, pause
from tests.simulation.changes import note_logs
from tests.simulation.handling import note_journals

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

DEADLETTER = ".\\system$;deadletter"
DEADXACT = ".\\system$;deadxact"
JOURNAL = ".\\system$;journal"

CLASSES: Final = {
    MessageClass.ACK_REACH_QUEUE: "reached",
    MessageClass.ACK_RECEIVE: "received",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "reach timeout",
    MessageClass.NACK_RECEIVE_TIMEOUT: "receive timeout",
    MessageClass.NACK_Q_PURGED: "purged",
    MessageClass.NACK_DELETED: "purged",
    MessageClass.NACK_Q_DELETED: "deleted",
}
FATES: Final = {"expired", "purged", "deleted", "rejected", "refused", "damaged"}
"""The events of a message that is removed without being received."""
ARRIVED: Final = 0xC000
"""The first class of messages that had arrived in their queue."""


async def note_endings(world: World) -> None:
    """Note what the queues of the system and the event logs have."""
    record, applications = world.recorder, world.applications
    for host in world.hosts:
        for message in await drain(host, path_of(ADMIN)):
            view = message.view
            number = view.application_tag
            correlation = bytes(view.correlation_id)
            applications.identify(number, correlation[:16], int.from_bytes(correlation[16:], "little"))
            record.note("acknowledgement", label=f"{number}", **{"class": name_of(view.message_class)})
        for queue in (DEADLETTER, DEADXACT):
            for message in await drain(host, queue):
                view = message.view
                applications.look(view)
                name = {} if world.plan.handling is None else {"letter": f"{host.name} {message.lookup_id}"}
                facts = {"class": name_of(view.message_class), **name}
                record.note("dead_letter", label=f"{view.application_tag}", **facts)
        sent = [applications.look(message.view)[0] for message in await drain(host, JOURNAL)]
        await note_journals(world, host, sent)
    for host in world.hosts:
        await note_logs(world, host)
    for host in world.hosts:
        # An event that is found damaged now has one of its own, which is written after it was read.
        await host.service.store.read_events(0, 1_000_000)
        await pause(host, 1.0)
    labels = world.applications.labels()
    for _ in world.hosts:
        # From each host to the next a message may be drained.
        for host in world.hosts:
            await _follow_drains(host, labels)
    for host in world.hosts:
        await _note_fates(world, host, labels)


async def _follow_drains(host: Host, labels: dict[bytes, str]) -> None:
    """Give drained messages their labels under the identifiers that they have since."""
    for stored in await host.service.store.read_events(0, 1_000_000):
        event = stored.event
        label = labels.get(event.identity)
        if event.event == "drained" and label is not None:
            guid, number = event.reason.rpartition(" as ")[2].split("\\")
            labels[UUID(guid).bytes_le + int(number).to_bytes(4, "little")] = label


async def _note_fates(world: World, host: Host, labels: Mapping[bytes, str]) -> None:
    for stored in await host.service.store.read_events(0, 1_000_000):
        event = stored.event
        if event.event not in FATES:
            continue
        if event.event == "refused" and event.message_class == MessageClass.NORMAL:
            # There was no space for it: its sender keeps it, and sends it again.
            continue
        label = labels.get(event.identity)
        if event.event == "damaged":
            if ";" in event.queue:
                # A copy in a journal or a dead-letter queue was damaged, and not the message itself.
                if world.plan.handling is not None:
                    world.recorder.note("damaged_copy", node=host.name)
                continue
            world.recorder.note("fate", label=label, fate="damaged", arrived=True, node=host.name)
        elif label is not None:
            arrived = event.message_class >= ARRIVED
            fate = name_of(event.message_class)
            world.recorder.note("fate", label=label, fate=fate, arrived=arrived, node=host.name)


def name_of(message_class: int) -> str:
    """The name of a class in a history."""
    try:
        known = MessageClass(message_class)
    except ValueError:
        return f"{message_class:#06x}"
    return CLASSES.get(known, known.name.lower())
