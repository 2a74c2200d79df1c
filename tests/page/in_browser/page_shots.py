"""Pictures of every kind of page, in a folder: light and dark, 320 and 1,280 pixels wide.

make page-shots                       of a small shop and worlds with flows, in build/page-shots
.venv/bin/python -m tests.page.in_browser.page_shots OUT shop.aos
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.page.in_browser.chromium import Chromium, Sight, browser
from tests.page.in_browser.page_kinds import page_kinds
from tests.page.in_browser.page_process import served
from tests.page.part_worlds import part_worlds
from tests.page.shop import shop_world

HEIGHT: Final = 800


@dataclass(frozen=True, slots=True)
class Form:
    """A window: its width in pixels, and whether the reader wishes dark pages."""

    width: int
    is_dark: bool

    def __str__(self) -> str:
        return f"{self.width}-{'dark' if self.is_dark else 'light'}"


FORMS: Final = tuple(Form(width, is_dark) for width in (320, 1280) for is_dark in (False, True))


@dataclass(frozen=True, slots=True)
class PageShot:
    """A page of a kind in a window, which still shows it, and its picture."""

    kind: str
    form: Form
    sight: Sight
    file: Path


def page_shots(
    chromium: Chromium,
    origin: str,
    out: Path,
    forms: Sequence[Form] = FORMS,
    *,
    left_out: Collection[str] = (),
) -> Iterator[PageShot]:
    """Write a picture of every kind of page in every form, and yield each."""
    pages = {name: each for name, each in page_kinds(origin).items() if name not in left_out}
    out.mkdir(parents=True, exist_ok=True)
    for form in forms:
        chromium.window(form.width, HEIGHT, is_dark=form.is_dark)
        for kind, address in pages.items():
            sight = chromium.visit(origin + address)
            file = out / f"{kind}-{form}.png"
            chromium.shot(file)
            yield PageShot(kind, form, sight, file)


README: Final = {
    "page-cell.png": ("/search?q=ord-00020", 'main a[href*="/cell/shop/order"]', False),
    "page-faults.png": ("/", 'main a[href$="/faults"]', True),
}
"""The pictures of the README: a page of the shop, the link on it to follow, and whether dark."""

README_WIDTH: Final = 1_120


def readme_shots(chromium: Chromium, origin: str, out: Path) -> int:
    """Write the pictures of the README; return how many there are."""
    base = page_kinds(origin)["world"].rstrip("/")
    out.mkdir(parents=True, exist_ok=True)
    for name, (address, link, is_dark) in README.items():
        chromium.window(README_WIDTH, 700, is_dark=is_dark)
        chromium.visit(origin + base + address)
        chromium.follow(link)
        chromium.shot(out / name, is_whole=False)
    return len(README)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("worlds", type=Path, nargs="*", help="worlds or bundles (default: a shop)")
    parser.add_argument("--width", type=int, action="append", help="in pixels; may be repeated")
    parser.add_argument("--readme", action="store_true", help="the pictures of the README alone")
    given = parser.parse_args()
    forms = [Form(width, is_dark) for width in given.width or () for is_dark in (False, True)]
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        worlds = given.worlds or [shop_world(Path(folder) / "shop")]
        if not given.worlds and not given.readme:
            worlds += part_worlds(Path(folder))
        with served(*worlds) as origin:
            if given.readme:
                count = readme_shots(chromium, origin, given.out)
            else:
                count = sum(1 for _ in page_shots(chromium, origin, given.out, forms or FORMS))
    sys.stdout.write(f"{count} pictures in {given.out}\n")


if __name__ == "__main__":
    main()
