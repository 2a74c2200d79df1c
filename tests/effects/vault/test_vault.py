"""A vault: values that workflows put into the file of ``--secrets``, and versions of aliases."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import functools
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from aos.effects.vault import VARIABLE, open_vault, put, rotate, vault
from aos.effects.vault_file import VaultFile
from aos.errors import BadUsage
from aos.host.executors.enclosures import Enclosed, Enclosing, no_blobs
from aos.host.folder.secrets import KEYRING_VARIABLE, Secrets, read_secrets
from aos.manifest.load import load as load_manifest
from aos.manifest.manifest_secrets import Secret, read_binding
from aos.sealing.keyring_file import new_keyring
from aos.store.plain_files import PlainFolder
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import sha256_text
from aos.worker import EffectFailed, NotConfigured
from aos.worker.failure import AttemptFailure
from aos.worker.load_executors import load
from tests.effects.builtin_effects import Blobs, call, context, params_of
from tests.host.puppet import PUPPET, files

VALUE = b"s3cret-value"
OTHER = b"other-value-1"


class Vault:
    """Calls the effects on one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = Blobs()
        self.file: VaultFile | None = VaultFile(path)

    def put(self, value: bytes = VALUE, **changes: Any) -> Any:
        ref = self.blobs.put(value)
        given = {
            "alias": "shop/bank",
            "binding_id": "file:bank-token",
            "value_ref": ref,
            "expected_digest": ref,
            **changes,
        }
        ctx = context("sys/vault.put@1", self.blobs, resource=self.file)
        return call(put, given, ctx)

    def rotate(self, version: int, value: bytes = VALUE, **changes: Any) -> Any:
        given = {
            "alias": "shop/bank",
            "version": version,
            "binding_id": "file:bank-token",
            "expected_digest": sha256_text(value),
            **changes,
        }
        return call(rotate, given, context("sys/vault.rotate@1", resource=self.file))

    @property
    def values(self) -> dict[str, bytes]:
        """The values that the host reads, without the entries of the vault."""
        found = read_secrets(self.path).values
        return {key: value for key, value in found.items() if not key.startswith("aos.vault/")}


@pytest.fixture
def made(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "secrets")


def refused(action: Any, *args: Any, **changes: Any) -> str:
    with pytest.raises(EffectFailed) as failed:
        action(*args, **changes)
    assert not failed.value.retryable
    assert VALUE.decode() not in str(failed.value)
    return failed.value.code


def test_a_value_is_put_where_the_host_finds_it(made: Vault) -> None:
    """AG-80, AG-81: a new file is for its owner alone."""
    digest = hash_text(content_hash(VALUE))
    assert made.put(expected_digest=digest) == {
        "alias": "shop/bank",
        "version": 1,
        "binding_id": "file:bank-token",
        "digest": digest,
    }
    assert made.path.stat().st_mode & 0o777 == 0o600
    secret = Secret(
        name="shop/bank@1", hash=content_hash(b""), binding=read_binding("file:bank-token"),
        expected_digest=content_hash(VALUE), hosts=None, workflows=None,
    )  # fmt: skip
    assert Secrets(made.path).value(secret) == VALUE


def test_another_value_is_another_version_and_the_same_one_is_not(made: Vault) -> None:
    """AG-82: so a second attempt changes nothing."""
    versions = [
        made.put()["version"], made.put()["version"], made.put(OTHER)["version"],
        made.put(OTHER)["version"], made.put()["version"],
    ]  # fmt: skip

    assert versions == [1, 1, 2, 2, 3]
    assert made.values == {"bank-token": VALUE}


def test_a_value_that_was_changed_by_hand_is_never_replaced(made: Vault) -> None:
    """AG-80: neither by another value nor by the one that was put; a removed one is put again."""
    made.put()
    document = json.loads(made.path.read_text())
    made.path.write_text(json.dumps({**document, "bank-token": "corrected"}))

    assert refused(made.put) == "vault_key_taken"
    assert refused(made.put, OTHER) == "vault_key_taken"
    assert made.values == {"bank-token": b"corrected"}
    del document["bank-token"]
    made.path.write_text(json.dumps(document))
    assert made.put()["version"] == 1
    assert made.values == {"bank-token": VALUE}


def test_an_older_copy_of_the_file_gives_no_version_out_twice(made: Vault) -> None:
    """AG-82a: the same value under the same binding is still the same version."""
    made.put()
    older = made.path.read_bytes()
    assert made.put(OTHER)["version"] == 2
    made.path.write_bytes(older)

    assert made.put(OTHER)["version"] == 2
    made.path.write_bytes(older)
    assert made.put(b"a third value")["version"] == 3
    made.path.write_bytes(older)
    assert refused(made.rotate, 3) == "vault_version_conflict"
    made.rotate(7)
    made.path.unlink()
    assert made.put(OTHER)["version"] == 8
    last = made.path.with_name("secrets.last-versions")
    assert last.stat().st_mode & 0o777 == 0o600
    last.write_text("[]")
    assert "last versions" in held_by(made)


