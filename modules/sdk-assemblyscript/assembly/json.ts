// Small JSON documents, for the bodies of HTTP requests and of their responses (spec/sdk.md SD-40 to SD-44).

import { fault } from "./step";
import { dec128 } from "./text";
import { encodeUtf8, unitAt, utf8Length } from "./utf8";
import { Some } from "./value";

export enum JsonKind {
  Null,
  Bool,
  Number,
  Text,
  List,
  Object,
}

/**
 * A JSON value. `Json.object()` and `Json.list()` begin a document, `parseJson` reads one. An object keeps the order of
 * its keys. There are no floats: a number is its decimal text.
 */
export class Json {
  /** Why `parseJson` could not read the document; null for every other value. */
  problem: string | null = null;
  private word: string = "";
  private list: Array<Json> | null = null;
  private fields: Map<string, Json> | null = null;

  private constructor(readonly kind: JsonKind) {}

  static null(): Json {
    return new Json(JsonKind.Null);
  }

  static object(): Json {
    const json = new Json(JsonKind.Object);
    json.fields = new Map<string, Json>();
    return json;
  }

  static list(): Json {
    const json = new Json(JsonKind.List);
    json.list = new Array<Json>();
    return json;
  }

  /** A bool, whole number, text, an array of these, or a value as it is; null is null. */
  static of<T>(value: T): Json {
    if (isNullable<T>() && changetype<usize>(value) == 0) return Json.null();
    if (isBoolean<T>()) return Json.worded(JsonKind.Bool, value ? "true" : "false");
    if (isInteger<T>()) return Json.worded(JsonKind.Number, value.toString());
    if (isFloat<T>()) ERROR("JSON has no floats here: write Json.decimal(text), or a whole number of cents");
    if (isString<T>()) return Json.worded(JsonKind.Text, changetype<string>(value));
    if (isArray<T>()) {
      const items = changetype<NonNullable<T>>(value);
      const list = Json.list();
      for (let i = 0; i < items.length; ++i) list.push(items[i]);
      return list;
    }
    if (idof<T>() != idof<Json>()) ERROR("expected a bool, a whole number, a text, an array of these, or Json");
    return changetype<Json>(value);
  }

  /** A `dec128` as a number. Traps if the text is none. */
  static decimal(text: string): Json {
    const normal = dec128(text);
    assert(normal !== null, "not a dec128");
    return Json.worded(JsonKind.Number, normal!);
  }

  /** For the reader. */
  static worded(kind: JsonKind, word: string): Json {
    const json = new Json(kind);
    json.word = word;
    return json;
  }

  /** For the reader: null, and why. */
  static refused(problem: string): Json {
    const json = Json.null();
    json.problem = problem;
    return json;
  }

  /** Set the value under a key of an object, which replaces an earlier one. Traps for another value. */
  set<T>(key: string, value: T): Json {
    this.fields!.set(key, Json.of<T>(value));
    return this;
  }

  /** Append a value to a list. Traps for another value. */
  push<T>(value: T): Json {
    this.list!.push(Json.of<T>(value));
    return this;
  }

  get isNull(): bool {
    return this.kind == JsonKind.Null;
  }

  /** The value under a key; null JSON if this is no object or does not have it. */
  get(key: string): Json {
    return this.has(key) ? this.fields!.get(key) : Json.null();
  }

  has(key: string): bool {
    const fields = this.fields;
    return fields !== null && fields.has(key);
  }

  /** The keys of an object; none for every other value. */
  get keys(): string[] {
    const fields = this.fields;
    return fields === null ? [] : fields.keys();
  }

  /** The value at an index; null JSON if this is no list or does not have it. */
  at(index: i32): Json {
    const items = this.items;
    return <u32>index < <u32>items.length ? items[index] : Json.null();
  }

  /** The values of a list; none for every other value. */
  get items(): Json[] {
    const list = this.list;
    return list === null ? [] : list;
  }

