"""Metrics of streaming queries in the text format of Prometheus: lag and rates, per query.

Spark accepts no metrics of its own from a data source in Python, so a listener of the session has them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

import attrs
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

_HELP: Final[Mapping[str, tuple[str, str]]] = {
    "msmq_stream_unread": ("gauge", "Numbers of the message log after the last batch."),
    "msmq_stream_lag_seconds": ("gauge", "Age of the oldest message that is not in a batch."),
    "msmq_stream_input_rows_per_second": ("gauge", "Rate at which rows arrived, as Spark computes it."),
    "msmq_stream_processed_rows_per_second": ("gauge", "Rate at which rows were processed."),
    "msmq_stream_batch_seconds": ("gauge", "Duration of the last batch."),
    "msmq_stream_rows_total": ("counter", "Rows in batches since the query was started."),
    "msmq_stream_batches_total": ("counter", "Batches with rows since the query was started."),
}
_REPORTED: Final = {"unread": "msmq_stream_unread", "lag_seconds": "msmq_stream_lag_seconds"}
"""The keys of the latest offset of a source of msmq."""


@attrs.define(eq=False)
class StreamMetrics(StreamingQueryListener):
    """Listener that keeps the metrics of all queries of a session that read C{format("msmq")}.

    C{spark.streams.addListener(StreamMetrics(path))} registers it.

    @ivar path: the file to write after each batch, as the textfile collector of node_exporter reads it;
        C{None} for no file.
    """

    path: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    _values: dict[tuple[str, str, str], dict[str, float]] = attrs.field(factory=dict, init=False)
    _lock: Any = attrs.field(factory=Lock, init=False, repr=False)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """No operation: a query has metrics from its first batch on."""

    def onQueryIdle(self, event: Any) -> None:
        """No operation: Spark reports no offsets with it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Keep the figures of a batch, and write the file."""
        self.observe(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._values = {key: found for key, found in self._values.items() if key[0] != str(event.runId)}
        self._write()

    def observe(self, progress: Any) -> None:
        """Keep the figures of a batch.

        @param progress: a C{StreamingQueryProgress}.
        """
        with self._lock:
            for number, source in enumerate(progress.sources):
                reported = _reported(source.latestOffset)
                if reported is None:
                    continue
                key = (str(progress.runId), progress.name or str(progress.id), str(number))
                kept = self._values.setdefault(
                    key, {"msmq_stream_rows_total": 0, "msmq_stream_batches_total": 0}
                )
                kept.pop("msmq_stream_unread", None)
                kept.pop("msmq_stream_lag_seconds", None)
                kept |= reported
                kept["msmq_stream_input_rows_per_second"] = _number(source.inputRowsPerSecond)
                kept["msmq_stream_processed_rows_per_second"] = _number(source.processedRowsPerSecond)
                kept["msmq_stream_batch_seconds"] = progress.batchDuration / 1000
                kept["msmq_stream_rows_total"] += source.numInputRows
                kept["msmq_stream_batches_total"] += source.numInputRows > 0
        self._write()

    def text(self) -> str:
        """All metrics in the text format of Prometheus."""
        with self._lock:
            found = dict(self._values)
        lines = []
        for name, (kind, meaning) in _HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            for (_, query, source), values in found.items():
                if name in values:
                    labels = f'query="{_label(query)}",source="{source}"'
                    lines.append(f"{name}{{{labels}}} {values[name]:.10g}")
        return "\n".join((*lines, ""))

    def _write(self) -> None:
        if self.path is None:
            return
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        new.write_text(self.text(), encoding="utf-8")
        new.replace(self.path)


def _reported(latest: str | None) -> dict[str, float] | None:
    """The figures in the latest offset of a source; C{None} for a source of another format."""
    try:
        found = json.loads(latest or "null")
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"store", "next", *_REPORTED} <= found.keys():
        return None
    return {name: float(found[key]) for key, name in _REPORTED.items() if found[key] is not None}


def _number(value: float | None) -> float:
    """A rate of Spark, which is not a number for a batch without a duration."""
    return value if value is not None and value == value else 0.0


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
