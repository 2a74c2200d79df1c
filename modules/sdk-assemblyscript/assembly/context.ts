// The context of a step: the values that a step may read, and the outputs that it may write.

import { Effect } from "./effect";
import { draw, drawBelow, drawBytes, drawUuid } from "./random";
import { context as workflowContext, fault as stepFault, Step } from "./step";
import { WorkflowContext } from "./system";
import { Schema } from "./value";
import { Writer } from "./writer";

export enum Status {
  Running,
  Completed,
  Failed,
}

export namespace cx {
  /**
   * The time in ns: the clock of the host when the input arrived that caused the step. Compute
   * deadlines from it. It may be earlier than in the step before, if the clock was corrected in between.
   */
  export function now(): u64 {
    return workflowContext().now_ns;
  }

  /**
   * The journal's clock in ns: the latest time of all inputs so far, which never goes back. A clock of
   * the host that was ahead once leaves it ahead, so a deadline computed from it may come too late.
   */
  export function journalNow(): u64 {
    return workflowContext().logical_now_ns;
  }

  /** All of `sys/WorkflowContext@1`: the causing stamp, hashes, the cell's key in bytes. */
  export function context(): WorkflowContext {
    return workflowContext();
  }

  /** Any u64: chance from the context, which replay draws again. Never a secret. */
  export function random(): u64 {
    return draw();
  }

  /** A number below `bound`, each as likely. Traps for 0. */
  export function below(bound: u64): u64 {
    return drawBelow(bound);
  }

  export function randomBytes(size: i32): Uint8Array {
    return drawBytes(size);
  }

  /** A uuid of version 4. */
  export function uuid(): string {
    return drawUuid();
  }

  /** Emit a domain event. Where it goes, the manifest's routing says. */
  export function emit(event: Schema): void {
    write(event, null);
  }

  /** Emit with the key that each keyed receiver must be routed by, in canonical bytes (`encodeText`, …). */
  export function emitWithKey(event: Schema, key: Uint8Array): void {
    write(event, key);
  }

  /** Ask an effect without a handle: its answer comes as a receipt that is of no handle. */
  export function ask(effect: Effect): void {
    request(effect, effect.issuerRef);
  }

  /** Declare the instance's status. It holds until another is declared. */
  export function status(status: Status): void {
    Step.status = status == Status.Running ? "running" : status == Status.Completed ? "completed" : "failed";
  }

  /** Delete the cell: later mail creates a new one. A step that also requests an effect ends with a fault. */
  export function deleteCell(): void {
    Step.deleted = true;
  }

  /** End the step with a fault: the state stays as it was, nothing else is written, and the instance fails. The
   * first fault counts. Return after it: the rest of the handler still runs. */
  export function fault(kind: string, message: string): void {
    stepFault(kind, message);
  }

  /** Write a line into the annotation, where the workflow's `annotations` is `aos/Log@1`. Under `if (LOG)` it is not
   * even in the module when no workflow logs. */
  export function log(line: string): void {
    if (!Step.logs) return;
    let lines = Step.lines;
    if (lines === null) {
      lines = new Array<string>();
      Step.lines = lines;
    }
    lines.push(line);
  }
}

function write(event: Schema, key: Uint8Array | null): void {
  let w = Step.events;
  if (w === null) {
    w = new Writer();
    Step.events = w;
  }
  Step.eventCount += 1;
  const value = new Writer();
  event.writeTo(value);
  w.record(key !== null ? 3 : 2);
  if (key !== null) {
    w.key("key");
    w.bytes(key);
  }
  w.key("value");
  w.embedded(value);
  w.key("schema");
  w.text(event.schemaName());
}

/** Write a request with this issuer ref. */
export function request(effect: Effect, ref: string | null): void {
  const own = effect.issuerRef;
  if (own !== null && own.startsWith("aos:")) {
    stepFault("sdk_issuer_ref", 'issuer refs that begin with "aos:" belong to handles');
  }
  let w = Step.effects;
  if (w === null) {
    w = new Writer();
    Step.effects = w;
  }
  Step.effectCount += 1;
  const params = new Writer();
  effect.writeParams(params);
  const text = effect.idempotencyKey;
  const bytes = effect.idempotencyBytes;
  w.record(2 + <u64>(ref !== null) + <u64>(text !== null || bytes !== null));
  w.key("effect");
  w.text(effect.effectName());
  w.key("params");
  w.embedded(params);
  if (ref !== null) {
    w.key("issuer_ref");
    w.text(ref);
  }
  if (text !== null) {
    w.key("idempotency_key");
    w.text(text);
  } else if (bytes !== null) {
    w.key("idempotency_key");
    w.bytes(bytes);
  }
}
