"""The differences between a queue file and a server, and the changes that end them.

Pure: the states come from the server, and what performs the changes is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.cli.queues.queue_file import DesiredQueue
from msmq.errors import MsmqError
from msmq.structures.names.path_name import PathName

FIXED: Final = ("transactional", "application_type")
"""The properties of a queue that are chosen when it is created."""

LOCAL: Final = (".", "localhost")
"""The computers in a path that mean the server itself, beside its names."""


class QueueConflictError(MsmqError):
    """A difference cannot be ended.

    @ivar line: the line of the file that asks for it; C{None} for a queue that the file does not name.
    """

    def __init__(self, line: int | None, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


@attrs.frozen
class QueueState:
    """A queue of the server, for one of the file.

    @ivar desired: what the file says of it.
    @ivar current: as the control API shows it; C{None} if it does not exist.
    @ivar access: the SDDL of its access list, before and after; C{None} if the file says nothing of it.
    """

    desired: DesiredQueue
    current: Mapping[str, Any] | None
    access: tuple[str | None, str] | None


@attrs.frozen
class QueueDifference:
    """One property that differs; C{key} is C{security} for the access list, C{None} for the queue itself."""

    key: str | None
    before: object
    after: object


@attrs.frozen
class QueueChange:
    """What is done to one queue.

    @ivar action: C{create}, C{change} or C{delete}.
    @ivar line: the line of the queue in the file; C{None} for one that the file does not name.
    """

    action: str
    path: str
    differences: Sequence[QueueDifference]
    line: int | None

    @property
    def properties(self) -> dict[str, object]:
        """The properties to set, without the access list."""
        return {
            each.key: each.after
            for each in self.differences
            if each.key is not None and each.key != "security"
        }

    @property
    def security(self) -> str | None:
        """The access list to set; C{None} if it does not change."""
        return next((str(each.after) for each in self.differences if each.key == "security"), None)


def comparable_path(name: PathName, computers: Iterable[str]) -> str | None:
    """The text by which the server compares the paths of its queues; C{None} for a queue of another computer.

    @param computers: the names of the server.
    """
    own = {computer.lower() for computer in (*LOCAL, *computers)}
    return name.queue_path.lower() if name.computer.lower() in own else None


def plan(
    states: Sequence[QueueState], others: Sequence[Mapping[str, Any]], *, force: bool
) -> list[QueueChange]:
    """The changes that bring the server to what the file says, in the order in which they are performed.

    @param others: the queues that the file does not name and that are to be deleted.
    @param force: delete queues that hold messages too.
    @raise QueueConflictError: a property that cannot be changed differs, or a queue to delete holds messages.
    """
    changes = [change for state in states if (change := _change(state)) is not None]
    return [*changes, *_deletions(others, force=force)]


def held_messages(queue: Mapping[str, Any]) -> int:
    """The messages in a queue, in its subqueues, its journal and open transactions."""
    aside = sum(subqueue["messages"] for subqueue in queue["subqueues"])
    return int(queue["messages"] + queue["uncommitted"] + queue["journal_messages"] + aside)


def _change(state: QueueState) -> QueueChange | None:
    desired, current = state.desired, state.current
    differences = list(_differences(state))
    if current is None:
        if not differences:
            differences.append(QueueDifference(None, None, None))
        return QueueChange("create", desired.path, differences, desired.line())
    for difference in differences:
        if difference.key in FIXED:
            raise QueueConflictError(
                desired.line(difference.key or ""),
                f"{difference.key} of {current['path']} is {_shown(difference.before)} and cannot be "
                "changed; delete the queue first, or correct the file",
            )
    return QueueChange("change", current["path"], differences, desired.line()) if differences else None


def _differences(state: QueueState) -> Iterator[QueueDifference]:
    for key, after in state.desired.properties.items():
        before = None if state.current is None else state.current[key]
        if state.current is None:
            if after is not None:
                yield QueueDifference(key, None, after)
        elif _comparable(key, before) != _comparable(key, after):
            yield QueueDifference(key, before, after)
    if state.access is not None and state.access[0] != state.access[1]:
        yield QueueDifference("security", *state.access)


def _comparable(key: str, value: Any) -> Any:
    if key == "application_type":
        return None if value is None else UUID(value)
    # No limit of the age is the same as an age of 0.
    return value or None if key == "log_age" else value


def _deletions(others: Iterable[Mapping[str, Any]], *, force: bool) -> Iterator[QueueChange]:
    full = [(queue["path"], held_messages(queue)) for queue in others if held_messages(queue)]
    if full and not force:
        path, count = full[0]
        more = f", and {len(full) - 1} more queue(s) hold messages" if len(full) > 1 else ""
        raise QueueConflictError(
            None, f"{path} is not in the file and holds {count} message(s){more}; --force deletes them too"
        )
    for queue in others:
        held = held_messages(queue)
        yield QueueChange("delete", queue["path"], [QueueDifference("messages", held, None)], None)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
