"""The events that create records, and how an existing one differs (C-120)."""

from __future__ import annotations

from typing import Any

import pytest
from blake3 import blake3

from aos.errors import BadUsage
from aos.values.cbor import INTEGER_MAX
from aos_gateway.keys import score_key, work_key
from aos_gateway.policy import policy_of
from aos_gateway.requests import (
    OPTIONS,
    check_nat,
    differences,
    epoch_request,
    input_of,
    input_of_record,
    read_scores,
    score_request,
    work_request,
)
from tests.gateway.commands.samples import (
    CHAIN,
    EPOCH,
    HASH,
    OTHER,
    SCORE,
    SIGNER,
    STUDIO,
    WORK,
    checked,
    record,
)

EVIDENCE = b'{"a":1}\n'
EVIDENCE_HASH = f"blake3:{blake3(EVIDENCE).hexdigest()}"
WORK_INPUT = {
    "chain": CHAIN, "studio_address": STUDIO, "epoch": 7, "signer_address": SIGNER,
    "data_hash": HASH,
}  # fmt: skip


def a_work(**more: Any) -> Any:
    given: dict[str, Any] = {
        "chain": CHAIN, "studio": STUDIO, "epoch": 7, "signer": SIGNER, "data_hash": HASH,
        "arweave": "main", "content_type": "application/json", "evidence": EVIDENCE,
        "policy": policy_of(),
    }  # fmt: skip
    return work_request(**(given | more))


def a_score(**more: Any) -> Any:
    given: dict[str, Any] = {
        "work": WORK, "of_work": WORK_INPUT, "validator": OTHER, "admin": SIGNER,
        "scores": [80, 90], "mode": "direct", "policy": policy_of(),
    }  # fmt: skip
    return score_request(**(given | more))


def an_epoch(**more: Any) -> Any:
    given: dict[str, Any] = {
        "chain": CHAIN, "studio": STUDIO, "epoch": 7, "signer": SIGNER, "policy": policy_of(),
    }  # fmt: skip
    return epoch_request(**(given | more))


@pytest.mark.parametrize(
    ("request_", "key", "schema"),
    [
        (a_work(), WORK, "gw/WorkRequested@1"),
        (a_score(), SCORE, "gw/ScoreRequested@1"),
        (a_score(mode="commit-reveal"), SCORE, "gw/ScoreRequested@1"),
        (an_epoch(), EPOCH, "gw/EpochCloseRequested@1"),
    ],
)
def test_a_request_is_in_the_normal_form_of_its_schema(
    request_: Any, key: object, schema: str
) -> None:
    assert request_.key == key
    assert request_.key.kind.created_by == schema
    assert checked(schema, request_.value) == request_.value
    assert request_.submission_id == f"gateway/{request_.key.text}"
    assert len(request_.submission_id) <= 256


def test_the_longest_key_fits_into_a_submission_id() -> None:
    longest = score_key(work_key(INTEGER_MAX, STUDIO, HASH), SIGNER, OTHER)

    assert len(f"gateway/{longest.text}".encode()) <= 256


def test_without_a_hash_the_work_has_the_blake3_of_its_evidence() -> None:
    assert a_work(data_hash=None).key == work_key(
        CHAIN, STUDIO, f"0x{blake3(EVIDENCE).hexdigest()}"
    )


def test_without_an_admin_the_validator_registers_itself() -> None:
    assert a_score(admin=None).value["admin_address"] == OTHER


def stored(key: Any, **more: Any) -> Any:
    return input_of_record(record(key, **more))


def test_a_request_does_not_differ_from_the_record_that_it_created() -> None:
    of_work = a_work().input
    in_progress = record()["progress"] | {"evidence": EVIDENCE_HASH}

    assert list(differences(stored(WORK, progress=in_progress), of_work)) == []
    assert list(differences(stored(WORK, evidence=EVIDENCE), of_work)) == []
    assert list(differences(stored(WORK), of_work)) == []
    assert list(differences(stored(SCORE), a_score().input)) == []
    assert list(differences(stored(EPOCH), an_epoch().input)) == []
    assert list(differences(of_work, a_work().input)) == []


