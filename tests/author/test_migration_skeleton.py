"""`aos build --migration` (spec/authoring.md, AU-90 to AU-95): the comparison, the files, the
refusals. The compilers here are fakes; tests/author/test_real_migration.py has the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aos.author import migration_skeleton
from aos.author.migration_plan import Plan, file_stem, named_workflow, plan
from aos.author.migration_rust import rust_text, rust_types
from aos.author.migration_skeleton import script_text, write_files
from aos.author.project import Project
from aos.errors import BadUsage, Refused, Unavailable
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.store.part_file import write_file
from tests.author import fakes
from tests.cli.shell import Aos
from tests.host import puppet
from tests.memory_world import schema

Nodes = list[dict[str, Any]]
Schemas = tuple[tuple[str, object], ...]
TEXT: Final[dict[str, object]] = {"text": {}}
NAT: Final[dict[str, object]] = {"nat": {}}
PENDING: Final = {"option": TEXT, "$comment": "pending host/echo@1"}


def manifest(*states: tuple[str, object], **more: object) -> tuple[Effective, Nodes]:
    """The puppet's manifest, whose state is the last of these schemas."""
    files = puppet.files()
    nodes = json.loads(files["m.air.json"])
    names = [name for name, _ in states]
    nodes += [schema(name, type_) for name, type_ in states]
    for node in nodes:
        if node["$kind"] == "defworkflow":
            node |= {"state": names[-1], **more}
        if node["$kind"] == "manifest":
            node["schemas"] += [{"name": name} for name in names]
    data = json.dumps(nodes).encode()
    return load({"m.air.json": data, "p.wasm": files["p.wasm"]}).effective, nodes


def planned(old: Schemas, new: Schemas) -> Plan:
    before, _ = manifest(*old)
    after, nodes = manifest(*new)
    types = {node["name"]: node["type"] for node in nodes if node["$kind"] == "defschema"}
    return plan(before, after, types, puppet.PUPPET)


def of_records(old: object, new: object) -> Plan:
    return planned((("x/S@1", {"record": old}),), (("x/S@2", {"record": new}),))


def test_a_field_that_is_written_alike_is_copied_and_all_others_are_left_to_the_author() -> None:
    found = of_records(
        {"same": NAT, "other": NAT, "gone": NAT, "inline": {"list": {"record": {"a": NAT}}}},
        {"same": NAT, "other": TEXT, "new": NAT, "inline": {"list": {"record": {"a": NAT}}}},
    )

    assert found.fields is not None
    assert {each.name: each.problem for each in found.fields} == {
        "same": None,
        "other": "todo: other has another type in x/S@2: convert the old other",
        "new": "todo: new is new in x/S@2: give the value that stored states get",
        "inline": "todo: inline has a type without a name: convert the old inline",
    }
    assert found.dropped == ("gone",)


def test_a_handle_stays_a_handle_though_the_manifest_in_force_has_no_comments() -> None:
    found = of_records({"call": PENDING, "n": NAT}, {"call": PENDING, "n": TEXT})
    assert found.old["record"]["call"] == PENDING


def test_a_schema_inside_that_has_changed_is_written_out_in_the_old_state() -> None:
    way: object = {"variant": {"Post": {"unit": {}}}}
    kept = ("x/Kept@1", {"record": {"k": NAT}})
    changed = ("x/Way@1", {"variant": {"Post": {"unit": {}}, "Foot": NAT}})
    of = {"way": {"ref": "x/Way@1"}, "kept": {"ref": "x/Kept@1"}}
    found = planned(
        (("x/Way@1", way), kept, ("x/S@1", {"record": of})),
        (changed, kept, ("x/S@2", {"record": of})),
    )

    assert found.old == {"record": {"way": way, "kept": {"ref": "x/Kept@1"}}}
    assert found.fields is not None
    assert {each.name for each in found.fields if each.problem} == {"way"}


