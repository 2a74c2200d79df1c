"""``aos demo``: choose the folder, run the demo, and print its result (spec/cli.md, C-50)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage
from aos_cli.demo.cluster_story import ClusterStory, find_servers
from aos_cli.demo.files import Files, find_files
from aos_cli.demo.node_story import NodeStory
from aos_cli.demo.processes import Children, stoppable
from aos_cli.demo.python_story import PythonStory
from aos_cli.demo.stages import conclude, demo_folder_at
from aos_cli.demo.story import Story
from aos_cli.options import argument, flag, number, option

ORDERS_MIN: Final = 10


def demo(
    directory: Annotated[
        Path | None,
        argument(
            "DIR",
            "New or empty folder for the world, kept afterwards (default: a temporary folder).",
        ),
    ] = None,
    *,
    orders: Annotated[
        int, option("N", "Number of orders to send, at least 10.", parser=number)
    ] = 1000,
    seed: Annotated[int, option("S", "Seed of the orders and of the failures.", parser=number)] = 7,
    workers: Annotated[
        int | None,
        option(
            "N",
            "Run the orders through a node: sent by HTTP, carried out by N `aos worker` "
            "processes. The demo kills a worker, the front and the kernel process.",
            parser=number,
        ),
    ] = None,
    cluster: Annotated[
        bool,
        flag(
            "--cluster",
            "Run the orders on three nodes and three NATS servers of this machine. The demo kills "
            "the owner and stops the leader of the stream.",
        ),
    ] = False,
    python: Annotated[
        bool,
        flag(
            "--python",
            "Build the order workflow from Python, as a flow, and run the orders with it.",
        ),
    ] = False,
    keep: Annotated[bool, flag("--keep", "Keep the temporary folder if no DIR is given.")] = False,
) -> int:
    if orders < ORDERS_MIN:
        raise BadUsage(f"--orders: expected {ORDERS_MIN} or more, found {orders}")
    if workers is not None and workers < 1:
        raise BadUsage(f"--workers: expected 1 or more, found {workers}")
    if cluster and workers is not None:
        raise BadUsage("--cluster, --workers: expected one of them, found both")
    if python and (cluster or workers is not None):
        other = "--cluster" if cluster else "--workers"
        raise BadUsage(f"--python, {other}: expected one of them, found both")
    program = find_servers() if cluster else None
    files = find_files()
    with demo_folder_at(directory, is_kept=keep) as workspace, stoppable(), Children() as children:
        story = _story(
            files, workspace.folder, children,
            orders=orders, seed=seed, workers=workers, program=program, is_python=python,
        )  # fmt: skip
        story.tell()
        workspace.is_kept |= bool(story.failed)
    option_word = " --cluster" if cluster else " --python" if python else ""
    return conclude(story, workspace, command=f"aos demo{option_word}")


def _story(
    files: Files,
    folder: Path,
    children: Children,
    *,
    orders: int,
    seed: int,
    workers: int | None,
    program: Path | None,
    is_python: bool,
) -> Story:
    """The demo on servers if ``program`` runs them, through a node if it has workers."""
    if is_python:
        return PythonStory(files, folder, children, orders=orders, seed=seed)
    if program is not None:
        return ClusterStory(files, folder, children, orders=orders, seed=seed, program=program)
    if workers is not None:
        return NodeStory(files, folder, children, orders=orders, seed=seed, workers=workers)
    return Story(files, folder, children, orders=orders, seed=seed)
