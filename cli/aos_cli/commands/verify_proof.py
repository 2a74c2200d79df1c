"""``aos verify-proof FILE``: check a proof, without any world (spec/cli.md, C-135)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

from aos.errors import BadUsage
from aos.host.checkpoints.attestations import NotStamped, verified_time, witness_key
from aos.host.checkpoints.named_files import read_named
from aos.manifest.keys import parse_key
from aos.prove.proofs.checking import CheckedProof, check
from aos.prove.proofs.proof_file import PROOF_BYTES_MAX, CheckpointAnchor, read_proof
from aos.prove.proofs.trust import TrustPolicy, Verdict, judge
from aos.values.digests import hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos_cli.options import Json, argument, option
from aos_cli.output import line, note, print_json

NOT_TRUSTED = 1

P = TypeVar("P")


def verify_proof(
    file: Annotated[Path, argument("FILE", "Proof to check (aos proof).")],
    *,
    world: Annotated[str | None, option("HASH", "Id of the world that you trust.")] = None,
    key: Annotated[str | None, option("KEY", "Public key of the world that you trust.")] = None,
    witness: Annotated[
        list[str] | None,
        option(
            "VKEY", "Verifier key of a witness that must have cosigned. May be given several times."
        ),
    ] = None,
    witnesses: Annotated[
        int | None,
        option("N", "How many of the witnesses must have cosigned (default: all).", min=0),
    ] = None,
    ca: Annotated[
        Path | None,
        option(
            "FILE",
            "Certificates (PEM) of the authority that must have time-stamped the checkpoint.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    policy = _policy(world, key, witness or [], witnesses)
    checked_proof = check(read_proof(read_named(file, PROOF_BYTES_MAX)))
    verdict = judge(checked_proof, policy)
    stamped, problem = _stamped(checked_proof, ca)
    problems = [*verdict.problems, *([problem] if problem is not None else [])]
    if json:
        print_json(_document(checked_proof, verdict, stamped, problems))
    else:
        _show(verdict, stamped, problems)
    return NOT_TRUSTED if problems else 0


def _policy(
    world: str | None, key: str | None, witness: list[str], witnesses: int | None
) -> TrustPolicy:
    keys = tuple(map(witness_key, witness))
    witnesses_min = len({note_key.public for note_key in keys}) if witnesses is None else witnesses
    return TrustPolicy(
        world=_option("--world", world, parse_hash),
        key=_option("--key", key, parse_key),
        witnesses=keys,
        witnesses_min=witnesses_min,
    )


def _option(name: str, text: str | None, parse: Callable[[str], P]) -> P | None:
    try:
        return None if text is None else parse(text)
    except ValueProblem as problem:
        raise BadUsage(f"{name}: {problem}") from None


def _stamped(checked_proof: CheckedProof, ca: Path | None) -> tuple[str | None, str | None]:
    """The time of the time-stamp, and why it is not accepted."""
    anchor = checked_proof.proof.anchor
    reply = anchor.timestamp if isinstance(anchor, CheckpointAnchor) else None
    if ca is None:
        return None, None
    if reply is None or checked_proof.note is None:
        return None, "the proof has no time-stamp"
    try:
        return verified_time(checked_proof.note, reply, ca).isoformat(), None
    except NotStamped as problem:
        return None, f"the time-stamp is not accepted: {problem}"


def _document(
    checked_proof: CheckedProof, verdict: Verdict, stamped: str | None, problems: list[str]
) -> dict[str, object]:
    return {
        "holds": True,
        "trusted": not problems,
        "kind": checked_proof.proof.kind,
        "world": hash_text(checked_proof.world.world),
        "records": {role: record.seq for role, record in checked_proof.records.items()},
        "shown": list(verdict.shown_lines),
        "by": list(verdict.by),
        "witnesses": [{"name": name, "time": time} for name, time in verdict.cosigned],
        "time": stamped,
        "not_shown": list(verdict.not_shown),
        "problems": problems,
    }


def _show(verdict: Verdict, stamped: str | None, problems: list[str]) -> None:
    if problems:
        line("the proof holds, and is not trusted", style="bold yellow")
    else:
        line("the proof holds", style="bold green")
    for text in verdict.shown_lines:
        line(f"  {text}")
    for text in verdict.by:
        line(f"  by: {text}")
    if stamped is not None:
        line(f"  by: a time-stamp of {stamped}")
    for text in verdict.not_shown:
        line(f"  not shown: {text}")
    for text in problems:
        note(f"aos: {text}", style="red")
