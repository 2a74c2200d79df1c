"""Write the classes of records, variants and effects (SA-11 to SA-13)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from aos.author.assemblyscript.kinds import Kind
from aos.author.assemblyscript.model import Class, Member, Model, Node, getters
from aos.values.cbor import encode


def quoted(text: str) -> str:
    """A string literal, in ASCII."""
    return json.dumps(text)


def class_text(class_def: Class) -> str:
    lines = _variant(class_def) if class_def.is_variant else _record(class_def)
    return "\n".join(lines)


def _head(class_def: Class) -> str:
    return (
        f"export class {class_def.name} extends aos.Schema {{"
        if class_def.schema
        else (f"export class {class_def.name} {{")
    )


def _schema_name(class_def: Class) -> Iterator[str]:
    if class_def.schema:
        yield "  schemaName(): string {"
        yield f"    return {quoted(class_def.schema)};"
        yield "  }"
        yield ""


def canonical(names: Sequence[Member]) -> list[Member]:
    """The members in the order of their encoded names (V-11)."""
    return sorted(names, key=lambda member: encode(member.name))


def _record(class_def: Class) -> Iterator[str]:
    in_order = canonical(class_def.members)
    if class_def.schema:
        yield f"/** {class_def.schema} */"
    yield _head(class_def)
    if class_def.members:
        yield "  constructor("
        for member in class_def.members:
            kind = member.kind
            yield f"    public {member.identifier}: {kind.type_text} = {kind.default},"
        yield "  ) {"
        if class_def.schema:
            yield "    super();"
        yield "  }"
        yield ""
    yield f"  static readFrom(r: aos.Reader): {class_def.name} {{"
    yield f"    r.record({len(in_order)});"
    for member in in_order:
        yield f"    r.key({quoted(member.name)});"
        yield f"    const {member.identifier}: {member.kind.type_text} = {member.kind.reads};"
    arguments = ", ".join(member.identifier for member in class_def.members)
    yield f"    return new {class_def.name}({arguments});"
    yield "  }"
    yield ""
    yield from _schema_name(class_def)
    yield "  writeTo(w: aos.Writer): void {"
    yield f"    w.record({len(in_order)});"
    for member in in_order:
        yield f"    w.key({quoted(member.name)});"
        yield f"    {member.kind.write(f'this.{member.identifier}')}"
    yield "  }"
    yield "}"


def _variant(class_def: Class) -> Iterator[str]:
    getter = getters(member.name for member in class_def.members)
    tag = f"{class_def.name}Tag"
    yield f"export enum {tag} {{"
    for member in class_def.members:
        yield f"  {member.identifier},"
    yield "}"
    yield ""
    note = "`tag` says which arm; an arm's value is in its own."
    yield f"/** {class_def.schema or 'A variant'}: {note} */"
    yield _head(class_def)
    for member in class_def.members:
        if not member.is_unit_arm:
            yield f"  private _{member.identifier}: {_stored(member.kind)} = {_empty(member.kind)};"
    yield ""
    yield f"  constructor(public readonly tag: {tag}) {{"
    if class_def.schema:
        yield "    super();"
    yield "  }"
    for member in class_def.members:
        yield ""
        yield from _arm(class_def, member, getter[member.name])
    yield ""
    yield f"  static readFrom(r: aos.Reader): {class_def.name} {{"
    yield "    const tag = r.tag();"
    for member in class_def.members:
        yield f"    if (tag == {quoted(member.name)}) {{"
        if member.is_unit_arm:
            yield "      r.noValue();"
            yield f"      return {class_def.name}.{member.identifier}();"
        else:
            yield "      r.value();"
            yield f"      return {class_def.name}.{member.identifier}({member.kind.reads});"
        yield "    }"
    yield '    r.fail("an unknown arm");'
    yield f"    return new {class_def.name}({tag}.{class_def.members[0].identifier});"
    yield "  }"
    yield ""
    yield from _schema_name(class_def)
    yield "  writeTo(w: aos.Writer): void {"
    yield "    switch (this.tag) {"
    for member in class_def.members:
        yield f"      case {tag}.{member.identifier}: {{"
        if member.is_unit_arm:
            yield f"        w.unitArm({quoted(member.name)});"
        else:
            yield f"        w.arm({quoted(member.name)});"
            yield f"        {member.kind.write(f'this.{getter[member.name]}')}"
        yield "        break;"
        yield "      }"
    yield "    }"
    yield "  }"
    yield "}"


def _is_nullable(kind: Kind) -> bool:
    return kind.type_text.endswith("| null")


def _stored(kind: Kind) -> str:
    return kind.type_text if kind.by_value or _is_nullable(kind) else f"{kind.type_text} | null"


def _empty(kind: Kind) -> str:
    return kind.default if kind.by_value else "null"


def _arm(class_def: Class, member: Member, getter: str) -> Iterator[str]:
    tag = f"{class_def.name}Tag.{member.identifier}"
    if member.is_unit_arm:
        yield f"  static {member.identifier}(): {class_def.name} {{"
        yield f"    return new {class_def.name}({tag});"
        yield "  }"
        return
    kind, stored = member.kind, f"_{member.identifier}"
    yield f"  static {member.identifier}(value: {kind.type_text}): {class_def.name} {{"
    yield f"    const made = new {class_def.name}({tag});"
    yield f"    made.{stored} = value;"
    yield "    return made;"
    yield "  }"
    yield ""
    yield "  /** Traps when the arm is another. */"
    yield f"  get {getter}(): {kind.type_text} {{"
    if kind.by_value or _is_nullable(kind):
        yield f'    assert(this.tag == {tag}, "it is another arm");'
        yield f"    return this.{stored};"
    else:
        yield f"    return this.{stored}!;"
    yield "  }"


def effect_text(model: Model, node: Node) -> str:
    return "\n".join(_effect(model, node))


def _effect(model: Model, node: Node) -> Iterator[str]:
    name = node["name"]
    stem = model.effect_names[name]
    params = model.schema(node["params"], location=name)
    receipt = model.schema(node["receipt"], location=name)
    outcome = f"aos.Outcome<{receipt.type_text}>"
    effect = model.claims.claim(f"{stem}Effect", f"the effect {name}")
    handle = model.claims.claim(f"{stem}Pending", f"the handle of {name}")
    handles = model.claims.claim(f"{stem}PendingSet", f"the set of handles of {name}")
    yield f"/** {name}: a request. */"
    yield f"export class {effect} extends aos.Effect {{"
    yield f"  constructor(public params: {params.type_text} = {params.default}) {{"
    yield "    super();"
    yield "  }"
    yield ""
    yield f"  withKey(idempotencyKey: string): {effect} {{"
    yield "    this.idempotencyKey = idempotencyKey;"
    yield "    return this;"
    yield "  }"
    yield ""
    yield f"  withRef(issuerRef: string): {effect} {{"
    yield "    this.issuerRef = issuerRef;"
    yield "    return this;"
    yield "  }"
    yield ""
    yield "  effectName(): string {"
    yield f"    return {quoted(name)};"
    yield "  }"
    yield ""
    yield "  writeParams(w: aos.Writer): void {"
    yield f"    {params.write('this.params')}"
    yield "  }"
    yield "}"
    yield ""
    yield f"function outcomeOf{stem}(receipt: aos.EffectReceiptEnvelope): {outcome} | null {{"
    yield '  if (receipt.status != "ok") {'
    yield f"    return aos.failed<{receipt.type_text}>(receipt, {quoted(name)});"
    yield "  }"
    yield "  const r = aos.Reader.of(receipt.receipt_payload);"
    yield f"  const value: {receipt.type_text} = {receipt.reads};"
    yield f"  return aos.succeeded<{receipt.type_text}>(r, value, {quoted(name)});"
    yield "}"
    yield ""
    yield f"/** {name}: a handle on a request in flight. */"
    yield f"export class {handle} extends aos.Pending {{"
    yield f"  start(effect: {effect}): void {{"
    yield "    this.begin(effect);"
    yield "  }"
    yield ""
    yield "  /** Null when the receipt is of another request. Idle afterwards. */"
    yield f"  settle(receipt: aos.EffectReceiptEnvelope): {outcome} | null {{"
    yield "    if (!this.matches(receipt.issuer_ref)) return null;"
    yield "    this.ref = null;"
    yield f"    return outcomeOf{stem}(receipt);"
    yield "  }"
    yield "}"
    yield ""
    yield f"/** {name}: handles on requests in flight, each under a key. */"
    yield f"export class {handles}<K> extends aos.PendingSet<K> {{"
    yield f"  start(key: K, effect: {effect}): void {{"
    yield "    this.begin(key, effect);"
    yield "  }"
    yield ""
    yield "  /** Null when the receipt is of none of them. It is taken out. */"
    settled = f"aos.Settled<K, {receipt.type_text}>"
    yield f"  settle(receipt: aos.EffectReceiptEnvelope): {settled} | null {{"
    yield "    const key = this.take(receipt.issuer_ref);"
    yield "    if (key === null) return null;"
    yield f"    const outcome = outcomeOf{stem}(receipt);"
    yield f"    return outcome === null ? null : new {settled}(key.value, outcome);"
    yield "  }"
    yield "}"