OTHERS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (WORK, a_work, {"epoch": 8}, "--epoch: the record has 7, found 8"),
    (WORK, a_work, {"signer": OTHER}, f"--signer: the record has {SIGNER}, found {OTHER}"),
    (WORK, a_work, {"arweave": "other"}, "--arweave: the record has main, found other"),
    (
        WORK, a_work, {"content_type": "text/plain"},
        "--content-type: the record has application/json, found text/plain",
    ),
    (WORK, a_work, {"evidence": b"e"}, "--evidence: the record has 8, found 1"),
    (SCORE, a_score, {"scores": [80]}, "--scores: the record has 80,90, found 80"),
    (
        SCORE, a_score, {"mode": "commit-reveal"},
        "--mode: the record has Direct, found CommitReveal",
    ),
    (SCORE, a_score, {"admin": OTHER}, f"--admin: the record has {SIGNER}, found {OTHER}"),
    (EPOCH, an_epoch, {"signer": OTHER}, f"--signer: the record has {SIGNER}, found {OTHER}"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "make", "other", "clause"), OTHERS)
def test_each_field_that_differs_is_named_by_its_option(
    key: Any, make: Any, other: dict[str, Any], clause: str
) -> None:
    assert list(differences(stored(key), make(**other).input)) == [clause]


def test_other_evidence_of_the_same_size_differs_by_its_hash() -> None:
    other = a_work(evidence=b'{"a":2}\n')

    [clause] = differences(stored(WORK, evidence=EVIDENCE), other.input)

    assert clause.startswith(f"--evidence: the record has {EVIDENCE_HASH}, found blake3:")
    [clause] = differences(stored(WORK, evidence=EVIDENCE), a_work(evidence=b"e").input)
    assert clause.startswith(f"--evidence: the record has {EVIDENCE_HASH}, found blake3:")


@pytest.mark.parametrize("name", policy_of())
def test_each_field_of_a_policy_that_differs_is_named_by_its_option(name: str) -> None:
    other = a_work(policy=policy_of() | {name: 7}).input

    [clause] = differences(stored(WORK), other)

    assert clause == f"{OPTIONS[f'policy.{name}']}: the record has {policy_of()[name]}, found 7"


def test_an_event_that_has_not_run_is_compared_like_a_record() -> None:
    waiting = input_of(WORK, a_work().value)

    assert list(differences(waiting, a_work(epoch=8).input)) == [
        "--epoch: the record has 7, found 8"
    ]


def test_scores_are_1_to_32_numbers_of_16_bits() -> None:
    assert read_scores("80, 90,0,65535") == [80, 90, 0, 65_535]
    assert len(read_scores(",".join(["7"] * 32))) == 32
    expected = "--scores: expected 1 to 32 numbers from 0 to 65,535, such as 80,90, found"
    for text, found in [
        ("", "''"),
        ("80,", "''"),
        ("80,-1", "'-1'"),
        ("65536", "'65536'"),
        ("9" * 5_000, repr("9" * 40)),
        ("8.5", "'8.5'"),
        ("٣", "'٣'"),
        (",".join(["7"] * 33), "33 numbers"),
    ]:
        with pytest.raises(BadUsage) as refused:
            read_scores(text)
        assert str(refused.value) == f"{expected} {found}"


def test_a_number_is_a_nat() -> None:
    assert check_nat(INTEGER_MAX, "--epoch") == INTEGER_MAX
    for number, least in ((-1, 0), (INTEGER_MAX + 1, 0), (0, 1)):
        with pytest.raises(BadUsage, match=f"--epoch: expected {least} to {INTEGER_MAX}, found"):
            check_nat(number, "--epoch", least=least)
