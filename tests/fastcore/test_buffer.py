"""The calls into a core: what its host raises, its own defects, its thread and its memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from aos.errors import Damage, Erased, Refused
from aos.fastcore.buffer import shipped_code
from aos.fastcore.errors import CoreDefect, CoreUnusable
from aos.fastcore.fold_core import CoreOperation, FoldCore
from aos.sandbox.caps import MIB
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.fastcore.owned import made_core, no_blob, on_owner

SOME = Hash(bytes(32))
VALUE = 100
"""A probe: bytes at the record gate."""


class Stop(BaseException):
    """An exception of a host that ends its process."""


@pytest.mark.parametrize(
    "problem", [KeyError("no such blob"), Erased("it was erased"), Stop(), Damage("ünreadable")]
)
def test_what_the_host_raises_in_a_read_is_raised(problem: BaseException) -> None:
    def read(_: bytes) -> bytes:
        raise problem

    core = made_core(read)
    with pytest.raises(type(problem)) as caught:
        on_owner(lambda: core.load(SOME))
    assert caught.value is problem
    on_owner(lambda: core.open(SOME))  # nothing has happened to it


@pytest.mark.parametrize(
    "problem", [KeyError("no such place"), Stop(), Damage("unwritable"), BrokenPipeError()]
)
def test_an_exception_of_the_host_in_a_put_is_raised(problem: BaseException) -> None:
    """And no blob comes after it."""
    calls: list[int] = []

    def put(data: bytes) -> None:
        calls.append(len(data))
        raise problem

    core = made_core()
    on_owner(lambda: core.open(SOME))
    with pytest.raises(type(problem)) as caught:
        on_owner(lambda: core.take(put))
    assert caught.value is problem
    assert len(calls) == 1
    blobs: list[bytes] = []
    snapshot = on_owner(lambda: core.take(blobs.append))
    assert snapshot.document == blobs[-1]


def test_damage_of_a_blob_is_that_of_the_reader() -> None:
    core = made_core(lambda _: b"\xff")
    with pytest.raises(Damage):
        on_owner(lambda: core.load(SOME))


def test_a_defect_names_its_operation_and_ends_the_core() -> None:
    core = made_core()
    with pytest.raises(CoreDefect, match=r"(?s)operation take .*the world is open"):
        on_owner(lambda: core.take(content_hash))
    with pytest.raises(CoreUnusable, match=r"operation open of .*: it trapped before"):
        on_owner(lambda: core.open(SOME))


def test_a_core_belongs_to_its_thread() -> None:
    core = made_core()
    with pytest.raises(AssertionError, match="belongs to the thread"):
        core.memory()
    with pytest.raises((AssertionError, Refused), match=r"rule 2|stack"):
        FoldCore(shipped_code(), read=no_blob)
    assert threading.current_thread() is threading.main_thread()


def asked(core: FoldCore, operation: int, request: bytes) -> Callable[[], bytes]:
    return lambda: core._core.call("probe", operation, request)


@pytest.mark.parametrize("size", [0, 65_528, 65_536, 65_537, MIB, 20 * MIB])
def test_requests_and_answers_have_any_size(size: int) -> None:
    core = made_core()
    data = encode(bytes(size))
    assert on_owner(asked(core, VALUE, data)) == data
    assert on_owner(asked(core, VALUE, encode(1))) == encode(1)
    allocated, whole = on_owner(core.memory)
    assert allocated < 2 * MIB < whole or size < MIB


def test_a_core_allocates_no_more_than_its_bound() -> None:
    core = on_owner(lambda: FoldCore(shipped_code(), read=no_blob, memory_bytes=96 * MIB))
    data = encode(bytes(8 * MIB))
    assert on_owner(asked(core, VALUE, data)) == data
    with pytest.raises(CoreDefect, match=r"operation probe .*: its memory is full"):
        on_owner(asked(core, VALUE, encode(bytes(20 * MIB))))


def test_operations_are_those_of_the_core() -> None:
    core = made_core()
    on_owner(lambda: core.open(SOME))
    with pytest.raises(CoreDefect, match="operation 90 is unknown"):
        on_owner(asked(core, 90, b""))
    assert [each.value for each in CoreOperation] == list(range(len(CoreOperation)))
