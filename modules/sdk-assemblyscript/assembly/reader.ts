// Canonical CBOR -> values, strictly: what the record gate takes and nothing else (spec/values.md V-10 to V-14).
//
// A reader that met something else has `failed`: it stays where it was, and answers zeros and empty values from then
// on. So code that reads is a straight line, and asks once at its end. The depth of what it reads is that of the types
// that it is read as.

import { dec128, hash, uuid } from "./text";
import { decodeUtf8, unitAt } from "./utf8";
import { Unit } from "./value";

// @ts-ignore: decorator
@inline const LEVELS_MAX: i32 = 128;
// @ts-ignore: decorator
@inline const NULL: u8 = 0xf6;

export class Reader {
  /** Why it failed, or null. */
  problem: string | null = null;
  private first: usize;

  /** Reads `[at, end)`. */
  constructor(
    public at: usize,
    public end: usize,
  ) {
    this.first = at;
  }

  static of(bytes: Uint8Array): Reader {
    return new Reader(bytes.dataStart, bytes.dataStart + <usize>bytes.byteLength);
  }

  get failed(): bool {
    return this.problem !== null;
  }

  /** Whether everything was read, and all of it could be. */
  done(): bool {
    if (this.at != this.end) this.fail("bytes follow the value");
    return !this.failed;
  }

  /** The first problem stays. Everything that is left counts as read. */
  fail(problem: string): void {
    if (!this.failed) this.problem = problem + " at byte " + (this.at - this.first).toString();
    this.at = this.end;
  }

  /** The next head, which must be of this major type; its argument. */
  private head(major: u8, expected: string): u64 {
    if (this.at >= this.end) {
      this.fail("cut short: expected " + expected);
      return 0;
    }
    const first = load<u8>(this.at);
    const low = first & 31;
    if (first >> 5 != major) {
      this.fail("expected " + expected);
      return 0;
    }
    if (low < 24) {
      this.at += 1;
      return low;
    }
    if (low > 27) {
      this.fail("an indefinite or reserved length");
      return 0;
    }
    const width = <usize>1 << (low - 24);
    if (this.end - this.at <= width) {
      this.fail("cut short: expected " + expected);
      return 0;
    }
    let value: u64 = 0;
    for (let i: usize = 1; i <= width; ++i) value = (value << 8) | load<u8>(this.at + i);
    const least: u64 = low == 24 ? 24 : <u64>1 << (<u64>width << 2);
    if (value < least) {
      this.fail("a head that is not the shortest");
      return 0;
    }
    this.at += 1 + width;
    return value;
  }

  private peek(): u8 {
    return this.at < this.end ? load<u8>(this.at) : 0xff;
  }

  bool(): bool {
    const byte = this.peek();
    if (byte != 0xf4 && byte != 0xf5) {
      this.fail("expected bool");
      return false;
    }
    this.at += 1;
    return byte == 0xf5;
  }

  nat(): u64 {
    return this.head(0, "nat");
  }

  int(): i64 {
    const negative = this.peek() >> 5 == 1;
    const value = this.head(<u8>negative, "int");
    if (<i64>value < 0) {
      this.fail("expected int, found a number of more than 64 bits");
      return 0;
    }
    return negative ? ~(<i64>value) : <i64>value;
  }

  /** Null is read and true; anything else is left, and false. */
  isNull(): bool {
    if (this.peek() != NULL) return false;
    this.at += 1;
    return true;
  }

  unit(): Unit {
    if (!this.isNull()) this.fail("expected null");
    return new Unit();
  }

  /** The length of a text or byte string, which is there. */
  private length(major: u8, expected: string): usize {
    const length = this.head(major, expected);
    if (length > <u64>(this.end - this.at)) {
      this.fail("cut short: expected " + expected);
      return 0;
    }
    return <usize>length;
  }

  text(): string {
    const length = this.length(3, "text");
    const text = decodeUtf8(this.at, length);
    if (text === null) {
      this.fail("text that is not UTF-8");
      return "";
    }
    this.at += length;
    return text;
  }

  bytes(): Uint8Array {
    const length = this.length(2, "bytes");
    const bytes = new Uint8Array(<i32>length);
    memory.copy(bytes.dataStart, this.at, length);
    this.at += length;
    return bytes;
  }

