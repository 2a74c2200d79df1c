"""aos build of a project in Python: no compiler runs, and all problems have their lines (AU-63 to
AU-68)."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aos.author import interpreter
from aos.author.build import build, check
from aos.author.build_record import Watch, read_record, refuse_stale_build, stale_because
from aos.author.errors import BuildFailed
from aos.author.interpreter import interpreter_file
from aos.author.prepared_program import Interpreter
from aos.author.project import Project
from aos.author.sections import take_sections
from aos.author.toolchain import Console
from aos.errors import Refused, Unavailable
from aos.host.apply.manifest_files import load_manifest_files
from aos.sandbox.cache import ModuleCache, standard_cache
from aos.sandbox.config import LIVE_STACK_BYTES, fingerprint
from aos.sandbox.engine import Sandbox
from aos.sandbox.module import constants, outline
from aos.sandbox.program_module import program_module
from aos.sandbox.trial import trial_problem
from aos.values.cbor import decode_record
from aos.values.digests import content_hash, hash_text
from tests.author import python_project
from tests.author.python_project import FLOW
from tests.cli.shell import Aos
from tests.own_cache import use_own_cache

QUIET = Console(report=lambda _: None)


@pytest.fixture(autouse=True)
def without_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program can be found, and no module be compiled."""

    def no_trial(*_: object, **__: object) -> None:
        pytest.fail("the build compiles a module")

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("aos.author.build.trial_problem", no_trial)


@pytest.fixture
def python(tmp_path: Path) -> Project:
    return python_project.project(tmp_path / "shop")


def nodes(project: Project) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(
        (project.folder / "air/generated.air.json").read_bytes()
    )
    return made


def test_a_build_makes_the_module_and_the_air_that_apply_takes(python: Project) -> None:
    """AU-63, AU-64"""
    built = build(python, console=QUIET)

    wasm = (python.folder / "build/shop.wasm").read_bytes()
    assert built.modules[0].wasm == wasm
    assert FLOW.encode() in constants(wasm)
    assert FLOW.encode() not in interpreter_file().read_bytes()
    assert take_sections(wasm, "aos.air").data == ()
    assert "step" in outline(wasm).exports
    loaded = load_manifest_files(python.folder)
    assert loaded.effective.hash == built.loaded.effective.hash
    assert list(loaded.effective.workflows) == ["shop/order@1"]
    assert loaded.effective.effects["shop/charge@1"].executor == "shop"
    [module] = [node for node in nodes(python) if node["$kind"] == "defmodule"]
    assert module["name"] == "shop/shop.module@1"
    assert module["runtime"]["artifact"]["path"] == "../build/shop.wasm"
    [manifest] = [node for node in nodes(python) if node["$kind"] == "manifest"]
    assert {"event": "shop/Order@1", "workflow": "shop/order@1", "key_field": "order_id"} in (
        manifest["routing"]["subscriptions"]
    )


def test_the_bytes_depend_on_the_sources_alone(python: Project, tmp_path: Path) -> None:
    """AU-6, AU-65: neither on the place, nor on the kind of line ends."""
    other = python_project.project(tmp_path / "elsewhere", flow=FLOW.replace("\n", "\r\n"))

    assert build(python, console=QUIET).modules == build(other, console=QUIET).modules


def test_the_first_build_compiles_the_interpreter_and_says_so_before(
    python: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-65: into the user's cache, for all later builds; without a cache each build does it."""
    shared = standard_cache(outside=None)
    reported: list[str] = []
    console = Console(report=reported.append)

    def compile_into(wasm: bytes, *, cache: ModuleCache) -> str | None:
        """Take the code from the cache of this run, which may have it."""
        reported.append("it is compiled")
        problem = trial_problem(wasm, cache=shared)
        assert shared is not None
        code = shared.get(content_hash(wasm), engine)
        assert code is not None
        cache.put(content_hash(wasm), engine, code)
        return problem

    engine = fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)
    monkeypatch.setattr("aos.author.prepared_program.trial_problem", compile_into)
    use_own_cache(monkeypatch, tmp_path / "cache")
    built = build(python, console=console)
    assert [line.partition(" on ")[0] for line in reported] == [
        "compiling the interpreter of Python",
        "it is compiled",
    ]

    build(python, console=console)
    build(python_project.project(tmp_path / "other"), console=console)
    assert len(reported) == 2

    monkeypatch.setattr(
        "aos.author.prepared_program.Sandbox", lambda load, **_: Sandbox(load, cache=shared)
    )
    use_own_cache(monkeypatch, None)
    without_cache = build(python_project.project(tmp_path / "without"), console=console)
    assert reported[2:] == [reported[0].partition(";")[0]]
    assert without_cache.modules[0].wasm == built.modules[0].wasm


