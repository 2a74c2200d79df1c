"""``aos gateway list`` and ``show`` in a world (C-123, C-124)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos_gateway.waits import RUN
from tests.cli.shell import in_silence
from tests.gateway.commands.conftest import Busy, Gateway
from tests.gateway.commands.samples import LANE, OTHER, SIGNER, STUDIO


def keys(gateway: Gateway, *words: str) -> list[str]:
    return [each["key"] for each in gateway("list", *words, "--json").json["rows"]]


def test_records_and_lanes_are_one_table(ran: Busy) -> None:
    found = ran.gateway("list")

    rows = [line.split("\t") for line in found.out.splitlines()]
    assert rows[0] == ["type", "state", "step", "why", "key"]
    assert [row[:3] for row in rows[1:]] == [
        ["work", "RUNNING", "AWAIT_TX_CONFIRM"],
        ["work", "RUNNING", "AWAIT_TX_CONFIRM"],
        ["score", "STALLED (auto)", "SUBMIT_SCORE"],
        ["epoch", "STALLED (auto)", "CHECK_PRECONDITIONS"],
        ["lane", "RUNNING", ""],
    ]
    assert [row[3].split(" until ")[0] for row in rows[1:]] == [
        "waits for its transaction",
        "waits for its transaction",
        "WORK_NOT_SUBMITTED",
        "EPOCH_EMPTY",
        "waits for the chain, 1 queued",
    ]
    assert found.err == "5 rows\n"


def test_filters_select_by_type_state_and_studio(ran: Busy) -> None:
    gateway, works = ran.gateway, sorted([ran.first, ran.second])

    assert keys(gateway) == [*works, ran.score, ran.epoch, ran.lane]
    assert keys(gateway, "--type", "work") == works
    assert keys(gateway, "--stalled") == [ran.score, ran.epoch]
    assert keys(gateway, "--state", "stalled", "--type", "epoch") == [ran.epoch]
    assert keys(gateway, "--state", "running") == [*works, ran.lane]
    assert keys(gateway, "--studio", STUDIO) == [*works, ran.score, ran.epoch]
    assert keys(gateway, "--studio", OTHER) == []


def test_a_list_has_pages(ran: Busy) -> None:
    found = ran.gateway("list", "--limit", "2", "--offset", "1")
    page = ran.gateway("list", "--limit", "2", "--offset", "1", "--json").json

    assert len(found.out.splitlines()) == 3
    assert found.err == "5 rows, 2 shown (--limit, --offset)\n"
    assert (page["total"], page["offset"], page["next_offset"]) == (5, 1, 3)
    assert [each["type"] for each in page["rows"]] == ["work", "score"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list", "--type", "x"), "no type is 'x': expected one of work, score, epoch, lane"),
        (("list", "--state", "x"), "--state: expected PENDING, RUNNING"),
        (("list", "--state", "FAILED", "--stalled"), "expected one of --state and --stalled"),
        (("list", "--limit", "0"), "limit: expected 1 to 10000, found 0"),
        (("show", "31337"), "not the key of a record or a lane"),
    ],
)
def test_a_wrong_word_is_misuse(ran: Busy, words: tuple[str, ...], message: str) -> None:
    found = ran.gateway(*words)

    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_the_record_in_flight_shows_its_attempts_and_why_it_waits(ran: Busy) -> None:
    found = ran.gateway("show", ran.first)
    document = ran.gateway("show", ran.first, "--json").json

    assert f"lane\t{LANE.text}: RUNNING; request 1, place 1 of 2\n" in found.out
    assert f"in flight, nonce 4: the transaction of work {ran.first}; the lane watches" in found.out
    assert f"▸ run the world: {RUN}" in found.out
    assert "4\tAccepted (open)\t3 gwei\t1 gwei\t0xabab" in found.out
    assert f"its history: aos trace gw/work@1 {ran.first}\n" in found.err
    [attempt] = document["attempts"]
    assert (attempt["fate"], attempt["is_open"], attempt["nonce"]) == ("Accepted", True, 4)
    assert document["waits"][-1]["next"] == f"run the world: {RUN}"
    assert document["stored"]["progress"]["arweave_confirmed"] is True
    assert "evidence" not in document["stored"]


def test_the_record_that_waits_shows_its_place(ran: Busy) -> None:
    document = ran.gateway("show", ran.second, "--json").json

    assert document["attempts"] == []
    assert document["lane"] == {
        "key": ran.lane, "state": "RUNNING", "doing": "Awaiting", "stall": None, "code": None,
        "queued": 1, "nonce": 4, "request": 1, "place": 2, "of": 2,
    }  # fmt: skip
    assert document["waits"][0]["text"] == (
        f"request 1 is at lane {ran.lane}, place 2 of 2, after work {ran.first}"
    )


def test_a_lane_shows_its_queue_in_order(ran: Busy) -> None:
    found = ran.gateway("show", ran.lane.upper().replace("0X", "0x"))
    document = ran.gateway("show", ran.lane, "--json").json

    assert found.code == 0
    assert f"requests: 2\nplace\towner\trequest\n1\twork {ran.first}\t1\n2\twork" in found.out
    assert [(each["place"], each["owner"]["key"]) for each in document["queue"]] == [
        (1, ran.first), (2, ran.second),
    ]  # fmt: skip
    assert document["queue"][1] == {
        "place": 2, "owner": {"type": "work", "key": ran.second}, "request": 1, "to": STUDIO,
        "value": "0", "data_bytes": document["queue"][1]["data_bytes"],
    }  # fmt: skip
    assert document["queue"][1]["data_bytes"] > 100
    assert "queue" not in document["stored"]


def test_a_stalled_record_names_its_code_and_the_command_that_continues_it(ran: Busy) -> None:
    found = ran.gateway("show", ran.score)

    assert "STALLED (auto)" in found.out
    assert "automatic stall 1 of 5: WORK_NOT_SUBMITTED (the work is not on chain" in found.out
    assert f"to continue now: aos gateway resume {ran.score}\n" in found.out


@pytest.mark.parametrize("place", [30, -1])
def test_an_unknown_key_is_refused_with_the_one_that_is_meant(ran: Busy, place: int) -> None:
    letters = list(ran.first)
    letters[place] = "0" if letters[place] != "0" else "1"
    wrong = "".join(letters)

    found = ran.gateway("show", wrong)

    assert (found.code, found.out) == (1, "")
    assert found.err == f"aos: there is no work {wrong} (keys like it: {ran.first})\n"


def test_an_unknown_key_that_resembles_none_is_refused_without_one(ran: Busy) -> None:
    found = ran.gateway("show", f"31337/{OTHER}")

    assert found.err == (
        f"aos: there is no lane 31337/{OTHER} (aos gateway list prints all keys)\n"
    )
    assert SIGNER in ran.lane


def test_an_effect_that_is_held_is_named_in_the_list(gateway: Gateway) -> None:
    made = gateway.close_epoch("--json").json
    chainless = Path(__file__).parent / "chainless.py"
    in_silence("run", "--until-idle", "--executors", f"{chainless}:evm", "--world", gateway.world)

    listed = gateway("list").out
    shown = gateway("show", made["key"], "--json").json

    assert "asks" not in listed
    assert "\theld: chain_not_configured\t" in listed
    assert (shown["state"], shown["held"]) == ("RUNNING", "chain_not_configured")
    assert shown["waits"][0]["next"].startswith("set AOS_EVM_RPC='31337=URL', then run the world")
