"""Generates the Grafana dashboard from the table of metrics: C{python -m msmq.web.dashboard
>packaging/grafana/msmq.json}.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from msmq.web.metrics import ALL_METRICS, FORMER_NAMES, INFO, WINDOWS_METRICS, Metric, MetricKind

COLUMNS: Final = 3
_WIDTH: Final = 24 // COLUMNS
_HEIGHT: Final = 7
_WHERE: Final = '{instance=~"$instance"}'
_UNITS: Final = (
    ("_bytes_total", "Bps"),
    ("_bytes", "bytes"),
    ("_seconds", "s"),
    ("_ratio", "percentunit"),
    ("_total", "cps"),
)


def dashboard() -> dict[str, Any]:
    """One panel for each metric, in the order of the table, without former and windows_exporter names."""
    shown = [
        metric
        for metric in ALL_METRICS
        if metric not in WINDOWS_METRICS and metric is not INFO and metric.name not in FORMER_NAMES
    ]
    return {
        "title": "MSMQ queue managers",
        "uid": "msmq",
        "schemaVersion": 39,
        "tags": ["msmq"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "type": "datasource",
                    "query": "prometheus",
                },
                {
                    "name": "instance",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": f"label_values({INFO.name}, instance)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                },
            ]
        },
        "panels": [_panel(number, metric) for number, metric in enumerate(shown)],
    }


_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, metric: Metric) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": metric.name,
        "description": metric.help,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": _unit(metric), "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "expr": expression(metric), "legendFormat": _legend(metric), "datasource": _SOURCE}
        ],
    }


def expression(metric: Metric) -> str:
    """The PromQL expression of a metric's panel: a rate, a value, or the 99th percentile."""
    if metric.kind is MetricKind.COUNTER:
        return f"rate({metric.name}{_WHERE}[$__rate_interval])"
    if metric.kind is MetricKind.HISTOGRAM:
        rate = f"rate({metric.name}_bucket{_WHERE}[$__rate_interval])"
        return f"histogram_quantile(0.99, sum by (instance, le) ({rate}))"
    return f"{metric.name}{_WHERE}"


def _unit(metric: Metric) -> str:
    return next((unit for ending, unit in _UNITS if metric.name.endswith(ending)), "short")


def _legend(metric: Metric) -> str:
    return " ".join(["{{instance}}", *(f"{{{{{label}}}}}" for label in metric.labels)])


def text() -> str:
    """The dashboard as the text of its file."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