def test_a_turn_takes_the_program_as_the_build_has_prepared_it(python: Project) -> None:
    """PY-15"""
    parts = program_module(build(python, console=QUIET).modules[0].wasm)
    assert parts is not None
    program: Any = decode_record(parts.program)
    prepared = program.pop("prepared")

    interpreter = Interpreter(parts.interpreter, standard_cache(outside=None), print)
    with closing(interpreter):
        assert interpreter.prepared(program) == prepared
        changed = {**program, "source": f"{program['source']}\nLIMIT = 5\n"}
        assert interpreter.prepared(changed) != prepared
        with pytest.raises(BuildFailed, match=r'File "flow.py", line 1[^$]*SyntaxError'):
            interpreter.prepared({**program, "source": "x = = 1\n"})
        with pytest.raises(BuildFailed, match=r"the program in the module: .* build it again"):
            interpreter.prepared({"source": 1})


def test_a_program_that_is_too_large_with_its_prepared_form_goes_without_it(
    python: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-15, S-10"""
    monkeypatch.setattr(
        "aos.author.interpreter.MODULE_BYTES_MAX", len(interpreter_file().read_bytes()) + 8_000
    )

    parts = program_module(build(python, console=QUIET).modules[0].wasm)

    assert parts is not None
    program: Any = decode_record(parts.program)
    assert "source" in program
    assert "prepared" not in program


def test_the_source_makes_a_build_stale_and_effects_do_not(python: Project) -> None:
    """AU-9, AU-66"""
    build(python, console=QUIET)
    assert stale_because(python) is None

    (python.folder / "effects.py").write_text("# other effects\n")
    (python.folder / "helper.py").write_text("")
    assert stale_because(python) is None

    (python.folder / "flow.py").write_text(FLOW + "\n\nLIMIT = 5\n")
    assert stale_because(python) == "flow.py changed since the last build"
    with pytest.raises(Refused, match=r"the build of shop is stale: flow\.py changed"):
        refuse_stale_build(python)
    (python.folder / "flow.py").unlink()
    assert stale_because(python) == "flow.py changed since the last build"


def test_a_changed_source_is_a_change_of_the_build_and_not_of_the_executors(
    tmp_path: Path,
) -> None:
    """AU-80: also of a source in a folder that is not watched otherwise."""
    project = python_project.project(
        tmp_path / "shop", more='[modules.shop]\nsource = "tests/flow.py"\n'
    )
    source = project.folder / "tests/flow.py"
    source.parent.mkdir()
    source.write_text(FLOW)
    watch = Watch(project)

    source.write_text(FLOW + "\n")
    (project.folder / "effects.py").write_text("# other effects\n")
    assert watch.changes() is None, "files may still change"
    changes = watch.changes()

    assert changes is not None
    assert (changes.sources, changes.effects) == (("tests/flow.py",), ("effects.py",))


def test_a_check_compares_and_writes_nothing(python: Project, aos: Aos) -> None:
    """AU-7"""
    assert aos("build", python.folder).code == 0
    assert aos("build", python.folder, "--check").code == 0
    before = (python.folder / "build/shop.wasm").read_bytes()

    (python.folder / "flow.py").write_text(FLOW.replace("order_id", "id"))
    differing = aos("build", python.folder, "--check")

    assert differing.code == 1
    assert '-    "type": {"record": {"order_id": {"text": {}}' in differing.out
    assert "air/generated.air.json, build/compiler.json, build/shop.wasm: not what" in differing.err
    assert (python.folder / "build/shop.wasm").read_bytes() == before


def test_modules_of_another_interpreter_are_not_compared(
    python: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-7, AU-67: another release of aos may have another interpreter."""
    build(python, console=QUIET)
    other = tmp_path / "other.wasm"
    named = b"\x04note"
    other.write_bytes(interpreter_file().read_bytes() + b"\x00" + bytes([len(named)]) + named)
    take_code_of_the_other(python, other)
    monkeypatch.setattr(interpreter, "interpreter_file", lambda: other)

    checked = check(python, console=QUIET)

    assert (checked.by_another, checked.differing) == (True, ())
    record = read_record(python)
    assert record is not None
    assert record.compiler == {
        "interpreter": hash_text(content_hash(interpreter_file().read_bytes()))
    }


def take_code_of_the_other(project: Project, other: Path) -> None:
    """Keep the code of our interpreter under the hash of one that differs by a note only."""
    cache = standard_cache(outside=project.folder)
    assert cache is not None
    engine = fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)
    code = cache.get(content_hash(interpreter_file().read_bytes()), engine)
    assert code is not None
    cache.put(content_hash(other.read_bytes()), engine, code)


