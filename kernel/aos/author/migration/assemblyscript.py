"""Write the skeleton of a migration in AssemblyScript (AU-94)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from aos.author.assemblyscript.model import Model
from aos.author.assemblyscript.names import class_names, fields
from aos.author.assemblyscript.workflows import migration_class
from aos.author.migration.plan import Plan, file_stem

Node = Mapping[str, Any]


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
