"""The C{msmq} command, one file per group of verbs.

Each verb imports its dependencies when it runs, so that the command starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    @param arguments: the arguments after the command's name; by default those of the process.
    """
    try:
        from msmq.cli.command import run

        return run(arguments)
    except KeyboardInterrupt:
        # Ctrl-C came before the command could report it.
        return 130
