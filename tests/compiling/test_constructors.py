"""The source that is compiled: the same classes, with constructors that are written out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from compiling.building import PACKAGES, ROOT
from compiling.constructors import written_out

SOURCE = '''"""Words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place."""

    KIND: ClassVar = "point"
    x: int
    y: int = 0

    def far(self) -> int:
        return self.x + self.y


@dataclass
class Bag:
    items: list[int] = field(default_factory=list)


class Schema:
    pass
'''

WRITTEN = '''"""Words."""

from __future__ import annotations
from aos.values.compiled import made_again
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr

from dataclasses import dataclass, field
from typing import ClassVar


class _PointConstants:
    KIND: ClassVar[str] = 'point'


@dataclass(init=False, frozen=True, slots=True, kw_only=True)
class Point(_PointConstants):
    """A place."""

    x: int
    y: int = 0

    def __init__(self, *, x: int, y: int = 0) -> None:
        self.x = x  # type: ignore[misc]
        self.y = y  # type: ignore[misc]

    def __reduce__(self) -> tuple[object, ...]:
        return made_again, (Point, {"x": self.x, "y": self.y})

    def far(self) -> int:
        return self.x + self.y


@dataclass
class Bag:
    items: list[int] = field(default_factory=list)


@mypyc_attr(allow_interpreted_subclasses=True)
class Schema:
    pass
'''


def test_constructors_are_written_out_and_nothing_else_changes() -> None:
    assert written_out(SOURCE, "words.py") == WRITTEN


def test_a_source_without_dataclasses_stays_as_it_is() -> None:
    source = "def f() -> int:\n    return 1\n"
    assert written_out(source, "f.py") == source


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n",
            "a.py:3: write @dat",
        ),
        ("@dataclass\n@other\nclass A:\n    x: int\n", "a.py:2: expected @dataclass right above"),
        (
            "@dataclass\nclass A(B):\n    K: ClassVar = 1\n    x: int\n",
            "a.py:2: expected class A without bases",
        ),
    ],
)
def test_a_form_that_is_not_known_is_named(source: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        written_out(source, "a.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_source_of_the_hot_path_can_be_written_out(package: str) -> None:
    for path in sorted((ROOT / "kernel" / "aos" / package).rglob("*.py")):
        written = written_out(path.read_text(encoding="utf-8"), path.name)
        assert names(written) >= names(path.read_text(encoding="utf-8")), path


def names(source: str) -> set[str]:
    return {
        each.name
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.ClassDef | ast.FunctionDef)
    }


def test_the_root_is_this_checkout() -> None:
    assert Path(__file__).is_relative_to(ROOT)
