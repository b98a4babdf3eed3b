"""Errors of files of messages: of export, import and archive."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from msmq.errors import MsmqError


class FilesError(MsmqError):
    """Files cannot be written or read as requested; the text names file and reason."""


class FileUnwritable(FilesError):
    """A file cannot be written now, as on a full disk; what was there is as it was before."""


def check_encoding(path: Path) -> None:
    """Check that Parquet files can have a path: its bytes have to be UTF-8.

    @raise FilesError: they are not.
    """
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise FilesError(f"{path}: this path is not UTF-8, as Parquet files need it; use another") from None


def parquet() -> ModuleType:
    """Import the Parquet library.

    @raise FilesError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise FilesError(f"Parquet files need pyarrow: pip install 'msmq[parquet]' ({error})") from None
    found: ModuleType = pyarrow.parquet
    return found
