// market/order@1: what the customer is told. It decides nothing and asks for nothing; it listens.

import { cx, Status } from "aos-sdk";
import {
  OrderPhase,
  OrderPhaseTag,
  OrderPlaced,
  OrderWorkflow,
  ParcelRefused,
  ParcelSent,
  PaymentRefused,
  PaymentReturned,
  PaymentTaken,
} from "./generated";

export class Order extends OrderWorkflow {
  onPlaced(_placed: OrderPlaced): void {}

  onTaken(_taken: PaymentTaken): void {
    if (this.state.phase.tag == OrderPhaseTag.Placed) this.state.phase = OrderPhase.Paid();
  }

  onRefused(refused: PaymentRefused): void {
    this.end(OrderPhase.Unpaid(refused.reason));
  }

  onSent(sent: ParcelSent): void {
    this.end(OrderPhase.Sent(sent.tracking));
  }

  onNotSent(refused: ParcelRefused): void {
    this.state.phase = OrderPhase.Unsent(refused.reason);
  }

  onReturned(_returned: PaymentReturned): void {
    const phase = this.state.phase;
    this.end(OrderPhase.Returned(phase.tag == OrderPhaseTag.Unsent ? phase.unsent : ""));
  }

  private end(phase: OrderPhase): void {
    this.state.phase = phase;
    cx.status(Status.Completed);
  }
}
