"""Write the skeleton of a migration into a project, in Rust (``migration_rust``) or in
AssemblyScript (spec/authoring.md, AU-90 to AU-95).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from aos.author import migration_rust
from aos.author.assemblyscript.model import Model, class_names, fields
from aos.author.assemblyscript.workflows import migration_class
from aos.author.build import Built
from aos.author.definitions import air_json
from aos.author.migration_plan import Plan, file_stem, named_workflow, plan
from aos.author.migration_rust import rust_types
from aos.author.project import AIR, RUST, ModuleSource, Project
from aos.author.sdk import SDK_FOLDERS
from aos.errors import AosError, BadUsage, Refused, either
from aos.manifest.effective import Effective
from aos.store.part_file import write_file

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """The files that were written, by their paths below the project, and what the author does next,
    in order. ``entry`` is the field that the workflow's definition then has."""

    workflow: str
    source: str
    target: str
    files: tuple[str, ...]
    todos: tuple[str, ...]
    entry: Mapping[str, object]
    next_steps: tuple[str, ...]


def write_skeleton(built: Built, old_manifest: Effective, word: str) -> Skeleton:
    """Write the skeleton of a migration from the states of ``old_manifest`` to those of ``built``.

    Raises:
        BadUsage: ``word`` names no workflow of the build, or the language has no migrations.
        Refused: There is nothing to migrate, or a file exists already. Nothing was written.
        Unavailable: A file cannot be written.
    """
    project, new_manifest = built.project, built.loaded.effective
    check_has_migrations(project)
    workflow = named_workflow(word, new_manifest.workflows)
    nodes = _nodes(built)
    types = {node["name"]: node["type"] for node in nodes if node["$kind"] == "defschema"}
    migration = plan(old_manifest, new_manifest, types, workflow)
    module = _module(project, nodes, workflow)
    make = _rust if project.lang == RUST else _script
    files, entry, next_steps = make(project, module, migration, nodes)
    write_files(project.folder, files)
    return Skeleton(
        workflow=workflow,
        source=migration.source,
        target=migration.target,
        files=tuple(files),
        todos=tuple(field.problem for field in migration.fields or () if field.problem is not None)
        or ((migration.todo,) if migration.fields is None else ()),
        entry=entry,
        next_steps=next_steps,
    )


def check_has_migrations(project: Project) -> None:
    """Raise BadUsage if workflows in the project's language have no states of their own."""
    if project.lang not in SDK_FOLDERS:
        raise BadUsage(
            f"a project in {project.lang} has no migrations",
            location="--migration",
            expected=f"lang = {either([repr(lang) for lang in SDK_FOLDERS])}",
            hint="the state of every flow has the same schema; cx.version lets instances in "
            "flight keep the earlier code",
        )


_SkeletonParts = tuple[dict[str, str], Mapping[str, object], tuple[str, ...]]
"""Files, the manifest's entry, and the steps of the author."""


def _rust(
    project: Project, module: ModuleSource, migration: Plan, _nodes: list[Node]
) -> _SkeletonParts:
    crate = PurePosixPath(module.source)
    types = rust_types(project.folder / crate)
    if migration.target not in types:
        raise Refused(
            f"there is no type for {migration.target}",
            location=str(project.folder / crate / "src"),
            expected=f'#[schema("{migration.target}")] on a struct or enum',
        )
    file = str(crate / "src" / f"{file_stem(migration.workflow)}.rs")
    entry = migration_rust.manifest_entry(migration, migration_rust.entrypoint(migration.workflow))
    mod, use = migration_rust.imports(migration)
    steps = (
        f"in {crate / 'src/lib.rs'}: {mod}",
        f"in the module of the workflow: {use}",
        f"in #[workflow] of {migration.workflow}: {migration_rust.declaration(migration)}",
    )
    return {file: migration_rust.rust_text(migration, types)}, entry, steps


def _script(
    _project: Project, module: ModuleSource, migration: Plan, nodes: list[Node]
) -> _SkeletonParts:
    stem = file_stem(migration.workflow)
    name = entrypoint(
        migration.workflow, [node["name"] for node in nodes if node["$kind"] == "defworkflow"]
    )
    old = {"$kind": "defschema", "name": migration.source, "type": migration.old}
    entry = {"migrate": {"from": migration.source, "entrypoint": name}}
    files = {}
    old_node = next((node for node in nodes if node.get("name") == migration.source), None)
    if old_node is None:
        nodes = [*nodes, old]
        files[f"{AIR}/{stem}.air.json"] = air_json([old]).decode()
    declared = [
        {**node, **entry} if node.get("name") == migration.workflow else node for node in nodes
    ]
    file = str(PurePosixPath(module.source).parent / f"{stem}.ts")
    files[file] = script_text(migration, declared)
    steps = (
        f"in the definition of {migration.workflow} in {AIR}/: {json.dumps(entry)[1:-1]}",
        f'in {module.source}: export {{ {name} }} from "./{stem}";',
    )
    return files, entry, steps


