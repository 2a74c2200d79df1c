"""``sys/Workspace@1`` comes into a manifest by itself (AG-54)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.errors import Damage
from aos.manifest.difference import difference
from aos.manifest.judging import judge
from aos.manifest.load import Loaded, ManifestProblems, load, needed_files
from aos.manifest.packages import IMPLIED, PACKAGES, package
from aos.manifest.patching import apply_patch, patch_between
from aos.sandbox.inspect import check_module
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash
from aos.worker.load_executors import load as load_executors
from aos.worker.shipped import SHIPPED
from tests.effects.workspace.editor_world import COMMIT, TREE_EFFECTS, WORKSPACE, files, nodes
from tests.modules.guests import MODULES

MODULE: Final = "aos/workspace.module@1"
AIR: Final = "m.air.json"
Change = Callable[[dict[str, Any], list[Any]], None]


def loaded(change: Change = lambda _manifest, _nodes: None, **options: Any) -> Loaded:
    """The world of editors, with a change to its manifest node or its nodes."""
    found = nodes()
    change(found[-1], found)
    return load(files() | {AIR: json.dumps(found).encode()}, check=check_module, **options)


def without_routes(manifest: dict[str, Any], _: list[Any]) -> None:
    routes = manifest["routing"]["subscriptions"]
    routes[:] = [each for each in routes if each.get("workflow") != WORKSPACE]


def listed(manifest: dict[str, Any], _: list[Any]) -> None:
    manifest["workflows"].append({"name": WORKSPACE})


def test_a_route_to_it_is_enough() -> None:
    """AG-54: the manifest has the workflow and its module, as if they were the author's own."""
    effective = loaded().effective

    workflow = effective.workflows[WORKSPACE]
    assert (workflow.state.name, workflow.event.name) == ("sys/WorkspaceHistory@1", COMMIT)
    assert workflow.key is not None
    assert workflow.key.name == "sys/WorkspaceName@1"
    assert workflow.effects_emitted == frozenset()
    wasm = (MODULES / "workspace" / "workspace.wasm").read_bytes()
    assert effective.modules[MODULE].hash == content_hash(wasm)
    assert [each.workflow for each in effective.routes(COMMIT)] == [WORKSPACE]
    assert loaded().modules[content_hash(wasm)] == wasm


def test_it_may_also_be_listed() -> None:
    """AG-54: the manifest is the same; AIR 2 calls the target ``op`` too."""

    def routed_by_op(manifest: dict[str, Any], _: list[Any]) -> None:
        for route in manifest["routing"]["subscriptions"]:
            route["op"] = route.pop("workflow")

    def only_listed(manifest: dict[str, Any], found: list[Any]) -> None:
        without_routes(manifest, found)
        listed(manifest, found)

    plain = loaded().effective
    assert loaded(listed).effective == plain
    assert loaded(routed_by_op).effective == plain
    assert WORKSPACE in loaded(only_listed).effective.workflows


def test_its_abi_is_its_own() -> None:
    """AG-2, AG-54: ``--abi agentos`` is for the modules of the folder."""
    assert loaded(abi="agentos").effective.modules[MODULE].abi == "aos/1"


def test_a_manifest_that_does_not_name_it_does_not_have_it() -> None:
    """AG-54: and keeps its bytes."""
    effective = loaded(without_routes).effective

    assert WORKSPACE not in effective.workflows
    assert MODULE not in effective.modules


def test_the_files_of_a_folder_need_not_have_its_module() -> None:
    """AG-54."""
    assert needed_files({AIR: files()[AIR]}) == {"p.wasm"}


def test_a_folder_cannot_define_it() -> None:
    """M-11: and so not in another way either."""
    definition = next(each for each in package(WORKSPACE).definitions if "state" in each)

    with pytest.raises(ManifestProblems, match="sys/Workspace@1 cannot be defined"):
        loaded(lambda _, found: found.append(dict(definition)))


def test_another_workflow_of_this_namespace_is_unknown() -> None:
    """AG-54: it is the only one."""

    def route(manifest: dict[str, Any], _: list[Any]) -> None:
        manifest["routing"]["subscriptions"][0]["workflow"] = "sys/Workspace@2"

    with pytest.raises(ManifestProblems, match="unknown workflow sys/Workspace@2"):
        loaded(route)


def test_its_document_is_read_back() -> None:
    """M-44: and one with another workflow of this namespace is not."""
    effective = loaded().effective
    assert judge(effective.document) == effective

    document: Any = decode_record(effective.document)
    for node in document["definitions"]:
        if node["name"] == WORKSPACE:
            node["name"] = "sys/Other@1"
    with pytest.raises(Damage):
        judge(encode(document))


def test_a_patch_adds_and_removes_it() -> None:
    """GV-14: as any other definition, because it has a module that runs."""
    without, with_it = loaded(without_routes).effective, loaded().effective

    for old, new in ((without, with_it), (with_it, without)):
        assert apply_patch(old, patch_between(old, new)) == new
    names = {each.name for each in difference(without, with_it).definitions}
    assert names == {WORKSPACE, MODULE, "aos/WorkspaceAnswer@1"}


def test_a_package_is_not_named_by_uses() -> None:
    """M-65."""

    def use(manifest: dict[str, Any], _: list[Any]) -> None:
        manifest["uses"] = [WORKSPACE]

    assert IMPLIED.keys().isdisjoint(PACKAGES)
    with pytest.raises(ManifestProblems, match="unknown package sys/Workspace@1"):
        loaded(use)


def test_the_executors_run_every_effect_on_trees_but_the_kernels_own() -> None:
    """AG-50."""
    found = load_executors(SHIPPED["sys/workspace."])

    assert {*found.effects, "sys/workspace.resolve@1"} == set(TREE_EFFECTS)
