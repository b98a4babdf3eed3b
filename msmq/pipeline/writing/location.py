"""Where the queue manager is through which is sent."""

from __future__ import annotations

from pathlib import Path

from msmq.pipeline.writing.options import WriteOptions


def location_of(options: WriteOptions) -> Path:
    """Its control socket; that of a data directory is the one in it."""
    path = Path(options.control.removeprefix("unix:"))
    return path / "control.sock" if path.is_dir() else path