def test_each_module_of_a_project_has_its_own_source(tmp_path: Path) -> None:
    """AU-12, AU-51: a class that both sources have is one schema."""
    project = python_project.project(
        tmp_path / "shop",
        more='[modules.a]\nsource = "a.py"\n[modules.b]\nsource = "flows/b.py"\n',
        a=FLOW,
    )
    (project.folder / "flows").mkdir()
    (project.folder / "flows/b.py").write_text(FLOW.replace("shop/order@1", "shop/later@1"))

    built = build(project, console=QUIET)

    assert [module.artifact for module in built.modules] == ["build/a.wasm", "build/b.wasm"]
    assert list(built.loaded.effective.workflows) == ["shop/later@1", "shop/order@1"]
    assert b"flows/b.py" in constants(built.modules[1].wasm), "the name in tracebacks"


SECOND = FLOW + FLOW[FLOW.index("@flow") :].replace("async def order", "async def other")

BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "a float in a schema": (
        FLOW.replace("order_id: str", "order_id: str\n    price: float"),
        ["flow.py:13:12: a type that no schema has: expected bool, int, str,"],
    ),
    "two flows": (
        SECOND,
        ["flow.py:32:1: other is a second flow; the first is order in line 28: expected one flow"],
    ),
    "no flow": ("x = 1\n", ["flow.py:1:1: the file has no flow: expected @flow("]),
    "an empty file": ("", ["flow.py:1:1: the file has no flow: expected @flow("]),
    "UTF-16": (
        FLOW.encode("utf-16"),
        ["flow.py:1:1: the encoding of the source: expected UTF-8, found UTF-16"],
    ),
    "no Python": (
        FLOW + "def f(:\n",
        ["flow.py:31:7: no valid Python: invalid syntax: found 'def f(:'"],
    ),
    "tabs and spaces": (
        FLOW + "    x = 1\n\ty = 2\n",
        ["flow.py:32:1: no valid Python: inconsistent use of tabs and spaces"],
    ),
    "a base class and a generator": (
        FLOW + "class A(Order):\n    pass\n\ndef g():\n    yield 1\n",
        [
            "flow.py:31:1: not in the Python of flows: base classes",
            "flow.py:35:5: not in the Python of flows: generators",
        ],
    ),
    "a name that is taken": (
        FLOW.replace('"shop/Paid@1"', '"shop/Order@1"'),
        ["flow.py:17:1: Paid and Order have the name shop/Order@1 (rename one"],
    ),
    "a name of the system": (
        FLOW.replace('"shop/Paid@1"', '"sys/Paid@1"'),
        ["flow.py:16:9: the name of Paid: expected a text NAMESPACE/NAME@VERSION"],
    ),
    "a key that is not there": (
        FLOW.replace('key="order_id"', 'key="id"'),
        ["flow.py:27:27: the key of Order: expected one of its fields: order_id, cents"],
    ),
    "a huge file": (
        FLOW + "#" * 600_000,
        ["flow.py: the source is too large: expected at most 524,288 bytes, found 600,5"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_source_is_reported_with_its_lines_and_the_last_build_stays(
    case: str, python: Project, aos: Aos, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-3, AU-68"""
    build(python, console=QUIET)
    before = {
        name: (python.folder / name).read_bytes()
        for name in ("build/shop.wasm", "air/generated.air.json", "build/compiler.json")
    }
    text, messages = BAD[case]
    data = text if isinstance(text, bytes) else text.encode()
    (python.folder / "flow.py").write_bytes(data)
    monkeypatch.chdir(python.folder)

    refused = aos("build")

    assert refused.code == 1
    for message in messages:
        assert message in refused.err
    for name, old in before.items():
        assert (python.folder / name).read_bytes() == old


def test_problems_of_all_sources_are_reported_together(tmp_path: Path) -> None:
    """AU-68"""
    project = python_project.project(
        tmp_path / "shop",
        more='[modules.a]\nsource = "a.py"\n[modules.b]\nsource = "b.py"\n'
        '[modules.c]\nsource = "c.py"\n',
        a="x = 1\n",
        b="def f(:\n",
    )

    with pytest.raises(BuildFailed) as failed:
        build(project, console=QUIET)

    first, second, third = str(failed.value).splitlines()
    assert "a.py:1:1: the file has no flow" in first
    assert "b.py:1:7: no valid Python" in second
    assert "aos.toml: no such file: c.py: expected the file of a flow in Python" in third


def test_a_name_that_another_source_has_is_refused(tmp_path: Path) -> None:
    """AU-51"""
    project = python_project.project(
        tmp_path / "shop",
        more='[modules.a]\nsource = "a.py"\n[modules.b]\nsource = "b.py"\n',
        a=FLOW,
        b=FLOW,
    )

    with pytest.raises(
        BuildFailed, match=r"shop/order@1 is defined differently in module b and in"
    ):
        build(project, console=QUIET)


def test_a_name_that_a_file_of_air_has_is_refused(python: Project) -> None:
    """AU-51"""
    (python.folder / "air").mkdir()
    taken = {"$kind": "defschema", "name": "shop/Paid@1", "type": {"record": {}}}
    (python.folder / "air/own.air.json").write_text(json.dumps([taken]))

    with pytest.raises(BuildFailed, match=r"shop/Paid@1 in air/own\.air\.json differs from that"):
        build(python, console=QUIET)


@pytest.mark.parametrize("kind", ["missing", "a folder", "a broken link"])
def test_a_source_that_is_no_file_is_refused(python: Project, aos: Aos, kind: str) -> None:
    """AU-68"""
    source = python.folder / "flow.py"
    source.unlink()
    if kind == "a folder":
        source.mkdir()
    elif kind == "a broken link":
        source.symlink_to("nowhere.py")

    refused = aos("build", python.folder)

    assert refused.code == 1
    assert "aos.toml: no such file: flow.py: expected the file of a flow in Python" in refused.err
    assert not (python.folder / "build").exists()


def test_an_installation_without_the_interpreter_says_so(
    python: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-67"""
    monkeypatch.setattr(interpreter, "INTERPRETER", "none.wasm")

    with pytest.raises(Unavailable, match=r"not in this installation: .* \(install aos again\)"):
        build(python, console=QUIET)

    assert not (python.folder / "build").exists()


def test_commands_for_copies_of_the_sdk_and_migrations_are_refused(
    python: Project, aos: Aos
) -> None:
    """AU-24, AU-91"""
    updated = aos("sdk", "update", python.folder)
    migrated = aos("build", python.folder, "--migration", "order")

    assert (updated.code, migrated.code) == (2, 2)
    assert "a project in python has no copy of an SDK" in updated.err
    assert "--migration: a project in python has no migrations" in migrated.err
    assert not (python.folder / "build").exists()
