"""An operator without a folder has the process of a world try a manifest (spec/host.md, H-71c)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import PIN
from aos.core.journal.records import Principal
from aos.errors import AosError, BadUsage, Refused
from aos.host.apply.dry_run import dry_run_of
from aos.host.apply.manifest_trial import ManifestTrial
from aos.host.door import trial_requests
from aos.host.door.trial_requests import TrialRequests
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.manifest.load import Loaded
from tests.host.puppet import PUPPET, do
from tests.host.test_process import send
from tests.host.upgrades import version

OTHER_KEY = SigningKey(b"o" * 32)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with an event that no process has taken."""
    path = tmp_path_factory.mktemp("tried") / "world"
    init_world(path)
    with open_writer(path) as writer:
        assert isinstance(writer.apply(version(1)).answer, Admitted)
    send(path, do("waits"))
    return path


class TriedWorld:
    """A world as an operator without its folder knows it, and its process."""

    def __init__(self, path: Path) -> None:
        with open_writer(path) as writer:
            signed_state = writer.signed_state()
        self.serial, self.operators = signed_state.serial, signed_state.operators
        self.id, self.key = signed_state.world, open_folder(path).operator_key()
        self.requests = TrialRequests(path, self.id, self.operators)

    def trial(self, loaded: Loaded, **options: Any) -> ManifestTrial:
        trial = ManifestTrial(document=loaded.effective.document, **options)
        return trial.signed(self.id, self.serial, self.operators, self.key)

    def ask(self, fields: dict[str, Any], loaded: Loaded) -> dict[str, Any]:
        answering = self.requests.answer(fields, loaded.modules, self.serial)
        answer = asyncio.run(answering)
        report: dict[str, Any] = json.loads(answer["report"])  # type: ignore[arg-type]  # bytes
        return report

    def refusal(self, fields: dict[str, Any]) -> AosError:
        with pytest.raises(AosError) as refused:
            self.ask(fields, version(2))
        return refused.value


def fields_of(trial: ManifestTrial) -> dict[str, Any]:
    names = ("document", "mode", "leave_cells", "principal", "serial", "signature")
    return {"op": "try", **{name: getattr(trial, name) for name in names}}


def test_the_report_is_that_of_a_dry_run_in_the_folder(world: Path) -> None:
    tried, loaded = TriedWorld(world), version(2)
    with open_reader(world) as reader:
        before = reader.seq
    report = tried.ask(fields_of(tried.trial(loaded)), loaded)
    expected = dry_run_of(world, loaded)
    assert len(report["blockers"]) == len(expected.blockers) > 0
    assert {group["workflow"] for group in report["groups"]} == {PUPPET}
    assert (report["applied"], report["in_force"], report["leaves"]) == (False, False, [])
    pinned = tried.ask(fields_of(tried.trial(loaded, mode=PIN)), loaded)
    assert (pinned["blockers"], pinned["refused"]) == ([], None)
    unsigned = tried.ask({"document": loaded.effective.document}, loaded)
    assert unsigned == report, "of a client of the socket"
    with open_reader(world) as reader:
        assert reader.seq == before


def test_a_trial_that_no_operator_has_signed_is_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any process is started."""

    def run(*_: object, **__: object) -> None:
        raise AssertionError("a trial runs")

    monkeypatch.setattr(trial_requests, "run_trial", run)
    tried, loaded = TriedWorld(world), version(2)
    trial = tried.trial(loaded)
    stranger = Principal("operator", bytes(OTHER_KEY.verify_key))
    forged = replace(trial).signed(tried.id, tried.serial, [stranger], OTHER_KEY)
    for other in (
        forged,
        replace(trial, mode=PIN),
        replace(trial, leave_cells=True),
        replace(trial, document=version(3).effective.document),
        replace(trial, serial=trial.serial + 1),
        replace(trial, principal="nix"),
        replace(trial, signature=b""),
        trial.signed(tried.id, tried.serial + 1, tried.operators, tried.key),
    ):
        assert "not signed by an operator" in str(tried.refusal(fields_of(other)))
    half = {"document": trial.document, "serial": trial.serial}
    assert "not signed by an operator" in str(tried.refusal(half))
    with pytest.raises(Refused, match="try a manifest on"):
        trial.signed(tried.id, 0, tried.operators, OTHER_KEY)


def test_malformed_requests_and_manifests_are_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, document = TriedWorld(world), version(2).effective.document
    for fields, text in (
        ({}, "document"),
        ({"document": "text"}, "document: expected bytes"),
        ({"document": document, "mode": "often"}, "mode: expected"),
        ({"document": document, "leave_cells": 1}, "leave_cells: expected bool"),
    ):
        refused = tried.refusal(fields)
        assert isinstance(refused, BadUsage)
        assert text in str(refused)
    assert isinstance(tried.refusal({"document": b"none"}), Refused)
    without = TrialRequests(None, tried.id, tried.operators)
    with pytest.raises(BadUsage, match="tries no manifest"):
        asyncio.run(without.answer({"document": document}, {}, tried.serial))
    monkeypatch.setattr(trial_requests, "REPORT_BYTES_MAX", 10)
    assert "too long" in str(tried.refusal({"document": document}))

    async def run(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(trial_requests, "run_trial", run)
    assert "was not tried within" in str(tried.refusal({"document": document}))
