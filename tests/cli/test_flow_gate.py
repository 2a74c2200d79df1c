"""The gate: new code is tried on the flows in progress before it is applied (C-21a, A-90, H-77)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.host.apply.dry_run import ApplyReport
from aos.host.apply.manifest_trial import run_trial
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import Loaded, load
from aos.sandbox.inspect import check_module
from aos.values.digests import hash_text
from aos_cli import addressed_group, addressed_world, apply_target
from tests.cli.shell import Result, here, in_silence
from tests.cli.test_node_commands import alike, served
from tests.copies import copied
from tests.flow.probe import FLOW, HOUR, nodes, wasm

FITS = ("versions", "retry")
STOPPED = {
    "changed-branches": ("all", 'join "all" of a, b', 'join "all" of b, a'),
    "left-out": ("one", 'step "one" of t/do@1', "the end"),
    "moved": ("one", 'step "one" of t/do@1', 'step "two" of t/do@1'),
}
"""Program -> the path, what the history has there, and what the new code asks for."""


def files(entrypoint: str, *, in_place: bool = True) -> dict[str, bytes]:
    given = nodes(entrypoint)
    for node in given:
        if not in_place and node.get("name") == FLOW and "upgrade" in node:
            node["upgrade"] = "quiesce"
    return {"m.air.json": json.dumps(given).encode(), "flows.wasm": wasm()}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with one flow of each program in progress: its first step is open."""
    path = tmp_path_factory.mktemp("gate") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load(files("probe"), check=check_module))
    for program in (*FITS, *STOPPED):
        given = {
            "id": program, "program": program, "count": 0, "pause": HOUR, "until": 0, "blob": None,
        }  # fmt: skip
        started = here("flow", "start", "probe", json.dumps(given), "--world", path)
        assert started.code == 0, started
    in_silence("run", "--until-waiting", "--world", path)
    return path


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a manifest with the later code, which takes over in place."""
    return written(tmp_path_factory.mktemp("later"), files("next"))


def written(folder: Path, given: dict[str, bytes]) -> Path:
    for name, data in given.items():
        (folder / name).write_bytes(data)
    return folder


def apply(world: Path, path: Path, *words: str) -> Result:
    return here("apply", path, *words, "--world", world)


def diverging(found: list[Any]) -> dict[str, tuple[str, str, str]]:
    return {each["cell"]["key"]: (each["path"], each["expected"], each["found"]) for each in found}


def statuses(world: Path) -> dict[str, str]:
    rows = here("flow", "list", "--json", "--world", world).json["flows"]
    return {row["key"]: row["status"] for row in rows}


def settle_all(world: Path) -> None:
    """Answer each step in progress, and let the flows run."""
    for row in here("inspect", "intents", "--json", "--world", world).json["intents"]:
        if row["flow"]["role"] is None:
            answer = ("--ok", '{"note": "done"}')
            here("effects", "settle", row["intent"], *answer, "--world", world)
    in_silence("run", "--until-waiting", "--world", world)


def test_an_apply_that_would_stop_flows_is_refused_and_names_them(world: Path, later: Path) -> None:
    """C-21a"""
    before = here("inspect", "world", "--json", "--world", world).json["journal"]["records"]
    found = apply(world, later, "--json")
    after = here("inspect", "world", "--json", "--world", world).json["journal"]["records"]

    assert found.code == 1, found
    flows = found.json["flows"]
    assert (flows["checked"], flows["go_on"]) == (5, 2)
    assert diverging(flows["diverge"]) == STOPPED
    assert found.json["refused"]["rule"] == "flows_diverge"
    assert (found.json["applied"], after) == (False, before)


def test_the_refusal_says_what_to_do(world: Path, later: Path) -> None:
    """C-21a"""
    found = apply(world, later)

    assert found.code == 1
    assert "2 flows in progress: they continue on the new version" in found.out
    assert "does not fit the history of 3 of 5 flows in progress" in found.err
    moved = 'at one the history has step "one" of t/do@1, the new code step "two" of t/do@1'
    assert f"{FLOW} moved: {moved}" in found.err
    for way in ("cx.version", "--mode pin", "--allow-diverged", "aos flow resume"):
        assert way in found.err


def test_the_gate_names_exactly_the_flows_that_then_diverge(world: Path, later: Path) -> None:
    """C-21a"""
    allowed = apply(world, later, "--allow-diverged", "--json")
    settle_all(world)

    assert (allowed.code, allowed.json["applied"]) == (0, True)
    found = statuses(world)
    assert {key for key, status in found.items() if status == "faulted"} == set(STOPPED)
    assert {found[key] for key in FITS} <= {"running", "sleeping", "completed"}


def test_a_dry_run_says_the_same_and_changes_nothing(world: Path, later: Path) -> None:
    """C-21a"""
    found = apply(world, later, "--dry-run", "--json")

    assert (found.code, found.json["applied"]) == (1, False)
    assert diverging(found.json["flows"]["diverge"]) == STOPPED


def test_an_apply_at_an_address_has_the_owner_try_the_flows(
    world: Path, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-8c, H-71c: the folder plays the owner."""
    modes: list[str] = []

    def tried(_: Path, loaded: Loaded, *, mode: str, leave_cells: bool) -> ApplyReport:
        modes.append(mode)
        options = {"mode": mode, "leave_cells": leave_cells, "show": 0}
        trial = run_trial(world, loaded.effective.document, loaded.modules, {"report": options})
        report = asyncio.run(trial)
        del report["leaves"]
        return report

    monkeypatch.setattr(addressed_world, "try_at_address", tried)
    monkeypatch.setattr(apply_target, "writing_to", lambda _: open_writer(world))
    monkeypatch.setattr(addressed_group, "group_at", lambda _: None)
    address = Path("nats://127.0.0.1/shop")
    for words in ((), ("--dry-run",)):
        stopped = apply(address, later, "--json", *words)
        assert stopped.code == 1, stopped
        assert diverging(stopped.json["flows"]["diverge"]) == STOPPED
        assert (stopped.json["applied"], stopped.json["in_force"]) == (False, False)
    assert modes == ["strict", "strict"]

    applied = apply(address, later, "--json", "--allow-diverged")
    assert (applied.code, applied.json["applied"]) == (0, True), applied
    assert len(modes) == 2, "nothing is tried that does not matter"
    again = apply(address, later, "--json")
    assert (again.code, again.json["in_force"]) == (0, True), again


