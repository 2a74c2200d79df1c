import {
  addMonths, CalendarDate, HttpRequestReceipt, Json, parseJson, postJson, Reader, responseJson, Writer,
} from "aos-sdk";

export { alloc, aos_panic } from "aos-sdk";

function bytesAt(pointer: i32, length: i32): Uint8Array {
  const bytes = new Uint8Array(length);
  memory.copy(bytes.dataStart, <usize>pointer, <usize>length);
  return bytes;
}

function answer(w: Writer): u64 {
  return ((<u64>w.start) << 32) | <u64>w.size;
}

/** A document: [1, its bytes written again], or [0, why not]. */
export function rewrite(pointer: i32, length: i32): u64 {
  const json = parseJson(bytesAt(pointer, length));
  const problem = json.problem;
  const w = new Writer();
  w.list(2);
  w.nat(<u64>(problem === null));
  if (problem === null) w.bytes(json.bytes);
  else w.text(problem);
  return answer(w);
}

/** A number: as a nat, an int, a decimal; "" for what it does not fit. */
export function number(pointer: i32, length: i32): u64 {
  const json = parseJson(bytesAt(pointer, length));
  const nat = json.asNat;
  const int = json.asInt;
  const decimal = json.asDecimal;
  const w = new Writer();
  w.list(3);
  w.text(nat === null ? "" : nat.value.toString());
  w.text(int === null ? "" : int.value.toString());
  w.text(decimal === null ? "" : decimal);
  return answer(w);
}

/** [days, months] in CBOR: the day's text, weekday and days; the text after so many months. */
export function day(pointer: i32, length: i32): u64 {
  const r = new Reader(<usize>pointer, <usize>(pointer + length));
  r.list();
  const date = CalendarDate.fromDays(r.int());
  const w = new Writer();
  w.list(date === null ? 0 : 4);
  if (date !== null) {
    const moved = date.addMonths(r.int());
    w.text(date.text);
    w.text(date.weekday.toString());
    w.text(date.days.toString());
    w.text(moved === null ? "" : moved.text);
  }
  return answer(w);
}

/** [time, months] in CBOR: the time after so many months, or nothing. */
export function move(pointer: i32, length: i32): u64 {
  const r = new Reader(<usize>pointer, <usize>(pointer + length));
  r.list();
  const time = r.int();
  const moved = addMonths(time, r.int());
  const w = new Writer();
  w.list(moved === null ? 0 : 1);
  if (moved !== null) w.int(moved.value);
  return answer(w);
}

/** The body of a request, built from every type that a value may be made of. */
export function build(_pointer: i32, _length: i32): u64 {
  const none: string | null = null;
  const child = Json.object().set("b", true).set("none", none);
  const body = Json.object()
    .set("text", "a\"\n")
    .set("nat", u64.MAX_VALUE)
    .set("int", i64.MIN_VALUE)
    .set("i32", -1)
    .set("decimal", Json.decimal("-01.50"))
    .set("texts", ["x", "y"])
    .set("numbers", [1, 2])
    .set("list", Json.list().push(child).push(Json.list()))
    .set("again", 1)
    .set("again", "later");
  const request = postJson("https://example.com/", body);
  const w = new Writer();
  w.list(3);
  w.text(request.params.method);
  w.text(request.params.headers.get("content-type").literal);
  w.bytes(request.params.body!);
  return answer(w);
}

/** The body of a response: a path that it has, and paths that it does not have. */
export function read(pointer: i32, length: i32): u64 {
  const response = new HttpRequestReceipt();
  if (length > 0) response.body = bytesAt(pointer, length);
  const body = responseJson(response);
  const id = body.get("charge").get("id").asText;
  const problem = body.problem;
  const w = new Writer();
  w.list(4);
  w.text(id === null ? "" : id);
  w.text(body.get("list").at(1).asBool !== null ? "bool" : "");
  w.nat(<u64>(body.get("charge").get("no").at(-1).isNull && body.at(0).isNull && !body.has("no")));
  w.text(problem === null ? "" : problem);
  return answer(w);
}
