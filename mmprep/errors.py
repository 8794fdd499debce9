"""Every error that mmprep raises on purpose.

    MmprepError            exit
    ├── CheckError            1   checked and found wrong (validate)
    ├── UsageError            2   the call is wrong: path, option, stream, refused OUT
    ├── DataError             3   an input is bad
    │   ├── ClockError        3   clock evidence that cannot be used
    │   └── SpaceError        3   the disk, quota or file-size limit is reached
    └── TransientError       75   outside trouble that is worth a retry: lock, storage, cluster

An error says where, what and the way out. Anything else that escapes is a bug (exit 70).
"""

from __future__ import annotations


class MmprepError(Exception):
    """Say what is wrong, where, and what to do about it.

    Parameters
    ----------
    what : str
        What is wrong, with the value seen and the limit, without a full stop.
    where : str, optional
        The place: `file`, `file:line`, `option`, stream.
    hint : str, optional
        What the reader can do, as an order.
    """

    exit_code = 70
    retryable = False

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where, hint)
        self.what, self.where, self.hint = what, where, hint

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.hint)


def _rebuild(
    kind: type[MmprepError], what: str, where: str | None, hint: str | None
) -> MmprepError:
    return kind(what, where=where, hint=hint)


class CheckError(MmprepError):
    """A check ran to its end and found something wrong."""

    exit_code = 1


class UsageError(MmprepError):
    """The call is wrong: a missing path, unknown option, stream or column, a refused OUT."""

    exit_code = 2


class DataError(MmprepError):
    """An input is bad: empty, unreadable, malformed or without anything known."""

    exit_code = 3


class ClockError(DataError):
    """Clock evidence cannot be used: too little, contradictory, or of another clock."""


class SpaceError(DataError):
    """The disk is full, or a quota or file-size limit is reached."""


class TransientError(MmprepError):
    """Trouble outside that is worth a retry: a lock, storage, a lost cluster."""

    exit_code = 75
    retryable = True
