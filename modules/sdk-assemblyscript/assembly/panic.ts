// A failed assertion -> its words, where the kernel looks for them (spec/sandbox.md). The compiler calls `abort` in place
// of its own (asconfig.json), which would be imported.
import { encodePoint, unitAt } from "./utf8";

// @ts-ignore: decorator
@inline const WORDS_MAX: u32 = 512;

/** Where the kernel reads after a trap: the length in bytes, then so much UTF-8. An entry file exports it. */
export const aos_panic: usize = memory.data(4 + <i32>WORDS_MAX, 4);

/** Say `file:line:column: message`, as much of it as there is room for, and trap. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  if (file !== null) {
    say(file);
    say(":");
    sayNumber(line);
    say(":");
    sayNumber(column);
  }
  if (message !== null) {
    say(": ");
    say(message);
  }
  unreachable();
}

function sayNumber(number: u32): void {
  if (number >= 10) sayNumber(number / 10);
  sayPoint(48 + (number % 10));
}

function say(text: string): void {
  const length = text.length;
  for (let i = 0; i < length; ++i) {
    let point = unitAt(text, i);
    if (point >> 11 == 0x1b) {
      const low = point < 0xdc00 && i + 1 < length ? unitAt(text, i + 1) : 0;
      if (low >> 10 == 0x37) {
        point = 0x1_0000 + ((point & 0x3ff) << 10) + (low & 0x3ff);
        ++i;
      } else {
        // Half of a pair: UTF-8 has none.
        point = 0xfffd;
      }
    }
    sayPoint(point);
  }
}

function sayPoint(point: u32): void {
  const said = load<u32>(aos_panic);
  const size: u32 = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x1_0000 ? 3 : 4;
  if (said + size > WORDS_MAX) return;
  encodePoint(point, aos_panic + 4 + said);
  store<u32>(aos_panic, said + size);
}
