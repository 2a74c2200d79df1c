// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

/** bench/Add@1 */
export class Add extends aos.Schema {
  constructor(
    public key: string = "",
    public by: u64 = 0,
    public item: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Add {
    r.record(3);
    r.key("by");
    const by: u64 = r.nat();
    r.key("key");
    const key: string = r.text();
    r.key("item");
    const item: u64 = r.nat();
    return new Add(key, by, item);
  }

  schemaName(): string {
    return "bench/Add@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("by");
    w.nat(this.by);
    w.key("key");
    w.text(this.key);
    w.key("item");
    w.nat(this.item);
  }
}

/** bench/Begin@1 */
export class Begin extends aos.Schema {
  constructor(
    public key: string = "",
    public run: u64 = 0,
    public steps: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Begin {
    r.record(3);
    r.key("key");
    const key: string = r.text();
    r.key("run");
    const run: u64 = r.nat();
    r.key("steps");
    const steps: u64 = r.nat();
    return new Begin(key, run, steps);
  }

  schemaName(): string {
    return "bench/Begin@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("key");
    w.text(this.key);
    w.key("run");
    w.nat(this.run);
    w.key("steps");
    w.nat(this.steps);
  }
}

/** bench/NoopParams@1 */
export class NoopParams extends aos.Schema {
  constructor(
    public run: u64 = 0,
    public step: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): NoopParams {
    r.record(2);
    r.key("run");
    const run: u64 = r.nat();
    r.key("step");
    const step: u64 = r.nat();
    return new NoopParams(run, step);
  }

  schemaName(): string {
    return "bench/NoopParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("run");
    w.nat(this.run);
    w.key("step");
    w.nat(this.step);
  }
}

/** bench/NoopReceipt@1 */
export class NoopReceipt extends aos.Schema {
  constructor(
    public step: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): NoopReceipt {
    r.record(1);
    r.key("step");
    const step: u64 = r.nat();
    return new NoopReceipt(step);
  }

  schemaName(): string {
    return "bench/NoopReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("step");
    w.nat(this.step);
  }
}

/** bench/Run@1 */
export class Run extends aos.Schema {
  constructor(
    public run: u64 = 0,
    public steps: u64 = 0,
    public step: u64 = 0,
    public noop: NoopPending = new NoopPending(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Run {
    r.record(4);
    r.key("run");
    const run: u64 = r.nat();
    r.key("noop");
    const noop: NoopPending = aos.readPending<NoopPending>(r);
    r.key("step");
    const step: u64 = r.nat();
    r.key("steps");
    const steps: u64 = r.nat();
    return new Run(run, steps, step, noop);
  }

  schemaName(): string {
    return "bench/Run@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("run");
    w.nat(this.run);
    w.key("noop");
    this.noop.writeTo(w);
    w.key("step");
    w.nat(this.step);
    w.key("steps");
    w.nat(this.steps);
  }
}

export enum RunEventTag {
  Begin,
  Receipt,
  Rejected,
}

/** bench/RunEvent@1: `tag` says which arm; an arm's value is in its own. */
export class RunEvent extends aos.Schema {
  private _Begin: Begin | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: RunEventTag) {
    super();
  }

  static Begin(value: Begin): RunEvent {
    const made = new RunEvent(RunEventTag.Begin);
    made._Begin = value;
    return made;
  }

  /** Traps when the arm is another. */
  get begin(): Begin {
    return this._Begin!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): RunEvent {
    const made = new RunEvent(RunEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): RunEvent {
    const made = new RunEvent(RunEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): RunEvent {
    const tag = r.tag();
    if (tag == "Begin") {
      r.value();
      return RunEvent.Begin(Begin.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return RunEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return RunEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new RunEvent(RunEventTag.Begin);
  }

  schemaName(): string {
    return "bench/RunEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case RunEventTag.Begin: {
        w.arm("Begin");
        this.begin.writeTo(w);
        break;
      }
      case RunEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case RunEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

/** bench/noop@1: a request. */
export class NoopEffect extends aos.Effect {
  constructor(public params: NoopParams = new NoopParams()) {
    super();
  }

  withKey(idempotencyKey: string): NoopEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): NoopEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "bench/noop@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfNoop(receipt: aos.EffectReceiptEnvelope): aos.Outcome<NoopReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<NoopReceipt>(receipt, "bench/noop@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: NoopReceipt = NoopReceipt.readFrom(r);
  return aos.succeeded<NoopReceipt>(r, value, "bench/noop@1");
}

/** bench/noop@1: a handle on a request in flight. */
export class NoopPending extends aos.Pending {
  start(effect: NoopEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<NoopReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfNoop(receipt);
  }
}

/** bench/noop@1: handles on requests in flight, each under a key. */
export class NoopPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: NoopEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, NoopReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfNoop(receipt);
    return outcome === null ? null : new aos.Settled<K, NoopReceipt>(key.value, outcome);
  }
}

/** bench/counter@1: extend it, and export an entrypoint that runs it. */
export abstract class CounterWorkflow extends aos.Workflow {
  state: u64 = 0;
  /** Of the cell. */
  key: string = "";

  abstract onEvent(event: Add): void;

  aosHandle(r: aos.Reader): void {
    const event = Add.readFrom(r);
    if (r.done()) this.onEvent(event);
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = r.nat();
  }

  aosWriteState(w: aos.Writer): void {
    w.nat(this.state);
  }
}
