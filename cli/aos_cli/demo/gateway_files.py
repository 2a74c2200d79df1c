"""Find the files of the gateway's demo, and the two things that it needs besides AOS."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aos.errors import Unavailable
from aos_cli.demo.files import find_folder

FOLDER: Final = Path("manifests", "gateway")
PACKAGES: Final = ("eth_account", "eth_abi", "coincurve", "Crypto")
"""Modules of the extra ``evm``."""

_NEEDED: Final = (
    "air/generated.air.json",
    "chain.py",
    "mischief.py",
    "arweave_stub.py",
    "make_requests.py",
    "check.py",
)


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """Paths below ``manifests/gateway``, relative if they are below the current folder."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder

    @property
    def chain(self) -> Path:
        return self.folder / "chain.py"

    @property
    def mischief(self) -> Path:
        return self.folder / "mischief.py"

    @property
    def make_requests(self) -> Path:
        return self.folder / "make_requests.py"

    @property
    def check(self) -> Path:
        return self.folder / "check.py"


def find_gateway_files() -> GatewayFiles:
    """Find the files, and make sure that the demo can run.

    Raises:
        Unavailable: The files, the packages of the extra ``evm``, or anvil are missing.
    """
    files = GatewayFiles(find_folder(FOLDER, _NEEDED))
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"the demo needs packages that are not installed ({missing[0]} is missing): run "
            "pip install 'aos-kernel[evm]'"
        )
    _find_anvil(files)
    return files


def _find_anvil(files: GatewayFiles) -> None:
    """As chain.py will do it."""
    anvil_module = runpy.run_path(str(files.folder / "anvil.py"))
    try:
        anvil_module["find_anvil"]()
    except anvil_module["AnvilMissing"] as problem:
        raise Unavailable(
            f"the demo needs anvil, a local EVM node: {problem} (without a checkout: npm install "
            "@foundry-rs/anvil, then set AOS_ANVIL to its program)"
        ) from None