def test_states_that_are_no_records_are_left_to_the_author_as_a_whole() -> None:
    found = planned((("x/S@1", NAT),), (("x/S@2", {"list": NAT}),))
    assert (found.fields, found.old) == (None, NAT)
    assert found.todo == "todo: make the x/S@2 that takes the place of this x/S@1"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ((("x/S@1", NAT),), (("x/S@1", TEXT),), "expected another name, such as x/S@2"),
        ((("x/S@1", NAT),), (("x/S@2", NAT),), "fit x/S@2: they need no migration"),
        (
            (("x/S@1", {"record": {"a": NAT}}),),
            (("x/S@2", {"record": {"a": NAT, "b": {"option": NAT}}}),),
            "fit x/S@2: they need no migration",
        ),
        (
            (("x/S@1", NAT),),
            (("x/S@1", {"bool": {}}), ("x/S@2", TEXT)),
            "x/S@1 has another definition in this project than in the manifest in force",
        ),
    ],
)
def test_a_state_that_cannot_or_need_not_be_migrated_is_refused(
    old: Schemas, new: Schemas, said: str
) -> None:
    """AU-91"""
    with pytest.raises(Refused) as refused:
        planned(old, new)
    assert said in str(refused.value)


def test_a_new_workflow_and_one_that_declares_its_migration_are_refused() -> None:
    """AU-91"""
    before, _ = manifest(("x/S@1", NAT))
    with pytest.raises(Refused, match="is not in the manifest in force: it has no states"):
        plan(without_workflows(), before, {}, puppet.PUPPET)
    after, nodes = manifest(("x/S@2", TEXT), migrate={"from": "x/S@1", "entrypoint": "step"})
    types = {node["name"]: node["type"] for node in nodes if node["$kind"] == "defschema"}
    with pytest.raises(Refused, match="declares a migration from x/S@1 already, by step"):
        plan(before, after, types, puppet.PUPPET)


def without_workflows() -> Effective:
    nodes: Nodes = [{"$kind": "manifest", "air_version": "2", "schemas": [], "modules": [],
                     "workflows": [], "effects": []}]  # fmt: skip
    return load({"m.air.json": json.dumps(nodes).encode()}).effective


def test_a_workflow_may_be_named_in_short() -> None:
    names = ["a/x.y@1", "b/x@1", "b/z@2"]
    assert [named_workflow(word, names) for word in ("z", "b/x", "x.y")] == [
        "b/z@2", "b/x@1", "a/x.y@1",
    ]  # fmt: skip
    assert file_stem("a/x.y@1") == "migration_x_y"
    with pytest.raises(BadUsage, match=r"'q' is the name of no workflow .*a/x.y@1, b/x@1, b/z@2"):
        named_workflow("q", names)


def test_the_rust_types_of_a_crate_are_found_by_their_attributes(tmp_path: Path) -> None:
    (tmp_path / "src/state").mkdir(parents=True)
    (tmp_path / "src/lib.rs").write_text(
        '#[derive(Schema)]\n#[schema("x/A@1")]\n/// Doc.\n#[derive(Clone)]\npub struct A {'
    )
    (tmp_path / "src/state/mod.rs").write_text('#[schema("x/B@1")] pub(crate) enum B {')
    (tmp_path / "src/state/deep.rs").write_text(
        '#[effect("x/c@1", receipt = A, retry(attempts = 3))]\nstruct C;'
    )

    types = rust_types(tmp_path)
    assert (types["x/A@1"], types["x/B@1"], types["x/c@1"]) == (
        "crate::A", "crate::state::B", "crate::state::deep::C",
    )  # fmt: skip


