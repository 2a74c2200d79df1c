// The payment and the delivery share this: how to recognise a final refusal, and the pause before a retry.

import { cx, Outcome, OutcomeKind, TimerSetEffect, TimerSetParams } from "aos-sdk";

const PAUSE_NS: u64 = 5_000_000_000;

/** The code of a final refusal: the effect was not done and never will be. Null for any other outcome. */
export function refusal<T>(outcome: Outcome<T>): string | null {
  return outcome.kind == OutcomeKind.Error && !outcome.error.retryable ? outcome.error.code : null;
}

export function aPause(): TimerSetEffect {
  return new TimerSetEffect(new TimerSetParams(cx.now() + PAUSE_NS, null));
}
