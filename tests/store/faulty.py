"""An LMDB environment that fails on demand, as disks do."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import lmdb

from aos.store.lmdb_store import LmdbStore


class FaultyEnvironment:
    """Wraps a real environment. ``fail_next(error)`` makes one write transaction fail.

    It fails at ``begin``, ``commit`` or a ``put``: the first, or the one after ``after`` others.
    The changes of the transaction are undone, as LMDB undoes them.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._error: lmdb.Error | None = None
        self._where = ""
        self._after = 0
        self.commits = 0
        self.dies = False
        """Whether it refuses every further transaction after the failure."""

    @classmethod
    def under(cls, store: LmdbStore) -> Self:
        faulty = cls(store._environment._raw)
        store._environment._raw = faulty  # type: ignore[assignment]  # it has what is used
        return faulty

    def fail_next(self, error: lmdb.Error, *, where: str = "commit", after: int = 0) -> None:
        self._error, self._where, self._after = error, where, after

    def take(self, where: str) -> None:
        if self._error is None or self._where != where:
            return
        self._after -= 1
        if self._after < 0:
            error, self._error = self._error, None
            raise error

    def begin(self, *, write: bool = False) -> Any:
        if not write:
            return self._raw.begin()
        self.take("begin")
        if self.dies and self._error is None:
            raise lmdb.PanicError("MDB_PANIC")
        return FaultyTransaction(self, self._raw.begin(write=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class FaultyTransaction:
    def __init__(self, environment: FaultyEnvironment, txn: Any) -> None:
        self._environment = environment
        self._txn = txn

    def put(self, *arguments: Any, **options: Any) -> Any:
        self._environment.take("put")
        return self._txn.put(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._txn.abort()
            return
        try:
            self._environment.take("commit")
        except lmdb.Error:
            self._txn.abort()
            raise
        self._txn.commit()
        self._environment.commits += 1


def error(kind: type[lmdb.Error], text: str, code: int) -> lmdb.Error:
    """An error as py-lmdb makes it."""
    made = kind(text)
    made.code = code  # type: ignore[misc]  # final for others
    return made
