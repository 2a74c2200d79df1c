"""Seal the places of an event before it is sent, and open those of a document (SL-11, SL-14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.errors import BadUsage
from aos.manifest.effective import Effective
from aos.manifest.sealed_places import SEALED_BYTES_MIN, changed, form_problem
from aos.sealing.keyring import CannotOpen, Keyring, opened_or_same
from aos.values.errors import ValueProblem
from aos.values.show import untyped_to_json
from aos.values.spelling import base64_bytes, base64_text

CARRIED: Final = "$sealed"
"""``{"$sealed": base64}`` in an event to seal is a value that is sealed already."""

_BASE64_CHARACTERS_MIN: Final = 4 * SEALED_BYTES_MIN // 3


def sealed_event(
    keyring: Keyring, manifest: Effective, schema: str, value: object, submission_id: str | None
) -> object:
    """Authoring JSON of an event in which the sealed places have plaintexts -> the same with their
    sealed forms. A schema that the manifest does not have is left to the kernel.

    Raises:
        ValueProblem: A place has no value, or a value that is sealed already and that this keyring
            does not open. Its text quotes neither.
    """

    def seal(path: str, part: Any) -> str:
        if isinstance(part, Mapping) and CARRIED in part:
            return _carried(keyring, path, part)
        if part is None:
            raise ValueProblem("expected a value to seal, found null", path=path)
        try:
            return base64_text(keyring.seal(part, submission_id=submission_id, path=path))
        except BadUsage as problem:
            raise ValueProblem(str(problem), path=path) from None

    if schema not in manifest.sealing:
        return value
    return changed(manifest.schemas[schema], value, manifest.schemas, seal)


def _carried(keyring: Keyring, path: str, part: Mapping[str, object]) -> str:
    text = part[CARRIED]
    data = base64_bytes(text) if isinstance(text, str) and len(part) == 1 else None
    problem = form_problem(data)
    try:
        if problem is None and data is not None:
            keyring.open(data)
            return base64_text(data)
    except CannotOpen as refusal:
        problem = str(refusal)
    raise ValueProblem(f"{CARRIED}: {problem}", path=path)


def unsealed(keyring: Keyring, document: Any) -> Any:
    """A copy of a JSON document in which each sealed value, as base64 text, that the keyring opens
    is replaced by its plaintext. All other text is left as it is."""
    if isinstance(document, str):
        return _opened_text(keyring, document)
    if isinstance(document, list | tuple):
        return [unsealed(keyring, element) for element in document]
    if isinstance(document, Mapping):
        return {key: unsealed(keyring, value) for key, value in document.items()}
    return document


def _opened_text(keyring: Keyring, text: str) -> object:
    # The first byte, 0x01, makes the first character A.
    if len(text) < _BASE64_CHARACTERS_MIN or not text.startswith("A"):
        return text
    data = base64_bytes(text)
    if data is None:
        return text
    plaintext = opened_or_same(keyring, data)
    return text if plaintext is data else untyped_to_json(plaintext)
