"""Guests run only on a big stack, so every test of this folder gets one."""

from __future__ import annotations

import pytest

from aos.sandbox.stack import run_on_big_stack


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    run_on_big_stack(lambda: pyfuncitem.obj(**arguments))
    return True
