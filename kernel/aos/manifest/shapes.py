"""Compare schemas of two manifests: whether they have the same values (M-61), or the new one only
has more fields that may be absent (M-62)."""

from __future__ import annotations

from typing import Any

from aos.manifest.effective import Effect, Effective
from aos.manifest.expressions import Types, alike, extends
from aos.values.cbor import decode_record
from aos.values.schema import Schema


class Shapes:
    """The schemas of two manifests."""

    def __init__(self, old: Effective, new: Effective) -> None:
        self._old = _types(old)
        self._new = self._old if old == new else _types(new)

    def same(self, old: Schema | None, new: Schema | None) -> bool:
        """Whether both schemas have exactly the same values; their names may differ. Two absent
        ones are the same."""
        if old is None or new is None:
            return old is new
        return alike({"ref": old.name}, self._old, {"ref": new.name}, self._new)

    def extends(self, old: Schema, new: Schema) -> bool:
        """Whether every value of ``old``, with null for absent options, is a value of ``new``."""
        return extends({"ref": old.name}, self._old, {"ref": new.name}, self._new)

    def same_effect(self, old: Effect, new: Effect) -> bool:
        """Whether a workflow that knows the old effect can use the new one. Its params may have got
        fields of type option; its receipts must be the same, because an open effect's receipt is
        read by the schema with which it was requested (K-72b)."""
        return (
            old.executor == new.executor
            and (old.params.name, old.receipt.name) == (new.params.name, new.receipt.name)
            and self.extends(old.params, new.params)
            and self.same(old.receipt, new.receipt)
        )


def _types(effective: Effective) -> Types:
    document: Any = decode_record(effective.document)
    return {
        node["name"]: node["type"]
        for node in document["definitions"]
        if node["$kind"] == "defschema"
    }
