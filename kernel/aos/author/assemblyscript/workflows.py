"""Write the base class of each workflow (SA-14) and of its migration (SA-16), which the author
extends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aos.author.assemblyscript.classes import quoted
from aos.author.assemblyscript.model import HANDLE, Expression, Model, Node, class_names, pascal
from aos.author.errors import BuildFailed

LOG = "aos/Log@1"
"""The annotations of a workflow that logs (SD-30)."""


def logs(model: Model) -> bool:
    return any(node.get("annotations") == LOG for node in model.workflows.values())


def workflow_text(model: Model, node: Node) -> str:
    """The base class of a workflow (SA-14)."""
    return "\n".join(_workflow(model, node))


def _workflow(model: Model, node: Node) -> Iterator[str]:
    name = node["name"]
    class_name = model.claims.claim(f"{model.workflow_names[name]}Workflow", f"the workflow {name}")
    state = model.schema(node["state"], location=name)
    _check_handles(model, node)
    yield f"/** {name}: extend it, and export an entrypoint that runs it. */"
    yield f"export abstract class {class_name} extends aos.Workflow {{"
    yield f"  state: {state.type_text} = {state.default};"
    yield from key_field(model, node)
    yield ""
    yield from _handlers(model, node)
    yield from key_reader(model, node)
    yield from _annotations(model, node)
    yield ""
    yield "  aosReadState(r: aos.Reader): void {"
    yield f"    this.state = {state.reads};"
    yield "  }"
    yield ""
    yield "  aosWriteState(w: aos.Writer): void {"
    yield f"    {state.write('this.state')}"
    yield "  }"
    yield "}"


def _check_handles(model: Model, node: Node) -> None:
    """Raise BuildFailed for a handle of an effect that the workflow may not emit: the kernel would
    refuse the first step that starts it (K-50)."""
    emitted = node["effects_emitted"]
    for effect in sorted(_handled_effects(model, {"ref": node["state"]})):
        if effect not in emitted:
            raise BuildFailed(
                f"the state has a handle of {effect}, which the workflow does not ask for",
                location=node["name"],
                hint="name it in effects_emitted",
            )


def _handled_effects(model: Model, expression: Expression) -> set[str]:
    """The effects of the handles in a type. Following refs terminates (V-24)."""
    handle = HANDLE.fullmatch(str(expression.get("$comment")))
    if handle is not None:
        return {handle["effect"]}
    parts: list[Expression] = []
    for form, argument in expression.items():
        if form == "ref":
            parts.append(model.schemas[argument]["type"])
        elif form in ("record", "variant"):
            parts += argument.values()
        elif form == "map":
            parts.append(argument["value"])
        elif form in ("option", "list", "set"):
            parts.append(argument)
    return set[str]().union(*(_handled_effects(model, part) for part in parts))


def _handlers(model: Model, node: Node) -> Iterator[str]:
    name = node["name"]
    model.schema(node["event"], location=name)
    event = model.resolved(node["event"])
    expression = model.schemas[event]["type"]
    if "record" in expression:
        kind = model.kind_of(event)
        yield f"  abstract onEvent(event: {kind.type_text}): void;"
        yield ""
        yield "  aosHandle(r: aos.Reader): void {"
        yield f"    const event = {kind.reads};"
        yield "    if (r.done()) this.onEvent(event);"
        yield "  }"
        return
    if "variant" not in expression:
        raise BuildFailed(
            "the event is of another type",
            location=name,
            expected="a record, or a variant whose arms are refs",
            actual=next(iter(expression)),
        )
    handlers: dict[str, str] = {}
    for arm, arm_type in expression["variant"].items():
        if "ref" not in arm_type:
            raise BuildFailed(
                f"the arm {arm} of the event is not a ref",
                location=event,
                expected='{"ref": name}',
                hint="give its type its own schema",
            )
        handler = f"on{pascal(arm)}"
        if handler in handlers.values():
            raise BuildFailed(f"two arms need the handler name {handler}", location=event)
        handlers[arm] = handler
        kind = model.kind_of(arm_type["ref"])
        yield f"  abstract {handler}(event: {kind.type_text}): void;"
    yield ""
    yield "  aosHandle(r: aos.Reader): void {"
    yield "    const tag = r.tag();"
    yield "    r.value();"
    for arm, arm_type in expression["variant"].items():
        kind = model.kind_of(arm_type["ref"])
        yield f"    if (tag == {quoted(arm)}) {{"
        yield f"      const event: {kind.type_text} = {kind.reads};"
        yield f"      if (r.done()) this.{handlers[arm]}(event);"
        yield "      return;"
        yield "    }"
    yield '    r.fail("an unknown arm");'
    yield "  }"


def _annotations(model: Model, node: Node) -> Iterator[str]:
    annotations = node.get("annotations")
    if annotations is None:
        return
    kind = model.schema(annotations, location=node["name"])
    yield ""
    if annotations == LOG:
        yield "  aosLogs(): bool {"
        yield "    return true;"
        yield "  }"
        return
    yield "  /** Of several in one step the last counts. */"
    yield f"  annotate(annotation: {kind.type_text}): void {{"
    yield "    const w = this.aosAnnotation();"
    yield f"    {kind.write('annotation')}"
    yield "  }"


def key_field(model: Model, node: Node) -> Iterator[str]:
    """The lines of the field for the cell's key, in the class of a workflow or migration."""
    if "key_schema" in node:
        key = model.schema(node["key_schema"], location=node["name"])
        yield "  /** Of the cell. */"
        yield f"  key: {key.type_text} = {key.default};"


def key_reader(model: Model, node: Node) -> Iterator[str]:
    """The lines of the method that reads ``key_field``."""
    if "key_schema" in node:
        key = model.schema(node["key_schema"], location=node["name"])
        yield ""
        yield "  aosReadKey(r: aos.Reader): void {"
        yield f"    this.key = {key.reads};"
        yield "  }"


def migration_class(workflows: Iterable[str], name: str) -> str:
    """The base class of the migration of one of the project's workflows."""
    return f"{class_names(workflows)[name]}Migration"


def migration_text(model: Model, node: Node) -> str:
    """The base class of the migration of a workflow (SA-16)."""
    return "\n".join(_migration(model, node))


def _migration(model: Model, node: Node) -> Iterator[str]:
    name, source = node["name"], node["migrate"]["from"]
    _check_old_schema(model, name, source)
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


def _check_old_schema(model: Model, name: str, source: str) -> None:
    """Raise BuildFailed without the old schema: the manifest does not need it, but the class
    does."""
    if source not in model.schemas:
        raise BuildFailed(
            f"the migration is from {source}, which is not defined",
            location=name,
            hint="keep that schema in air/ as it was, and give the new state another name",
        )
