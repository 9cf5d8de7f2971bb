"""The OpenAPI document, made from the table of routes and the shapes themselves."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.channels.http.routes import Endpoint
from holdfast.ports.surface import ErrorReport

REFERENCE = "#/components/schemas/{name}"
PATH = "/openapi.json"
ERRORS = {
    400: "The request is not acceptable.",
    401: "The token is missing or wrong.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "It contradicts something that is already there or running.",
    413: "The message is too large.",
    429: "Too many; the header Retry-After says when to come back.",
    500: "The fault is ours.",
    503: "The store cannot write at present; nothing was acknowledged.",
}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    every = tuple(endpoints)
    shapes = {shape for one in every for shape in (*one.answers.values(), one.body) if shape} | {ErrorReport}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {PATH: {"get": _operation("This document", {200: None}, ())}}
    for one in every:
        paths.setdefault(one.path, {})[one.method.lower()] = _describe(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(one: Endpoint) -> dict[str, Any]:
    found = _operation(one.summary, one.answers, one.errors)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
        for name, what in one.query.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if one.body:
        found["requestBody"] = {"required": True, "content": _content(one.body)}
    if one.is_open:
        found["security"] = []
        del found["responses"]["401"]
    return found


def _operation(summary: str, answers: Any, errors: Iterable[int]) -> dict[str, Any]:  # noqa: ANN401
    responses: dict[str, Any] = {}
    for status, shape in answers.items():
        responses[str(status)] = {
            "description": (shape.__doc__ or summary).split("\n")[0] if shape else summary,
            "content": _content(shape),
        }
    for status in sorted({*errors, 400, 401, 500}):
        responses.setdefault(str(status), {"description": ERRORS[status], "content": _content(ErrorReport)})
    return {"summary": summary, "responses": responses}


def _content(shape: type[msgspec.Struct] | None) -> dict[str, Any]:
    schema = {"$ref": REFERENCE.format(name=shape.__name__)} if shape else {"type": "object"}
    return {"application/json": {"schema": schema}}
