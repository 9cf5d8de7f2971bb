"""aiogram, loaded in about a second and 60 MB instead of seven and 170.

While it is imported, aiogram builds pydantic's validators for each of its 400 types, of which a bot that sends text
needs one. Here they are built when they are first used, which pydantic does by itself for a type that is not complete;
all it lacks is the namespace that aiogram would have given, and that is handed on.

Rule 1: what others in the process do with pydantic meanwhile goes through untouched, and nothing stays changed but
        `model_rebuild` of aiogram's own base classes.
Rule 2: whoever else uses aiogram in the process finds every type working.
Rule 3: where this does not work, with other versions of either library, the types are built as aiogram does it.
"""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError

_ONE_AT_A_TIME = threading.Lock()


class Postponed:
    """What aiogram wanted to build, and with which names."""

    def __init__(self) -> None:
        self.types: list[type[BaseModel]] = []
        self.names: Mapping[str, Any] = {}

    def build_all(self) -> None:
        for kind in self.types:
            kind.model_rebuild(_types_namespace=self.names)

    def build(self, kinds: Sequence[type[BaseModel]]) -> None:
        """Those that are needed, or all of them when that fails."""
        try:
            for kind in kinds:
                kind.model_rebuild()
        except (PydanticUserError, PydanticUndefinedAnnotation, NameError):
            self.build_all()


def load_aiogram() -> None:
    """Import aiogram. Takes a moment, so it belongs into a thread; a second call returns at once."""
    with _ONE_AT_A_TIME:
        if "aiogram" in sys.modules:
            return
        with _postponing() as postponed:
            from aiogram.methods import GetMe, SendMessage, SetWebhook  # noqa: PLC0415 - the slow import
            from aiogram.methods.base import TelegramMethod  # noqa: PLC0415
            from aiogram.types import ReplyParameters  # noqa: PLC0415
            from aiogram.types.base import TelegramObject  # noqa: PLC0415
        for base in (TelegramObject, TelegramMethod):
            _know(base, postponed.names)
        postponed.build([ReplyParameters, GetMe, SendMessage, SetWebhook])


@contextmanager
def _postponing() -> Iterator[Postponed]:
    """Inside, aiogram's types are noted instead of built."""
    postponed, build = Postponed(), BaseModel.__dict__["model_rebuild"]

    def note(cls: type[BaseModel], /, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:  # noqa: ANN401
        if cls.__module__.startswith("aiogram.") and options.get("_types_namespace"):
            postponed.types.append(cls)
            postponed.names = options["_types_namespace"]
            return None
        built: bool | None = build.__func__(cls, _parent_namespace_depth=_parent_namespace_depth + 1, **options)
        return built

    BaseModel.model_rebuild = classmethod(note)  # type: ignore[method-assign,assignment]
    try:
        yield postponed
    finally:
        BaseModel.model_rebuild = build  # type: ignore[method-assign]


def _know(base: type[BaseModel], names: Mapping[str, Any]) -> None:
    """Let the types below a base class complete themselves with these names."""
    build = BaseModel.__dict__["model_rebuild"].__func__

    def rebuild(cls: type[BaseModel], /, **options: Any) -> bool | None:  # noqa: ANN401
        built: bool | None = build(cls, **{**options, "_types_namespace": options.get("_types_namespace") or names})
        return built

    base.model_rebuild = classmethod(rebuild)  # type: ignore[method-assign,assignment]
