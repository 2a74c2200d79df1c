// The second release of approval/request@1: an approval may have a comment.
//
// The new fields are optional, and `upgrade` is "in_place" in the AIR: requests that wait continue with this release.
//
// Rule 1: the first decision of a person who may decide settles the request. Every other one is answered `Ignored`.
//
// Rule 2: after `patience` without a decision the chief is asked too, and may decide as the others still may. After
// `patience` once more, the request expires.
//
// Rule 3: the person who asks is told by an event, so a mail that cannot be sent holds up nothing: the deadline runs.

import { cx, EffectReceiptEnvelope, EffectReceiptRejected, run, Status, TimerSetEffect, TimerSetParams } from "aos-sdk";
import {
  Approved,
  Ask,
  AskEffect,
  Denied,
  Ignored,
  Phase,
  PhaseTag,
  Requested,
  RequestWorkflow,
  Settled,
  Verdict,
  Withdrawn,
} from "./generated";

export { alloc, aos_panic } from "aos-sdk";

class ApprovalRequest extends RequestWorkflow {
  onRequested(requested: Requested): void {
    const state = this.state;
    if (state.phase.tag != PhaseTag.New) return; // sent twice
    state.what = requested.what;
    state.approvers = requested.approvers;
    state.chief = requested.chief;
    state.patience = requested.patience;
    state.phase = Phase.Open();
    for (let i = 0; i < state.approvers.length; ++i) this.ask(state.approvers[i]);
    this.setDeadline();
  }

  onApproved(approved: Approved): void {
    if (!this.mayDecide(approved.by)) return;
    this.state.comment = approved.comment;
    this.settle(Verdict.Approved(), approved.by);
  }

  onDenied(denied: Denied): void {
    if (this.mayDecide(denied.by)) this.settle(Verdict.Denied(denied.reason), denied.by);
  }

  onWithdrawn(_withdrawn: Withdrawn): void {
    if (this.isPending) this.settle(Verdict.Withdrawn(), null);
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    if (this.state.deadline.settle(receipt) !== null) this.pass();
  }

  onRejected(rejected: EffectReceiptRejected): void {
    if (this.state.deadline.reject(rejected)) this.pass();
  }

  private get isPending(): bool {
    const tag = this.state.phase.tag;
    return tag == PhaseTag.Open || tag == PhaseTag.Escalated;
  }

  private mayDecide(person: string): bool {
    const state = this.state;
    if (!this.isPending) {
      cx.emit(new Ignored(this.key, person, "the request is settled"));
      return false;
    }
    if (state.approvers.includes(person)) return true;
    if (state.phase.tag == PhaseTag.Escalated && person == state.chief) return true;
    cx.emit(new Ignored(this.key, person, "this person may not decide"));
    return false;
  }

  /** The deadline has passed. */
  private pass(): void {
    if (this.state.phase.tag == PhaseTag.Open) {
      this.state.phase = Phase.Escalated();
      this.ask(this.state.chief);
      this.setDeadline();
    } else if (this.state.phase.tag == PhaseTag.Escalated) {
      this.settle(Verdict.Expired(), null);
    }
  }

  private ask(person: string): void {
    const isEscalation = this.state.phase.tag == PhaseTag.Escalated;
    const ask = new Ask(this.key, person, this.state.what, isEscalation);
    cx.ask(new AskEffect(ask).withKey((isEscalation ? "escalate to " : "ask ") + person));
  }

  private setDeadline(): void {
    this.state.deadline.start(new TimerSetEffect(new TimerSetParams(cx.now() + this.state.patience)));
  }

  private settle(verdict: Verdict, by: string | null): void {
    const canceling = this.state.deadline.canceling();
    if (canceling !== null) cx.ask(canceling);
    this.state.phase = Phase.Settled(verdict);
    cx.emit(new Settled(this.key, verdict, by, this.state.comment));
    cx.status(Status.Completed);
  }
}

export function request(pointer: i32, length: i32): u64 {
  return run<ApprovalRequest>(pointer, length);
}
