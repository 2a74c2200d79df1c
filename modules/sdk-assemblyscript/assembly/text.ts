// The types whose normal form is text with rules of its own (spec/values.md V-32, V-37, V-38). Each function answers
// the normal form, or null for what is none of the type.

/** A decimal number: `[+-] digits [. digits] [e [+-] 1 to 3 digits]`; `1.50` becomes `1.5`. */
export function dec128(text: string): string | null {
  let at = 0;
  const end = text.length;
  let negative = false;
  if (at < end && (unit(text, at) == 0x2b || unit(text, at) == 0x2d)) {
    negative = unit(text, at++) == 0x2d;
  }
  const whole = at;
  while (at < end && isDigit(unit(text, at))) ++at;
  if (at == whole) return null;
  let digits = text.substring(whole, at);
  let point = at - whole;
  if (at < end && unit(text, at) == 0x2e) {
    const fraction = ++at;
    while (at < end && isDigit(unit(text, at))) ++at;
    if (at == fraction) return null;
    digits += text.substring(fraction, at);
  }
  if (at < end && (unit(text, at) | 0x20) == 0x65) {
    ++at;
    let down = false;
    if (at < end && (unit(text, at) == 0x2b || unit(text, at) == 0x2d)) {
      down = unit(text, at++) == 0x2d;
    }
    const first = at;
    let exponent = 0;
    while (at < end && at < first + 3 && isDigit(unit(text, at))) {
      exponent = exponent * 10 + (unit(text, at++) - 0x30);
    }
    if (at == first) return null;
    point += down ? -exponent : exponent;
  }
  return at == end ? plain(negative, digits, point) : null;
}

/** The digits with the point after so many of them: without zeros that say nothing, within 34 digits. */
function plain(negative: bool, digits: string, point: i32): string | null {
  let from = 0;
  let to = digits.length;
  while (from < to && unit(digits, from) == 0x30) {
    ++from;
    --point;
  }
  while (from < to && unit(digits, to - 1) == 0x30) --to;
  if (from == to) return "0";
  const count = to - from;
  if (count > 34 || point > 34 || count - point > 34) return null;
  digits = digits.substring(from, to);
  let text: string;
  if (point <= 0) text = "0." + "0".repeat(-point) + digits;
  else if (point >= count) text = digits + "0".repeat(point - count);
  else text = digits.substring(0, point) + "." + digits.substring(point);
  return negative ? "-" + text : text;
}

/** `8-4-4-4-12` hex digits, in lower case. */
export function uuid(text: string): string | null {
  if (text.length != 36) return null;
  const lower = changetype<string>(__new(72, idof<string>()));
  for (let i = 0; i < 36; ++i) {
    let digit = unit(text, i);
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (digit != 0x2d) return null;
    } else {
      if (digit >= 0x41 && digit <= 0x46) digit += 0x20;
      if (!isHex(digit)) return null;
    }
    store<u16>(changetype<usize>(lower) + (<usize>i << 1), <u16>digit);
  }
  return lower;
}

/** `algorithm:hex` in lower case: blake3, sha256, sha384 or sha512. */
export function hash(text: string): string | null {
  const colon = text.indexOf(":");
  let digits = 64;
  if (text.startsWith("sha384:")) digits = 96;
  else if (text.startsWith("sha512:")) digits = 128;
  else if (!text.startsWith("blake3:") && !text.startsWith("sha256:")) return null;
  if (text.length != colon + 1 + digits) return null;
  for (let i = colon + 1; i < text.length; ++i) {
    if (!isHex(unit(text, i))) return null;
  }
  return text;
}

// @ts-ignore: decorator
@inline
function unit(text: string, at: i32): i32 {
  return text.charCodeAt(at);
}

function isDigit(unit: i32): bool {
  return unit >= 0x30 && unit <= 0x39;
}

/** Lower case only. */
function isHex(unit: i32): bool {
  return isDigit(unit) || (unit >= 0x61 && unit <= 0x66);
}
