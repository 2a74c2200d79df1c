import { Reader } from "./reader";
import { fault } from "./step";
import { EffectError, EffectReceiptEnvelope } from "./system";

export enum OutcomeKind {
  Ok,
  Error,
  Timeout,
  Canceled,
}

/** How an effect ended whose receipt is a `T`. */
export class Outcome<T> {
  constructor(
    public kind: OutcomeKind,
    private receipt: T,
    private failure: EffectError | null,
  ) {}

  get isOk(): bool {
    return this.kind == OutcomeKind.Ok;
  }

  /** The receipt. Traps when the outcome is another. */
  get ok(): T {
    assert(this.kind == OutcomeKind.Ok, "the outcome is not ok");
    return this.receipt;
  }

  /** Why it failed. Traps when the outcome is another than `Error`. */
  get error(): EffectError {
    return this.failure!;
  }
}

/** For generated code: the receipt that was read by `r`, all of it, or the fault that it is none. */
export function succeeded<T>(r: Reader, value: T, effect: string): Outcome<T> | null {
  if (!r.done()) return unreadable<T>(effect);
  return new Outcome<T>(OutcomeKind.Ok, value, null);
}

/** For generated code: the outcome of a receipt whose status is not `ok`. */
export function failed<T>(receipt: EffectReceiptEnvelope, effect: string): Outcome<T> | null {
  if (receipt.status == "timeout") return new Outcome<T>(OutcomeKind.Timeout, nothing<T>(), null);
  if (receipt.status == "canceled") return new Outcome<T>(OutcomeKind.Canceled, nothing<T>(), null);
  let error = new EffectError("receipt", "", false);
  const schema = receipt.payload_schema;
  if (schema !== null && schema == "sys/EffectError@1") {
    const r = Reader.of(receipt.receipt_payload);
    error = EffectError.readFrom(r);
    if (!r.done()) return unreadable<T>(effect);
  }
  return new Outcome<T>(OutcomeKind.Error, nothing<T>(), error);
}

function unreadable<T>(effect: string): Outcome<T> | null {
  fault("sdk_payload", "the receipt of " + effect + " is not of its schema");
  return null;
}

function nothing<T>(): T {
  if (isReference<T>()) return changetype<T>(<usize>0);
  else return <T>0;
}
