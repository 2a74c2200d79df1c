// UTF-8 -> JSON, strictly: RFC 8259 and nothing beyond it, each key of an object once (spec/sdk.md SD-42).

import { Json, JsonKind } from "./json";
import { decodeUtf8, encodePoint } from "./utf8";

/** How deep lists and objects may nest. */
// @ts-ignore: decorator
@inline const LEVELS_MAX: i32 = 64;

/** Read one document. Bytes that are not exactly one are null JSON with a `problem`. */
export function parseJson(bytes: Uint8Array): Json {
  const start = bytes.dataStart;
  const reader = new JsonReader(start, start + <usize>bytes.byteLength);
  const value = reader.document();
  return value !== null ? value : Json.refused(reader.problem());
}

class JsonReader {
  private first: usize;
  private expected: string = "";

  constructor(
    private at: usize,
    private end: usize,
  ) {
    this.first = at;
  }

  problem(): string {
    return "byte " + (this.at - this.first).toString() + ": expected " + this.expected;
  }

  document(): Json | null {
    if (decodeUtf8(this.at, this.end - this.at) === null) {
      this.skipUtf8();
      return this.stop("UTF-8");
    }
    const value = this.value(LEVELS_MAX);
    if (value !== null && this.at != this.end) return this.stop("the end");
    return value;
  }

  /** Move to the first byte that is not UTF-8. */
  private skipUtf8(): void {
    while (this.at < this.end) {
      const lead = load<u8>(this.at);
      const size: usize = lead < 0x80 ? 1 : lead >> 5 == 0b110 ? 2 : lead >> 4 == 0b1110 ? 3 : 4;
      if (this.end - this.at < size || decodeUtf8(this.at, size) === null) return;
      this.at += size;
    }
  }

  private stop(expected: string): Json | null {
    this.expected = expected;
    return null;
  }

  /** The next byte. 0 at the end: no document has it, so no rule takes it. */
  private peek(): u8 {
    return this.at < this.end ? load<u8>(this.at) : 0;
  }

  private skip(byte: u8): bool {
    if (this.peek() != byte) return false;
    this.at += 1;
    return true;
  }

  private space(): void {
    let byte = this.peek();
    while (byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09) {
      this.at += 1;
      byte = this.peek();
    }
  }

  /** A value and the space around it, with so many levels left for lists and objects. */
  private value(levels: i32): Json | null {
    this.space();
    const value = this.bare(levels);
    if (value !== null) this.space();
    return value;
  }

  private bare(levels: i32): Json | null {
    const byte = this.peek();
    if (byte == 0x7b || byte == 0x5b) {
      if (levels == 0) return this.stop("at most 64 levels");
      this.at += 1;
      return byte == 0x7b ? this.object(levels - 1) : this.list(levels - 1);
    }
    if (byte == 0x22) {
      const words = this.string();
      return words === null ? null : Json.worded(JsonKind.Text, words);
    }
    if (byte == 0x2d || isDigit(byte)) return this.number();
    if (byte == 0x74) return this.word("true", JsonKind.Bool);
    if (byte == 0x66) return this.word("false", JsonKind.Bool);
    if (byte == 0x6e) return this.word("null", JsonKind.Null);
    return this.stop("a value");
  }

  private word(word: string, kind: JsonKind): Json | null {
    for (let i = 0; i < word.length; ++i) {
      if (!this.skip(<u8>word.charCodeAt(i))) return this.stop(word);
    }
    return Json.worded(kind, word);
  }

  private list(levels: i32): Json | null {
    const list = Json.list();
    this.space();
    if (this.skip(0x5d)) return list;
    while (true) {
      const item = this.value(levels);
      if (item === null) return null;
      list.push(item);
      if (this.skip(0x5d)) return list;
      if (!this.skip(0x2c)) return this.stop("a comma or ]");
    }
  }

