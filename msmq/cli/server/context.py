"""C{msmq context}: named servers, one of which is the default of the command."""

from __future__ import annotations

import click

from msmq.cli.contexts import Contexts, contexts_file, read_contexts, write_contexts
from msmq.cli.options import Settings, common_options, pass_settings


@click.group
@common_options
def context() -> None:
    """Keep the servers that the command is used with, and choose one."""


@context.command("add")
@click.argument("name")
@click.argument("place")
@click.option("--with-token-file", metavar="F", help="The file with the token of a server over the network.")
@common_options
@pass_settings
def context_add(settings: Settings, name: str, place: str, with_token_file: str | None) -> None:
    """Keep the server at PLACE under NAME: a control socket, a data directory or ssl:HOST:PORT.

    A NAME that is there is replaced.  The token stays in its file.
    """
    import os

    from msmq.control.client.locations import LocationError, parse_location

    if place.partition(":")[0] not in ("ssl", "tls", "tcp", "unix"):
        place = os.path.abspath(place)
        place = f"unix:{os.path.join(place, 'control.sock') if os.path.isdir(place) else place}"
    token_file = None if with_token_file is None else os.path.abspath(with_token_file)
    try:
        parse_location(place, token_file=token_file)
    except LocationError as error:
        raise click.UsageError(str(error)) from error
    kept = read_contexts()
    write_contexts(Contexts({**kept.places, name: (place, token_file)}, kept.current))
    settings.output.one({"name": name, "place": place, "token_file": token_file})
    settings.output.flush()


@context.command("use")
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Use none of them.")
@common_options
@pass_settings
def context_use(settings: Settings, name: str | None, none: bool) -> None:
    """Use the server NAME from now on, where neither an option nor MSMQ_CONTROL names another."""
    if (name is None) != none:
        raise click.UsageError("give NAME or --none")
    kept = read_contexts()
    if name is not None and name not in kept.places:
        known = ", ".join(sorted(kept.places)) or "none"
        raise click.UsageError(f"there is no context {name} in {contexts_file()}; there are: {known}")
    write_contexts(Contexts(kept.places, name))
    settings.output.one({"current": name})
    settings.output.flush()


@context.command("list")
@common_options
@pass_settings
def context_list(settings: Settings) -> None:
    """List the servers."""
    kept = read_contexts()
    rows = [
        {"name": name, "current": name == kept.current, "place": place, "token_file": token_file}
        for name, (place, token_file) in sorted(kept.places.items())
    ]
    settings.output.many(rows, ("name", "current", "place", "token_file"))
    settings.output.flush()


@context.command("remove")
@click.argument("name")
@common_options
@pass_settings
def context_remove(settings: Settings, name: str) -> None:
    """Forget the server NAME."""
    kept = read_contexts()
    if name not in kept.places:
        raise click.UsageError(f"there is no context {name} in {contexts_file()}")
    places = {each: place for each, place in kept.places.items() if each != name}
    write_contexts(Contexts(places, None if kept.current == name else kept.current))
    settings.output.one({"removed": name})
    settings.output.flush()
