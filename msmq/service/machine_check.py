"""Checks the files, directories and group that a start needs; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msmq.control.authentication.tokens import read_tokens
from msmq.errors import MsmqError
from msmq.net import tls
from msmq.net.endpoints import StreamEndpoint, named_arguments
from msmq.security.tls import PinnedTls
from msmq.service.control_socket import group_number
from msmq.service.settings import Configuration

MachineProblem: TypeAlias = tuple[tuple[str, str], str]
"""The key, with its table, and what is wrong, in words that finish "the value ..."."""


def machine_problems(configuration: Configuration) -> Iterator[MachineProblem]:
    """All obstacles to a start that can be detected without opening a port or a store."""
    yield from _data_problems(configuration)
    yield from _group_problems(configuration)
    listen, security = configuration.listen, configuration.security
    token_file = security.control_token_file
    if token_file is not None and (listen.remote_control is not None or listen.web is not None):
        yield from _attempt(("security", "control_token_file"), lambda: read_tokens(Path(token_file)))
    member_token = configuration.web.member_token_file
    if member_token is not None and listen.web is not None:
        yield from _attempt(("web", "member_token_file"), lambda: read_tokens(Path(member_token)))
    for key, endpoint in (
        ("session", listen.session),
        ("remote_control", listen.remote_control),
        ("web", listen.web),
    ):
        if endpoint is not None:
            yield from _attempt(("listen", key), partial(_read_certificate, endpoint))


def _data_problems(configuration: Configuration) -> Iterator[MachineProblem]:
    """The data directory and the archive, which a start creates if they are missing."""
    data = configuration.queue_manager.data
    yield from _directory_problems(("queue_manager", "data"), data)
    archive = configuration.archive.directory
    if archive is not None and data not in archive.parents:
        yield from _directory_problems(("archive", "directory"), archive)
    control = configuration.listen.control
    if control is not None and control.parent != data and not control.parent.is_dir():
        yield ("listen", "control"), f"names a socket in {control.parent}, which is not a directory"


def _directory_problems(key: tuple[str, str], directory: Path) -> Iterator[MachineProblem]:
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        yield key, f"cannot be used: {existing} is not a directory"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = "written" if existing == directory else f"created, because {existing} cannot be written"
        yield key, f"cannot be {what} by this user"


def _group_problems(configuration: Configuration) -> Iterator[MachineProblem]:
    group, control = configuration.security.control_group, configuration.listen.control
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


def _attempt(key: tuple[str, str], read: Callable[[], object]) -> Iterator[MachineProblem]:
    try:
        read()
    except OSError as error:
        yield key, f"cannot be used: {error.filename}: {error.strerror}"
    except Exception as error:
        # OpenSSL raises different errors for each fault of a certificate.
        yield key, f"cannot be used: {error}"


def _read_certificate(endpoint: StreamEndpoint) -> None:
    kind, arguments = named_arguments(endpoint.description)
    if kind == "tls":
        PinnedTls().server(tls.check_server(arguments), frozenset())
    elif kind == "ssl":
        tls.read_ssl_files(arguments).getContext()
