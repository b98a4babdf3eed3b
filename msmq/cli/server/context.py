"""C{msmq context}: named servers, one of which is the default of the command."""

from __future__ import annotations

import click

from msmq.cli.contexts import Contexts, contexts_file, read_contexts, write_contexts
from msmq.cli.options import Settings, common_options, pass_settings


@click.group
@common_options
def context() -> None:
    """Manage contexts: named servers, one of which is the default of the command."""


@context.command("add")
@click.argument("name")
@click.argument("endpoint")
@click.option("--with-token-file", metavar="F", help="The file with the token of a remote server.")
@common_options
@pass_settings
def context_add(settings: Settings, name: str, endpoint: str, with_token_file: str | None) -> None:
    """Add the context NAME for the server at ENDPOINT: a control socket, a data directory or ssl:HOST:PORT.

    An existing context NAME is replaced. Only the path of the token file is stored, not the token.
    """
    import os

    from msmq.control.client.locations import LocationError, parse_location

    if endpoint.partition(":")[0] not in ("ssl", "tls", "tcp", "unix"):
        endpoint = os.path.abspath(endpoint)
        endpoint = f"unix:{os.path.join(endpoint, 'control.sock') if os.path.isdir(endpoint) else endpoint}"
    token_file = None if with_token_file is None else os.path.abspath(with_token_file)
    try:
        parse_location(endpoint, token_file=token_file)
    except LocationError as error:
        raise click.UsageError(str(error)) from error
    kept = read_contexts()
    write_contexts(Contexts({**kept.endpoints, name: (endpoint, token_file)}, kept.current))
    settings.output.one({"name": name, "place": endpoint, "token_file": token_file})
    settings.output.flush()


@context.command("use")
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Use no context.")
@common_options
@pass_settings
def context_use(settings: Settings, name: str | None, none: bool) -> None:
    """Make NAME the context of all commands that select no server by an option or MSMQ_CONTROL."""
    if (name is None) != none:
        raise click.UsageError("give NAME or --none")
    kept = read_contexts()
    if name is not None and name not in kept.endpoints:
        known = ", ".join(sorted(kept.endpoints)) or "none"
        raise click.UsageError(f"{contexts_file()} has no context {name}; it has: {known}")
    write_contexts(Contexts(kept.endpoints, name))
    settings.output.one({"current": name})
    settings.output.flush()


@context.command("list")
@common_options
@pass_settings
def context_list(settings: Settings) -> None:
    """List the contexts."""
    kept = read_contexts()
    rows = [
        {"name": name, "current": name == kept.current, "place": endpoint, "token_file": token_file}
        for name, (endpoint, token_file) in sorted(kept.endpoints.items())
    ]
    settings.output.many(rows, ("name", "current", "place", "token_file"))
    settings.output.flush()


@context.command("remove")
@click.argument("name")
@common_options
@pass_settings
def context_remove(settings: Settings, name: str) -> None:
    """Remove the context NAME."""
    kept = read_contexts()
    if name not in kept.endpoints:
        raise click.UsageError(f"{contexts_file()} has no context {name}")
    endpoints = {each: endpoint for each, endpoint in kept.endpoints.items() if each != name}
    write_contexts(Contexts(endpoints, None if kept.current == name else kept.current))
    settings.output.one({"removed": name})
    settings.output.flush()
