"""Secrets that workflows put: ``--executors vault`` (spec/agentos.md, AG-80).

The two effects ``sys/vault.*`` write the file of ``--secrets``, which ``AOS_VAULT_FILE`` names: a
value is put, or an alias gets another version.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aos.effects.vault_file import (
    BINDING_UNSUPPORTED,
    DIGEST_MISMATCH,
    KEY_TAKEN,
    PREFIX,
    VALUE_MISSING,
    VALUE_UNSUPPORTED,
    VERSION_CONFLICT,
    VERSION_MAX,
    SecretVersion,
    VaultFile,
    key_of,
    not_configured,
    read_versions,
    versions_text,
)
from aos.manifest.manifest_secrets import read_binding
from aos.values.digests import content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.sha256 import SHA256_PREFIX, sha256_text
from aos.worker import EffectContext, EffectFailed, Executors, effect
from aos.worker.worker_secrets import VALUE_BYTES_MAX, VALUE_BYTES_MIN

Params = Mapping[str, Any]
Receipt = dict[str, Any]

VARIABLE: Final = "AOS_VAULT_FILE"
CONCURRENCY: Final = 4
ATTEMPTS: Final = 3


@effect("sys/vault.put@1", concurrency=CONCURRENCY, attempts=ATTEMPTS, timeout_s=30)
async def put(params: Params, ctx: EffectContext) -> Receipt:
    """Store the bytes of a blob as the value of a key of the secrets file (AG-80)."""
    file, binding = _file(ctx), params["binding_id"]
    key = _file_key(binding)
    data = await ctx.read_blob(params["value_ref"])
    text = _checked_text(data)
    if _digest(data, params["expected_digest"]) != params["expected_digest"]:
        raise EffectFailed(
            DIGEST_MISMATCH,
            f"expected_digest: the bytes of {params['value_ref']} are not those of "
            f"{params['expected_digest']}",
        )

    def store() -> int:
        with file.locked(lambda: ctx.is_over) as values:
            versions = read_versions(values, params["alias"])
            if key in values and not _was_put(values[key], binding, versions):
                raise EffectFailed(
                    KEY_TAKEN,
                    f"binding_id: the value at {binding} was not put under {params['alias']}: "
                    "expected a key of this alias, or a new one",
                )
            digest = content_hash(data).hex()
            last = file.last_version(params["alias"], versions)
            if last is not None and (last.binding, last.digest) == (binding, digest):
                version = last.version
                if versions[-1:] == [last]:
                    if values.get(key) == data:
                        return version
                    versions.pop()
            else:
                version = _next_version(0 if last is None else last.version, params["alias"])
            put_now = SecretVersion(version, binding, digest, is_put=True)
            changes = {key: text, key_of(params["alias"]): versions_text([*versions, put_now])}
            file.change(values, changes, (params["alias"], put_now), lambda: ctx.is_over)
            return version

    return _receipt(params, await asyncio.to_thread(store))


@effect("sys/vault.rotate@1", concurrency=CONCURRENCY, attempts=ATTEMPTS, timeout_s=30)
async def rotate(params: Params, ctx: EffectContext) -> Receipt:
    """Record another version of an alias, whose binding already has the value (AG-83)."""
    file, key = _file(ctx), _file_key(params["binding_id"])
    expected, version = params["expected_digest"], params["version"]

    def record() -> None:
        with file.locked(lambda: ctx.is_over) as values:
            if key not in values:
                raise EffectFailed(
                    VALUE_MISSING, f"{params['binding_id']}: the vault has no such key"
                )
            if _digest(values[key], expected) != expected:
                raise EffectFailed(
                    DIGEST_MISMATCH,
                    f"expected_digest: the value at {params['binding_id']} is not that of "
                    f"{expected}",
                )
            versions = read_versions(values, params["alias"])
            digest = content_hash(values[key]).hex()
            rotated = SecretVersion(version, params["binding_id"], digest, is_put=False)
            if any(replace(recorded, is_put=False) == rotated for recorded in versions):
                return
            newest = file.last_version(params["alias"], versions)
            last = 0 if newest is None else newest.version
            is_last = newest is not None and replace(newest, is_put=False) == rotated
            if not (is_last or last < version <= VERSION_MAX):
                raise EffectFailed(
                    VERSION_CONFLICT,
                    f"version: expected one after {last}, the last of {params['alias']}, and at "
                    f"most {VERSION_MAX}, found {version}",
                )
            changes = {key_of(params["alias"]): versions_text([*versions, rotated])}
            file.change(values, changes, (params["alias"], rotated), lambda: ctx.is_over)

    await asyncio.to_thread(record)
    return _receipt(params, version)


def _was_put(value: bytes, binding: str, versions: Sequence[SecretVersion]) -> bool:
    """Whether a value is one that the vault itself has put there, under this alias. A person may
    have written another one since."""
    digest = content_hash(value).hex()
    return any(
        version.is_put and (version.binding, version.digest) == (binding, digest)
        for version in versions
    )


def _next_version(last: int, alias: str) -> int:
    if last >= VERSION_MAX:
        raise EffectFailed(
            VERSION_CONFLICT,
            f"alias: {alias} has the last version that there can be, {VERSION_MAX}: use another "
            "alias",
        )
    return last + 1


@asynccontextmanager
async def open_vault() -> AsyncIterator[VaultFile | None]:
    """The file that ``AOS_VAULT_FILE`` names; None without one. It is read when it is used."""
    path = os.environ.get(VARIABLE, "")
    yield VaultFile(Path(path)) if path else None


def _file(ctx: EffectContext) -> VaultFile:
    if ctx.resource is None:
        raise not_configured()
    assert isinstance(ctx.resource, VaultFile)
    return ctx.resource


def _file_key(binding_id: str) -> str:
    """The key of ``file:KEY``, which is not one of the vault itself."""
    try:
        binding = read_binding(binding_id)
    except ValueProblem as problem:
        raise EffectFailed(BINDING_UNSUPPORTED, f"binding_id: {problem.message}") from None
    if binding.source != "file" or binding.key.startswith(PREFIX):
        raise EffectFailed(
            BINDING_UNSUPPORTED,
            f"binding_id: expected file:KEY with a key that does not begin with {PREFIX}, found "
            f"{binding}",
        )
    return binding.key


def _checked_text(data: bytes) -> str:
    """The value as text; no message shows any of it."""
    if not VALUE_BYTES_MIN <= len(data) <= VALUE_BYTES_MAX:
        raise EffectFailed(
            VALUE_UNSUPPORTED,
            f"the value has {len(data)} bytes: expected {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX}",
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EffectFailed(VALUE_UNSUPPORTED, "the value is no text in UTF-8") from None


def _digest(data: bytes, like: str) -> str:
    """The hash of a value, by the algorithm of another hash."""
    return sha256_text(data) if like.startswith(SHA256_PREFIX) else hash_text(content_hash(data))


def _receipt(params: Params, version: int) -> Receipt:
    return {
        "alias": params["alias"],
        "version": version,
        "binding_id": params["binding_id"],
        "digest": params["expected_digest"],
    }


vault = Executors("vault", (put, rotate), setup=open_vault)
