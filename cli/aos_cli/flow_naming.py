"""Name a flow, its instance and its events on the command line (spec/cli.md, C-70 to C-73)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.audit.lens.flow_lookup import find_flow
from aos.audit.lens.lookup import find_cell
from aos.audit.lens.words import key_text
from aos.audit.views.flow_reading import SeenFlow, read_flow
from aos.audit.views.reason import command_words
from aos.audit.views.view import View
from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.records import CellId
from aos.errors import BadUsage, Refused, Unavailable
from aos.flow.declaration import FlowDeclaration, declared_flow
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

JSON_BYTES_MAX = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInstance:
    """One instance that a command names. ``reading`` is None if it does not exist."""

    id: CellId
    key: object
    declaration: FlowDeclaration
    reading: SeenFlow | None

    @property
    def words(self) -> str:
        """``FLOW KEY`` as a user types it."""
        return command_words(self.id[0], self.key)

    @property
    def text(self) -> str:
        return f"{self.id[0]} {key_text(self.key)}"

    @property
    def document(self) -> dict[str, object]:
        return {"workflow": self.id[0], "key": self.key}


def declaration_in_force(view: View, word: str) -> FlowDeclaration:
    """Return what the manifest in force says about a flow.

    Raises:
        BadUsage: No flow is called so.
        Refused: The manifest in force no longer has it, so that no event reaches its instances.
    """
    name = find_flow(view.state, word)
    declaration = declared_flow(view.state.effective, name)
    if declaration is None:
        raise Refused(
            f"{name} is no flow of the manifest in force, so that no event reaches its instances "
            f"(to end one: aos cells end {name} KEY)"
        )
    return declaration


def find_instance(view: View, word: str, key: str) -> NamedInstance:
    """Find an instance, whether or not it exists. Raises as ``declaration_in_force``; also BadUsage
    for a key that does not fit."""
    declaration = declaration_in_force(view, word)
    return instance(view, declaration, find_cell(view.state, declaration.name, key))


def instance(view: View, declaration: FlowDeclaration, id: CellId) -> NamedInstance:
    cell = view.state.cells.get(id)
    key = declaration.key.to_json(declaration.key.from_record(id[1]))
    reading = None if cell is None else read_flow(view.state, cell, view.journal.blob)
    return NamedInstance(id=id, key=key, declaration=declaration, reading=reading)


def json_argument(text: str, argument_name: str) -> object:
    """Read an argument that is JSON. Raises BadUsage."""
    try:
        return parse_json(text, max_bytes=JSON_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{argument_name}: {problem}") from problem


def admitted(answer: Answer) -> Admitted | Duplicate:
    """Return an answer that is no refusal.

    Raises:
        Unavailable: The world is busy.
        Refused: Another rule refuses the input.
    """
    if not isinstance(answer, Refusal):
        return answer
    if answer.rule is Rule.WORLD_IS_BUSY:
        raise Unavailable(answer.message)
    raise Refused(answer.message)
