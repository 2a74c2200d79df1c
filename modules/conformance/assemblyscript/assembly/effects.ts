import {
  cx,
  EffectReceiptEnvelope,
  EffectReceiptRejected,
  EffectStreamFrame,
  Outcome,
  OutcomeKind,
  Status,
} from "aos-sdk";
import {
  Answer,
  AnswerFrame,
  AnswerStray,
  Ask,
  AskIdempotencyKeyTag,
  Cancel,
  CancelItem,
  Fan,
  FanByTag,
  FanWorkflow,
  Joined,
  SingleWorkflow,
  WorkEffect,
  Worked,
} from "./generated";

export class Single extends SingleWorkflow {
  onAsk(event: Ask): void {
    const effect = new WorkEffect(event.work);
    effect.issuerRef = event.issuer_ref;
    const key = event.idempotency_key;
    if (key !== null) {
      if (key.tag == AskIdempotencyKeyTag.Text) effect.idempotencyKey = key.text;
      else effect.idempotencyBytes = key.bytes;
    }
    if (event.forget) cx.ask(effect);
    else this.state.work.start(effect);
  }

  onCancel(_event: Cancel): void {
    const canceling = this.state.work.canceling();
    if (canceling === null) this.add(Answer.Idle());
    else this.state.cancel.start(canceling);
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const worked = this.state.work.settle(receipt);
    if (worked !== null) return this.add(answer(worked));
    const canceled = this.state.cancel.settle(receipt);
    if (canceled === null) return this.stray(receipt.effect, receipt.status);
    switch (canceled.kind) {
      case OutcomeKind.Ok:
        return this.add(Answer.Cancel(canceled.ok.cancelled));
      case OutcomeKind.Error:
        return this.add(Answer.CancelError(canceled.error.code));
      case OutcomeKind.Timeout:
        return this.add(Answer.Timeout());
      case OutcomeKind.Canceled:
        return this.add(Answer.Canceled());
    }
  }

  onRejected(rejected: EffectReceiptRejected): void {
    if (this.state.work.reject(rejected)) this.add(Answer.Rejected(rejected.error_code));
    else this.stray(rejected.effect, rejected.status);
  }

  onFrame(frame: EffectStreamFrame): void {
    if (!this.state.work.isFrame(frame)) return this.stray(frame.effect, "frame");
    this.add(Answer.Frame(new AnswerFrame(frame.seq, frame.kind, frame.payload)));
  }

  private add(answer: Answer): void {
    this.state.answers.push(answer);
  }

  private stray(effect: string, status: string): void {
    this.add(Answer.Stray(new AnswerStray(effect, status)));
  }
}

export class FanOut extends FanWorkflow {
  onFan(event: Fan): void {
    for (let i = 0; i < event.items.length; ++i) {
      const work = event.items[i];
      if (event.by.tag == FanByTag.Item) this.state.by_item.start(work.item, new WorkEffect(work));
      else this.state.by_weight.start(work.weight, new WorkEffect(work));
    }
    this.count();
  }

  onCancelItem(event: CancelItem): void {
    const canceling = this.state.by_item.canceling(event.item);
    if (canceling !== null) cx.ask(canceling);
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const item = this.state.by_item.settle(receipt);
    if (item !== null) {
      this.state.items.set(item.key, answer(item.outcome));
      return this.join();
    }
    const weight = this.state.by_weight.settle(receipt);
    if (weight !== null) {
      this.state.weights.set(weight.key, answer(weight.outcome));
      this.join();
    }
  }

  onRejected(rejected: EffectReceiptRejected): void {
    const item = this.state.by_item.reject(rejected);
    if (item !== null) {
      this.state.items.set(item.value, Answer.Rejected(rejected.error_code));
      return this.join();
    }
    const weight = this.state.by_weight.reject(rejected);
    if (weight !== null) {
      this.state.weights.set(weight.value, Answer.Rejected(rejected.error_code));
      this.join();
    }
  }

  private join(): void {
    this.count();
    if (this.state.open) return;
    cx.emit(new Joined(this.key, this.state.items.size + this.state.weights.size));
    cx.status(Status.Completed);
  }

  private count(): void {
    this.state.open = this.state.by_item.size + this.state.by_weight.size;
  }
}

function answer(outcome: Outcome<Worked>): Answer {
  if (outcome.kind == OutcomeKind.Ok) return Answer.Ok(outcome.ok.result);
  if (outcome.kind == OutcomeKind.Error) return Answer.Error(outcome.error);
  return outcome.kind == OutcomeKind.Timeout ? Answer.Timeout() : Answer.Canceled();
}
