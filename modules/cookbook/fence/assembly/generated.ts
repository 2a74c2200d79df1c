// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

export enum VerdictTag {
  Sold,
  Taken,
  Declined,
  Unclear,
}

/** seat/Verdict@1: `tag` says which arm; an arm's value is in its own. */
export class Verdict extends aos.Schema {

  constructor(public readonly tag: VerdictTag) {
    super();
  }

  static Sold(): Verdict {
    return new Verdict(VerdictTag.Sold);
  }

  static Taken(): Verdict {
    return new Verdict(VerdictTag.Taken);
  }

  static Declined(): Verdict {
    return new Verdict(VerdictTag.Declined);
  }

  static Unclear(): Verdict {
    return new Verdict(VerdictTag.Unclear);
  }

  static readFrom(r: aos.Reader): Verdict {
    const tag = r.tag();
    if (tag == "Sold") {
      r.noValue();
      return Verdict.Sold();
    }
    if (tag == "Taken") {
      r.noValue();
      return Verdict.Taken();
    }
    if (tag == "Declined") {
      r.noValue();
      return Verdict.Declined();
    }
    if (tag == "Unclear") {
      r.noValue();
      return Verdict.Unclear();
    }
    r.fail("an unknown arm");
    return new Verdict(VerdictTag.Sold);
  }

  schemaName(): string {
    return "seat/Verdict@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case VerdictTag.Sold: {
        w.unitArm("Sold");
        break;
      }
      case VerdictTag.Taken: {
        w.unitArm("Taken");
        break;
      }
      case VerdictTag.Declined: {
        w.unitArm("Declined");
        break;
      }
      case VerdictTag.Unclear: {
        w.unitArm("Unclear");
        break;
      }
    }
  }
}

