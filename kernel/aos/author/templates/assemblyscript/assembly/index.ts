// One order: it is charged; a closed bank is retried, after a pause that doubles.
//
//   New ─▶ Charging ─▶ Paid
//            │  ▲ └──▶ Declined
//            ▼  │
//          Waiting

import { cx, EffectReceiptEnvelope, Outcome, OutcomeKind, run, Status, TimerSetEffect, TimerSetParams } from "aos-sdk";
import { ChargeEffect, ChargeParams, Charged, Declined, LOG, OrderWorkflow, Paid, Phase, PhaseTag, Placed } from "./generated";

export { alloc, aos_panic } from "aos-sdk";

const ATTEMPTS_MAX: u64 = 4;
const FIRST_PAUSE_NS: u64 = 1_000_000_000;

class Order extends OrderWorkflow {
  onPlaced(event: Placed): void {
    if (this.state.phase.tag != PhaseTag.New) return; // sent twice: one order is charged once
    this.state.order_id = event.order_id;
    this.state.cents = event.cents;
    this.charge();
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const charged = this.state.charge.settle(receipt);
    if (charged !== null) return this.onCharged(charged);
    if (this.state.pause.settle(receipt) !== null) this.charge();
  }

  private charge(): void {
    this.state.phase = Phase.Charging();
    this.state.attempts += 1;
    const effect = new ChargeEffect(new ChargeParams(this.state.order_id, this.state.cents));
    // The same key each time: to the bank it is one charge, however often it is asked.
    this.state.charge.start(effect.withKey("charge"));
  }

  private onCharged(outcome: Outcome<Charged>): void {
    switch (outcome.kind) {
      case OutcomeKind.Ok:
        this.state.phase = Phase.Paid();
        cx.emit(new Paid(this.state.order_id, outcome.ok.charge));
        cx.status(Status.Completed);
        break;
      case OutcomeKind.Error:
        if (outcome.error.retryable) this.tryAgain(outcome.error.code);
        else this.decline(outcome.error.code);
        break;
      case OutcomeKind.Timeout:
        this.tryAgain("no_answer");
        break;
      case OutcomeKind.Canceled:
        this.decline("canceled");
        break;
    }
  }

  private tryAgain(reason: string): void {
    if (this.state.attempts >= ATTEMPTS_MAX) return this.decline(reason);
    if (LOG) cx.log(`attempt ${this.state.attempts} of ${ATTEMPTS_MAX}: ${reason}`);
    this.state.phase = Phase.Waiting();
    const pause = FIRST_PAUSE_NS << (this.state.attempts - 1);
    this.state.pause.start(new TimerSetEffect(new TimerSetParams(cx.now() + pause)));
  }

  private decline(reason: string): void {
    this.state.phase = Phase.Declined();
    cx.emit(new Declined(this.state.order_id, reason));
    cx.status(Status.Completed);
  }
}

export function order(pointer: i32, length: i32): u64 {
  return run<Order>(pointer, length);
}