def test_code_that_pins_or_changes_nothing_is_not_tried(world: Path, tmp_path: Path) -> None:
    """C-21a"""
    (tmp_path / "quiet").mkdir()
    quiet = written(tmp_path / "quiet", files("next", in_place=False))
    pinned = apply(world, quiet, "--mode", "pin", "--json")
    (tmp_path / "same").mkdir()
    same = apply(world, written(tmp_path / "same", files("probe")), "--json")

    assert (pinned.code, pinned.json["applied"]) == (0, True)
    assert pinned.json["flows"] == same.json["flows"] == {"checked": 0, "go_on": 0, "diverge": []}


def test_a_candidate_is_tried_at_the_end_of_the_journal(world: Path, later: Path) -> None:
    """A-90"""
    found = here("replay", "--against", later, "--json", "--world", world)
    same = here("replay", "--against", f"flows={later / 'flows.wasm'}", "--world", world)

    assert found.code == 1
    assert (found.json["flows"]["checked"], found.json["flows"]["go_on"]) == (5, 2)
    assert diverging(found.json["flows"]["diverge"]) == STOPPED
    assert same.code == 0
    assert "5 flows in progress: the candidate fits the history of each" in same.out


def test_flows_that_are_over_or_stopped_are_not_tried(world: Path, later: Path) -> None:
    """C-21a"""
    for key in STOPPED:
        here("flow", "cancel", "probe", key, "--no-rollback", "--world", world)
    in_silence("run", "--until-waiting", "--world", world)
    found = apply(world, later, "--json")

    assert (found.code, found.json["applied"]) == (0, True), found
    assert found.json["flows"] == {"checked": 2, "go_on": 2, "diverge": []}


def test_a_flow_whose_code_diverged_is_cancelled_all_the_same(world: Path, later: Path) -> None:
    """C-72a"""
    apply(world, later, "--allow-diverged")
    settle_all(world)
    stopped = here("flow", "show", "probe", "moved", "--json", "--world", world).json
    cancelled = here("flow", "cancel", "probe", "moved", "--json", "--world", world).json
    in_silence("run", "--until-waiting", "--world", world)
    found = here("flow", "show", "probe", "moved", "--json", "--world", world).json

    assert (stopped["status"], stopped["divergence"]["path"]) == ("faulted", "one")
    assert "aos flow resume t/probe@1 moved" in stopped["reasons"][0]["next"]
    assert [(each["path"], each["status"]) for each in cancelled["skipped"]] == [("one", "ok")]
    assert (found["status"], found["fault"]) == ("canceled", None)


