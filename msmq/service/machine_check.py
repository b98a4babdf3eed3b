"""Checks the files, directories and group that a start needs; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msmq.control.authentication.tokens import read_own_token, read_tokens
from msmq.errors import MsmqError
from msmq.net import tls
from msmq.net.endpoints import StreamEndpoint, named_arguments
from msmq.security.tls import PinnedTls
from msmq.service.control_socket import group_number
from msmq.service.settings import Configuration
from msmq.toml.lines import Path as KeyPath

MachineProblem: TypeAlias = tuple[KeyPath, str]
"""The key, with its table, and what is wrong, in words that finish "the value ..."."""


def machine_problems(configuration: Configuration) -> Iterator[MachineProblem]:
    """All obstacles to a start that can be detected without opening a port or a store."""
    yield from _data_problems(configuration)
    yield from group_problems(configuration.security.control_group, configuration.listen.control)
    listen, security = configuration.listen, configuration.security
    token_file = security.control_token_file
    if token_file is not None and (listen.remote_control is not None or listen.web is not None):
        yield from attempt(("security", "control_token_file"), lambda: read_tokens(Path(token_file)))
    member_token = configuration.web.member_token_file
    if member_token is not None and listen.web is not None:
        yield from attempt(("web", "member_token_file"), lambda: read_own_token(Path(member_token)))
    for key, endpoint in (
        ("session", listen.session),
        ("remote_control", listen.remote_control),
        ("web", listen.web),
    ):
        if endpoint is not None:
            yield from attempt(("listen", key), partial(read_certificate, endpoint))
    if configuration.bridges:
        # A server without routes does not import the bridge.
        from msmq.bridge_service.client_endpoints import certificate_problems

        for index, route in enumerate(configuration.bridges):
            for key, problem in certificate_problems(route.broker):
                yield ("bridge", index, key), f"cannot be used: {problem}"


def _data_problems(configuration: Configuration) -> Iterator[MachineProblem]:
    """The data directory and the archive, which a start creates if they are missing."""
    data = configuration.queue_manager.data
    yield from directory_problems(("queue_manager", "data"), data)
    archive = configuration.archive.directory
    if archive is not None and data not in archive.parents:
        yield from directory_problems(("archive", "directory"), archive)
    control = configuration.listen.control
    if control is not None and control.parent != data and not control.parent.is_dir():
        yield ("listen", "control"), f"names a socket in {control.parent}, which is not a directory"


def directory_problems(key: KeyPath, directory: Path) -> Iterator[MachineProblem]:
    """Whether this user can write a directory, or create it."""
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        yield key, f"cannot be used: {existing} is not a directory"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = "written" if existing == directory else f"created, because {existing} cannot be written"
        yield key, f"cannot be {what} by this user"


def group_problems(group: str | None, control: Path | None) -> Iterator[MachineProblem]:
    """Whether this user can give a control socket to a group."""
    if group is None or control is None:
        return
    key = ("security", "control_group")
    try:
        number = group_number(control, group)
    except MsmqError:
        yield key, f"names the group {group}, which does not exist on this machine"
        return
    if os.geteuid() != 0 and number not in (os.getegid(), *os.getgroups()):
        yield key, f"names the group {group}, of which this user is not a member"


def attempt(key: KeyPath, read: Callable[[], object]) -> Iterator[MachineProblem]:
    """Whether a file of a key can be used.

    @param read: reads it; its error names the file.
    """
    try:
        read()
    except OSError as error:
        yield key, f"cannot be used: {error.filename}: {error.strerror}"
    except Exception as error:
        # OpenSSL raises different errors for each fault of a certificate.
        yield key, f"cannot be used: {error}"


def read_certificate(endpoint: StreamEndpoint) -> None:
    """Read the certificates of an endpoint, if it has TLS.

    @raise Exception: they cannot be used; OpenSSL's errors are among these.
    """
    kind, arguments = named_arguments(endpoint.description)
    if kind == "tls":
        PinnedTls().server(tls.check_server(arguments), frozenset())
    elif kind == "ssl":
        tls.read_ssl_files(arguments).getContext()
