import { cx, run, TimerSetEffect, TimerSetParams, EffectReceiptEnvelope } from "aos-sdk";
import { Add, CounterWorkflow } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Counter extends CounterWorkflow {
  onAdd(event: Add): void {
    this.state.total += event.by;
    if (event.by == 5) this.state.timer.start(new TimerSetEffect(new TimerSetParams(cx.now() + 1_000_000_000)));
  }

  onReceipt(_event: EffectReceiptEnvelope): void {
    cx.fault("late", "the timer is for who comes after");
  }
}

export function counter(pointer: i32, length: i32): u64 {
  return run<Counter>(pointer, length);
}
