import {
  BlobGetEffect,
  BlobGetParams,
  BlobGetResult,
  BlobPutEffect,
  BlobPutParams,
  BlobPutResult,
  cx,
  EffectCancelEffect,
  EffectCancelParams,
  EffectReceiptEnvelope,
  encodeNat,
  HttpRequestEffect,
  HttpRequestParams,
  IntrospectJournalHeadEffect,
  IntrospectListCellsEffect,
  IntrospectListCellsParams,
  IntrospectManifestEffect,
  IntrospectWorkflowStateEffect,
  IntrospectWorkflowStateParams,
  Outcome,
  OutcomeKind,
  SecretRef,
  Some,
  TextOrSecretRef,
  TimerCancelEffect,
  TimerCancelParams,
  TimerFired,
  TimerSetEffect,
  TimerSetParams,
} from "aos-sdk";
import {
  LegacyWorkflow,
  SystemStateAnswers,
  SystemWorkflow,
  Use,
  UseLegacy,
  UseLegacyWhatTag,
  UseWhatTag,
} from "./generated";

const STATUS = "conformance/status@1";

function hashOf(digit: string): string {
  return "blake3:" + digit.repeat(64);
}

function utf8(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text));
}

export class System extends SystemWorkflow {
  onUse(event: Use): void {
    const state = this.state;
    const what = event.what;
    switch (what.tag) {
      case UseWhatTag.TimerSet:
        return state.timer.start(new TimerSetEffect(new TimerSetParams(cx.now() + 1_000_000_000)));
      case UseWhatTag.TimerSetKeyed:
        return state.timer.start(new TimerSetEffect(new TimerSetParams(cx.now() + 1_000_000_000, "tea")));
      case UseWhatTag.TimerCancel: {
        const own = state.timer.cancelingTimer();
        const nobody = new TimerCancelEffect(new TimerCancelParams(null, "nobody"));
        return state.timer_cancel.start(own !== null ? own : nobody);
      }
      case UseWhatTag.EffectCancelIntent: {
        const params = new EffectCancelParams(what.effectCancelIntent, null);
        return state.effect_cancel.start(new EffectCancelEffect(params));
      }
      case UseWhatTag.EffectCancelTimer: {
        const own = state.timer.canceling();
        const nobody = new EffectCancelEffect(new EffectCancelParams(null, "nobody"));
        return state.effect_cancel.start(own !== null ? own : nobody);
      }
      case UseWhatTag.HttpGet: {
        const params = new HttpRequestParams("GET", "https://example.com/a?b=c");
        params.headers.set("accept", TextOrSecretRef.literal("text/plain"));
        params.headers.set("authorization", TextOrSecretRef.secret(new SecretRef("conformance/token", 1)));
        return state.http.start(new HttpRequestEffect(params));
      }
      case UseWhatTag.HttpPost: {
        const params = new HttpRequestParams("POST", "https://example.com/");
        params.body = utf8("hello");
        return state.http.start(new HttpRequestEffect(params));
      }
      case UseWhatTag.BlobPut:
        return state.blob_put.start(new BlobPutEffect(new BlobPutParams(utf8("blob"))));
      case UseWhatTag.BlobPutRefs:
        return state.blob_put.start(new BlobPutEffect(new BlobPutParams(utf8("blob"), null, [hashOf("1")])));
      case UseWhatTag.BlobGet:
        return state.blob_get.start(new BlobGetEffect(new BlobGetParams(hashOf("2"))));
      case UseWhatTag.Manifest:
        return state.manifest.start(new IntrospectManifestEffect());
      case UseWhatTag.WorkflowState: {
        const params = new IntrospectWorkflowStateParams(STATUS, encodeNat(1));
        return state.workflow_state.start(new IntrospectWorkflowStateEffect(params));
      }
      case UseWhatTag.JournalHead:
        return state.journal_head.start(new IntrospectJournalHeadEffect());
      case UseWhatTag.ListCells: {
        const params = new IntrospectListCellsParams(STATUS, null, new Some<u64>(10));
        return state.list_cells.start(new IntrospectListCellsEffect(params));
      }
    }
  }

  onReceipt(receipt: EffectReceiptEnvelope): void {
    const state = this.state;
    const timer = state.timer.settle(receipt);
    if (timer !== null) {
      return this.add(timer.isOk ? SystemStateAnswers.Timer(timer.ok) : failure(timer));
    }
    const timerCancel = state.timer_cancel.settle(receipt);
    if (timerCancel !== null) {
      return this.add(timerCancel.isOk ? SystemStateAnswers.TimerCancel(timerCancel.ok) : failure(timerCancel));
    }
    const effectCancel = state.effect_cancel.settle(receipt);
    if (effectCancel !== null) {
      return this.add(effectCancel.isOk ? SystemStateAnswers.EffectCancel(effectCancel.ok) : failure(effectCancel));
    }
    const http = state.http.settle(receipt);
    if (http !== null) return this.add(http.isOk ? SystemStateAnswers.Http(http.ok) : failure(http));
    const put = state.blob_put.settle(receipt);
    if (put !== null) return this.add(put.isOk ? SystemStateAnswers.BlobPut(put.ok) : failure(put));
    const got = state.blob_get.settle(receipt);
    if (got !== null) return this.add(got.isOk ? SystemStateAnswers.BlobGet(got.ok) : failure(got));
    const manifest = state.manifest.settle(receipt);
    if (manifest !== null) {
      return this.add(manifest.isOk ? SystemStateAnswers.Manifest(manifest.ok) : failure(manifest));
    }
    const cell = state.workflow_state.settle(receipt);
    if (cell !== null) return this.add(cell.isOk ? SystemStateAnswers.WorkflowState(cell.ok) : failure(cell));
    const head = state.journal_head.settle(receipt);
    if (head !== null) return this.add(head.isOk ? SystemStateAnswers.JournalHead(head.ok) : failure(head));
    const cells = state.list_cells.settle(receipt);
    if (cells !== null) this.add(cells.isOk ? SystemStateAnswers.ListCells(cells.ok) : failure(cells));
  }

  private add(answer: SystemStateAnswers): void {
    this.state.answers.push(answer);
  }
}

function failure<T>(outcome: Outcome<T>): SystemStateAnswers {
  if (outcome.kind == OutcomeKind.Error) return SystemStateAnswers.Error(outcome.error);
  return outcome.kind == OutcomeKind.Timeout ? SystemStateAnswers.Timeout() : SystemStateAnswers.Canceled();
}

export class Legacy extends LegacyWorkflow {
  onUse(event: UseLegacy): void {
    switch (event.what.tag) {
      case UseLegacyWhatTag.Timer:
        return cx.ask(new TimerSetEffect(new TimerSetParams(cx.now() + 5, "tea")));
      case UseLegacyWhatTag.Put:
        return cx.ask(new BlobPutEffect(new BlobPutParams(utf8("blob"))));
      case UseLegacyWhatTag.Get:
        return cx.ask(new BlobGetEffect(new BlobGetParams(hashOf("2"))));
    }
  }

  onTimerFired(event: TimerFired): void {
    this.state.fired = event;
  }

  onBlobPut(event: BlobPutResult): void {
    this.state.put = event;
  }

  onBlobGot(event: BlobGetResult): void {
    this.state.got = event;
  }
}
