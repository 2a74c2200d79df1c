"""``aos gateway demo``: choose the folder, run the demo, and print its result (spec/cli.md,
C-126)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage
from aos_cli.demo.processes import Children, python, stoppable
from aos_cli.demo.stages import conclude, demo_folder_at
from aos_cli.options import argument, flag, number, option
from aos_cli.output import line
from aos_gateway.demo.chain import find_gateway_files, local_chain
from aos_gateway.demo.story import GatewayStory

WORKS_MIN: Final = 4
WORKS_MAX: Final = 400
SCORES_MIN: Final = 2
BLOCK_S: Final = "0.2"


def demo(
    directory: Annotated[
        Path | None,
        argument(
            "DIR",
            "New or empty folder for chain and world, kept afterwards (default: a temporary "
            "folder).",
        ),
    ] = None,
    *,
    works: Annotated[
        int, option("N", f"Number of works, {WORKS_MIN} to {WORKS_MAX}.", parser=number)
    ] = 60,
    scores: Annotated[
        int,
        option(
            "N",
            f"Number of scores, at least {SCORES_MIN} and at most one for each work.",
            parser=number,
        ),
    ] = 40,
    seed: Annotated[int, option("S", "Seed of what goes wrong at the node.", parser=number)] = 7,
    keep: Annotated[bool, flag("--keep", "Keep the temporary folder if no DIR is given.")] = False,
) -> int:
    if not WORKS_MIN <= works <= WORKS_MAX:
        raise BadUsage(f"--works: expected {WORKS_MIN} to {WORKS_MAX}, found {works}")
    if not SCORES_MIN <= scores <= works:
        raise BadUsage(f"--scores: expected {SCORES_MIN} to {works}, found {scores}")
    files = find_gateway_files()
    with (
        demo_folder_at(directory, is_kept=keep) as workspace,
        stoppable(),
        local_chain(files, workspace.folder / "chain", "--block-time", BLOCK_S) as chain,
        Children() as children,
    ):
        story = GatewayStory(
            chain, workspace.folder, children, works=works, scores=scores, seed=seed
        )
        story.tell()
        workspace.is_kept |= bool(story.failed)
    code = conclude(story, workspace, command="aos gateway demo")
    if workspace.is_kept:
        line(f"its chain again: {python(files.chain, 'up', chain.folder)}")
    return code
