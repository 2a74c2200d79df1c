"""``aos tasks list``, ``release`` and ``retry``: the tasks of workers elsewhere (C-91)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from aos.errors import BadUsage
from aos.node.worker.node_requests import NodeRequests
from aos.read.lens.words import count, span_text
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, argument, flag, node_token
from aos_cli.output import line, note, print_json

DIGITS_MIN = 8

Tasks = Annotated[list[str], argument("INTENT...", "Hashes, or at least their first 8 digits.")]


def list_tasks(*, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    document = asyncio.run(_ask(node or str(world), None, None))
    if json:
        print_json(document)
        return
    for task in document["tasks"]:
        line(_line(task))
    note(
        f"{count(document['leased'], 'task')} at workers, {document['offered']:,} offered, "
        f"{document['parked']:,} held or parked"
    )


def release(
    intents: Tasks,
    *,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    answer = _change(node or str(world), "/v1/work/reclaim", intents)
    if json:
        print_json(answer)
        return
    for task in answer["tasks"]:
        line(f"{task} is given to another worker, under the next attempt")
    if not answer["tasks"]:
        note("no worker has these tasks (aos tasks list)")


def retry(
    intents: Annotated[
        list[str] | None, argument("[INTENT]...", "Hashes, or at least their first 8 digits.")
    ] = None,
    *,
    all_parked: Annotated[bool, flag("--all-parked", "Retry all tasks that are parked.")] = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if bool(intents) == all_parked:
        raise BadUsage("tasks retry: expected intents, or --all-parked (aos tasks list)")
    answer = _change(node or str(world), "/v1/work/retry", intents)
    if json:
        print_json(answer)
        return
    for task in answer["tasks"]:
        line(f"{task} is offered again")
    if not answer["tasks"]:
        note("none of these tasks is held or parked, or may run again (aos tasks list)")


def _change(node: str, path: str, intents: Sequence[str] | None) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = asyncio.run(_ask(node, path, intents))
    return answer


async def _ask(node: str, path: str | None, words: Sequence[str] | None) -> Any:
    """Return the list of tasks; with a ``path``, the answer of a request about some of them."""
    requests = NodeRequests(node, token=node_token())
    try:
        if path is not None and words is None:
            return await requests.post(path, {"all_parked": True})
        listing = await requests.get("/v1/work/tasks")
        if path is None or words is None:
            return listing
        tasks = [task["task"] for task in listing["tasks"]]
        return await requests.post(path, {"tasks": [_task_of(word, tasks) for word in words]})
    finally:
        await requests.close()


def _task_of(word: str, tasks: Sequence[str]) -> str:
    digits = word.removeprefix("blake3:")
    if len(digits) < DIGITS_MIN or not set(digits) <= set("0123456789abcdef"):
        raise BadUsage(f"intent {word!r}: expected a hash, or at least its first 8 digits")
    matches = [task for task in tasks if task.removeprefix("blake3:").startswith(digits)]
    if len(matches) != 1:
        count_text = "no task" if not matches else f"{len(matches)} tasks"
        raise BadUsage(f"intent {word}: {count_text} at a worker or parked (aos tasks list)")
    return matches[0]


def _line(task: Mapping[str, Any]) -> str:
    text = f"{task['task'][7:19]}  {task['effect']}  {task['phase']}  attempt {task['attempt']}"
    if "worker" in task:
        text += f"  {task['worker']} ({task['token']})"
    if "until_ns" in task:
        left_ns = max(0, task["until_ns"] - time.time_ns())
        text += f"  for {span_text(left_ns)}"
    if task["lost"]:
        text += f"  {count(task['lost'], 'lost lease')}"
    if task.get("problem"):
        text += f"  {task['problem']}"
    return text
