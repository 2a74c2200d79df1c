// seat/sale@1, keyed by seat: a seat is sold once, and each repetition of a request gets the same answer.
//
// Rule 1: two requests with the same id are the same request. The workflow never acts on it twice.
//
// Rule 2: `Sold` and `Unclear` are terminal: the cell still answers requests, but does nothing else.
//
// Rule 3: while a card is charged, the same request waits for that answer; any other request is answered `Taken`.
//
// Rule 4: a declined request stays declined; the last 16 are remembered. A fence without a bound grows for ever.

import { cx, EffectReceiptEnvelope, EffectReceiptRejected, OutcomeKind, run, Status } from "aos-sdk";
import {
  Answered,
  CardChargeEffect,
  Charge,
  Phase,
  PhaseTag,
  Sale,
  SaleWorkflow,
  Verdict,
  Wanted,
} from "./generated";

export { alloc, aos_panic } from "aos-sdk";

const DECLINED_MAX: i32 = 16;

class SeatSale extends SaleWorkflow {
  onWanted(wanted: Wanted): void {
    const state = this.state;
    if (state.declined.includes(wanted.request)) return this.repeat(wanted.request, Verdict.Declined());
    switch (state.phase.tag) {
      case PhaseTag.Free:
        return this.charge(new Sale(wanted.request, wanted.buyer, wanted.cents));
      case PhaseTag.Charging:
        // Its answer comes with the receipt.
        if (state.phase.charging.request == wanted.request) state.repeats += 1;
        else this.answer(wanted.request, Verdict.Taken());
        return;
      case PhaseTag.Sold:
        if (state.phase.sold.request == wanted.request) this.repeat(wanted.request, Verdict.Sold());
        else this.answer(wanted.request, Verdict.Taken());
        return;
      case PhaseTag.Unclear:
        if (state.phase.unclear.request == wanted.request) this.repeat(wanted.request, Verdict.Unclear());
        else this.answer(wanted.request, Verdict.Taken());
    }
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const outcome = this.state.charge.settle(receipt);
    if (outcome === null) return; // of another time
    const sale = this.state.phase.charging;
    if (outcome.isOk) {
      this.state.phase = Phase.Sold(sale);
      this.answer(sale.request, Verdict.Sold());
      cx.status(Status.Completed);
    } else if (outcome.kind == OutcomeKind.Error && !outcome.error.retryable) {
      this.decline(sale);
    } else {
      this.unclear(sale);
    }
  }

  onRejected(rejected: EffectReceiptRejected): void {
    if (this.state.charge.reject(rejected)) this.unclear(this.state.phase.charging);
  }

  private charge(sale: Sale): void {
    const state = this.state;
    state.attempt += 1;
    state.phase = Phase.Charging(sale);
    const charge = new Charge(this.key, sale.buyer, sale.cents);
    state.charge.start(new CardChargeEffect(charge).withKey("sale " + state.attempt.toString()));
  }

  private decline(sale: Sale): void {
    const declined = this.state.declined;
    declined.push(sale.request);
    if (declined.length > DECLINED_MAX) declined.shift();
    this.state.phase = Phase.Free();
    this.answer(sale.request, Verdict.Declined());
  }

  /** It is unknown whether the buyer was charged. The seat is not sold again; a person must check. */
  private unclear(sale: Sale): void {
    this.state.phase = Phase.Unclear(sale);
    this.answer(sale.request, Verdict.Unclear());
    cx.status(Status.Failed);
  }

  private repeat(request: string, verdict: Verdict): void {
    this.state.repeats += 1;
    this.answer(request, verdict);
  }

  private answer(request: string, verdict: Verdict): void {
    cx.emit(new Answered(this.key, request, verdict));
  }
}

export function sale(pointer: i32, length: i32): u64 {
  return run<SeatSale>(pointer, length);
}