  /** A reader of what a byte string holds. */
  embedded(): Reader {
    const length = this.length(2, "bytes");
    const start = this.at;
    this.at += length;
    return new Reader(start, this.at);
  }

  private checked(text: string, normal: string | null, expected: string): string {
    if (normal === null || normal != text) this.fail("expected " + expected + " in normal form");
    return text;
  }

  dec128(): string {
    const text = this.text();
    return this.failed ? "0" : this.checked(text, dec128(text), "dec128");
  }

  uuid(): string {
    const text = this.text();
    return this.failed ? "" : this.checked(text, uuid(text), "uuid");
  }

  hash(): string {
    const text = this.text();
    return this.failed ? "" : this.checked(text, hash(text), "hash");
  }

  /** The head of a record of so many fields. */
  record(fields: u64): void {
    const found = this.head(5, "record");
    if (found != fields && !this.failed) this.fail("a field is missing or unknown");
  }

  /** The key of the next field. */
  key(name: string): void {
    const start = this.at;
    const length = this.length(3, name);
    let same = length == <usize>name.length;
    for (let i = 0; same && i < name.length; ++i) {
      const unit = unitAt(name, i);
      same = unit < 0x80 && load<u8>(this.at + <usize>i) == unit;
    }
    if (same) {
      this.at += length;
      return;
    }
    // Another name, or one that is not ASCII.
    if (!this.failed) this.at = start;
    if (this.text() != name && !this.failed) this.fail("expected the field " + name);
  }

  /** The tag of a variant. `value` follows unless the arm is unit's. */
  tag(): string {
    const fields = this.head(5, "variant");
    if (fields != 1 && fields != 2) this.fail("expected $tag and $value");
    this.single = fields == 1;
    this.key("$tag");
    return this.text();
  }

  private single: bool = false;

  /** Before the value of an arm. */
  value(): void {
    if (this.single) this.fail("expected $value");
    this.key("$value");
  }

  /** After the tag of an arm without a value. */
  noValue(): void {
    if (!this.single) this.fail("an arm of unit has no $value");
  }

  /** The number of elements. At least as many bytes are there. */
  list(): i32 {
    return this.count(4, 1, "list");
  }

  /** The number of entries. */
  map(): i32 {
    return this.count(5, 2, "map");
  }

  private count(major: u8, bytesEach: u64, expected: string): i32 {
    const count = this.head(major, expected);
    if (count > <u64>(this.end - this.at) / bytesEach) {
      this.fail("cut short: expected " + expected);
      return 0;
    }
    return <i32>count;
  }

  /**
   * Check that the value read since `start` is greater, byte by byte, than the value that begins at `before` (0: there
   * is none). No encoded value is a prefix of another, so the length of the new one is enough. Returns `start`.
   */
  ascending(before: usize, start: usize): usize {
    if (before && !this.failed) {
      const length = this.at - start;
      if (memory.compare(before, start, length) >= 0) this.fail("keys or elements that do not ascend");
    }
    return start;
  }

  /** Any one value, checked and passed over. */
  skip(levels: i32 = 0): void {
    const first = this.peek();
    if (first >= 0xf4 && first <= 0xf6 && this.at < this.end) {
      this.at += 1;
      return;
    }
    const major = first >> 5;
    if (major < 2) this.head(major, "integer");
    else if (major == 2) this.embedded();
    else if (major == 3) this.text();
    else if (major > 5) this.fail(this.at < this.end ? "a tag, a float or an unknown simple value" : "cut short");
    else if (levels == LEVELS_MAX) this.fail("nested too deep");
    else if (major == 4) {
      for (let left = this.list(); left > 0 && !this.failed; --left) this.skip(levels + 1);
    } else {
      let before: usize = 0;
      for (let left = this.map(); left > 0 && !this.failed; --left) {
        const start = this.at;
        const key = this.peek() >> 5;
        if (key > 1 && key != 3) this.fail("a key that is neither text nor integer");
        this.skip(levels + 1);
        before = this.ascending(before, start);
        this.skip(levels + 1);
      }
    }
  }
}
