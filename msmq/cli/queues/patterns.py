"""Actions on all queues whose names match a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings
from msmq.cli.output import complain
from msmq.cli.wildcards import is_pattern, matches
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status

_NO_NAME: Final = frozenset(
    {
        Status.MQ_ERROR_QUEUE_NOT_FOUND,
        Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME,
        Status.MQ_ERROR_ILLEGAL_FORMATNAME,
        Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
    }
)
"""Refusals of a text that is no queue's name."""


def selected(
    queues: Iterable[dict[str, Any]], patterns: Sequence[str], key: str = "path"
) -> list[dict[str, Any]]:
    """The queues that match one of the patterns; all without patterns.

    A pattern that is the whole name of a queue selects that queue alone: a name may have C{*} and C{?}
    ([MS-MQMQ] 2.1.1), and would otherwise select others with it.
    """
    every = list(queues)
    if not patterns:
        return every
    names = {str(queue[key]).casefold() for queue in every}
    exact = {pattern.casefold() for pattern in patterns} & names
    rest = [pattern for pattern in patterns if pattern.casefold() not in exact]

    def is_selected(name: str) -> bool:
        return name.casefold() in exact or any(matches(name, pattern) for pattern in rest)

    return [queue for queue in every if is_selected(str(queue[key]))]


def local_queues(settings: Settings, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """The local queues with these paths, or that match these patterns, each once; no system queues.

    @raise MQError: there is no such queue, or none matches.
    """
    found: dict[str, dict[str, Any]] = {}
    every: list[dict[str, Any]] | None = None
    for pattern in patterns:
        if not is_pattern(pattern):
            with settings.naming(pattern):
                queue = settings.client.queue(pattern)
            found[queue["path"]] = queue
            continue
        if (exact := _exact(settings, pattern)) is not None:
            found[exact["path"]] = exact
            continue
        every = settings.client.queues() if every is None else every
        some = selected(every, [pattern])
        if not some:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"no queue matches {quoted(pattern)}")
        found |= {queue["path"]: queue for queue in some}
    return list(found.values())


def _exact(settings: Settings, name: str) -> dict[str, Any] | None:
    """The queue whose name, in any of its forms, is this pattern; C{None} without one."""
    try:
        found: dict[str, Any] = settings.client.queue(name)
    except MQError as error:
        if error.status in _NO_NAME:
            return None
        raise
    return found


def outgoing_queues(settings: Settings, pattern: str) -> list[dict[str, Any]]:
    """The outgoing queues whose format names match a pattern.

    @raise MQError: none matches.
    """
    found = selected(settings.client.outgoing(), [pattern], "format_name")
    if not found:
        raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"no outgoing queue matches {quoted(pattern)}")
    return found


def for_each(names: Iterable[str], action: Callable[[str], None]) -> int:
    """Perform an action on one queue after the other; one that is refused is reported, and the rest follow.

    @return: the exit status.
    """
    status = DONE
    for name in names:
        try:
            action(name)
        except MQError as error:
            complain(f"{name}: {error}")
            status = REFUSED
    return status


def contents(queues: Sequence[dict[str, Any]], key: str = "path") -> str:
    """Queues and their messages, for a question: C{.\\private$\\orders with 1 message}, or C{3 queues with
    12 messages}.
    """
    count = sum(queue["messages"] for queue in queues)
    messages = "1 message" if count == 1 else f"{count} messages"
    named = queues[0][key] if len(queues) == 1 else f"{len(queues)} queues"
    return f"{named} with {messages}"
