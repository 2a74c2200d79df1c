"""``aos gov`` through a node does what it does with the folder of its world (C-139, N-118d)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.client import Client
from aos.client.node_connection import SOCKET
from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.host.apply.manifest_files import load_manifest_files
from tests.cli.shell import Result, here
from tests.cli.test_commands import is_sound
from tests.cli.test_gov import manifests, template
from tests.cli.test_node_commands import served
from tests.copies import copied

__all__ = ["manifests", "template"]

TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\"at_ns\": ?\d+")


class Twins:
    """A governed world that nothing runs, its twin that a node runs, and commands on both."""

    def __init__(self, folder: Path, node: Path, manifests: Path) -> None:
        self.folder = folder
        self.node = node
        self.manifests = manifests
        transport = httpx.HTTPTransport(uds=str(node / SOCKET), verify=False)
        self.http = httpx.Client(base_url="http://node", transport=transport)

    def both(self, *words: str | Path, code: int = 0) -> tuple[Result, Result]:
        """Type it for both, and compare what is printed."""
        first = here("gov", *words, "--world", self.folder)
        second = here("gov", *words, "--node", self.node)
        assert self._alike(first) == self._alike(second)
        assert first.code == code, first
        return first, second

    def _alike(self, found: Result) -> tuple[int, str, str]:
        def said(text: str) -> str:
            text = text.replace(f"--world {self.folder}", "").replace(f"--node {self.node}", "")
            return TIME.sub("T", text)

        return found.code, said(found.out), said(found.err)

    def proposed(self, *words: str | Path) -> str:
        one, two = self.both("propose", *words, "--json")
        assert one.json["proposal"] == two.json["proposal"], (
            "so the numbers below are those of both"
        )
        return str(one.json["proposal"])

    def key(self, name: str) -> tuple[str, Path]:
        return "--key", self.manifests / f"{name}.key"


@pytest.fixture
def twins(template: Path, manifests: Path, tmp_path: Path) -> Iterator[Twins]:
    folder, node = (copied(template, tmp_path / each) for each in ("folder", "node"))
    # A node journals its start: so does the other world, and the records have the same numbers.
    here("run", "--until-idle", "--world", folder)
    with served(node, "--operator-key", node / "keys" / "operator.key"):
        twins = Twins(folder, node, manifests)
        with twins.http:
            yield twins
    is_sound(node)
    is_sound(folder)


def test_a_manifest_is_proposed_voted_on_and_applied(twins: Twins, tmp_path: Path) -> None:
    twins.both("list", "--json")
    twins.both("patch", twins.manifests / "4")
    first = twins.proposed(twins.manifests / "2", "--note", "fewer effects")
    twins.both("list")
    twins.both("show", first)
    twins.both("show", first, "--json")
    twins.both("show", "1", code=2)
    twins.both("apply", "999", code=2)

    twins.both("apply", first, code=1)
    twins.both("approve", first, *twins.key("ann"), "--note", "yes")
    twins.both("approve", first, *twins.key("ann"), code=1)
    twins.both("approve", first, *twins.key("eve"), code=1)
    twins.both("reject", "1", *twins.key("bob"), code=2)
    for where, world in (("--world", twins.folder), ("--node", twins.node)):
        out = tmp_path / f"vote{where}"
        words = ("approve", first, *twins.key("cat"), "--out", out)
        assert here("gov", *words, where, world).code == 0
        assert here("gov", "submit", out, where, world).code == 0
        again = here("gov", "submit", out, where, world)
        assert again.code == 1
        assert "it is approved" not in again.out
    other = here("gov", "submit", tmp_path / "vote--world", "--node", twins.node)
    assert other.code == 1, "the twins are one world: it is the same vote, and it was taken"
    twins.both("show", first, "--json")
    twins.both("apply", first)
    twins.both("apply", first, code=1)
    twins.both("list", "--json")


def test_others_propose_reject_and_withdraw(twins: Twins, tmp_path: Path) -> None:
    patch = tmp_path / "change.json"
    patch.write_text(here("gov", "patch", twins.manifests / "4", "--node", twins.node).out)
    by_ann = twins.proposed(
        twins.manifests / "4", "--patch", patch, "--mode", "pin", *twins.key("ann")
    )
    twins.both("show", by_ann, "--json")
    twins.both("reject", by_ann, *twins.key("ann"))
    twins.both("reject", by_ann, *twins.key("bob"), "--json")
    twins.both("show", by_ann)
    by_operator = twins.proposed(twins.manifests / "3")
    twins.both("withdraw", by_operator, *twins.key("bob"), code=1)
    twins.both("withdraw", by_operator, "--note", "too early")
    twins.both("withdraw", by_operator, code=1)
    twins.both("list")


def test_a_node_signs_no_vote_and_refuses_what_is_malformed(
    twins: Twins, template: Path, tmp_path: Path
) -> None:
    number = twins.proposed(twins.manifests / "2")
    unsigned = here("gov", "approve", number, "--node", twins.node)
    assert unsigned.code == 1
    assert "a vote needs the principal and the signature of its approver" in unsigned.err
    away = here("gov", "approve", number, "--out", tmp_path / "v", "--node", twins.node)
    assert (away.code, (tmp_path / "v").exists()) == (2, False)

    loaded = load_manifest_files(twins.manifests / "2")
    document = base64.b64encode(loaded.effective.document).decode()
    for path, body, status, rule in (
        ("manifests", {}, 400, "body_is_invalid"),
        ("manifests", {"document": document, "proposal": int(number)}, 400, "body_is_invalid"),
        ("manifests", {"proposal": int(number), "mode": "pin"}, 400, "body_is_invalid"),
        ("manifests", {"proposal": 1}, 404, "proposal_is_unknown"),
        ("manifests/try", {"proposal": 1}, 404, "proposal_is_unknown"),
        ("manifests", {"proposal": int(number)}, 409, "proposal_lacks_quorum"),
        ("manifests", {"document": document}, 409, "manifest_needs_proposal"),
        ("governance", {"action": "seize"}, 400, "body_is_invalid"),
        ("governance", {"action": "withdraw", "principal": "ann"}, 400, "body_is_invalid"),
        ("governance", {"action": "propose"}, 422, "proposal_is_invalid"),
        ("governance", {"action": "propose", "document": "AAAA"}, 422, "manifest_is_invalid"),
        (
            "governance",
            {"action": "approve", "proposal": int(number), "principal": "ann",
             "signature": base64.b64encode(bytes(64)).decode()},
            403, "governance_signature_is_wrong",
        ),
    ):  # fmt: skip
        found = twins.http.post(f"/v1/{path}", json=body)
        assert (found.status_code, found.json()["rule"]) == (status, rule), (body, found.text)
    assert twins.http.get("/v1/proposal?proposal=1").status_code == 404

    # A vote of another world, in which the same number is a proposal.
    other = copied(template, tmp_path / "other")
    here("gov", "propose", twins.manifests / "3", "--world", other)
    [row] = here("gov", "list", "--json", "--world", other).json["proposals"]
    vote = tmp_path / "other.json"
    words = ("approve", str(row["proposal"]), *twins.key("ann"), "--out", vote)
    assert here("gov", *words, "--world", other).code == 0
    told: dict[str, Any] = json.loads(vote.read_text())
    vote.write_text(json.dumps({**told, "proposal": int(number)}))
    refused = here("gov", "submit", vote, "--node", twins.node)
    assert refused.code == 1
    assert "this vote is for another change than proposal" in refused.err


def test_apply_names_the_command_that_proposes(twins: Twins) -> None:
    for version, code in (("2", 1), ("1", 0)):
        path = twins.manifests / version
        one = here("apply", path, "--world", twins.folder)
        two = here("apply", path, "--node", twins.node)
        assert (one.code, two.code) == (code, code), two
        assert one.out == two.out
        said = two.err.replace(f"--node {twins.node}", f"--world {twins.folder}")
        assert one.err == said


def test_a_client_proposes_and_applies(twins: Twins) -> None:
    loaded = load_manifest_files(twins.manifests / "2")
    with Client(str(twins.node)) as client:
        made = client.govern("propose", loaded, note="by a program")
        assert isinstance(made, Admitted)
        refused = client.apply_manifest(made.seq)
        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.PROPOSAL_LACKS_QUORUM
        assert client.try_manifest(made.seq)["changes"]
        gone = client.govern("withdraw", proposal=made.seq)
        assert isinstance(gone, Admitted)
        row = client.document("/v1/proposals")["proposals"][-1]
        assert (row["status"], row["note"]) == ("withdrawn", "by a program")
