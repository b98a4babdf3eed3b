"""C{msmq diagnostics}: collects what a support case needs into one archive, without messages and secrets."""

from __future__ import annotations

import io
import json
import os
import platform
import ssl
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.output import complain, system_error
from msmq.errors import MsmqError

if TYPE_CHECKING:
    from msmq.control.client.client import ControlClient

_COMMAND: Final = "msmq diagnostics"
_EVENTS: Final = 1000
_MOST_EVENTS: Final = 10_000
_MOST_FILES: Final = 10_000

_EVENT_KEYS: Final = ("sequence", "time", "event", "queue", "message", "class", "class_name")
"""What is kept of an event; the reason and the details of a change may quote what an operator wrote."""

_LEFT_OUT: Final = frozenset({"label", "body", "token", "password", "keys", "pins"})
"""Keys that no part has, at any depth."""

_PACKAGES: Final = ("msmq", "Twisted", "pyOpenSSL", "cryptography", "attrs", "click", "klein", "psycopg")


@click.command
@click.argument("file", metavar="FILE", type=GIVEN)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--events",
    "events",
    metavar="N",
    type=click.IntRange(0, _MOST_EVENTS),
    default=_EVENTS,
    show_default=True,
    help="The last N events.",
)
@click.option("--config", "config", metavar="FILE", type=GIVEN, help="Add the values of this configuration.")
@common_options
@pass_settings
def diagnostics(settings: Settings, /, file: str, force: bool, events: int, config: str | None) -> int:
    """Collect what a support case needs into FILE, a .tar.gz archive.

    Configuration, status, alarms, versions, events, queues, sessions, quotas and the sizes of files, without
    messages, labels, tokens and keys. A part that fails is reported, and named in the archive; without a
    running server there are the versions, the files and --config.
    """
    if not force and os.path.lexists(file):
        complain(f"{file} exists; --force replaces it", _COMMAND)
        return REFUSED
    contents, failures = _collect(_parts(settings, events, config))
    for name, problem in failures.items():
        complain(f"{name} is left out: {problem}", _COMMAND)
    if contents.keys() == {"versions"}:
        complain(
            f"{file} has nothing of the server; run the command as its user, with its --data or --control",
            _COMMAND,
        )
    contents["manifest"] = {"parts": list(contents), "left_out": failures}
    try:
        _write(file, _archive(contents), replaces=force)
    except OSError as error:
        complain(f"cannot write {file}: {error.strerror or error}", _COMMAND)
        return REFUSED
    settings.output.one({"file": file, "parts": len(contents) - 1, "left_out": list(failures)})
    settings.output.flush()
    return DONE


def _parts(settings: Settings, events: int, config: str | None) -> Mapping[str, Callable[[], object]]:
    """The parts by their names; each may fail."""

    def of_server(read: Callable[[ControlClient], object]) -> Callable[[], object]:
        return lambda: read(settings.client)

    parts: dict[str, Callable[[], object]] = {
        "versions": _versions,
        "files": lambda: _files(settings.data),
        # Problems of a reload are left out: they may quote a value.
        "configuration": of_server(lambda client: client.configuration()["entries"]),
        "status": of_server(lambda client: client.status()),
        "alarms": of_server(lambda client: client.alarms()),
        "quotas": of_server(lambda client: client.quotas()),
        "queues": of_server(lambda client: client.queues(system=True)),
        "outgoing": of_server(lambda client: client.outgoing()),
        "sessions": of_server(lambda client: client.sessions()),
        "events": of_server(lambda client: _events(client, events)),
    }
    if config is not None:
        parts["configuration_file"] = lambda: _configuration_file(config)
    return parts


def _collect(parts: Mapping[str, Callable[[], object]]) -> tuple[dict[str, object], dict[str, str]]:
    """The parts that succeed, and why each other one failed."""
    contents: dict[str, object] = {}
    failures: dict[str, str] = {}
    for name, read in parts.items():
        try:
            contents[name] = _without_secrets(read())
        except click.ClickException as error:
            failures[name] = error.format_message()
        except OSError as error:
            failures[name] = system_error(error)
        except MsmqError as error:
            failures[name] = str(error)
    return contents, failures


def _without_secrets(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_secrets(each) for key, each in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return value


def _events(client: ControlClient, number: int) -> list[dict[str, Any]]:
    found = client.events(tail=number)
    return [{key: each[key] for key in _EVENT_KEYS if key in each} for each in found if "end" not in each]


def _configuration_file(path: str) -> object:
    from msmq.service.configuration import ConfigurationError, load
    from msmq.service.report.shown_values import shown_values

    try:
        return shown_values(load(path))
    except ConfigurationError:
        # A problem may quote a value.
        raise click.UsageError(f"{path} cannot be used; msmq config check says why") from None


def _versions() -> dict[str, object]:
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "packages": packages,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "system": platform.platform(),
    }


def _files(data: str) -> dict[str, object]:
    """Path, size in bytes, mode and time of change of the files of a data directory, not their contents."""

    def fail(error: OSError) -> None:
        raise error

    files: list[dict[str, object]] = []
    for folder, folders, names in os.walk(data, onerror=fail):
        folders.sort()
        for name in sorted(names):
            if len(files) == _MOST_FILES:
                return {"directory": data, "files": files, "is_complete": False}
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                # A running server deletes files.
                found = os.lstat(path)
                files.append(
                    {
                        "path": os.path.relpath(path, data),
                        "bytes": found.st_size,
                        "mode": stat.filemode(found.st_mode),
                        "changed": found.st_mtime,
                    }
                )
    return {"directory": data, "files": files, "is_complete": True}


def _archive(contents: Mapping[str, object]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, value in contents.items():
            data = json.dumps(value, indent=1).encode() + b"\n"
            entry = tarfile.TarInfo(f"msmq-diagnostics/{name}.json")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def _write(path: str, content: bytes, *, replaces: bool) -> None:
    """Write a file that only its owner can read; it appears when it is complete.

    @raise OSError: it cannot be written, or exists and may not be replaced.
    """
    descriptor, beginning = tempfile.mkstemp(prefix=".msmq-diagnostics-", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            os.replace(beginning, path)
        else:
            # Unlike a rename, it never replaces a file that was created meanwhile.
            os.link(beginning, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beginning)
