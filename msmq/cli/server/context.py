"""C{msmq context}: named servers, one of which is the default of the command."""

from __future__ import annotations

from pathlib import Path

import click

from msmq.cli.contexts import Contexts, change_contexts, contexts_file, read_contexts
from msmq.cli.options import GIVEN, Settings, common_options, is_remote, local_endpoint, pass_settings


@click.group
@common_options
def context() -> None:
    """Manage contexts: named servers, one of which is the default of the command."""


@context.command("add")
@click.argument("name")
@click.argument("endpoint", type=GIVEN)
@click.option(
    "--with-token-file", metavar="F", type=GIVEN, help="The file with the token of a remote server."
)
@common_options
@pass_settings
def context_add(settings: Settings, name: str, endpoint: str, with_token_file: str | None) -> None:
    """Add the context NAME for the server at ENDPOINT: a control socket, a data directory or ssl:HOST:PORT.

    The files that it names are read, the server is not contacted. An existing context NAME is replaced. Only
    the path of the token file is stored, not the token.
    """
    settings.refuse_on()
    import os

    if not name.strip():
        raise click.UsageError("NAME is empty")
    if not is_remote(endpoint):
        endpoint = _socket_of(endpoint)
    token_file = None if with_token_file is None else os.path.abspath(with_token_file)
    endpoint = _checked(endpoint, token_file)
    change_contexts(lambda kept: Contexts({**kept.endpoints, name: (endpoint, token_file)}, kept.current))
    settings.output.one({"name": name, "place": endpoint, "token_file": token_file})
    settings.output.flush()


def _socket_of(path: str) -> str:
    """The endpoint of a control socket or of a data directory, also after C{unix:}."""
    import os

    if "://" in path:
        raise click.UsageError(f"{path} is not an endpoint: write ssl:HOST:PORT for a remote server")
    path = path.removeprefix("unix:")
    # The path that is missing in C{unix:} is not the working directory.
    return local_endpoint(os.path.abspath(path) if path else path)


def _checked(endpoint: str, token_file: str | None) -> str:
    """The endpoint with absolute paths, whose files can be used.

    @raise click.UsageError: it is not an endpoint, or one of the files is missing or unusable.
    """
    from msmq.control.authentication.tokens import TokenError
    from msmq.control.client.locations import (
        LocationError,
        UnixLocation,
        parse_location,
        with_absolute_files,
    )

    try:
        parse_location(endpoint, token_file=token_file)
        endpoint = with_absolute_files(endpoint)
        location = parse_location(endpoint, token_file=token_file)
        if isinstance(location, UnixLocation):
            _check_socket(location.path)
        location.headers()
        # Reads the certificates; it does not connect.
        location.connection().close()
    except (LocationError, TokenError) as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{endpoint}: {error.strerror or error}") from error
    return endpoint


def _check_socket(path: Path) -> None:
    """Refuse a file that is not a socket, and a missing one, unless it is that of a stopped server.

    @raise OSError: it cannot be examined.
    """
    if path.is_socket() or (not path.exists() and path.suffix == ".sock" and path.parent.is_dir()):
        return
    if path.exists():
        raise click.UsageError(f"{path} is not a control socket")
    raise click.UsageError(
        f"{path} does not exist: name a data directory, the control socket in it, or ssl:HOST:PORT"
    )


@context.command("use")
@click.argument("name", required=False)
@click.option("--none", is_flag=True, help="Use no context.")
@common_options
@pass_settings
def context_use(settings: Settings, name: str | None, none: bool) -> None:
    """Make NAME the context of all commands that select no server by an option or MSMQ_CONTROL."""
    settings.refuse_on()
    if (name is None) != none:
        raise click.UsageError("give NAME or --none")

    def use(kept: Contexts) -> Contexts:
        if name is not None and name not in kept.endpoints:
            known = ", ".join(sorted(kept.endpoints)) or "none"
            raise click.UsageError(f"{contexts_file()} has no context {name}; it has: {known}")
        return Contexts(kept.endpoints, name)

    change_contexts(use)
    settings.output.one({"current": name})
    settings.output.flush()


@context.command("list")
@common_options
@pass_settings
def context_list(settings: Settings) -> None:
    """List the contexts."""
    settings.refuse_on()
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
    settings.refuse_on()

    def without(kept: Contexts) -> Contexts:
        if name not in kept.endpoints:
            raise click.UsageError(f"{contexts_file()} has no context {name}")
        endpoints = {each: endpoint for each, endpoint in kept.endpoints.items() if each != name}
        return Contexts(endpoints, None if kept.current == name else kept.current)

    change_contexts(without)
    settings.output.one({"removed": name})
    settings.output.flush()
