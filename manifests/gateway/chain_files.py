"""The files of a chain's folder that a world needs: ``env`` for the shell, ``secrets`` for keys.

The keys are public: those of anvil's well-known accounts, and a wallet that is in this repository.
Never send anything of value to them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ACCOUNTS: Final = HERE / "anvil-accounts.json"
WALLET: Final = HERE / "worthless-jwk.json"
STATE: Final = "state.json"
"""The file in which the node keeps its blocks."""

ITEM_SEED: Final = hashlib.sha256(b"aos gateway: a worthless seed").hexdigest()

ROLES: Final[Mapping[str, int]] = {
    "SIGNER": 0,
    "SIGNER2": 1,
    "SIGNER3": 2,
    "SIGNER4": 3,
    "VALIDATOR": 4,
    "ADMIN": 5,
    "STRANGER": 16,
}
"""The account of each variable in ``env``. ``secrets`` has no key of the stranger."""

SIGNERS: Final = range(16)
"""The accounts whose keys are in ``secrets``."""

DEPLOYER: Final = 19


@dataclass(frozen=True, slots=True)
class Account:
    """An account that has 10,000 ether on a new chain. Both are lower-case hex with 0x."""

    address: str
    key: str


def accounts() -> tuple[Account, ...]:
    """The 20 accounts of ``anvil --accounts 20``."""
    return tuple(Account(**each) for each in json.loads(ACCOUNTS.read_text("utf-8")))


def arweave_address() -> str:
    """The address of the committed wallet. In the stub, every wallet has funds."""
    modulus = json.loads(WALLET.read_text("utf-8"))["n"]
    raw = base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4))
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()


def write_env(path: Path, *, evm: str, arweave: str | None, studio: str) -> None:
    """Write the variables that `. DIR/env` sets."""
    found = accounts()
    variables: dict[str, str | None] = {
        "AOS_EVM_RPC": evm,
        "AOS_ARWEAVE": arweave,
        "STUDIO": studio,
    }
    variables |= {"ARWEAVE_WALLET": arweave_address() if arweave else None}
    variables |= {name: found[index].address for name, index in ROLES.items()}
    lines = [f"export {name}={shlex.quote(text)}" for name, text in variables.items() if text]
    replace(path, "\n".join(lines) + "\n")


def write_secrets(path: Path) -> None:
    """Write the values of the manifest's secrets into a file that only its owner may read."""
    found = accounts()
    wallet = json.loads(WALLET.read_text("utf-8"))
    values = {
        "gateway.evm-keys": ",".join(found[index].key for index in SIGNERS),
        "gateway.arweave-key": json.dumps({"item_seed": ITEM_SEED, "jwk": wallet}),
    }
    replace(path, json.dumps(values, indent=2) + "\n", mode=0o600)


def replace(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file as a whole. It has its mode before it has a byte."""
    beginning = path.with_name(f".{path.name}.{os.getpid()}")
    beginning.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(beginning, flags, mode)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # a descriptor, not a path
        file.write(text)
    beginning.replace(path)


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found
