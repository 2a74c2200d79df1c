"""For every test: one seed for all random choices of the run; one kernel (``tests/run_core.py``);
compiled code in a folder of the run, which all its processes share; a test that hangs ends its
process with the stacks of all threads.

The run prints its seed, its kernel, its part, and the files that took most processor time.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aos.author.interpreter import interpreter_file
from aos.author.program_segment import with_program
from aos.errors import BadUsage
from aos.fastcore.buffer import CoreCode, core_fingerprint, core_folder, read_core
from aos.fastcore.core_kind import CORE_VARIABLE
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import MIB
from aos.sandbox.trial import trial_problem
from aos.values.digests import content_hash
from tests.part import VARIABLE as PART_VARIABLE
from tests.part import WHOLE, Part, WrongPartError
from tests.run_core import run_core, settle_core
from tests.run_seed import VARIABLE as SEED_VARIABLE
from tests.run_seed import WrongSeedError, run_seed, settle_seed, use_in_hypothesis
from tests.time_budget import ProcessorTime, TimeBudget
from tests.tools import long_form

HANGS_VARIABLE = "AOS_TEST_HANGS_S"
"""Seconds after which a hanging test is stopped. The first process of a run chooses it."""

HANGS_S = 900.0 if long_form() else 300.0
"""Ten times the slowest test in a parallel run on the machine of ``tests/time_budget.py``; a slower
machine gets correspondingly more."""

RUST_STD = Path(__file__).parents[1] / "modules" / "target" / "rust-std"

BYTECODE = Path(__file__).parents[1] / "build" / "bytecode"
"""Bytecode of the modules that a run imports, where Python may not write it next to its source."""

COMPILED = Path(__file__).parents[1] / "build" / "compiled"
"""The compiled code of the interpreter of Python and of the second kernel, which later runs take
from there: to compile them takes half a minute."""

RECURSION_LIMIT = sys.getrecursionlimit()

PR_SET_CHILD_SUBREAPER = 36

_FOLDER = pytest.StashKey[Path]()
_PART = pytest.StashKey[Part]()
_STDERR = pytest.StashKey[int]()
"""A copy of the descriptor: during a test, the original is a file in which pytest keeps what the
test writes, and which is lost with the process."""


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start inherit the environment, and so do the workers of xdist."""
    gc.disable()  # until the tests are collected
    config.stash[_STDERR] = os.dup(2)
    is_first = not hasattr(config, "workerinput")
    if is_first:
        config.stash[_FOLDER] = _folder()
    try:
        seed = settle_seed(os.environ, datetime.now(UTC).date())
        settle_core(os.environ, seed=seed, is_whole=_is_of_all_tests(config))
        config.stash[_PART] = Part.from_text(os.environ.get(PART_VARIABLE, str(WHOLE)))
    except (WrongSeedError, WrongPartError, BadUsage) as problem:
        raise pytest.UsageError(str(problem)) from problem
    if config.getoption("hypothesis_seed", None) is None:
        use_in_hypothesis(seed)
    config.pluginmanager.register(ProcessorTime())
    if is_first:
        budget = TimeBudget(is_whole=_is_whole(config))
        config.pluginmanager.register(budget)
        os.environ.setdefault(HANGS_VARIABLE, str(HANGS_S * budget.slowness()))
        _share_compiled(config.stash[_FOLDER], compiles=_is_of_all_tests(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Undo what an earlier test changed for its process.

    The referee eth_account loads a package that raises the recursion limit to 100,000; then input
    that is nested as deeply ends Python, instead of raising RecursionError. A command of
    ``sys/host`` makes its process the parent of orphans (AG-106); then a process that another test
    kills stays a zombie, and that test waits for its end in vain.
    """
    if sys.getrecursionlimit() > RECURSION_LIMIT:
        sys.setrecursionlimit(RECURSION_LIMIT)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _is_of_all_tests(config: pytest.Config) -> bool:
    """Whether the run is one of all tests, or of a part of their long form."""
    chosen = config.option.keyword or config.option.deselect
    in_form = "long" if long_form() else ""
    return config.args == ["tests"] and not chosen and config.option.markexpr == in_form


def _is_whole(config: pytest.Config) -> bool:
    """Whether the run is one of all tests in their usual form."""
    return _is_of_all_tests(config) and not long_form()


def _folder() -> Path:
    """Create the folder of this run, and name it in the environment."""
    folder = Path(tempfile.mkdtemp(prefix="aos-test-modules-"))
    # Rust's library for WASM, where it has to be built, is built once for all processes and runs.
    RUST_STD.mkdir(parents=True, exist_ok=True)
    (folder / "rust-std").symlink_to(RUST_STD)
    os.environ["AOS_CACHE_DIR"] = str(folder)
    if sys.dont_write_bytecode:
        _keep_bytecode()
    return folder


def _share_compiled(folder: Path, *, compiles: bool) -> None:
    """Put the code of the largest modules into the folder of the run, if an earlier run has left
    it. Otherwise a run of all tests compiles them first, while both processors are free: several
    workers that compile the interpreter at once would each take minutes."""
    if compiles:
        cache = ModuleCache(COMPILED, bytes_max=100 * MIB)
        trial_problem(with_program(interpreter_file().read_bytes(), {}), cache=cache)
        core = read_core(core_folder())
        if cache.get(content_hash(core), core_fingerprint()) is None:
            cache.put(content_hash(core), core_fingerprint(), CoreCode(core).serialized())
    for file in COMPILED.glob("*.code"):
        shutil.copy2(file, folder)


def _keep_bytecode() -> None:
    """Keep bytecode for later runs, in a folder of its own.

    Otherwise each process of a run compiles every file that it imports, and pytest rewrites the
    assertions of all tests, which takes each worker 20 s. Bytecode of a changed file is not used.
    """
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(BYTECODE)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(BYTECODE)


def pytest_report_header(config: pytest.Config) -> list[str]:
    part = config.stash[_PART]
    core = run_core().value
    return [
        f"seed of this run: {run_seed()} ({SEED_VARIABLE}={run_seed()} repeats it)",
        f"kernel of this run: {core} ({CORE_VARIABLE}={core} repeats it)",
        *([f"part {part} of the tests ({PART_VARIABLE}={part})"] if part != WHOLE else []),
    ]


def _is_its_day(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("rotated")
    if mark is None:
        return True
    [count] = mark.args
    return Part(run_seed() % count + 1, count).has(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A property test has a long form: more examples (``tests/run_seed.py``). Of the rotated tests
    a run of all tests has those of its day."""
    for item in items:
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_property or item.get_closest_marker("rotated"):
            item.add_marker("long")
    kept = config.stash[_PART].of(items)
    if _is_whole(config):
        kept = [item for item in kept if _is_its_day(item)]
    if len(kept) < len(items):
        chosen = set(kept)
        config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
        items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Python searches all objects for cycles from time to time: millions of a collection, which
    stay. Frozen, they are left out."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if failed:
        form = "AOS_LONG=1 " if long_form() else ""
        choices = f"{CORE_VARIABLE}={run_core().value} {SEED_VARIABLE}={run_seed()}"
        terminalreporter.section("to run a failed test again with the same kernel and choices")
        terminalreporter.write_line(
            f"{form}{choices} .venv/bin/python -m pytest '{failed[0].nodeid}'"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])
    if _FOLDER in config.stash:
        shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    stderr = item.config.stash[_STDERR]
    limit_s = float(os.environ[HANGS_VARIABLE])
    faulthandler.dump_traceback_later(limit_s, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
