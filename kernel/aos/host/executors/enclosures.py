"""The blobs and secrets that go out with a task, because its params name them (X-67, X-75 to X-79).

They are read when the task is sent. A problem with one of them ends or holds the effect, and
nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aos.core.journal.ports import BlobReader
from aos.errors import Damage
from aos.host.executors.blob import BLOB_MISSING, BLOB_TOO_LARGE
from aos.host.executors.naming import blob_of
from aos.host.folder.secrets import SecretProblem, unavailable
from aos.manifest.effective import Effect, Effective
from aos.manifest.manifest_secrets import Secret
from aos.manifest.secret_use import named_secrets
from aos.values.cbor import Value
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.hash_fields import HashFields
from aos.worker.failure import AttemptFailure
from aos.worker.worker_secrets import HOST_DENIED, UNAVAILABLE, WORKFLOW_DENIED, SecretValue

BLOB_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum size of all blobs of one task together."""

FindValue = Callable[[Secret], bytes]
"""Returns the present value of a secret, or raises SecretProblem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """The blobs of a task, by their hashes as the params spell them, and its secrets."""

    blobs: Mapping[str, bytes] = field(default_factory=dict)
    secrets: tuple[SecretValue, ...] = ()


NOTHING: Final = Enclosed()

VAULT: Final = "sys/vault."
"""Effects that change the values of secrets, which their params name in a way of their own."""


def no_blobs(hash: Hash, /) -> bytes:
    """The blobs of an executor that cannot read a store."""
    raise Damage(f"blob {hash_text(hash)} is not here")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The things that params of one effect can name. ``hashes`` finds blobs in a value."""

    effect: Effect
    takes_secrets: bool
    is_vault: bool
    hashes: tuple[Callable[[Value], Iterator[str]], ...]


