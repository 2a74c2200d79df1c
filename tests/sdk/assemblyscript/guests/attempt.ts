import { cx, dec128, EffectReceiptEnvelope, run, sendTo, uuid, hash } from "aos-sdk";
import { Try, TryWorkflow, Work, WorkEffect } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

const LOWER: string = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
const UPPER: string = "AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA";

class Attempt extends TryWorkflow {
  onTry(event: Try): void {
    const what = event.what;
    if (what == "now") this.state.text = cx.now().toString();
    else if (what == "random") this.state.text = cx.random().toString();
    else if (what == "start") this.state.work.start(new WorkEffect(new Work(1)));
    else if (what == "start by name") this.state.work.start(new WorkEffect(new Work(1)).withRef("w"));
    else if (what == "send") cx.ask(sendTo("bank", new Work(5)));
    else if (what == "uuid") this.state.id = "not one";
    else if (what == "hash") this.state.hash = "blake3:" + "A".repeat(64);
    else if (what == "dec128") this.state.dec = "1e99";
    else if (what == "surrogate") this.state.text = String.fromCharCode(0xd800);
    else if (what == "below 0") cx.below(0);
    else if (what == "wrong arm") this.state.text = new Array<string>()[3];
    else if (what == "two faults") {
      cx.fault("first", "one");
      cx.fault("second", "two");
    } else if (what == "normal forms") {
      this.state.id = UPPER;
      this.state.dec = "+1.50";
      this.state.times.add(UPPER);
      this.state.times.add(LOWER);
      this.state.by.set(UPPER, 1);
      this.state.by.set(LOWER, 2);
    } else {
      const d = dec128(what);
      const u = uuid(what);
      const h = hash(what);
      this.state.text = (d === null ? "-" : d) + " " + (u === null ? "-" : u) + " " + (h === null ? "-" : h);
    }
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const outcome = this.state.work.settle(receipt);
    this.state.text = outcome === null ? "not mine" : outcome.isOk ? outcome.ok.n.toString() : outcome.error.code;
  }
}

export function step(pointer: i32, length: i32): u64 {
  return run<Attempt>(pointer, length);
}
