"""The wheel suffices to make a project; no checkout is needed (AU-22)."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aos.authoring.new import new_project
from aos.authoring.project import LANGUAGES
from tests.authoring.fakes import ROOT
from tests.authoring.test_new import tree


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, unpacked as an installer does it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder / "site")
    return folder / "site"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_installed_aos_makes_the_same_project_as_a_checkout(
    installed: Path, tmp_path: Path, lang: str
) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(installed)!r})
from pathlib import Path
import aos.authoring.new
assert aos.authoring.new.__file__.startswith({str(installed)!r})
aos.authoring.new.new_project(Path("shop"), lang={lang!r})
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    (tmp_path / "checkout").mkdir()
    new_project(tmp_path / "checkout" / "shop", lang=lang)

    assert tree(tmp_path / "shop") == tree(tmp_path / "checkout" / "shop")


def test_nothing_that_was_built_in_a_checkout_is_installed(installed: Path) -> None:
    names = [each.relative_to(installed).as_posix() for each in installed.rglob("*")]

    assert not [name for name in names if "node_modules" in name or "/target" in name]
    assert (installed / "aos/authoring/templates/common/gitignore").is_file()
