"""The blobs of a receipt, each under its SHA-256 name and without the API key (AG-74)."""

from __future__ import annotations

import json

from aos.effects.llm.api_key import ApiKey
from aos.effects.named_blob import name_and_document


class AnswerBlobs:
    """Collects blobs with their name documents. ``all`` goes out with the result."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key
        self._blobs: dict[bytes, None] = {}

    def text(self, text: str) -> str:
        """Add text in UTF-8; return its name."""
        return self._add(text.encode("utf-8", "replace"))

    def json(self, value: object) -> str:
        """Add a JSON document; return its name."""
        return self.text(json_text(value))

    def _add(self, data: bytes) -> str:
        redacted = self._key.redactor.redacted(data)
        name_pair = name_and_document(redacted)
        assert name_pair is not None, "text is no definition of another name"
        name, document = name_pair
        self._blobs[redacted] = None
        self._blobs[document] = None
        return name

    @property
    def all(self) -> tuple[bytes, ...]:
        """Blobs and documents, each once."""
        return tuple(self._blobs)


def json_text(value: object) -> str:
    """JSON without blanks, with names in the order in which they were added."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
