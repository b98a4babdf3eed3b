"""How the Python processes of Spark report: our errors in one line, and nothing about rows not wanted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from msmq.errors import MsmqError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""What Spark's setting C{spark.sql.execution.pyspark.udf.hideTraceback.enabled} sets in its processes.

The setting would hide tracebacks of functions of users too.
"""

_T = TypeVar("_T")


@contextmanager
def plain_errors() -> Generator[None]:
    """Have Spark show errors of msmq without a traceback; also a decorator.

    The process ends with the error that it reports.
    """
    try:
        yield
    except MsmqError:
        os.environ[_HIDE] = "1"
        raise


def rows_for_spark(batches: Iterable[_T]) -> Iterator[_T]:
    """These batches; if Spark needs no more of them, the process ends silently.

    After a C{limit} Spark closes the connection while the process still writes.
    Python makes an error of that, which Spark prints with its traceback.
    """
    with plain_errors():
        if threading.current_thread() is not threading.main_thread():
            yield from batches
            return
        for batch in batches:
            before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            # Closed here, the process has failed to write, and ends; its last output has no reader either.
            yield batch
            # Other connections of the process have their own handling.
            signal.signal(signal.SIGPIPE, before)
