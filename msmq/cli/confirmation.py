"""Confirmation of commands that destroy something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar

import click

from msmq.structures.status import MQError, Status

_C = TypeVar("_C", bound=Callable[..., object])

yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
"""Decorator that adds C{--yes} to a command."""

dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Change nothing, and print what would be removed."
)
"""Decorator that adds C{--dry-run} to a command."""


def is_interactive() -> bool:
    """Whether the command can prompt: standard input and standard error are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def confirm(question: Callable[[], str], *, yes: bool, is_required: bool = True) -> None:
    """Prompt for confirmation, unless C{--yes} was given.

    @param question: returns the question, without its question mark; called only for a prompt.
    @param is_required: whether C{--yes} is required without a terminal.
    @raise MQError: MQ_ERROR_OPERATION_CANCELLED if the answer is no.
    @raise click.UsageError: there is no terminal, and C{--yes} is required.
    """
    if yes:
        return
    if is_interactive():
        if not click.confirm(question(), err=True):
            raise MQError(Status.MQ_ERROR_OPERATION_CANCELLED, "nothing was changed")
    elif is_required:
        raise click.UsageError(
            "there is no terminal for a confirmation; use --yes, or preview with --dry-run"
        )
