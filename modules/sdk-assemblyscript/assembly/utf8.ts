// UTF-8 to the language's strings (UTF-16) and back, strictly: no surrogates, nothing overlong.

/** Read `length` bytes of UTF-8. Null when they are not that. */
export function decodeUtf8(start: usize, length: usize): string | null {
  // Each byte gives at most one unit of UTF-16; the rest of the buffer is cut off at the end.
  let text = __new(length << 1, idof<string>());
  let to = text;
  let at = start;
  const end = start + length;
  while (at < end) {
    let point = <u32>load<u8>(at++);
    if (point >= 0x80) {
      let more: i32;
      let least: u32;
      if (point >> 5 == 0b110) {
        more = 1;
        least = 0x80;
        point &= 0x1f;
      } else if (point >> 4 == 0b1110) {
        more = 2;
        least = 0x800;
        point &= 0x0f;
      } else if (point >> 3 == 0b11110) {
        more = 3;
        least = 0x1_0000;
        point &= 0x07;
      } else {
        return null;
      }
      if (end - at < <usize>more) return null;
      for (; more > 0; --more) {
        const byte = <u32>load<u8>(at++);
        if (byte >> 6 != 0b10) return null;
        point = (point << 6) | (byte & 0x3f);
      }
      if (point < least || point > 0x10_ffff || point >> 11 == 0x1b) return null;
      if (point > 0xffff) {
        point -= 0x1_0000;
        store<u16>(to, <u16>(0xd800 | (point >> 10)));
        to += 2;
        point = 0xdc00 | (point & 0x3ff);
      }
    }
    store<u16>(to, <u16>point);
    to += 2;
  }
  text = __renew(text, to - text);
  return changetype<string>(text);
}

// @ts-ignore: decorator
@inline
export function unitAt(text: string, at: i32): u32 {
  // Without the check of charCodeAt: every caller counts up to the length.
  return load<u16>(changetype<usize>(text) + (<usize>at << 1));
}

/** How many bytes the text is in UTF-8. -1 when it has half of a surrogate pair. */
export function utf8Length(text: string): i32 {
  const length = text.length;
  let bytes = length;
  for (let i = 0; i < length; ++i) {
    const unit = unitAt(text, i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit >> 11 != 0x1b) bytes += 2;
    else {
      if (unit >= 0xdc00 || ++i == length || unitAt(text, i) >> 10 != 0x37) return -1;
      bytes += 2;
    }
  }
  return bytes;
}

/** Write a text that `utf8Length` has measured; return the address behind it. */
export function encodeUtf8(text: string, to: usize): usize {
  const length = text.length;
  for (let i = 0; i < length; ++i) {
    let point = unitAt(text, i);
    if (point >> 11 == 0x1b) point = 0x1_0000 + ((point & 0x3ff) << 10) + (unitAt(text, ++i) & 0x3ff);
    to = encodePoint(point, to);
  }
  return to;
}

/** Write one character; return the address behind it. */
// @ts-ignore: decorator
@inline
export function encodePoint(point: u32, to: usize): usize {
  if (point < 0x80) {
    store<u8>(to, point);
    return to + 1;
  }
  if (point < 0x800) {
    store<u8>(to, 0xc0 | (point >> 6));
    store<u8>(to, 0x80 | (point & 0x3f), 1);
    return to + 2;
  }
  if (point < 0x1_0000) {
    store<u8>(to, 0xe0 | (point >> 12));
    store<u8>(to, 0x80 | ((point >> 6) & 0x3f), 1);
    store<u8>(to, 0x80 | (point & 0x3f), 2);
    return to + 3;
  }
  store<u8>(to, 0xf0 | (point >> 18));
  store<u8>(to, 0x80 | ((point >> 12) & 0x3f), 1);
  store<u8>(to, 0x80 | ((point >> 6) & 0x3f), 2);
  store<u8>(to, 0x80 | (point & 0x3f), 3);
  return to + 4;
}
