"""``aos cosign FILE``: sign a checkpoint as a witness, without a server (spec/cli.md, C-133)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from aos.host.checkpoints.witness_service import cosign_file
from aos.values.spelling import time_text
from aos_cli.commands.key import Name, StateFolder
from aos_cli.options import Json, argument, option
from aos_cli.output import line, print_json

_SECOND_NS = 10**9


def cosign(
    file: Annotated[Path, argument("FILE", "Checkpoint to sign.")],
    *,
    key: Annotated[Path, option("FILE", "Secret key of the witness (aos key new).")],
    log: Annotated[
        list[str],
        option(
            "VKEY",
            "Verifier key of the log, as aos checkpoint prints it. Checkpoints of others are "
            "refused. May be given several times.",
        ),
    ],
    proof: Annotated[
        Path | None,
        option(
            "FILE",
            "Proof that the checkpoint continues the last one that this witness signed (aos "
            "proof since CHECKPOINT).",
        ),
    ] = None,
    name: Name = None,
    state: StateFolder = None,
    json: Json = False,
) -> None:
    cosignature = cosign_file(file, key_file=key, logs=log, proof=proof, name=name, state=state)
    if json:
        print_json(
            {
                "file": str(file),
                "origin": cosignature.checkpoint.origin,
                "frames": cosignature.checkpoint.size,
                "witness": cosignature.name,
                "time": cosignature.time,
            }
        )
        return
    line(
        f"cosigned {cosignature.checkpoint.size:,} frames of {cosignature.checkpoint.origin}",
        style="bold",
    )
    line(f"  as {cosignature.name} at {time_text(cosignature.time * _SECOND_NS)}, in {file}")
