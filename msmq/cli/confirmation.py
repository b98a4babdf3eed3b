"""Confirmation of commands that destroy something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar

import click

from msmq.structures.status import MQError, Status

_C = TypeVar("_C", bound=Callable[..., object])

yes_option: Final = click.option("--yes", is_flag=True, help="Do it without asking.")
"""Lets a command take C{--yes}."""


def is_interactive() -> bool:
    """Whether a person can be asked: input and error output are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def confirm(question: Callable[[], str], *, yes: bool, is_required: bool = True) -> None:
    """Ask a person, unless C{--yes} was given.

    @param question: makes the question, without its question mark; called only if it is asked.
    @param is_required: without a terminal C{--yes} has to be given.
    @raise MQError: MQ_ERROR_OPERATION_CANCELLED the answer is no.
    @raise click.UsageError: there is no terminal to ask on.
    """
    if yes:
        return
    if is_interactive():
        if not click.confirm(question(), err=True):
            raise MQError(Status.MQ_ERROR_OPERATION_CANCELLED, "nothing was changed")
    elif is_required:
        raise click.UsageError("there is no terminal to ask on; confirm with --yes, or look with --dry-run")
