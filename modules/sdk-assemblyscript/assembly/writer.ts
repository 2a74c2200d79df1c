// Values -> canonical CBOR (spec/values.md V-10, V-11), in a buffer that grows.
//
// Records are written field by field in the order of their encoded names, which the generator knows. Sets and maps
// are written in any order and sorted by their encoded bytes when they end.

import { cx } from "./context";
import { dec128, hash, uuid } from "./text";
import { encodeUtf8, utf8Length } from "./utf8";

export class Writer {
  private buffer: usize = __new(256, idof<ArrayBuffer>());
  private room: usize = 256;
  /** How many bytes were written. */
  size: usize = 0;

  /** Where the bytes are, until the next write. */
  get start(): usize {
    return this.buffer;
  }

  toBytes(): Uint8Array {
    const bytes = new Uint8Array(<i32>this.size);
    memory.copy(bytes.dataStart, this.buffer, this.size);
    return bytes;
  }

  /** Make room for so many bytes more; return where they go. */
  private ahead(bytes: usize): usize {
    const needed = this.size + bytes;
    if (needed > this.room) {
      this.room = max(needed, this.room << 1);
      this.buffer = __renew(this.buffer, this.room);
    }
    return this.buffer + this.size;
  }

  private byte(value: u8): void {
    store<u8>(this.ahead(1), value);
    this.size += 1;
  }

  /** The shortest head. */
  private head(major: u8, argument: u64): void {
    let width: i32 = 0;
    if (argument >= 24) width = argument <= 0xff ? 1 : argument <= 0xffff ? 2 : argument <= 0xffff_ffff ? 4 : 8;
    let at = this.ahead(1 + width);
    const low: u8 = width ? 24 + <u8>ctz(width) : <u8>argument;
    store<u8>(at, (major << 5) | low);
    this.size += 1 + width;
    for (let bits = <u64>width << 3; bits > 0; ) {
      bits -= 8;
      store<u8>(++at, <u8>(argument >> bits));
    }
  }

  bool(value: bool): void {
    this.byte(value ? 0xf5 : 0xf4);
  }

  nat(value: u64): void {
    this.head(0, value);
  }

  int(value: i64): void {
    if (value < 0) this.head(1, ~(<u64>value));
    else this.head(0, value);
  }

  null(): void {
    this.byte(0xf6);
  }

  text(value: string): void {
    let length = utf8Length(value);
    if (length < 0) {
      cx.fault("sdk_value", "text: half of a surrogate pair");
      length = 0;
      value = "";
    }
    this.head(3, length);
    encodeUtf8(value, this.ahead(length));
    this.size += length;
  }

  bytes(value: Uint8Array): void {
    this.copy(value.dataStart, value.byteLength);
  }

  /** The contents of another writer, as a byte string. */
  embedded(writer: Writer): void {
    this.copy(writer.buffer, writer.size);
  }

  private copy(from: usize, length: usize): void {
    this.head(2, length);
    this.raw(from, length);
  }

  /** Bytes that are encoded already, unchanged. */
  raw(from: usize, length: usize): void {
    memory.copy(this.ahead(length), from, length);
    this.size += length;
  }

  private normal(type: string, text: string, normal: string | null): void {
    if (normal === null) {
      cx.fault("sdk_value", type + ": the text is not one");
      normal = "";
    }
    this.text(normal);
  }

  dec128(value: string): void {
    this.normal("dec128", value, dec128(value));
  }

  uuid(value: string): void {
    this.normal("uuid", value, uuid(value));
  }

  hash(value: string): void {
    this.normal("hash", value, hash(value));
  }

  record(fields: u64): void {
    this.head(5, fields);
  }

  key(name: string): void {
    this.text(name);
  }

  /** An arm; its value follows. */
  arm(tag: string): void {
    this.head(5, 2);
    this.text("$tag");
    this.text(tag);
    this.text("$value");
  }

