"""Sealed values around a call: params are opened before it, and its result is sealed after it
(spec/sealed.md, SL-40 to SL-48).

Without a keyring the effect is held; a value that does not open parks it. Neither reaches the
workflow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from aos.errors import BadUsage
from aos.manifest.effective import Effect, Effective
from aos.manifest.sealed_places import changed, sealed_parts
from aos.sealing.keyring import CannotOpen, Keyring, SealedValue
from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.worker.failure import RESULT_INVALID, AttemptFailure
from aos.worker.plaintext_redaction import PlaintextRedactor
from aos.worker.results import to_value
from aos.worker.worker_secrets import SecretValue

NO_KEYRING: Final = "sealed_keyring_missing"
CANNOT_OPEN: Final = "sealed_cannot_open"


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
        return _invalid(f"the result does not fit {effect.receipt.name}: {problem}")
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


def _invalid(message: str) -> AttemptFailure:
    return AttemptFailure(code=RESULT_INVALID, message=message, retryable=True, end="park")


def keyring_failure(problem: BadUsage) -> AttemptFailure:
    """The keyring file of a worker that runs can no longer be read: the effect is held."""
    return AttemptFailure(code=NO_KEYRING, message=str(problem), retryable=False, end="hold")
