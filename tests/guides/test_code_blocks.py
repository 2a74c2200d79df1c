"""Every fenced block of spec/ and its guides is run, or parsed, or has a reason not to be."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any, Final

import pytest

from aos.manifest.forms import KINDS
from aos.manifest.structure import problems
from aos.values.json_text import parse_json
from tests.cli.test_documented import COMMANDS, GROUPS, options
from tests.cookbook.worlds import ROOT
from tests.guides.code_blocks import SPEC, CodeBlock, all_blocks
from tests.guides.test_typed_pages import TYPED

FOLLOWED: Final = {
    "concepts.md": "tests/cookbook/test_concepts.py",
    "changing.md": "tests/cookbook/test_changing.py",
    "guides/backup.md": "tests/guides/test_backup_page.py",
    "guides/deploy.md": "tests/guides/test_deploy_page.py",
    "guides/from_agentos.md": "tests/guides/test_from_agentos_page.py",
    "guides/govern.md": "tests/guides/test_govern_page.py",
    "guides/integrate.md": "tests/client/test_integrate_page.py",
    "guides/monitor.md": "tests/guides/test_monitor_page.py",
    "guides/operate.md": "tests/guides/test_operate_page.py",
    "guides/statuses.md": "tests/guides/test_statuses_page.py",
}
"""Pages whose commands and outputs a test of their own follows."""

NOT_RUN: Final = {
    "agentos.md": "a folder of the reader's machine",
    "gateway.md": "manifests/gateway/README.md has the same commands with a chain",
    "node-tracing.md": "an OpenTelemetry collector",
    "node-work.md": "a worker's requests: their bodies are read by the schemas of the API",
    "page.md": "a browser, which stays open",
    "shadow.md": "a proposal with these numbers; tests/cli/test_shadow.py runs such commands",
    "worker.md": "a worker, which stays open",
    "cli.md": "one line of each command, without its world",
}
"""Pages with commands that need something which no test has. Their words are still checked."""

TEXT: Final = {
    "audit.md": "tests/cookbook/test_spec_examples.py",
    "kernel.md": "tests/cookbook/test_spec_examples.py",
    "journal.md": "tests/cookbook/test_spec_examples.py",
    "governance.md": "a drawing of the way of a proposal",
    "shadow.md": "an output that a long run printed",
}
"""Pages with output that no command of the page prints: where it is compared."""

OTHER: Final = {"rust", "ts", "wat", "yaml", "dockerfile"}
"""Languages for which Python has no parser. The tests of SDKs and modules compile such programs."""

BLOCKS: Final = all_blocks()


def of(*languages: str) -> list[CodeBlock]:
    return [block for block in BLOCKS if block.language in languages]


def test_every_block_has_a_language_that_is_checked() -> None:
    """An empty language is a drawing."""
    known = {"", "sh", "text", "json", "python", "toml", "ini", *OTHER}

    assert len(BLOCKS) > 180
    assert {block.language for block in BLOCKS} <= known


@pytest.mark.parametrize("page", sorted({block.page for block in of("sh", "text")}))
def test_the_commands_and_outputs_of_a_page_are_followed(page: str) -> None:
    has_commands = any(block.page == page for block in of("sh"))
    ways = [FOLLOWED.get(page), TYPED.get(page) and "tests/guides/test_typed_pages.py"]
    if has_commands:
        ways.append(NOT_RUN.get(page))
    else:
        ways.append(TEXT.get(page))
    if page == "shadow.md":
        assert page in TEXT

    assert [way for way in ways if way], f"{page}: type its blocks in a test, or say why not"
    for way in ways:
        if way is not None and way.startswith("tests/"):
            assert Path(page).name in (ROOT / way).read_text("utf-8") or page in TYPED


def test_no_table_names_a_page_without_such_blocks() -> None:
    typed = {block.page for block in of("sh", "text", "python")}

    assert {*FOLLOWED, *NOT_RUN, *TEXT, *TYPED} <= typed
    assert not NOT_RUN.keys() & TYPED.keys()


def commands(block: CodeBlock) -> Iterator[list[str]]:
    """The words of each command, where a shell would part them."""
    text = re.sub(r"(^|\s)#\s.*$", "", block.text.replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="&|;<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for token in lexer:
        if set(token) <= set("&|;\n()"):
            if words:
                yield words
            words = []
        else:
            words.append(token)
    if words:
        yield words


@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_each_command_has_the_options_that_a_block_gives_it(block: CodeBlock) -> None:
    for words in commands(block):
        while words and "=" in words[0] and not words[0].startswith("-"):
            words.pop(0)
        if words[:1] != ["aos"] or len(words) < 2:
            continue
        path = " ".join(words[1:3] if words[1] in GROUPS else words[1:2])
        assert f"aos {path}" in COMMANDS or path in GROUPS or path.startswith("-"), words
        if f"aos {path}" in COMMANDS:
            used = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z-]+.*", word)}
            assert used <= {*options(COMMANDS[f"aos {path}"]), "--help"}, words


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_is_read_as_aos_reads_it(block: CodeBlock) -> None:
    """A block may be the fields of an object that the page names."""
    is_part = block.text.startswith('"')
    value = parse_json("{" + block.text.rstrip().rstrip(",") + "}" if is_part else block.text)

    for node in value if isinstance(value, list) else [value]:
        if isinstance(node, dict) and node.get("$kind") in KINDS:
            assert problems(node) == []


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_is_compiled_and_imports_names_that_are_there(block: CodeBlock) -> None:
    code = compile(
        block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    )

    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aos":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                assert hasattr(module, alias.name), alias.name


@pytest.mark.parametrize("block", of("toml"), ids=str)
def test_toml_is_read(block: CodeBlock) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", of("ini"), ids=str)
def test_units_are_read(block: CodeBlock) -> None:
    parser = RawConfigParser(strict=True)
    parser.read_string(block.text if "[" in block.first else f"[Service]\n{block.text}")

    assert parser.sections()


API: Final[Any] = json.loads((SPEC / "openapi.json").read_text("utf-8"))


def requests() -> Iterator[tuple[str, str, str | None]]:
    """The method, path and body of each request that a page makes with curl."""
    for block in of("sh"):
        for words in commands(block):
            if words[0] != "curl":
                continue
            url = next(word for word in words if "/v1/" in word)
            path = "/v1/" + re.split(r"[?#]", url.partition("/v1/")[2])[0]
            body = words[words.index("-d") + 1] if "-d" in words else None
            yield "get" if body is None else "post", path, body


@pytest.mark.parametrize(("method", "path", "body"), list(requests()))
def test_a_request_is_one_of_the_api(method: str, path: str, body: str | None) -> None:
    operation = API["paths"][path][method]
    if body is None or body.startswith("@"):
        return
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    given = json.loads(body)
    while "$ref" in schema:
        schema = API["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    kinds = schema.get("oneOf") or schema.get("anyOf") or [schema]

    assert any(given.keys() <= each.get("properties", {}).keys() for each in kinds), given
