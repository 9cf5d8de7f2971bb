"""The JSON shape of every error. It depends on no subject, so a command that prints no other shape loads none."""

from holdfast.api.shapes.view import Shape
from holdfast.kernel.errors import HoldfastError


class ErrorDetail(Shape, frozen=True, kw_only=True):
    code: str
    message: str
    hint: str


class ErrorReport(Shape, frozen=True, kw_only=True):
    error: ErrorDetail


def error_view(error: HoldfastError) -> ErrorReport:
    return ErrorReport(error=ErrorDetail(code=error.code, message=str(error), hint=error.hint))
