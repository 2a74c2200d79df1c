import { cx, EffectReceiptEnvelope, migrate, run, Status, TimerSetEffect } from "aos-sdk";
import { Add, Count, CounterMigration, CounterWorkflow, CountV2, ListMigration, ListWorkflow, LOG } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Counter extends CounterWorkflow {
  onAdd(event: Add): void {
    this.state.total += " + " + event.by.toString();
  }

  onReceipt(event: EffectReceiptEnvelope): void {
    if (this.state.timer.settle(event) !== null) this.state.total += ", timed";
  }
}

export function counter(pointer: i32, length: i32): u64 {
  return run<Counter>(pointer, length);
}

class Renew extends CounterMigration {
  migrate(old: Count): CountV2 {
    if (LOG) cx.log("goes nowhere");
    if (old.total == 20) cx.fault("empty", "there is nothing to take over");
    if (old.total == 21) assert(false, "it is too much");
    if (old.total == 22) cx.now();
    if (old.total == 23) old.timer.start(new TimerSetEffect());
    if (old.total == 24) cx.emit(new Add(this.key, 1));
    if (old.total == 25) cx.ask(new TimerSetEffect());
    if (old.total == 26) cx.status(Status.Completed);
    if (old.total == 27) cx.deleteCell();
    if (old.total == 28) return new CountV2(String.fromCharCode(0xd800));
    return new CountV2(this.key + ": " + old.total.toString(), old.timer);
  }
}

export function renew(pointer: i32, length: i32): u64 {
  return migrate<Renew>(pointer, length);
}

class List extends ListWorkflow {
  onEvent(_event: Add): void {}
}

export function list(pointer: i32, length: i32): u64 {
  return run<List>(pointer, length);
}

class RenewList extends ListMigration {
  migrate(old: Array<u64>): Map<string, u64> {
    const made = new Map<string, u64>();
    for (let i = 0; i < old.length; ++i) made.set(i.toString(), old[i]);
    return made;
  }
}

export function renewList(pointer: i32, length: i32): u64 {
  return migrate<RenewList>(pointer, length);
}
