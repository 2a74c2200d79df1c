"""Guests run only on a big stack, so every test of this folder gets one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from tests.modules.guests import load_orders, load_puppet


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    run_on_big_stack(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def orders() -> Loaded:
    return load_orders()


@pytest.fixture(scope="session")
def puppet() -> Loaded:
    return load_puppet()


@pytest.fixture(scope="session")
def sandbox(orders: Loaded, puppet: Loaded) -> Iterator[Sandbox]:
    sandbox = Sandbox({**orders.modules, **puppet.modules}.__getitem__)
    yield sandbox
    sandbox.close()
