"""The servers that a person uses, by names: a JSON file in the directory for configurations."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import attrs
import click

VERSION = 1


@attrs.frozen
class Contexts:
    """Servers by their names.

    @ivar places: where each is, and the file with its token.
    @ivar current: the one that is used; C{None} for none.
    """

    places: Mapping[str, tuple[str, str | None]]
    current: str | None


def contexts_file() -> str:
    """C{$XDG_CONFIG_HOME/msmq/contexts.json}."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "msmq", "contexts.json")


def read_contexts() -> Contexts:
    """What is kept; nothing if there is no file.

    @raise click.UsageError: it cannot be read, or is damaged.
    """
    path = contexts_file()
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        places = {
            str(name): (str(each["place"]), each.get("token_file"))
            for name, each in value["contexts"].items()
        }
        current = value.get("current")
    except FileNotFoundError:
        return Contexts({}, None)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise click.UsageError(f"{path} is damaged: {error}; correct or remove it") from error
    return Contexts(places, current if current in places else None)


def write_contexts(contexts: Contexts) -> None:
    """Keep these; the file is replaced as a whole.

    @raise click.UsageError: it cannot be written.
    """
    path = contexts_file()
    value = {
        "version": VERSION,
        "current": contexts.current,
        "contexts": {
            name: {"place": place, "token_file": token_file}
            for name, (place, token_file) in contexts.places.items()
        },
    }
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.write("\n")
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
