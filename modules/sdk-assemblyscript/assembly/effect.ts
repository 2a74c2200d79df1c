import { Writer } from "./writer";

/** A request. There is a generated class for each effect, which takes its params. */
export abstract class Effect {
  /** Asking twice under one key is asked once (spec/kernel.md); text, or bytes in `idempotencyBytes`. */
  idempotencyKey: string | null = null;
  idempotencyBytes: Uint8Array | null = null;
  /** Comes back in the receipt. A handle makes its own; one that begins with `aos:` is refused. */
  issuerRef: string | null = null;

  abstract effectName(): string;
  abstract writeParams(w: Writer): void;
}
