"""The contract Studio on a real node: each rule, each view, each custom error, each event."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chain import Chain, Settings

from tests.gateway import GATEWAY
from tests.gateway.real_chain import chain_up, require_solc
from tests.gateway.studio_calls import ABI, Reverted, commitment, send, view

BUILD = GATEWAY / "contracts" / "build"
NO_ONE = "0x" + "00" * 20
WORK, OTHER = b"\x11" * 32, b"\x22" * 32
SALT = b"\x07" * 32
DELAY, WINDOW = 100, 1000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    settings = Settings(
        block_time=None,
        automine=True,
        has_arweave=False,
        keeps_state=False,
        reveal_delay=DELAY,
        reveal_window=WINDOW,
    )
    with chain_up(tmp_path_factory.mktemp("chain"), settings) as chain:
        yield chain


@pytest.fixture
def chain(running: Chain) -> Iterator[Chain]:
    """The same node for all tests, with the contract as it was after its creation."""
    before = running.rpc("evm_snapshot")
    yield running
    assert running.rpc("evm_revert", [before])


class Actors:
    """The accounts of these tests by their parts."""

    def __init__(self, chain: Chain) -> None:
        self.worker, self.validator, self.admin, self.stranger = (
            chain.address(role) for role in ("SIGNER", "VALIDATOR", "ADMIN", "STRANGER")
        )


@pytest.fixture
def actors(chain: Chain) -> Actors:
    return Actors(chain)


@pytest.fixture
def submitted(chain: Chain, actors: Actors) -> Chain:
    """One work in epoch 7."""
    send(chain, actors.worker, "submitWork", WORK, 7, "item")
    return chain


def refused(chain: Chain, by: str, function: str, *arguments: Any) -> tuple[str, tuple[Any, ...]]:
    with pytest.raises(Reverted) as problem:
        send(chain, by, function, *arguments)
    return problem.value.name, problem.value.arguments


def at(chain: Chain, seconds: int) -> None:
    """Set the time of the next block, which calls at `latest` see too."""
    chain.rpc("evm_setNextBlockTimestamp", [seconds])
    chain.mine()


# Works


def test_a_work_is_submitted_once_and_the_views_tell_by_whom(chain: Chain, actors: Actors) -> None:
    assert view(chain, "submitterOf", WORK) == NO_ONE
    assert view(chain, "workOf", WORK) == (NO_ONE, 0, "")

    events = send(chain, actors.worker, "submitWork", WORK, 7, "the item")

    assert events == [
        {
            "event": "WorkSubmitted",
            "dataHash": WORK,
            "by": actors.worker,
            "epoch": 7,
            "arweaveId": "the item",
        }
    ]
    assert view(chain, "submitterOf", WORK) == actors.worker
    assert view(chain, "workOf", WORK) == (actors.worker, 7, "the item")
    assert view(chain, "worksIn", 7) == 1
    assert view(chain, "worksIn", 8) == 0


def test_a_submitted_work_is_refused_with_the_name_of_its_submitter(
    submitted: Chain, actors: Actors
) -> None:
    expected = ("AlreadySubmitted", (WORK, actors.worker))

    assert refused(submitted, actors.stranger, "submitWork", WORK, 8, "x") == expected
    assert refused(submitted, actors.worker, "submitWork", WORK, 7, "item") == expected


def test_registering_appends_each_time(submitted: Chain, actors: Actors) -> None:
    first = send(submitted, actors.worker, "registerWork", WORK)
    second = send(submitted, actors.worker, "registerWork", WORK)

    assert [each["index"] for each in (*first, *second)] == [0, 1]
    assert first[0]["event"] == "WorkRegistered"
    assert view(submitted, "registrationsOf", WORK, actors.worker) == 2
    assert view(submitted, "registrationsOf", WORK, actors.stranger) == 0
    assert view(submitted, "registrationCount") == 2
    assert view(submitted, "registration", 1) == (WORK, actors.worker)


def test_only_the_submitter_registers_a_work(submitted: Chain, actors: Actors) -> None:
    assert refused(submitted, actors.stranger, "registerWork", WORK) == (
        "NotTheSubmitter",
        (WORK, actors.stranger),
    )
    assert refused(submitted, actors.worker, "registerWork", OTHER) == ("UnknownWork", (OTHER,))
    assert view(submitted, "registrationCount") == 0


# Scores in one step


def test_a_direct_score_is_stored_with_its_commitment_of_salt_zero(
    submitted: Chain, actors: Actors
) -> None:
    score = (WORK, actors.worker, actors.validator)

    events = send(submitted, actors.validator, "submitScore", WORK, actors.worker, [80, 90])

    assert [each["event"] for each in events] == ["ScoreSubmitted"]
    assert view(submitted, "scoreStatusOf", *score) == 2
    assert view(submitted, "scoresOf", *score) == (80, 90)
    assert view(submitted, "commitmentOf", *score) == commitment(*score, [80, 90], bytes(32))
    assert view(submitted, "revealWindowOf", *score) == (0, 0)


@pytest.mark.parametrize("count", [0, 33])
def test_scores_are_1_to_32_numbers(submitted: Chain, actors: Actors, count: int) -> None:
    by, worker = actors.validator, actors.worker

    expected = ("Error", ("expected 1 to 32 scores",))

    assert refused(submitted, by, "submitScore", WORK, worker, [1] * count) == expected
    assert refused(submitted, by, "revealScore", WORK, worker, [1] * count, SALT) == expected
    assert send(submitted, by, "submitScore", WORK, worker, [65535] * 32)


@pytest.mark.parametrize(
    ("function", "last"),
    [("submitScore", [80]), ("commitScore", b"\x01" * 32)],
    ids=["direct", "commit"],
)
def test_a_score_needs_a_work_of_this_worker_in_an_open_epoch_and_is_given_once(
    submitted: Chain, actors: Actors, function: str, last: Any
) -> None:
    by, worker, other = actors.validator, actors.worker, actors.stranger

    assert refused(submitted, by, function, OTHER, worker, last) == ("UnknownWork", (OTHER,))
    assert refused(submitted, by, function, WORK, other, last) == ("NotTheWorker", (WORK, other))
    send(submitted, by, function, WORK, worker, last)
    for again, given in (("submitScore", [80]), ("commitScore", b"\x01" * 32)):
        assert refused(submitted, by, again, WORK, worker, given) == (
            "AlreadyScored",
            (WORK, worker, by),
        )
    send(submitted, other, "closeEpoch", 7)
    assert refused(submitted, actors.admin, function, WORK, worker, last) == ("EpochClosed", (7,))


# Scores in two steps


def committed(chain: Chain, actors: Actors, scores: list[int]) -> tuple[int, int]:
    """Commit to scores; return the window of their reveal."""
    score = (WORK, actors.worker, actors.validator)
    hidden = commitment(*score, scores, SALT)
    events = send(chain, actors.validator, "commitScore", WORK, actors.worker, hidden)
    assert [each["event"] for each in events] == ["ScoreCommitted"]
    assert view(chain, "scoreStatusOf", *score) == 1
    assert view(chain, "commitmentOf", *score) == hidden
    assert view(chain, "scoresOf", *score) == ()
    opens, closes = view(chain, "revealWindowOf", *score)
    return opens, closes


def test_a_reveal_opens_after_the_delay_and_closes_after_the_window(
    submitted: Chain, actors: Actors
) -> None:
    opens, closes = committed(submitted, actors, [70])
    now = int(submitted.rpc("eth_getBlockByNumber", ["latest", False])["timestamp"], 16)
    reveal = ("revealScore", WORK, actors.worker, [70], SALT)

    assert (opens, closes) == (now + DELAY, now + DELAY + WINDOW)
    at(submitted, opens - 1)
    assert refused(submitted, actors.validator, *reveal) == ("WindowNotOpen", (opens,))
    at(submitted, closes)
    assert refused(submitted, actors.validator, *reveal) == ("WindowClosed", (closes,))


@pytest.mark.parametrize("is_last", [False, True])
def test_a_reveal_in_its_window_scores_even_after_the_epoch_has_closed(
    submitted: Chain, actors: Actors, *, is_last: bool
) -> None:
    opens, closes = committed(submitted, actors, [70, 71])
    send(submitted, actors.admin, "closeEpoch", 7)
    reveal = ("revealScore", WORK, actors.worker, [70, 71], SALT)
    at(submitted, closes - 1 if is_last else opens)
    submitted.rpc("evm_setNextBlockTimestamp", [closes - 1 if is_last else opens + 1])

    events = send(submitted, actors.validator, *reveal)

    assert [each["event"] for each in events] == ["ScoreSubmitted"]
    score = (WORK, actors.worker, actors.validator)
    assert view(submitted, "scoreStatusOf", *score) == 2
    assert view(submitted, "scoresOf", *score) == (70, 71)
    assert refused(submitted, actors.validator, *reveal) == ("AlreadyScored", score)


def test_a_reveal_must_match_its_commitment(submitted: Chain, actors: Actors) -> None:
    opens, _ = committed(submitted, actors, [70])
    at(submitted, opens)
    score = (WORK, actors.worker, actors.validator)

    for scores, salt in (([71], SALT), ([70], OTHER), ([70, 70], SALT)):
        reveal = ("revealScore", WORK, actors.worker, scores, salt)
        assert refused(submitted, actors.validator, *reveal) == ("WrongReveal", score)
    assert refused(submitted, actors.admin, "revealScore", WORK, actors.worker, [70], SALT) == (
        "NotCommitted",
        (WORK, actors.worker, actors.admin),
    )


def test_a_validator_is_registered_for_a_score_each_time(submitted: Chain, actors: Actors) -> None:
    score = (WORK, actors.worker, actors.validator)
    opens, _ = committed(submitted, actors, [70])

    assert refused(submitted, actors.admin, "registerValidator", *score) == ("NotCommitted", score)
    at(submitted, opens)
    send(submitted, actors.validator, "revealScore", WORK, actors.worker, [70], SALT)
    events = [send(submitted, actors.admin, "registerValidator", *score)[0] for _ in range(2)]

    assert [(each["event"], each["index"]) for each in events] == [
        ("ValidatorRegistered", 0),
        ("ValidatorRegistered", 1),
    ]
    assert view(submitted, "validatorRegistrationsOf", *score) == 2


# Epochs


def test_an_epoch_with_works_is_closed_once_and_then_takes_no_work(
    submitted: Chain, actors: Actors
) -> None:
    assert view(submitted, "closerOf", 7) == NO_ONE
    assert refused(submitted, actors.admin, "closeEpoch", 8) == ("EpochEmpty", (8,))

    events = send(submitted, actors.admin, "closeEpoch", 7)

    assert events == [{"event": "EpochEnded", "epoch": 7, "by": actors.admin}]
    assert view(submitted, "closerOf", 7) == actors.admin
    assert refused(submitted, actors.worker, "closeEpoch", 7) == ("EpochClosed", (7,))
    assert refused(submitted, actors.worker, "submitWork", OTHER, 7, "x") == ("EpochClosed", (7,))
    assert view(submitted, "worksIn", 7) == 1


def test_a_view_of_a_registration_that_is_not_there_panics(chain: Chain, actors: Actors) -> None:
    assert refused(chain, actors.worker, "registration", 0) == ("Panic", (0x32,))


# The build


def test_every_error_and_event_of_the_contract_is_tested_here() -> None:
    tested = set(re.findall(r'"([A-Z]\w+)"', Path(__file__).read_text("utf-8")))

    assert {name for kind, name in ABI if kind in ("error", "event")} <= tested


def test_the_source_compiles_to_the_committed_bytes() -> None:
    require_solc()

    ran = subprocess.run(
        [sys.executable, BUILD, "--check"], check=False, capture_output=True, text=True
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.rstrip().endswith("identical")


def build_with(answer: dict[str, Any], folder: Path, *options: str) -> tuple[int, str]:
    """Run a copy of the build, with a program in place of node that answers as told."""
    contracts = folder / "contracts"
    contracts.mkdir(exist_ok=True)
    for name in ("build", "compile.js", "Studio.sol", "Studio.json"):
        (contracts / name).write_bytes((BUILD.parent / name).read_bytes())
    solc = folder / "tools" / "node_modules" / "solc"
    solc.mkdir(parents=True, exist_ok=True)
    (solc / "package.json").write_text("{}")
    node = folder / "node"
    node.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n")
    node.chmod(0o755)
    command = [sys.executable, str(contracts / "build"), *options]
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"PATH": str(folder)}
    )
    same = (contracts / "Studio.json").read_bytes() == (BUILD.parent / "Studio.json").read_bytes()
    return ran.returncode, ran.stdout + ran.stderr + ("unchanged" if same else "changed")


def test_the_check_fails_for_other_bytes_and_changes_no_file(tmp_path: Path) -> None:
    compiled = {"abi": [], "evm": {"bytecode": {"object": "6001"}}}
    answer = {"version": "0", "output": {"contracts": {"Studio.sol": {"Studio": compiled}}}}

    code, printed = build_with(answer, tmp_path, "--check")

    assert code == 1
    assert "DIFFERS" in printed
    assert printed.endswith("unchanged")
    code, printed = build_with(answer, tmp_path)
    assert code == 0
    assert printed.endswith("written\nchanged")


def test_a_warning_of_the_compiler_fails_the_build(tmp_path: Path) -> None:
    answer = {"version": "0", "output": {"errors": [{"formattedMessage": "Warning: unused"}]}}

    code, printed = build_with(answer, tmp_path)

    assert code == 1
    assert "the compiler refused Studio.sol:\nWarning: unused" in printed
    assert printed.endswith("unchanged")


def test_a_build_without_node_says_what_to_install(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BUILD],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )

    assert ran.returncode == 3
    assert "node was not found on the PATH" in ran.stderr


def test_the_bytecode_has_no_metadata_and_runs_on_a_chain_of_paris() -> None:
    compiled = json.loads((BUILD.parent / "Studio.json").read_text("utf-8"))

    assert compiled["compiler"]["settings"]["evmVersion"] == "paris"
    assert "a264697066735822" not in compiled["bytecode"], "the CBOR that begins with ipfs"
    assert "64736f6c63" not in compiled["bytecode"], "the CBOR key solc"
