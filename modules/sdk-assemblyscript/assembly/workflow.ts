// One step: the input envelope is read, a handler called, the output envelope written (spec/kernel.md K-30, K-31).

import { Reader } from "./reader";
import { fault, Step } from "./step";
import { Writer } from "./writer";

/** Generated classes extend it, one for each workflow; authors extend those. */
export abstract class Workflow {
  abstract aosReadState(r: Reader): void;
  abstract aosWriteState(w: Writer): void;
  abstract aosHandle(r: Reader): void;

  aosReadKey(r: Reader): void {
    r.skip();
  }

  aosLogs(): bool {
    return false;
  }

  aosAnnotation(): Writer {
    const w = new Writer();
    Step.annotation = w;
    return w;
  }
}

/** Take a step with a new `T`: what an entrypoint does. */
export function run<T extends Workflow>(pointer: i32, length: i32): u64 {
  return step(instantiate<T>(), <usize>pointer, <usize>length);
}

function step(workflow: Workflow, pointer: usize, length: usize): u64 {
  Step.logs = workflow.aosLogs();
  handle(workflow, new Reader(pointer, pointer + length));
  const w = new Writer();
  // A handler may have left a value that its type does not allow: writing it makes a fault too.
  if (Step.faultKind === null) writeOutput(w, workflow);
  if (Step.faultKind !== null) {
    w.size = 0;
    writeFault(w);
  }
  return ((<u64>w.start) << 32) | <u64>w.size;
}

function handle(workflow: Workflow, r: Reader): void {
  if (r.map() == 4) {
    r.key("ctx");
    Step.context = r.embedded();
  }
  r.key("event");
  let key: Reader | null = null;
  if (r.map() == 3) {
    r.key("key");
    key = r.embedded();
  }
  r.key("value");
  const event = r.embedded();
  r.key("schema");
  r.text();
  r.key("state");
  let state: Reader | null = null;
  if (!r.isNull()) state = r.embedded();
  r.key("version");
  if (r.nat() != 1) r.fail("this module reads input envelopes of version 1");
  if (!whole(r, "input")) return;

  if (state !== null) {
    workflow.aosReadState(state);
    if (!whole(state, "state")) return;
  }
  if (key !== null) {
    workflow.aosReadKey(key);
    if (!whole(key, "key")) return;
  }
  workflow.aosHandle(event);
  whole(event, "event");
}

export function whole(r: Reader, what: string): bool {
  const done = r.done();
  if (!done) fault("sdk_input", what + ": " + r.problem!);
  return done;
}

function writeOutput(w: Writer, workflow: Workflow): void {
  const state = new Writer();
  if (!Step.deleted) workflow.aosWriteState(state);
  const lines = Step.lines;
  if (lines !== null) writeLog(workflow.aosAnnotation(), lines);
  const annotation = Step.annotation;
  const events = Step.events;
  const effects = Step.effects;
  const status = Step.status;
  w.record(
    1 + <u64>(annotation !== null) + <u64>(status !== null) + <u64>(effects !== null) + <u64>(events !== null),
  );
  if (annotation !== null) {
    w.key("ann");
    w.embedded(annotation);
  }
  w.key("state");
  if (Step.deleted) w.null();
  else w.embedded(state);
  if (status !== null) {
    w.key("status");
    w.text(status);
  }
  if (effects !== null) {
    w.key("effects");
    w.list(Step.effectCount);
    w.raw(effects.start, effects.size);
  }
  if (events !== null) {
    w.key("domain_events");
    w.list(Step.eventCount);
    w.raw(events.start, events.size);
  }
}

/** `aos/Log@1`. */
function writeLog(w: Writer, lines: Array<string>): void {
  w.record(1);
  w.key("lines");
  w.list(lines.length);
  for (let i = 0; i < lines.length; ++i) w.text(lines[i]);
}

export function writeFault(w: Writer): void {
  w.record(1);
  w.key("fault");
  w.record(2);
  w.key("kind");
  w.text(Step.faultKind!);
  w.key("message");
  w.text(Step.faultMessage);
}
