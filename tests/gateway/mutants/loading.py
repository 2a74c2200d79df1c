"""Load the gateway's manifest with a mutant in place of its module."""

from __future__ import annotations

from functools import cache
from typing import Final

from aos.manifest.load import Loaded, load
from aos.sandbox.inspect import check_module
from aos.testing.sources import read_files
from tests.gateway.mutants.sources import MUTANTS, ROOT, Mutant

BY_NAME: Final = {each.name: each for each in MUTANTS}


@cache
def gateway_with(mutant: Mutant) -> Loaded:
    """The manifest `manifests/gateway` with this module."""
    files, problems = read_files(ROOT / "manifests" / "gateway")
    assert not problems, problems
    [path] = [name for name in files if name.endswith("gateway.wasm")]
    return load(files | {path: mutant.wasm.read_bytes()}, check=check_module)