  /** An arm of unit. */
  unitArm(tag: string): void {
    this.head(5, 1);
    this.text("$tag");
    this.text(tag);
  }

  list(items: u64): void {
    this.head(4, items);
  }

  /** Begin a set or a map: for each element call `sorter.item()` and write it; for each entry write the key, call
   * `sorter.keyed()` and write the value; then `endSet` or `endMap`. */
  sorter(items: i32): Sorter {
    return new Sorter(this, items);
  }

  endSet(sorter: Sorter): void {
    this.sorted(4, sorter);
  }

  endMap(sorter: Sorter): void {
    this.sorted(5, sorter);
  }

  private sorted(major: u8, sorter: Sorter): void {
    const from = sorter.base;
    const size = this.size - from;
    const copy = __new(size, idof<ArrayBuffer>());
    memory.copy(copy, this.buffer + from, size);
    this.size = from;
    sorter.write(major, copy, size);
  }

  /** For `Sorter`. */
  count(major: u8, items: u64): void {
    this.head(major, items);
  }
}

/** The places of the elements of one set, or entries of one map, that is being written. */
export class Sorter {
  base: usize;
  private count: i32 = 0;
  private items: StaticArray<Item>;

  constructor(
    private writer: Writer,
    items: i32,
  ) {
    this.base = writer.size;
    this.items = new StaticArray<Item>(items);
  }

  /** Before each element or key. */
  item(): void {
    this.close();
    this.items[this.count++] = new Item(this.writer.size - this.base);
  }

  /** Between a key and its value. */
  keyed(): void {
    const item = this.items[this.count - 1];
    item.keySize = this.writer.size - this.base - item.start;
  }

  private close(): void {
    if (!this.count) return;
    const item = this.items[this.count - 1];
    item.size = this.writer.size - this.base - item.start;
    if (!item.keySize) item.keySize = item.size;
  }

  /** Write everything in order; of equal keys the last one. `bytes` is a copy of what was written since `base`. */
  write(major: u8, bytes: usize, size: usize): void {
    const count = this.count;
    if (count) {
      const last = this.items[count - 1];
      last.size = size - last.start;
      if (!last.keySize) last.keySize = last.size;
    }
    const items = sort(this.items, count, bytes);
    let distinct = 0;
    for (let i = 0; i < count; ++i) {
      if (i + 1 == count || items[i].compare(items[i + 1], bytes) != 0) items[distinct++] = items[i];
    }
    this.writer.count(major, distinct);
    for (let i = 0; i < distinct; ++i) this.writer.raw(bytes + items[i].start, items[i].size);
  }
}

class Item {
  size: usize = 0;
  keySize: usize = 0;

  constructor(public start: usize) {}

  /** Encoded values are never each other's beginnings, so the shorter one ends the comparison. */
  compare(other: Item, bytes: usize): i32 {
    return memory.compare(bytes + this.start, bytes + other.start, min(this.keySize, other.keySize));
  }
}

/** A stable merge sort: of equal keys the one that was written last stays last. */
function sort(items: StaticArray<Item>, count: i32, bytes: usize): StaticArray<Item> {
  let inOrder = true;
  for (let i = 1; i < count && inOrder; ++i) inOrder = items[i - 1].compare(items[i], bytes) <= 0;
  if (inOrder) return items;
  let from = items;
  let to = new StaticArray<Item>(items.length);
  for (let width = 1; width < count; width <<= 1) {
    for (let low = 0; low < count; low += width << 1) {
      const middle = min(low + width, count);
      const high = min(middle + width, count);
      let left = low;
      let right = middle;
      for (let at = low; at < high; ++at) {
        const takeLeft = right >= high || (left < middle && from[left].compare(from[right], bytes) <= 0);
        to[at] = takeLeft ? from[left++] : from[right++];
      }
    }
    const swap = from;
    from = to;
    to = swap;
  }
  return from;
}
