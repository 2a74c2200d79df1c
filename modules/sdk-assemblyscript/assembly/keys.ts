// The canonical bytes of a key, for `cx.emitWithKey` and `sys/introspect.workflow_state@1`.

import { Writer } from "./writer";

export function encodeText(value: string): Uint8Array {
  const w = new Writer();
  w.text(value);
  return w.toBytes();
}

export function encodeNat(value: u64): Uint8Array {
  const w = new Writer();
  w.nat(value);
  return w.toBytes();
}

export function encodeInt(value: i64): Uint8Array {
  const w = new Writer();
  w.int(value);
  return w.toBytes();
}

export function encodeBytes(value: Uint8Array): Uint8Array {
  const w = new Writer();
  w.bytes(value);
  return w.toBytes();
}
