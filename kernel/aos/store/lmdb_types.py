"""Names for two types of LMDB's binding, which every module of the store in LMDB uses."""

from __future__ import annotations

from typing import TypeAlias

import lmdb

Txn: TypeAlias = "lmdb.Transaction[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001  # its type has no other name