  private object(levels: i32): Json | null {
    const object = Json.object();
    let hasRepeatedKey = false;
    this.space();
    if (this.skip(0x7d)) return object;
    while (true) {
      this.space();
      if (this.peek() != 0x22) return this.stop("a key");
      const key = this.string();
      if (key === null) return null;
      this.space();
      if (!this.skip(0x3a)) return this.stop("a colon");
      const value = this.value(levels);
      if (value === null) return null;
      if (object.has(key)) hasRepeatedKey = true;
      object.set(key, value);
      if (this.peek() == 0x7d) break;
      if (!this.skip(0x2c)) return this.stop("a comma or }");
    }
    if (hasRepeatedKey) return this.stop("each key once");
    this.at += 1;
    return object;
  }

  /** A text; null, with `expected` set, for anything else. */
  private string(): string | null {
    this.at += 1;
    // Without its escapes a text is shorter.
    const text = heap.alloc(this.rawEnd() - this.at);
    let to = text;
    while (true) {
      const byte = this.peek();
      if (byte < 0x20) {
        this.stop("a character or a quote");
        return null;
      }
      this.at += 1;
      if (byte == 0x22) return decodeUtf8(text, to - text);
      if (byte == 0x5c) {
        const point = this.escaped();
        if (point < 0) return null;
        to = encodePoint(point, to);
      } else {
        store<u8>(to++, byte);
      }
    }
  }

  /** The place of the quote that closes a text. */
  private rawEnd(): usize {
    let at = this.at;
    while (at < this.end && load<u8>(at) != 0x22) at += load<u8>(at) == 0x5c ? 2 : 1;
    return min(at, this.end);
  }

  /** The character behind a backslash. -1, with `expected` set, if there is none. */
  private escaped(): i32 {
    const byte = this.peek();
    let point: i32;
    switch (byte) {
      case 0x22:
      case 0x5c:
      case 0x2f: point = byte; break;
      case 0x62: point = 0x08; break;
      case 0x66: point = 0x0c; break;
      case 0x6e: point = 0x0a; break;
      case 0x72: point = 0x0d; break;
      case 0x74: point = 0x09; break;
      case 0x75:
        this.at += 1;
        return this.codePoint();
      default:
        this.stop("an escape");
        return -1;
    }
    this.at += 1;
    return point;
  }

  /** Behind `\u`: four digits, or two halves of a surrogate pair. */
  private codePoint(): i32 {
    const code = this.fourDigits();
    if (code < 0 || code >> 11 != 0x1b) return code;
    if (code < 0xdc00 && this.skip(0x5c) && this.skip(0x75)) {
      const low = this.fourDigits();
      if (low < 0) return -1;
      if (low >> 10 == 0x37) return 0x1_0000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    this.stop("a whole surrogate pair");
    return -1;
  }

  private fourDigits(): i32 {
    let code = 0;
    for (let i = 0; i < 4; ++i) {
      const byte = this.peek();
      const letter = byte | 0x20;
      let digit: i32;
      if (isDigit(byte)) digit = byte - 0x30;
      else if (letter >= 0x61 && letter <= 0x66) digit = letter - 0x57;
      else {
        this.stop("four hex digits");
        return -1;
      }
      code = (code << 4) | digit;
      this.at += 1;
    }
    return code;
  }

  private number(): Json | null {
    const start = this.at;
    this.skip(0x2d);
    if (!this.skip(0x30) && !this.digits()) return null;
    if (this.skip(0x2e) && !this.digits()) return null;
    if (this.skip(0x65) || this.skip(0x45)) {
      if (!this.skip(0x2b)) this.skip(0x2d);
      if (!this.digits()) return null;
    }
    return Json.worded(JsonKind.Number, decodeUtf8(start, this.at - start)!);
  }

  private digits(): bool {
    const start = this.at;
    while (isDigit(this.peek())) this.at += 1;
    if (this.at == start) this.stop("a digit");
    return this.at > start;
  }
}

function isDigit(byte: u8): bool {
  return byte >= 0x30 && byte <= 0x39;
}
