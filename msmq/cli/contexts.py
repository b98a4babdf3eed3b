"""Contexts of the command: named servers, in a JSON file in the user's configuration directory."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress

import attrs
import click

VERSION = 1


@attrs.frozen
class Contexts:
    """Servers by their names.

    @ivar endpoints: the endpoint of each server, and its token file.
    @ivar current: the name of the context in use; C{None} for none.
    """

    endpoints: Mapping[str, tuple[str, str | None]]
    current: str | None


def contexts_file() -> str:
    """C{$XDG_CONFIG_HOME/msmq/contexts.json}."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "msmq", "contexts.json")


def read_contexts() -> Contexts:
    """Read the contexts; empty if there is no file.

    @raise click.UsageError: the file cannot be read, or is damaged.
    """
    path = contexts_file()
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        endpoints = {
            str(name): (str(each["place"]), each.get("token_file"))
            for name, each in value["contexts"].items()
        }
        current = value.get("current")
        is_known = current in endpoints
    except FileNotFoundError:
        return Contexts({}, None)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise click.UsageError(f"{path} is damaged: {error}; correct or remove it") from error
    return Contexts(endpoints, current if is_known else None)


def change_contexts(change: Callable[[Contexts], Contexts]) -> None:
    """Change the contexts; the file is replaced atomically, and other commands wait meanwhile.

    @param change: returns the new contexts for the present ones.
    @raise click.UsageError: the file cannot be read or written.
    """
    path = contexts_file()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with suppress(OSError):
            # A directory of NFS has no such lock.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _write(path, change(read_contexts()))
    finally:
        os.close(descriptor)


def _write(path: str, contexts: Contexts) -> None:
    value = {
        "version": VERSION,
        "current": contexts.current,
        "contexts": {
            name: {"place": endpoint, "token_file": token_file}
            for name, (endpoint, token_file) in contexts.endpoints.items()
        },
    }
    try:
        descriptor, beginning = tempfile.mkstemp(
            prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path)
        )
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(value, file, indent=2)
                file.write("\n")
            os.replace(beginning, path)
        except BaseException:
            os.unlink(beginning)
            raise
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
