// market/delivery@1: sends the parcel of an order once it is paid.
//
// Rule 1: it needs two facts, an address and a payment, and takes them in any order.
//
// Rule 2: without a clear answer it asks again, every 5 s, under the same idempotency key.

import { cx, EffectReceiptEnvelope, EffectReceiptRejected, Schema, Status } from "aos-sdk";
import { aPause, refusal } from "./again";
import {
  DeliveryPhase,
  DeliveryPhaseTag,
  DeliveryWorkflow,
  OrderPlaced,
  Parcel,
  ParcelRefused,
  ParcelSendEffect,
  ParcelSent,
  PaymentTaken,
} from "./generated";

export class Delivery extends DeliveryWorkflow {
  onPlaced(placed: OrderPlaced): void {
    if (this.state.address === null) this.state.address = placed.address;
    this.sendWhenReady();
  }

  onTaken(_taken: PaymentTaken): void {
    this.state.is_paid = true;
    this.sendWhenReady();
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const sent = this.state.send.settle(receipt);
    if (sent !== null) {
      const no = refusal(sent);
      if (sent.isOk) this.end(DeliveryPhase.Sent(), new ParcelSent(this.key, sent.ok.tracking));
      else if (no !== null) this.end(DeliveryPhase.Refused(), new ParcelRefused(this.key, no));
      else this.state.again.start(aPause());
      return;
    }
    if (this.state.again.settle(receipt) !== null) this.send();
  }

  onRejected(rejected: EffectReceiptRejected): void {
    if (this.state.send.reject(rejected)) this.state.again.start(aPause());
  }

  private sendWhenReady(): void {
    const isReady = this.state.is_paid && this.state.address !== null;
    if (isReady && this.state.phase.tag == DeliveryPhaseTag.Waiting) this.send();
  }

  private send(): void {
    this.state.phase = DeliveryPhase.Sending();
    const parcel = new Parcel(this.key, this.state.address!);
    this.state.send.start(new ParcelSendEffect(parcel).withKey("send"));
  }

  private end(phase: DeliveryPhase, event: Schema): void {
    this.state.phase = phase;
    cx.emit(event);
    cx.status(Status.Completed);
  }
}
