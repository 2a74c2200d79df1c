"""Dataclasses that compile their methods late are as those of the standard library (C-12)."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import sys
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from aos.dataclass_methods import late_methods

PACKAGES = {"tests_quick_dataclasses", "tests_late_dataclasses"}

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    first: object
    second: int = 7

@dataclass(frozen=True, slots=True)
class One:
    value: object

@dataclass(frozen=True)
class Nothing:
    pass

@dataclass(frozen=True, order=True)
class Ordered:
    first: int
    second: int

@dataclass
class Changing:
    items: list[object] = field(default_factory=list)
    unseen: int = field(default=0, repr=False, compare=False)

@dataclass(frozen=True)
class Below(One):
    more: int = 1

@dataclass(frozen=True, eq=False)
class Alone:
    value: int
"""


def module_of(name: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    exec(SOURCE, vars(module))  # the same classes, made in two ways
    return module


@pytest.fixture(scope="module")
def plain() -> ModuleType:
    return module_of("tests_plain_dataclasses")


@pytest.fixture(scope="module")
def quick() -> ModuleType:
    with late_methods(PACKAGES):
        return module_of("tests_quick_dataclasses")


def objects(module: Any) -> list[Any]:
    return [
        module.Two(first=1), module.Two(first=1, second=8), module.Two(first="x"),
        module.One(1), module.One((1,)), module.One(float("nan")), module.Nothing(),
        module.Ordered(1, 2), module.Ordered(2, 1), module.Changing(), module.Changing([1], 5),
        module.Changing([1], 6), module.Below(1), module.Below(1, 2), module.Alone(1), (1, 7), 1,
    ]  # fmt: skip


def described(module: Any) -> list[object]:
    """All that can be seen of the classes and their objects."""
    made = objects(module)
    items = made[10].items
    items.append(made[10])
    texts = [repr(one) for one in made]
    items.pop()
    equal = [[one == other for other in made] for one in made]
    nan = made[5]
    hashes = [
        type(one).__hash__ is None or hash(one) for one in made if type(one) is not module.Alone
    ]
    names = [
        (name, getattr(value, "__name__", ""), getattr(value, "__qualname__", ""))
        for cls in (module.Two, module.Changing, module.Below, module.Alone)
        for name, value in sorted(vars(cls).items())
        if callable(value)
    ]
    kept = [pickle.loads(pickle.dumps(one)) == one for one in made if one is not nan]
    changed = [dataclasses.replace(made[0], second=9), dataclasses.asdict(made[12])]
    ordered = made[7] < made[8], made[7] >= made[8], made[7].__lt__(1), made[7].__eq__(1)
    own = [nan == nan, hash(nan) == hash(nan)]  # noqa: PLR0124  # as tuples compare them
    return [texts, equal, hashes, names, kept, repr(changed), ordered, own, _refused(made)]


def _refused(made: list[Any]) -> list[tuple[type, str]]:
    """The exceptions where an attribute is set or deleted."""
    refusals = []
    for one in made[:15]:
        for name in ("value", "first", "other"):
            for change in (partial(setattr, one, name, 1), partial(delattr, one, name)):
                try:
                    change()
                except (AttributeError, TypeError) as problem:
                    refusals.append((type(problem), str(problem)))
    return refusals


def test_objects_are_compared_hashed_shown_and_frozen_alike(
    plain: ModuleType, quick: ModuleType
) -> None:
    assert described(quick) == described(plain)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="it compiles them together")
def test_a_method_is_compiled_at_its_first_call_in_the_class_that_has_it() -> None:
    with late_methods(PACKAGES):
        module: Any = module_of("tests_late_dataclasses")

    def compiled(cls: type) -> set[str]:
        names = ("__init__", "__eq__", "__hash__", "__setattr__", "__delattr__")
        return {name for name in names if vars(cls)[name].__code__.co_filename == "<string>"}

    assert compiled(module.One) == compiled(module.Below) == set()
    with pytest.raises(TypeError, match=r"One.__init__\(\) missing 1 required positional argument"):
        module.One()
    assert compiled(module.One) == {"__init__"}
    assert module.Below(1, 2) == module.Below(value=1, more=2)
    assert compiled(module.Below) == {"__init__", "__eq__"}
    assert hash(module.One(1)) == hash((1,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        module.One(1).value = 2
    assert compiled(module.One) == {"__init__", "__hash__", "__setattr__"}


def test_classes_of_users_are_made_as_ever() -> None:
    with late_methods():
        module: Any = module_of("tests_own_dataclasses")

    assert str(inspect.signature(module.One)) == "(value: 'object') -> None"


def test_functions_of_another_release_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(fields: object) -> None: ...

    monkeypatch.setattr(dataclasses, "_hash_fn", other, raising=False)
    monkeypatch.delattr(dataclasses, "_cmp_fn", raising=False)
    with late_methods():
        assert vars(dataclasses)["_hash_fn"] is other
        assert "_cmp_fn" not in vars(dataclasses)


def test_afterwards_dataclasses_are_made_as_before() -> None:
    before = dict(vars(dataclasses))
    with pytest.raises(ZeroDivisionError), late_methods():
        raise ZeroDivisionError
    assert vars(dataclasses) == before

    @dataclass(frozen=True)
    class Usual:
        value: int = field(default=1)

    assert Usual.__eq__.__code__.co_filename == "<string>"
