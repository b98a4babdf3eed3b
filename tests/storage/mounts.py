"""Commands that see a directory as a file system of their own, or one that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.patience import DEADLINE

PROJECT = Path(__file__).resolve().parent.parent.parent

SMALL = 'mount -t tmpfs -o size=40m tmpfs "$1"'
"""Of 40 MiB, and empty."""

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"'
"""What is there, for reading only."""


def run_mounted(how: str, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that alone sees a directory so.

    @raise SkipTest: this machine does not permit mounts.
    """
    if reason := _why_not(directory):
        raise SkipTest(f"no file system can be mounted for a process: {reason}")
    return _run(how, directory, command)


@cache
def _why_not(directory: Path) -> str:
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    return _run(READ_ONLY, directory, ("true",)).stderr.strip()


def _run(how: str, directory: Path, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    script = f'{how} && shift && exec "$@"'
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(directory), *command],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