  get asBool(): Some<bool> | null {
    return this.kind == JsonKind.Bool ? new Some<bool>(this.word == "true") : null;
  }

  get asText(): string | null {
    return this.kind == JsonKind.Text ? this.word : null;
  }

  /** The number, if it is written without point, exponent and sign, and fits. */
  get asNat(): Some<u64> | null {
    return this.kind == JsonKind.Number ? whole(this.word, 0, u64.MAX_VALUE) : null;
  }

  /** The number, if it is written without point and exponent, and fits. */
  get asInt(): Some<i64> | null {
    if (this.kind != JsonKind.Number) return null;
    const isNegative = unitAt(this.word, 0) == 0x2d;
    const found = whole(this.word, <i32>isNegative, <u64>i64.MAX_VALUE + <u64>isNegative);
    if (found === null) return null;
    return new Some<i64>(isNegative ? -(<i64>found.value) : <i64>found.value);
  }

  /** The exact number in the normal form of `dec128`, if it fits. */
  get asDecimal(): string | null {
    return this.kind == JsonKind.Number ? dec128(this.word) : null;
  }

  /** The number as it is written. */
  get asNumber(): string | null {
    return this.kind == JsonKind.Number ? this.word : null;
  }

  /** The document: no spaces; control characters, `"` and `\` are escaped. */
  get text(): string {
    const pieces = new Array<string>();
    this.write(pieces);
    return pieces.join("");
  }

  /** The document in UTF-8. A text with half of a surrogate pair is the fault `sdk_value`. */
  get bytes(): Uint8Array {
    const text = this.text;
    const length = utf8Length(text);
    if (length < 0) {
      fault("sdk_value", "JSON with half of a surrogate pair");
      return new Uint8Array(0);
    }
    const bytes = new Uint8Array(length);
    encodeUtf8(text, bytes.dataStart);
    return bytes;
  }

  private write(to: string[]): void {
    switch (this.kind) {
      case JsonKind.Null:
        to.push("null");
        return;
      case JsonKind.Text:
        escape(this.word, to);
        return;
      case JsonKind.List: {
        const items = this.items;
        to.push("[");
        for (let i = 0; i < items.length; ++i) {
          if (i > 0) to.push(",");
          items[i].write(to);
        }
        to.push("]");
        return;
      }
      case JsonKind.Object: {
        const keys = this.keys;
        to.push("{");
        for (let i = 0; i < keys.length; ++i) {
          if (i > 0) to.push(",");
          escape(keys[i], to);
          to.push(":");
          this.fields!.get(keys[i]).write(to);
        }
        to.push("}");
        return;
      }
    }
    to.push(this.word);
  }
}

/** Digits from `start` as a number of at most `most`; null for anything else. */
function whole(text: string, start: i32, most: u64): Some<u64> | null {
  let number: u64 = 0;
  for (let i = start; i < text.length; ++i) {
    const digit = <u64>unitAt(text, i) - 0x30;
    if (digit > 9 || number > (most - digit) / 10) return null;
    number = number * 10 + digit;
  }
  return new Some<u64>(number);
}

function escape(text: string, to: string[]): void {
  let start = 0;
  to.push("\"");
  for (let i = 0; i < text.length; ++i) {
    const unit = unitAt(text, i);
    if (unit >= 0x20 && unit != 0x22 && unit != 0x5c) continue;
    to.push(text.substring(start, i));
    start = i + 1;
    switch (unit) {
      case 0x22: to.push("\\\""); break;
      case 0x5c: to.push("\\\\"); break;
      case 0x08: to.push("\\b"); break;
      case 0x0c: to.push("\\f"); break;
      case 0x0a: to.push("\\n"); break;
      case 0x0d: to.push("\\r"); break;
      case 0x09: to.push("\\t"); break;
      default:
        to.push(unit < 0x10 ? "\\u000" : "\\u001");
        to.push("0123456789abcdef".charAt(unit & 15));
    }
  }
  to.push(text.substring(start));
  to.push("\"");
}
