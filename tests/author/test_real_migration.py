"""A state changes while an order waits: `aos build --migration`, with the real compilers.

The skeleton does not compile as it is written, and converts the stored states once it is completed
(spec/authoring.md, AU-92 to AU-94).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from aos.author.project import ASSEMBLYSCRIPT, RUST
from aos.author.sdk import SDK_FOLDERS
from tests.author.real import LIFETIMES, check_tools, others_day
from tests.cli.shell import run
from tests.tools import missing

Edits = tuple[tuple[str, str, str], ...]
"""(file, text, replacement)"""

# The first version has a field of every kind of type; `lines` and `way` have types without a name.
FIRST: Final[dict[str, Edits]] = {
    RUST: (
        (
            "src/lib.rs",
            "    attempts: u64,\n",
            (
                "    attempts: u64,\n    lines: Vec<Line>,\n    way: Map<String, Way>,\n"
                "    seen: Set<Option<Uuid>>,\n    calls: PendingSet<u64, Charge>,\n"
                "    gone: Time,\n"
            ),
        ),
        (
            "src/lib.rs",
            "/// The state of one order.",
            (
                "#[derive(Schema)]\npub struct Line {\n    pub sku: String,\n}\n\n"
                "#[derive(Schema)]\npub enum Way {\n    Post,\n    Courier(String),\n}\n\n"
                "/// The state of one order."
            ),
        ),
    ),
    ASSEMBLYSCRIPT: (
        (
            "air/order.air.json",
            '        "attempts": {"nat": {}},\n',
            (
                '        "attempts": {"nat": {}}, "gone": {"time": {}},\n'
                '        "lines": {"list": {"record": {"sku": {"text": {}}}}},\n'
                '        "way": {"option": {"variant": {"Post": {"unit": {}}}}},\n'
                '        "seen": {"set": {"option": {"uuid": {}}}},\n'
            ),
        ),
    ),
}

SECOND: Final[dict[str, Edits]] = {
    RUST: (
        ("src/lib.rs", "OrderState@1", "OrderState@2"),
        ("src/lib.rs", "    gone: Time,\n", "    note: String,\n"),
    ),
    ASSEMBLYSCRIPT: (
        ("air/order.air.json", "OrderState@1", "OrderState@2"),
        ("air/order.air.json", ', "gone": {"time": {}}', ', "note": {"text": {}}'),
    ),
}

DECLARED: Final[dict[str, Edits]] = {
    RUST: (
        (
            "src/lib.rs",
            "use aos_sdk::prelude::*;\n",
            (
                "mod migration_order;\n\nuse aos_sdk::prelude::*;\n\n"
                "use crate::migration_order::{migrate_order, OrderStateV1};\n"
            ),
        ),
        (
            "src/lib.rs",
            '    routes(Placed by "order_id")\n',
            (
                '    routes(Placed by "order_id"),\n'
                "    migrate(from = OrderStateV1, by = migrate_order)\n"
            ),
        ),
    ),
    ASSEMBLYSCRIPT: (
        (
            "air/order.air.json",
            '    "state": "tea/OrderState@2",\n',
            (
                '    "state": "tea/OrderState@2",\n'
                '    "migrate": {"from": "tea/OrderState@1", "entrypoint": "migrateOrder"},\n'
            ),
        ),
        (
            "assembly/index.ts",
            'export { alloc, aos_panic } from "aos-sdk";\n',
            (
                'export { alloc, aos_panic } from "aos-sdk";\n'
                'export { migrateOrder } from "./migration_order";\n'
            ),
        ),
    ),
}

COMPLETED: Final[dict[str, dict[str, str]]] = {
    RUST: {
        "note": 'note: "from before".into(),',
        "lines": "lines: old.lines.into_iter().map(|one| crate::Line { sku: one.sku }).collect(),",
        "way": "way: Map::new(),",
    },
    ASSEMBLYSCRIPT: {
        "note": 'made.note = "from before";',
        "lines": "for (let i = 0; i < old.lines.length; ++i) "
        "made.lines.push(new OrderStateV2Lines(old.lines[i].sku));",
        "way": "made.way = null;",
    },
}
FILE: Final = {RUST: "src/migration_order.rs", ASSEMBLYSCRIPT: "assembly/migration_order.ts"}


@pytest.mark.long
@pytest.mark.parametrize(
    "lang",
    [pytest.param(lang, marks=others_day(("migration", lang), LIFETIMES)) for lang in SDK_FOLDERS],
)
def test_a_skeleton_is_completed_and_converts_what_waits(lang: str, tmp_path: Path) -> None:
    check_tools(lang)
    assert run("new", "tea", "--lang", lang, cwd=tmp_path).code == 0
    folder = tmp_path / "tea"
    aos = partial(run, cwd=folder, env={"AOS_WORLD": "world"}, timeout=300)
    edit(folder, FIRST[lang])
    built = aos("build")
    if "npm ci failed" in built.err:
        missing(f"npm cannot install AssemblyScript here: {built.err}")
    assert built.code == 0, built.err
    assert aos("init", "world").code == 0
    assert aos("apply", ".").code == 0
    assert aos("send", "tea/Placed@1", '{"order_id": "o-1", "cents": 5}').code == 0
    assert aos("run", "--until-waiting").code == 0

    edit(folder, SECOND[lang])
    written = aos("build", "--migration", "order")
    assert written.code == 0, written.err
    assert f"wrote {FILE[lang]}\n" in written.out

    edit(folder, DECLARED[lang])
    refused = aos("build")
    assert refused.code == 1
    for name in COMPLETED[lang]:
        assert f"todo: {name} " in refused.err

    complete(folder / FILE[lang], COMPLETED[lang])
    built = aos("build")
    assert built.code == 0, built.err
    applied = aos("apply", ".", "--mode", "migrate")
    assert applied.code == 0, applied.err
    state = aos("inspect", "cell", "order", "o-1", "--json").json["state"]
    assert (state["note"], state["cents"], state["charge"][:4]) == ("from before", 5, "aos:")
    assert "gone" not in state
    compared = aos("replay", "--against", ".", "--json").json
    assert compared["by_class"]["migration"] == compared["by_class"]["misfit"] == 0
    finished = aos("run", "--until-idle", "--executors", "effects.py:tea")
    assert finished.code == 0, finished.err
    assert aos("inspect", "cell", "order", "o-1", "--json").json["status"] == "completed"
    assert aos("replay").code == 0


def edit(folder: Path, edits: Edits) -> None:
    for name, before, after in edits:
        text = (folder / name).read_text()
        assert before in text, f"{name}: {before}"
        (folder / name).write_text(text.replace(before, after))


def complete(file: Path, lines: dict[str, str]) -> None:
    """Replace the line of each todo."""
    text = file.read_text().splitlines()
    for name, line in lines.items():
        [place] = [n for n, each in enumerate(text) if f"todo: {name} " in each]
        text[place] = line
    if any("OrderStateV2Lines" in each for each in text):
        text = [
            each.replace("OrderStateV2 }", "OrderStateV2, OrderStateV2Lines }") for each in text
        ]
    file.write_text("\n".join(text) + "\n")
