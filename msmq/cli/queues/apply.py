"""C{msmq apply}: brings the queues of a server to what a file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.exit_status import REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.cli.standard_input import standard_input
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.cli.queues.queue_changes import QueueChange, QueueState
    from msmq.cli.queues.queue_file import DesiredQueue
    from msmq.control.client.client import ControlClient

_COLUMNS: Final = ("action", "queue", "key", "from", "to")
_MISSING: Final = (Status.MQ_ERROR_QUEUE_NOT_FOUND,)


@click.command
@click.argument("file", required=False)
@click.option("--dry-run", is_flag=True, help="Only print the differences.")
@click.option("--prune", is_flag=True, help="Delete the queues that FILE does not name.")
@click.option("--force", is_flag=True, help="With --prune: also queues that hold messages.")
@click.option("--export", is_flag=True, help="Print the file that describes the queues of the server.")
@yes_option
@common_options
@pass_settings
def apply(
    settings: Settings, file: str | None, dry_run: bool, prune: bool, force: bool, export: bool, yes: bool
) -> int | None:
    """Create and change queues to match FILE, and print the differences.

    FILE is TOML, - is standard input. Queues that it names are created, or changed where a key that it gives
    differs; what it does not give stays. A second run changes nothing.
    """
    if export:
        if file is not None or dry_run or prune or force or settings.as_json:
            raise click.UsageError("--export takes no FILE and no other option of this verb, nor --json")
        _export(settings)
        return None
    if file is None:
        raise click.UsageError("give FILE, or --export")
    if force and not prune:
        raise click.UsageError("--force has a meaning only with --prune")
    return _apply(settings, file, dry_run=dry_run, prune=prune, force=force, yes=yes)


def _apply(
    settings: Settings, file: str, *, dry_run: bool, prune: bool, force: bool, yes: bool
) -> int | None:
    from msmq.cli.queues.queue_changes import QueueConflictError, plan
    from msmq.cli.queues.queue_file import QueueFileError, read_queue_file

    name = "standard input" if file == "-" else file
    client, output = settings.client, settings.output
    try:
        states = _Survey(client, name).states(read_queue_file(name, _content(file)))
        changes = plan(states, _others(client, states) if prune else (), force=force)
    except QueueFileError as error:
        return _wrong(str(error))
    except QueueConflictError as error:
        return _wrong(f"{name}: {error}" if error.line is None else f"{name}:{error.line}: {error}")
    deleted = [change.path for change in changes if change.action == "delete"]
    if deleted and not dry_run:
        confirm(lambda: f"Delete {len(deleted)} queue(s): {', '.join(deleted[:10])}", yes=yes)
    done: list[str] = []
    rows: list[dict[str, Any]] = []
    try:
        for change in (step for each in changes for step in _steps(each)):
            if not dry_run:
                _perform_next(client, change, name, done, force=force)
            rows += [{**row, "dry_run": dry_run} for row in _rows(change)]
    finally:
        if rows:
            output.many(rows, _COLUMNS)
    if not changes:
        output.text("no differences")
    output.flush()
    return None


_PAST: Final[Mapping[str, str]] = {"create": "created", "change": "changed", "delete": "deleted"}


def _perform_next(
    client: ControlClient, change: QueueChange, name: str, done: list[str], *, force: bool
) -> None:
    """Perform a change after others, which a refusal names."""
    try:
        _perform(client, change, force=force)
    except MQError as error:
        where = name if change.line is None else f"{name}:{change.line}"
        before = ", ".join(done) if done else "nothing"
        raise MQError(
            error.status, f"{where}: {change.path}: {error.detail}; done before: {before}"
        ) from error
    keys = ", ".join(str(each.key) for each in change.differences)
    done.append(f"{_PAST[change.action]} {change.path}" + (f" ({keys})" if change.action == "change" else ""))


def _steps(change: QueueChange) -> Iterator[QueueChange]:
    """The requests of a change: the server takes the properties of a queue that exists before its list."""
    is_list = [each.key == "security" for each in change.differences]
    if change.action != "change" or all(is_list) or not any(is_list):
        yield change
        return
    for wanted in (False, True):
        part = [each for each, found in zip(change.differences, is_list, strict=True) if found is wanted]
        yield attrs.evolve(change, differences=part)


def _wrong(problem: str) -> int:
    complain(problem, "msmq apply")
    return REFUSED


def _content(file: str) -> bytes:
    from pathlib import Path

    from msmq.cli.queues.queue_file import QueueFileError
    from msmq.toml.document import DocumentError, read_content

    if file == "-":
        return standard_input().read()
    try:
        return read_content(Path(file))
    except DocumentError as error:
        raise QueueFileError(f"{file}: {error}") from error


@attrs.frozen
class _Survey:
    """Reads the state of the queues that a file names."""

    client: ControlClient
    name: str

    def states(self, queues: Sequence[DesiredQueue]) -> list[QueueState]:
        """The state of each.

        @raise QueueFileError: two of them are the same queue, or the server refuses a name or a rule.
        """
        from msmq.cli.queues.queue_file import QueueFileError

        status = self.client.status()
        computers = (status["name"], status["dns_name"])
        seen: dict[str, DesiredQueue] = {}
        states = []
        for queue in queues:
            try:
                state = self._state(queue)
                key = self._key(state, computers)
            except MQError as error:
                raise QueueFileError(f"{self.name}:{queue.line('path')}: {queue.path}: {error}") from error
            first = seen.setdefault(key, queue)
            if first is not queue:
                raise QueueFileError(
                    f"{self.name}:{queue.line('path')}: {queue.path} is the same queue as {first.path} "
                    f"in line {first.line('path')}"
                )
            states.append(state)
        return states

    def _key(self, state: QueueState, computers: Sequence[str]) -> str:
        from msmq.cli.queues.queue_changes import comparable_path
        from msmq.structures.names.path_name import parse_path_name

        path = state.desired.path if state.current is None else state.current["path"]
        key = comparable_path(parse_path_name(path), computers)
        if key is None:
            raise MQError(Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, "this is the path of another computer")
        return key

    def _state(self, queue: DesiredQueue) -> QueueState:
        from msmq.cli.queues.queue_changes import QueueState

        current = self._current(queue.path)
        if queue.access is None and queue.security is None:
            return QueueState(queue, current, None)
        sddl = queue.security
        if queue.access is not None:
            sddl = self.client.acl_as_sddl([attrs.asdict(rule) for rule in queue.access])
        assert sddl is not None
        if current is None:
            return QueueState(queue, None, (None, sddl))
        before = self.client.acl(current["path"])["sddl"]
        after = self.client.replace_acl(current["path"], sddl, dry_run=True)["sddl"]
        return QueueState(queue, current, (before, before if before == after else sddl))

    def _current(self, path: str) -> dict[str, Any] | None:
        from msmq.structures.names.name_text import is_format_name

        try:
            found = self.client.queue(path)
        except MQError as error:
            if error.status not in _MISSING or is_format_name(path):
                raise
            return None
        if found["type"] == "system" or ";" in found["path"]:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_OPERATION,
                "this is a journal, a subqueue or a system queue; name the queue that it belongs to",
            )
        return found


def _others(client: ControlClient, states: Sequence[QueueState]) -> list[dict[str, Any]]:
    """The queues of the server that the file does not name."""
    named = {state.current["identifier"] for state in states if state.current is not None}
    return [queue for queue in client.queues() if queue["identifier"] not in named]


def _perform(client: ControlClient, change: QueueChange, *, force: bool) -> None:
    if change.action == "delete":
        client.delete_queue(change.path, if_empty=not force)
        return
    properties, security = change.properties, change.security
    if change.action == "create":
        client.create_queue(
            change.path, {**properties, **({} if security is None else {"security": security})}
        )
        return
    if properties:
        client.set_queue(change.path, properties)
    if security is not None:
        client.replace_acl(change.path, security)


def _rows(change: QueueChange) -> list[dict[str, Any]]:
    return [
        {
            "action": change.action,
            "queue": change.path,
            "key": difference.key,
            "from": difference.before,
            "to": difference.after,
        }
        for difference in change.differences
    ]


def _export(settings: Settings) -> None:
    from msmq.cli.queues.queue_file import write_queue_file

    client = settings.client
    described = [(queue, _own_access(client, queue["path"])) for queue in client.queues()]
    settings.output.write(write_queue_file(described).rstrip("\n"))
    settings.output.flush()


def _own_access(client: ControlClient, path: str) -> dict[str, Any] | None:
    """The access list of a queue; C{None} if a rule of the configuration, or nothing, controls access."""
    try:
        found = client.acl(path)
    except MQError as error:
        if error.status is Status.MQ_ERROR_ILLEGAL_OPERATION:
            return None
        raise
    return found if str(found["source"]).startswith("its descriptor") else None
