"""The one table for reading, and everything that is made from it (N-114)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.node.handlers import HANDLERS
from aos.node.routes import BY_PATH, FRESH, GET
from aos.read.operations.operation import ReadOperation
from aos.read.operations.table import OPERATIONS, as_markdown
from aos_cli import registry
from aos_cli.lazy_group import LazyCommand

SPEC = Path(__file__).parents[3] / "spec" / "node-api.md"
WITH_COMMAND = [operation for operation in OPERATIONS if operation.command]


def test_the_page_of_the_api_has_the_table() -> None:
    """To write it again: python -m aos.read.operations.table"""
    assert as_markdown() in SPEC.read_text("utf-8")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_is_a_route_with_a_handler(operation: ReadOperation) -> None:
    route = BY_PATH[operation.path][GET]

    assert route.operation == operation.name
    assert route.query == (*operation.parameters, FRESH)
    assert operation.name in HANDLERS


@pytest.mark.parametrize("operation", WITH_COMMAND, ids=lambda operation: operation.name)
def test_a_command_has_the_parameters_of_its_operation(
    operation: ReadOperation,
) -> None:
    path, _, option = operation.command.partition(" --")
    [command] = [
        LazyCommand(command).load() for command in registry.COMMANDS if command.path == path
    ]
    options = {word for parameter in command.params for word in parameter.opts}
    arguments = [word for word in options if not word.startswith("-")]

    assert {"--node", "--world", "--json"} <= options
    assert f"--{option}" in options or not option
    for parameter in operation.parameters:
        if parameter.is_argument:
            assert arguments, "an operation with arguments has a command with arguments"
        elif not parameter.is_for_people:
            assert f"--{parameter.name.replace('_', '-')}" in options


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"workflow": "order", "key": "o-1", "at": 7}, (["order", "o-1"], ["--at", "7"])),
        ({"workflow": "order"}, (["order"], [])),
    ],
)
def test_a_query_becomes_the_words_of_its_command(
    query: dict[str, object], words: tuple[list[str], list[str]]
) -> None:
    [operation] = [operation for operation in OPERATIONS if operation.name == "read_cell"]

    assert operation.command_line(query) == words


def test_a_default_is_no_word_unless_the_command_has_another_one() -> None:
    by_name = {operation.name: operation for operation in OPERATIONS}
    query = {"limit": 100, "offset": 0, "pinned": True}

    assert by_name["read_cells"].command_line(query) == ([], ["--pinned"])
    assert by_name["read_records"].command_line({"limit": 100, "kind": ["event", "step"]}) == (
        [], ["--kind", "event", "--kind", "step", "--limit", "100"],
    )  # fmt: skip
