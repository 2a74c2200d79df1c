"""The indexed attributes of a workflow: those that every cell has, and those of ``node.toml``
(spec/search.md, SE-21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.effective import Effective
from aos.manifest.names import LINEAR
from aos.read.views.linear_view import LINEAR_NAMES
from aos.read.where.attributes import OF_EVERY_CELL, Attribute, Names
from aos.read.where.condition import WhereInvalid, WhereToken
from aos.values.cbor import Value, encode
from aos.values.digests import content_hash

FORMAT: Final = 3
"""Counts changes of the values' form: those of another one are written again."""

ATTRIBUTES_MAX: Final = 16
"""Attributes of one workflow in ``node.toml``."""

_OF_EVERY_CELL: Final = ("key", "fault")
"""Names of every cell that the index has no column for. Few lists have the others; a manifest may
also pin and release cells without a record for each of them."""

SearchSettings = Mapping[str, Mapping[str, str]]
"""By workflow: names and their paths into the state."""


@dataclass(frozen=True, slots=True)
class IndexedWorkflow:
    """A workflow and its attributes, by path. Cells with the same ``signature`` have the same
    rows."""

    name: str
    attributes: Mapping[str, Attribute] = field(repr=False)
    signature: bytes = field(repr=False)

    def in_order(self) -> tuple[Attribute, ...]:
        """The attributes in the order of their paths, which is that of their numbers."""
        return tuple(attribute for _, attribute in sorted(self.attributes.items()))


def indexed_workflows(
    settings: SearchSettings, state: State, report: Callable[[str], None]
) -> dict[str, IndexedWorkflow]:
    """The workflows of the settings that the manifest in force has. A path that its states do not
    have is reported, and has no index."""
    manifest = state.manifest
    if manifest is None:
        return {}
    return {
        name: _indexed(
            manifest, name, aliases, lambda problem: report(f"{problem}; it is not indexed")
        )
        for name, aliases in settings.items()
        if name in manifest.workflows
    }


def check_search(settings: SearchSettings, manifest: Effective | None) -> None:
    """Check the names of ``node.toml`` by the manifest in force, at the start of a node. Workflows
    that it does not have may come with a later one.

    Raises:
        BadUsage: A path is none of the states' paths, with every problem.
    """
    problems: list[str] = []
    for name, aliases in settings.items():
        if manifest is not None and name in manifest.workflows:
            _indexed(manifest, name, aliases, problems.append)
    if problems:
        raise BadUsage("node.toml: " + "; ".join(problems))


def _indexed(
    manifest: Effective,
    name: str,
    aliases: Mapping[str, str],
    report: Callable[[str], None],
) -> IndexedWorkflow:
    names = Names(manifest, name, {})
    attributes = {OF_EVERY_CELL[name_].path: OF_EVERY_CELL[name_] for name_ in _OF_EVERY_CELL}
    linear_aliases = (
        {linear_name: linear_name for linear_name in LINEAR_NAMES.values()}
        if name == LINEAR
        else {}
    )
    for alias, path in {**linear_aliases, **aliases}.items():
        try:
            attribute = names.attribute(WhereToken(f"state.{path}", 1, "word"))
        except WhereInvalid as problem:
            report(f'search."{name}".{alias}: {problem}')
            continue
        attributes[attribute.path] = attribute
    kinds: list[Value] = [
        [path, indexed_attribute.kind.name]
        for path, indexed_attribute in sorted(attributes.items())
    ]
    return IndexedWorkflow(name, attributes, content_hash(encode([FORMAT, kinds])))
