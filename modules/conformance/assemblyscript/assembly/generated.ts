// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = true;

/** aos/Log@1 */
export class Log extends aos.Schema {
  constructor(
    public lines: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Log {
    r.record(1);
    r.key("lines");
    const lines: Array<string> = read_list_text(r);
    return new Log(lines);
  }

  schemaName(): string {
    return "aos/Log@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("lines");
    write_list_text(w, this.lines);
  }
}

export class ActActFault {
  constructor(
    public kind: string = "",
    public message: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): ActActFault {
    r.record(2);
    r.key("kind");
    const kind: string = r.text();
    r.key("message");
    const message: string = r.text();
    return new ActActFault(kind, message);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("kind");
    w.text(this.kind);
    w.key("message");
    w.text(this.message);
  }
}

export enum ActActTag {
  Keep,
  Run,
  Complete,
  Fail,
  Delete,
  DeleteAndAsk,
  Fault,
  FaultLate,
  Trap,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class ActAct {
  private _Fault: ActActFault | null = null;

  constructor(public readonly tag: ActActTag) {
  }

  static Keep(): ActAct {
    return new ActAct(ActActTag.Keep);
  }

  static Run(): ActAct {
    return new ActAct(ActActTag.Run);
  }

  static Complete(): ActAct {
    return new ActAct(ActActTag.Complete);
  }

  static Fail(): ActAct {
    return new ActAct(ActActTag.Fail);
  }

  static Delete(): ActAct {
    return new ActAct(ActActTag.Delete);
  }

  static DeleteAndAsk(): ActAct {
    return new ActAct(ActActTag.DeleteAndAsk);
  }

  static Fault(value: ActActFault): ActAct {
    const made = new ActAct(ActActTag.Fault);
    made._Fault = value;
    return made;
  }

  /** Traps when the arm is another. */
  get fault(): ActActFault {
    return this._Fault!;
  }

  static FaultLate(): ActAct {
    return new ActAct(ActActTag.FaultLate);
  }

  static Trap(): ActAct {
    return new ActAct(ActActTag.Trap);
  }

  static readFrom(r: aos.Reader): ActAct {
    const tag = r.tag();
    if (tag == "Keep") {
      r.noValue();
      return ActAct.Keep();
    }
    if (tag == "Run") {
      r.noValue();
      return ActAct.Run();
    }
    if (tag == "Complete") {
      r.noValue();
      return ActAct.Complete();
    }
    if (tag == "Fail") {
      r.noValue();
      return ActAct.Fail();
    }
    if (tag == "Delete") {
      r.noValue();
      return ActAct.Delete();
    }
    if (tag == "DeleteAndAsk") {
      r.noValue();
      return ActAct.DeleteAndAsk();
    }
    if (tag == "Fault") {
      r.value();
      return ActAct.Fault(ActActFault.readFrom(r));
    }
    if (tag == "FaultLate") {
      r.noValue();
      return ActAct.FaultLate();
    }
    if (tag == "Trap") {
      r.noValue();
      return ActAct.Trap();
    }
    r.fail("an unknown arm");
    return new ActAct(ActActTag.Keep);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case ActActTag.Keep: {
        w.unitArm("Keep");
        break;
      }
      case ActActTag.Run: {
        w.unitArm("Run");
        break;
      }
      case ActActTag.Complete: {
        w.unitArm("Complete");
        break;
      }
      case ActActTag.Fail: {
        w.unitArm("Fail");
        break;
      }
      case ActActTag.Delete: {
        w.unitArm("Delete");
        break;
      }
      case ActActTag.DeleteAndAsk: {
        w.unitArm("DeleteAndAsk");
        break;
      }
      case ActActTag.Fault: {
        w.arm("Fault");
        this.fault.writeTo(w);
        break;
      }
      case ActActTag.FaultLate: {
        w.unitArm("FaultLate");
        break;
      }
      case ActActTag.Trap: {
        w.unitArm("Trap");
        break;
      }
    }
  }
}

/** conformance/Act@1 */
export class Act extends aos.Schema {
  constructor(
    public id: u64 = 0,
    public act: ActAct = ActAct.Keep(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Act {
    r.record(2);
    r.key("id");
    const id: u64 = r.nat();
    r.key("act");
    const act: ActAct = ActAct.readFrom(r);
    return new Act(id, act);
  }

  schemaName(): string {
    return "conformance/Act@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("id");
    w.nat(this.id);
    w.key("act");
    this.act.writeTo(w);
  }
}

/** conformance/Acted@1 */
export class Acted extends aos.Schema {
  constructor(
    public steps: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Acted {
    r.record(1);
    r.key("steps");
    const steps: u64 = r.nat();
    return new Acted(steps);
  }

  schemaName(): string {
    return "conformance/Acted@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("steps");
    w.nat(this.steps);
  }
}

/** conformance/Annotate@1 */
export class Annotate extends aos.Schema {
  constructor(
    public texts: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Annotate {
    r.record(1);
    r.key("texts");
    const texts: Array<string> = read_list_text(r);
    return new Annotate(texts);
  }

  schemaName(): string {
    return "conformance/Annotate@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("texts");
    write_list_text(w, this.texts);
  }
}

export class AnswerFrame {
  constructor(
    public seq: u64 = 0,
    public kind: string = "",
    public payload: Uint8Array = new Uint8Array(0),
  ) {
  }

  static readFrom(r: aos.Reader): AnswerFrame {
    r.record(3);
    r.key("seq");
    const seq: u64 = r.nat();
    r.key("kind");
    const kind: string = r.text();
    r.key("payload");
    const payload: Uint8Array = r.bytes();
    return new AnswerFrame(seq, kind, payload);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("seq");
    w.nat(this.seq);
    w.key("kind");
    w.text(this.kind);
    w.key("payload");
    w.bytes(this.payload);
  }
}

export class AnswerStray {
  constructor(
    public effect: string = "",
    public status: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): AnswerStray {
    r.record(2);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    return new AnswerStray(effect, status);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
  }
}

export enum AnswerTag {
  Ok,
  Error,
  Timeout,
  Canceled,
  Rejected,
  Frame,
  Cancel,
  CancelError,
  Idle,
  Stray,
}

/** conformance/Answer@1: `tag` says which arm; an arm's value is in its own. */
export class Answer extends aos.Schema {
  private _Ok: u64 = 0;
  private _Error: aos.EffectError | null = null;
  private _Rejected: string | null = null;
  private _Frame: AnswerFrame | null = null;
  private _Cancel: bool = false;
  private _CancelError: string | null = null;
  private _Stray: AnswerStray | null = null;

  constructor(public readonly tag: AnswerTag) {
    super();
  }

  static Ok(value: u64): Answer {
    const made = new Answer(AnswerTag.Ok);
    made._Ok = value;
    return made;
  }

  /** Traps when the arm is another. */
  get ok(): u64 {
    assert(this.tag == AnswerTag.Ok, "it is another arm");
    return this._Ok;
  }

  static Error(value: aos.EffectError): Answer {
    const made = new Answer(AnswerTag.Error);
    made._Error = value;
    return made;
  }

  /** Traps when the arm is another. */
  get error(): aos.EffectError {
    return this._Error!;
  }

  static Timeout(): Answer {
    return new Answer(AnswerTag.Timeout);
  }

  static Canceled(): Answer {
    return new Answer(AnswerTag.Canceled);
  }

  static Rejected(value: string): Answer {
    const made = new Answer(AnswerTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): string {
    return this._Rejected!;
  }

  static Frame(value: AnswerFrame): Answer {
    const made = new Answer(AnswerTag.Frame);
    made._Frame = value;
    return made;
  }

  /** Traps when the arm is another. */
  get frame(): AnswerFrame {
    return this._Frame!;
  }

  static Cancel(value: bool): Answer {
    const made = new Answer(AnswerTag.Cancel);
    made._Cancel = value;
    return made;
  }

  /** Traps when the arm is another. */
  get cancel(): bool {
    assert(this.tag == AnswerTag.Cancel, "it is another arm");
    return this._Cancel;
  }

  static CancelError(value: string): Answer {
    const made = new Answer(AnswerTag.CancelError);
    made._CancelError = value;
    return made;
  }

  /** Traps when the arm is another. */
  get cancelError(): string {
    return this._CancelError!;
  }

  static Idle(): Answer {
    return new Answer(AnswerTag.Idle);
  }

  static Stray(value: AnswerStray): Answer {
    const made = new Answer(AnswerTag.Stray);
    made._Stray = value;
    return made;
  }

  /** Traps when the arm is another. */
  get stray(): AnswerStray {
    return this._Stray!;
  }

  static readFrom(r: aos.Reader): Answer {
    const tag = r.tag();
    if (tag == "Ok") {
      r.value();
      return Answer.Ok(r.nat());
    }
    if (tag == "Error") {
      r.value();
      return Answer.Error(aos.EffectError.readFrom(r));
    }
    if (tag == "Timeout") {
      r.noValue();
      return Answer.Timeout();
    }
    if (tag == "Canceled") {
      r.noValue();
      return Answer.Canceled();
    }
    if (tag == "Rejected") {
      r.value();
      return Answer.Rejected(r.text());
    }
    if (tag == "Frame") {
      r.value();
      return Answer.Frame(AnswerFrame.readFrom(r));
    }
    if (tag == "Cancel") {
      r.value();
      return Answer.Cancel(r.bool());
    }
    if (tag == "CancelError") {
      r.value();
      return Answer.CancelError(r.text());
    }
    if (tag == "Idle") {
      r.noValue();
      return Answer.Idle();
    }
    if (tag == "Stray") {
      r.value();
      return Answer.Stray(AnswerStray.readFrom(r));
    }
    r.fail("an unknown arm");
    return new Answer(AnswerTag.Ok);
  }

  schemaName(): string {
    return "conformance/Answer@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case AnswerTag.Ok: {
        w.arm("Ok");
        w.nat(this.ok);
        break;
      }
      case AnswerTag.Error: {
        w.arm("Error");
        this.error.writeTo(w);
        break;
      }
      case AnswerTag.Timeout: {
        w.unitArm("Timeout");
        break;
      }
      case AnswerTag.Canceled: {
        w.unitArm("Canceled");
        break;
      }
      case AnswerTag.Rejected: {
        w.arm("Rejected");
        w.text(this.rejected);
        break;
      }
      case AnswerTag.Frame: {
        w.arm("Frame");
        this.frame.writeTo(w);
        break;
      }
      case AnswerTag.Cancel: {
        w.arm("Cancel");
        w.bool(this.cancel);
        break;
      }
      case AnswerTag.CancelError: {
        w.arm("CancelError");
        w.text(this.cancelError);
        break;
      }
      case AnswerTag.Idle: {
        w.unitArm("Idle");
        break;
      }
      case AnswerTag.Stray: {
        w.arm("Stray");
        this.stray.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/Work@1 */
export class Work extends aos.Schema {
  constructor(
    public item: string = "",
    public weight: i64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Work {
    r.record(2);
    r.key("item");
    const item: string = r.text();
    r.key("weight");
    const weight: i64 = r.int();
    return new Work(item, weight);
  }

  schemaName(): string {
    return "conformance/Work@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("item");
    w.text(this.item);
    w.key("weight");
    w.int(this.weight);
  }
}

export enum AskIdempotencyKeyTag {
  Text,
  Bytes,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class AskIdempotencyKey {
  private _Text: string | null = null;
  private _Bytes: Uint8Array | null = null;

  constructor(public readonly tag: AskIdempotencyKeyTag) {
  }

  static Text(value: string): AskIdempotencyKey {
    const made = new AskIdempotencyKey(AskIdempotencyKeyTag.Text);
    made._Text = value;
    return made;
  }

  /** Traps when the arm is another. */
  get text(): string {
    return this._Text!;
  }

  static Bytes(value: Uint8Array): AskIdempotencyKey {
    const made = new AskIdempotencyKey(AskIdempotencyKeyTag.Bytes);
    made._Bytes = value;
    return made;
  }

  /** Traps when the arm is another. */
  get bytes(): Uint8Array {
    return this._Bytes!;
  }

  static readFrom(r: aos.Reader): AskIdempotencyKey {
    const tag = r.tag();
    if (tag == "Text") {
      r.value();
      return AskIdempotencyKey.Text(r.text());
    }
    if (tag == "Bytes") {
      r.value();
      return AskIdempotencyKey.Bytes(r.bytes());
    }
    r.fail("an unknown arm");
    return new AskIdempotencyKey(AskIdempotencyKeyTag.Text);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case AskIdempotencyKeyTag.Text: {
        w.arm("Text");
        w.text(this.text);
        break;
      }
      case AskIdempotencyKeyTag.Bytes: {
        w.arm("Bytes");
        w.bytes(this.bytes);
        break;
      }
    }
  }
}

/** conformance/Ask@1 */
export class Ask extends aos.Schema {
  constructor(
    public id: string = "",
    public work: Work = new Work(),
    public idempotency_key: AskIdempotencyKey | null = null,
    public issuer_ref: string | null = null,
    public forget: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Ask {
    r.record(5);
    r.key("id");
    const id: string = r.text();
    r.key("work");
    const work: Work = Work.readFrom(r);
    r.key("forget");
    const forget: bool = r.bool();
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    r.key("idempotency_key");
    const idempotency_key: AskIdempotencyKey | null = read_option_AskIdempotencyKey(r);
    return new Ask(id, work, idempotency_key, issuer_ref, forget);
  }

  schemaName(): string {
    return "conformance/Ask@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("id");
    w.text(this.id);
    w.key("work");
    this.work.writeTo(w);
    w.key("forget");
    w.bool(this.forget);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
    w.key("idempotency_key");
    write_option_AskIdempotencyKey(w, this.idempotency_key);
  }
}

/** conformance/Build@1 */
export class Build extends aos.Schema {
  static readFrom(r: aos.Reader): Build {
    r.record(0);
    return new Build();
  }

  schemaName(): string {
    return "conformance/Build@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(0);
  }
}

/** conformance/Cancel@1 */
export class Cancel extends aos.Schema {
  constructor(
    public id: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Cancel {
    r.record(1);
    r.key("id");
    const id: string = r.text();
    return new Cancel(id);
  }

  schemaName(): string {
    return "conformance/Cancel@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("id");
    w.text(this.id);
  }
}

/** conformance/CancelItem@1 */
export class CancelItem extends aos.Schema {
  constructor(
    public id: string = "00000000-0000-0000-0000-000000000000",
    public item: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): CancelItem {
    r.record(2);
    r.key("id");
    const id: string = r.uuid();
    r.key("item");
    const item: string = r.text();
    return new CancelItem(id, item);
  }

  schemaName(): string {
    return "conformance/CancelItem@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("id");
    w.uuid(this.id);
    w.key("item");
    w.text(this.item);
  }
}

export class EverythingRecordB {
  constructor(
    public c: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): EverythingRecordB {
    r.record(1);
    r.key("c");
    const c: string = r.text();
    return new EverythingRecordB(c);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("c");
    w.text(this.c);
  }
}

export class EverythingRecord {
  constructor(
    public a: i64 = 0,
    public b: EverythingRecordB = new EverythingRecordB(),
  ) {
  }

  static readFrom(r: aos.Reader): EverythingRecord {
    r.record(2);
    r.key("a");
    const a: i64 = r.int();
    r.key("b");
    const b: EverythingRecordB = EverythingRecordB.readFrom(r);
    return new EverythingRecord(a, b);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("a");
    w.int(this.a);
    w.key("b");
    this.b.writeTo(w);
  }
}

export class EverythingVariantPair {
  constructor(
    public left: u64 = 0,
    public right: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): EverythingVariantPair {
    r.record(2);
    r.key("left");
    const left: u64 = r.nat();
    r.key("right");
    const right: string = r.text();
    return new EverythingVariantPair(left, right);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("left");
    w.nat(this.left);
    w.key("right");
    w.text(this.right);
  }
}

export enum EverythingVariantTag {
  Number,
  Nothing,
  Pair,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class EverythingVariant {
  private _Number: i64 = 0;
  private _Pair: EverythingVariantPair | null = null;

  constructor(public readonly tag: EverythingVariantTag) {
  }

  static Number(value: i64): EverythingVariant {
    const made = new EverythingVariant(EverythingVariantTag.Number);
    made._Number = value;
    return made;
  }

  /** Traps when the arm is another. */
  get number(): i64 {
    assert(this.tag == EverythingVariantTag.Number, "it is another arm");
    return this._Number;
  }

  static Nothing(): EverythingVariant {
    return new EverythingVariant(EverythingVariantTag.Nothing);
  }

  static Pair(value: EverythingVariantPair): EverythingVariant {
    const made = new EverythingVariant(EverythingVariantTag.Pair);
    made._Pair = value;
    return made;
  }

  /** Traps when the arm is another. */
  get pair(): EverythingVariantPair {
    return this._Pair!;
  }

  static readFrom(r: aos.Reader): EverythingVariant {
    const tag = r.tag();
    if (tag == "Number") {
      r.value();
      return EverythingVariant.Number(r.int());
    }
    if (tag == "Nothing") {
      r.noValue();
      return EverythingVariant.Nothing();
    }
    if (tag == "Pair") {
      r.value();
      return EverythingVariant.Pair(EverythingVariantPair.readFrom(r));
    }
    r.fail("an unknown arm");
    return new EverythingVariant(EverythingVariantTag.Number);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case EverythingVariantTag.Number: {
        w.arm("Number");
        w.int(this.number);
        break;
      }
      case EverythingVariantTag.Nothing: {
        w.unitArm("Nothing");
        break;
      }
      case EverythingVariantTag.Pair: {
        w.arm("Pair");
        this.pair.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/Point@1 */
export class Point extends aos.Schema {
  constructor(
    public x: i64 = 0,
    public y: i64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Point {
    r.record(2);
    r.key("x");
    const x: i64 = r.int();
    r.key("y");
    const y: i64 = r.int();
    return new Point(x, y);
  }

  schemaName(): string {
    return "conformance/Point@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("x");
    w.int(this.x);
    w.key("y");
    w.int(this.y);
  }
}

export class ShapeNamed {
  constructor(
    public name: string = "",
    public at: Point | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): ShapeNamed {
    r.record(2);
    r.key("at");
    const at: Point | null = read_option_Point(r);
    r.key("name");
    const name: string = r.text();
    return new ShapeNamed(name, at);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("at");
    write_option_Point(w, this.at);
    w.key("name");
    w.text(this.name);
  }
}

export enum ShapeTag {
  Empty,
  Dot,
  Line,
  Named,
  Nothing,
}

/** conformance/Shape@1: `tag` says which arm; an arm's value is in its own. */
export class Shape extends aos.Schema {
  private _Dot: Point | null = null;
  private _Line: Array<Point> | null = null;
  private _Named: ShapeNamed | null = null;
  private _Nothing: aos.Unit | null = null;

  constructor(public readonly tag: ShapeTag) {
    super();
  }

  static Empty(): Shape {
    return new Shape(ShapeTag.Empty);
  }

  static Dot(value: Point): Shape {
    const made = new Shape(ShapeTag.Dot);
    made._Dot = value;
    return made;
  }

  /** Traps when the arm is another. */
  get dot(): Point {
    return this._Dot!;
  }

  static Line(value: Array<Point>): Shape {
    const made = new Shape(ShapeTag.Line);
    made._Line = value;
    return made;
  }

  /** Traps when the arm is another. */
  get line(): Array<Point> {
    return this._Line!;
  }

  static Named(value: ShapeNamed): Shape {
    const made = new Shape(ShapeTag.Named);
    made._Named = value;
    return made;
  }

  /** Traps when the arm is another. */
  get named(): ShapeNamed {
    return this._Named!;
  }

  static Nothing(value: aos.Unit): Shape {
    const made = new Shape(ShapeTag.Nothing);
    made._Nothing = value;
    return made;
  }

  /** Traps when the arm is another. */
  get nothing(): aos.Unit {
    return this._Nothing!;
  }

  static readFrom(r: aos.Reader): Shape {
    const tag = r.tag();
    if (tag == "Empty") {
      r.noValue();
      return Shape.Empty();
    }
    if (tag == "Dot") {
      r.value();
      return Shape.Dot(Point.readFrom(r));
    }
    if (tag == "Line") {
      r.value();
      return Shape.Line(read_list_Point(r));
    }
    if (tag == "Named") {
      r.value();
      return Shape.Named(ShapeNamed.readFrom(r));
    }
    if (tag == "Nothing") {
      r.value();
      return Shape.Nothing(r.unit());
    }
    r.fail("an unknown arm");
    return new Shape(ShapeTag.Empty);
  }

  schemaName(): string {
    return "conformance/Shape@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case ShapeTag.Empty: {
        w.unitArm("Empty");
        break;
      }
      case ShapeTag.Dot: {
        w.arm("Dot");
        this.dot.writeTo(w);
        break;
      }
      case ShapeTag.Line: {
        w.arm("Line");
        write_list_Point(w, this.line);
        break;
      }
      case ShapeTag.Named: {
        w.arm("Named");
        this.named.writeTo(w);
        break;
      }
      case ShapeTag.Nothing: {
        w.arm("Nothing");
        w.null();
        break;
      }
    }
  }
}

/** conformance/Everything@1 */
export class Everything extends aos.Schema {
  constructor(
    public yes: bool = false,
    public int: i64 = 0,
    public nat: u64 = 0,
    public dec: string = "0",
    public bytes: Uint8Array = new Uint8Array(0),
    public text: string = "",
    public time: i64 = 0,
    public duration: i64 = 0,
    public hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public uuid: string = "00000000-0000-0000-0000-000000000000",
    public unit: aos.Unit = new aos.Unit(),
    public record: EverythingRecord = new EverythingRecord(),
    public variant: EverythingVariant = EverythingVariant.Number(0),
    public list: Array<i64> = new Array<i64>(),
    public lists: Array<Array<string>> = new Array<Array<string>>(),
    public ints: Set<i64> = new Set<i64>(),
    public texts: Set<string> = new Set<string>(),
    public points: Array<Point> = new Array<Point>(),
    public by_int: Map<i64, string> = new Map<i64, string>(),
    public by_nat: Map<u64, Point> = new Map<u64, Point>(),
    public by_text: Map<string, Array<u64>> = new Map<string, Array<u64>>(),
    public by_uuid: Map<string, bool> = new Map<string, bool>(),
    public by_hash: Map<string, aos.Some<i64> | null> = new Map<string, aos.Some<i64> | null>(),
    public maybe: string | null = null,
    public maybe_nat: aos.Some<u64> | null = null,
    public maybe_bytes: Array<Uint8Array> | null = null,
    public maybe_point: Point | null = null,
    public options: Array<aos.Some<bool> | null> = new Array<aos.Some<bool> | null>(),
    public point: Point = new Point(),
    public shape: Shape = Shape.Empty(),
    public shapes: Array<Shape> = new Array<Shape>(),
    public number: u64 = 0,
    public nothing: aos.Unit = new aos.Unit(),
    public type: string = "",
    public x_rate: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Everything {
    r.record(35);
    r.key("dec");
    const dec: string = r.dec128();
    r.key("int");
    const int: i64 = r.int();
    r.key("nat");
    const nat: u64 = r.nat();
    r.key("yes");
    const yes: bool = r.bool();
    r.key("hash");
    const hash: string = r.hash();
    r.key("ints");
    const ints: Set<i64> = read_set_int(r);
    r.key("list");
    const list: Array<i64> = read_list_int(r);
    r.key("text");
    const text: string = r.text();
    r.key("time");
    const time: i64 = r.int();
    r.key("type");
    const type: string = r.text();
    r.key("unit");
    const unit: aos.Unit = r.unit();
    r.key("uuid");
    const uuid: string = r.uuid();
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    r.key("lists");
    const lists: Array<Array<string>> = read_list_list_text(r);
    r.key("maybe");
    const maybe: string | null = read_option_text(r);
    r.key("point");
    const point: Point = Point.readFrom(r);
    r.key("shape");
    const shape: Shape = Shape.readFrom(r);
    r.key("texts");
    const texts: Set<string> = read_set_text(r);
    r.key("by_int");
    const by_int: Map<i64, string> = read_map_int_text(r);
    r.key("by_nat");
    const by_nat: Map<u64, Point> = read_map_nat_Point(r);
    r.key("number");
    const number: u64 = r.nat();
    r.key("points");
    const points: Array<Point> = read_set_Point(r);
    r.key("record");
    const record: EverythingRecord = EverythingRecord.readFrom(r);
    r.key("shapes");
    const shapes: Array<Shape> = read_list_Shape(r);
    r.key("x-rate");
    const x_rate: u64 = r.nat();
    r.key("by_hash");
    const by_hash: Map<string, aos.Some<i64> | null> = read_map_hash_option_int(r);
    r.key("by_text");
    const by_text: Map<string, Array<u64>> = read_map_text_list_nat(r);
    r.key("by_uuid");
    const by_uuid: Map<string, bool> = read_map_uuid_bool(r);
    r.key("nothing");
    const nothing: aos.Unit = r.unit();
    r.key("options");
    const options: Array<aos.Some<bool> | null> = read_list_option_bool(r);
    r.key("variant");
    const variant: EverythingVariant = EverythingVariant.readFrom(r);
    r.key("duration");
    const duration: i64 = r.int();
    r.key("maybe_nat");
    const maybe_nat: aos.Some<u64> | null = read_option_nat(r);
    r.key("maybe_bytes");
    const maybe_bytes: Array<Uint8Array> | null = read_option_list_bytes(r);
    r.key("maybe_point");
    const maybe_point: Point | null = read_option_Point(r);
    return new Everything(yes, int, nat, dec, bytes, text, time, duration, hash, uuid, unit, record, variant, list, lists, ints, texts, points, by_int, by_nat, by_text, by_uuid, by_hash, maybe, maybe_nat, maybe_bytes, maybe_point, options, point, shape, shapes, number, nothing, type, x_rate);
  }

  schemaName(): string {
    return "conformance/Everything@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(35);
    w.key("dec");
    w.dec128(this.dec);
    w.key("int");
    w.int(this.int);
    w.key("nat");
    w.nat(this.nat);
    w.key("yes");
    w.bool(this.yes);
    w.key("hash");
    w.hash(this.hash);
    w.key("ints");
    write_set_int(w, this.ints);
    w.key("list");
    write_list_int(w, this.list);
    w.key("text");
    w.text(this.text);
    w.key("time");
    w.int(this.time);
    w.key("type");
    w.text(this.type);
    w.key("unit");
    w.null();
    w.key("uuid");
    w.uuid(this.uuid);
    w.key("bytes");
    w.bytes(this.bytes);
    w.key("lists");
    write_list_list_text(w, this.lists);
    w.key("maybe");
    write_option_text(w, this.maybe);
    w.key("point");
    this.point.writeTo(w);
    w.key("shape");
    this.shape.writeTo(w);
    w.key("texts");
    write_set_text(w, this.texts);
    w.key("by_int");
    write_map_int_text(w, this.by_int);
    w.key("by_nat");
    write_map_nat_Point(w, this.by_nat);
    w.key("number");
    w.nat(this.number);
    w.key("points");
    write_set_Point(w, this.points);
    w.key("record");
    this.record.writeTo(w);
    w.key("shapes");
    write_list_Shape(w, this.shapes);
    w.key("x-rate");
    w.nat(this.x_rate);
    w.key("by_hash");
    write_map_hash_option_int(w, this.by_hash);
    w.key("by_text");
    write_map_text_list_nat(w, this.by_text);
    w.key("by_uuid");
    write_map_uuid_bool(w, this.by_uuid);
    w.key("nothing");
    w.null();
    w.key("options");
    write_list_option_bool(w, this.options);
    w.key("variant");
    this.variant.writeTo(w);
    w.key("duration");
    w.int(this.duration);
    w.key("maybe_nat");
    write_option_nat(w, this.maybe_nat);
    w.key("maybe_bytes");
    write_option_list_bytes(w, this.maybe_bytes);
    w.key("maybe_point");
    write_option_Point(w, this.maybe_point);
  }
}

/** conformance/Echo@1 */
export class Echo extends aos.Schema {
  constructor(
    public value: Everything = new Everything(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Echo {
    r.record(1);
    r.key("value");
    const value: Everything = Everything.readFrom(r);
    return new Echo(value);
  }

  schemaName(): string {
    return "conformance/Echo@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("value");
    this.value.writeTo(w);
  }
}

/** conformance/Say@1 */
export class Say extends aos.Schema {
  constructor(
    public from: string = "",
    public to: Array<string> = new Array<string>(),
    public with_key: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Say {
    r.record(3);
    r.key("to");
    const to: Array<string> = read_list_text(r);
    r.key("from");
    const from: string = r.text();
    r.key("with_key");
    const with_key: bool = r.bool();
    return new Say(from, to, with_key);
  }

  schemaName(): string {
    return "conformance/Say@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("to");
    write_list_text(w, this.to);
    w.key("from");
    w.text(this.from);
    w.key("with_key");
    w.bool(this.with_key);
  }
}

/** conformance/Said@1 */
export class Said extends aos.Schema {
  constructor(
    public from: string = "",
    public to: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Said {
    r.record(2);
    r.key("to");
    const to: string = r.text();
    r.key("from");
    const from: string = r.text();
    return new Said(from, to);
  }

  schemaName(): string {
    return "conformance/Said@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("to");
    w.text(this.to);
    w.key("from");
    w.text(this.from);
  }
}

export enum EmitterEventTag {
  Say,
  Said,
}

/** conformance/EmitterEvent@1: `tag` says which arm; an arm's value is in its own. */
export class EmitterEvent extends aos.Schema {
  private _Say: Say | null = null;
  private _Said: Said | null = null;

  constructor(public readonly tag: EmitterEventTag) {
    super();
  }

  static Say(value: Say): EmitterEvent {
    const made = new EmitterEvent(EmitterEventTag.Say);
    made._Say = value;
    return made;
  }

  /** Traps when the arm is another. */
  get say(): Say {
    return this._Say!;
  }

  static Said(value: Said): EmitterEvent {
    const made = new EmitterEvent(EmitterEventTag.Said);
    made._Said = value;
    return made;
  }

  /** Traps when the arm is another. */
  get said(): Said {
    return this._Said!;
  }

  static readFrom(r: aos.Reader): EmitterEvent {
    const tag = r.tag();
    if (tag == "Say") {
      r.value();
      return EmitterEvent.Say(Say.readFrom(r));
    }
    if (tag == "Said") {
      r.value();
      return EmitterEvent.Said(Said.readFrom(r));
    }
    r.fail("an unknown arm");
    return new EmitterEvent(EmitterEventTag.Say);
  }

  schemaName(): string {
    return "conformance/EmitterEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case EmitterEventTag.Say: {
        w.arm("Say");
        this.say.writeTo(w);
        break;
      }
      case EmitterEventTag.Said: {
        w.arm("Said");
        this.said.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/EmitterState@1 */
export class EmitterState extends aos.Schema {
  constructor(
    public heard: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EmitterState {
    r.record(1);
    r.key("heard");
    const heard: Array<string> = read_list_text(r);
    return new EmitterState(heard);
  }

  schemaName(): string {
    return "conformance/EmitterState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("heard");
    write_list_text(w, this.heard);
  }
}

export enum FanByTag {
  Item,
  Weight,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class FanBy {

  constructor(public readonly tag: FanByTag) {
  }

  static Item(): FanBy {
    return new FanBy(FanByTag.Item);
  }

  static Weight(): FanBy {
    return new FanBy(FanByTag.Weight);
  }

  static readFrom(r: aos.Reader): FanBy {
    const tag = r.tag();
    if (tag == "Item") {
      r.noValue();
      return FanBy.Item();
    }
    if (tag == "Weight") {
      r.noValue();
      return FanBy.Weight();
    }
    r.fail("an unknown arm");
    return new FanBy(FanByTag.Item);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case FanByTag.Item: {
        w.unitArm("Item");
        break;
      }
      case FanByTag.Weight: {
        w.unitArm("Weight");
        break;
      }
    }
  }
}

/** conformance/Fan@1 */
export class Fan extends aos.Schema {
  constructor(
    public id: string = "00000000-0000-0000-0000-000000000000",
    public items: Array<Work> = new Array<Work>(),
    public by: FanBy = FanBy.Item(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Fan {
    r.record(3);
    r.key("by");
    const by: FanBy = FanBy.readFrom(r);
    r.key("id");
    const id: string = r.uuid();
    r.key("items");
    const items: Array<Work> = read_list_Work(r);
    return new Fan(id, items, by);
  }

  schemaName(): string {
    return "conformance/Fan@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("by");
    this.by.writeTo(w);
    w.key("id");
    w.uuid(this.id);
    w.key("items");
    write_list_Work(w, this.items);
  }
}

export enum FanEventTag {
  Fan,
  CancelItem,
  Receipt,
  Rejected,
}

/** conformance/FanEvent@1: `tag` says which arm; an arm's value is in its own. */
export class FanEvent extends aos.Schema {
  private _Fan: Fan | null = null;
  private _CancelItem: CancelItem | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: FanEventTag) {
    super();
  }

  static Fan(value: Fan): FanEvent {
    const made = new FanEvent(FanEventTag.Fan);
    made._Fan = value;
    return made;
  }

  /** Traps when the arm is another. */
  get fan(): Fan {
    return this._Fan!;
  }

  static CancelItem(value: CancelItem): FanEvent {
    const made = new FanEvent(FanEventTag.CancelItem);
    made._CancelItem = value;
    return made;
  }

  /** Traps when the arm is another. */
  get cancelItem(): CancelItem {
    return this._CancelItem!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): FanEvent {
    const made = new FanEvent(FanEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): FanEvent {
    const made = new FanEvent(FanEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): FanEvent {
    const tag = r.tag();
    if (tag == "Fan") {
      r.value();
      return FanEvent.Fan(Fan.readFrom(r));
    }
    if (tag == "CancelItem") {
      r.value();
      return FanEvent.CancelItem(CancelItem.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return FanEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return FanEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new FanEvent(FanEventTag.Fan);
  }

  schemaName(): string {
    return "conformance/FanEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case FanEventTag.Fan: {
        w.arm("Fan");
        this.fan.writeTo(w);
        break;
      }
      case FanEventTag.CancelItem: {
        w.arm("CancelItem");
        this.cancelItem.writeTo(w);
        break;
      }
      case FanEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case FanEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/FanState@1 */
export class FanState extends aos.Schema {
  constructor(
    public by_item: WorkPendingSet<string> = new WorkPendingSet<string>(),
    public by_weight: WorkPendingSet<i64> = new WorkPendingSet<i64>(),
    public open: u64 = 0,
    public items: Map<string, Answer> = new Map<string, Answer>(),
    public weights: Map<i64, Answer> = new Map<i64, Answer>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): FanState {
    r.record(5);
    r.key("open");
    const open: u64 = r.nat();
    r.key("items");
    const items: Map<string, Answer> = read_map_text_Answer(r);
    r.key("by_item");
    const by_item: WorkPendingSet<string> = read_by_text_WorkPendingSet(r);
    r.key("weights");
    const weights: Map<i64, Answer> = read_map_int_Answer(r);
    r.key("by_weight");
    const by_weight: WorkPendingSet<i64> = read_by_int_WorkPendingSet(r);
    return new FanState(by_item, by_weight, open, items, weights);
  }

  schemaName(): string {
    return "conformance/FanState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("open");
    w.nat(this.open);
    w.key("items");
    write_map_text_Answer(w, this.items);
    w.key("by_item");
    write_by_text_WorkPendingSet(w, this.by_item);
    w.key("weights");
    write_map_int_Answer(w, this.weights);
    w.key("by_weight");
    write_by_int_WorkPendingSet(w, this.by_weight);
  }
}

/** conformance/Joined@1 */
export class Joined extends aos.Schema {
  constructor(
    public id: string = "00000000-0000-0000-0000-000000000000",
    public answers: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Joined {
    r.record(2);
    r.key("id");
    const id: string = r.uuid();
    r.key("answers");
    const answers: u64 = r.nat();
    return new Joined(id, answers);
  }

  schemaName(): string {
    return "conformance/Joined@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("id");
    w.uuid(this.id);
    w.key("answers");
    w.nat(this.answers);
  }
}

export enum UseLegacyWhatTag {
  Timer,
  Put,
  Get,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class UseLegacyWhat {

  constructor(public readonly tag: UseLegacyWhatTag) {
  }

  static Timer(): UseLegacyWhat {
    return new UseLegacyWhat(UseLegacyWhatTag.Timer);
  }

  static Put(): UseLegacyWhat {
    return new UseLegacyWhat(UseLegacyWhatTag.Put);
  }

  static Get(): UseLegacyWhat {
    return new UseLegacyWhat(UseLegacyWhatTag.Get);
  }

  static readFrom(r: aos.Reader): UseLegacyWhat {
    const tag = r.tag();
    if (tag == "Timer") {
      r.noValue();
      return UseLegacyWhat.Timer();
    }
    if (tag == "Put") {
      r.noValue();
      return UseLegacyWhat.Put();
    }
    if (tag == "Get") {
      r.noValue();
      return UseLegacyWhat.Get();
    }
    r.fail("an unknown arm");
    return new UseLegacyWhat(UseLegacyWhatTag.Timer);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case UseLegacyWhatTag.Timer: {
        w.unitArm("Timer");
        break;
      }
      case UseLegacyWhatTag.Put: {
        w.unitArm("Put");
        break;
      }
      case UseLegacyWhatTag.Get: {
        w.unitArm("Get");
        break;
      }
    }
  }
}

/** conformance/UseLegacy@1 */
export class UseLegacy extends aos.Schema {
  constructor(
    public what: UseLegacyWhat = UseLegacyWhat.Timer(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): UseLegacy {
    r.record(1);
    r.key("what");
    const what: UseLegacyWhat = UseLegacyWhat.readFrom(r);
    return new UseLegacy(what);
  }

  schemaName(): string {
    return "conformance/UseLegacy@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("what");
    this.what.writeTo(w);
  }
}

export enum LegacyEventTag {
  Use,
  TimerFired,
  BlobPut,
  BlobGot,
}

/** conformance/LegacyEvent@1: `tag` says which arm; an arm's value is in its own. */
export class LegacyEvent extends aos.Schema {
  private _Use: UseLegacy | null = null;
  private _TimerFired: aos.TimerFired | null = null;
  private _BlobPut: aos.BlobPutResult | null = null;
  private _BlobGot: aos.BlobGetResult | null = null;

  constructor(public readonly tag: LegacyEventTag) {
    super();
  }

  static Use(value: UseLegacy): LegacyEvent {
    const made = new LegacyEvent(LegacyEventTag.Use);
    made._Use = value;
    return made;
  }

  /** Traps when the arm is another. */
  get use(): UseLegacy {
    return this._Use!;
  }

  static TimerFired(value: aos.TimerFired): LegacyEvent {
    const made = new LegacyEvent(LegacyEventTag.TimerFired);
    made._TimerFired = value;
    return made;
  }

  /** Traps when the arm is another. */
  get timerFired(): aos.TimerFired {
    return this._TimerFired!;
  }

  static BlobPut(value: aos.BlobPutResult): LegacyEvent {
    const made = new LegacyEvent(LegacyEventTag.BlobPut);
    made._BlobPut = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blobPut(): aos.BlobPutResult {
    return this._BlobPut!;
  }

  static BlobGot(value: aos.BlobGetResult): LegacyEvent {
    const made = new LegacyEvent(LegacyEventTag.BlobGot);
    made._BlobGot = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blobGot(): aos.BlobGetResult {
    return this._BlobGot!;
  }

  static readFrom(r: aos.Reader): LegacyEvent {
    const tag = r.tag();
    if (tag == "Use") {
      r.value();
      return LegacyEvent.Use(UseLegacy.readFrom(r));
    }
    if (tag == "TimerFired") {
      r.value();
      return LegacyEvent.TimerFired(aos.TimerFired.readFrom(r));
    }
    if (tag == "BlobPut") {
      r.value();
      return LegacyEvent.BlobPut(aos.BlobPutResult.readFrom(r));
    }
    if (tag == "BlobGot") {
      r.value();
      return LegacyEvent.BlobGot(aos.BlobGetResult.readFrom(r));
    }
    r.fail("an unknown arm");
    return new LegacyEvent(LegacyEventTag.Use);
  }

  schemaName(): string {
    return "conformance/LegacyEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LegacyEventTag.Use: {
        w.arm("Use");
        this.use.writeTo(w);
        break;
      }
      case LegacyEventTag.TimerFired: {
        w.arm("TimerFired");
        this.timerFired.writeTo(w);
        break;
      }
      case LegacyEventTag.BlobPut: {
        w.arm("BlobPut");
        this.blobPut.writeTo(w);
        break;
      }
      case LegacyEventTag.BlobGot: {
        w.arm("BlobGot");
        this.blobGot.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/LegacyState@1 */
export class LegacyState extends aos.Schema {
  constructor(
    public fired: aos.TimerFired | null = null,
    public put: aos.BlobPutResult | null = null,
    public got: aos.BlobGetResult | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LegacyState {
    r.record(3);
    r.key("got");
    const got: aos.BlobGetResult | null = read_option_BlobGetResult(r);
    r.key("put");
    const put: aos.BlobPutResult | null = read_option_BlobPutResult(r);
    r.key("fired");
    const fired: aos.TimerFired | null = read_option_TimerFired(r);
    return new LegacyState(fired, put, got);
  }

  schemaName(): string {
    return "conformance/LegacyState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("got");
    write_option_BlobGetResult(w, this.got);
    w.key("put");
    write_option_BlobPutResult(w, this.put);
    w.key("fired");
    write_option_TimerFired(w, this.fired);
  }
}

/** conformance/Look@1 */
export class Look extends aos.Schema {
  constructor(
    public id: i64 = 0,
    public below: Array<u64> = new Array<u64>(),
    public bytes: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Look {
    r.record(3);
    r.key("id");
    const id: i64 = r.int();
    r.key("below");
    const below: Array<u64> = read_list_nat(r);
    r.key("bytes");
    const bytes: u64 = r.nat();
    return new Look(id, below, bytes);
  }

  schemaName(): string {
    return "conformance/Look@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("id");
    w.int(this.id);
    w.key("below");
    write_list_nat(w, this.below);
    w.key("bytes");
    w.nat(this.bytes);
  }
}

/** conformance/Note@1 */
export class Note extends aos.Schema {
  constructor(
    public steps: u64 = 0,
    public text: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Note {
    r.record(2);
    r.key("text");
    const text: string | null = read_option_text(r);
    r.key("steps");
    const steps: u64 = r.nat();
    return new Note(steps, text);
  }

  schemaName(): string {
    return "conformance/Note@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("text");
    write_option_text(w, this.text);
    w.key("steps");
    w.nat(this.steps);
  }
}

export enum SingleEventTag {
  Ask,
  Cancel,
  Receipt,
  Rejected,
  Frame,
}

/** conformance/SingleEvent@1: `tag` says which arm; an arm's value is in its own. */
export class SingleEvent extends aos.Schema {
  private _Ask: Ask | null = null;
  private _Cancel: Cancel | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;
  private _Frame: aos.EffectStreamFrame | null = null;

  constructor(public readonly tag: SingleEventTag) {
    super();
  }

  static Ask(value: Ask): SingleEvent {
    const made = new SingleEvent(SingleEventTag.Ask);
    made._Ask = value;
    return made;
  }

  /** Traps when the arm is another. */
  get ask(): Ask {
    return this._Ask!;
  }

  static Cancel(value: Cancel): SingleEvent {
    const made = new SingleEvent(SingleEventTag.Cancel);
    made._Cancel = value;
    return made;
  }

  /** Traps when the arm is another. */
  get cancel(): Cancel {
    return this._Cancel!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): SingleEvent {
    const made = new SingleEvent(SingleEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): SingleEvent {
    const made = new SingleEvent(SingleEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static Frame(value: aos.EffectStreamFrame): SingleEvent {
    const made = new SingleEvent(SingleEventTag.Frame);
    made._Frame = value;
    return made;
  }

  /** Traps when the arm is another. */
  get frame(): aos.EffectStreamFrame {
    return this._Frame!;
  }

  static readFrom(r: aos.Reader): SingleEvent {
    const tag = r.tag();
    if (tag == "Ask") {
      r.value();
      return SingleEvent.Ask(Ask.readFrom(r));
    }
    if (tag == "Cancel") {
      r.value();
      return SingleEvent.Cancel(Cancel.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return SingleEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return SingleEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    if (tag == "Frame") {
      r.value();
      return SingleEvent.Frame(aos.EffectStreamFrame.readFrom(r));
    }
    r.fail("an unknown arm");
    return new SingleEvent(SingleEventTag.Ask);
  }

  schemaName(): string {
    return "conformance/SingleEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case SingleEventTag.Ask: {
        w.arm("Ask");
        this.ask.writeTo(w);
        break;
      }
      case SingleEventTag.Cancel: {
        w.arm("Cancel");
        this.cancel.writeTo(w);
        break;
      }
      case SingleEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case SingleEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
      case SingleEventTag.Frame: {
        w.arm("Frame");
        this.frame.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/SingleState@1 */
export class SingleState extends aos.Schema {
  constructor(
    public work: WorkPending = new WorkPending(),
    public cancel: aos.EffectCancelPending = new aos.EffectCancelPending(),
    public answers: Array<Answer> = new Array<Answer>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): SingleState {
    r.record(3);
    r.key("work");
    const work: WorkPending = aos.readPending<WorkPending>(r);
    r.key("cancel");
    const cancel: aos.EffectCancelPending = aos.readPending<aos.EffectCancelPending>(r);
    r.key("answers");
    const answers: Array<Answer> = read_list_Answer(r);
    return new SingleState(work, cancel, answers);
  }

  schemaName(): string {
    return "conformance/SingleState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("work");
    this.work.writeTo(w);
    w.key("cancel");
    this.cancel.writeTo(w);
    w.key("answers");
    write_list_Answer(w, this.answers);
  }
}

export enum StatusEventTag {
  Act,
  Receipt,
}

/** conformance/StatusEvent@1: `tag` says which arm; an arm's value is in its own. */
export class StatusEvent extends aos.Schema {
  private _Act: Act | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;

  constructor(public readonly tag: StatusEventTag) {
    super();
  }

  static Act(value: Act): StatusEvent {
    const made = new StatusEvent(StatusEventTag.Act);
    made._Act = value;
    return made;
  }

  /** Traps when the arm is another. */
  get act(): Act {
    return this._Act!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): StatusEvent {
    const made = new StatusEvent(StatusEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static readFrom(r: aos.Reader): StatusEvent {
    const tag = r.tag();
    if (tag == "Act") {
      r.value();
      return StatusEvent.Act(Act.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return StatusEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    r.fail("an unknown arm");
    return new StatusEvent(StatusEventTag.Act);
  }

  schemaName(): string {
    return "conformance/StatusEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case StatusEventTag.Act: {
        w.arm("Act");
        this.act.writeTo(w);
        break;
      }
      case StatusEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/StatusState@1 */
export class StatusState extends aos.Schema {
  constructor(
    public steps: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): StatusState {
    r.record(1);
    r.key("steps");
    const steps: u64 = r.nat();
    return new StatusState(steps);
  }

  schemaName(): string {
    return "conformance/StatusState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("steps");
    w.nat(this.steps);
  }
}

/** conformance/Steps@1 */
export class Steps extends aos.Schema {
  constructor(
    public steps: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Steps {
    r.record(1);
    r.key("steps");
    const steps: u64 = r.nat();
    return new Steps(steps);
  }

  schemaName(): string {
    return "conformance/Steps@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("steps");
    w.nat(this.steps);
  }
}

export enum UseWhatTag {
  TimerSet,
  TimerSetKeyed,
  TimerCancel,
  EffectCancelIntent,
  EffectCancelTimer,
  HttpGet,
  HttpPost,
  BlobPut,
  BlobPutRefs,
  BlobGet,
  Manifest,
  WorkflowState,
  JournalHead,
  ListCells,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class UseWhat {
  private _EffectCancelIntent: string | null = null;

  constructor(public readonly tag: UseWhatTag) {
  }

  static TimerSet(): UseWhat {
    return new UseWhat(UseWhatTag.TimerSet);
  }

  static TimerSetKeyed(): UseWhat {
    return new UseWhat(UseWhatTag.TimerSetKeyed);
  }

  static TimerCancel(): UseWhat {
    return new UseWhat(UseWhatTag.TimerCancel);
  }

  static EffectCancelIntent(value: string): UseWhat {
    const made = new UseWhat(UseWhatTag.EffectCancelIntent);
    made._EffectCancelIntent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get effectCancelIntent(): string {
    return this._EffectCancelIntent!;
  }

  static EffectCancelTimer(): UseWhat {
    return new UseWhat(UseWhatTag.EffectCancelTimer);
  }

  static HttpGet(): UseWhat {
    return new UseWhat(UseWhatTag.HttpGet);
  }

  static HttpPost(): UseWhat {
    return new UseWhat(UseWhatTag.HttpPost);
  }

  static BlobPut(): UseWhat {
    return new UseWhat(UseWhatTag.BlobPut);
  }

  static BlobPutRefs(): UseWhat {
    return new UseWhat(UseWhatTag.BlobPutRefs);
  }

  static BlobGet(): UseWhat {
    return new UseWhat(UseWhatTag.BlobGet);
  }

  static Manifest(): UseWhat {
    return new UseWhat(UseWhatTag.Manifest);
  }

  static WorkflowState(): UseWhat {
    return new UseWhat(UseWhatTag.WorkflowState);
  }

  static JournalHead(): UseWhat {
    return new UseWhat(UseWhatTag.JournalHead);
  }

  static ListCells(): UseWhat {
    return new UseWhat(UseWhatTag.ListCells);
  }

  static readFrom(r: aos.Reader): UseWhat {
    const tag = r.tag();
    if (tag == "TimerSet") {
      r.noValue();
      return UseWhat.TimerSet();
    }
    if (tag == "TimerSetKeyed") {
      r.noValue();
      return UseWhat.TimerSetKeyed();
    }
    if (tag == "TimerCancel") {
      r.noValue();
      return UseWhat.TimerCancel();
    }
    if (tag == "EffectCancelIntent") {
      r.value();
      return UseWhat.EffectCancelIntent(r.hash());
    }
    if (tag == "EffectCancelTimer") {
      r.noValue();
      return UseWhat.EffectCancelTimer();
    }
    if (tag == "HttpGet") {
      r.noValue();
      return UseWhat.HttpGet();
    }
    if (tag == "HttpPost") {
      r.noValue();
      return UseWhat.HttpPost();
    }
    if (tag == "BlobPut") {
      r.noValue();
      return UseWhat.BlobPut();
    }
    if (tag == "BlobPutRefs") {
      r.noValue();
      return UseWhat.BlobPutRefs();
    }
    if (tag == "BlobGet") {
      r.noValue();
      return UseWhat.BlobGet();
    }
    if (tag == "Manifest") {
      r.noValue();
      return UseWhat.Manifest();
    }
    if (tag == "WorkflowState") {
      r.noValue();
      return UseWhat.WorkflowState();
    }
    if (tag == "JournalHead") {
      r.noValue();
      return UseWhat.JournalHead();
    }
    if (tag == "ListCells") {
      r.noValue();
      return UseWhat.ListCells();
    }
    r.fail("an unknown arm");
    return new UseWhat(UseWhatTag.TimerSet);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case UseWhatTag.TimerSet: {
        w.unitArm("TimerSet");
        break;
      }
      case UseWhatTag.TimerSetKeyed: {
        w.unitArm("TimerSetKeyed");
        break;
      }
      case UseWhatTag.TimerCancel: {
        w.unitArm("TimerCancel");
        break;
      }
      case UseWhatTag.EffectCancelIntent: {
        w.arm("EffectCancelIntent");
        w.hash(this.effectCancelIntent);
        break;
      }
      case UseWhatTag.EffectCancelTimer: {
        w.unitArm("EffectCancelTimer");
        break;
      }
      case UseWhatTag.HttpGet: {
        w.unitArm("HttpGet");
        break;
      }
      case UseWhatTag.HttpPost: {
        w.unitArm("HttpPost");
        break;
      }
      case UseWhatTag.BlobPut: {
        w.unitArm("BlobPut");
        break;
      }
      case UseWhatTag.BlobPutRefs: {
        w.unitArm("BlobPutRefs");
        break;
      }
      case UseWhatTag.BlobGet: {
        w.unitArm("BlobGet");
        break;
      }
      case UseWhatTag.Manifest: {
        w.unitArm("Manifest");
        break;
      }
      case UseWhatTag.WorkflowState: {
        w.unitArm("WorkflowState");
        break;
      }
      case UseWhatTag.JournalHead: {
        w.unitArm("JournalHead");
        break;
      }
      case UseWhatTag.ListCells: {
        w.unitArm("ListCells");
        break;
      }
    }
  }
}

/** conformance/Use@1 */
export class Use extends aos.Schema {
  constructor(
    public what: UseWhat = UseWhat.TimerSet(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Use {
    r.record(1);
    r.key("what");
    const what: UseWhat = UseWhat.readFrom(r);
    return new Use(what);
  }

  schemaName(): string {
    return "conformance/Use@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("what");
    this.what.writeTo(w);
  }
}

export enum SystemEventTag {
  Use,
  Receipt,
}

/** conformance/SystemEvent@1: `tag` says which arm; an arm's value is in its own. */
export class SystemEvent extends aos.Schema {
  private _Use: Use | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;

  constructor(public readonly tag: SystemEventTag) {
    super();
  }

  static Use(value: Use): SystemEvent {
    const made = new SystemEvent(SystemEventTag.Use);
    made._Use = value;
    return made;
  }

  /** Traps when the arm is another. */
  get use(): Use {
    return this._Use!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): SystemEvent {
    const made = new SystemEvent(SystemEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static readFrom(r: aos.Reader): SystemEvent {
    const tag = r.tag();
    if (tag == "Use") {
      r.value();
      return SystemEvent.Use(Use.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return SystemEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    r.fail("an unknown arm");
    return new SystemEvent(SystemEventTag.Use);
  }

  schemaName(): string {
    return "conformance/SystemEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case SystemEventTag.Use: {
        w.arm("Use");
        this.use.writeTo(w);
        break;
      }
      case SystemEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
    }
  }
}

export enum SystemStateAnswersTag {
  Timer,
  TimerCancel,
  EffectCancel,
  Http,
  BlobPut,
  BlobGet,
  Manifest,
  WorkflowState,
  JournalHead,
  ListCells,
  Error,
  Timeout,
  Canceled,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class SystemStateAnswers {
  private _Timer: aos.TimerSetReceipt | null = null;
  private _TimerCancel: aos.TimerCancelReceipt | null = null;
  private _EffectCancel: aos.EffectCancelReceipt | null = null;
  private _Http: aos.HttpRequestReceipt | null = null;
  private _BlobPut: aos.BlobPutReceipt | null = null;
  private _BlobGet: aos.BlobGetReceipt | null = null;
  private _Manifest: aos.IntrospectManifestReceipt | null = null;
  private _WorkflowState: aos.IntrospectWorkflowStateReceipt | null = null;
  private _JournalHead: aos.IntrospectJournalHeadReceipt | null = null;
  private _ListCells: aos.IntrospectListCellsReceipt | null = null;
  private _Error: aos.EffectError | null = null;

  constructor(public readonly tag: SystemStateAnswersTag) {
  }

  static Timer(value: aos.TimerSetReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.Timer);
    made._Timer = value;
    return made;
  }

  /** Traps when the arm is another. */
  get timer(): aos.TimerSetReceipt {
    return this._Timer!;
  }

  static TimerCancel(value: aos.TimerCancelReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.TimerCancel);
    made._TimerCancel = value;
    return made;
  }

  /** Traps when the arm is another. */
  get timerCancel(): aos.TimerCancelReceipt {
    return this._TimerCancel!;
  }

  static EffectCancel(value: aos.EffectCancelReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.EffectCancel);
    made._EffectCancel = value;
    return made;
  }

  /** Traps when the arm is another. */
  get effectCancel(): aos.EffectCancelReceipt {
    return this._EffectCancel!;
  }

  static Http(value: aos.HttpRequestReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.Http);
    made._Http = value;
    return made;
  }

  /** Traps when the arm is another. */
  get http(): aos.HttpRequestReceipt {
    return this._Http!;
  }

  static BlobPut(value: aos.BlobPutReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.BlobPut);
    made._BlobPut = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blobPut(): aos.BlobPutReceipt {
    return this._BlobPut!;
  }

  static BlobGet(value: aos.BlobGetReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.BlobGet);
    made._BlobGet = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blobGet(): aos.BlobGetReceipt {
    return this._BlobGet!;
  }

  static Manifest(value: aos.IntrospectManifestReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.Manifest);
    made._Manifest = value;
    return made;
  }

  /** Traps when the arm is another. */
  get manifest(): aos.IntrospectManifestReceipt {
    return this._Manifest!;
  }

  static WorkflowState(value: aos.IntrospectWorkflowStateReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.WorkflowState);
    made._WorkflowState = value;
    return made;
  }

  /** Traps when the arm is another. */
  get workflowState(): aos.IntrospectWorkflowStateReceipt {
    return this._WorkflowState!;
  }

  static JournalHead(value: aos.IntrospectJournalHeadReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.JournalHead);
    made._JournalHead = value;
    return made;
  }

  /** Traps when the arm is another. */
  get journalHead(): aos.IntrospectJournalHeadReceipt {
    return this._JournalHead!;
  }

  static ListCells(value: aos.IntrospectListCellsReceipt): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.ListCells);
    made._ListCells = value;
    return made;
  }

  /** Traps when the arm is another. */
  get listCells(): aos.IntrospectListCellsReceipt {
    return this._ListCells!;
  }

  static Error(value: aos.EffectError): SystemStateAnswers {
    const made = new SystemStateAnswers(SystemStateAnswersTag.Error);
    made._Error = value;
    return made;
  }

  /** Traps when the arm is another. */
  get error(): aos.EffectError {
    return this._Error!;
  }

  static Timeout(): SystemStateAnswers {
    return new SystemStateAnswers(SystemStateAnswersTag.Timeout);
  }

  static Canceled(): SystemStateAnswers {
    return new SystemStateAnswers(SystemStateAnswersTag.Canceled);
  }

  static readFrom(r: aos.Reader): SystemStateAnswers {
    const tag = r.tag();
    if (tag == "Timer") {
      r.value();
      return SystemStateAnswers.Timer(aos.TimerSetReceipt.readFrom(r));
    }
    if (tag == "TimerCancel") {
      r.value();
      return SystemStateAnswers.TimerCancel(aos.TimerCancelReceipt.readFrom(r));
    }
    if (tag == "EffectCancel") {
      r.value();
      return SystemStateAnswers.EffectCancel(aos.EffectCancelReceipt.readFrom(r));
    }
    if (tag == "Http") {
      r.value();
      return SystemStateAnswers.Http(aos.HttpRequestReceipt.readFrom(r));
    }
    if (tag == "BlobPut") {
      r.value();
      return SystemStateAnswers.BlobPut(aos.BlobPutReceipt.readFrom(r));
    }
    if (tag == "BlobGet") {
      r.value();
      return SystemStateAnswers.BlobGet(aos.BlobGetReceipt.readFrom(r));
    }
    if (tag == "Manifest") {
      r.value();
      return SystemStateAnswers.Manifest(aos.IntrospectManifestReceipt.readFrom(r));
    }
    if (tag == "WorkflowState") {
      r.value();
      return SystemStateAnswers.WorkflowState(aos.IntrospectWorkflowStateReceipt.readFrom(r));
    }
    if (tag == "JournalHead") {
      r.value();
      return SystemStateAnswers.JournalHead(aos.IntrospectJournalHeadReceipt.readFrom(r));
    }
    if (tag == "ListCells") {
      r.value();
      return SystemStateAnswers.ListCells(aos.IntrospectListCellsReceipt.readFrom(r));
    }
    if (tag == "Error") {
      r.value();
      return SystemStateAnswers.Error(aos.EffectError.readFrom(r));
    }
    if (tag == "Timeout") {
      r.noValue();
      return SystemStateAnswers.Timeout();
    }
    if (tag == "Canceled") {
      r.noValue();
      return SystemStateAnswers.Canceled();
    }
    r.fail("an unknown arm");
    return new SystemStateAnswers(SystemStateAnswersTag.Timer);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case SystemStateAnswersTag.Timer: {
        w.arm("Timer");
        this.timer.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.TimerCancel: {
        w.arm("TimerCancel");
        this.timerCancel.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.EffectCancel: {
        w.arm("EffectCancel");
        this.effectCancel.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.Http: {
        w.arm("Http");
        this.http.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.BlobPut: {
        w.arm("BlobPut");
        this.blobPut.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.BlobGet: {
        w.arm("BlobGet");
        this.blobGet.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.Manifest: {
        w.arm("Manifest");
        this.manifest.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.WorkflowState: {
        w.arm("WorkflowState");
        this.workflowState.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.JournalHead: {
        w.arm("JournalHead");
        this.journalHead.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.ListCells: {
        w.arm("ListCells");
        this.listCells.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.Error: {
        w.arm("Error");
        this.error.writeTo(w);
        break;
      }
      case SystemStateAnswersTag.Timeout: {
        w.unitArm("Timeout");
        break;
      }
      case SystemStateAnswersTag.Canceled: {
        w.unitArm("Canceled");
        break;
      }
    }
  }
}

/** conformance/SystemState@1 */
export class SystemState extends aos.Schema {
  constructor(
    public timer: aos.TimerSetPending = new aos.TimerSetPending(),
    public timer_cancel: aos.TimerCancelPending = new aos.TimerCancelPending(),
    public effect_cancel: aos.EffectCancelPending = new aos.EffectCancelPending(),
    public http: aos.HttpRequestPending = new aos.HttpRequestPending(),
    public blob_put: aos.BlobPutPending = new aos.BlobPutPending(),
    public blob_get: aos.BlobGetPending = new aos.BlobGetPending(),
    public manifest: aos.IntrospectManifestPending = new aos.IntrospectManifestPending(),
    public workflow_state: aos.IntrospectWorkflowStatePending = new aos.IntrospectWorkflowStatePending(),
    public journal_head: aos.IntrospectJournalHeadPending = new aos.IntrospectJournalHeadPending(),
    public list_cells: aos.IntrospectListCellsPending = new aos.IntrospectListCellsPending(),
    public answers: Array<SystemStateAnswers> = new Array<SystemStateAnswers>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): SystemState {
    r.record(11);
    r.key("http");
    const http: aos.HttpRequestPending = aos.readPending<aos.HttpRequestPending>(r);
    r.key("timer");
    const timer: aos.TimerSetPending = aos.readPending<aos.TimerSetPending>(r);
    r.key("answers");
    const answers: Array<SystemStateAnswers> = read_list_SystemStateAnswers(r);
    r.key("blob_get");
    const blob_get: aos.BlobGetPending = aos.readPending<aos.BlobGetPending>(r);
    r.key("blob_put");
    const blob_put: aos.BlobPutPending = aos.readPending<aos.BlobPutPending>(r);
    r.key("manifest");
    const manifest: aos.IntrospectManifestPending = aos.readPending<aos.IntrospectManifestPending>(r);
    r.key("list_cells");
    const list_cells: aos.IntrospectListCellsPending = aos.readPending<aos.IntrospectListCellsPending>(r);
    r.key("journal_head");
    const journal_head: aos.IntrospectJournalHeadPending = aos.readPending<aos.IntrospectJournalHeadPending>(r);
    r.key("timer_cancel");
    const timer_cancel: aos.TimerCancelPending = aos.readPending<aos.TimerCancelPending>(r);
    r.key("effect_cancel");
    const effect_cancel: aos.EffectCancelPending = aos.readPending<aos.EffectCancelPending>(r);
    r.key("workflow_state");
    const workflow_state: aos.IntrospectWorkflowStatePending = aos.readPending<aos.IntrospectWorkflowStatePending>(r);
    return new SystemState(timer, timer_cancel, effect_cancel, http, blob_put, blob_get, manifest, workflow_state, journal_head, list_cells, answers);
  }

  schemaName(): string {
    return "conformance/SystemState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(11);
    w.key("http");
    this.http.writeTo(w);
    w.key("timer");
    this.timer.writeTo(w);
    w.key("answers");
    write_list_SystemStateAnswers(w, this.answers);
    w.key("blob_get");
    this.blob_get.writeTo(w);
    w.key("blob_put");
    this.blob_put.writeTo(w);
    w.key("manifest");
    this.manifest.writeTo(w);
    w.key("list_cells");
    this.list_cells.writeTo(w);
    w.key("journal_head");
    this.journal_head.writeTo(w);
    w.key("timer_cancel");
    this.timer_cancel.writeTo(w);
    w.key("effect_cancel");
    this.effect_cancel.writeTo(w);
    w.key("workflow_state");
    this.workflow_state.writeTo(w);
  }
}

/** conformance/Touch@1 */
export class Touch extends aos.Schema {
  static readFrom(r: aos.Reader): Touch {
    r.record(0);
    return new Touch();
  }

  schemaName(): string {
    return "conformance/Touch@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(0);
  }
}

export enum TypesEventTag {
  Put,
  Build,
}

/** conformance/TypesEvent@1: `tag` says which arm; an arm's value is in its own. */
export class TypesEvent extends aos.Schema {
  private _Put: Everything | null = null;
  private _Build: Build | null = null;

  constructor(public readonly tag: TypesEventTag) {
    super();
  }

  static Put(value: Everything): TypesEvent {
    const made = new TypesEvent(TypesEventTag.Put);
    made._Put = value;
    return made;
  }

  /** Traps when the arm is another. */
  get put(): Everything {
    return this._Put!;
  }

  static Build(value: Build): TypesEvent {
    const made = new TypesEvent(TypesEventTag.Build);
    made._Build = value;
    return made;
  }

  /** Traps when the arm is another. */
  get build(): Build {
    return this._Build!;
  }

  static readFrom(r: aos.Reader): TypesEvent {
    const tag = r.tag();
    if (tag == "Put") {
      r.value();
      return TypesEvent.Put(Everything.readFrom(r));
    }
    if (tag == "Build") {
      r.value();
      return TypesEvent.Build(Build.readFrom(r));
    }
    r.fail("an unknown arm");
    return new TypesEvent(TypesEventTag.Put);
  }

  schemaName(): string {
    return "conformance/TypesEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case TypesEventTag.Put: {
        w.arm("Put");
        this.put.writeTo(w);
        break;
      }
      case TypesEventTag.Build: {
        w.arm("Build");
        this.build.writeTo(w);
        break;
      }
    }
  }
}

/** conformance/TypesState@1 */
export class TypesState extends aos.Schema {
  constructor(
    public last: Everything | null = null,
    public steps: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TypesState {
    r.record(2);
    r.key("last");
    const last: Everything | null = read_option_Everything(r);
    r.key("steps");
    const steps: u64 = r.nat();
    return new TypesState(last, steps);
  }

  schemaName(): string {
    return "conformance/TypesState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("last");
    write_option_Everything(w, this.last);
    w.key("steps");
    w.nat(this.steps);
  }
}

/** conformance/View@1 */
export class View extends aos.Schema {
  constructor(
    public now_ns: u64 = 0,
    public logical_now_ns: u64 = 0,
    public journal_height: u64 = 0,
    public entropy: Uint8Array = new Uint8Array(0),
    public event_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public manifest_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public workflow: string = "",
    public workflow_hash: string | null = null,
    public key: aos.Some<i64> | null = null,
    public cell_mode: bool = false,
    public random: Array<u64> = new Array<u64>(),
    public below: Array<u64> = new Array<u64>(),
    public bytes: Uint8Array = new Uint8Array(0),
    public uuid: string = "00000000-0000-0000-0000-000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): View {
    r.record(14);
    r.key("key");
    const key: aos.Some<i64> | null = read_option_int(r);
    r.key("uuid");
    const uuid: string = r.uuid();
    r.key("below");
    const below: Array<u64> = read_list_nat(r);
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    r.key("now_ns");
    const now_ns: u64 = r.nat();
    r.key("random");
    const random: Array<u64> = read_list_nat(r);
    r.key("entropy");
    const entropy: Uint8Array = r.bytes();
    r.key("workflow");
    const workflow: string = r.text();
    r.key("cell_mode");
    const cell_mode: bool = r.bool();
    r.key("event_hash");
    const event_hash: string = r.hash();
    r.key("manifest_hash");
    const manifest_hash: string = r.hash();
    r.key("workflow_hash");
    const workflow_hash: string | null = read_option_hash(r);
    r.key("journal_height");
    const journal_height: u64 = r.nat();
    r.key("logical_now_ns");
    const logical_now_ns: u64 = r.nat();
    return new View(now_ns, logical_now_ns, journal_height, entropy, event_hash, manifest_hash, workflow, workflow_hash, key, cell_mode, random, below, bytes, uuid);
  }

  schemaName(): string {
    return "conformance/View@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(14);
    w.key("key");
    write_option_int(w, this.key);
    w.key("uuid");
    w.uuid(this.uuid);
    w.key("below");
    write_list_nat(w, this.below);
    w.key("bytes");
    w.bytes(this.bytes);
    w.key("now_ns");
    w.nat(this.now_ns);
    w.key("random");
    write_list_nat(w, this.random);
    w.key("entropy");
    w.bytes(this.entropy);
    w.key("workflow");
    w.text(this.workflow);
    w.key("cell_mode");
    w.bool(this.cell_mode);
    w.key("event_hash");
    w.hash(this.event_hash);
    w.key("manifest_hash");
    w.hash(this.manifest_hash);
    w.key("workflow_hash");
    write_option_hash(w, this.workflow_hash);
    w.key("journal_height");
    w.nat(this.journal_height);
    w.key("logical_now_ns");
    w.nat(this.logical_now_ns);
  }
}

/** conformance/Worked@1 */
export class Worked extends aos.Schema {
  constructor(
    public result: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Worked {
    r.record(1);
    r.key("result");
    const result: u64 = r.nat();
    return new Worked(result);
  }

  schemaName(): string {
    return "conformance/Worked@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("result");
    w.nat(this.result);
  }
}

/** conformance/Write@1 */
export class Write extends aos.Schema {
  constructor(
    public lines: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Write {
    r.record(1);
    r.key("lines");
    const lines: Array<string> = read_list_text(r);
    return new Write(lines);
  }

  schemaName(): string {
    return "conformance/Write@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("lines");
    write_list_text(w, this.lines);
  }
}

/** conformance/work@1: a request. */
export class WorkEffect extends aos.Effect {
  constructor(public params: Work = new Work()) {
    super();
  }

  withKey(idempotencyKey: string): WorkEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "conformance/work@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWork(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Worked> | null {
  if (receipt.status != "ok") {
    return aos.failed<Worked>(receipt, "conformance/work@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Worked = Worked.readFrom(r);
  return aos.succeeded<Worked>(r, value, "conformance/work@1");
}

/** conformance/work@1: a handle on a request in flight. */
export class WorkPending extends aos.Pending {
  start(effect: WorkEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Worked> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWork(receipt);
  }
}

/** conformance/work@1: handles on requests in flight, each under a key. */
export class WorkPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Worked> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWork(receipt);
    return outcome === null ? null : new aos.Settled<K, Worked>(key.value, outcome);
  }
}

/** conformance/annotated@1: extend it, and export an entrypoint that runs it. */
export abstract class AnnotatedWorkflow extends aos.Workflow {
  state: Steps = new Steps();

  abstract onEvent(event: Annotate): void;

  aosHandle(r: aos.Reader): void {
    const event = Annotate.readFrom(r);
    if (r.done()) this.onEvent(event);
  }

  /** Of several in one step the last counts. */
  annotate(annotation: Note): void {
    const w = this.aosAnnotation();
    annotation.writeTo(w);
  }

  aosReadState(r: aos.Reader): void {
    this.state = Steps.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/context@1: extend it, and export an entrypoint that runs it. */
export abstract class ContextWorkflow extends aos.Workflow {
  state: View = new View();
  /** Of the cell. */
  key: i64 = 0;

  abstract onEvent(event: Look): void;

  aosHandle(r: aos.Reader): void {
    const event = Look.readFrom(r);
    if (r.done()) this.onEvent(event);
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.int();
  }

  aosReadState(r: aos.Reader): void {
    this.state = View.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/defaults@1: extend it, and export an entrypoint that runs it. */
export abstract class DefaultsWorkflow extends aos.Workflow {
  state: Everything = new Everything();

  abstract onEvent(event: Touch): void;

  aosHandle(r: aos.Reader): void {
    const event = Touch.readFrom(r);
    if (r.done()) this.onEvent(event);
  }

  aosReadState(r: aos.Reader): void {
    this.state = Everything.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/emitter@1: extend it, and export an entrypoint that runs it. */
export abstract class EmitterWorkflow extends aos.Workflow {
  state: EmitterState = new EmitterState();
  /** Of the cell. */
  key: string = "";

  abstract onSay(event: Say): void;
  abstract onSaid(event: Said): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Say") {
      const event: Say = Say.readFrom(r);
      if (r.done()) this.onSay(event);
      return;
    }
    if (tag == "Said") {
      const event: Said = Said.readFrom(r);
      if (r.done()) this.onSaid(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = EmitterState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/fan@1: extend it, and export an entrypoint that runs it. */
export abstract class FanWorkflow extends aos.Workflow {
  state: FanState = new FanState();
  /** Of the cell. */
  key: string = "00000000-0000-0000-0000-000000000000";

  abstract onFan(event: Fan): void;
  abstract onCancelItem(event: CancelItem): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Fan") {
      const event: Fan = Fan.readFrom(r);
      if (r.done()) this.onFan(event);
      return;
    }
    if (tag == "CancelItem") {
      const event: CancelItem = CancelItem.readFrom(r);
      if (r.done()) this.onCancelItem(event);
      return;
    }
    if (tag == "Receipt") {
      const event: aos.EffectReceiptEnvelope = aos.EffectReceiptEnvelope.readFrom(r);
      if (r.done()) this.onReceipt(event);
      return;
    }
    if (tag == "Rejected") {
      const event: aos.EffectReceiptRejected = aos.EffectReceiptRejected.readFrom(r);
      if (r.done()) this.onRejected(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.uuid();
  }

  aosReadState(r: aos.Reader): void {
    this.state = FanState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/legacy@1: extend it, and export an entrypoint that runs it. */
export abstract class LegacyWorkflow extends aos.Workflow {
  state: LegacyState = new LegacyState();

  abstract onUse(event: UseLegacy): void;
  abstract onTimerFired(event: aos.TimerFired): void;
  abstract onBlobPut(event: aos.BlobPutResult): void;
  abstract onBlobGot(event: aos.BlobGetResult): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Use") {
      const event: UseLegacy = UseLegacy.readFrom(r);
      if (r.done()) this.onUse(event);
      return;
    }
    if (tag == "TimerFired") {
      const event: aos.TimerFired = aos.TimerFired.readFrom(r);
      if (r.done()) this.onTimerFired(event);
      return;
    }
    if (tag == "BlobPut") {
      const event: aos.BlobPutResult = aos.BlobPutResult.readFrom(r);
      if (r.done()) this.onBlobPut(event);
      return;
    }
    if (tag == "BlobGot") {
      const event: aos.BlobGetResult = aos.BlobGetResult.readFrom(r);
      if (r.done()) this.onBlobGot(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadState(r: aos.Reader): void {
    this.state = LegacyState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/logged@1: extend it, and export an entrypoint that runs it. */
export abstract class LoggedWorkflow extends aos.Workflow {
  state: Steps = new Steps();

  abstract onEvent(event: Write): void;

  aosHandle(r: aos.Reader): void {
    const event = Write.readFrom(r);
    if (r.done()) this.onEvent(event);
  }

  aosLogs(): bool {
    return true;
  }

  aosReadState(r: aos.Reader): void {
    this.state = Steps.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/single@1: extend it, and export an entrypoint that runs it. */
export abstract class SingleWorkflow extends aos.Workflow {
  state: SingleState = new SingleState();
  /** Of the cell. */
  key: string = "";

  abstract onAsk(event: Ask): void;
  abstract onCancel(event: Cancel): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;
  abstract onFrame(event: aos.EffectStreamFrame): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Ask") {
      const event: Ask = Ask.readFrom(r);
      if (r.done()) this.onAsk(event);
      return;
    }
    if (tag == "Cancel") {
      const event: Cancel = Cancel.readFrom(r);
      if (r.done()) this.onCancel(event);
      return;
    }
    if (tag == "Receipt") {
      const event: aos.EffectReceiptEnvelope = aos.EffectReceiptEnvelope.readFrom(r);
      if (r.done()) this.onReceipt(event);
      return;
    }
    if (tag == "Rejected") {
      const event: aos.EffectReceiptRejected = aos.EffectReceiptRejected.readFrom(r);
      if (r.done()) this.onRejected(event);
      return;
    }
    if (tag == "Frame") {
      const event: aos.EffectStreamFrame = aos.EffectStreamFrame.readFrom(r);
      if (r.done()) this.onFrame(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = SingleState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/status@1: extend it, and export an entrypoint that runs it. */
export abstract class StatusWorkflow extends aos.Workflow {
  state: StatusState = new StatusState();
  /** Of the cell. */
  key: u64 = 0;

  abstract onAct(event: Act): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Act") {
      const event: Act = Act.readFrom(r);
      if (r.done()) this.onAct(event);
      return;
    }
    if (tag == "Receipt") {
      const event: aos.EffectReceiptEnvelope = aos.EffectReceiptEnvelope.readFrom(r);
      if (r.done()) this.onReceipt(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.nat();
  }

  aosReadState(r: aos.Reader): void {
    this.state = StatusState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/system@1: extend it, and export an entrypoint that runs it. */
export abstract class SystemWorkflow extends aos.Workflow {
  state: SystemState = new SystemState();

  abstract onUse(event: Use): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Use") {
      const event: Use = Use.readFrom(r);
      if (r.done()) this.onUse(event);
      return;
    }
    if (tag == "Receipt") {
      const event: aos.EffectReceiptEnvelope = aos.EffectReceiptEnvelope.readFrom(r);
      if (r.done()) this.onReceipt(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadState(r: aos.Reader): void {
    this.state = SystemState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** conformance/types@1: extend it, and export an entrypoint that runs it. */
export abstract class TypesWorkflow extends aos.Workflow {
  state: TypesState = new TypesState();

  abstract onPut(event: Everything): void;
  abstract onBuild(event: Build): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Put") {
      const event: Everything = Everything.readFrom(r);
      if (r.done()) this.onPut(event);
      return;
    }
    if (tag == "Build") {
      const event: Build = Build.readFrom(r);
      if (r.done()) this.onBuild(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadState(r: aos.Reader): void {
    this.state = TypesState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

function read_by_int_WorkPendingSet(r: aos.Reader): WorkPendingSet<i64> {
  const items = new WorkPendingSet<i64>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.int();
    before = r.ascending(before, start);
    items.refs.set(key, r.text());
  }
  return items;
}

function write_by_int_WorkPendingSet(w: aos.Writer, value: WorkPendingSet<i64>): void {
  const keys = value.refs.keys();
  const items = value.refs.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.int(keys[i]);
    sorter.keyed();
    w.text(items[i]);
  }
  w.endMap(sorter);
}

function read_by_text_WorkPendingSet(r: aos.Reader): WorkPendingSet<string> {
  const items = new WorkPendingSet<string>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.refs.set(key, r.text());
  }
  return items;
}

function write_by_text_WorkPendingSet(w: aos.Writer, value: WorkPendingSet<string>): void {
  const keys = value.refs.keys();
  const items = value.refs.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    w.text(items[i]);
  }
  w.endMap(sorter);
}

function read_list_Answer(r: aos.Reader): Array<Answer> {
  const items = new Array<Answer>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(Answer.readFrom(r));
  }
  return items;
}

function write_list_Answer(w: aos.Writer, value: Array<Answer>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_Point(r: aos.Reader): Array<Point> {
  const items = new Array<Point>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(Point.readFrom(r));
  }
  return items;
}

function write_list_Point(w: aos.Writer, value: Array<Point>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_Shape(r: aos.Reader): Array<Shape> {
  const items = new Array<Shape>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(Shape.readFrom(r));
  }
  return items;
}

function write_list_Shape(w: aos.Writer, value: Array<Shape>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_SystemStateAnswers(r: aos.Reader): Array<SystemStateAnswers> {
  const items = new Array<SystemStateAnswers>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(SystemStateAnswers.readFrom(r));
  }
  return items;
}

function write_list_SystemStateAnswers(w: aos.Writer, value: Array<SystemStateAnswers>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_Work(r: aos.Reader): Array<Work> {
  const items = new Array<Work>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(Work.readFrom(r));
  }
  return items;
}

function write_list_Work(w: aos.Writer, value: Array<Work>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_bytes(r: aos.Reader): Array<Uint8Array> {
  const items = new Array<Uint8Array>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(r.bytes());
  }
  return items;
}

function write_list_bytes(w: aos.Writer, value: Array<Uint8Array>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { w.bytes(value[i]); }
}

function read_list_int(r: aos.Reader): Array<i64> {
  const items = new Array<i64>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(r.int());
  }
  return items;
}

function write_list_int(w: aos.Writer, value: Array<i64>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { w.int(value[i]); }
}

function read_list_list_text(r: aos.Reader): Array<Array<string>> {
  const items = new Array<Array<string>>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(read_list_text(r));
  }
  return items;
}

function write_list_list_text(w: aos.Writer, value: Array<Array<string>>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { write_list_text(w, value[i]); }
}

function read_list_nat(r: aos.Reader): Array<u64> {
  const items = new Array<u64>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(r.nat());
  }
  return items;
}

function write_list_nat(w: aos.Writer, value: Array<u64>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { w.nat(value[i]); }
}

function read_list_option_bool(r: aos.Reader): Array<aos.Some<bool> | null> {
  const items = new Array<aos.Some<bool> | null>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(read_option_bool(r));
  }
  return items;
}

function write_list_option_bool(w: aos.Writer, value: Array<aos.Some<bool> | null>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { write_option_bool(w, value[i]); }
}

function read_list_text(r: aos.Reader): Array<string> {
  const items = new Array<string>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(r.text());
  }
  return items;
}

function write_list_text(w: aos.Writer, value: Array<string>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { w.text(value[i]); }
}

function read_map_hash_option_int(r: aos.Reader): Map<string, aos.Some<i64> | null> {
  const items = new Map<string, aos.Some<i64> | null>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.hash();
    before = r.ascending(before, start);
    items.set(key, read_option_int(r));
  }
  return items;
}

function write_map_hash_option_int(w: aos.Writer, value: Map<string, aos.Some<i64> | null>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.hash(keys[i]);
    sorter.keyed();
    write_option_int(w, items[i]);
  }
  w.endMap(sorter);
}

function read_map_int_Answer(r: aos.Reader): Map<i64, Answer> {
  const items = new Map<i64, Answer>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.int();
    before = r.ascending(before, start);
    items.set(key, Answer.readFrom(r));
  }
  return items;
}

function write_map_int_Answer(w: aos.Writer, value: Map<i64, Answer>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.int(keys[i]);
    sorter.keyed();
    items[i].writeTo(w);
  }
  w.endMap(sorter);
}

function read_map_int_text(r: aos.Reader): Map<i64, string> {
  const items = new Map<i64, string>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.int();
    before = r.ascending(before, start);
    items.set(key, r.text());
  }
  return items;
}

function write_map_int_text(w: aos.Writer, value: Map<i64, string>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.int(keys[i]);
    sorter.keyed();
    w.text(items[i]);
  }
  w.endMap(sorter);
}

function read_map_nat_Point(r: aos.Reader): Map<u64, Point> {
  const items = new Map<u64, Point>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.nat();
    before = r.ascending(before, start);
    items.set(key, Point.readFrom(r));
  }
  return items;
}

function write_map_nat_Point(w: aos.Writer, value: Map<u64, Point>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.nat(keys[i]);
    sorter.keyed();
    items[i].writeTo(w);
  }
  w.endMap(sorter);
}

function read_map_text_Answer(r: aos.Reader): Map<string, Answer> {
  const items = new Map<string, Answer>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, Answer.readFrom(r));
  }
  return items;
}

function write_map_text_Answer(w: aos.Writer, value: Map<string, Answer>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    items[i].writeTo(w);
  }
  w.endMap(sorter);
}

function read_map_text_list_nat(r: aos.Reader): Map<string, Array<u64>> {
  const items = new Map<string, Array<u64>>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, read_list_nat(r));
  }
  return items;
}

function write_map_text_list_nat(w: aos.Writer, value: Map<string, Array<u64>>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    write_list_nat(w, items[i]);
  }
  w.endMap(sorter);
}

function read_map_uuid_bool(r: aos.Reader): Map<string, bool> {
  const items = new Map<string, bool>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.uuid();
    before = r.ascending(before, start);
    items.set(key, r.bool());
  }
  return items;
}

function write_map_uuid_bool(w: aos.Writer, value: Map<string, bool>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.uuid(keys[i]);
    sorter.keyed();
    w.bool(items[i]);
  }
  w.endMap(sorter);
}

function read_option_AskIdempotencyKey(r: aos.Reader): AskIdempotencyKey | null {
  if (r.isNull()) return null;
  return AskIdempotencyKey.readFrom(r);
}

function write_option_AskIdempotencyKey(w: aos.Writer, value: AskIdempotencyKey | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_BlobGetResult(r: aos.Reader): aos.BlobGetResult | null {
  if (r.isNull()) return null;
  return aos.BlobGetResult.readFrom(r);
}

function write_option_BlobGetResult(w: aos.Writer, value: aos.BlobGetResult | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_BlobPutResult(r: aos.Reader): aos.BlobPutResult | null {
  if (r.isNull()) return null;
  return aos.BlobPutResult.readFrom(r);
}

function write_option_BlobPutResult(w: aos.Writer, value: aos.BlobPutResult | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_Everything(r: aos.Reader): Everything | null {
  if (r.isNull()) return null;
  return Everything.readFrom(r);
}

function write_option_Everything(w: aos.Writer, value: Everything | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_Point(r: aos.Reader): Point | null {
  if (r.isNull()) return null;
  return Point.readFrom(r);
}

function write_option_Point(w: aos.Writer, value: Point | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_TimerFired(r: aos.Reader): aos.TimerFired | null {
  if (r.isNull()) return null;
  return aos.TimerFired.readFrom(r);
}

function write_option_TimerFired(w: aos.Writer, value: aos.TimerFired | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_bool(r: aos.Reader): aos.Some<bool> | null {
  if (r.isNull()) return null;
  return new aos.Some<bool>(r.bool());
}

function write_option_bool(w: aos.Writer, value: aos.Some<bool> | null): void {
  if (value === null) w.null();
  else w.bool(value.value);
}

function read_option_hash(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.hash();
}

function write_option_hash(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.hash(value);
}

function read_option_int(r: aos.Reader): aos.Some<i64> | null {
  if (r.isNull()) return null;
  return new aos.Some<i64>(r.int());
}

function write_option_int(w: aos.Writer, value: aos.Some<i64> | null): void {
  if (value === null) w.null();
  else w.int(value.value);
}

function read_option_list_bytes(r: aos.Reader): Array<Uint8Array> | null {
  if (r.isNull()) return null;
  return read_list_bytes(r);
}

function write_option_list_bytes(w: aos.Writer, value: Array<Uint8Array> | null): void {
  if (value === null) w.null();
  else write_list_bytes(w, value);
}

function read_option_nat(r: aos.Reader): aos.Some<u64> | null {
  if (r.isNull()) return null;
  return new aos.Some<u64>(r.nat());
}

function write_option_nat(w: aos.Writer, value: aos.Some<u64> | null): void {
  if (value === null) w.null();
  else w.nat(value.value);
}

function read_option_text(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.text();
}

function write_option_text(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.text(value);
}

function read_set_Point(r: aos.Reader): Array<Point> {
  const items = new Array<Point>();
  let before: usize = 0;
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    const start = r.at;
    items.push(Point.readFrom(r));
    before = r.ascending(before, start);
  }
  return items;
}

function write_set_Point(w: aos.Writer, value: Array<Point>): void {
  const items = value;
  const sorter = w.sorter(items.length);
  for (let i = 0; i < items.length; ++i) {
    sorter.item();
    items[i].writeTo(w);
  }
  w.endSet(sorter);
}

function read_set_int(r: aos.Reader): Set<i64> {
  const items = new Set<i64>();
  let before: usize = 0;
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    const start = r.at;
    items.add(r.int());
    before = r.ascending(before, start);
  }
  return items;
}

function write_set_int(w: aos.Writer, value: Set<i64>): void {
  const items = value.values();
  const sorter = w.sorter(items.length);
  for (let i = 0; i < items.length; ++i) {
    sorter.item();
    w.int(items[i]);
  }
  w.endSet(sorter);
}

function read_set_text(r: aos.Reader): Set<string> {
  const items = new Set<string>();
  let before: usize = 0;
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    const start = r.at;
    items.add(r.text());
    before = r.ascending(before, start);
  }
  return items;
}

function write_set_text(w: aos.Writer, value: Set<string>): void {
  const items = value.values();
  const sorter = w.sorter(items.length);
  for (let i = 0; i < items.length; ++i) {
    sorter.item();
    w.text(items[i]);
  }
  w.endSet(sorter);
}
