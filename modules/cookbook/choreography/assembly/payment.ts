// market/payment@1: takes the money of an order, and gives it back when no parcel leaves.
//
// Rule 1: without a clear answer it asks again, every 5 s, under the same idempotency key.

import { cx, EffectReceiptEnvelope, EffectReceiptRejected, Status } from "aos-sdk";
import { aPause, refusal } from "./again";
import {
  CardChargeEffect,
  CardRefundEffect,
  Charge,
  OrderPlaced,
  ParcelRefused,
  PaymentPhase,
  PaymentPhaseTag,
  PaymentRefused,
  PaymentReturned,
  PaymentTaken,
  PaymentWorkflow,
} from "./generated";

export class Payment extends PaymentWorkflow {
  onPlaced(placed: OrderPlaced): void {
    if (this.state.phase.tag != PaymentPhaseTag.New) return; // an order that is placed twice
    this.state.cents = placed.cents;
    this.charge();
  }

  onNotSent(_refused: ParcelRefused): void {
    if (this.state.phase.tag != PaymentPhaseTag.Taken) return;
    cx.status(Status.Running);
    this.refund();
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const charged = this.state.charge.settle(receipt);
    if (charged !== null) {
      const no = refusal(charged);
      if (charged.isOk) this.taken(charged.ok.reference);
      else if (no !== null) this.refused(no);
      else this.wait();
      return;
    }
    const refunded = this.state.refund.settle(receipt);
    if (refunded !== null) {
      const no = refusal(refunded);
      if (refunded.isOk) this.returned();
      else if (no !== null) this.stuck(no);
      else this.wait();
      return;
    }
    if (this.state.again.settle(receipt) !== null) this.ask();
  }

  onRejected(rejected: EffectReceiptRejected): void {
    if (this.state.charge.reject(rejected) || this.state.refund.reject(rejected)) this.wait();
  }

  private charge(): void {
    this.state.phase = PaymentPhase.Charging();
    this.ask();
  }

  private refund(): void {
    this.state.phase = PaymentPhase.Returning();
    this.ask();
  }

  /** Under one key for each of the two, however often it is. */
  private ask(): void {
    const params = new Charge(this.key, this.state.cents);
    if (this.state.phase.tag == PaymentPhaseTag.Charging) {
      this.state.charge.start(new CardChargeEffect(params).withKey("charge"));
    } else {
      this.state.refund.start(new CardRefundEffect(params).withKey("refund"));
    }
  }

  private wait(): void {
    this.state.again.start(aPause());
  }

  private taken(reference: string): void {
    this.state.phase = PaymentPhase.Taken();
    cx.emit(new PaymentTaken(this.key, this.state.cents, reference));
    cx.status(Status.Completed);
  }

  private refused(reason: string): void {
    this.state.phase = PaymentPhase.Refused();
    cx.emit(new PaymentRefused(this.key, reason));
    cx.status(Status.Completed);
  }

  private returned(): void {
    this.state.phase = PaymentPhase.Returned();
    cx.emit(new PaymentReturned(this.key, this.state.cents));
    cx.status(Status.Completed);
  }

  /** The money cannot be given back: a person has to look. */
  private stuck(reason: string): void {
    this.state.phase = PaymentPhase.Stuck(reason);
    cx.status(Status.Failed);
  }
}
