"""``aos keyring``, ``--seal`` and ``--unseal``, word for word (C-22, C-34a, C-150 to C-153)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from aos.sealing import Keyring
from aos.values.spelling import base64_bytes, base64_text
from tests.cli.shell import Aos, in_silence
from tests.cookbook.worlds import executors, recipe

NUMBER: Final = "4929 7203 1187 6653"
ID: Final = r"[0-9a-f]{16}"
AT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    assert in_silence("init", path) == 0
    assert in_silence("apply", recipe("sealed"), "--world", path) == 0
    return path


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "cards.keyring"
    assert in_silence("keyring", "new", path) == 0
    return path


def given(order: str, card: object = NUMBER, **more: Any) -> str:
    return json.dumps({"order_id": order, "cents": 4900, "card": card, **more})


def test_a_keyring_is_made_rotated_shown_and_a_key_is_dropped(aos: Aos, tmp_path: Path) -> None:
    """C-150 to C-153"""
    file = tmp_path / "cards.keyring"
    made = aos("keyring", "new", file)
    assert made.code == 0
    assert re.fullmatch(rf"{ID}  {AT}  seals and opens\n", made.out)
    assert (
        made.err == "keep a copy: without the file, no one can decrypt the values that it seals\n"
    )

    rotated = aos("keyring", "rotate", file)
    assert re.fullmatch(rf"{ID}  {AT}  opens\n{ID}  {AT}  seals and opens\n", rotated.out)
    assert rotated.err == "copy the file to the workers before senders use it\n"

    shown = aos("keyring", "show", file, "--json").json
    first, second = (each["id"] for each in shown["keys"])
    assert set(shown) == {"file", "current", "keys"}
    assert (shown["file"], shown["current"]) == (str(file), second)
    assert {*shown["keys"][0]} == {"id", "created"}, "no secret"
    assert aos("keyring", "show", file).out == rotated.out

    refused = aos("keyring", "drop", file, second)
    expected = (
        f"aos: keyring {file}: {second} is the current key (aos keyring rotate {file} first)\n"
    )
    assert refused == (1, "", expected)
    dropped = aos("keyring", "drop", file, first)
    assert dropped.code == 0
    assert re.fullmatch(rf"{second}  {AT}  seals and opens\n", dropped.out)
    assert dropped.err == (
        f"values sealed under {first} open only with a copy of the file that still has the key\n"
    )


def test_each_command_refuses_a_file_that_is_not_for_it(aos: Aos, ring: Path, world: Path) -> None:
    """C-150 to C-153"""
    missing, text = ring.with_name("none"), ring.with_name("text")
    text.write_text("no keyring")
    text.chmod(0o600)

    assert aos("keyring", "new", ring) == (
        1, "",
        (f"aos: {ring}: the file exists, and a keyring is never replaced (aos keyring rotate "
        f"{ring} adds a key)\n"),
    )  # fmt: skip
    assert aos("keyring", "new", ring / "below") == (
        4, "",
        (f"aos: {ring}/below: the file cannot be written: Not a directory; "
        "nothing was left behind\n"),
    )  # fmt: skip
    for verb in ("rotate", "show"):
        assert aos("keyring", verb, missing) == (
            2, "",
            (f"aos: keyring {missing}: cannot be read: No such file or directory (aos keyring new "
            f"{missing} makes one)\n"),
        )  # fmt: skip
        assert aos("keyring", verb, text) == (
            2, "",
            (f"aos: keyring {text}: expected a keyring, as aos keyring new makes one, found "
            "something else (restore the file from a copy; its content is not shown)\n"),
        )  # fmt: skip
    assert aos("keyring", "drop", ring, "12ab") == (
        2, "", "aos: KEY: expected the 16 hex digits of a key's id, found '12ab'\n",
    )  # fmt: skip
    assert aos("keyring", "drop", ring, "0" * 16) == (
        2, "", f"aos: keyring {ring}: it has no key {'0' * 16} (aos keyring show {ring})\n",
    )  # fmt: skip
    for words in (("send", "x/Y@1", "{}", "--seal"), ("inspect", "record", "1", "--unseal")):
        found = aos(*words, missing, world=world)
        assert (found.code, found.out) == (2, "")
        assert f"aos: keyring {missing}: cannot be read" in found.err


def test_an_event_is_sealed_sent_again_and_shown(aos: Aos, shop: Path, ring: Path) -> None:
    """C-22, C-34a, SL-11, SL-14"""
    words = ("send", "card/Given@1", given("o-1"), "--id", "o-1")
    open_ = aos(*words, world=shop)
    assert open_ == (
        1, "",
        ("aos: card/Given@1: $.card: expected a sealed value, found something that is not bytes "
        "(it is not shown) (aos send --seal KEYRING seals it)\n"),
    )  # fmt: skip
    assert aos(*words, "--seal", ring, world=shop) == (0, "3  → card/payment@1 o-1\n", "")
    assert aos(*words, "--seal", ring, world=shop) == (0, "3  sent before\n", "")

    plain = aos("inspect", "record", "3", "--json", world=shop).json
    card = plain["value"]["card"]
    assert Keyring.read(ring).open(base64_bytes(card) or b"") == NUMBER
    shown = aos("inspect", "record", "3", "--json", "--unseal", ring, world=shop).json
    assert shown["value"] == json.loads(given("o-1"))
    assert {**shown, "value": None} == {**plain, "value": None}
    mail = aos("inspect", "cell", "payment", "o-1", "--unseal", ring, world=shop)
    assert f'"card": "{NUMBER}"' in mail.out.replace('":"', '": "')


def test_an_intent_is_shown_with_its_plaintext(
    aos: Aos, shop: Path, ring: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C-34a"""
    aos("send", "card/Given@1", given("o-1"), "--seal", ring, world=shop)
    aos("run", "--until-waiting", world=shop)
    [row] = aos("inspect", "intents", "--json", world=shop).json["intents"]

    found = aos("inspect", "intent", row["intent"], "--json", "--unseal", ring, world=shop).json
    other = tmp_path / "other.keyring"
    in_silence("keyring", "new", other)
    not_found = aos("inspect", "intent", row["intent"], "--json", "--unseal", other, world=shop)
    closed = aos("inspect", "intent", row["intent"], "--json", world=shop)

    assert NUMBER in json.dumps(found)
    assert NUMBER not in closed.out
    assert not_found.json["params"] == closed.json["params"], "another keyring opens nothing"

    refused = aos(
        "effects", "settle", row["intent"], "--ok",
        json.dumps({"token": NUMBER, "last_digits": "6653"}), world=shop,
    )  # fmt: skip
    assert refused.code == 1
    assert "$.token: expected a sealed value" in refused.err
    assert NUMBER not in refused.err
    token = Keyring.read(ring).seal_text("tok-1")
    settled = aos(
        "effects", "settle", row["intent"], "--ok",
        json.dumps({"token": token, "last_digits": "6653"}), world=shop,
    )  # fmt: skip
    assert settled.code == 0
    monkeypatch.setenv("CARDS_KEYRING", str(ring))
    monkeypatch.setenv("CARDS_BOOKS", str(tmp_path / "books"))
    aos("run", "--until-idle", "--executors", executors("sealed", "cards"), world=shop)
    assert aos("inspect", "cells", world=shop).out.count("completed") == 1


