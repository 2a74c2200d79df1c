// States of an earlier version of a workflow -> states of this one (spec/kernel.md K-77).

import { Reader } from "./reader";
import { fault, Step } from "./step";
import { whole, writeFault } from "./workflow";
import { Writer } from "./writer";

/** Generated classes extend it, one for each workflow that migrates; authors extend those. */
export abstract class Migration {
  /** Reads the old state and, where it is one, writes what the author makes of it. */
  abstract aosMigrate(r: Reader, w: Writer): void;

  aosReadKey(r: Reader): void {
    r.skip();
  }
}

/** Take one state over with a new `T`: what the entrypoint of a migration does. */
export function migrate<T extends Migration>(pointer: i32, length: i32): u64 {
  return answer(instantiate<T>(), <usize>pointer, <usize>length);
}

function answer(migration: Migration, pointer: usize, length: usize): u64 {
  const state = new Writer();
  takeOver(migration, new Reader(pointer, pointer + length), state);
  const w = new Writer();
  if (Step.faultKind === null) {
    w.record(1);
    w.key("state");
    w.embedded(state);
  } else {
    writeFault(w);
  }
  return ((<u64>w.start) << 32) | <u64>w.size;
}

function takeOver(migration: Migration, r: Reader, w: Writer): void {
  const entries = r.map();
  r.key("to");
  r.skip();
  let key: Reader | null = null;
  if (entries == 5) {
    r.key("key");
    key = r.embedded();
  }
  r.key("from");
  r.skip();
  r.key("state");
  const state = r.embedded();
  r.key("version");
  if (r.nat() != 1) r.fail("this module reads migrations of version 1");
  if (!whole(r, "input")) return;

  if (key !== null) {
    migration.aosReadKey(key);
    if (!whole(key, "key")) return;
  }
  migration.aosMigrate(state, w);
  if (whole(state, "state")) refuseTheRest();
}

/** A migration may only make a state. Any other output would be lost, so it is a fault. */
function refuseTheRest(): void {
  const kind = Step.faultKind;
  if (kind !== null) {
    // The workflow may well declare a context: there is none here.
    if (kind == "sdk_no_context") Step.faultMessage = "a migration has no context: no time, no chance, no new handles";
    return;
  }
  if (Step.deleted || Step.status !== null || Step.effects !== null || Step.events !== null) {
    fault("sdk_migration", "a migration makes a state and nothing beside it");
  }
}
