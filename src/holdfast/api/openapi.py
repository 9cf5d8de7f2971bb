"""The OpenAPI document, generated from the table of routes and from the shapes."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import ANY, JSON, NAME, NAMES, PART, Endpoint, HttpCall, Param, route
from holdfast.api.shapes.error_report import ErrorReport

REFERENCE = "#/components/schemas/{name}"
PATH = "/openapi.json"
# An empty parameter counts as missing.
EMPTY_OR_PART = {name: value for name, value in PART.items() if name != "minLength"}
EMPTY_OR_NAME = {**NAME, "pattern": "^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"}
ERRORS = {
    400: "The request is not acceptable.",
    401: "The token is missing or wrong.",
    403: "The token is not for this.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "It contradicts something that is already there or running.",
    413: "The message is too large.",
    415: "The body is not JSON in UTF-8.",
    422: "It cannot be kept.",
    429: "Too many; the header Retry-After says when to come back.",
    500: "The fault is ours.",
    503: "The store cannot write, or too much is under way; nothing was acknowledged.",
}


@route(f"GET {PATH}", ANY, any_query=True)
async def get_document(call: HttpCall) -> Response:
    """This document."""
    return Response(call.settings.document(), media_type=JSON)


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    every = tuple(endpoints)
    shapes = {shape for one in every for shape in (*one.answers.values(), one.body) if shape} | {ErrorReport}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for one in (get_document, *every):
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
    found: dict[str, Any] = {"summary": one.summary, "responses": _responses(one)}
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": dict(one.path_schemas.get(name) or (NAME if name in NAMES else PART)),
        }
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    parameters += [_parameter(name, said) for name, said in one.query.items()]
    if parameters:
        found["parameters"] = parameters
    if one.body:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": _schema(one.body)}}}
    if one.is_open:
        found["security"] = []
    else:
        found["x-scope"] = one.scope.value if isinstance(one.scope, Scope) else one.scope
    return found


def _parameter(name: str, said: str | Param) -> dict[str, Any]:
    known = said if isinstance(said, Param) else Param(said)
    schema = dict(known.schema or (EMPTY_OR_NAME if name in NAMES else EMPTY_OR_PART))
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], ""]
    return {
        "name": name,
        "in": "query",
        "required": known.required,
        "description": known.what,
        "schema": schema,
    }


def _responses(one: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, shape in one.answers.items():
        what = (shape.__doc__ or one.summary).split("\n")[0] if shape else one.summary
        responses[str(status)] = {"description": what, "content": _content(one, shape)}
    guarded = {400, 429, 500, 503} if one.is_open else {400, 401, 403, 429, 500, 503}
    if one.body is not None:
        guarded |= {408, 413, 415}
    if "{" in one.path:
        guarded |= {404}
    for status in sorted({*one.errors} | guarded):
        error = {"description": ERRORS[status], "content": {JSON: {"schema": _schema(ErrorReport)}}}
        responses.setdefault(str(status), error)
        shape = one.answers.get(status)
        if shape is not None and status in one.errors:  # a status with two meanings
            responses[str(status)]["content"] = {JSON: {"schema": {"anyOf": [_schema(shape), _schema(ErrorReport)]}}}
    return responses


def _content(one: Endpoint, shape: type[msgspec.Struct] | None) -> dict[str, Any]:
    schema = _schema(shape) if shape else {"type": "object"} if one.media_type == JSON else {"type": "string"}
    content = {one.media_type: {"schema": schema}}
    return {**content, one.also: {"schema": {"type": "string"}}} if one.also else content


def _schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": REFERENCE.format(name=shape.__name__)}