def test_an_event_that_cannot_be_sealed_is_not_sent(aos: Aos, shop: Path, ring: Path) -> None:
    """C-22, SL-11: exit 2, the place, and never the value."""
    altered = bytearray(Keyring.read(ring).seal(NUMBER))
    altered[-1] ^= 1
    unknown = Keyring.generate().seal(NUMBER)
    id = unknown[1:9].hex()
    for card, expected in (
        (None, "$.card: expected a value to seal, found null"),
        (
            {"$sealed": base64_text(bytes(altered))},
            (
                f"$.card: $sealed: the value does not open with its key {altered[1:9].hex()}: it "
                "was altered or cut off"
            ),
        ),
        (
            {"$sealed": base64_text(unknown)},
            (
                f"$.card: $sealed: the value is sealed under the key {id}, which is not in the "
                "keyring (aos keyring show FILE lists its keys)"
            ),
        ),
    ):
        found = aos("send", "card/Given@1", given("o-1", card), "--seal", ring, world=shop)
        assert found == (2, "", f"aos: --seal: card/Given@1: {expected}\n")
    nothing = aos(
        "send",
        "card/Charged@1",
        '{"order_id": "o-1", "reference": "r"}',
        "--seal",
        ring,
        world=shop,
    )
    assert nothing == (
        2, "",
        ("aos: --seal: card/Charged@1 has no sealed place, so nothing would be sealed (leave out "
        "--seal, or make a field of the schema an aos/Sealed@1)\n"),
    )  # fmt: skip
    unknown_schema = aos("send", "card/None@1", "{}", "--seal", ring, world=shop)
    assert unknown_schema.code == 1, "the kernel refuses it"


def test_lines_are_sealed_up_to_the_first_that_cannot_be(
    aos: Aos, shop: Path, ring: Path, tmp_path: Path
) -> None:
    """C-24, SL-11"""
    file = tmp_path / "cards.jsonl"
    lines = [
        {"schema": "card/Given@1", "value": json.loads(given("o-1")), "submission_id": "o-1"},
        {"schema": "card/Charged@1", "value": {"order_id": "o-9", "reference": "r"}},
        {"schema": "card/Given@1", "value": json.loads(given("o-2"))},
        {"schema": "card/Given@1", "value": json.loads(given("o-3", None))},
        {"schema": "card/Given@1", "value": json.loads(given("o-4"))},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))

    found = aos("send", "--jsonl", file, "--seal", ring, world=shop)

    assert found.code == 2
    assert found.out == "2 admitted, 1 refused (records 3 to 4)\n"
    problem = "--seal: card/Given@1: $.card: expected a value to seal, found null"
    assert f"aos: {file}:4: {problem}\n" in found.err
    shown = aos("inspect", "record", "4", "--json", "--unseal", ring, world=shop).json
    assert shown["value"]["card"] == NUMBER
