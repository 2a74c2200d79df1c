"""Guests run only on a big stack, so every test of this folder gets one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aos.sandbox.stack import run_on_big_stack
from tests.sandbox.bench import Bench


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    run_on_big_stack(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.sandbox.close()