def test_the_rust_text_declares_the_types_that_the_crate_does_not_have() -> None:
    """AU-93"""
    found = of_records(
        {
            "a": {"option": NAT},
            "type": {"map": {"key": TEXT, "value": {"variant": {"On": NAT, "Off": {"unit": {}}}}}},
            "call": PENDING,
            "calls": {"map": {"key": TEXT, "value": TEXT}},
        },
        {
            "a": {"option": NAT},
            "type": TEXT,
            "call": PENDING,
            "calls": {"map": {"key": TEXT, "value": TEXT}, "$comment": "pending set host/echo@1"},
        },
    )
    text = rust_text(found, {"x/S@2": "crate::S", "host/echo@1": "crate::Echo"})

    assert (
        '#[derive(Schema)]\n#[schema("x/S@1")]\npub struct SV1 {\n    pub a: Option<u64>,\n'
    ) in text
    assert '    #[schema(rename = "type")]\n    pub type_: Map<String, SV1Type>,\n' in text
    assert "#[derive(Schema)]\npub enum SV1Type {\n" in text
    assert "    On(u64),\n" in text
    assert "    Off,\n" in text
    assert "pub call: Pending<crate::Echo>," in text
    assert "pub calls: PendingSet<String, crate::Echo>," in text
    assert "pub fn migrate_puppet(old: SV1) -> Result<crate::S, Fault> {" in text
    assert "        call: old.call,\n" in text
    assert text.count('compile_error!("todo: ') == 1
    without = rust_text(found, {"x/S@2": "crate::S"})
    assert 'call: compile_error!("todo: call has a type without a name' in without


def test_the_text_in_assemblyscript_copies_and_leaves_errors() -> None:
    """AU-94"""
    old, new = {"n": NAT, "m": NAT, "gone": NAT}, {"n": NAT, "m": TEXT}
    found = of_records(old, new)
    _, nodes = manifest(
        ("x/S@1", found.old), ("x/S@2", {"record": new}),
        migrate={"from": "x/S@1", "entrypoint": "migratePuppet"},
    )  # fmt: skip
    text = script_text(found, nodes)

    assert 'import { PuppetMigration, S, SV2 } from "./generated";\n' in text
    assert "    // gone of the old state is in no field of the new one.\n" in text
    assert "    made.n = old.n;\n" in text
    assert '    ERROR("todo: m has another type in x/S@2: convert the old m");' in text
    assert "export function migratePuppet(pointer: i32, length: i32): u64 {\n" in text


def test_of_two_files_both_are_written_or_none(tmp_path: Path) -> None:
    """AU-95"""
    (tmp_path / "one").touch()
    with pytest.raises(Refused, match="one exists already"):
        write_files(tmp_path, {"two": "2", "one": "1"})
    with pytest.raises(Unavailable, match="none/three"):
        write_files(tmp_path, {"two": "2", "none/three": "3"})
    assert [each.name for each in tmp_path.iterdir()] == ["one"]


