"""Distinguishes a full disk from a read-only one. The operator resolves each differently."""

import errno

from holdfast.kernel.errors import StoreFull, StoreReadOnly

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL = "no space is left on the disk"


def is_out_of_space(error: BaseException) -> bool:
    """Whether the disk or the user's quota is full."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def unwritable(what: str, error: OSError, **context: object) -> StoreFull | StoreReadOnly:
    """The error for `what`, which could not be written: `StoreFull` for a full disk, else `StoreReadOnly`."""
    if is_out_of_space(error):
        return StoreFull(f"{what}: {FULL}", **context)
    return StoreReadOnly(f"{what}: {error.strerror or error}", **context)


def why_unusable(error: OSError) -> str:
    """The name of the system error, without a path."""
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return f"{FULL}, {name}" if is_out_of_space(error) else name