def test_a_flow_whose_code_diverged_continues_with_code_that_fits(world: Path, later: Path) -> None:
    """C-73"""
    apply(world, later, "--allow-diverged")
    settle_all(world)
    with open_writer(world) as writer:
        writer.apply(load(files("probe"), check=check_module))
    resumed = here("flow", "resume", "probe", "moved", "--world", world)
    in_silence("run", "--until-waiting", "--world", world)
    found = here("flow", "show", "probe", "moved", "--json", "--world", world).json

    assert resumed.code == 0, resumed
    assert (found["status"], found["fault"]) == ("running", None)
    assert [(each["path"], each["state"]) for each in found["operations"]] == [
        ("one", "completed"), ("two", "running"),
    ]  # fmt: skip


def test_a_manifest_over_http_is_refused_as_on_the_command_line(world: Path, later: Path) -> None:
    """N-118b"""
    by_command = apply(world, later, "--dry-run", "--json").json["flows"]
    found = load(files("next"), check=check_module)
    body: dict[str, Any] = {
        "document": base64.b64encode(found.effective.document).decode(), "mode": "pin",
        "modules": [hash_text(each) for each in found.modules],
    }  # fmt: skip
    transport = httpx.HTTPTransport(uds=str(world / "node" / "http.sock"), verify=False)
    with (
        served(world, "--operator-key", world / "keys" / "operator.key"),
        httpx.Client(base_url="http://node", transport=transport, timeout=60) as owner,
    ):
        for wasm_ in found.modules.values():
            assert owner.post("/v1/modules", content=wasm_).status_code == 200
        before = owner.get("/v1/records", params={"limit": 1}).json()["records"][-1]["seq"]
        refused = owner.post("/v1/manifests", json=body)
        same = owner.get("/v1/records", params={"limit": 1}).json()["records"][-1]["seq"]
        applied = owner.post("/v1/manifests", json={**body, "allow_diverged": True})

    assert (refused.status_code, refused.json()["rule"]) == (409, "flows_diverge")
    assert diverging(refused.json()["blockers"]) == STOPPED == diverging(by_command["diverge"])
    assert f"of {len(STOPPED)} of {len(STOPPED) + len(FITS)} flows" in refused.json()["detail"]
    assert before == same
    assert applied.status_code == 200, applied.text


def test_a_manifest_is_applied_to_a_node_as_to_a_folder(
    world: Path, later: Path, tmp_path: Path
) -> None:
    """C-21, C-92, H-71b, N-118c: the same text, document and exit code, step by step."""
    twin = copied(world, tmp_path / "twin")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "m.air.json").write_text("[]")
    turns: list[tuple[Path, tuple[str, ...]]] = [
        (later, ("--dry-run",)),
        (later, ("--dry-run", "--json")),
        (later, ()),
        (later, ("--json",)),
        (later, ("--mode", "migrate", "--dry-run", "--show", "2")),
        (broken, ()),
        (later, ("--allow-diverged",)),
        (later, ("--allow-diverged",)),
        (later, ("--json", "--dry-run")),
    ]
    with served(twin, "--operator-key", twin / "keys" / "operator.key"):
        for path, words in turns:
            by_folder = here("apply", path, *words, "--world", world)
            by_node = here("apply", path, *words, "--node", twin)

            assert alike_by(by_node, f"--node {twin}") == alike_by(by_folder, f"--world {world}"), (
                words, by_node,
            )  # fmt: skip
    unsigned = copied(world, tmp_path / "unsigned")
    with served(unsigned):
        refused = here("apply", later, "--allow-diverged", "--node", unsigned)
    assert refused.code == 1
    assert "start it with --operator-key FILE" in refused.err
    away = here("apply", later, "--node", unsigned)
    assert away.code == 4


def alike_by(result: Result, place: str) -> tuple[int, str, str]:
    """A result without the numbers of records, and without the options that name the world."""
    code, *texts = alike(result)
    in_json = ", ".join(f'"{word}"' for word in place.split())
    out, err = (text.replace(place, "PLACE").replace(in_json, "PLACE") for text in texts)
    return code, re.sub(r"record record|record \d+", "record", out), err
