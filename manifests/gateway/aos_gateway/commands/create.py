"""``aos gateway create-work``, ``create-score`` and ``close-epoch`` (spec/cli.md, C-120 to
C-122)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage, excerpt
from aos.read.views.view import check_word
from aos_cli.options import DEFAULT_WORLD, Json, World, number, option
from aos_cli.output import note, print_json
from aos_gateway import text
from aos_gateway.hex_text import read_address, read_hash
from aos_gateway.keys import read_work_key
from aos_gateway.policy import with_policy
from aos_gateway.requests import (
    MODES,
    Request,
    check_nat,
    epoch_request,
    read_evidence,
    read_scores,
    score_request,
    work_request,
)
from aos_gateway.requests import content_type as type_of
from aos_gateway.sending import create, input_of_work

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

Studio = Annotated[str, option("A", "Address of the studio, the contract that takes works.")]
Epoch = Annotated[int, option("N", "Number of the epoch.", parser=number)]
Signer = Annotated[str, option("A", "Address of the account that signs the transactions.")]
Chain = Annotated[int, option("N", "Id of the chain.", parser=number)]


@with_policy(has_upload=True)
def create_work(
    *,
    studio: Studio,
    epoch: Epoch,
    signer: Signer,
    evidence: Annotated[Path, option("FILE", "The evidence, of 1 to 524,288 bytes.")],
    data_hash: Annotated[
        str | None,
        option(
            "HASH", "Hash under which the contract has the work (default: BLAKE3 of the evidence)."
        ),
    ] = None,
    chain: Chain = 31337,
    arweave: Annotated[str, option("NAME", "Name of the gateway in AOS_ARWEAVE.")] = "main",
    content_type: Annotated[
        str | None,
        option(
            "TYPE",
            "Media type of the evidence (default: that of the file's name, else "
            "application/octet-stream).",
        ),
    ] = None,
    policy: dict[str, int],
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    request = work_request(
        chain=check_nat(chain, "--chain", least=1),
        studio=read_address(studio, "--studio"),
        epoch=check_nat(epoch, "--epoch"),
        signer=read_address(signer, "--signer"),
        data_hash=None if data_hash is None else read_hash(data_hash, "--data-hash"),
        arweave=_name(arweave),
        content_type=type_of(content_type, evidence),
        evidence=read_evidence(evidence),
        policy=policy,
    )
    _create(world, request, json=json)


@with_policy(has_upload=False)
def create_score(
    *,
    work: Annotated[str, option("KEY", "The work, a record of this world.")],
    validator: Annotated[str, option("A", "Address of the validator, who signs the score.")],
    scores: Annotated[str, option("LIST", "1 to 32 numbers from 0 to 65,535, such as 80,90.")],
    mode: Annotated[str, option("|".join(MODES), "direct (default), or commit-reveal.")] = "direct",
    admin: Annotated[
        str | None, option("A", "Address that registers the validator (default: the validator).")
    ] = None,
    policy: dict[str, int],
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    check_word("mode", mode, MODES)
    of_work = read_work_key(work, "--work")
    by = read_address(validator, "--validator")
    registrar = None if admin is None else read_address(admin, "--admin")
    numbers = read_scores(scores)
    work_input, failure = input_of_work(world, of_work)
    if failure is not None:
        note(f"the work has FAILED ({failure}), so the contract may not have it")
    request = score_request(
        work=of_work, of_work=work_input, validator=by, admin=registrar, scores=numbers, mode=mode,
        policy=policy,
    )  # fmt: skip
    _create(world, request, json=json)


@with_policy(has_upload=False)
def close_epoch(
    *,
    studio: Studio,
    epoch: Epoch,
    signer: Signer,
    chain: Chain = 31337,
    policy: dict[str, int],
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    request = epoch_request(
        chain=check_nat(chain, "--chain", least=1),
        studio=read_address(studio, "--studio"),
        epoch=check_nat(epoch, "--epoch"),
        signer=read_address(signer, "--signer"),
        policy=policy,
    )
    _create(world, request, json=json)


def _create(world: Path, request: Request, *, json: bool) -> None:
    answer = create(world, request)
    if json:
        print_json(answer.document)
    else:
        text.created(answer)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise BadUsage(
            "--arweave",
            expected="a name in AOS_ARWEAVE: 1 to 64 letters, digits, dots, dashes or _",
            actual=repr(excerpt(text, characters_max=80)),
        )
    return text
