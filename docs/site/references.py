"""Pages of the site that are made from the code: the metrics and the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

from klein import Klein

import msmq.control.server.resources
from msmq.control.server.description.openapi import describe_api
from msmq.control.server.resources.context import ResourceFamily
from msmq.web import metrics


def metrics_reference() -> str:
    """Every metric of the table from which C{/metrics} is made."""
    lines = [
        "# Every metric",
        "",
        "[Metrics and health](../docs/guide/monitoring.md#metrics-and-health) says how to read them."
        " The process of the server also has the `process_...` metrics of the Prometheus client.",
        "",
        "| name | kind | labels | meaning |",
        "|---|---|---|---|",
    ]
    for _, metric in sorted({metric.name: metric for metric in _metrics()}.items()):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {_cell(metric.help)} |")
    return "\n".join(lines) + "\n"


def http_reference() -> str:
    """Every operation of the control API, from the description that a server gives of itself."""
    described = describe_api(_families())
    lines = [
        "# Every operation of the HTTP API",
        "",
        "[The control API](../docs/control.md) explains them. `GET /v1/openapi.json` of a server has the same"
        " in OpenAPI 3.1, with the schemas of answers.",
        "",
    ]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            lines += [
                f"## `{method.upper()} {path}`",
                "",
                operation["summary"],
                "",
                operation["description"],
                "",
            ]
            lines += _keys("parameter", operation["parameters"])
            body = operation.get("requestBody", {}).get("content", {})
            for kind, content in body.items():
                lines += [f"The body is `{kind}`.", ""]
                lines += _properties(content["schema"])
    return "\n".join(lines)


def _metrics() -> Iterator[metrics.Metric]:
    """The metrics of the module, alone, in sequences and as keys."""
    for value in vars(metrics).values():
        if isinstance(value, metrics.Metric):
            yield value
        elif isinstance(value, Mapping | tuple):
            yield from (each for each in value if isinstance(each, metrics.Metric))


def _families() -> list[ResourceFamily]:
    """The resources of a server; their routes belong to the class, so that no server is needed."""
    package = msmq.control.server.resources
    found: list[ResourceFamily] = []
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        for kind in vars(import_module(module.name)).values():
            if isinstance(kind, type) and isinstance(vars(kind).get("app"), Klein):
                if kind.__module__ == module.name:
                    found.append(cast(ResourceFamily, object.__new__(kind)))
    return found


def _keys(title: str, parameters: list[dict[str, Any]]) -> list[str]:
    if not parameters:
        return []
    lines = [f"| {title} | in | type | |", "|---|---|---|---|"]
    for each in parameters:
        words = each.get("description", "") + ("" if each["required"] else " (optional)")
        lines.append(
            f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(words.strip())} |"
        )
    return [*lines, ""]


def _properties(schema: Mapping[str, Any]) -> list[str]:
    if not schema.get("properties"):
        return []
    required = schema.get("required", ())
    lines = ["| key | type | |", "|---|---|---|"]
    for name, inner in schema["properties"].items():
        lines.append(f"| `{name}` | {_type(inner)} | {'required' if name in required else ''} |")
    return [*lines, ""]


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return ", ".join(f"`{_cell(str(each))}`" for each in schema["enum"])
    for choice in "anyOf", "oneOf":
        if choice in schema:
            return " or ".join(_type(each) for each in schema[choice])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
