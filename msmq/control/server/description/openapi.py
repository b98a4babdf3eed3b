"""Generates the OpenAPI 3.1 description from the routes, their docstrings, roles and operations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

from msmq.control.authentication.roles import Role, required_role
from msmq.control.server.description.operation import OCTETS, ApiOperation
from msmq.control.server.description.operations import OPERATIONS
from msmq.control.server.description.schemas import GUID, NUMBER, REFUSAL, TEXT, Schema
from msmq.control.server.http.responses import JSON
from msmq.control.server.resources.context import ResourceFamily
from msmq.version import VERSION

_PART: Final = re.compile(r"<(?:(\w+):)?(\w+)>")
_MARKUP: Final = re.compile(r"[A-Z]\{([^{}]*)\}")
_REFUSED: Final[Schema] = {
    "description": "refused",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Refusal"}}},
}
_PATHS: Final = {
    "path": "the path or format name of a queue",
    "name": "a format name of an outgoing queue, or the name of another member",
    "message": "the identifier of a message: {guid}\\number",
    "lookup_id": "the lookup_id of a message",
    "fingerprint": "the fingerprint of a certificate; default is the one for signing",
    "identifier": "the identifier of a transaction",
    "stream": "the stream of a receipt",
    "receipt": "the number of a receipt",
}


def describe_api(families: Iterable[ResourceFamily]) -> dict[str, Any]:
    """The description of the routes of these resources, as a JSON object."""
    paths: dict[str, dict[str, Any]] = {}
    for family in families:
        for rule in family.app.url_map.iter_rules():
            path = _PART.sub(r"{\2}", rule.rule)
            summary = _summary(getattr(type(family), rule.endpoint))
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                operation = OPERATIONS.get((method, rule.rule), ApiOperation())
                described = _operation(operation, method, rule.rule, summary)
                paths.setdefault(path, {})[method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The control API of msmq",
            "version": VERSION,
            "summary": "Controls and observes one queue manager.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Refusal": REFUSAL},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: ApiOperation, method: str, route: str, summary: str) -> dict[str, Any]:
    role: Role = required_role(method, route)
    described: dict[str, Any] = {
        "operationId": f"{method.lower()}{_PART.sub(r'_', route).replace('/', '_').replace('.', '_')}",
        "summary": summary,
        "description": f"Needs the role {role}.",
        "x-msmq-role": str(role),
        "parameters": [*_path_parameters(route), *_query_parameters(operation)],
        "responses": {
            str(operation.status): {
                "description": "done",
                "content": {kind: {"schema": schema} for kind, schema in operation.answers.items()},
            },
            "4XX": _REFUSED,
            "5XX": _REFUSED,
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {JSON: {"schema": operation.body}},
        }
    elif operation.raw_body:
        schema = {"type": "string", "format": "binary"} if operation.raw_body == OCTETS else {}
        described["requestBody"] = {"content": {operation.raw_body: {"schema": schema}}}
    return described


def _path_parameters(route: str) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATHS[name],
            "schema": NUMBER if kind == "int" else GUID if name == "identifier" else {**TEXT, "minLength": 1},
        }
        for kind, name in _PART.findall(route)
    ]


def _query_parameters(operation: ApiOperation) -> list[Schema]:
    found: list[Schema] = []
    for name, schema in operation.query.items():
        is_repeated = name in operation.repeated
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in operation.required,
                "schema": {"type": "array", "items": schema} if is_repeated else schema,
            }
        )
    return found


def _summary(handler: object) -> str:
    """The first paragraph of a docstring, without markup."""
    paragraph = (inspect.getdoc(handler) or "").split("\n\n")[0].replace("\n", " ")
    return _MARKUP.sub(r"\1", paragraph)
