"""Both SDKs: a guest of each that reads JSON and moves dates. Guests run only on a big stack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aos.sandbox.stack import run_on_big_stack
from tests.sdk.documents.guests import AssemblyScriptGuest, DocumentGuest, RustGuest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    run_on_big_stack(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="module", params=["rust", "assemblyscript"])
def guest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DocumentGuest]:
    guest: DocumentGuest = (
        RustGuest()
        if request.param == "rust"
        else AssemblyScriptGuest(tmp_path_factory.mktemp("documents"))
    )
    yield guest
    guest.close()
