"""The command of a benchmark: it reads options, measures in a new folder, and keeps the figures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aos.errors import AosError
from aos.fastcore.core_kind import CORE_VARIABLE
from benchmarks import report
from benchmarks.cores import SECOND, TURNS, core_environment
from benchmarks.machine import machine
from benchmarks.processes import stoppable
from benchmarks.scratch import DEFAULT, scratch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = dict[str, Any]
Options = TypeVar("Options", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Generic[Options]):
    """A command line: options, kernels in the order in which they are measured, the folder below
    which is measured, and the file to write."""

    options: Options
    kernels: tuple[str, ...]
    below: Path
    out: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[Options]):
    """``python -m benchmarks.NAME``.

    A run with the options ``whole`` writes its figures to ``path`` and writes ``RESULTS.md`` again.
    Any other run prints its tables, and writes its figures only to the file that ``--out`` names.
    """

    name: str
    about: str | None
    """The docstring of the command. Its first line describes the command in ``--help``."""

    whole: Options
    quick: Options
    quick_help: str
    helps: Mapping[str, str] = field(default_factory=dict)
    """The fields of the options that the command line can set, each with its help text, in which
    ``{}`` is the default."""

    measure: Callable[[Options, Path], Json]
    """Measures everything in the given folder. If the figures have ``missing``, it lists the
    systems that are not installed or failed."""

    tables: Callable[[Mapping[str, Any]], str]
    path: Path
    keeps_partial: bool = False
    """Whether a whole run in which a system is missing is written to ``path``, too."""

    has_kernels: bool = False
    """Whether a whole run measures both kernels, the second one first."""

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command; return its exit code: 0, 1 after an error, 130 after Ctrl-C."""
        chosen = self.read_options(sys.argv[1:] if arguments is None else arguments)
        options = chosen.options
        try:
            with stoppable(), scratch(chosen.below) as folder:
                runs = [self._run_on(core, options, folder / core) for core in chosen.kernels]
        except KeyboardInterrupt:
            return 130
        except AosError as problem:
            tell(f"benchmarks: {problem}")
            return 1
        first, *others = runs
        figures = {**first, "reference": others[0]} if others else first
        is_whole = (
            options == self.whole
            and (self.keeps_partial or not first.get("missing"))
            and (bool(others) or not self.has_kernels)
        )
        report.keep(figures, self.tables, path=self.path, is_whole=is_whole, out=chosen.out)
        return 0

    def read_options(self, arguments: Sequence[str]) -> Chosen[Options]:
        """Read the command line."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}",
            description=(self.about or "").split("\n", 1)[0],
        )
        parser.add_argument("--quick", action="store_true", help=self.quick_help)
        for name, text in self.helps.items():
            default = getattr(self.whole, name)
            parser.add_argument(f"--{name}", type=type(default), help=text.format(default))
        parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
        parser.add_argument("--out", type=Path, help="write the figures there as JSON")
        core = os.environ.get(CORE_VARIABLE)
        kernels = TURNS if self.has_kernels and core is None else (core or SECOND,)
        parser.add_argument(
            "--core", choices=TURNS, help=f"of all worlds ({', then '.join(kernels)})"
        )
        given = parser.parse_args(arguments)
        asked = {name: getattr(given, name) for name in self.helps}
        changes = {name: value for name, value in asked.items() if value is not None}
        base = self.quick if given.quick else self.whole
        return Chosen(
            options=replace(base, **changes),
            kernels=kernels if given.core is None else (given.core,),
            below=given.dir,
            out=given.out,
        )

    def _run_on(self, core: str, options: Options, folder: Path) -> Json:
        folder.mkdir()
        os.environ |= core_environment(core)  # for all processes that are started from now on
        return self.run(options, folder)

    def run(self, options: Options, folder: Path) -> Json:
        """Measure, and return the figures together with the options, the kernel, the machine, the
        start and the duration in seconds."""
        began = time.monotonic()
        return {
            "kind": self.name,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "options": asdict(options),
            "kernel": os.environ[CORE_VARIABLE],
            "machine": machine(folder),
            **self.measure(options, folder),
            "seconds": round(time.monotonic() - began),
        }


def tell(text: str) -> None:
    """Print a line about the progress of a run."""
    print(text, file=sys.stderr, flush=True)
