"""``package.module:attr`` and ``file.py:attr`` lead to Executors, or to a clear error (X-41)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos.worker.load_executors import load

SOURCE = """
from aos.worker import Executors, effect

@effect("acme/charge@1")
async def charge(params, ctx):
    return params

@effect("acme/ship@1")
def ship(params, ctx):
    return params

shop = Executors("shop", [charge, ship])
both = [charge, ship]
number = 7
class Nested:
    shop = shop
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules in it, and the interpreter as it was afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    before = set(sys.modules)
    (tmp_path / "loadshop.py").write_text(SOURCE)
    (tmp_path / "loadpackage").mkdir()
    (tmp_path / "loadpackage" / "__init__.py").write_text("")
    (tmp_path / "loadpackage" / "inner.py").write_text("from loadshop import *\n")
    (tmp_path / "loadbroken.py").write_text("x = 1\nimport no_such_thing\n")
    (tmp_path / "loadraises.py").write_text("x = 1\n\nx / 0\n")
    (tmp_path / "loadsyntax.py").write_text("x = 1\ny = = 2\n")
    (tmp_path / "loadbad.py").write_text(
        "from aos.worker import effect\n@effect('acme/x@1')\ndef x(): ...\n"
    )
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("spec", "name", "effects"),
    [
        ("loadshop:shop", "shop", {"acme/charge@1", "acme/ship@1"}),
        ("loadpackage.inner:shop", "shop", {"acme/charge@1", "acme/ship@1"}),
        ("loadshop.py:shop", "shop", {"acme/charge@1", "acme/ship@1"}),
        ("./loadpackage/inner.py:shop", "shop", {"acme/charge@1", "acme/ship@1"}),
        ("loadshop:Nested.shop", "shop", {"acme/charge@1", "acme/ship@1"}),
        ("loadshop:both", "loadshop", {"acme/charge@1", "acme/ship@1"}),
        ("loadpackage.inner:charge", "inner", {"acme/charge@1"}),
    ],
)
def test_executors_a_list_and_one_effect_are_loaded(
    spec: str, name: str, effects: set[str]
) -> None:
    found = load(spec)

    assert (found.name, set(found.effects)) == (name, effects)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("loadshop", "expected MODULE:ATTR or FILE.py:ATTR"),
        (":shop", "expected MODULE:ATTR or FILE.py:ATTR"),
        ("loadshop:", "expected MODULE:ATTR or FILE.py:ATTR"),
        ("nowhere:shop", "no module 'nowhere' is importable from "),
        ("loadpackage.nowhere:shop", "no module 'loadpackage.nowhere' is importable from "),
        ("nowhere.py:shop", "there is no file "),
        ("loadshop:shup", "there is no 'shup' in it (it has charge, ship, shop)"),
        ("loadshop:number", "expected an Executors, a list of effects or one effect, found int"),
        ("lodshop", "or a name that an installed package registers: arweave, evm, llm, machine, "),
        ("loadshop.py", "expected MODULE:ATTR or FILE.py:ATTR, such as shop.effects:shop"),
        ("aos.executors.llm:llm", "these executors are now --executors llm"),
        ("aos.executors.evm:evm", "these executors are now --executors evm"),
        ("loadbroken:x", "loadbroken.py:2: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("loadraises.py:x", "loadraises.py:3: ZeroDivisionError: division by zero"),
        ("loadsyntax.py:x", "loadsyntax.py:2: SyntaxError: invalid syntax (loadsyntax.py, line 2)"),
        ("loadbad:x", "effect 'acme/x@1': x cannot be called with (params, ctx)"),
    ],
)
def test_a_missing_or_failing_executor_is_named(spec: str, message: str) -> None:
    with pytest.raises(BadUsage) as caught:
        load(spec)

    assert str(caught.value).startswith(f"executors {spec!r}: ")
    assert message in str(caught.value)


def test_a_file_named_as_a_loaded_module_does_not_replace_it(folder: Path) -> None:
    (folder / "json.py").write_text(SOURCE)

    assert load("json.py:shop").name == "shop"
    assert sys.modules["json"].__name__ == "json"


def test_a_file_called_node_gets_another_name(folder: Path) -> None:
    (folder / "node.py").write_text(SOURCE)

    assert load("node.py:both").name == "node-worker"
