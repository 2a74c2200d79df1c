"""``make_requests.py``: the same works and scores each time, as the commands create them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

from aos_gateway.keys import read_key, read_work_key
from aos_gateway.policy import FIELDS
from aos_gateway.requests import content_type, score_request, work_request
from tests.gateway import GATEWAY

STUDIO = f"0x{'ab' * 20}"
SIGNERS = [f"0x{number:040x}" for number in (1, 2, 3)]


def made(*more: str) -> list[dict[str, Any]]:
    command = [
        sys.executable, str(GATEWAY / "make_requests.py"), "--studio", f"0x{STUDIO[2:].upper()}",
        "--signers", ",".join(SIGNERS), "--works", "8", "--scores", "7", *more,
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_equal_arguments_make_equal_lines_and_each_part_can_be_made_alone() -> None:
    whole = made()

    assert made() == whole
    assert made("--only", "works") == whole[:8]
    assert made("--only", "scores") == whole[8:]
    assert len({each["submission_id"] for each in whole}) == len(whole) == 15


def test_they_are_the_events_that_the_commands_send() -> None:
    lines = [each["value"] for each in made()]
    works, scores = {each["work"]: each for each in lines[:8]}, lines[8:]

    for each in works.values():
        assert set(each["policy"]) == set(FIELDS)
        evidence = base64.b64decode(each["evidence"])
        expected = work_request(
            chain=31337,
            studio=STUDIO,
            epoch=each["epoch"],
            signer=each["signer_address"],
            data_hash=None,
            arweave="main",
            content_type=content_type(None, GATEWAY / "report.json"),
            evidence=evidence,
            policy=each["policy"],
        )
        assert expected.value == {**each, "evidence": evidence}
    for each in scores:
        work = works[each["score"].rsplit("/", 2)[0]]
        mode = {"Direct": "direct", "CommitReveal": "commit-reveal"}[each["mode"]["$tag"]]
        expected = score_request(
            work=read_work_key(work["work"], "--work"),
            of_work=work,
            validator=each["signer_address"],
            admin=each["admin_address"],
            scores=each["scores"],
            mode=mode,
            policy=each["policy"],
        )
        assert expected.value == each
        assert read_key(each["score"]) == expected.key


def test_signers_epochs_and_modes_take_turns() -> None:
    lines = [each["value"] for each in made()]

    assert [each["epoch"] for each in lines[:8]] == [7, 8] * 4
    assert [each["signer_address"] for each in lines[:4]] == [*SIGNERS, SIGNERS[0]]
    assert [each["mode"]["$tag"] for each in lines[8:]] == (
        ["Direct"] * 3 + ["CommitReveal"] * 3 + ["Direct"]
    )
    assert all(each["worker_address"] != each["signer_address"] for each in lines[8:])
