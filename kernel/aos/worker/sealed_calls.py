"""Sealed values around a call: params are opened before it, and its result is sealed after it
(spec/sealed.md, SL-40 to SL-48).

Without a keyring the effect is held; a value that does not open parks it. Neither reaches the
workflow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aos.errors import BadUsage
from aos.manifest.effective import Effect, Effective
from aos.manifest.sealed_places import changed, sealed_parts
from aos.sealing.keyring import CannotOpen, Keyring, SealedValue
from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.worker.failure import RESULT_INVALID, AttemptFailure
from aos.worker.redaction import Redactor, forms
from aos.worker.results import to_value
from aos.worker.worker_secrets import VALUE_BYTES_MIN, SecretValue

NO_KEYRING: Final = "sealed_keyring_missing"
CANNOT_OPEN: Final = "sealed_cannot_open"

WITHHELD: Final = "(the text is withheld: it may hold a part of a sealed value)"

RESULT_BYTES_MIN: Final = 8
"""A shorter plaintext may be a word that a result holds for another reason."""

RUN: Final = 6
"""How many letters and digits in a row a text may not share with a plaintext."""

_EXACT_BELOW: Final = 4
"""Of a shorter plaintext, case and separators matter: it would come up in any text."""

_SEPARATORS: Final = re.compile(rb"[\s.,/_-]+")
_REDACTION_MARK: Final = re.compile(r"\[(?:sealed|secret) [^\]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedParams:
    """Params with the plaintexts of their sealed places, and a redactor that finds these."""

    params: Any = field(repr=False)
    redactor: PlaintextRedactor = field(repr=False)


def open_params(
    params: Value,
    effect: Effect,
    effective: Effective,
    keyring: Keyring | None,
    *,
    secrets: Iterable[SecretValue] = (),
) -> OpenedParams | AttemptFailure | None:
    """The params with their sealed places opened; None if they have none (SL-40, SL-41)."""
    if effect.params.name not in effective.sealing:
        return None
    plaintexts: list[tuple[str, Value]] = []

    def open_part(path: str, part: Any) -> Value:
        assert keyring is not None
        try:
            value = keyring.open(part)
        except CannotOpen as problem:
            raise ValueProblem(str(problem), path=path) from None
        plaintexts.append((path, value))
        return value

    sealed_paths = [path for path, _ in sealed_parts(effect.params, params, effective.schemas)]
    if not sealed_paths:
        return None
    if keyring is None:
        return _no_keyring(f"the params are sealed at {sealed_paths[0]}")
    try:
        opened_params = changed(effect.params, params, effective.schemas, open_part)
    except ValueProblem as problem:
        return AttemptFailure(
            code=CANNOT_OPEN,
            message=f"{problem} (give the worker a keyring with the key that sealed it, then "
            "aos effects retry)",
            retryable=False,
            end="park",
        )
    return OpenedParams(params=opened_params, redactor=PlaintextRedactor(plaintexts, secrets))


def sealed_result(
    result: object, effect: Effect, effective: Effective, keyring: Keyring | None, intent: str
) -> object | AttemptFailure:
    """The result of a function with its sealed places sealed under the current key (SL-44).

    ``SealedValue`` values are left as they are, and so is a result without sealed places.
    """
    if effect.receipt.name not in effective.sealing:
        return result
    lacks_keyring: list[str] = []

    def seal_part(path: str, part: Any) -> Any:
        if isinstance(part, SealedValue):
            return bytes(part)
        if part is None:
            raise ValueProblem("expected a value to seal, found None", path=path)
        if keyring is None:
            lacks_keyring.append(path)
            return part
        try:
            return keyring.seal(to_value(part), intent=intent, path=path)
        except (BadUsage, ValueProblem):
            # The text of a ValueProblem may quote the plaintext.
            raise ValueProblem(
                "the part to seal has no form as a value, or is too large (it is not shown)",
                path=path,
            ) from None

    try:
        sealed: object = changed(effect.receipt, result, effective.schemas, seal_part)
    except ValueProblem as problem:
        return _invalid_result(f"the result does not fit {effect.receipt.name}: {problem}")
    if lacks_keyring:
        return _no_keyring(f"the result is to be sealed at {lacks_keyring[0]}")
    return sealed


def _no_keyring(problem: str) -> AttemptFailure:
    return AttemptFailure(
        code=NO_KEYRING,
        message=f"{problem}, and this worker has no keyring: give it one, "
        "Executors(…, keyring=FILE), and restart it",
        retryable=False,
        end="hold",
    )


def _invalid_result(message: str) -> AttemptFailure:
    return AttemptFailure(code=RESULT_INVALID, message=message, retryable=True, end="park")


def keyring_failure(problem: BadUsage) -> AttemptFailure:
    """The keyring file of a worker that runs can no longer be read: the effect is held."""
    return AttemptFailure(code=NO_KEYRING, message=str(problem), retryable=False, end="hold")


class PlaintextRedactor(Redactor):
    """Keeps the plaintexts of sealed params out of errors, output and results (SL-46 to SL-48).

    It replaces them by ``[sealed PATH]``, and the task's secrets as ``Redactor`` does.

    A function may write a plaintext another way than it came: a card number without its blanks, the
    first half of a name. So texts of errors are searched for parts too, and withheld whole if they
    have one. Output and results are searched for the whole plaintext alone.
    """

    leak_code = "sealed_in_result"
    finds = "a secret or of a sealed param"

    def __init__(
        self, plaintexts: Iterable[tuple[str, Value]], secrets: Iterable[SecretValue]
    ) -> None:
        super().__init__(secrets)
        self._kept_out = set(self._labels)
        self._words: set[str] = set()
        for path, value in plaintexts:
            for part, is_text in _plaintext_parts(value):
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
        unmarked = _REDACTION_MARK.sub(" ", redacted)
        squeezed = _squeezed(unmarked)
        runs = {squeezed[at : at + RUN] for at in range(len(squeezed) - RUN + 1)}
        is_held = any(_shares_part(word, unmarked, squeezed, runs) for word in self._words)
        return WITHHELD if is_held else redacted


def _shares_part(word: str, text: str, squeezed: str, runs: set[str]) -> bool:
    if len(word) < _EXACT_BELOW:
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


def _plaintext_parts(value: Value) -> Iterator[tuple[bytes, bool]]:
    """The texts, bytes and numbers of a plaintext, and whether each is no number."""
    if isinstance(value, bytes):
        yield value, True
    elif isinstance(value, str):
        yield value.encode("utf-8", "replace"), True
    elif isinstance(value, list):
        for item in value:
            yield from _plaintext_parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _plaintext_parts(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value).encode(), False
