"""AIR 2 folders without hashes: which load, and how the others are refused (AG-2, AG-40)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from aos.host.apply.manifest_files import load_manifest_files
from aos.manifest.load import ManifestProblems, load
from aos.sandbox.inspect import check_module
from tests.agentos.world import files, guest, nodes

AIR = "air/all.air.json"


def changed(change: Any) -> dict[str, bytes]:
    found = nodes()
    change({node["name"]: node for node in found if "name" in node} | {"manifest": found[-1]})
    return files() | {AIR: json.dumps(found).encode()}


def told(given: dict[str, bytes]) -> str:
    with pytest.raises(ManifestProblems) as caught:
        load(given, check=check_module, abi="agentos")
    return str(caught.value)


def test_a_folder_loads_as_it_is() -> None:
    loaded = load(files(), check=check_module, abi="agentos")

    assert {each.abi for each in loaded.effective.modules.values()} == {"agentos"}


def test_the_abi_that_a_module_declares_wins() -> None:
    def say(by_name: Any) -> None:
        by_name["agentos/guest_wasm@1"]["abi"] = "aos/1"

    loaded = load(changed(say), check=check_module, abi="agentos")
    assert {each.abi for each in loaded.effective.modules.values()} == {"aos/1"}


def test_the_abi_is_part_of_the_manifest() -> None:
    """AG-1: a manifest whose modules declare aos/1, or no ABI, keeps its hash."""
    plain, said, other = (load(files(), abi=abi).effective for abi in (None, "aos/1", "agentos"))

    assert plain.document == said.document
    assert other.manifest_hash == plain.manifest_hash
    assert other.hash != plain.hash


@pytest.mark.parametrize(
    ("effect", "why"),
    [
        ("sys/governance.propose@1", "a workflow does not govern the manifest under which it runs"),
        ("sys/governance.apply@1", "a workflow does not govern the manifest under which it runs"),
        ("sys/telepathy.send@1", "this kernel has no such effect"),
    ],
)
def test_an_effect_that_is_not_here_is_refused(effect: str, why: str) -> None:
    """AG-40."""

    def emit(by_name: Any) -> None:
        by_name["agentos/case@1"]["effects_emitted"].append(effect)

    assert f"unknown effect {effect} ({why}" in told(changed(emit))


def test_a_module_of_their_kernel_is_refused() -> None:
    """AG-40."""

    def list_it(by_name: Any) -> None:
        by_name["manifest"]["modules"].append({"name": "sys/Http@1"})

    said = told(changed(list_it))
    assert "unknown module sys/Http@1 (built-in effects have no module here: leave it out)" in said


def test_a_hash_of_theirs_is_refused_with_what_to_do() -> None:
    """AG-40, M-3."""

    def hashed(by_name: Any) -> None:
        artifact = by_name["agentos/guest_wasm@1"]["runtime"]["artifact"]
        artifact["hash"] = "sha256:" + "0" * 64

    assert "leave the hash out and it is filled in" in told(changed(hashed))


@pytest.mark.parametrize(
    "schema",
    [
        "sys/PendingEffect@1",
        "sys/PendingEffectSetText@1",
        "sys/PendingBatchText@1",
        "sys/BytesOrSecretRef@1",
    ],
)
def test_schemas_of_their_sdk_are_there(schema: str) -> None:
    """AG-41."""

    def use(by_name: Any) -> None:
        by_name["agentos/CounterState@1"]["type"]["record"]["more"] = {"ref": schema}

    assert schema in load(changed(use), abi="agentos").effective.schemas


def with_module(name: str, data: bytes | None = None) -> dict[str, bytes]:
    """The folder with the module's file under another name."""
    found = files()
    wasm = found.pop("modules/agentos.guest_wasm@1.wasm")
    return {**found, name: wasm if data is None else data}


def test_a_module_file_may_have_its_sha256_in_its_name(tmp_path: Path) -> None:
    """AG-43."""
    own = hashlib.sha256(guest()).hexdigest()
    other = "0" * 64
    place = f"modules/agentos/guest_wasm@1-{own}.wasm"
    wrong = f"modules/agentos/guest_wasm@1-{other}.wasm"

    folder = tmp_path / "folder"
    for name, data in with_module(place).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    loaded = load_manifest_files(folder, abi="agentos")
    assert list(loaded.modules.values()) == [guest()]
    assert f"{wrong}: the SHA-256 of the file is {own}" in told(with_module(wrong))
    both = {**with_module(place), wrong: guest()}
    assert "2 files are builds of agentos/guest_wasm@1" in told(both)
    # A plain name comes first.
    assert load({**files(), wrong: b""}, abi="agentos").modules


def test_a_suffix_behind_the_version_goes_in_front_of_it() -> None:
    """AG-42: in every place that names the module."""
    text = json.dumps(nodes()).replace("agentos/guest_wasm@1", "agentos/Guest@1_wasm")
    folder = {"air/all.air.json": text.encode(), "modules/agentos.Guest@1_wasm.wasm": guest()}

    loaded = load(folder, abi="agentos").effective
    assert set(loaded.modules) == {"agentos/Guest_wasm@1"}
    assert all(each.module.name == "agentos/Guest_wasm@1" for each in loaded.workflows.values())
    with pytest.raises(ManifestProblems, match=r"agentos/Guest@1_wasm"):
        load(folder)
