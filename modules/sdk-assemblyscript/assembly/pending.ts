import { request } from "./context";
import { Effect } from "./effect";
import { Outcome } from "./outcome";
import { context, Step } from "./step";
import {
  EffectCancelEffect,
  EffectCancelParams,
  EffectReceiptRejected,
  EffectStreamFrame,
  TimerCancelEffect,
  TimerCancelParams,
} from "./system";
import { Reader } from "./reader";
import { Some } from "./value";
import { Writer } from "./writer";

/** Ask with an issuer ref that is unique in the world, unless the author gave another (SD-21). */
function ask(effect: Effect): string {
  const own = effect.issuerRef;
  const ref =
    own !== null ? own : "aos:" + context().journal_height.toString() + ":" + Step.effectCount.toString();
  request(effect, ref);
  return ref;
}

/** A handle on one effect in flight. It is a field of the state; the generated class of each effect gives it types. */
export class Pending {
  /** The issuer ref of the request, or null when idle. */
  ref: string | null = null;

  get isIdle(): bool {
    return this.ref === null;
  }

  get inFlight(): bool {
    return this.ref !== null;
  }

  /** For generated code. */
  begin(effect: Effect): void {
    this.ref = ask(effect);
  }

  writeTo(w: Writer): void {
    const ref = this.ref;
    if (ref === null) w.null();
    else w.text(ref);
  }

  matches(issuerRef: string | null): bool {
    const ref = this.ref;
    return ref !== null && issuerRef !== null && ref == issuerRef;
  }

  /** Whether the rejection is of this handle, which is idle then. */
  reject(rejection: EffectReceiptRejected): bool {
    const mine = this.matches(rejection.issuer_ref);
    if (mine) this.ref = null;
    return mine;
  }

  /** Whether the frame is of this handle, which stays in flight. */
  isFrame(frame: EffectStreamFrame): bool {
    return this.matches(frame.issuer_ref);
  }

  /** The request to cancel it; null when there is nothing to cancel. Its own answer is `Canceled`. */
  canceling(): EffectCancelEffect | null {
    const ref = this.ref;
    return ref === null ? null : new EffectCancelEffect(new EffectCancelParams(null, ref));
  }

  /** The same for a timer. */
  cancelingTimer(): TimerCancelEffect | null {
    const ref = this.ref;
    return ref === null ? null : new TimerCancelEffect(new TimerCancelParams(null, ref));
  }
}

/** For generated code. */
export function readPending<T extends Pending>(r: Reader): T {
  const pending = instantiate<T>();
  if (!r.isNull()) pending.ref = r.text();
  return pending;
}

/** Handles by the author's key: for fan-out and joins. */
export class PendingSet<K> {
  /** The issuer ref of each request in flight. */
  refs: Map<K, string> = new Map<K, string>();

  get size(): i32 {
    return this.refs.size;
  }

  get isEmpty(): bool {
    return this.refs.size == 0;
  }

  has(key: K): bool {
    return this.refs.has(key);
  }

  keys(): Array<K> {
    return this.refs.keys();
  }

  /** For generated code. */
  begin(key: K, effect: Effect): void {
    this.refs.set(key, ask(effect));
  }

  /** The key of the request with this issuer ref; null when it is of none. */
  find(issuerRef: string | null): Some<K> | null {
    if (issuerRef === null) return null;
    const keys = this.refs.keys();
    const refs = this.refs.values();
    for (let i = 0; i < refs.length; ++i) {
      if (refs[i] == issuerRef) return new Some<K>(keys[i]);
    }
    return null;
  }

  /** Forget the request with this issuer ref; its key. */
  take(issuerRef: string | null): Some<K> | null {
    const found = this.find(issuerRef);
    if (found !== null) this.refs.delete(found.value);
    return found;
  }

  /** The key of the handle that the rejection is of, which is taken out; null when it is of none. */
  reject(rejection: EffectReceiptRejected): Some<K> | null {
    return this.take(rejection.issuer_ref);
  }

  /** The key of the handle that the frame is of; null when it is of none. */
  frameOf(frame: EffectStreamFrame): Some<K> | null {
    return this.find(frame.issuer_ref);
  }

  /** The request to cancel the one under this key; null when there is none. */
  canceling(key: K): EffectCancelEffect | null {
    if (!this.refs.has(key)) return null;
    return new EffectCancelEffect(new EffectCancelParams(null, this.refs.get(key)));
  }
}

/** The member of a set whose effect has ended, and how it ended. */
export class Settled<K, T> {
  constructor(
    public key: K,
    public outcome: Outcome<T>,
  ) {}
}
