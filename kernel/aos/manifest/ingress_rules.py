"""The rules of the list of events that are accepted from outside (M-30b, M-30c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from aos.manifest import builtins
from aos.manifest.catalog import Catalog, Findings, each_once
from aos.manifest.linear_names import LINEAR, SENT_TO_LINEAR
from aos.manifest.schedule_names import SCHEDULE, SENT_TO_SCHEDULES

SENT_TO_PACKAGES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {LINEAR: SENT_TO_LINEAR, SCHEDULE: SENT_TO_SCHEDULES}
)
"""The events through which senders and processes of AOS drive the instances of a package, by the
name of the package, which is that of its workflow (M-30c)."""


def ingress(event_names: Sequence[str], catalog: Catalog) -> Findings:
    """Every broken rule of the list."""
    for index, name in each_once(list(event_names)):
        if index is None:
            yield "/routing/ingress", f"{name} is listed twice", None
        else:
            yield from _entry(name, f"/routing/ingress/{index}", catalog)
    for package, sent in SENT_TO_PACKAGES.items():
        missing = sorted(sent - set(event_names))
        if missing and catalog.node("defworkflow", package) is not None:
            yield (
                "/routing/ingress",
                f"{', '.join(missing)} must be listed: {package} is driven by these events",
                f'add them, or "uses": ["{package}"], which adds them to the list',
            )


def _entry(name: str, pointer: str, catalog: Catalog) -> Findings:
    yield from catalog.use("defschema", name, pointer)
    if name in builtins.CONTINUATIONS:
        yield (
            pointer,
            f"{name} {builtins.ONLY_DELIVERED}",
            "remove it from the list: receipts find the instance that asked for the effect",
        )
