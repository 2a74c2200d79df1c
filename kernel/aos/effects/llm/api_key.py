"""The API key of a request, and its removal from everything that comes back (AG-71), also from the
blobs of a receipt, each of which has its SHA-256 name (AG-74).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aos.effects.llm.llm_errors import bad_request, key_unusable
from aos.effects.named_blob import name_and_document
from aos.manifest.manifest_secrets import secret_name
from aos.worker import EffectContext
from aos.worker.redaction import Redactor
from aos.worker.worker_secrets import VALUE_BYTES_MAX, VALUE_BYTES_MIN, SecretValue

_KEY: Final = re.compile(rf"[\x21-\x7e]{{{VALUE_BYTES_MIN},{VALUE_BYTES_MAX}}}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, or none. ``redactor`` finds it and the tokens of the endpoint's URL, in the spellings
    of X-69."""

    text: str | None = field(repr=False)
    redactor: Redactor = field(repr=False)

    @classmethod
    def of(
        cls,
        api_key: Mapping[str, Any] | None,
        ctx: EffectContext,
        url_secrets: Iterable[SecretValue],
    ) -> Self:
        """The key of ``sys/TextOrSecretRef@1``.

        Raises:
            EffectFailed: A literal key cannot be in a header.
            NotConfigured: The value of a secret cannot be.
        """
        if api_key is None:
            return cls(None, Redactor(url_secrets))
        is_literal, value = api_key["$tag"] == "literal", api_key["$value"]
        name = "api_key" if is_literal else secret_name(value["alias"], value["version"])
        text = value if is_literal else ctx.secret(value)
        if not _KEY.fullmatch(text):
            if is_literal:
                raise bad_request(
                    f"api_key: expected {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} printable ASCII "
                    "characters without blanks"
                )
            raise key_unusable(name)
        secret = SecretValue(name=name, value=text.encode("ascii"), hosts=None)
        return cls(text, Redactor([secret, *url_secrets]))

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry it."""
        return {} if self.text is None else {"Authorization": f"Bearer {self.text}"}


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
