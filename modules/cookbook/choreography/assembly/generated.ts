// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

/** market/Booked@1 */
export class Booked extends aos.Schema {
  constructor(
    public reference: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Booked {
    r.record(1);
    r.key("reference");
    const reference: string = r.text();
    return new Booked(reference);
  }

  schemaName(): string {
    return "market/Booked@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("reference");
    w.text(this.reference);
  }
}

/** market/Charge@1 */
export class Charge extends aos.Schema {
  constructor(
    public order_id: string = "",
    public cents: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Charge {
    r.record(2);
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("order_id");
    const order_id: string = r.text();
    return new Charge(order_id, cents);
  }

  schemaName(): string {
    return "market/Charge@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("cents");
    w.nat(this.cents);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** market/OrderPlaced@1 */
export class OrderPlaced extends aos.Schema {
  constructor(
    public order_id: string = "",
    public cents: u64 = 0,
    public address: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): OrderPlaced {
    r.record(3);
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("address");
    const address: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new OrderPlaced(order_id, cents, address);
  }

  schemaName(): string {
    return "market/OrderPlaced@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("cents");
    w.nat(this.cents);
    w.key("address");
    w.text(this.address);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** market/PaymentTaken@1 */
export class PaymentTaken extends aos.Schema {
  constructor(
    public order_id: string = "",
    public cents: u64 = 0,
    public reference: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PaymentTaken {
    r.record(3);
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("order_id");
    const order_id: string = r.text();
    r.key("reference");
    const reference: string = r.text();
    return new PaymentTaken(order_id, cents, reference);
  }

  schemaName(): string {
    return "market/PaymentTaken@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("cents");
    w.nat(this.cents);
    w.key("order_id");
    w.text(this.order_id);
    w.key("reference");
    w.text(this.reference);
  }
}

export enum DeliveryEventTag {
  Placed,
  Taken,
  Receipt,
  Rejected,
}

/** market/DeliveryEvent@1: `tag` says which arm; an arm's value is in its own. */
export class DeliveryEvent extends aos.Schema {
  private _Placed: OrderPlaced | null = null;
  private _Taken: PaymentTaken | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: DeliveryEventTag) {
    super();
  }

  static Placed(value: OrderPlaced): DeliveryEvent {
    const made = new DeliveryEvent(DeliveryEventTag.Placed);
    made._Placed = value;
    return made;
  }

  /** Traps when the arm is another. */
  get placed(): OrderPlaced {
    return this._Placed!;
  }

  static Taken(value: PaymentTaken): DeliveryEvent {
    const made = new DeliveryEvent(DeliveryEventTag.Taken);
    made._Taken = value;
    return made;
  }

  /** Traps when the arm is another. */
  get taken(): PaymentTaken {
    return this._Taken!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): DeliveryEvent {
    const made = new DeliveryEvent(DeliveryEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): DeliveryEvent {
    const made = new DeliveryEvent(DeliveryEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): DeliveryEvent {
    const tag = r.tag();
    if (tag == "Placed") {
      r.value();
      return DeliveryEvent.Placed(OrderPlaced.readFrom(r));
    }
    if (tag == "Taken") {
      r.value();
      return DeliveryEvent.Taken(PaymentTaken.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return DeliveryEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return DeliveryEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new DeliveryEvent(DeliveryEventTag.Placed);
  }

  schemaName(): string {
    return "market/DeliveryEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case DeliveryEventTag.Placed: {
        w.arm("Placed");
        this.placed.writeTo(w);
        break;
      }
      case DeliveryEventTag.Taken: {
        w.arm("Taken");
        this.taken.writeTo(w);
        break;
      }
      case DeliveryEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case DeliveryEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

export enum DeliveryPhaseTag {
  Waiting,
  Sending,
  Sent,
  Refused,
}

/** market/DeliveryPhase@1: `tag` says which arm; an arm's value is in its own. */
export class DeliveryPhase extends aos.Schema {

  constructor(public readonly tag: DeliveryPhaseTag) {
    super();
  }

  static Waiting(): DeliveryPhase {
    return new DeliveryPhase(DeliveryPhaseTag.Waiting);
  }

  static Sending(): DeliveryPhase {
    return new DeliveryPhase(DeliveryPhaseTag.Sending);
  }

  static Sent(): DeliveryPhase {
    return new DeliveryPhase(DeliveryPhaseTag.Sent);
  }

  static Refused(): DeliveryPhase {
    return new DeliveryPhase(DeliveryPhaseTag.Refused);
  }

  static readFrom(r: aos.Reader): DeliveryPhase {
    const tag = r.tag();
    if (tag == "Waiting") {
      r.noValue();
      return DeliveryPhase.Waiting();
    }
    if (tag == "Sending") {
      r.noValue();
      return DeliveryPhase.Sending();
    }
    if (tag == "Sent") {
      r.noValue();
      return DeliveryPhase.Sent();
    }
    if (tag == "Refused") {
      r.noValue();
      return DeliveryPhase.Refused();
    }
    r.fail("an unknown arm");
    return new DeliveryPhase(DeliveryPhaseTag.Waiting);
  }

  schemaName(): string {
    return "market/DeliveryPhase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case DeliveryPhaseTag.Waiting: {
        w.unitArm("Waiting");
        break;
      }
      case DeliveryPhaseTag.Sending: {
        w.unitArm("Sending");
        break;
      }
      case DeliveryPhaseTag.Sent: {
        w.unitArm("Sent");
        break;
      }
      case DeliveryPhaseTag.Refused: {
        w.unitArm("Refused");
        break;
      }
    }
  }
}

/** market/DeliveryState@1 */
export class DeliveryState extends aos.Schema {
  constructor(
    public phase: DeliveryPhase = DeliveryPhase.Waiting(),
    public address: string | null = null,
    public is_paid: bool = false,
    public send: ParcelSendPending = new ParcelSendPending(),
    public again: aos.TimerSetPending = new aos.TimerSetPending(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): DeliveryState {
    r.record(5);
    r.key("send");
    const send: ParcelSendPending = aos.readPending<ParcelSendPending>(r);
    r.key("again");
    const again: aos.TimerSetPending = aos.readPending<aos.TimerSetPending>(r);
    r.key("phase");
    const phase: DeliveryPhase = DeliveryPhase.readFrom(r);
    r.key("address");
    const address: string | null = read_option_text(r);
    r.key("is_paid");
    const is_paid: bool = r.bool();
    return new DeliveryState(phase, address, is_paid, send, again);
  }

  schemaName(): string {
    return "market/DeliveryState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("send");
    this.send.writeTo(w);
    w.key("again");
    this.again.writeTo(w);
    w.key("phase");
    this.phase.writeTo(w);
    w.key("address");
    write_option_text(w, this.address);
    w.key("is_paid");
    w.bool(this.is_paid);
  }
}

/** market/PaymentRefused@1 */
export class PaymentRefused extends aos.Schema {
  constructor(
    public order_id: string = "",
    public reason: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PaymentRefused {
    r.record(2);
    r.key("reason");
    const reason: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new PaymentRefused(order_id, reason);
  }

  schemaName(): string {
    return "market/PaymentRefused@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("reason");
    w.text(this.reason);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** market/ParcelSent@1 */
export class ParcelSent extends aos.Schema {
  constructor(
    public order_id: string = "",
    public tracking: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): ParcelSent {
    r.record(2);
    r.key("order_id");
    const order_id: string = r.text();
    r.key("tracking");
    const tracking: string = r.text();
    return new ParcelSent(order_id, tracking);
  }

  schemaName(): string {
    return "market/ParcelSent@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("order_id");
    w.text(this.order_id);
    w.key("tracking");
    w.text(this.tracking);
  }
}

/** market/ParcelRefused@1 */
export class ParcelRefused extends aos.Schema {
  constructor(
    public order_id: string = "",
    public reason: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): ParcelRefused {
    r.record(2);
    r.key("reason");
    const reason: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new ParcelRefused(order_id, reason);
  }

  schemaName(): string {
    return "market/ParcelRefused@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("reason");
    w.text(this.reason);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** market/PaymentReturned@1 */
export class PaymentReturned extends aos.Schema {
  constructor(
    public order_id: string = "",
    public cents: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PaymentReturned {
    r.record(2);
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("order_id");
    const order_id: string = r.text();
    return new PaymentReturned(order_id, cents);
  }

  schemaName(): string {
    return "market/PaymentReturned@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("cents");
    w.nat(this.cents);
    w.key("order_id");
    w.text(this.order_id);
  }
}

export enum OrderEventTag {
  Placed,
  Taken,
  Refused,
  Sent,
  NotSent,
  Returned,
}

/** market/OrderEvent@1: `tag` says which arm; an arm's value is in its own. */
export class OrderEvent extends aos.Schema {
  private _Placed: OrderPlaced | null = null;
  private _Taken: PaymentTaken | null = null;
  private _Refused: PaymentRefused | null = null;
  private _Sent: ParcelSent | null = null;
  private _NotSent: ParcelRefused | null = null;
  private _Returned: PaymentReturned | null = null;

  constructor(public readonly tag: OrderEventTag) {
    super();
  }

  static Placed(value: OrderPlaced): OrderEvent {
    const made = new OrderEvent(OrderEventTag.Placed);
    made._Placed = value;
    return made;
  }

  /** Traps when the arm is another. */
  get placed(): OrderPlaced {
    return this._Placed!;
  }

  static Taken(value: PaymentTaken): OrderEvent {
    const made = new OrderEvent(OrderEventTag.Taken);
    made._Taken = value;
    return made;
  }

  /** Traps when the arm is another. */
  get taken(): PaymentTaken {
    return this._Taken!;
  }

  static Refused(value: PaymentRefused): OrderEvent {
    const made = new OrderEvent(OrderEventTag.Refused);
    made._Refused = value;
    return made;
  }

  /** Traps when the arm is another. */
  get refused(): PaymentRefused {
    return this._Refused!;
  }

  static Sent(value: ParcelSent): OrderEvent {
    const made = new OrderEvent(OrderEventTag.Sent);
    made._Sent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get sent(): ParcelSent {
    return this._Sent!;
  }

  static NotSent(value: ParcelRefused): OrderEvent {
    const made = new OrderEvent(OrderEventTag.NotSent);
    made._NotSent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get notSent(): ParcelRefused {
    return this._NotSent!;
  }

  static Returned(value: PaymentReturned): OrderEvent {
    const made = new OrderEvent(OrderEventTag.Returned);
    made._Returned = value;
    return made;
  }

  /** Traps when the arm is another. */
  get returned(): PaymentReturned {
    return this._Returned!;
  }

  static readFrom(r: aos.Reader): OrderEvent {
    const tag = r.tag();
    if (tag == "Placed") {
      r.value();
      return OrderEvent.Placed(OrderPlaced.readFrom(r));
    }
    if (tag == "Taken") {
      r.value();
      return OrderEvent.Taken(PaymentTaken.readFrom(r));
    }
    if (tag == "Refused") {
      r.value();
      return OrderEvent.Refused(PaymentRefused.readFrom(r));
    }
    if (tag == "Sent") {
      r.value();
      return OrderEvent.Sent(ParcelSent.readFrom(r));
    }
    if (tag == "NotSent") {
      r.value();
      return OrderEvent.NotSent(ParcelRefused.readFrom(r));
    }
    if (tag == "Returned") {
      r.value();
      return OrderEvent.Returned(PaymentReturned.readFrom(r));
    }
    r.fail("an unknown arm");
    return new OrderEvent(OrderEventTag.Placed);
  }

  schemaName(): string {
    return "market/OrderEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case OrderEventTag.Placed: {
        w.arm("Placed");
        this.placed.writeTo(w);
        break;
      }
      case OrderEventTag.Taken: {
        w.arm("Taken");
        this.taken.writeTo(w);
        break;
      }
      case OrderEventTag.Refused: {
        w.arm("Refused");
        this.refused.writeTo(w);
        break;
      }
      case OrderEventTag.Sent: {
        w.arm("Sent");
        this.sent.writeTo(w);
        break;
      }
      case OrderEventTag.NotSent: {
        w.arm("NotSent");
        this.notSent.writeTo(w);
        break;
      }
      case OrderEventTag.Returned: {
        w.arm("Returned");
        this.returned.writeTo(w);
        break;
      }
    }
  }
}

export enum OrderPhaseTag {
  Placed,
  Paid,
  Sent,
  Unpaid,
  Unsent,
  Returned,
}

/** market/OrderPhase@1: `tag` says which arm; an arm's value is in its own. */
export class OrderPhase extends aos.Schema {
  private _Sent: string | null = null;
  private _Unpaid: string | null = null;
  private _Unsent: string | null = null;
  private _Returned: string | null = null;

  constructor(public readonly tag: OrderPhaseTag) {
    super();
  }

  static Placed(): OrderPhase {
    return new OrderPhase(OrderPhaseTag.Placed);
  }

  static Paid(): OrderPhase {
    return new OrderPhase(OrderPhaseTag.Paid);
  }

  static Sent(value: string): OrderPhase {
    const made = new OrderPhase(OrderPhaseTag.Sent);
    made._Sent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get sent(): string {
    return this._Sent!;
  }

  static Unpaid(value: string): OrderPhase {
    const made = new OrderPhase(OrderPhaseTag.Unpaid);
    made._Unpaid = value;
    return made;
  }

  /** Traps when the arm is another. */
  get unpaid(): string {
    return this._Unpaid!;
  }

  static Unsent(value: string): OrderPhase {
    const made = new OrderPhase(OrderPhaseTag.Unsent);
    made._Unsent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get unsent(): string {
    return this._Unsent!;
  }

  static Returned(value: string): OrderPhase {
    const made = new OrderPhase(OrderPhaseTag.Returned);
    made._Returned = value;
    return made;
  }

  /** Traps when the arm is another. */
  get returned(): string {
    return this._Returned!;
  }

  static readFrom(r: aos.Reader): OrderPhase {
    const tag = r.tag();
    if (tag == "Placed") {
      r.noValue();
      return OrderPhase.Placed();
    }
    if (tag == "Paid") {
      r.noValue();
      return OrderPhase.Paid();
    }
    if (tag == "Sent") {
      r.value();
      return OrderPhase.Sent(r.text());
    }
    if (tag == "Unpaid") {
      r.value();
      return OrderPhase.Unpaid(r.text());
    }
    if (tag == "Unsent") {
      r.value();
      return OrderPhase.Unsent(r.text());
    }
    if (tag == "Returned") {
      r.value();
      return OrderPhase.Returned(r.text());
    }
    r.fail("an unknown arm");
    return new OrderPhase(OrderPhaseTag.Placed);
  }

  schemaName(): string {
    return "market/OrderPhase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case OrderPhaseTag.Placed: {
        w.unitArm("Placed");
        break;
      }
      case OrderPhaseTag.Paid: {
        w.unitArm("Paid");
        break;
      }
      case OrderPhaseTag.Sent: {
        w.arm("Sent");
        w.text(this.sent);
        break;
      }
      case OrderPhaseTag.Unpaid: {
        w.arm("Unpaid");
        w.text(this.unpaid);
        break;
      }
      case OrderPhaseTag.Unsent: {
        w.arm("Unsent");
        w.text(this.unsent);
        break;
      }
      case OrderPhaseTag.Returned: {
        w.arm("Returned");
        w.text(this.returned);
        break;
      }
    }
  }
}

/** market/OrderState@1 */
export class OrderState extends aos.Schema {
  constructor(
    public phase: OrderPhase = OrderPhase.Placed(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): OrderState {
    r.record(1);
    r.key("phase");
    const phase: OrderPhase = OrderPhase.readFrom(r);
    return new OrderState(phase);
  }

  schemaName(): string {
    return "market/OrderState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("phase");
    this.phase.writeTo(w);
  }
}

/** market/Parcel@1 */
export class Parcel extends aos.Schema {
  constructor(
    public order_id: string = "",
    public address: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Parcel {
    r.record(2);
    r.key("address");
    const address: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Parcel(order_id, address);
  }

  schemaName(): string {
    return "market/Parcel@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("address");
    w.text(this.address);
    w.key("order_id");
    w.text(this.order_id);
  }
}

export enum PaymentEventTag {
  Placed,
  NotSent,
  Receipt,
  Rejected,
}

/** market/PaymentEvent@1: `tag` says which arm; an arm's value is in its own. */
export class PaymentEvent extends aos.Schema {
  private _Placed: OrderPlaced | null = null;
  private _NotSent: ParcelRefused | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: PaymentEventTag) {
    super();
  }

  static Placed(value: OrderPlaced): PaymentEvent {
    const made = new PaymentEvent(PaymentEventTag.Placed);
    made._Placed = value;
    return made;
  }

  /** Traps when the arm is another. */
  get placed(): OrderPlaced {
    return this._Placed!;
  }

  static NotSent(value: ParcelRefused): PaymentEvent {
    const made = new PaymentEvent(PaymentEventTag.NotSent);
    made._NotSent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get notSent(): ParcelRefused {
    return this._NotSent!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): PaymentEvent {
    const made = new PaymentEvent(PaymentEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): PaymentEvent {
    const made = new PaymentEvent(PaymentEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): PaymentEvent {
    const tag = r.tag();
    if (tag == "Placed") {
      r.value();
      return PaymentEvent.Placed(OrderPlaced.readFrom(r));
    }
    if (tag == "NotSent") {
      r.value();
      return PaymentEvent.NotSent(ParcelRefused.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return PaymentEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return PaymentEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new PaymentEvent(PaymentEventTag.Placed);
  }

  schemaName(): string {
    return "market/PaymentEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case PaymentEventTag.Placed: {
        w.arm("Placed");
        this.placed.writeTo(w);
        break;
      }
      case PaymentEventTag.NotSent: {
        w.arm("NotSent");
        this.notSent.writeTo(w);
        break;
      }
      case PaymentEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case PaymentEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

export enum PaymentPhaseTag {
  New,
  Charging,
  Taken,
  Refused,
  Returning,
  Returned,
  Stuck,
}

/** market/PaymentPhase@1: `tag` says which arm; an arm's value is in its own. */
export class PaymentPhase extends aos.Schema {
  private _Stuck: string | null = null;

  constructor(public readonly tag: PaymentPhaseTag) {
    super();
  }

  static New(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.New);
  }

  static Charging(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.Charging);
  }

  static Taken(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.Taken);
  }

  static Refused(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.Refused);
  }

  static Returning(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.Returning);
  }

  static Returned(): PaymentPhase {
    return new PaymentPhase(PaymentPhaseTag.Returned);
  }

  static Stuck(value: string): PaymentPhase {
    const made = new PaymentPhase(PaymentPhaseTag.Stuck);
    made._Stuck = value;
    return made;
  }

  /** Traps when the arm is another. */
  get stuck(): string {
    return this._Stuck!;
  }

  static readFrom(r: aos.Reader): PaymentPhase {
    const tag = r.tag();
    if (tag == "New") {
      r.noValue();
      return PaymentPhase.New();
    }
    if (tag == "Charging") {
      r.noValue();
      return PaymentPhase.Charging();
    }
    if (tag == "Taken") {
      r.noValue();
      return PaymentPhase.Taken();
    }
    if (tag == "Refused") {
      r.noValue();
      return PaymentPhase.Refused();
    }
    if (tag == "Returning") {
      r.noValue();
      return PaymentPhase.Returning();
    }
    if (tag == "Returned") {
      r.noValue();
      return PaymentPhase.Returned();
    }
    if (tag == "Stuck") {
      r.value();
      return PaymentPhase.Stuck(r.text());
    }
    r.fail("an unknown arm");
    return new PaymentPhase(PaymentPhaseTag.New);
  }

  schemaName(): string {
    return "market/PaymentPhase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case PaymentPhaseTag.New: {
        w.unitArm("New");
        break;
      }
      case PaymentPhaseTag.Charging: {
        w.unitArm("Charging");
        break;
      }
      case PaymentPhaseTag.Taken: {
        w.unitArm("Taken");
        break;
      }
      case PaymentPhaseTag.Refused: {
        w.unitArm("Refused");
        break;
      }
      case PaymentPhaseTag.Returning: {
        w.unitArm("Returning");
        break;
      }
      case PaymentPhaseTag.Returned: {
        w.unitArm("Returned");
        break;
      }
      case PaymentPhaseTag.Stuck: {
        w.arm("Stuck");
        w.text(this.stuck);
        break;
      }
    }
  }
}

/** market/PaymentState@1 */
export class PaymentState extends aos.Schema {
  constructor(
    public phase: PaymentPhase = PaymentPhase.New(),
    public cents: u64 = 0,
    public charge: CardChargePending = new CardChargePending(),
    public refund: CardRefundPending = new CardRefundPending(),
    public again: aos.TimerSetPending = new aos.TimerSetPending(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PaymentState {
    r.record(5);
    r.key("again");
    const again: aos.TimerSetPending = aos.readPending<aos.TimerSetPending>(r);
    r.key("cents");
    const cents: u64 = r.nat();
    r.key("phase");
    const phase: PaymentPhase = PaymentPhase.readFrom(r);
    r.key("charge");
    const charge: CardChargePending = aos.readPending<CardChargePending>(r);
    r.key("refund");
    const refund: CardRefundPending = aos.readPending<CardRefundPending>(r);
    return new PaymentState(phase, cents, charge, refund, again);
  }

  schemaName(): string {
    return "market/PaymentState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("again");
    this.again.writeTo(w);
    w.key("cents");
    w.nat(this.cents);
    w.key("phase");
    this.phase.writeTo(w);
    w.key("charge");
    this.charge.writeTo(w);
    w.key("refund");
    this.refund.writeTo(w);
  }
}

/** market/Sent@1 */
export class Sent extends aos.Schema {
  constructor(
    public tracking: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Sent {
    r.record(1);
    r.key("tracking");
    const tracking: string = r.text();
    return new Sent(tracking);
  }

  schemaName(): string {
    return "market/Sent@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("tracking");
    w.text(this.tracking);
  }
}

/** market/card.charge@1: a request. */
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
    return "market/card.charge@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfCardCharge(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Booked> | null {
  if (receipt.status != "ok") {
    return aos.failed<Booked>(receipt, "market/card.charge@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Booked = Booked.readFrom(r);
  return aos.succeeded<Booked>(r, value, "market/card.charge@1");
}

/** market/card.charge@1: a handle on a request in flight. */
export class CardChargePending extends aos.Pending {
  start(effect: CardChargeEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Booked> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfCardCharge(receipt);
  }
}

/** market/card.charge@1: handles on requests in flight, each under a key. */
export class CardChargePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: CardChargeEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Booked> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfCardCharge(receipt);
    return outcome === null ? null : new aos.Settled<K, Booked>(key.value, outcome);
  }
}

/** market/card.refund@1: a request. */
export class CardRefundEffect extends aos.Effect {
  constructor(public params: Charge = new Charge()) {
    super();
  }

  withKey(idempotencyKey: string): CardRefundEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): CardRefundEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "market/card.refund@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfCardRefund(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Booked> | null {
  if (receipt.status != "ok") {
    return aos.failed<Booked>(receipt, "market/card.refund@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Booked = Booked.readFrom(r);
  return aos.succeeded<Booked>(r, value, "market/card.refund@1");
}

/** market/card.refund@1: a handle on a request in flight. */
export class CardRefundPending extends aos.Pending {
  start(effect: CardRefundEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Booked> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfCardRefund(receipt);
  }
}

/** market/card.refund@1: handles on requests in flight, each under a key. */
export class CardRefundPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: CardRefundEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Booked> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfCardRefund(receipt);
    return outcome === null ? null : new aos.Settled<K, Booked>(key.value, outcome);
  }
}

/** market/parcel.send@1: a request. */
export class ParcelSendEffect extends aos.Effect {
  constructor(public params: Parcel = new Parcel()) {
    super();
  }

  withKey(idempotencyKey: string): ParcelSendEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): ParcelSendEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "market/parcel.send@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfParcelSend(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Sent> | null {
  if (receipt.status != "ok") {
    return aos.failed<Sent>(receipt, "market/parcel.send@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Sent = Sent.readFrom(r);
  return aos.succeeded<Sent>(r, value, "market/parcel.send@1");
}

/** market/parcel.send@1: a handle on a request in flight. */
export class ParcelSendPending extends aos.Pending {
  start(effect: ParcelSendEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Sent> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfParcelSend(receipt);
  }
}

/** market/parcel.send@1: handles on requests in flight, each under a key. */
export class ParcelSendPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: ParcelSendEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Sent> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfParcelSend(receipt);
    return outcome === null ? null : new aos.Settled<K, Sent>(key.value, outcome);
  }
}

/** market/delivery@1: extend it, and export an entrypoint that runs it. */
export abstract class DeliveryWorkflow extends aos.Workflow {
  state: DeliveryState = new DeliveryState();
  /** Of the cell. */
  key: string = "";

  abstract onPlaced(event: OrderPlaced): void;
  abstract onTaken(event: PaymentTaken): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Placed") {
      const event: OrderPlaced = OrderPlaced.readFrom(r);
      if (r.done()) this.onPlaced(event);
      return;
    }
    if (tag == "Taken") {
      const event: PaymentTaken = PaymentTaken.readFrom(r);
      if (r.done()) this.onTaken(event);
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
    this.state = DeliveryState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** market/order@1: extend it, and export an entrypoint that runs it. */
export abstract class OrderWorkflow extends aos.Workflow {
  state: OrderState = new OrderState();
  /** Of the cell. */
  key: string = "";

  abstract onPlaced(event: OrderPlaced): void;
  abstract onTaken(event: PaymentTaken): void;
  abstract onRefused(event: PaymentRefused): void;
  abstract onSent(event: ParcelSent): void;
  abstract onNotSent(event: ParcelRefused): void;
  abstract onReturned(event: PaymentReturned): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Placed") {
      const event: OrderPlaced = OrderPlaced.readFrom(r);
      if (r.done()) this.onPlaced(event);
      return;
    }
    if (tag == "Taken") {
      const event: PaymentTaken = PaymentTaken.readFrom(r);
      if (r.done()) this.onTaken(event);
      return;
    }
    if (tag == "Refused") {
      const event: PaymentRefused = PaymentRefused.readFrom(r);
      if (r.done()) this.onRefused(event);
      return;
    }
    if (tag == "Sent") {
      const event: ParcelSent = ParcelSent.readFrom(r);
      if (r.done()) this.onSent(event);
      return;
    }
    if (tag == "NotSent") {
      const event: ParcelRefused = ParcelRefused.readFrom(r);
      if (r.done()) this.onNotSent(event);
      return;
    }
    if (tag == "Returned") {
      const event: PaymentReturned = PaymentReturned.readFrom(r);
      if (r.done()) this.onReturned(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = OrderState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** market/payment@1: extend it, and export an entrypoint that runs it. */
export abstract class PaymentWorkflow extends aos.Workflow {
  state: PaymentState = new PaymentState();
  /** Of the cell. */
  key: string = "";

  abstract onPlaced(event: OrderPlaced): void;
  abstract onNotSent(event: ParcelRefused): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Placed") {
      const event: OrderPlaced = OrderPlaced.readFrom(r);
      if (r.done()) this.onPlaced(event);
      return;
    }
    if (tag == "NotSent") {
      const event: ParcelRefused = ParcelRefused.readFrom(r);
      if (r.done()) this.onNotSent(event);
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
    this.state = PaymentState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

function read_option_text(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.text();
}

function write_option_text(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.text(value);
}
