"""Checks the files and directories that a bridge needs; changes nothing, and connects to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msmq.bridge_program.settings import BridgeConfiguration
from msmq.bridge_service.client_endpoints import certificate_problems
from msmq.control.authentication.tokens import read_tokens
from msmq.control.client.locations import location_problems, parse_location
from msmq.service.machine_check import (
    MachineProblem,
    attempt,
    directory_problems,
    group_problems,
    read_certificate,
)


def bridge_machine_problems(configuration: BridgeConfiguration) -> Iterator[MachineProblem]:
    """All obstacles to a start, and to its routes, that are found in files of this machine."""
    yield from directory_problems(("program", "data"), configuration.data)
    yield from group_problems(configuration.control_group, configuration.control)
    if configuration.web is not None:
        yield from attempt(("listen", "web"), partial(read_certificate, configuration.web))
        if configuration.token_file is not None:
            key = ("security", "control_token_file")
            yield from attempt(key, partial(read_tokens, configuration.token_file))
    for name, location in configuration.control_servers.items():
        for problem in location_problems(parse_location(location)):
            yield ("control_servers", name), f"cannot be used: {problem}"
    for index, route in enumerate(configuration.routes):
        for key_of_route, problem in certificate_problems(route.broker):
            yield ("bridge", index, key_of_route), f"cannot be used: {problem}"
