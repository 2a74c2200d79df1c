// The conformance workflows in AssemblyScript. modules/conformance/README.md describes each of them.

import { run } from "aos-sdk";
import { Annotated, ContextOf, Emitter, Logged, StatusOf } from "./cells";
import { FanOut, Single } from "./effects";
import { Legacy, System } from "./system";
import { Defaults, Types } from "./types";

export { alloc, aos_panic } from "aos-sdk";

export function types(pointer: i32, length: i32): u64 {
  return run<Types>(pointer, length);
}

export function defaults(pointer: i32, length: i32): u64 {
  return run<Defaults>(pointer, length);
}

export function emitter(pointer: i32, length: i32): u64 {
  return run<Emitter>(pointer, length);
}

export function status(pointer: i32, length: i32): u64 {
  return run<StatusOf>(pointer, length);
}

export function annotated(pointer: i32, length: i32): u64 {
  return run<Annotated>(pointer, length);
}

export function logged(pointer: i32, length: i32): u64 {
  return run<Logged>(pointer, length);
}

export function context(pointer: i32, length: i32): u64 {
  return run<ContextOf>(pointer, length);
}

export function single(pointer: i32, length: i32): u64 {
  return run<Single>(pointer, length);
}

export function fan(pointer: i32, length: i32): u64 {
  return run<FanOut>(pointer, length);
}

export function system(pointer: i32, length: i32): u64 {
  return run<System>(pointer, length);
}

export function legacy(pointer: i32, length: i32): u64 {
  return run<Legacy>(pointer, length);
}
