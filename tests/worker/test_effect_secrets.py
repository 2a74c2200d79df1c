"""Secrets and blobs of functions, in a process of their own and in its output (X-75 to X-79)."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from aos.host.executors.enclosures import BLOB_BYTES_MAX, Enclosed, Enclosing
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import Halted
from aos.host.folder.secrets import Secrets
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker import EffectContext
from aos.worker.failure import AttemptFailure
from aos.worker.outcome import Outcome
from tests.worker.keyed import (
    FLOW,
    KEYED,
    KEYS,
    OTHER,
    REF,
    SECRET,
    keyed_manifest,
    keyed_task,
    params,
)
from tests.worker.stage import WORLD, Journal, act, error_code, intent_of, payload, store_of
from tests.worker.test_worker_secrets import file_of

KEEPER: Final = f"{Path(__file__).parent / 'effects' / 'keeper.py'}:keeper"
DIGEST: Final = hash_text(content_hash(SECRET.encode()))
PAGES: Final = {content_hash(each): each for each in (b"one", b"two", b"three")}


def ref(alias: str) -> dict[str, Any]:
    return {"alias": alias, "version": 1}


def played(
    file: Path,
    play: Callable[[PythonExecutor, Journal], Awaitable[None]],
    blobs: dict[Hash, bytes] | None = None,
) -> Journal:
    """Play a scene with a real process that has the secrets of a file."""

    def make(journal: Journal) -> PythonExecutor:
        return PythonExecutor(
            KEEPER,
            world=WORLD,
            read=store_of(blobs or {}),
            secrets=Secrets(file),
            report=journal.report,
        )

    return act(make, play, manifest=keyed_manifest())


def everything(journal: Journal) -> bytes:
    """All that has left the executor, for the journal and for the terminal."""
    said = [repr((each.payload, each.blobs)) for each in journal.outcomes]
    said += [repr(each) for each in (*journal.halts, *journal.attempts, *journal.frames)]
    return "\n".join([*said, *journal.lines]).encode()


def spellings(value: str = SECRET) -> Iterator[bytes]:
    bare = value.removeprefix("0x")
    raw = bytes.fromhex(bare)
    yield from (bare.encode(), bare.upper().encode(), repr(raw)[2:-1].encode())
    for each in (value.encode(), bare.encode(), raw):
        yield base64.b64encode(each).rstrip(b"=")[:-1]
        yield each.hex().encode()


def assert_secret(journal: Journal) -> None:
    said = everything(journal)
    assert [each for each in spellings() if each in said] == []


def test_a_process_gets_the_value_with_its_task_and_says_it_to_no_one(tmp_path: Path) -> None:
    """X-75, X-77, X-78."""
    whats = ("digest", "print", "fail", "lacks", "crash", "return", "raw", "misfit", "progress")

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([keyed_task(at, what) for at, what in enumerate(whats)])
        await journal.wait(4)
        await journal.until(lambda: len(journal.halts) == 5)

    journal = played(file_of(tmp_path, f"keys={SECRET}"), play)

    assert payload(journal.of(0)) == {"said": DIGEST, "raw": None}
    assert_secret(journal)
    mark = f"[secret {KEYS}]"
    assert f"[keeper] first {mark}" in journal.lines
    assert f"[keeper] in {mark} two writes" in journal.lines
    assert f"[keeper] logged {mark}" in journal.lines
    assert payload(journal.of(2))["message"] == f"the bank says: {mark} is unknown"
    assert f"[keeper] ValueError: cannot use {mark}" in journal.lines
    halts = {intent: why for intent, _, why in journal.halts}
    assert halts[intent_of(3)] == Halted("held", "no_account", f"no account for {mark}: open one")
    assert halts[intent_of(4)] == Halted("parked", "exception", f"ValueError: cannot use {mark}")
    for number in (5, 6, 7):
        assert (halts[intent_of(number)].phase, halts[intent_of(number)].code) == (
            "parked", "secret_in_result",
        )  # fmt: skip
    assert [each for each in journal.attempts if each.intent == intent_of(5)] == [], "not retried"
    assert journal.frames == [], "no workflow here takes frames"
    assert "it holds the value of a secret" in journal.printed, journal.printed


def test_a_secret_that_the_host_lacks_holds_and_one_that_is_forbidden_ends_the_effect(
    tmp_path: Path,
) -> None:
    """X-76: nothing runs; the file is read again for the next task, without a restart."""
    file = file_of(tmp_path, "other=12345678")

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        assert executor.lacking() == [
            f"secret {name} at file:keys: {file} has no key keys"
            for name in (KEYS, "test/others@1")
        ]
        executor.publish(
            [
                keyed_task(1),
                keyed_task(2, keys=[ref("test/hosted")]),
                keyed_task(3, keys=[ref("test/others")]),
                keyed_task(4, keys=[]),
            ]
        )
        await journal.wait(3)
        await journal.until(lambda: bool(journal.halts))
        file_of(tmp_path, f"keys={SECRET}")
        executor.publish([keyed_task(5), keyed_task(6, keys=[ref("test/others")], workflow=OTHER)])
        assert executor.retry([intent_of(1)]) == [intent_of(1)]
        await journal.wait(6)
        file.chmod(0o640)
        executor.publish([keyed_task(7)])
        await journal.until(lambda: len(journal.halts) == 2)

    journal = played(file, play)

    [(intent, _, why), (_, _, readable)] = journal.halts
    assert (intent, why.phase, why.code) == (intent_of(1), "held", "secret_unavailable")
    assert why.problem == f"secret {KEYS} at file:keys: {file} has no key keys"
    assert readable.code == "secret_unavailable"
    assert "others may read these secrets" in readable.problem
    assert error_code(journal.of(2)) == "secret_host_denied"
    assert error_code(journal.of(3)) == "secret_workflow_denied"
    assert not payload(journal.of(2))["retryable"]
    assert payload(journal.of(4))["said"] == hash_text(content_hash(b""))
    assert [payload(journal.of(number))["said"] for number in (1, 5, 6)] == [DIGEST] * 3
    assert_secret(journal)


def test_a_held_task_is_not_journaled_again_while_its_process_lacks_the_same(
    tmp_path: Path,
) -> None:
    """X-15."""
    file = file_of(tmp_path, "other=12345678")
    executor = PythonExecutor(KEEPER, world=WORLD, secrets=Secrets(file))
    executor._blobs = {KEYED: ()}
    executor._manifest = keyed_manifest()
    executor._use_enclosing()
    problem = f"secret {KEYS} at file:keys: {file} has no key keys"

    assert executor.still_lacks(keyed_task(1), Halted("held", "secret_unavailable", problem))
    assert not executor.still_lacks(keyed_task(1), Halted("held", "secret_unavailable", "other"))
    assert not executor.still_lacks(keyed_task(1), Halted("held", "no_account", problem))
    file_of(tmp_path, f"keys={SECRET}")
    assert not executor.still_lacks(keyed_task(1), Halted("held", "secret_unavailable", problem))


def test_blobs_of_the_fields_that_a_function_lists_come_with_the_task(tmp_path: Path) -> None:
    """X-79: in an option, in a list; a hash in another field is none of them."""
    one, two, three = map(hash_text, PAGES)
    pages = [{"image": two}, {"image": three}, {"image": two}]

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        gone = hash_text(content_hash(b"gone"))
        executor.publish(
            [
                keyed_task(1, "blobs", data=one, pages=pages, manifest=gone),
                keyed_task(2, "blobs", data=gone),
                keyed_task(3, "manifest", manifest=one),
                keyed_task(4, "second"),
            ]
        )
        await journal.wait(2)
        await journal.until(lambda: len(journal.halts) == 2)

    journal = played(file_of(tmp_path, f"keys={SECRET}"), play, PAGES)

    assert payload(journal.of(1))["said"] == "one two three two"
    assert error_code(journal.of(2)) == "blob_missing"
    problems = {intent: (why.code, why.problem) for intent, _, why in journal.halts}
    code, problem = problems[intent_of(3)]
    assert code == "exception"
    assert f"{one!r} did not come with this task: expected a hash of the params" in problem
    code, problem = problems[intent_of(4)]
    assert code == "exception"
    assert "expected a sys/SecretRef@1 of the params of this task" in problem
    assert "found test/hosted@1" in problem


# Without a process


class Reader:
    """A store that counts what is read."""

    def __init__(self, blobs: dict[Hash, bytes]) -> None:
        self.blobs = blobs
        self.read: list[Hash] = []

    def __call__(self, hash: Hash, /) -> bytes:
        self.read.append(hash)
        return store_of(self.blobs)(hash)


def enclosing(reader: Reader, *fields: str, has_secrets: bool = True) -> Enclosing:
    found = Enclosing(reader, lambda _: SECRET.encode())
    assert found.use(keyed_manifest(has_secrets=has_secrets), {KEYED: fields}) == []
    return found


def of(found: Enclosing, **changes: Any) -> Enclosed | AttemptFailure:
    return found.of(KEYED, FLOW, encode(params(**changes)))


def test_blobs_of_a_task_have_at_most_sixteen_mebibytes_together() -> None:
    """X-79."""
    half, rest, more = b"a" * (BLOB_BYTES_MAX // 2), b"b" * (BLOB_BYTES_MAX // 2), b"c"
    reader = Reader({content_hash(each): each for each in (half, rest, more)})
    names = [hash_text(each) for each in reader.blobs]
    found = enclosing(reader, "pages")

    fits = of(found, pages=[{"image": names[at]} for at in (0, 1, 0, 1)])
    assert isinstance(fits, Enclosed)
    assert list(fits.blobs) == names[:2], "each is read and counted once"

    large = of(found, pages=[{"image": each} for each in names])
    assert isinstance(large, AttemptFailure)
    assert (large.code, large.end, large.retryable) == ("blob_too_large", "settle", False)


def test_nothing_is_read_for_a_function_that_lists_no_fields() -> None:
    reader = Reader(PAGES)
    one = hash_text(content_hash(b"one"))
    assert of(enclosing(reader), data=one) == Enclosed(secrets=_the_secret())
    assert reader.read == []


def _the_secret() -> Any:
    found = of(enclosing(Reader({})))
    assert isinstance(found, Enclosed)
    assert [(each.name, each.value) for each in found.secrets] == [(KEYS, SECRET.encode())]
    return found.secrets


def test_a_secret_that_is_named_twice_comes_once_and_without_secrets_a_reference_is_plain() -> None:
    """M-56."""
    twice = of(enclosing(Reader({})), keys=[REF, REF])
    assert isinstance(twice, Enclosed)
    assert len(twice.secrets) == 1
    assert of(enclosing(Reader({}), has_secrets=False)) == Enclosed()


def test_a_field_without_a_hash_is_reported() -> None:
    found = Enclosing(Reader({}), lambda _: b"")
    [line] = found.use(keyed_manifest(), {KEYED: ("dta", "pages.image"), "test/none@1": ("x",)})
    assert line.startswith("test/keyed@1: blobs='dta' of its function leads to no hash")


def test_a_value_that_is_no_text_holds_the_task() -> None:
    found = Enclosing(Reader({}), lambda _: b"\xff" * 8)
    found.use(keyed_manifest(), {KEYED: ()})
    failure = of(found)
    assert isinstance(failure, AttemptFailure)
    assert (failure.code, failure.end) == ("secret_unavailable", "hold")
    assert "expected UTF-8 text" in failure.message


def test_a_context_of_an_authors_own_test_has_what_it_is_given() -> None:
    ctx = EffectContext(
        intent="", effect=KEYED, idempotency_key="", attempt=1, workflow="", key=None,
        issuer_ref=None, world="", deadline_ns=0, secrets={("test/keys", 1): SECRET},
        blobs={"blake3:00": b"x"},
    )  # fmt: skip

    assert ctx.secret(REF) == SECRET
    assert ctx.blob("blake3:00") == b"x"
    assert SECRET not in repr(ctx)


def test_outcomes_that_do_not_run_have_no_secret_in_them(tmp_path: Path) -> None:
    """A value with the wrong digest is not quoted (X-76)."""
    found = Enclosing(Reader({}), Secrets(file_of(tmp_path, "keys=abc")).value)
    found.use(keyed_manifest(), {KEYED: ()})
    failure = of(found)
    assert isinstance(failure, AttemptFailure)
    assert "expected 4 to 32768 bytes, found 3" in failure.message
    assert "abc" not in failure.message


def test_an_outcome_is_shown_without_its_blobs_only_by_its_hash() -> None:
    """The helper ``everything`` sees a blob of an outcome."""
    outcome = Outcome(
        intent=intent_of(1), effect=KEYED, attempt=1, status="ok", payload=b"", started_ns=1,
        finished_ns=1, blobs={content_hash(b"seen"): b"seen"},
    )  # fmt: skip
    assert b"seen" in everything(Journal(outcomes=[outcome]))
