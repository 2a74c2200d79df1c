"""Keep the plaintexts of sealed params out of errors, output and results (spec/sealed.md, SL-46 to
SL-48).

A function may write a plaintext another way than it came: a card number without its blanks, the
first half of a name. So texts of errors are searched for parts too, and withheld whole if they have
one. Output and results are searched for the whole plaintext alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from aos.values.cbor import Value
from aos.worker.redaction import Redactor, forms
from aos.worker.worker_secrets import VALUE_BYTES_MIN, SecretValue

WITHHELD: Final = "(the text is withheld: it may hold a part of a sealed value)"

RESULT_BYTES_MIN: Final = 8
"""A shorter plaintext may be a word that a result holds for another reason."""

RUN: Final = 6
"""How many letters and digits in a row a text may not share with a plaintext."""

_SHORT: Final = 4
"""Of a shorter plaintext, case and separators matter: it would come up in any text."""

_SEPARATORS: Final = re.compile(rb"[\s.,/_-]+")
_MARK: Final = re.compile(r"\[(?:sealed|secret) [^\]]*\]")


class PlaintextRedactor(Redactor):
    """Replaces plaintexts of a task by ``[sealed PATH]``, and its secrets as ``Redactor`` does."""

    leak_code = "sealed_in_result"
    finds = "a secret or of a sealed param"

    def __init__(
        self, plaintexts: Iterable[tuple[str, Value]], secrets: Iterable[SecretValue]
    ) -> None:
        super().__init__(secrets)
        self._kept_out = set(self._labels)
        self._words: set[str] = set()
        for path, value in plaintexts:
            for part, is_text in _parts(value):
                self._words.add(part.decode("utf-8", "replace"))
                if len(part) < VALUE_BYTES_MIN:
                    continue
                spelt = forms(part) | forms(_SEPARATORS.sub(b"", part))
                for form in spelt:
                    self._labels.setdefault(form, f"sealed {path}")
                if is_text and len(part) >= RESULT_BYTES_MIN:
                    self._kept_out.update(spelt)

    def holds(self, data: bytes) -> bool:
        """Whether a result has a secret or a plaintext in it. Numbers and short texts are not
        looked for: they come up by chance (SL-48)."""
        return any(form in data for form in self._kept_out)

    def text(self, text: str) -> str:
        """As ``Redactor.text``. A text that then still has a part of a plaintext is withheld whole
        (SL-46)."""
        redacted = super().text(text)
        unmarked = _MARK.sub(" ", redacted)
        squeezed = _squeezed(unmarked)
        runs = {squeezed[at : at + RUN] for at in range(len(squeezed) - RUN + 1)}
        is_held = any(_shares(word, unmarked, squeezed, runs) for word in self._words)
        return WITHHELD if is_held else redacted


def _shares(word: str, text: str, squeezed: str, runs: set[str]) -> bool:
    if len(word) < _SHORT:
        # One character is in almost any text, so it counts only alone.
        pattern = rf"\b{re.escape(word)}\b" if len(word) == 1 else re.escape(word)
        return bool(word) and re.search(pattern, text) is not None
    plain = _squeezed(word)
    if len(plain) <= RUN:
        return plain in squeezed if plain else word in text
    return any(plain[at : at + RUN] in runs for at in range(len(plain) - RUN + 1))


def _squeezed(text: str) -> str:
    """The letters and digits of a text, in lower case."""
    return "".join(filter(str.isalnum, text)).lower()


def _parts(value: Value) -> Iterator[tuple[bytes, bool]]:
    """The texts, bytes and numbers of a plaintext, and whether each is no number."""
    if isinstance(value, bytes):
        yield value, True
    elif isinstance(value, str):
        yield value.encode("utf-8", "replace"), True
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _parts(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value).encode(), False
