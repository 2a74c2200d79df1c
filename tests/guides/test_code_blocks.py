"""Every block of code on the pages of spec/ is run, read by the program that it is for, or listed
here with the reason why it is neither."""

from __future__ import annotations

import ast
import configparser
import itertools
import json
import re
import shlex
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main
import wasmtime
from typer.exceptions import TyperException

from aos.errors import BadUsage
from aos.host.folder.making import init_world
from aos.read.where import EXAMPLE
from aos_cli import registry
from aos_cli.main import app
from tests.cli.all_commands import ALL_COMMANDS
from tests.cli.shell import here
from tests.cookbook.worlds import ROOT, recipe
from tests.guides.code_blocks import SPEC, CodeBlock, code_blocks

COMMENT: Final = re.compile(r"(?m)(?:^|(?<=\s))#[^\n]*$")
PROMPT: Final = re.compile(r"\$|sudo|time|[A-Z_]+=.*", re.DOTALL)
"""Words that may come before a command."""

HERE_DOCUMENT: Final = re.compile(r"(?ms)<<-?['\"]?(\w+)['\"]?\n.*?^\1$")

TYPED: Final = {
    "concepts.md": "tests/cookbook/test_concepts.py",
    "changing.md": "tests/cookbook/test_changing.py",
    "guides/backup.md": "tests/guides/test_backup_page.py",
    "guides/govern.md": "tests/guides/test_govern_page.py",
    "guides/from_agentos.md": "tests/guides/test_from_agentos_page.py",
    **dict.fromkeys(
        (
            "batch.md",
            "bundle.md",
            "exports.md",
            "linear.md",
            "node-api.md",
            "node.md",
            "proofs.md",
            "sealed.md",
            "search.md",
            "worlds.md",
        ),
        "tests/guides/test_typed_pages.py",
    ),
}
"""Pages whose commands a test types in their order, with the test."""

DRAWING: Final = "a drawing"
OUTPUT: Final = "output; the test of its page or of its command compares it"
NOT_READ: Final[dict[tuple[str, str], tuple[int, str]]] = {
    ("concepts.md", ""): (1, DRAWING),
    ("executors.md", ""): (1, DRAWING),
    ("host.md", ""): (1, DRAWING),
    ("journal.md", ""): (1, DRAWING),
    ("cluster.md", ""): (
        6,
        "the shapes of beats, registrations, bases, positions and batches, as in their tests",
    ),
    ("log.md", ""): (1, "the shape of entries, which the vectors have"),
    ("node.md", ""): (1, DRAWING),
    ("page.md", ""): (1, DRAWING),
    ("proofs.md", ""): (1, DRAWING),
    ("simulation.md", ""): (1, DRAWING),
    ("state.md", ""): (1, DRAWING),
    ("values.md", ""): (1, DRAWING),
    ("guides/statuses.md", "text"): (2, DRAWING),
    ("audit.md", "text"): (1, "output that test_spec_examples.py finds on concepts.md"),
    ("kernel.md", "text"): (1, "output that test_spec_examples.py finds on concepts.md"),
    ("journal.md", "text"): (1, "a record that test_spec_examples.py finds in the vectors"),
    ("changing.md", "text"): (9, OUTPUT),
    ("concepts.md", "text"): (6, OUTPUT),
    ("governance.md", "text"): (1, OUTPUT),
    ("guides/clock.md", "text"): (1, OUTPUT),
    ("guides/from_agentos.md", "text"): (2, OUTPUT),
    ("guides/integrate.md", "text"): (5, OUTPUT),
    ("guides/monitor.md", "text"): (1, OUTPUT),
    ("shadow.md", "text"): (1, OUTPUT),
    ("cluster.md", "conf"): (3, "for nats-server; tests/store/nats/test_cluster_page.py runs it"),
    ("guides/deploy.md", "text"): (4, "commands that need root or podman; test_deploy_page.py"),
    ("guides/deploy.md", "dockerfile"): (1, "it needs podman; test_deploy_page.py reads it"),
    ("guides/operate.md", "yaml"): (1, "for Prometheus, which no package here reads"),
    ("flow.md", "rust"): (1, "a shortened flow; its whole is in modules/sdk-rust/FLOWS.md"),
    ("sdk.md", "rust"): (1, "a shortened workflow; its whole is in modules/sdk-rust/README.md"),
    ("world-send.md", "ts"): (1, "one line; tests/sdk/assemblyscript/test_module.py runs one"),
    ("sdk.md", "ts"): (1, "a shortened workflow; its whole is what `aos new --lang ts` writes"),
}
"""Page and language of the blocks that are not read -> how many there are, and why."""


