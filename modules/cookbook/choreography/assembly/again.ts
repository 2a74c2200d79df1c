// What the payment and the delivery have in common: how they take an answer, and how long they wait.

import { cx, Outcome, OutcomeKind, TimerSetEffect, TimerSetParams } from "aos-sdk";

const PAUSE_NS: u64 = 5_000_000_000;

/** The code of a clear no: it was not done and never will be. Null for anything else that is not ok. */
export function refusal<T>(outcome: Outcome<T>): string | null {
  return outcome.kind == OutcomeKind.Error && !outcome.error.retryable ? outcome.error.code : null;
}

export function aPause(): TimerSetEffect {
  return new TimerSetEffect(new TimerSetParams(cx.now() + PAUSE_NS, null));
}
