"""``aos gateway create-work``, ``create-score`` and ``close-epoch`` in a world (C-120, C-121)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from aos.errors import Refused
from aos.host.folder.making import init_world
from aos_gateway.policy import policy_of
from aos_gateway.requests import epoch_request, work_request
from aos_gateway.sending import create, submit
from tests.cli.shell import here, in_silence
from tests.gateway.commands.conftest import Busy, Gateway
from tests.gateway.commands.samples import CHAIN, EPOCH, HASH, OTHER, SIGNER, STUDIO, WORK

EVIDENCE = '{"a":1}\n'
KEY = f"{CHAIN}/{STUDIO}/0x{blake3(EVIDENCE.encode()).hexdigest()}"
MIXED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def stored(gateway: Gateway, key: str) -> Any:
    """The event that created a record, as the journal has it."""
    seq = gateway("show", key, "--json").json["mail"]
    assert seq == 1, "it has not run"
    rows = here("inspect", "journal", "--world", gateway.world, "--kind", "event", "--json").lines
    return next(row["value"] for row in rows if key in json.dumps(row["value"]))


def test_a_work_is_printed_once_it_is_durable(gateway: Gateway) -> None:
    made = gateway.create_work()

    assert (made.code, made.err) == (
        0, "no process runs this world: the work starts when one does (aos run)\n",
    )  # fmt: skip
    names = dict(line.split("\t") for line in made.out.splitlines())
    assert (names["work"], int(names["record"])) == (KEY, gateway.seq)
    shown = gateway("show", KEY, "--json").json
    assert (shown["id"], shown["state"], shown["mail"]) == (names["id"], "PENDING", 1)


def test_the_same_create_changes_nothing_and_says_so(gateway: Gateway) -> None:
    first = gateway.create_work("--json").json
    before = gateway.seq

    again = gateway.create_work("--signer", MIXED, "--conf", "2", "--max-fee", "200gwei")
    document = gateway.create_work("--json")

    assert (again.code, gateway.seq) == (0, before)
    assert again.err == "it exists with the same input (PENDING): nothing has changed\n"
    assert document.json == first | {"created": False}
    assert first == {
        "type": "work", "key": KEY, "id": first["id"], "seq": before, "created": True,
        "state": "PENDING",
    }  # fmt: skip


def test_another_input_under_the_key_is_refused_with_each_option(gateway: Gateway) -> None:
    gateway.create_work()
    before = gateway.seq

    other = gateway.create_work("--epoch", "8", "--conf", "0", "--content-type", "text/plain")

    assert (other.code, other.out, gateway.seq) == (1, "", before)
    assert other.err == (
        f"aos: work {KEY} exists with another input: --epoch: the record has 7, found 8; "
        "--content-type: the record has application/json, found text/plain; --conf: the record has "
        f"2, found 0 (nothing has changed; aos gateway show {KEY})\n"
    )


def test_a_record_that_ran_or_ended_is_compared_in_the_same_way(busy: Busy) -> None:
    gateway, before = busy.gateway, busy.gateway.seq

    same = [
        gateway.create_work("--json"),
        gateway.create_score(busy.first, "--json"),
        gateway.close_epoch("--json"),
    ]
    others = [
        gateway.create_work("--epoch", "8"),
        gateway.create_score(busy.first, "--mode", "commit-reveal"),
        gateway.close_epoch("--signer", SIGNER),
    ]

    assert [(each.code, each.json["created"]) for each in same] == [(0, False)] * 3
    assert [each.json["state"] for each in same] == ["RUNNING", "STALLED", "STALLED"]
    assert [each.code for each in others] == [1] * 3
    assert "--mode: the record has Direct, found CommitReveal" in others[1].err
    assert gateway.seq == before


def test_other_evidence_under_the_same_hash_is_refused(busy: Busy) -> None:
    data_hash = busy.first.rpartition("/")[2]

    other = busy.gateway.create_work("--data-hash", data_hash, evidence='{"a":2}\n')

    assert other.code == 1
    assert "--evidence: the record has blake3:" in other.err


def epoch_by(signer: str) -> Any:
    return epoch_request(chain=CHAIN, studio=STUDIO, epoch=7, signer=signer, policy=policy_of())


def test_of_two_creates_at_the_same_time_the_kernel_accepts_one(gateway: Gateway) -> None:
    """K-12. Each has seen that there is no record."""
    first = submit(gateway.world, epoch_by(SIGNER))

    with pytest.raises(Refused) as refused:
        submit(gateway.world, epoch_by(OTHER))
    same = submit(gateway.world, epoch_by(SIGNER))

    assert str(refused.value) == (
        f"epoch {EPOCH.text} exists with another input: --signer: the record has {SIGNER}, found "
        f"{OTHER} (nothing has changed; aos gateway show {EPOCH.text})"
    )
    assert (same.seq, same.is_new, first.is_new) == (first.seq, False, True)


def test_a_record_that_an_operator_removed_is_not_taken_for_an_existing_one(busy: Busy) -> None:
    world = busy.gateway.world
    assert here("cells", "remove", "gw/epoch@1", busy.epoch, "--world", world).code == 0

    for signer in (OTHER, SIGNER):
        with pytest.raises(Refused, match="was created before, and an operator removed it since"):
            create(world, epoch_by(signer))


def test_a_record_of_another_program_has_no_known_event(gateway: Gateway) -> None:
    value = json.dumps(dict(epoch_by(SIGNER).value))
    assert here(
        "send", "gw/EpochCloseRequested@1", value, "--world", gateway.world
    ).code == 0  # fmt: skip

    found = gateway.close_epoch("--signer", SIGNER, "--json").json

    assert (found["seq"], found["created"]) == (None, False)


def test_the_event_has_addresses_in_lower_case_and_the_policy(gateway: Gateway) -> None:
    gateway.create_work("--signer", MIXED, "--retries", "9", "--wait", "2s", "--max-fee", "1.5gwei")

    event = stored(gateway, KEY)

    assert (event["work"], event["signer_address"]) == (KEY, SIGNER)
    assert event["policy"] == policy_of() | {
        "retries": 9, "wait_ms": 2_000, "max_fee": 1_500_000_000,
    }  # fmt: skip


def test_a_score_takes_its_input_from_the_work_also_before_that_has_run(gateway: Gateway) -> None:
    work = gateway.create_work("--json").json["key"]
    made = gateway.create_score(work, "--admin", MIXED, "--json")

    event = stored(gateway, made.json["key"])

    assert made.json["key"] == f"{work}/{SIGNER}/{OTHER}"
    assert (event["chain"], event["epoch"], event["studio_address"]) == (CHAIN, 7, STUDIO)
    assert (event["worker_address"], event["admin_address"]) == (SIGNER, SIGNER)


def test_a_score_of_a_work_that_ran_has_its_input(ran: Busy) -> None:
    assert ran.score == f"{ran.first}/{SIGNER}/{OTHER}"


def test_a_score_of_a_work_that_is_not_there_is_refused(gateway: Gateway) -> None:
    found = gateway.create_score(WORK.text)

    assert (found.code, found.out) == (1, "")
    assert found.err == (f"aos: there is no work {WORK.text} (aos gateway list prints all keys)\n")


def test_a_score_of_a_work_that_failed_is_created_with_a_warning(gateway: Gateway) -> None:
    value = dict(work_request_of_no_evidence().value) | {"evidence": ""}
    here("send", "gw/WorkRequested@1", json.dumps(value), "--world", gateway.world)
    assert in_silence("run", "--until-idle", "--world", gateway.world) == 0

    found = gateway.create_score(WORK.text)

    assert found.code == 0
    assert found.err.startswith(
        "the work has FAILED (INVALID_INPUT), so the contract may not have it\n"
    )


def work_request_of_no_evidence() -> Any:
    return work_request(
        chain=CHAIN, studio=STUDIO, epoch=7, signer=SIGNER, data_hash=HASH, arweave="main",
        content_type="text/plain", evidence=b"", policy=policy_of(),
    )  # fmt: skip


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("--signer", SIGNER[:-1]), "--signer: not an address: expected 0x and 40 hex digits"),
    (("--studio", MIXED.replace("C5", "c5")), "--studio: the checksum of the address fails (EIP-"),
    (("--data-hash", "0x12"), "--data-hash: not a hash: expected 0x and 64 hex digits, found 2 "),
    (("--epoch", "-1"), "--epoch: expected 0 to 18446744073709551615, found -1"),
    (("--epoch", "x"), "--epoch: expected a whole number, found 'x'"),
    (("--chain", "0"), "--chain: expected 1 to 18446744073709551615, found 0"),
    (("--arweave", "a=b"), "--arweave: expected a name in AOS_ARWEAVE"),
    (("--content-type", "json"), "--content-type: expected a media type"),
    (("--max-fee", "1ether"), "--max-fee: expected a fee such as 200gwei"),
    (("--wait", "51s"), "--wait: expected 1 to 50,000 ms, found 51,000"),
    (("--arweave-conf", "0"), "--arweave-conf: expected 1 to 10,000, found 0"),
    (("--evidence", "/nowhere/report.json"), "the evidence cannot be read: No such file"),
]


@pytest.mark.parametrize(("more", "message"), WRONG, ids=lambda value: str(value[0])[:20])
def test_invalid_input_is_refused_before_anything_is_sent(
    gateway: Gateway, more: tuple[str, ...], message: str
) -> None:
    before = gateway.seq

    found = gateway.create_work(*more)

    assert (found.code, found.out) == (2, "")
    assert message in found.err
    assert len(found.err.splitlines()) == 1
    assert gateway.seq == before


def test_evidence_over_the_limit_is_refused_and_at_the_limit_is_accepted(gateway: Gateway) -> None:
    over = gateway.create_work(evidence="e" * 524_289)
    limit = gateway.create_work("--json", evidence="e" * 524_288)

    assert (over.code, "found 524,289 bytes" in over.err) == (2, True)
    assert (limit.code, limit.json["created"]) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", WORK.text),
        ("park", WORK.text),
        ("reconcile", "--all"),
        ("close-epoch", "--studio", STUDIO, "--epoch", "7", "--signer", SIGNER),
        ("create-score", "--work", WORK.text, "--validator", OTHER, "--scores", "80"),
    ],
    ids=lambda words: words[0],
)
def test_without_the_manifest_no_command_works(tmp_path: Path, words: tuple[str, ...]) -> None:
    world = tmp_path / "world"
    init_world(world)

    found = here("gateway", *words, "--world", world)

    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "aos: the manifest in force has no gateway: expected the workflows gw/work@1, gw/score@1, "
        "gw/epoch@1, gw/signer@1, found no gw/work@1, no gw/score@1, no gw/epoch@1, no gw/signer@1 "
        "(aos apply manifests/gateway)\n"
    )
