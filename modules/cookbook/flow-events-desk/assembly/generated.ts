// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

/** parcel/Arrived@1 */
export class Arrived extends aos.Schema {
  constructor(
    public van: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Arrived {
    r.record(1);
    r.key("van");
    const van: string = r.text();
    return new Arrived(van);
  }

  schemaName(): string {
    return "parcel/Arrived@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("van");
    w.text(this.van);
  }
}

/** parcel/Bought@1 */
export class Bought extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Bought {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Bought(order_id, city);
  }

  schemaName(): string {
    return "parcel/Bought@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** parcel/Deliver@1 */
export class Deliver extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Deliver {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Deliver(order_id, city);
  }

  schemaName(): string {
    return "parcel/Deliver@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** parcel/Delivered@1 */
export class Delivered extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Delivered {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Delivered(order_id, city);
  }

  schemaName(): string {
    return "parcel/Delivered@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

export class DeliveryControlCommandCancelParent {
  constructor(
    public schema: string = "",
    public key: Uint8Array = new Uint8Array(0),
    public path: string = "",
    public attempt: u64 = 0,
  ) {
  }

  static readFrom(r: aos.Reader): DeliveryControlCommandCancelParent {
    r.record(4);
    r.key("key");
    const key: Uint8Array = r.bytes();
    r.key("path");
    const path: string = r.text();
    r.key("schema");
    const schema: string = r.text();
    r.key("attempt");
    const attempt: u64 = r.nat();
    return new DeliveryControlCommandCancelParent(schema, key, path, attempt);
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("key");
    w.bytes(this.key);
    w.key("path");
    w.text(this.path);
    w.key("schema");
    w.text(this.schema);
    w.key("attempt");
    w.nat(this.attempt);
  }
}

export class DeliveryControlCommandCancel {
  constructor(
    public rollback: bool = false,
    public parent: DeliveryControlCommandCancelParent | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): DeliveryControlCommandCancel {
    r.record(2);
    r.key("parent");
    const parent: DeliveryControlCommandCancelParent | null = read_option_DeliveryControlCommandCancelParent(r);
    r.key("rollback");
    const rollback: bool = r.bool();
    return new DeliveryControlCommandCancel(rollback, parent);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("parent");
    write_option_DeliveryControlCommandCancelParent(w, this.parent);
    w.key("rollback");
    w.bool(this.rollback);
  }
}

export class DeliveryControlCommandResume {
  constructor(
    public skip: bool = false,
  ) {
  }

  static readFrom(r: aos.Reader): DeliveryControlCommandResume {
    r.record(1);
    r.key("skip");
    const skip: bool = r.bool();
    return new DeliveryControlCommandResume(skip);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("skip");
    w.bool(this.skip);
  }
}

export enum DeliveryControlCommandTag {
  Cancel,
  Resume,
  Continue,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class DeliveryControlCommand {
  private _Cancel: DeliveryControlCommandCancel | null = null;
  private _Resume: DeliveryControlCommandResume | null = null;

  constructor(public readonly tag: DeliveryControlCommandTag) {
  }

  static Cancel(value: DeliveryControlCommandCancel): DeliveryControlCommand {
    const made = new DeliveryControlCommand(DeliveryControlCommandTag.Cancel);
    made._Cancel = value;
    return made;
  }

  /** Traps when the arm is another. */
  get cancel(): DeliveryControlCommandCancel {
    return this._Cancel!;
  }

  static Resume(value: DeliveryControlCommandResume): DeliveryControlCommand {
    const made = new DeliveryControlCommand(DeliveryControlCommandTag.Resume);
    made._Resume = value;
    return made;
  }

  /** Traps when the arm is another. */
  get resume(): DeliveryControlCommandResume {
    return this._Resume!;
  }

  static Continue(): DeliveryControlCommand {
    return new DeliveryControlCommand(DeliveryControlCommandTag.Continue);
  }

  static readFrom(r: aos.Reader): DeliveryControlCommand {
    const tag = r.tag();
    if (tag == "Cancel") {
      r.value();
      return DeliveryControlCommand.Cancel(DeliveryControlCommandCancel.readFrom(r));
    }
    if (tag == "Resume") {
      r.value();
      return DeliveryControlCommand.Resume(DeliveryControlCommandResume.readFrom(r));
    }
    if (tag == "Continue") {
      r.noValue();
      return DeliveryControlCommand.Continue();
    }
    r.fail("an unknown arm");
    return new DeliveryControlCommand(DeliveryControlCommandTag.Cancel);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case DeliveryControlCommandTag.Cancel: {
        w.arm("Cancel");
        this.cancel.writeTo(w);
        break;
      }
      case DeliveryControlCommandTag.Resume: {
        w.arm("Resume");
        this.resume.writeTo(w);
        break;
      }
      case DeliveryControlCommandTag.Continue: {
        w.unitArm("Continue");
        break;
      }
    }
  }
}

/** parcel/DeliveryControl@1 */
export class DeliveryControl extends aos.Schema {
  constructor(
    public instance: string = "",
    public command: DeliveryControlCommand = DeliveryControlCommand.Cancel(new DeliveryControlCommandCancel()),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): DeliveryControl {
    r.record(2);
    r.key("command");
    const command: DeliveryControlCommand = DeliveryControlCommand.readFrom(r);
    r.key("instance");
    const instance: string = r.text();
    return new DeliveryControl(instance, command);
  }

  schemaName(): string {
    return "parcel/DeliveryControl@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("command");
    this.command.writeTo(w);
    w.key("instance");
    w.text(this.instance);
  }
}

/** parcel/Moved@1 */
export class Moved extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Moved {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Moved(order_id, city);
  }

  schemaName(): string {
    return "parcel/Moved@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** parcel/Lost@1 */
export class Lost extends aos.Schema {
  constructor(
    public order_id: string = "",
    public why: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Lost {
    r.record(2);
    r.key("why");
    const why: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Lost(order_id, why);
  }

  schemaName(): string {
    return "parcel/Lost@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("why");
    w.text(this.why);
    w.key("order_id");
    w.text(this.order_id);
  }
}

export enum DeskEventTag {
  Bought,
  Moved,
  Delivered,
  Lost,
}

/** parcel/DeskEvent@1: `tag` says which arm; an arm's value is in its own. */
export class DeskEvent extends aos.Schema {
  private _Bought: Bought | null = null;
  private _Moved: Moved | null = null;
  private _Delivered: Delivered | null = null;
  private _Lost: Lost | null = null;

  constructor(public readonly tag: DeskEventTag) {
    super();
  }

  static Bought(value: Bought): DeskEvent {
    const made = new DeskEvent(DeskEventTag.Bought);
    made._Bought = value;
    return made;
  }

  /** Traps when the arm is another. */
  get bought(): Bought {
    return this._Bought!;
  }

  static Moved(value: Moved): DeskEvent {
    const made = new DeskEvent(DeskEventTag.Moved);
    made._Moved = value;
    return made;
  }

  /** Traps when the arm is another. */
  get moved(): Moved {
    return this._Moved!;
  }

  static Delivered(value: Delivered): DeskEvent {
    const made = new DeskEvent(DeskEventTag.Delivered);
    made._Delivered = value;
    return made;
  }

  /** Traps when the arm is another. */
  get delivered(): Delivered {
    return this._Delivered!;
  }

  static Lost(value: Lost): DeskEvent {
    const made = new DeskEvent(DeskEventTag.Lost);
    made._Lost = value;
    return made;
  }

  /** Traps when the arm is another. */
  get lost(): Lost {
    return this._Lost!;
  }

  static readFrom(r: aos.Reader): DeskEvent {
    const tag = r.tag();
    if (tag == "Bought") {
      r.value();
      return DeskEvent.Bought(Bought.readFrom(r));
    }
    if (tag == "Moved") {
      r.value();
      return DeskEvent.Moved(Moved.readFrom(r));
    }
    if (tag == "Delivered") {
      r.value();
      return DeskEvent.Delivered(Delivered.readFrom(r));
    }
    if (tag == "Lost") {
      r.value();
      return DeskEvent.Lost(Lost.readFrom(r));
    }
    r.fail("an unknown arm");
    return new DeskEvent(DeskEventTag.Bought);
  }

  schemaName(): string {
    return "parcel/DeskEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case DeskEventTag.Bought: {
        w.arm("Bought");
        this.bought.writeTo(w);
        break;
      }
      case DeskEventTag.Moved: {
        w.arm("Moved");
        this.moved.writeTo(w);
        break;
      }
      case DeskEventTag.Delivered: {
        w.arm("Delivered");
        this.delivered.writeTo(w);
        break;
      }
      case DeskEventTag.Lost: {
        w.arm("Lost");
        this.lost.writeTo(w);
        break;
      }
    }
  }
}

export enum DeskPhaseTag {
  New,
  Sent,
  Delivered,
  Lost,
}

/** parcel/DeskPhase@1: `tag` says which arm; an arm's value is in its own. */
export class DeskPhase extends aos.Schema {
  private _Sent: string | null = null;
  private _Delivered: string | null = null;
  private _Lost: string | null = null;

  constructor(public readonly tag: DeskPhaseTag) {
    super();
  }

  static New(): DeskPhase {
    return new DeskPhase(DeskPhaseTag.New);
  }

  static Sent(value: string): DeskPhase {
    const made = new DeskPhase(DeskPhaseTag.Sent);
    made._Sent = value;
    return made;
  }

  /** Traps when the arm is another. */
  get sent(): string {
    return this._Sent!;
  }

  static Delivered(value: string): DeskPhase {
    const made = new DeskPhase(DeskPhaseTag.Delivered);
    made._Delivered = value;
    return made;
  }

  /** Traps when the arm is another. */
  get delivered(): string {
    return this._Delivered!;
  }

  static Lost(value: string): DeskPhase {
    const made = new DeskPhase(DeskPhaseTag.Lost);
    made._Lost = value;
    return made;
  }

  /** Traps when the arm is another. */
  get lost(): string {
    return this._Lost!;
  }

  static readFrom(r: aos.Reader): DeskPhase {
    const tag = r.tag();
    if (tag == "New") {
      r.noValue();
      return DeskPhase.New();
    }
    if (tag == "Sent") {
      r.value();
      return DeskPhase.Sent(r.text());
    }
    if (tag == "Delivered") {
      r.value();
      return DeskPhase.Delivered(r.text());
    }
    if (tag == "Lost") {
      r.value();
      return DeskPhase.Lost(r.text());
    }
    r.fail("an unknown arm");
    return new DeskPhase(DeskPhaseTag.New);
  }

  schemaName(): string {
    return "parcel/DeskPhase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case DeskPhaseTag.New: {
        w.unitArm("New");
        break;
      }
      case DeskPhaseTag.Sent: {
        w.arm("Sent");
        w.text(this.sent);
        break;
      }
      case DeskPhaseTag.Delivered: {
        w.arm("Delivered");
        w.text(this.delivered);
        break;
      }
      case DeskPhaseTag.Lost: {
        w.arm("Lost");
        w.text(this.lost);
        break;
      }
    }
  }
}

/** parcel/DeskState@1 */
export class DeskState extends aos.Schema {
  constructor(
    public phase: DeskPhase = DeskPhase.New(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): DeskState {
    r.record(1);
    r.key("phase");
    const phase: DeskPhase = DeskPhase.readFrom(r);
    return new DeskState(phase);
  }

  schemaName(): string {
    return "parcel/DeskState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("phase");
    this.phase.writeTo(w);
  }
}

/** parcel/Redirect@1 */
export class Redirect extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Redirect {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new Redirect(order_id, city);
  }

  schemaName(): string {
    return "parcel/Redirect@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** parcel/VanDriveParams@1 */
export class VanDriveParams extends aos.Schema {
  constructor(
    public order_id: string = "",
    public city: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): VanDriveParams {
    r.record(2);
    r.key("city");
    const city: string = r.text();
    r.key("order_id");
    const order_id: string = r.text();
    return new VanDriveParams(order_id, city);
  }

  schemaName(): string {
    return "parcel/VanDriveParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("city");
    w.text(this.city);
    w.key("order_id");
    w.text(this.order_id);
  }
}

/** parcel/van.drive@1: a request. */
export class VanDriveEffect extends aos.Effect {
  constructor(public params: VanDriveParams = new VanDriveParams()) {
    super();
  }

  withKey(idempotencyKey: string): VanDriveEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): VanDriveEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "parcel/van.drive@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfVanDrive(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Arrived> | null {
  if (receipt.status != "ok") {
    return aos.failed<Arrived>(receipt, "parcel/van.drive@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Arrived = Arrived.readFrom(r);
  return aos.succeeded<Arrived>(r, value, "parcel/van.drive@1");
}

/** parcel/van.drive@1: a handle on a request in flight. */
export class VanDrivePending extends aos.Pending {
  start(effect: VanDriveEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Arrived> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfVanDrive(receipt);
  }
}

/** parcel/van.drive@1: handles on requests in flight, each under a key. */
export class VanDrivePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: VanDriveEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Arrived> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfVanDrive(receipt);
    return outcome === null ? null : new aos.Settled<K, Arrived>(key.value, outcome);
  }
}

/** parcel/desk@1: extend it, and export an entrypoint that runs it. */
export abstract class DeskWorkflow extends aos.Workflow {
  state: DeskState = new DeskState();
  /** Of the cell. */
  key: string = "";

  abstract onBought(event: Bought): void;
  abstract onMoved(event: Moved): void;
  abstract onDelivered(event: Delivered): void;
  abstract onLost(event: Lost): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Bought") {
      const event: Bought = Bought.readFrom(r);
      if (r.done()) this.onBought(event);
      return;
    }
    if (tag == "Moved") {
      const event: Moved = Moved.readFrom(r);
      if (r.done()) this.onMoved(event);
      return;
    }
    if (tag == "Delivered") {
      const event: Delivered = Delivered.readFrom(r);
      if (r.done()) this.onDelivered(event);
      return;
    }
    if (tag == "Lost") {
      const event: Lost = Lost.readFrom(r);
      if (r.done()) this.onLost(event);
      return;
    }
    r.fail("an unknown arm");
  }

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosReadState(r: aos.Reader): void {
    this.state = DeskState.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

function read_option_DeliveryControlCommandCancelParent(r: aos.Reader): DeliveryControlCommandCancelParent | null {
  if (r.isNull()) return null;
  return DeliveryControlCommandCancelParent.readFrom(r);
}

function write_option_DeliveryControlCommandCancelParent(w: aos.Writer, value: DeliveryControlCommandCancelParent | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}
