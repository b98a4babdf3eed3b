"""Properties of a new queue, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypedDict, get_type_hints
from uuid import UUID

from msmq.argument_types import check_type


class QueueProperties(TypedDict, total=False):
    """Keyword arguments of C{create_queue} of L{msmq.interfaces.manager.queue_manager.IAdministration}.

    [MS-MQDMPR] 3.1.1.2 defines the properties; omitted ones are as in L{DEFAULTS}.

    @ivar transactional: whether it accepts only transactional messages, or only others.
    @ivar journal: whether a copy of each received message is kept.
    @ivar log: whether each message that enters it is logged.
    @ivar quota: kilobytes, as is C{journal_quota}; C{None} sets no limit.
    @ivar label: a description.
    @ivar authenticate: whether it accepts only signed messages.
    @ivar privacy: C{none}, C{optional} or C{body}.
    @ivar log_age: seconds after which the message log removes a message; 0 for never.
    @ivar log_size: kilobytes of messages that the log keeps; C{None} sets no limit.
    @ivar security: its descriptor, or the parts that differ from the default, as SDDL.
    @ivar application_type: Type, a GUID by which applications find the queues of one service.
    """

    transactional: bool
    journal: bool
    log: bool
    quota: int | None
    journal_quota: int | None
    label: str
    authenticate: bool
    privacy: str
    log_age: int
    log_size: int | None
    security: str | None
    application_type: UUID | None


DEFAULTS: Final = QueueProperties(
    transactional=False,
    journal=False,
    log=False,
    quota=None,
    journal_quota=None,
    label="",
    authenticate=False,
    privacy="optional",
    log_age=0,
    log_size=None,
    security=None,
    application_type=None,
)
"""The defaults of all properties."""


def check_types(properties: Mapping[str, object]) -> None:
    """Check the types of properties; names that no queue has are left out.

    @raise LocalProtocolError: one has another type; names it, its type and the expected one.
    """
    for name, value in properties.items():
        if name in DEFAULTS:
            check_type(name, value, _hints()[name])


@cache
def _hints() -> Mapping[str, Any]:
    return get_type_hints(QueueProperties)


def with_defaults(properties: QueueProperties) -> QueueProperties:
    """The properties of a new queue, completed with defaults.

    @raise TypeError: there is no such property.
    """
    for name in properties:
        if name not in DEFAULTS:
            raise TypeError(f"a queue has no property {name}; it has {', '.join(DEFAULTS)}")
    return {**DEFAULTS, **properties}
