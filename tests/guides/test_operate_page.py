"""spec/guides/operate.md names units, commands, metrics and log lines that are there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Final

import pytest

from aos.node.supervision import DRAIN_S, END_S
from aos.node.worker import remote_worker
from tests.cli.shell import here
from tests.client.conftest import template, trips
from tests.cookbook.worlds import ROOT
from tests.node.nodes import Node, front, running_kernel
from tests.node.test_node_process import wait_until

__all__ = ["template", "trips"]

PAGE: Final = ROOT / "spec" / "guides" / "operate.md"
METRIC: Final = re.compile(r"\baos_[a-z_]+")


def text() -> str:
    return PAGE.read_text("utf-8")


def section(title: str) -> str:
    return text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def unit(title: str) -> str:
    found = re.search(r"^```ini\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def service(title: str) -> dict[str, str]:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit(title))
    return dict(parser["Service"])


NODE_UNIT: Final = "The node as a service"
WORKER_UNIT: Final = "Workers as a service"


def refusal(command: str) -> str:
    """How ``aos`` refuses a command of a unit here: by then it has read every option."""
    result = here(*shlex.split(command)[1:])
    assert result.code == 2, result.err
    return result.err


def test_the_units_run_commands_with_options_that_exist() -> None:
    node = service(NODE_UNIT)["ExecStart"].replace("/var/lib/aos/%i", "/nowhere/at-all")
    worker = service(WORKER_UNIT)["ExecStart"].replace("/srv/trips", "/nowhere/at-all")

    assert "there is no such folder" in refusal(node)
    assert "there is no file /nowhere/at-all/effects.py" in refusal(worker)
    assert "there is no option --nam;" in refusal(worker.replace("--name", "--nam"))


def test_the_units_leave_a_node_and_a_worker_time_to_end() -> None:
    drain_s = DRAIN_S + END_S
    worker_s = remote_worker.DRAIN_S + remote_worker.STOP_S

    assert int(service(NODE_UNIT)["TimeoutStopSec"]) > 2 * drain_s
    assert int(service(WORKER_UNIT)["TimeoutStopSec"]) > worker_s
    page = " ".join(text().split())
    assert f"for up to {DRAIN_S:.0f} s, then the world stops" in page
    assert f"functions end for up to {remote_worker.DRAIN_S:.0f} s" in page
    assert f"(default {remote_worker.LEASE_S:.0f} s)" in page


@pytest.mark.parametrize("title", [NODE_UNIT, WORKER_UNIT])
def test_the_units_are_ones_that_systemd_accepts(title: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    file = tmp_path / "aos-unit.service"
    file.write_text(unit(title).replace("/opt/aos/bin/aos", sys.executable).replace("%i", "1"))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert [line for line in done.stderr.splitlines() if file.name in line] == []


def test_the_tokens_of_the_page_can_be_made_and_read_metrics(trips: Path, tmp_path: Path) -> None:
    commands = re.findall(r"^aos (token .*)$", section("Tokens"), re.MULTILINE)
    results = [here(*shlex.split(each), "--world", trips) for each in commands]

    assert [each.code for each in results] == [0] * 4, results
    assert all(name in results[-1].out for name in ("web", "agencies", "prometheus"))
    secret = {each: result.out.strip() for each, result in zip(commands, results, strict=True)}
    [prometheus] = [found for each, found in secret.items() if "prometheus" in each]
    [agencies] = [found for each, found in secret.items() if "agencies" in each]
    with (
        running_kernel(trips, executors=False) as kernel,
        front(trips, tmp_path / "front", kernel) as node,
    ):
        # Some metrics are figures of the kernel process, which the front hears soon.
        wait_until(lambda: node.client().get("/readyz").is_success)
        assert metrics(node, agencies) == (403, "")
        status, found = metrics(node, prometheus)

    assert status == 200
    names = set(METRIC.findall(section("Metrics")))
    assert len(names) > 20
    of_replicas = {name for name in names if name.startswith("aos_replica_")}
    assert len(of_replicas) == 1, "tests/host/cluster/test_cluster_page.py reads these"
    for name in names - of_replicas:
        assert re.search(rf"^# TYPE {name} ", found, re.MULTILINE), name


def metrics(node: Node, token: str) -> tuple[int, str]:
    answer = node.client(headers={"Authorization": f"Bearer {token}"}).get("/metrics")
    return answer.status_code, answer.text if answer.is_success else ""


def test_each_log_line_is_one_that_a_node_prints() -> None:
    sources = "".join(
        path.read_text("utf-8")
        for path in (
            *sorted((ROOT / "kernel" / "aos" / "node").rglob("*.py")),
            ROOT / "cli" / "aos_cli" / "commands" / "node.py",
        )
    )
    lines = re.findall(r"^\| `(.*?)` \|", section("The log"), re.MULTILINE)
    quoted = re.findall(r"logs `(.*?)`", section("TLS").replace("\n  ", " "))

    assert len(lines) > 5
    assert len(quoted) == 1
    for line in (*lines, *quoted):
        for piece in re.split(r"[…();:]|\bN\b", line):
            assert piece.strip(" ,") in sources, f"{line}: {piece!r}"
