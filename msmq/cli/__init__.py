"""The C{msmq} command, one file per group of verbs.

Each verb imports what it needs when it runs, so that the command starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and answer its exit status.

    @param arguments: what follows the command's name; by default those that the process was given.
    """
    try:
        from msmq.cli.command import run

        return run(arguments)
    except KeyboardInterrupt:
        # Ctrl-C came before there was anything that could say so.
        return 130
