"""``aos gateway park``, ``resume``, ``cancel`` and ``reconcile`` in a world (C-125)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from aos_gateway import sending
from tests.cli.shell import in_silence, start
from tests.gateway.commands.conftest import EXECUTORS, Busy, Gateway, gateway_in
from tests.gateway.commands.samples import WORK
from tests.node.test_node_process import wait_until

NOT_RUN = "no process runs this world: recorded, and it takes effect at the next aos run\n"


@pytest.fixture(scope="module")
def running(ran: Busy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """A world that a process runs, with executors. Each test commands other records."""
    gateway = gateway_in(tmp_path_factory.mktemp("running"), ran.gateway.world)
    process = start(
        "run", *EXECUTORS, "--secrets", gateway.secrets, "--world", gateway.world,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until((gateway.world / "aos.sock").exists)
        yield ran._replace(gateway=gateway)
    finally:
        process.kill()
        process.wait()


def run(gateway: Gateway) -> None:
    assert in_silence(
        "run", "--until-waiting", *EXECUTORS, "--secrets", gateway.secrets,
        "--world", gateway.world,
    ) == 0  # fmt: skip


def test_without_a_process_a_command_is_recorded_and_takes_effect_at_the_next_run(
    busy: Busy,
) -> None:
    gateway, before = busy.gateway, busy.gateway.seq

    sent = gateway("park", busy.first, busy.lane, "--why", "maintenance")

    assert (sent.code, sent.err) == (0, NOT_RUN)
    assert sent.out == (
        f"work {busy.first}: record {before + 1}\nlane {busy.lane}: record {before + 2}\n"
    )
    assert gateway("show", busy.first, "--json").json["state"] == "RUNNING"
    run(gateway)
    shown = gateway("show", busy.first, "--json").json
    assert (shown["state"], shown["stall"], shown["stall_why"]) == (
        "STALLED", "parked", "maintenance",
    )  # fmt: skip


def test_a_running_world_prints_what_became_of_a_command(running: Busy) -> None:
    gateway = running.gateway

    parked = gateway("park", running.score, "--why", "maintenance", "--json")
    again = gateway("park", running.score)
    resumed = gateway("resume", running.score)

    assert parked.code == 0
    document = parked.json
    assert (document["command"], document["running"], document["unanswered"]) == ("park", True, 0)
    [found] = document["commands"]
    assert (found["key"], found["refused"]) == (running.score, None)
    assert (found["before"]["state"], found["before"]["stall"]) == ("STALLED", "auto")
    assert (found["after"]["state"], found["after"]["stall"]) == ("STALLED", "parked")
    assert found["note"].startswith("Park (maintenance)")
    assert "STALLED (parked) SUBMIT_SCORE: Park" in again.out
    assert "STALLED (parked) SUBMIT_SCORE → " in resumed.out
    assert "resumed" in resumed.out


def test_a_command_that_the_world_does_not_run_in_time_is_reported(
    running: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ANSWER_S", 0.0)

    found = running.gateway("reconcile", running.epoch)
    document = running.gateway("reconcile", running.epoch, "--json")

    assert found.code == document.code == 4
    assert found.err == (
        "1 of 1 command recorded, but not run by the world yet (aos gateway show KEY)\n"
    )
    assert (document.json["unanswered"], document.json["commands"][0]["after"]) == (1, None)


def sent(gateway: Gateway, *words: str) -> list[str]:
    found = gateway(*words, "--json")
    assert found.code == 0, found.err
    return [each["key"] for each in found.json["commands"]]


def test_all_means_the_cells_that_the_command_fits(busy: Busy) -> None:
    gateway = busy.gateway
    works = sorted([busy.first, busy.second])

    assert sent(gateway, "resume", "--all") == [busy.score, busy.epoch]
    assert sent(gateway, "reconcile", "--all") == [*works, busy.score, busy.epoch, busy.lane]
    assert sent(gateway, "reconcile", "--all", "--type", "work") == works
    assert sent(gateway, "reconcile", "--all", "--state", "COMPLETED") == []
    assert sent(gateway, "cancel", "--all", "--type", "lane") == []
    assert sent(gateway, "park", "--all") == [*works, busy.score, busy.epoch, busy.lane]
    run(gateway)
    assert sent(gateway, "park", "--all") == []
    assert sent(gateway, "resume", "--all", "--type", "lane") == [busy.lane]


def test_park_all_leaves_nothing_open_and_resume_all_continues(busy: Busy) -> None:
    gateway = busy.gateway

    gateway("park", "--all", "--why", "a new manifest")
    run(gateway)
    parked = gateway("list", "--json").json["rows"]
    gateway("resume", "--all")
    run(gateway)

    assert {each["stall"] for each in parked} == {"parked"}
    rows = {each["key"]: each for each in gateway("list", "--json").json["rows"]}
    assert (rows[busy.first]["state"], rows[busy.lane]["state"]) == ("RUNNING", "RUNNING")


def test_a_canceled_record_is_not_created_again(busy: Busy) -> None:
    gateway = busy.gateway
    gateway("cancel", busy.score, "--why", "no longer wanted")
    run(gateway)

    shown = gateway("show", busy.score)
    again = gateway.create_score(busy.first)

    assert "the record FAILED in SUBMIT_SCORE: CANCELED (an operator canceled" in shown.out
    assert again.err == "it exists with the same input (FAILED): nothing has changed\n"


def test_an_unknown_key_sends_nothing_also_to_the_others(busy: Busy) -> None:
    before = busy.gateway.seq

    found = busy.gateway("park", busy.first, WORK.text)

    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"aos: there is no work {WORK.text} (")
    assert busy.gateway.seq == before


def test_a_key_that_is_given_twice_gets_one_command(busy: Busy) -> None:
    assert sent(busy.gateway, "park", busy.first, busy.first.upper().replace("0X", "0x")) == [
        busy.first
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("park",),
        ("park", WORK.text, "--all"),
        ("park", WORK.text, "--type", "work"),
        ("park", WORK.text, "--state", "FAILED"),
    ],
)
def test_a_command_has_keys_or_all(ran: Busy, words: tuple[str, ...]) -> None:
    found = ran.gateway(*words)

    assert found.code == 2
    assert found.err == (
        "aos: gateway park: expected KEY…, or --all with an optional --type T and --state S "
        "(see aos gateway park --help)\n"
    )


def test_a_reason_has_at_most_1024_bytes(ran: Busy) -> None:
    found = ran.gateway("park", ran.first, "--why", "ä" * 513)

    assert (found.code, found.err) == (
        2, "aos: --why: expected at most 1,024 bytes, found 1,026\n",
    )  # fmt: skip


def test_nothing_to_command_is_no_error(ran: Busy) -> None:
    found = ran.gateway("resume", "--all", "--state", "failed")

    assert (found.code, found.out) == (0, "")
    assert found.err == "no record or lane is in such a state: nothing was sent\n"