def _nodes(built: Built) -> list[Node]:
    """Every definition of the build, with its comments."""
    nodes: list[Node] = []
    for name, data in sorted(built.inputs.items()):
        if name.endswith(".json"):
            value = json.loads(data)
            nodes += value if isinstance(value, list) else [value]
    return [node for node in nodes if "name" in node]


def _module(project: Project, nodes: list[Node], workflow: str) -> ModuleSource:
    """The source of the module that runs the workflow."""
    impl = next(node for node in nodes if node["name"] == workflow)["impl"]["module"]
    artifact = next(node for node in nodes if node["name"] == impl)["runtime"]["artifact"]
    path = os.path.normpath(f"{AIR}/{artifact['path']}")
    for module in project.modules:
        if module.artifact == path:
            return module
    raise Refused(f"{workflow} runs {impl}, which this project does not build")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write new files, by their paths below the folder: all of them or none. After a kill between
    two, the next try writes those that are missing.

    Raises:
        Refused: One of them exists with another text, or all exist.
        Unavailable: One of them cannot be written.
    """
    is_done = all((folder / name).exists() for name in files)
    for name, text in files.items():
        if is_done or _has_other_text(folder / name, text):
            raise Refused(
                f"{name} exists already",
                location=str(folder),
                hint="finish that migration, or move the file away",
            )
    written: list[Path] = []
    try:
        for name, text in files.items():
            if not (folder / name).exists():
                write_file(folder / name, text.encode(), mode=0o644)
                written.append(folder / name)
    except AosError:
        for file in written:
            file.unlink(missing_ok=True)
        raise


def _has_other_text(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() != text.encode()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def entrypoint(workflow: str, workflows: Sequence[str]) -> str:
    return f"migrate{class_names(workflows)[workflow]}"


def script_text(plan: Plan, nodes: Sequence[Node]) -> str:
    """The file's text. ``nodes`` are all definitions of the project, with the old state."""
    model = Model(nodes)
    workflows = sorted(model.workflows)
    name = entrypoint(plan.workflow, workflows)
    base = migration_class(workflows, plan.workflow)
    old = model.schema(plan.source, location=plan.workflow).type_text
    new = model.schema(plan.target, location=plan.workflow).type_text
    known_classes = {*model.class_names.values(), *model.classes}
    imports = sorted(
        {base, *(word for word in re.findall(r"\w+", f"{old} {new}") if word in known_classes)}
    )
    class_name = f"{name[0].upper()}{name[1:]}"
    entry = {"migrate": {"from": plan.source, "entrypoint": name}}
    lines = [
        f"// Convert stored states of {plan.workflow}: from {plan.source} to {plan.target}.",
        "//",
        "// Replace each ERROR by the value that stored states get. To declare the migration,",
        "// write in the workflow's definition in air/:",
        "//",
        f"//   {json.dumps(entry)[1:-1]}",
        "//",
        "// and in the module's entry file:",
        "//",
        f'//   export {{ {name} }} from "./{file_stem(plan.workflow)}";',
        "",
        'import { migrate } from "aos-sdk";',
        f'import {{ {", ".join(imports)} }} from "./generated";',
        "",
        f"class {class_name} extends {base} {{",
        f"  migrate(old: {old}): {new} {{",
        *_body(plan, new),
        "  }",
        "}",
        "",
        f"export function {name}(pointer: i32, length: i32): u64 {{",
        f"  return migrate<{class_name}>(pointer, length);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _body(plan: Plan, new: str) -> list[str]:
    if plan.fields is None:
        return [f"    ERROR({json.dumps(plan.todo)});"]
    new_names = fields([field.name for field in plan.fields])
    old_names = fields(plan.old["record"])
    lines = [
        f"    // {name} of the old state is in no field of the new one." for name in plan.dropped
    ]
    lines.append(f"    const made = new {new}();")
    for field in plan.fields:
        name = new_names[field.name]
        if field.problem is None:
            lines.append(f"    made.{name} = old.{old_names[field.name]};")
        else:
            lines.append(f"    ERROR({json.dumps(field.problem)}); // made.{name} = …;")
    return [*lines, "    return made;"]
