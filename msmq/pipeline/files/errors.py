"""Errors of files of messages: of export, import and archive."""

from __future__ import annotations

from types import ModuleType

from msmq.errors import MsmqError


class FilesError(MsmqError):
    """Files cannot be written or read as requested; the text names file and reason."""


class FileUnwritable(FilesError):
    """A file cannot be written now, as on a full disk; what was there is as it was before."""


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
