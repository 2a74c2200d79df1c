"""The rules of the list of executors: (executors, catalog) -> findings (M-37)."""

from __future__ import annotations

from aos.manifest.builtins import KERNEL_EFFECTS
from aos.manifest.catalog import Catalog, Findings, Node, each_once
from aos.manifest.keys import parse_key
from aos.manifest.names import EXECUTOR_NAME, KERNEL
from aos.values.errors import ValueProblem


def executors(entries: list[Node], catalog: Catalog) -> Findings:
    for index, name in each_once([entry["name"] for entry in entries]):
        if index is None:
            yield "/executors", f"{name} is listed twice", None
        elif name == KERNEL or not EXECUTOR_NAME.fullmatch(name):
            yield f"/executors/{index}/name", f"{name!r} cannot be the name of an executor", None
    for index, entry in enumerate(entries):
        for effect_index, effect in each_once(entry["effects"]):
            pointer = f"/executors/{index}/effects"
            if effect_index is None:
                yield pointer, f"{effect} is listed twice", None
            elif effect in KERNEL_EFFECTS:
                yield (
                    f"{pointer}/{effect_index}",
                    f"the kernel itself answers {effect}: no executor signs for it",
                    "leave it out",
                )
            else:
                yield from catalog.use("defeffect", effect, f"{pointer}/{effect_index}")
    yield from _keys(entries)
    yield from _effects_have_a_signer(entries, catalog)


def _keys(entries: list[Node]) -> Findings:
    owners: dict[str, str] = {}
    for index, entry in enumerate(entries):
        at = f"/executors/{index}"
        placed = [(f"{at}/public_key", entry["public_key"])]
        for field in ("retired_keys", "revoked_keys"):
            keys = entry.get(field, [])
            placed += [(f"{at}/{field}/{key_index}", key) for key_index, key in enumerate(keys)]
        for pointer, key in placed:
            try:
                parse_key(key)
            except ValueProblem as problem:
                yield pointer, problem.message, None
                continue
            if key in owners:
                yield (
                    pointer,
                    f"this key is already used at {owners[key]}",
                    "a key has one owner and is in force, retired or revoked",
                )
            owners.setdefault(key, pointer)


def _effects_have_a_signer(entries: list[Node], catalog: Catalog) -> Findings:
    """If the list is present, some executor must be allowed to sign for each emitted effect."""
    may_sign = {(entry["name"], effect) for entry in entries for effect in entry["effects"]}
    signed = {effect for _, effect in may_sign}
    emitted = {
        effect
        for (kind, _), node in catalog.definitions.items()
        if kind == "defworkflow"
        for effect in node["effects_emitted"]
        if catalog.exists("defeffect", effect) and effect not in KERNEL_EFFECTS
    }
    for effect in sorted(emitted):
        # Any executor may be named for built-in effects and those of a module.
        executor = (
            catalog.definitions.get(("defeffect", effect), {}).get("impl", {}).get("executor")
        )
        if executor is not None and (executor, effect) not in may_sign:
            yield (
                "/executors",
                f"{effect} is run by {executor}, which may not sign for it",
                f"add {effect} to the effects of an executor named {executor}",
            )
        elif executor is None and effect not in signed:
            yield "/executors", f"no executor may sign for {effect}", None
