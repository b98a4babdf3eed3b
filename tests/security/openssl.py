"""The openssl command, which knows nothing of us: vectors are made with it while the tests run."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Final

from twisted.trial.unittest import SkipTest

from tests.patience import DEADLINE

LEGACY: Final = ("-provider", "legacy", "-provider", "default")
"""Arguments with which openssl 3 has RC2 and RC4."""


def openssl(*arguments: str, data: bytes = b"") -> bytes:
    """The output of openssl.

    @raise SkipTest: it is not installed.
    """
    command = shutil.which("openssl")
    if command is None:
        raise SkipTest("needs the openssl command")
    done = subprocess.run(
        [command, *arguments], input=data, capture_output=True, check=False, timeout=DEADLINE
    )
    if done.returncode:
        raise AssertionError(f"openssl {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


@cache
def _has_legacy() -> bool:
    try:
        openssl("enc", "-rc4", "-K", "00" * 16, *LEGACY, data=b"x")
    except AssertionError:
        return False
    return True


def legacy(*arguments: str, data: bytes = b"") -> bytes:
    """The same with the ciphers that openssl has retired.

    @raise SkipTest: it has none, or they were left out of it.
    """
    openssl("version")
    if not _has_legacy():
        raise SkipTest("this openssl was built without its legacy provider")
    return openssl(*arguments, *LEGACY, data=data)
