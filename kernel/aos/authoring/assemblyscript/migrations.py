"""Write the base class of each migration, which the author extends (SA-16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aos.authoring.assemblyscript.model import Model, Node
from aos.authoring.assemblyscript.names import class_names
from aos.authoring.assemblyscript.workflows import key_field, key_reader
from aos.authoring.errors import BuildFailed
from aos.errors import sentence


def migration_class(workflows: Iterable[str], name: str) -> str:
    """The base class of the migration of one of the project's workflows."""
    return f"{class_names(workflows)[name]}Migration"


def migration_text(model: Model, node: Node) -> str:
    return "\n".join(_migration(model, node))


def _migration(model: Model, node: Node) -> Iterator[str]:
    name, source = node["name"], node["migrate"]["from"]
    _check_source(model, name, source)
    class_name = model.claims.claim(
        migration_class(model.workflows, name), f"the migration of {name}"
    )
    old = model.schema(source, location=name)
    new = model.schema(node["state"], location=name)
    yield f"/** {name}, from {source}: extend it, and export an entrypoint that runs it. */"
    yield f"export abstract class {class_name} extends aos.Migration {{"
    if "key_schema" in node:
        yield from key_field(model, node)
        yield ""
    yield "  /** The state that takes the place of `old`. */"
    yield f"  abstract migrate(old: {old.type_text}): {new.type_text};"
    yield from key_reader(model, node)
    yield ""
    yield "  aosMigrate(r: aos.Reader, w: aos.Writer): void {"
    yield f"    const old: {old.type_text} = {old.reads};"
    yield "    if (!r.done()) return;"
    yield f"    const made: {new.type_text} = this.migrate(old);"
    yield f"    {new.write('made')}"
    yield "  }"
    yield "}"


def _check_source(model: Model, name: str, source: str) -> None:
    """Raise BuildFailed without the old schema: the manifest does not need it, but the class
    does."""
    if source not in model.schemas:
        raise BuildFailed(
            sentence(
                f"the migration is from {source}, which is not defined",
                location=name,
                hint="keep that schema in air/ as it was, and give the new state another name",
            )
        )
