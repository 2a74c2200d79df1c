// bench/counter@1 with the AssemblyScript SDK: the sum of what its cell was given.

import { cx, run, Status } from "aos-sdk";
import { Add, CounterWorkflow } from "./generated";

export { alloc, aos_panic } from "aos-sdk";

class Counter extends CounterWorkflow {
  onEvent(add: Add): void {
    if (add.by > u64.MAX_VALUE - this.state) return cx.fault("overflow", "the sum is full");
    this.state += add.by;
    cx.status(Status.Running);
  }
}

export function counter(pointer: i32, length: i32): u64 {
  return run<Counter>(pointer, length);
}
