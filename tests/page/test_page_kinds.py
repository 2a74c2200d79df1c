"""Pages of worlds of every kind: governed, forked, with erased values, running
(spec/page.md, PG-3, PG-6; audit.md A-67a)."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from aos.core.state.state import Ancestor
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.page import page_world
from aos.read.views.intent_view import intent
from aos.read.views.view import View
from aos.values.digests import Hash
from tests.cli.shell import here, start
from tests.cli.test_gov import written
from tests.copies import copied
from tests.core.governed import key_of
from tests.page.browser import Browser, crawled, read_page

WAIT_S = 60.0


def all_pages(path: Path) -> dict[str, str]:
    """Every page of a world, each read strictly, with its text."""
    browser = Browser(path)
    try:
        [slug] = browser.worlds._worlds
        found = {}
        for address in crawled(browser, f"/w/{slug}/"):
            answer = browser.get(address)
            if answer.headers["content-type"][:9] == "text/html":
                found[address.removeprefix(f"/w/{slug}")] = " ".join(read_page(answer).text.split())
    finally:
        browser.close()
    return found


def test_proposals_are_shown_with_votes_and_changes(tmp_path: Path) -> None:
    """PG-6, A-37h"""
    world = tmp_path / "world"
    init_world(world)
    assert here("apply", written(tmp_path / "1", 1), "-w", world).code == 0
    key = tmp_path / "ann.key"
    key.write_text(bytes(key_of("ann")).hex() + "\n")
    key.chmod(0o600)
    for version in (2, 3):
        note = f"<b>version {version}</b>"
        proposed = here(
            "gov", "propose", written(tmp_path / f"{version}", version), "--note", note, "-w", world
        )
        assert proposed.code == 0, proposed.err
    [first, second] = [
        each["proposal"] for each in here("gov", "list", "--json", "-w", world).json["proposals"]
    ]
    voted = here("gov", "approve", str(first), "--key", key, "--note", "fine", "-w", world)
    assert voted.code == 0, voted.err
    withdrawn = here("gov", "withdraw", str(second), "-w", world)
    assert withdrawn.code == 0, withdrawn.err

    pages = all_pages(world)

    opened, closed = pages[f"/proposals/{first}"], pages[f"/proposals/{second}"]
    assert "It still needs 1 approval (of bob, cat)" in opened
    assert "<b>version 2</b>" in opened
    assert "fine" in opened
    assert "limits" in opened.lower()
    assert "withdrawn" in closed
    browser = Browser(world)
    try:
        [slug] = browser.worlds._worlds
        command = here("gov", "show", str(second), "--json", "-w", world).json
        dry = {"blockers", "groups", "fates", "flows"}
        for number in (first, second):
            command = here("gov", "show", str(number), "--json", "-w", world).json
            document = browser.get(f"/w/{slug}/proposals/{number}.json").json()
            assert document == {name: value for name, value in command.items() if name not in dry}
    finally:
        browser.close()


def test_every_page_of_a_fork_and_of_a_world_with_an_erased_value_is_shown(
    lived_in: Path, tmp_path: Path
) -> None:
    """PG-6"""
    world = copied(lived_in, tmp_path / "world")
    values = [
        each["value"]
        for seq in range(1, 46)
        for each in here("inspect", "record", str(seq), "--json", "-w", world).json["values"]
        if each["where"].startswith("value")
    ]
    erased = here("erase", values[0], "--yes", "-w", world)
    assert erased.code == 0, erased.err
    fork = tmp_path / "fork"
    forked = here("fork", fork, "--at", "25", "--intents", "cancel", "-w", world)
    assert forked.code == 0, forked.err

    assert any("was erased" in text for text in all_pages(world).values())
    pages = all_pages(fork)

    assert "Forked of" in pages["/"]
    settled = [text for text in pages.values() if "Signature, checked now" in text]
    assert settled
    assert all("Valid. The key below signed" in text for text in settled)


def test_a_world_that_a_process_runs_is_shown_with_its_process(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-4: the process answers what it does with its effects."""
    monkeypatch.setattr(page_world, "ASK_S", WAIT_S)  # a busy machine may keep it from answering
    world = copied(lived_in, tmp_path / "world")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = start("run", "--world", world, **quiet)
    browser = Browser(world)
    try:
        until_s = time.monotonic() + WAIT_S
        while not os.path.lexists(world / "aos.sock") and time.monotonic() < until_s:
            browser.wait(0.05)
        [slug] = browser.worlds._worlds
        while time.monotonic() < until_s:
            answer = browser.get(f"/w/{slug}/.json")
            if answer.status_code == 200 and answer.json()["process"] is not None:
                break
            browser.wait(0.05)

        assert f"pid {process.pid}" in read_page(browser.get(f"/w/{slug}/")).text
        command = here("inspect", "world", "--json", "-w", world).json
        assert browser.get(f"/w/{slug}.json").json() == command
        assert browser.get(f"/w/{slug}/cell/host/puppet@1/ZHdhaXQ").status_code == 200
    finally:
        process.kill()
        process.wait()
        browser.close()


# The signature of a receipt


def signature(path: Path, **altered: Any) -> Any:
    """The signature of the first settled intent of a world, with other facts about the world."""
    with open_reader(path) as reader:
        for name, value in altered.items():
            setattr(reader.state, name, value)
        view = View(reader.state, reader.store)
        word = next(
            each.hex() for each, row in view.journal.intents() if row.settled_seq is not None
        )
        return intent(view, word)["signature"]


def test_the_signature_of_a_receipt_is_checked_by_key_world_and_manifest(lived_in: Path) -> None:
    """A-67a"""
    found = signature(lived_in)

    assert (found["executor"], found["is_valid"], found["was_allowed"]) == ("node", True, True)
    assert (found["is_revoked"], found["manifest_record"]) == (False, 2)
    other = Ancestor(world=Hash(b"\x00" * 32), at=1_000)
    assert not signature(lived_in, ancestors=(other,))["is_valid"]
    assert not signature(lived_in, world_key=b"\x00" * 32)["was_allowed"]
    key = bytes.fromhex(found["key"].removeprefix("ed25519:"))
    assert signature(lived_in, revoked=frozenset({key}))["is_revoked"]


def test_changes_since_a_record_are_those_of_the_two_manifests(
    lived_in: Path, tmp_path: Path
) -> None:
    """A-62a, C-32"""
    found = here("inspect", "manifest", "--since", "5", "--json", "-w", lived_in).json

    assert found["since"]["record"] == 2
    assert found["now"]["record"] > 20
    assert found["changes"]["limits"] == ["~ host/puppet@1 effects: 63 -> 62"]
    text = here("inspect", "manifest", "--since", "5", "-w", lived_in).out
    assert "host/puppet@1 effects: 63 -> 62" in text
    for words in (("--since", "1"), ("--since", "999"), ("--since", "3", "NAME")):
        assert here("inspect", "manifest", *words, "-w", lived_in).code == 2
    empty = tmp_path / "empty"
    init_world(empty)
    assert here("inspect", "manifest", "--since", "1", "-w", empty).code == 2
