"""A queue manager of a test: its settings by name, where a test says nothing those of an ordinary one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.clock import IClock
from msmq.interfaces.sessions import ISessions
from msmq.interfaces.storage import IMessageStore
from msmq.manager.applications.send_keys import DEFAULT_KEYS, DEFAULT_LIFETIME, SendKeys
from msmq.manager.manager_settings import (
    ORIGINAL,
    EnterpriseSettings,
    ManagerRuntime,
    ManagerSecurity,
    TransferPolicy,
)
from msmq.manager.securing.message_security import SecurityProviders
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.manager.service import QueueManagerService
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import HostIdentity
from msmq.queues.model import QueueManagerModel
from msmq.settings import SessionSettings
from msmq.transfer.security.cipher_choice import Preferences
from msmq.transfer.source_journaling import SourceJournaling

DEFAULT_EVENTS: Final = 100_000
"""Events that the event log keeps."""


def make_service(
    model: QueueManagerModel,
    store: IMessageStore,
    sessions: ISessions,
    reactor: IReactorTime,
    clock: IClock,
    host: HostIdentity,
    *,
    new_identifier: Callable[[], uuid.UUID] = uuid.uuid4,
    in_thread: Callable[..., Deferred[Any]] = maybeDeferred,
    send_keys: tuple[int, float] = (DEFAULT_KEYS, DEFAULT_LIFETIME),
    **options: Any,
) -> QueueManagerService:
    """A queue manager that is not open yet.

    @param send_keys: how many keys of messages are remembered, and for how many seconds.
    @param options: attributes of L{TransferPolicy}, L{EnterpriseSettings} and L{ManagerSecurity}.
    """
    policy = {
        "session": SessionSettings(),
        "send_insecure_nacks": False,
        "report_messages": False,
        "dead_letter_over_quota": True,
        "source_journaling": SourceJournaling.HANDOVER,
        "events": DEFAULT_EVENTS,
        "delivery_records": 8192,
        "clone": ORIGINAL,
    }
    place = {
        "directory": None,
        "changes": DirectoryChanges.KEEP,
        "router": None,
        "routing_server": False,
        "site": None,
    }
    security = {
        "trusted_peers": TrustedPeers(),
        "access": None,
        "ciphers": None,
        "encryption": Preferences(),
        "providers": SecurityProviders(),
    }
    groups: list[dict[str, Any]] = [
        {**group, **{name: options.pop(name) for name in list(options) if name in group}}
        for group in (policy, place, security)
    ]
    assert not options, f"no setting of a queue manager: {', '.join(options)}"
    return QueueManagerService(
        model=model,
        store=store,
        sessions=sessions,
        runtime=ManagerRuntime(
            reactor=reactor, clock=clock, in_thread=in_thread, new_identifier=new_identifier
        ),
        policy=TransferPolicy(**groups[0]),
        enterprise=EnterpriseSettings(host=host, **groups[1]),
        security=ManagerSecurity(**groups[2]),
        send_keys=SendKeys(*send_keys),
        addresses=tuple,
    )