class Enclosing:
    """Finds the blobs and secrets of the tasks of functions, under the manifest in force.

    An effect that can name neither a secret nor a blob costs a task one lookup.
    """

    def __init__(self, read: BlobReader, value_of: FindValue) -> None:
        self._read = read
        self._value_of = value_of
        self._effective: Effective | None = None
        self._plans: dict[str, _Plan] = {}

    def use(self, effective: Effective, blobs: Mapping[str, Sequence[str]]) -> list[str]:
        """Use a manifest. ``blobs`` has the functions here: effect -> its fields with blobs.

        Returns a sentence about each of these fields that has no ``hash``.
        """
        fields, problems = HashFields(effective.schemas), []
        self._effective = effective
        self._plans = {}
        for name, paths in blobs.items():
            effect = effective.effects.get(name)
            if effect is None:
                continue
            walks = {path: fields.below(effect.params.name, path) for path in paths}
            problems += [
                f"{name}: blobs={path!r} of its function leads to no hash in {effect.params.name}: "
                "expected the name of a field of type hash, or of one with hashes in it"
                for path, walk in walks.items()
                if walk is None
            ]
            takes_secrets = effect.takes_secrets and bool(effective.secrets)
            is_vault = name.startswith(VAULT) and bool(effective.secrets)
            hashes = tuple(walk for walk in walks.values() if walk is not None)
            if takes_secrets or is_vault or hashes:
                self._plans[name] = _Plan(effect, takes_secrets, is_vault, hashes)
        return problems

    def of(self, effect: str, workflow: str, params: bytes) -> Enclosed | AttemptFailure:
        """The blobs and secrets of a task of ``workflow``, or why it must not run (X-76, X-79)."""
        plan = self._plans.get(effect)
        if plan is None or self._effective is None:
            return NOTHING
        try:
            value = plan.effect.params.from_record(params)
        except ValueProblem:
            return NOTHING  # an earlier release left other params (K-71c): the function sees them
        try:
            if plan.is_vault:
                self._check_vault(value, workflow)
            secrets = self._secrets(plan, value, workflow) if plan.takes_secrets else ()
        except SecretProblem as problem:
            return secret_failure(problem)
        hashes = {text: None for walk in plan.hashes for text in walk(value)}
        blobs = self._blobs(hashes)
        if isinstance(blobs, AttemptFailure):
            return blobs
        return Enclosed(blobs=blobs, secrets=secrets)

    def _check_vault(self, value: Any, workflow: str) -> None:
        """A workflow that a secret bars gets no answer about it, neither by its alias nor by its
        binding (AG-84a). Raises SecretProblem."""
        assert self._effective is not None
        for name, secret in self._effective.secrets.items():
            alias, _, _ = name.rpartition("@")
            if value["alias"] == alias or value["binding_id"] == str(secret.binding):
                permitted(self._effective.secrets, name, workflow)

    def _secrets(self, plan: _Plan, value: Value, workflow: str) -> tuple[SecretValue, ...]:
        assert self._effective is not None
        secret_uses = named_secrets(plan.effect.params, value, self._effective.schemas)
        secret_values = []
        for name in dict.fromkeys(name for _, name in secret_uses):
            secret = permitted(self._effective.secrets, name, workflow)
            if secret.hosts is not None:
                raise SecretProblem(
                    HOST_DENIED,
                    f"secret {name} may be sent to its hosts only: no function gets it (leave out "
                    "hosts in its defsecret, or send the request with sys/http.request@1)",
                )
            data = self._value_of(secret)
            try:
                data.decode()
            except UnicodeDecodeError:
                raise unavailable(secret, "expected UTF-8 text, for a function") from None
            secret_values.append(SecretValue(name=name, value=data, hosts=None))
        return tuple(secret_values)

    def read_blob(self, hash: str) -> bytes | AttemptFailure:
        """The blob with this hash or SHA-256 name, or why it cannot be given (X-79a)."""
        blobs = self._blobs({hash: None})
        return blobs if isinstance(blobs, AttemptFailure) else blobs[hash]

    def _blobs(self, hashes: Mapping[str, None]) -> Mapping[str, bytes] | AttemptFailure:
        blobs: dict[str, bytes] = {}
        size = 0
        for text in hashes:
            try:
                blobs[text] = self._read(blob_of(text, self._read))
            except (Damage, ValueProblem) as error:
                return AttemptFailure(code=BLOB_MISSING, message=str(error), retryable=False)
            size += len(blobs[text])
            if size > BLOB_BYTES_MAX:
                return AttemptFailure(
                    code=BLOB_TOO_LARGE,
                    message=f"the blobs of a task: expected at most {BLOB_BYTES_MAX} bytes "
                    f"together, found {size} up to {text}",
                    retryable=False,
                )
        return blobs


def permitted(secrets: Mapping[str, Secret], name: str, workflow: str) -> Secret:
    """The secret with this name, which ``workflow`` may use.

    Raises:
        SecretProblem: The manifest does not have it, or does not permit the use.
    """
    secret = secrets.get(name)
    if secret is None:
        raise SecretProblem(UNAVAILABLE, f"secret {name:.300} is not in the manifest in force")
    if not secret.may_be_used_by(workflow):
        raise SecretProblem(WORKFLOW_DENIED, f"secret {name} may not be used by {workflow}")
    return secret


def secret_failure(problem: SecretProblem) -> AttemptFailure:
    """The end of a task whose secret cannot be used (X-68): held if this process lacks its value,
    settled if the manifest forbids the use."""
    is_denied = problem.code in (WORKFLOW_DENIED, HOST_DENIED)
    return AttemptFailure(
        code=problem.code,
        message=str(problem),
        retryable=False,
        end="settle" if is_denied else "hold",
    )


def without_value(secrets: Sequence[Secret], value_of: FindValue) -> list[str]:
    """A line about each of these secrets that has no value that can be used (X-19)."""
    problems = []
    for secret in secrets:
        try:
            value_of(secret)
        except SecretProblem as problem:
            problems.append(str(problem))
    return problems
