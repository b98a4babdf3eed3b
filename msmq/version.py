"""Version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("msmq")
    except PackageNotFoundError:
        return "0+unknown"


__version__ = VERSION = _installed()
"""The version from L{importlib.metadata}; C{0+unknown} for a bare source tree."""
