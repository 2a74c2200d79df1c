"""The commands that the gateway adds to ``aos`` (spec/extending.md, EP-10)."""

from __future__ import annotations

from typing import Final

from aos_cli.extension import Command

_STUDIO: Final = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
_SIGNER: Final = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

COMMANDS: Final = (
    Command(
        "gateway",
        "Send works, scores and epochs to Arweave and an EVM chain, once each.",
        (
            "aos gateway list --stalled",
            "aos gateway reconcile --all",
        ),
    ),
    Command(
        "gateway create-work",
        "Create a work: upload its evidence, submit and register it.",
        (
            f"aos gateway create-work --studio {_STUDIO} --epoch 7 --signer {_SIGNER} \
  --evidence report.json",
        ),
        "aos_gateway.commands.create:create_work",
        is_writing=True,
    ),
    Command(
        "gateway create-score",
        "Create a score of a work, direct or by commit and reveal.",
        (f'aos gateway create-score --work "$WORK" --validator {_SIGNER} --scores 80,90',),
        "aos_gateway.commands.create:create_score",
        is_writing=True,
    ),
    Command(
        "gateway close-epoch",
        "Close an epoch of a studio.",
        (f"aos gateway close-epoch --studio {_STUDIO} --epoch 7 --signer {_SIGNER}",),
        "aos_gateway.commands.create:close_epoch",
        is_writing=True,
    ),
    Command(
        "gateway list",
        "List records and lanes, each with the reason if it waits.",
        ("aos gateway list", "aos gateway list --type work --state FAILED"),
        "aos_gateway.commands.records:list_cells",
    ),
    Command(
        "gateway show",
        "Show a record or a lane: attempts, why it waits, and what to do.",
        ('aos gateway show "$WORK"', f"aos gateway show 31337/{_SIGNER}"),
        "aos_gateway.commands.records:show",
    ),
    Command(
        "gateway park",
        "Stop records and lanes, with nothing open, until they are resumed.",
        ("aos gateway park --all --why 'a new manifest'",),
        "aos_gateway.commands.records:park",
        is_writing=True,
    ),
    Command(
        "gateway resume",
        "Resume records and lanes that are stalled.",
        ("aos gateway resume --all", 'aos gateway resume "$WORK"'),
        "aos_gateway.commands.records:resume",
        is_writing=True,
    ),
    Command(
        "gateway cancel",
        "Cancel records before their next step.",
        ("""aos gateway cancel "$WORK" --why 'sent twice'""",),
        "aos_gateway.commands.records:cancel",
        is_writing=True,
    ),
    Command(
        "gateway reconcile",
        "Compare records and lanes with the chain now.",
        ("aos gateway reconcile --all", "aos gateway reconcile --all --state COMPLETED"),
        "aos_gateway.commands.records:reconcile",
    ),
    Command(
        "gateway demo",
        "Run works on a chain where all goes wrong, and check everything.",
        ("aos gateway demo", "aos gateway demo there --works 20 --scores 10"),
        "aos_gateway.commands.demo:demo",
    ),
)
