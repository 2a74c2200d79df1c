// bench/steps@1 with the AssemblyScript SDK: effects one after the other, each after the answer to the one before.
// The annotation of a run's last step is its number.

import { cx, EffectReceiptEnvelope, EffectReceiptRejected, run, Status } from "aos-sdk";
import { Begin, NoopEffect, NoopParams, StepsWorkflow } from "./generated";

export { alloc, aos_panic } from "aos-sdk";

class Steps extends StepsWorkflow {
  onBegin(begin: Begin): void {
    this.state.run = begin.run;
    this.state.steps = begin.steps;
    this.state.step = 0;
    this.next();
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const outcome = this.state.noop.settle(receipt);
    if (outcome === null) return;
    if (outcome.isOk) this.next();
    else this.never();
  }

  onRejected(_rejected: EffectReceiptRejected): void {
    this.never();
  }

  private next(): void {
    const state = this.state;
    if (state.step == state.steps) {
      this.annotate(state.run);
      cx.status(Status.Completed);
      return;
    }
    state.step += 1;
    state.noop.start(new NoopEffect(new NoopParams(state.run, state.step)));
    cx.status(Status.Running);
  }

  private never(): void {
    cx.fault("bench", "the executor of the benchmarks always says ok");
  }
}

export function steps(pointer: i32, length: i32): u64 {
  return run<Steps>(pointer, length);
}
