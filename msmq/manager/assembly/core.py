"""The core of a queue manager: its queues, its store, and what commits changes to both."""

from __future__ import annotations

import attrs

from msmq.interfaces.sessions import ISessions
from msmq.interfaces.storage import IMessageStore
from msmq.manager.events import EventLog
from msmq.manager.manager_settings import ManagerRuntime
from msmq.manager.performer import Performer, PerformerListener
from msmq.manager.service_values import ServiceValues
from msmq.persistence.changes import AppendEvent
from msmq.queues.model import QueueManagerModel


@attrs.frozen(kw_only=True)
class ManagerCore:
    """What all other parts are made with.

    @ivar model: the queues.
    @ivar store: stores queues, messages and state.
    @ivar sessions: creates the sessions.
    @ivar runtime: reactor, clock, threads, identifiers.
    @ivar performer: commits changes, then performs their effects.
    @ivar events: the event log.
    @ivar service_values: what services of the same server keep in the store.
    """

    model: QueueManagerModel
    store: IMessageStore
    sessions: ISessions
    runtime: ManagerRuntime
    performer: Performer
    events: EventLog
    service_values: ServiceValues

    def note(self, event: str, reason: str, queue: str = "") -> None:
        """Record an event of the queue manager itself or of a queue."""
        now = self.runtime.clock.now()
        self.events.record(AppendEvent(now.wall, b"", event, reason, queue=queue))


def make_core(
    model: QueueManagerModel,
    store: IMessageStore,
    sessions: ISessions,
    runtime: ManagerRuntime,
    kept_events: int,
    listener: PerformerListener,
) -> ManagerCore:
    """Make the core.

    @param kept_events: how many events the event log keeps.
    @param listener: is notified of effects of the model, and of failures of the store.
    """
    performer = Performer(model, store, runtime.reactor, runtime.clock, listener)
    return ManagerCore(
        model=model,
        store=store,
        sessions=sessions,
        runtime=runtime,
        performer=performer,
        events=EventLog(performer, kept_events),
        service_values=ServiceValues(performer),
    )