def test_a_kill_between_two_files_does_not_block_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-95, ST-85: each file is whole or not there, and one that is there counts as written."""
    written: list[Path] = []

    def killed(file: Path, data: bytes, *, mode: int) -> None:
        if written:
            raise KeyboardInterrupt
        write_file(file, data, mode=mode)
        written.append(file)

    files = {"one": "1", "two": "2"}
    with monkeypatch.context() as patched:
        patched.setattr(migration_skeleton, "write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            write_files(tmp_path, files)
    assert written == [tmp_path / "one"]
    write_files(tmp_path, files)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == files


# The command


@pytest.fixture
def ahead(project: Project, tmp_path: Path) -> Path:
    """A project whose state is a list now; the manifest in force, with numbers, is next to it."""
    before = tmp_path / "before"
    before.mkdir()
    for name, data in puppet.files().items():
        (before / name).write_bytes(data)
    nodes = fakes.nodes()
    for node in nodes:
        if node.get("name") == "host/Count@1":
            node |= {"name": "host/Count@2", "type": {"list": NAT}}
        if node["$kind"] == "defworkflow":
            node["state"] = "host/Count@2"
    (project.folder / "src/lib.rs").write_text(fakes.source(nodes))
    (project.folder / "src/state.rs").write_text('#[schema("host/Count@2")]\npub struct Count;')
    return before


def test_the_command_writes_the_file_once_and_says_what_to_do(
    aos: Aos, project: Project, ahead: Path
) -> None:
    """C-61a, AU-93, AU-95: nothing is overwritten."""
    ran = aos("build", project.folder, "--migration", "puppet", "--from", ahead)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "host/puppet@1: from host/Count@1 to host/Count@2\n"
        "wrote src/migration_puppet.rs\n"
        "  1. src/migration_puppet.rs: todo: make the host/Count@2 that takes the place of this "
        "host/Count@1\n"
        "  2. in src/lib.rs: mod migration_puppet;\n"
        "  3. in the module of the workflow: "
        "use crate::migration_puppet::{migrate_puppet, CountV1};\n"
        "  4. in #[workflow] of host/puppet@1: migrate(from = CountV1, by = migrate_puppet)\n"
        "then run aos build, and aos apply --mode migrate\n"
    )
    text = (project.folder / "src/migration_puppet.rs").read_text()
    assert "pub struct CountV1(pub u64);" in text
    assert "pub fn migrate_puppet(old: CountV1) -> Result<crate::state::Count, Fault> {" in text

    refused = aos("build", project.folder, "--migration", "puppet", "--from", ahead)
    assert (refused.code, "src/migration_puppet.rs exists already" in refused.err) == (1, True)
    assert (project.folder / "src/migration_puppet.rs").read_text() == text

    unknown = aos("build", project.folder, "--migration", "none", "--from", ahead)
    assert (unknown.code, "'none' is the name of no workflow" in unknown.err) == (2, True)

    (project.folder / "src/state.rs").unlink()
    lost = aos("build", project.folder, "--migration", "puppet", "--from", ahead)
    assert lost.code == 1
    assert 'expected #[schema("host/Count@2")] on a struct or enum' in lost.err


def test_the_manifest_in_force_is_that_of_a_world(
    aos: Aos, project: Project, ahead: Path, tmp_path: Path
) -> None:
    """C-61a: of the named one, else of the project's scratch world."""
    words = ("build", project.folder, "--migration", "puppet", "--json")
    ran = aos(*words)
    assert (ran.code, "shop has no scratch world" in ran.err) == (2, True)

    world = tmp_path / "world"
    assert aos("init", world).code == 0
    ran = aos(*words, "--world", world)
    assert (ran.code, "no manifest was ever applied to this world" in ran.err) == (2, True)

    assert aos("apply", ahead, "--world", world).code == 0
    document = aos(*words, "--world", world).json
    assert (document["from"], document["to"]) == ("host/Count@1", "host/Count@2")
    assert document["files"] == ["src/migration_puppet.rs"]
    assert document["entry"] == {
        "migrate": {"from": "host/Count@1", "entrypoint": "migrate_puppet"}
    }
    assert [len(document["todos"]), len(document["next_steps"])] == [1, 3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "x"), "--from: expected --migration with it"),
        (("--migration", "puppet", "--check"), "expected one of them"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    aos: Aos, project: Project, words: tuple[str, ...], said: str
) -> None:
    ran = aos("build", project.folder, *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_a_refused_apply_names_the_command(
    aos: Aos, project: Project, ahead: Path, tmp_path: Path
) -> None:
    """C-21, H-71a"""
    world = tmp_path / "world"
    assert aos("init", world).code == 0
    assert aos("apply", ahead, "--world", world).code == 0
    assert aos("send", fakes.DO, '{"key": "ada"}', "--world", world).code == 0
    assert aos("run", "--until-idle", "--world", world).code == 0
    assert aos("build", project.folder).code == 0

    ran = aos("apply", project.folder, "--world", world)
    command = f"aos build {project.folder} --migration {fakes.PUPPET} --world {world}"
    assert ran.code == 1
    assert (
        f"to convert the stored states of {fakes.PUPPET}: {command}  (writes the skeleton of a "
        "migration; complete it, build, and apply with --mode migrate)\n"
    ) in ran.err
    ways = aos("apply", project.folder, "--world", world, "--json").json["ways_out"]
    assert ways["migrations"] == [{"workflow": fakes.PUPPET, "command": command.split()}]
    assert ways["to_migrate"] == [fakes.PUPPET]

    assert aos(*command.split()[1:]).code == 0
