import { cx, run } from "aos-sdk";
import { Add, CounterWorkflow, LOG } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Counter extends CounterWorkflow {
  onAdd(event: Add): void {
    if (LOG) cx.log("a line that is " + event.by.toString() + " long");
    this.state.count += event.by;
  }
}

export function counter(pointer: i32, length: i32): u64 {
  return run<Counter>(pointer, length);
}
