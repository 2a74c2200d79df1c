// parcel/desk@1, keyed by order: what the customer is told. It starts the flow parcel/delivery@1, signals it
// and hears of it only by domain events, so it does not matter that the other side is a flow in Rust.

import { cx, run, Status } from "aos-sdk";
import { Bought, Deliver, Delivered, DeskPhase, DeskPhaseTag, DeskWorkflow, Lost, Moved, Redirect } from "./generated";

export { alloc, aos_panic } from "aos-sdk";

class ParcelDesk extends DeskWorkflow {
  onBought(bought: Bought): void {
    if (this.state.phase.tag != DeskPhaseTag.New) return; // a request that comes twice
    this.state.phase = DeskPhase.Sent(bought.city);
    cx.emit(new Deliver(this.key, bought.city));
  }

  onMoved(moved: Moved): void {
    if (this.state.phase.tag != DeskPhaseTag.Sent) return; // too late, or too early
    this.state.phase = DeskPhase.Sent(moved.city);
    cx.emit(new Redirect(this.key, moved.city));
  }

  onDelivered(delivered: Delivered): void {
    this.end(DeskPhase.Delivered(delivered.city));
  }

  onLost(lost: Lost): void {
    this.end(DeskPhase.Lost(lost.why));
  }

  private end(phase: DeskPhase): void {
    this.state.phase = phase;
    cx.status(Status.Completed);
  }
}

export function desk(pointer: i32, length: i32): u64 {
  return run<ParcelDesk>(pointer, length);
}
