"""Standard input of the command."""

from __future__ import annotations

import sys
from typing import BinaryIO

import click


def standard_input() -> BinaryIO:
    """The bytes of standard input.

    @raise click.UsageError: it is closed, as cron or a supervisor may start a command.
    """
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    return sys.stdin.buffer
