"""``aos proof``: make one file that proves a record, an effect or a cell (spec/cli.md, C-134)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from aos.host.checkpoints.named_files import write_named
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.prove.proofs.checking import check
from aos.prove.proofs.making import MadeProof
from aos.prove.proofs.trust import TrustPolicy, judge
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, option
from aos_cli.output import line, note, print_json, write


def proof(
    words: Annotated[
        list[str],
        argument(
            "SEQ|INTENT|WORKFLOW KEY|since CHECKPOINT",
            "A record number, an intent (its hash or at least 8 of its first digits), a cell, "
            "or an older checkpoint of this world.",
        ),
    ],
    *,
    out: Annotated[Path | None, option("FILE", "File for the proof (default: print it).")] = None,
    bundle: Annotated[
        Path | None, option("FILE", "Prove from this bundle instead of a world.")
    ] = None,
    archive: Annotated[
        list[Path] | None,
        option("FILE", "Archive with pruned records. May be given several times."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        option("FILE", "Use this checkpoint, such as one with cosignatures (default: the newest)."),
    ] = None,
    bare: Annotated[bool, flag("--bare", "Of an intent: omit values and manifest.")] = False,
    snapshot: Annotated[
        bool,
        flag(
            "--snapshot",
            "Of a cell: also prove that its record is the last one, or that the "
            "cell has no state, as of the newest snapshot.",
        ),
    ] = False,
    yes: Annotated[
        bool, flag("--yes", "With --snapshot: reveal keys of other cells without asking.")
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    request = ProofRequest(
        words=words,
        bare=bare,
        snapshot=snapshot,
        checkpoint=checkpoint,
        may_show=lambda number: yes or number == 0 or _may_show(number),
    )
    made_proof = prove(world, request, bundle=bundle, archives=archive or ())
    if out is None:
        write(made_proof.data.decode())
        return
    write_named(out, made_proof.data)
    if json:
        print_json(_document(made_proof, out))
    else:
        _show(made_proof, out)


def _may_show(number: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    question = f"the proof also shows keys and hashes of states of {count(number, 'cell')}: show"
    return typer.confirm(question, err=True)


def _document(made_proof: MadeProof, out: Path) -> dict[str, object]:
    proof = made_proof.proof
    return {
        "file": str(out),
        "bytes": len(made_proof.data),
        "kind": proof.kind,
        "world": hash_text(proof.worlds[0].world),
        "records": {role: record.seq for role, record in proof.records.items()},
        "anchor": "checkpoint" if made_proof.checkpoint is not None else "head",
        "frames": made_proof.checkpoint,
        "left_out": [hash_text(value) for value in made_proof.left_out],
    }


def _show(made_proof: MadeProof, out: Path) -> None:
    world = made_proof.proof.worlds[0].world
    line(f"proof: {out}, {len(made_proof.data):,} bytes", style="bold")
    for text in judge(check(made_proof.proof), TrustPolicy(world=world)).shown_lines:
        line(f"  {text}")
    for value in made_proof.left_out:
        line(f"  without the value {hash_text(value)}: it was erased, or is too long")
    if made_proof.checkpoint is None:
        note("the proof rests on the head: no witness has seen it (aos checkpoint)")
    line(f"next: aos verify-proof {shell_word(out)} --world {hash_text(world)}")