/** seat/Answered@1 */
export class Answered extends aos.Schema {
  constructor(
    public seat: string = "",
    public request: string = "",
    public verdict: Verdict = Verdict.Sold(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Answered {
    r.record(3);
    r.key("seat");
    const seat: string = r.text();
    r.key("request");
    const request: string = r.text();
    r.key("verdict");
    const verdict: Verdict = Verdict.readFrom(r);
    return new Answered(seat, request, verdict);
  }

  schemaName(): string {
    return "seat/Answered@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("seat");
    w.text(this.seat);
    w.key("request");
    w.text(this.request);
    w.key("verdict");
    this.verdict.writeTo(w);
  }
}

/** seat/Charge@1 */
export class Charge extends aos.Schema {
  constructor(
    public seat: string = "",
    public buyer: string = "",
    public cents: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Charge {
    r.record(3);
    r.key("seat");
    const seat: string = r.text();
    r.key("buyer");
    const buyer: string = r.text();
    r.key("cents");
    const cents: u64 = r.nat();
    return new Charge(seat, buyer, cents);
  }

  schemaName(): string {
    return "seat/Charge@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("seat");
    w.text(this.seat);
    w.key("buyer");
    w.text(this.buyer);
    w.key("cents");
    w.nat(this.cents);
  }
}

/** seat/Charged@1 */
export class Charged extends aos.Schema {
  constructor(
    public reference: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Charged {
    r.record(1);
    r.key("reference");
    const reference: string = r.text();
    return new Charged(reference);
  }

  schemaName(): string {
    return "seat/Charged@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("reference");
    w.text(this.reference);
  }
}

/** seat/Sale@1 */
export class Sale extends aos.Schema {
  constructor(
    public request: string = "",
    public buyer: string = "",
    public cents: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Sale {
    r.record(3);
    r.key("buyer");
    const buyer: string = r.text();
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("request");
    const request: string = r.text();
    return new Sale(request, buyer, cents);
  }

  schemaName(): string {
    return "seat/Sale@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("buyer");
    w.text(this.buyer);
    w.key("cents");
    w.nat(this.cents);
    w.key("request");
    w.text(this.request);
  }
}

export enum PhaseTag {
  Free,
  Charging,
  Sold,
  Unclear,
}

/** seat/Phase@1: `tag` says which arm; an arm's value is in its own. */
export class Phase extends aos.Schema {
  private _Charging: Sale | null = null;
  private _Sold: Sale | null = null;
  private _Unclear: Sale | null = null;

  constructor(public readonly tag: PhaseTag) {
    super();
  }

  static Free(): Phase {
    return new Phase(PhaseTag.Free);
  }

  static Charging(value: Sale): Phase {
    const made = new Phase(PhaseTag.Charging);
    made._Charging = value;
    return made;
  }

  /** Traps when the arm is another. */
  get charging(): Sale {
    return this._Charging!;
  }

  static Sold(value: Sale): Phase {
    const made = new Phase(PhaseTag.Sold);
    made._Sold = value;
    return made;
  }

  /** Traps when the arm is another. */
  get sold(): Sale {
    return this._Sold!;
  }

  static Unclear(value: Sale): Phase {
    const made = new Phase(PhaseTag.Unclear);
    made._Unclear = value;
    return made;
  }

  /** Traps when the arm is another. */
  get unclear(): Sale {
    return this._Unclear!;
  }

  static readFrom(r: aos.Reader): Phase {
    const tag = r.tag();
    if (tag == "Free") {
      r.noValue();
      return Phase.Free();
    }
    if (tag == "Charging") {
      r.value();
      return Phase.Charging(Sale.readFrom(r));
    }
    if (tag == "Sold") {
      r.value();
      return Phase.Sold(Sale.readFrom(r));
    }
    if (tag == "Unclear") {
      r.value();
      return Phase.Unclear(Sale.readFrom(r));
    }
    r.fail("an unknown arm");
    return new Phase(PhaseTag.Free);
  }

  schemaName(): string {
    return "seat/Phase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case PhaseTag.Free: {
        w.unitArm("Free");
        break;
      }
      case PhaseTag.Charging: {
        w.arm("Charging");
        this.charging.writeTo(w);
        break;
      }
      case PhaseTag.Sold: {
        w.arm("Sold");
        this.sold.writeTo(w);
        break;
      }
      case PhaseTag.Unclear: {
        w.arm("Unclear");
        this.unclear.writeTo(w);
        break;
      }
    }
  }
}

/** seat/Wanted@1 */
export class Wanted extends aos.Schema {
  constructor(
    public seat: string = "",
    public request: string = "",
    public buyer: string = "",
    public cents: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Wanted {
    r.record(4);
    r.key("seat");
    const seat: string = r.text();
    r.key("buyer");
    const buyer: string = r.text();
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("request");
    const request: string = r.text();
    return new Wanted(seat, request, buyer, cents);
  }

  schemaName(): string {
    return "seat/Wanted@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("seat");
    w.text(this.seat);
    w.key("buyer");
    w.text(this.buyer);
    w.key("cents");
    w.nat(this.cents);
    w.key("request");
    w.text(this.request);
  }
}

export enum SaleEventTag {
  Wanted,
  Receipt,
  Rejected,
}

/** seat/SaleEvent@1: `tag` says which arm; an arm's value is in its own. */
export class SaleEvent extends aos.Schema {
  private _Wanted: Wanted | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: SaleEventTag) {
    super();
  }

  static Wanted(value: Wanted): SaleEvent {
    const made = new SaleEvent(SaleEventTag.Wanted);
    made._Wanted = value;
    return made;
  }

  /** Traps when the arm is another. */
  get wanted(): Wanted {
    return this._Wanted!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): SaleEvent {
    const made = new SaleEvent(SaleEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): SaleEvent {
    const made = new SaleEvent(SaleEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): SaleEvent {
    const tag = r.tag();
    if (tag == "Wanted") {
      r.value();
      return SaleEvent.Wanted(Wanted.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return SaleEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return SaleEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new SaleEvent(SaleEventTag.Wanted);
  }

  schemaName(): string {
    return "seat/SaleEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case SaleEventTag.Wanted: {
        w.arm("Wanted");
        this.wanted.writeTo(w);
        break;
      }
      case SaleEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case SaleEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

/** seat/SaleState@1 */
export class SaleState extends aos.Schema {
  constructor(
    public phase: Phase = Phase.Free(),
    public charge: CardChargePending = new CardChargePending(),
    public attempt: u64 = 0,
    public declined: Array<string> = new Array<string>(),
    public repeats: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): SaleState {
    r.record(5);
    r.key("phase");
    const phase: Phase = Phase.readFrom(r);
    r.key("charge");
    const charge: CardChargePending = aos.readPending<CardChargePending>(r);
    r.key("attempt");
    const attempt: u64 = r.nat();
    r.key("repeats");
    const repeats: u64 = r.nat();
    r.key("declined");
    const declined: Array<string> = read_list_text(r);
    return new SaleState(phase, charge, attempt, declined, repeats);
  }

  schemaName(): string {
    return "seat/SaleState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("phase");
    this.phase.writeTo(w);
    w.key("charge");
    this.charge.writeTo(w);
    w.key("attempt");
    w.nat(this.attempt);
    w.key("repeats");
    w.nat(this.repeats);
    w.key("declined");
    write_list_text(w, this.declined);
  }
}

/** seat/card.charge@1: a request. */
export class CardChargeEffect extends aos.Effect {
  constructor(public params: Charge = new Charge()) {
    super();
  }

  withKey(idempotencyKey: string): CardChargeEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): CardChargeEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "seat/card.charge@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfCardCharge(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Charged> | null {
  if (receipt.status != "ok") {
    return aos.failed<Charged>(receipt, "seat/card.charge@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Charged = Charged.readFrom(r);
  return aos.succeeded<Charged>(r, value, "seat/card.charge@1");
}

/** seat/card.charge@1: a handle on a request in flight. */
export class CardChargePending extends aos.Pending {
  start(effect: CardChargeEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Charged> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfCardCharge(receipt);
  }
}

/** seat/card.charge@1: handles on requests in flight, each under a key. */
export class CardChargePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: CardChargeEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Charged> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfCardCharge(receipt);
    return outcome === null ? null : new aos.Settled<K, Charged>(key.value, outcome);
  }
}

/** seat/sale@1: extend it, and export an entrypoint that runs it. */
export abstract class SaleWorkflow extends aos.Workflow {
  state: SaleState = new SaleState();
  /** Of the cell. */
  key: string = "";

  abstract onWanted(event: Wanted): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Wanted") {
      const event: Wanted = Wanted.readFrom(r);
      if (r.done()) this.onWanted(event);
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
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = SaleState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
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