BLOCKS: Final = list(code_blocks())


def read_json(code: str) -> None:
    """A document, or a member of an object."""
    json.loads(f"{{{code}}}" if code.startswith('"') else code)


def read_python(code: str) -> None:
    compile(code, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def read_ini(code: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(code if code.startswith("[") else f"[Service]\n{code}")


def read_shell(code: str) -> None:
    """The syntax, and each command of ours: its name, its options and its arguments."""
    done = subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in commands(code):
        read_command(words)


READERS: Final[dict[str, Callable[[str], object]]] = {
    "json": read_json,
    "python": read_python,
    "toml": tomllib.loads,
    "ini": read_ini,
    "sh": read_shell,
    "wat": wasmtime.wat2wasm,
}


def commands(code: str, program: str = "aos") -> Iterator[list[str]]:
    """The words of each command of a program, without comments and the rest of a pipe."""
    text = HERE_DOCUMENT.sub("", COMMENT.sub("", code)).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("();<>|&\n"):
            if words[:1] == [program]:
                yield words[1:]
            words = []
        elif words or not PROMPT.fullmatch(word):
            words.append(word)


def read_command(words: list[str]) -> None:
    """Read a command line as ``aos`` does, and run nothing."""
    command: Any = typer.main.get_command(app)
    name, left, ctx = "aos", words, None
    try:
        while True:
            ctx = command.make_context(name, list(left), parent=ctx)
            if not hasattr(command, "resolve_command"):
                return
            name, command, left = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
    except (BadUsage, TyperException, SystemExit) as problem:
        raise AssertionError(f"aos {shlex.join(words)}: {problem}") from None


def test_every_block_is_read_or_listed_with_a_reason() -> None:
    """And the table has no line too many."""
    listed = Counter((each.page, each.language) for each in BLOCKS if each.language not in READERS)

    assert dict(listed) == {place: count for place, (count, _) in NOT_READ.items()}
    for page, test in TYPED.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8"), f"{test} types {page}"


@pytest.mark.parametrize(
    "block", [each for each in BLOCKS if each.language in READERS], ids=lambda each: each.name
)
def test_a_block_of_code_can_be_read_by_its_program(block: CodeBlock) -> None:
    if block.language == "sh" and block.page in TYPED:
        return  # they are typed, which shows more
    READERS[block.language](block.code)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Each command of ours on the pages, and each example of a help text."""
    for block in BLOCKS:
        if block.language == "sh":
            yield from ((block.name, words) for words in commands(block.code))
    for command in ALL_COMMANDS:
        for example in command.examples:
            yield from ((f"aos {command.path} --help", words) for words in commands(example))


def conditions() -> Iterator[tuple[str, str, str, str]]:
    """Each condition of a command, with the command's name and its workflow."""
    for place, words in command_lines():
        workflow = words[words.index("--workflow") + 1] if "--workflow" in words else ""
        for option, where in itertools.pairwise(words):
            if option == "--where":
                yield place, words[0], workflow, where


def test_the_condition_of_the_help_texts_is_that_of_the_page() -> None:
    """SE-1: its names are tested with the others of the page."""
    assert any(where.startswith(EXAMPLE) for _, _, _, where in conditions())
    for words in (
        "inspect cells",
        "inspect faults",
        "inspect intents",
        "linear list",
        "batch send",
    ):
        assert EXAMPLE in here(*words.split(), "--help", env={"COLUMNS": "400"}).out, words


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=lambda command: command.path)
def test_the_examples_of_a_help_text_can_be_read(command: registry.Command) -> None:
    for example in command.examples:
        read_shell(example)


def searched() -> Iterator[tuple[str, str, str]]:
    """Each path of ``[search]`` in a configuration on a page, with its workflow."""
    for block in BLOCKS:
        if block.language == "toml":
            for workflow, columns in tomllib.loads(block.code).get("search", {}).items():
                for path in columns.values():
                    yield block.name, workflow.partition("@")[0], path


@pytest.mark.parametrize(
    "words",
    [["apply", "a", "b", "c"], ["inspect", "cells", "--were", "x"], ["runn"], ["run", "--pace"]],
)
def test_a_command_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises(AssertionError, match="aos "):
        read_command(words)


def test_the_words_of_a_block_are_those_of_its_commands() -> None:
    code = (
        "cd x  # aos no, it's a comment\n$ aos a 'b  c' \\\n  d | aos e > f && aos g <<'END'\n"
        "aos h '\nEND\naos i\n"
    )
    assert list(commands(code)) == [["a", "b  c", "d"], ["e"], ["g"], ["i"]]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The worlds that the examples speak of: the orders, and the linear ones."""
    found = {}
    for name, manifest in (("orders", ROOT / "manifests" / "orders"), ("linear", recipe("linear"))):
        path = tmp_path_factory.mktemp(name) / "w"
        init_world(path)
        assert here("apply", manifest, "--world", path).code == 0
        found[name] = path
    return found


@pytest.mark.parametrize(("place", "command", "workflow", "where"), list(conditions()))
def test_a_condition_has_names_that_the_example_has(
    place: str, command: str, workflow: str, where: str, worlds: dict[str, Path]
) -> None:
    """SE-6."""
    if command == "linear":
        done = here("linear", "list", "--where", where, "--world", worlds["linear"])
    else:
        of = ["--workflow", workflow] if workflow else []
        done = here("inspect", "cells", *of, "--where", where, "--world", worlds["orders"])
    assert done.code == 0, f"{place}: {done.err}"


@pytest.mark.parametrize(("place", "workflow", "path"), list(searched()))
def test_a_path_that_a_page_indexes_is_one_of_the_example(
    place: str, workflow: str, path: str, worlds: dict[str, Path]
) -> None:
    """SE-20."""
    words = ("--workflow", workflow, "--where", f"{path} != null")
    done = here("inspect", "cells", *words, "--world", worlds["orders"])
    assert done.code == 0, f"{place}: {done.err}"


def requests() -> Iterator[tuple[str, str, str, str | None]]:
    """The place, method, path and body of each request that a page makes with curl."""
    for block in BLOCKS:
        if block.language == "sh":
            for words in commands(block.code, "curl"):
                path = next(word for word in words if "/v1/" in word).partition("/v1/")[2]
                body = words[words.index("-d") + 1] if "-d" in words else None
                method = "get" if body is None else "post"
                yield block.name, method, f"/v1/{re.split('[?#]', path)[0]}", body


@pytest.mark.parametrize(("place", "method", "path", "body"), list(requests()))
def test_a_request_is_one_of_the_api(place: str, method: str, path: str, body: str | None) -> None:
    """N-120"""
    api: Any = json.loads((SPEC / "openapi.json").read_text("utf-8"))
    operation = api["paths"][path][method]
    if body is None or body.startswith("@"):
        return
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    while "$ref" in schema:
        schema = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    forms = schema.get("oneOf") or schema.get("anyOf") or [schema]

    fields = json.loads(body).keys()
    assert any(fields <= form.get("properties", {}).keys() for form in forms), place
