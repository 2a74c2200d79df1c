"""Resolve the caller's words to a flow or one of its messages (spec/audit.md, A-5)."""

from __future__ import annotations

from aos.audit.lens.lookup import find_named, names_text, spells, workflow_names
from aos.core.state.state import State
from aos.core.state.version import manifest_under
from aos.errors import BadUsage, sentence
from aos.flow.declaration import FlowDeclaration, declared_flows
from aos.manifest.effective import FLOW_STATE


def flow_names(state: State) -> list[str]:
    """Return the flows of the manifests that instances may run under, by name."""
    if state.manifest is None:
        return []
    manifests = (manifest_under(state, era.seq) for era in state.eras.all)
    return sorted({name for manifest in manifests for name in declared_flows(manifest)})


def find_flow(state: State, word: str) -> str:
    """Find a flow by its name, with the rules of ``find_workflow``, among the flows alone.

    Raises:
        BadUsage: No flow matches, or several do; or the word names a workflow that is no flow.
    """
    names = flow_names(state)
    other_names = [name for name in workflow_names(state) if name not in names]
    if not any(spells(word, name) for name in names):
        for name in other_names:
            if spells(word, name):
                raise BadUsage(
                    sentence(
                        f"{name} is no flow: its state is not {FLOW_STATE}",
                        expected="one of " + names_text(names) if names else None,
                        hint="its instances: aos inspect cells; its events: aos send",
                    )
                )
    return find_named("flow", word, names, "the manifest in force has no flow")


def find_message(flow: FlowDeclaration, word: str) -> str:
    """Find a message that a flow listens for by its schema, with the rules of ``find_workflow``.

    Raises:
        BadUsage: The flow listens for no such message, or for several.
    """
    hint = f"{flow.name} listens for no message"
    return find_named(f"message of {flow.name}", word, sorted(flow.messages), hint)