def test_a_version_that_was_not_written_is_given_out_with_its_value_only(
    made: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-82a: a crash between both files leaves no number with two values."""
    rename = PlainFolder.rename

    def fail(self: PlainFolder, old: str, new: str) -> None:
        if new == made.path.name:
            raise OSError(errno.EIO, "failed")
        rename(self, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(PlainFolder, "rename", fail)
        with pytest.raises(EffectFailed):
            made.put()

    assert made.put(OTHER)["version"] == 2
    assert made.put()["version"] == 3


def test_the_last_number_leaves_room_for_none_and_says_so(made: Vault) -> None:
    """AG-83: a put after it is an answer, and no result that no receipt can have."""
    made.put()
    assert refused(made.rotate, 2**63) == "vault_version_conflict"
    assert refused(made.rotate, 2**64 - 1) == "vault_version_conflict"
    assert made.rotate(2**63 - 1)["version"] == 2**63 - 1
    assert refused(made.put, OTHER) == "vault_version_conflict"
    assert made.values == {"bank-token": VALUE}


@pytest.mark.parametrize("timeout_s", [0.1, 0.3])
def test_an_attempt_that_is_over_changes_nothing_later(made: Vault, timeout_s: float) -> None:
    """AG-81, X-45: a put that waits for another process ends with its attempt."""
    made.put()
    ref = made.blobs.put(OTHER)
    params = {
        "alias": "shop/bank", "binding_id": "file:bank-token", "value_ref": ref,
        "expected_digest": ref,
    }  # fmt: skip
    ctx = context("sys/vault.put@1", made.blobs, resource=made.file)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            call(put, params, ctx)
        except EffectFailed as failure:
            failures.append(failure)

    folder = os.open(made.path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout_s)
    assert thread.is_alive()
    ctx.is_over = True
    thread.join(60)
    assert not thread.is_alive()
    os.close(folder)

    assert [each.code for each in failures if isinstance(each, EffectFailed)] == [
        "vault_write_failed"
    ]
    assert made.values == {"bank-token": VALUE}


def test_lines_keep_their_order_and_comments(made: Vault) -> None:
    """AG-81."""
    made.path.write_text("# ours\nfirst = 1111\n\nlast=2222")
    made.path.chmod(0o600)

    made.put()
    made.put(OTHER)

    lines = made.path.read_text().splitlines()
    assert lines[:5] == ["# ours", "first = 1111", "", "last=2222", f"bank-token={OTHER.decode()}"]
    assert len(lines) == 6
    assert made.values == {"first": b"1111", "last": b"2222", "bank-token": OTHER}


@pytest.mark.parametrize("value", [b"two\nlines", b" blank", b'"quoted"', "a\u2028b\x0b".encode()])
def test_a_value_that_no_line_can_have_needs_a_file_in_json(made: Vault, value: bytes) -> None:
    """AG-81: the file is as it was."""
    made.path.write_text("first=1111\n")
    made.path.chmod(0o600)

    assert refused(made.put, value) == "vault_value_unsupported"
    assert made.path.read_text() == "first=1111\n"
    assert [each.name for each in made.path.parent.iterdir()] == ["secrets"]
    made.path.write_text('{"first": "1111"}')
    made.put(value)
    assert made.values == {"first": b"1111", "bank-token": value}


@pytest.mark.parametrize("value", [b"", b"abc", b"x" * 32_769, b"\xff\xfe\xfd\xfc"])
def test_a_value_that_no_function_could_get_is_refused(made: Vault, value: bytes) -> None:
    """AG-80."""
    assert refused(made.put, value) == "vault_value_unsupported"
    assert not made.path.exists()


@pytest.mark.parametrize("digest", [sha256_text(OTHER), hash_text(content_hash(OTHER))])
def test_another_digest_changes_nothing(made: Vault, digest: str) -> None:
    """AG-80."""
    assert refused(made.put, expected_digest=digest) == "vault_digest_mismatch"
    assert not made.path.exists()


@pytest.mark.parametrize(
    "binding", ["env:BANK", "file:", "bank", "file:a=b", "file:aos.vault/shop/bank"]
)
def test_only_keys_of_the_file_can_be_put(made: Vault, binding: str) -> None:
    """AG-80."""
    assert refused(made.put, binding_id=binding) == "vault_binding_unsupported"
    assert refused(made.rotate, 1, binding_id=binding) == "vault_binding_unsupported"


@pytest.mark.parametrize("alias", ["", "with blank", "x" * 300, "a=b"])
def test_an_alias_has_the_characters_of_a_key(made: Vault, alias: str) -> None:
    """AG-82."""
    assert refused(made.put, alias=alias) == "vault_alias_invalid"


def test_a_value_of_someone_else_is_never_replaced(made: Vault) -> None:
    """AG-80: neither one that a person wrote, nor one of another alias."""
    made.path.write_text('{"bank-token": "by hand"}')
    made.path.chmod(0o600)

    assert refused(made.put) == "vault_key_taken"
    made.rotate(1, b"by hand")
    assert refused(made.put) == "vault_key_taken"
    made.put(binding_id="file:own")
    assert refused(made.put, alias="shop/thief", binding_id="file:own") == "vault_key_taken"
    assert made.values == {"bank-token": b"by hand", "own": VALUE}


def test_a_missing_blob_puts_nothing(made: Vault) -> None:
    """AG-80."""
    assert refused(made.put, value_ref="sha256:" + 64 * "0") == "blob_missing"


def test_a_rotation_records_a_version_of_a_value_that_is_there(made: Vault) -> None:
    """AG-83: a second attempt changes nothing."""
    made.put()
    before = made.values

    assert made.rotate(5)["version"] == 5
    assert made.rotate(5)["version"] == 5
    assert made.rotate(1)["version"] == 1  # the version that was put has this value
    assert made.put(OTHER)["version"] == 6
    assert before == {"bank-token": VALUE}


def test_a_rotation_needs_the_value_and_a_version_that_is_free(made: Vault) -> None:
    """AG-83."""
    assert refused(made.rotate, 1) == "vault_value_missing"
    made.put()
    assert refused(made.rotate, 2, OTHER) == "vault_digest_mismatch"
    made.put(OTHER)
    assert refused(made.rotate, 2, VALUE) == "vault_digest_mismatch"
    assert refused(made.rotate, 1, OTHER) == "vault_version_conflict"
    assert refused(made.rotate, 0, OTHER) == "vault_version_conflict"


def test_without_a_file_the_effects_are_held(made: Vault) -> None:
    """AG-81."""
    made.file = None
    for action in (made.put, functools.partial(made.rotate, 1)):
        with pytest.raises(NotConfigured) as held:
            action()
        assert held.value.code == "vault_not_configured"


def held_by(made: Vault) -> str:
    with pytest.raises(NotConfigured) as held:
        made.put()
    assert held.value.code == "vault_file_unusable"
    assert "s3cret" not in str(held.value)
    return str(held.value)


def test_a_file_that_the_host_would_not_read_is_never_written(made: Vault) -> None:
    """AG-81."""
    made.path.write_text("first=s3cret\n")
    made.path.chmod(0o644)
    assert "others may read" in held_by(made)
    made.path.chmod(0o400)
    assert "read-only" in held_by(made)
    made.path.chmod(0o600)
    made.path.write_text("no pair s3cret\n")
    assert "line 1" in held_by(made)
    made.path.write_text('{"aos.vault/shop/bank": "s3cret"}')
    assert "aos.vault/shop/bank" in held_by(made)


def test_a_folder_that_is_not_there_holds_the_effect(tmp_path: Path) -> None:
    """AG-81."""
    assert "nowhere" in held_by(Vault(tmp_path / "nowhere" / "secrets"))


def test_a_link_to_the_file_stays_one(made: Vault, tmp_path: Path) -> None:
    """AG-81."""
    link = tmp_path / "link"
    link.symlink_to(made.path)

    Vault(link).put()

    assert link.is_symlink()
    assert made.values == {"bank-token": VALUE}


@pytest.mark.parametrize("step", ["create", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_write_that_fails_leaves_the_file_as_it_was(
    made: Vault, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    """AG-81: a full disk may have room later, a forbidden write waits for a person."""
    made.put()
    before = made.path.read_bytes()

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(PlainFolder, step, fail)
    expected = {
        errno.ENOSPC: (EffectFailed, "vault_write_failed"),
        errno.EACCES: (NotConfigured, "vault_file_unusable"),
    }
    with pytest.raises((EffectFailed, NotConfigured)) as failed:
        made.put(OTHER)

    assert isinstance(failed.value, EffectFailed | NotConfigured)
    assert (failed.type, failed.value.code) == expected[code]
    assert made.path.read_bytes() == before
    names = {each.name for each in made.path.parent.iterdir()}
    assert names == {"secrets", "secrets.last-versions"}


def test_values_that_are_put_together_are_all_there(made: Vault) -> None:
    """AG-81: changes wait for each other, also those of other processes."""

    def put_one(number: int) -> None:
        Vault(made.path).put(b"value-%d" % number, alias=f"a{number}", binding_id=f"file:k{number}")

    threads = [threading.Thread(target=put_one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made.values == {f"k{number}": b"value-%d" % number for number in range(8)}


def test_a_vault_has_room_for_what_the_host_reads(made: Vault) -> None:
    """AG-81."""
    made.path.write_text(json.dumps({f"k{each}": "x" * 32_000 for each in range(32)}))
    made.path.chmod(0o600)

    assert refused(made.put, b"y" * 32_000) == "vault_full"


def test_the_file_comes_from_the_environment(made: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """AG-80, AG-81."""

    async def resource() -> VaultFile | None:
        async with open_vault() as vault:
            return vault

    monkeypatch.setenv(VARIABLE, str(made.path))
    made.file = asyncio.run(resource())
    made.put()
    monkeypatch.delenv(VARIABLE)

    assert made.values == {"bank-token": VALUE}
    assert asyncio.run(resource()) is None
    assert load("vault") is vault


@pytest.mark.parametrize(
    ("alias", "binding", "workflow", "is_denied"),
    [
        ("shop/bank", "file:other", "t/thief@1", True),
        ("other", "file:bank-token", "t/thief@1", True),
        ("other", "file:other", "t/thief@1", False),
        ("shop/bank", "file:bank-token", PUPPET, False),
    ],
)
@pytest.mark.parametrize("effect", ["sys/vault.put@1", "sys/vault.rotate@1"])
def test_a_workflow_that_a_secret_bars_learns_nothing_about_it(
    effect: str, alias: str, binding: str, workflow: str, is_denied: bool
) -> None:
    """AG-84a: neither whether the key exists, nor whether a guess is its value."""
    given = files(effects=(effect,), secrets=[{"name": "shop/bank@1"}])
    secret = {
        "$kind": "defsecret", "name": "shop/bank@1", "binding_id": "file:bank-token",
        "workflows": [PUPPET],
    }  # fmt: skip
    nodes = [secret, *json.loads(given["m.air.json"])]
    effective = load_manifest({**given, "m.air.json": json.dumps(nodes).encode()}).effective
    enclosing = Enclosing(no_blobs, lambda _: b"")
    enclosing.use(effective, {effect: ()})
    ref = sha256_text(VALUE)
    number = {"value_ref": ref} if effect.endswith("put@1") else {"version": 2}
    params = {"alias": alias, "binding_id": binding, "expected_digest": ref, **number}

    found = enclosing.of(effect, workflow, encode(params_of(effect, params)))

    if is_denied:
        assert isinstance(found, AttemptFailure)
        assert (found.code, found.end) == ("secret_workflow_denied", "settle")
    else:
        assert found == Enclosed()


def test_with_a_keyring_a_copy_of_the_file_shows_no_value(
    made: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-67a, AG-81a: neither a value nor its digest; the values of a person stay as they are."""
    keyring = tmp_path / "secrets.keyring"
    new_keyring(keyring, secret=bytes(range(32)), created="2026-01-01T00:00:00Z")
    made.path.write_text("# ours\nfirst=1111\n")
    made.path.chmod(0o600)
    monkeypatch.setenv(KEYRING_VARIABLE, str(keyring))

    assert made.put()["version"] == 1
    assert made.put()["version"] == 1
    assert made.put(OTHER)["version"] == 2

    text = made.path.read_text()
    assert text.startswith("# ours\nfirst=1111\nbank-token=aos-sealed:")
    for name in ("secrets", "secrets.last-versions"):
        kept = made.path.with_name(name).read_text()
        for value in (VALUE, OTHER):
            assert value.decode() not in kept
            assert content_hash(value).hex() not in kept
    assert made.values == {"first": b"1111", "bank-token": OTHER}

    moved = text.replace("first=1111", f"first={text.partition('bank-token=')[2].splitlines()[0]}")
    made.path.write_text(moved)
    with pytest.raises(BadUsage, match="first: the sealed value is that of another key"):
        read_secrets(made.path)
    made.path.write_text(text.replace("aos-sealed:", "aos-sealed:AAAA"))
    with pytest.raises(BadUsage, match="bank-token: the sealed value does not open"):
        read_secrets(made.path)
    made.path.write_text(text)
    monkeypatch.delenv(KEYRING_VARIABLE)
    with pytest.raises(BadUsage, match="expected AOS_SECRETS_KEYRING with the path"):
        read_secrets(made.path)
    assert "sealed values" in held_by(made)
    monkeypatch.setenv(KEYRING_VARIABLE, str(tmp_path / "nowhere"))
    assert "nowhere" in held_by(made)
