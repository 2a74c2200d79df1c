"""Functions with sealed params, in a process of their own and in its output (SL-40 to SL-48)."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from os import rename
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import Halted, Task
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.manifest.sealed_places import SEALED, SEALED_PACKAGE
from aos.sealing import Keyring, SealingKey
from aos.sealing.keyring_file import new_keyring, rotate_keyring
from aos.values.cbor import Value, encode
from aos.values.digests import hash_text
from aos.worker.sealed_calls import RUN, WITHHELD, PlaintextRedactor
from tests.worker.stage import WORLD, Journal, act, error_code, intent_of, payload, store_of

VAULT: Final = Path(__file__).parent / "effects" / "vault.py"
NUMBER: Final = "4929 7203 1187 6653"
ONE, TWO = bytes(range(32)), bytes(range(32, 64))
RING: Final = Keyring([SealingKey(ONE)])
AT: Final = "2026-11-26T15:00:00Z"
MARK: Final = "[sealed $.card]"
"""The text that replaces the plaintext of a card."""


@cache
def vault_manifest() -> Effective:
    ref = {"ref": SEALED}
    text: dict[str, Any] = {"text": {}}
    params = {"record": {"what": text, "card": {"option": ref}}}
    receipt = {"record": {"said": text, "token": {"option": ref}}}
    nodes: list[dict[str, Any]] = [
        {"$kind": "defschema", "name": "test/VaultParams@1", "type": params},
        {"$kind": "defschema", "name": "test/VaultSaid@1", "type": receipt},
        {
            "$kind": "defeffect",
            "name": "test/vault@1",
            "params": "test/VaultParams@1",
            "receipt": "test/VaultSaid@1",
            "impl": {"executor": "vault"},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [],
            "modules": [],
            "workflows": [],
            "effects": [{"name": "test/vault@1"}],
            "uses": [SEALED_PACKAGE],
        },
    ]
    return load({"air/all.air.json": json.dumps(nodes).encode()}).effective


def vault_task(number: int, what: str, card: bytes | None) -> Task:
    found = vault_manifest().effects["test/vault@1"]
    intent = intent_of(number)
    return Task(
        intent=intent,
        effect=found,
        params=encode(found.params.normalise({"what": what, "card": card})),
        idempotency_key=hash_text(intent),
        workflow="test/flow@1",
        cell_key=b"",
        issuer_ref=None,
        opened_seq=number,
        opened_ns=1_000,
        attempt=1,
    )


def played(
    play: Callable[[PythonExecutor, Journal], Awaitable[None]], attribute: str = "keyed"
) -> Journal:
    """Play a scene with a real process."""

    def make(journal: Journal) -> PythonExecutor:
        spec = f"{VAULT}:{attribute}"
        return PythonExecutor(spec, world=WORLD, read=store_of({}), report=journal.report)

    return act(make, play, manifest=vault_manifest())


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "vault.keyring"
    new_keyring(path, secret=ONE, created=AT)
    monkeypatch.setenv("VAULT_KEYRING", str(path))
    return path


def everything(journal: Journal) -> bytes:
    """All that has left the executor, for the journal and for the terminal."""
    said = [repr((each.payload, each.blobs)) for each in journal.outcomes]
    said += [repr(each) for each in (*journal.halts, *journal.attempts, *journal.frames)]
    return "\n".join([*said, *journal.lines, journal.printed]).encode()


def spellings() -> Iterator[bytes]:
    for each in (NUMBER, NUMBER.replace(" ", "")):
        yield each.encode()
        yield base64.b64encode(each.encode()).rstrip(b"=")[:-1]
        yield each.encode().hex().encode()
    yield NUMBER[:9].encode()


def test_a_function_gets_plaintexts_and_the_worker_seals_its_results() -> None:
    """SL-40, SL-44, SL-45"""
    card = RING.seal(NUMBER, submission_id="a")
    record = RING.seal({"code": "123", "number": NUMBER})

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([
            vault_task(0, "type", card), vault_task(1, "type", record), vault_task(2, "type", None),
            vault_task(3, "seal", card), vault_task(4, "seal itself", card),
            vault_task(5, "unseal", card),
        ])  # fmt: skip
        await journal.wait(6)

    journal = played(play)

    said = [payload(journal.of(number))["said"] for number in range(6)]
    assert said == ["str", "dict", "NoneType", "ok", "ok", "True"]
    token, own = (payload(journal.of(number))["token"] for number in (3, 4))
    assert RING.open(token) == {"number": NUMBER}
    assert RING.open(own) == NUMBER
    same = RING.seal({"number": NUMBER}, intent=intent_of(3), path="$.token")
    assert token == same, "another attempt would seal it to the same bytes"
    assert [each for each in spellings() if each in everything(journal)] == []


def test_each_attempt_gets_the_params_as_they_came() -> None:
    """SL-40"""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([vault_task(0, "twice", RING.seal(NUMBER))])
        await journal.wait(1)

    found = payload(played(play).of(0))

    assert found["said"] == str(len(NUMBER))
    assert RING.open(found["token"]) == NUMBER


def test_a_value_that_does_not_open_parks_the_effect_and_never_settles_it() -> None:
    """SL-41: the workflow learns nothing, and the effect can be retried."""
    good = RING.seal(NUMBER)
    altered = good[:-1] + bytes([good[-1] ^ 1])
    unknown = Keyring([SealingKey(TWO)]).seal(NUMBER)
    cards = [altered, unknown, good[:60], b"", NUMBER.encode() * 4]

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([vault_task(at, "type", card) for at, card in enumerate(cards)])
        await journal.until(lambda: len(journal.halts) == len(cards))

    journal = played(play)

    assert journal.outcomes == []
    halts = {intent: why for intent, _, why in journal.halts}
    assert {(why.phase, why.code) for why in halts.values()} == {("parked", "sealed_cannot_open")}
    problems = [halts[intent_of(at)].problem for at in range(len(cards))]
    assert problems[0].startswith("$.card: the value does not open with its key ")
    id = SealingKey(TWO).id.hex()
    assert problems[1] == (
        f"$.card: the value is sealed under the key {id}, which is not in the keyring (aos keyring "
        "show FILE lists its keys) (give the worker a keyring with the key that sealed it, then "
        "aos effects retry)"
    )
    assert "begins with the byte 0x01" in problems[4]
    assert journal.attempts == [], "another attempt would find the same"
    assert [each for each in spellings() if each in everything(journal)] == []


def test_a_worker_that_gets_the_key_later_opens_the_value(file: Path) -> None:
    """SL-36, SL-41: without a restart."""
    card = Keyring([SealingKey(TWO)]).seal(NUMBER)

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([vault_task(0, "type", card)])
        await journal.until(lambda: len(journal.halts) == 1)
        rotate_keyring(file, secret=TWO, created=AT)
        assert executor.retry([intent_of(0)]) == [intent_of(0)]
        await journal.wait(1)
        executor.publish([vault_task(1, "seal", RING.seal(NUMBER))])
        await journal.wait(2)

    journal = played(play)

    assert payload(journal.of(0))["said"] == "str"
    assert payload(journal.of(1))["token"][1:9] == SealingKey(TWO).id, "the new key seals"


def test_without_a_keyring_the_effect_is_held(file: Path) -> None:
    """SL-42"""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([
            vault_task(0, "type", RING.seal(NUMBER)),
            vault_task(1, "seal", None),
            vault_task(2, "type", None),
        ])  # fmt: skip
        await journal.until(lambda: len(journal.halts) == 2 and len(journal.outcomes) == 1)

    journal = played(play, "bare")

    halts = {intent: why for intent, _, why in journal.halts}
    assert halts[intent_of(0)] == Halted(
        "held",
        "sealed_keyring_missing",
        "the params are sealed at $.card, and this worker has no keyring: give it one, "
        "Executors(…, keyring=FILE), and restart it",
    )
    assert halts[intent_of(1)].problem.startswith("the result is to be sealed at $.token, and")
    assert payload(journal.of(2))["said"] == "NoneType", "nothing is sealed there"


def test_a_keyring_that_goes_away_holds_the_effect(file: Path) -> None:
    """SL-42"""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        rename(file, file.with_suffix(".away"))  # noqa: PTH104  # Path.rename would block
        executor.publish([vault_task(0, "type", RING.seal(NUMBER))])
        await journal.until(lambda: len(journal.halts) == 1)

    [(_, _, why)] = played(play).halts

    assert (why.phase, why.code) == ("held", "sealed_keyring_missing")
    assert "cannot be read: No such file" in why.problem


def test_a_keyring_that_cannot_be_read_is_reported_when_the_worker_starts(file: Path) -> None:
    """SL-43"""
    file.chmod(0o644)

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        raise AssertionError("it has started")

    with pytest.raises(Exception, match="expected mode 0600, found 0644"):
        played(play)


def test_no_error_output_or_result_has_a_plaintext() -> None:
    """SL-46 to SL-48"""
    card = RING.seal(NUMBER)
    short = RING.seal({"code": "123", "number": NUMBER})
    whats = (
        "return", "misfit", "no value", "raise", "raise bare", "raise a part", "fail", "lacks",
        "print", "progress",
    )  # fmt: skip

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([vault_task(at, what, card) for at, what in enumerate(whats)])
        executor.publish([vault_task(20, "raise short", short)])
        await journal.until(lambda: len(journal.halts) == 8 and len(journal.outcomes) == 3)
        # Lines come by another way than outcomes.
        lines = {f"[vault] {word} {MARK}" for word in ("first", "logged")}
        await journal.until(lambda: lines <= set(journal.lines))

    journal = played(play)

    halts = {intent: why for intent, _, why in journal.halts}
    codes = [(halts[intent_of(at)].phase, halts[intent_of(at)].code) for at in (0, 1, 2, 7)]
    assert codes == [
        ("parked", "sealed_in_result"), ("parked", "sealed_in_result"),
        ("parked", "executor_result_invalid"), ("held", "no_account"),
    ]  # fmt: skip
    assert halts[intent_of(3)] == Halted("parked", "exception", f"ValueError: cannot use {MARK}")
    assert halts[intent_of(4)] == Halted("parked", "exception", f"ValueError: cannot use {MARK}")
    assert halts[intent_of(5)] == Halted("parked", "exception", WITHHELD)
    assert halts[intent_of(20)] == Halted("parked", "exception", WITHHELD)
    assert error_code(journal.of(6)) == "declined"
    assert payload(journal.of(6))["message"] == f"the bank says: {MARK} is unknown"
    assert halts[intent_of(7)].problem == f"no account for {MARK}"
    said = everything(journal)
    assert [each for each in spellings() if each in said] == []


# The redactor alone

WORDS: Final = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=RUN)


@given(WORDS, st.integers(0, 20), st.sampled_from(["", " ", "-", ".", " / "]), st.booleans())
def test_no_six_characters_in_a_row_of_a_plaintext_stay_in_a_text(
    word: str, start: int, separator: str, is_upper: bool
) -> None:
    """SL-46: of any part of it, with any separators, in any case."""
    part = word[start % (len(word) - RUN + 1) :][:RUN]
    spelt = separator.join(part.upper() if is_upper else part)
    text = PlaintextRedactor([("$.a", {"k": [word]})], ()).text(f"<<{spelt}>>")

    assert spelt not in text


@pytest.mark.parametrize(
    ("plaintext", "text", "is_withheld"),
    [
        ("DE", "declined", False),
        ("DE", "in DE", True),
        ("1", "code 12", False),
        ("1", "code 1", True),
        (123, "pin=123", True),
        (True, "True", False),
        (None, "None", False),
        (b"\x00\x01\x02\x03\x04", "no bytes", False),
        ("", "anything", False),
        ("?!", "a ?! b", True),
        ("4929 7203 1187 6653", "4929-72", True),
        ("4929 7203 1187 6653", "ends in 6653", False),
    ],
)
def test_a_text_is_withheld_if_it_may_hold_a_part(
    plaintext: Value, text: str, is_withheld: bool
) -> None:
    """SL-46"""
    found = PlaintextRedactor([("$.a", plaintext)], ()).text(text)

    assert (found == WITHHELD) == is_withheld, found


def test_a_code_is_never_withheld() -> None:
    """SL-46: the workflow acts on it."""
    redactor = PlaintextRedactor([("$.a", "ab")], ())

    assert redactor.code("ab_declined") == "ab_declined"
    assert redactor.text("ab_declined") == WITHHELD
