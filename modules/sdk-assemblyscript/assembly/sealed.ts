import { Reader } from "./reader";
import { Schema } from "./value";
import { Writer } from "./writer";

/**
 * A sealed value (aos/Sealed@1): ciphertext of a field that the workflow only passes on. It can be stored, and put into params
 * and events; in the worker, the effect function gets the plaintext. Without one, params of an effect cannot be opened.
 */
export class Sealed extends Schema {
  private _bytes: Uint8Array = new Uint8Array(0);

  static readFrom(r: Reader): Sealed {
    const sealed = new Sealed();
    sealed._bytes = r.bytes();
    return sealed;
  }

  /** Whether a value is there: a new Sealed is empty until one is stored. */
  get isEmpty(): bool {
    return this._bytes.length == 0;
  }

  schemaName(): string {
    return "aos/Sealed@1";
  }

  writeTo(w: Writer): void {
    w.bytes(this._bytes);
  }
}
