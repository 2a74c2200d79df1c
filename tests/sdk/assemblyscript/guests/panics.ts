import { run } from "aos-sdk";
import { Either, Try, TryWorkflow } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Panics extends TryWorkflow {
  onEvent(event: Try): void {
    const what = event.what;
    const eggs: u32[] = [1, 2, 3];
    if (what == "assert") assert(eggs.length > 3, "out of eggs");
    else if (what == "assert silently") assert(eggs.length > 3);
    else if (what == "throw") throw new Error("a broken egg");
    else if (what == "index") eggs[0] = eggs[what.length];
    else if (what == "null") eggs[0] = nothing()!.what.length;
    else if (what == "other arm") eggs[0] = <u32>Either.Left(1).right;
    else if (what == "length") eggs[0] = new Array<u32>(-1).length;
    else if (what == "long") assert(false, "🥚".repeat(1000));
    else if (what == "two bytes") assert(false, "é".repeat(1000));
    else if (what == "halves") assert(false, String.fromCharCodes([0xd800, 0x78, 0xdc00, 0xdc00, 0xd83e, 0xdd5a, 0xd83e]));
    else if (what == "red") assert(false, "\x1b[31mred\r\nand blue");
    else if (what == "unreachable") unreachable();
    else if (what == "divide") eggs[0] = 1 / <u32>(event.what.length - 6);
    this.state.what = eggs[0].toString();
  }
}

function nothing(): Try | null {
  return null;
}

export function step(pointer: i32, length: i32): u64 {
  return run<Panics>(pointer, length);
}
