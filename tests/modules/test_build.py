"""modules/build: the committed modules are what the sources make, from any checkout path."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aos.author.recorded_build import INCOMPARABLE, MISSING, USAGE
from tests.modules.guests import CRATES_WITH_TESTS, NAMES, ROOT
from tests.run_seed import rotated
from tests.scripts import script_at
from tests.tools import long_form, missing

IDENTICAL = 0
BUILT = tuple(json.loads((ROOT / "modules/BUILD.json").read_text())["modules"])
KEPT = ROOT / "modules/target/tests"
"""Build output that is kept from run to run."""
SIZE_BYTES_MAX = 60_000
SIZES_BYTES_MAX = {
    "conformance/rust/conformance.wasm": 250_000,
    "sdk-rust/tests/vectors/vectors.wasm": 150_000,
    "conformance/flow/flow-programs.wasm": 190_000,
    "sdk-rust/tests/flows/flows.wasm": 300_000,
    "gateway/gateway.wasm": 200_000,  # four workflows
    "agentos-guest/agentos-guest.wasm": 66_000,  # seven workflows, and CBOR of its own
    "linear/linear.wasm": 66_000,
    "orders/orders.wasm": 66_000,
    "orders-2/orders-2.wasm": 66_000,
    "cookbook/billing-3/billing-3.wasm": 66_000,  # HTTP, JSON and a migration
    "sdk-rust/examples/counter/counter.wasm": 14_000,
    "cookbook/flow-agent/flow-agent.wasm": 150_000,
    "cookbook/flow-events/flow-events.wasm": 110_000,
    "cookbook/flow-saga/flow-saga.wasm": 90_000,
    "cookbook/flow-subscription/flow-subscription.wasm": 140_000,
    "cookbook/flow-subscription-2/flow-subscription-2.wasm": 140_000,
    "sdk-rust/examples/shop-flow/shop-flow.wasm": 140_000,
    "bench-sdk/flow-shapes/flow-shapes.wasm": 120_000,
    "bench-sdk/flow-steps/flow-steps.wasm": 90_000,
    "bench-sdk/rust-counter/rust-counter.wasm": 14_000,
}
WITHOUT_RUST = (
    "tests/modules",
    "--ignore=tests/modules/test_build.py",
    "--ignore=tests/modules/test_service.py",
    "tests/sdk/rust",
    "--ignore=tests/sdk/rust/test_crate.py",
)


@dataclass(frozen=True)
class Checked:
    """A copy of modules/ in another place, and what `build --check` said of it."""

    into: Path
    code: int
    output: str


def copy_and_check(parent: Path) -> Checked:
    folder, into = parent / "modules", parent / "built"
    shutil.copytree(
        ROOT / "modules", folder, ignore=shutil.ignore_patterns("target", "node_modules")
    )
    ran = subprocess.run(
        [sys.executable, folder / "build", "--check", "--into", into],
        capture_output=True,
        text=True,
        check=False,
    )
    return Checked(into, ran.returncode, ran.stdout + ran.stderr)


def test_the_committed_modules_are_those_that_their_record_names() -> None:
    record = json.loads((ROOT / "modules/BUILD.json").read_text())

    assert {f"{name}/{name}.wasm" for name in NAMES} <= set(BUILT)
    assert {Path(file).suffix for file in BUILT} == {".wasm", ".json"}
    for file, facts in record["modules"].items():
        data = (ROOT / "modules" / file).read_bytes()
        assert facts == {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        assert len(data) < SIZES_BYTES_MAX.get(file, SIZE_BYTES_MAX), file
    assert record["rustc"].startswith("rustc ")


@pytest.mark.parametrize("file", [file for file in BUILT if file.endswith(".wasm")])
def test_no_path_of_the_machine_that_built_it_is_in_a_module(file: str) -> None:
    wasm = (ROOT / "modules" / file).read_bytes()

    for leak in (b"/root", b"/home", b"/usr", b"/work/", b"/tmp", str(ROOT).encode()):
        assert leak not in wasm
    # Places of panics (SD-28): of ours relative to the workspace, else below the toolchain.
    assert b"/src/" in wasm


def test_the_committed_modules_were_built_from_these_sources() -> None:
    """Needs no compiler. The long form builds them again."""
    recorded = json.loads((ROOT / "modules/BUILD.json").read_text())["sources"]
    script = script_at(ROOT / "modules/build")

    assert script.BUILD.sources_hash() == recorded, (
        "run modules/build and commit the files that it writes"
    )


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="the long form builds all modules: two minutes")
def test_the_sources_make_the_committed_bytes_in_another_place(tmp_path: Path) -> None:
    checked = copy_and_check(tmp_path / "quite different")
    if checked.code == MISSING:
        missing(checked.output)
    if checked.code != INCOMPARABLE:
        assert checked.code == IDENTICAL, checked.output
        return
    # Another toolchain makes other bytes: then they must at least be the same everywhere, and do
    # what the committed ones do.
    checked = copy_and_check(tmp_path / "another one")
    other = copy_and_check(tmp_path / "a second place, with a longer name")
    for file in BUILT:
        assert (checked.into / file).read_bytes() == (other.into / file).read_bytes()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WITHOUT_RUST],
        cwd=ROOT,
        env={**os.environ, "AOS_MODULES_DIR": str(checked.into)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_a_folder_without_a_module_is_a_wrong_usage() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "modules/build", "--check", "order"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == USAGE
    assert "no module is in order: expected agentos-guest, bench," in ran.stderr


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "modules/build", "--check"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == MISSING
    assert "rustup target add wasm32-unknown-unknown" in ran.stderr
    assert "apt-get install rustc-web cargo-web rust-web-src lld" in ran.stderr


def test_where_to_put_modules_is_asked_for_with_check_only(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "modules/build", "--into", tmp_path],
        capture_output=True,
        check=False,
    )

    assert ran.returncode == USAGE


@pytest.mark.long
@pytest.mark.skipif("aos-abi" not in rotated(CRATES_WITH_TESTS), reason="the day of the SDK")
def test_the_codec_passes_its_own_tests() -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        missing("there is no cargo on the PATH")
    ran = subprocess.run(
        [cargo, "test", "--quiet", "--offline", "--locked", "--package", "aos-abi"],
        cwd=ROOT / "modules",
        env={**os.environ, "CARGO_TARGET_DIR": str(KEPT / "codec")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
