"""Worlds with the gateway's manifest in force."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from tests.cli.shell import Result, here, in_silence
from tests.copies import copied
from tests.gateway.commands.samples import LANE, OTHER, SIGNER, STUDIO, manifest

ANSWERS = Path(__file__).parent / "answers.py"
EXECUTORS = ("--executors", f"{ANSWERS}:evm", "--executors", f"{ANSWERS}:arweave")


class Gateway(NamedTuple):
    """A world, and the files that its commands use."""

    world: Path
    evidence: Path
    secrets: Path

    def __call__(self, *words: str | Path) -> Result:
        return here("gateway", *words, "--world", self.world)

    def create_work(self, *more: str | Path, evidence: str = '{"a":1}\n') -> Result:
        self.evidence.write_text(evidence)
        return self(
            "create-work", "--studio", STUDIO, "--epoch", "7", "--signer", SIGNER,
            "--evidence", self.evidence, *more,
        )  # fmt: skip

    def create_score(self, work: str, *more: str) -> Result:
        return self(
            "create-score", "--work", work, "--validator", OTHER, "--scores", "80,90", *more
        )

    def close_epoch(self, *more: str) -> Result:
        return self("close-epoch", "--studio", STUDIO, "--epoch", "7", "--signer", OTHER, *more)

    @property
    def seq(self) -> int:
        """The last record of the journal."""
        found = here("inspect", "world", "--world", self.world, "--json").json
        return int(found["journal"]["records"])


def gateway_in(folder: Path, template: Path) -> Gateway:
    secrets = folder / "secrets"
    secrets.write_text(f"gateway.evm-keys=0x{7:064x}\ngateway.arweave-key=not-a-key\n")
    secrets.chmod(0o600)
    return Gateway(copied(template, folder / "world"), folder / "report.json", secrets)


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(manifest())
    return path


@pytest.fixture
def gateway(empty: Path, tmp_path: Path) -> Gateway:
    """A world without a record."""
    return gateway_in(tmp_path, empty)


class Busy(NamedTuple):
    """A world whose lane has one transaction in flight and one that waits. The score stalls,
    because no one has submitted the work, and the epoch, because it has no work."""

    gateway: Gateway
    first: str
    second: str
    score: str
    epoch: str
    lane: str = LANE.text


def run_until_waiting(gateway: Gateway) -> None:
    assert in_silence(
        "run", "--until-waiting", *EXECUTORS, "--secrets", gateway.secrets,
        "--world", gateway.world,
    ) == 0  # fmt: skip


@pytest.fixture(scope="session")
def ran(empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Busy:
    gateway = gateway_in(tmp_path_factory.mktemp("ran"), empty)
    first = gateway.create_work("--json").json["key"]
    run_until_waiting(gateway)  # the first is at the lane before the second exists
    second = gateway.create_work("--json", evidence="second").json["key"]
    score = gateway.create_score(first, "--json").json["key"]
    epoch = gateway.close_epoch("--json").json["key"]
    run_until_waiting(gateway)
    return Busy(gateway, first, second, score, epoch)


@pytest.fixture
def busy(ran: Busy, tmp_path: Path) -> Busy:
    """A copy of ``ran`` to change."""
    return ran._replace(gateway=gateway_in(tmp_path, ran.gateway.world))
