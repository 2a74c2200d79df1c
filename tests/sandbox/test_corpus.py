"""Every module of ``wat/`` does what its first lines say (spec/sandbox.md, S-3 to S-46).

A file that says nothing fails, so that none is there untried.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.core.journal.faults import ENVIRONMENTAL, FaultKind
from aos.core.journal.ports import Ran
from aos.sandbox.config import FEATURES, PULLEY
from aos.sandbox.engine import TRAP_WORDS
from aos.sandbox.inspect import ModuleRefused, check_module
from tests.sandbox import corpus
from tests.sandbox.bench import Bench
from tests.sandbox.corpus import Expected, Unclear

NAMES = corpus.names()
FOLDERS = {"good", "features", "shape", "caps", "determinism", "faults", "bombs"}


@pytest.fixture(scope="session")
def portable() -> Iterator[Bench]:
    bench = Bench(target=PULLEY)
    yield bench
    bench.sandbox.close()


def run(bench: Bench, call: Expected) -> Ran:
    return bench.run(
        call.module,
        call.input,
        entrypoint=call.entrypoint,
        fuel=call.fuel,
        memory_bytes=call.memory_bytes,
        output_bytes=call.output_bytes,
    )


def ended(ran: Ran) -> tuple[bytes | None, tuple[FaultKind, str] | None]:
    return ran.output, None if ran.fault is None else (ran.fault.kind, ran.fault.message)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_does_what_its_first_lines_say(bench: Bench, portable: Bench, name: str) -> None:
    module = corpus.read(name)

    if module.refused:
        is_refused(bench, name, module.refused)
    for call in module.calls:
        assert check_module(corpus.wasm(name), [call.entrypoint]) == []
        ends_as_it_says(bench, portable, call)


def is_refused(bench: Bench, name: str, problems: tuple[str, ...]) -> None:
    """By the check, with these problems and no others; and by the sandbox itself (S-17)."""
    found = check_module(corpus.wasm(name), ["step"])

    assert len(found) == len(problems), found
    for part, problem in zip(problems, found, strict=True):
        assert part in problem
        assert problem.isprintable()
    with pytest.raises(ModuleRefused):
        bench.run(name)
    bench.echoes()


def ends_as_it_says(bench: Bench, portable: Bench, call: Expected) -> None:
    """Twice the same, with a good module after each, and the same on the portable engine (S-6)."""
    first = run(bench, call)
    bench.echoes()

    assert ended(first) == (call.output, call.fault), call.line
    assert call.pages in {None, first.pages}, call.line
    assert all(line.isprintable() for line in (first.engine_text or "").split("\n"))
    assert run(bench, call) == first
    bench.echoes()
    other = run(portable, call)
    assert ended(other) == ended(first)
    if call.fault is None or call.fault[0] not in ENVIRONMENTAL:
        assert (other.fuel, other.pages) == (first.fuel, first.pages)


def test_every_file_lies_in_a_folder_that_is_explained() -> None:
    readme = (corpus.WAT / "README.md").read_text("utf-8")

    assert {corpus.path_of(name).parent for name in NAMES} == {
        corpus.WAT / folder for folder in FOLDERS
    }
    for folder in FOLDERS:
        assert f"| `{folder}` |" in readme
    assert len(NAMES) == len(set(NAMES))


def test_a_module_is_in_the_folder_of_its_outcome() -> None:
    for name in NAMES:
        module, folder = corpus.read(name), corpus.path_of(name).parent.name
        assert bool(module.refused) == (folder in {"features", "shape", "caps"}), name
        assert bool(module.costly) == (folder == "bombs"), name


def test_every_feature_that_is_off_has_a_module() -> None:
    """S-3. Those without a file of their own cannot be met in a module's bytes at all, or are met
    in another's: each is named with the reason."""
    met = {
        "wasm_threads": "atomics",
        "shared_memory": "shared_memory",
        "wasm_tail_call": "tail_call",
        "wasm_function_references": "function_references",
        "wasm_gc": "gc_struct",
        "wasm_relaxed_simd": "relaxed_simd",
        "wasm_multi_memory": "multi_memory",
        "wasm_memory64": "memory64",
        "wasm_wide_arithmetic": "wide_arithmetic",
        "wasm_exceptions": "exceptions",
        "wasm_custom_page_sizes": "custom_page_size",
        "wasm_stack_switching": "stack_switching",
        "wasm_component_model": "component",
        # A hint is a custom section, and those are stepped over.
        "wasm_branch_hinting": "custom_sections",
        # Another way to write imports, and there may be none.
        "wasm_compact_imports": "imports",
    }

    assert set(met) == {name for name, is_on in FEATURES.items() if not is_on}
    assert set(met.values()) <= set(NAMES)


def test_every_word_for_a_trap_is_met() -> None:
    """S-40"""
    messages = [
        call.fault[1].partition(": ")[2]
        for name in NAMES
        for call in corpus.read(name).calls
        if call.fault is not None and call.fault[0] is FaultKind.TRAP
    ]

    assert set(TRAP_WORDS.values()) <= set(messages)


def test_every_kind_of_fault_that_a_guest_can_make_is_met() -> None:
    met = {
        call.fault[0]
        for name in NAMES
        for call in corpus.read(name).calls
        if call.fault is not None
    }

    assert met == {
        FaultKind.TRAP,
        FaultKind.FUEL,
        FaultKind.MEMORY,
        FaultKind.STACK,
        FaultKind.OUTPUT_MALFORMED,
        FaultKind.OUTPUT_TOO_LARGE,
    }


@pytest.mark.parametrize(
    "text",
    [
        "(module)",
        ";; refused: no sentence\n(module)",
        ";; A sentence alone.\n(module)",
        ";; A sentence.\n;; step -> maybe\n(module)",
        ";; A sentence.\n;; step -> ok 12\n(module)",
        ";; A sentence.\n;; refused: a\n;; costly: time\n(module)",
    ],
)
def test_a_file_that_does_not_say_what_to_expect_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "unclear.wat").write_text(text)
    monkeypatch.setattr(corpus, "WAT", tmp_path)
    corpus.path_of.cache_clear()
    try:
        with pytest.raises(Unclear):
            corpus.read.__wrapped__("unclear")
    finally:
        corpus.path_of.cache_clear()
