// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

/** approval/Approved@1 */
export class Approved extends aos.Schema {
  constructor(
    public request_id: string = "",
    public by: string = "",
    public comment: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Approved {
    r.record(3);
    r.key("by");
    const by: string = r.text();
    r.key("comment");
    const comment: string | null = read_option_text(r);
    r.key("request_id");
    const request_id: string = r.text();
    return new Approved(request_id, by, comment);
  }

  schemaName(): string {
    return "approval/Approved@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("by");
    w.text(this.by);
    w.key("comment");
    write_option_text(w, this.comment);
    w.key("request_id");
    w.text(this.request_id);
  }
}

/** approval/Ask@1 */
export class Ask extends aos.Schema {
  constructor(
    public request_id: string = "",
    public person: string = "",
    public what: string = "",
    public is_escalation: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Ask {
    r.record(4);
    r.key("what");
    const what: string = r.text();
    r.key("person");
    const person: string = r.text();
    r.key("request_id");
    const request_id: string = r.text();
    r.key("is_escalation");
    const is_escalation: bool = r.bool();
    return new Ask(request_id, person, what, is_escalation);
  }

  schemaName(): string {
    return "approval/Ask@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("what");
    w.text(this.what);
    w.key("person");
    w.text(this.person);
    w.key("request_id");
    w.text(this.request_id);
    w.key("is_escalation");
    w.bool(this.is_escalation);
  }
}

/** approval/Asked@1 */
export class Asked extends aos.Schema {
  constructor(
    public message_id: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Asked {
    r.record(1);
    r.key("message_id");
    const message_id: string = r.text();
    return new Asked(message_id);
  }

  schemaName(): string {
    return "approval/Asked@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("message_id");
    w.text(this.message_id);
  }
}

/** approval/Denied@1 */
export class Denied extends aos.Schema {
  constructor(
    public request_id: string = "",
    public by: string = "",
    public reason: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Denied {
    r.record(3);
    r.key("by");
    const by: string = r.text();
    r.key("reason");
    const reason: string = r.text();
    r.key("request_id");
    const request_id: string = r.text();
    return new Denied(request_id, by, reason);
  }

  schemaName(): string {
    return "approval/Denied@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("by");
    w.text(this.by);
    w.key("reason");
    w.text(this.reason);
    w.key("request_id");
    w.text(this.request_id);
  }
}

/** approval/Ignored@1 */
export class Ignored extends aos.Schema {
  constructor(
    public request_id: string = "",
    public by: string = "",
    public why: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Ignored {
    r.record(3);
    r.key("by");
    const by: string = r.text();
    r.key("why");
    const why: string = r.text();
    r.key("request_id");
    const request_id: string = r.text();
    return new Ignored(request_id, by, why);
  }

  schemaName(): string {
    return "approval/Ignored@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("by");
    w.text(this.by);
    w.key("why");
    w.text(this.why);
    w.key("request_id");
    w.text(this.request_id);
  }
}

export enum VerdictTag {
  Approved,
  Denied,
  Expired,
  Withdrawn,
}

/** approval/Verdict@1: `tag` says which arm; an arm's value is in its own. */
export class Verdict extends aos.Schema {
  private _Denied: string | null = null;

  constructor(public readonly tag: VerdictTag) {
    super();
  }

  static Approved(): Verdict {
    return new Verdict(VerdictTag.Approved);
  }

  static Denied(value: string): Verdict {
    const made = new Verdict(VerdictTag.Denied);
    made._Denied = value;
    return made;
  }

  /** Traps when the arm is another. */
  get denied(): string {
    return this._Denied!;
  }

  static Expired(): Verdict {
    return new Verdict(VerdictTag.Expired);
  }

  static Withdrawn(): Verdict {
    return new Verdict(VerdictTag.Withdrawn);
  }

  static readFrom(r: aos.Reader): Verdict {
    const tag = r.tag();
    if (tag == "Approved") {
      r.noValue();
      return Verdict.Approved();
    }
    if (tag == "Denied") {
      r.value();
      return Verdict.Denied(r.text());
    }
    if (tag == "Expired") {
      r.noValue();
      return Verdict.Expired();
    }
    if (tag == "Withdrawn") {
      r.noValue();
      return Verdict.Withdrawn();
    }
    r.fail("an unknown arm");
    return new Verdict(VerdictTag.Approved);
  }

  schemaName(): string {
    return "approval/Verdict@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case VerdictTag.Approved: {
        w.unitArm("Approved");
        break;
      }
      case VerdictTag.Denied: {
        w.arm("Denied");
        w.text(this.denied);
        break;
      }
      case VerdictTag.Expired: {
        w.unitArm("Expired");
        break;
      }
      case VerdictTag.Withdrawn: {
        w.unitArm("Withdrawn");
        break;
      }
    }
  }
}

export enum PhaseTag {
  New,
  Open,
  Escalated,
  Settled,
}

/** approval/Phase@1: `tag` says which arm; an arm's value is in its own. */
export class Phase extends aos.Schema {
  private _Settled: Verdict | null = null;

  constructor(public readonly tag: PhaseTag) {
    super();
  }

  static New(): Phase {
    return new Phase(PhaseTag.New);
  }

  static Open(): Phase {
    return new Phase(PhaseTag.Open);
  }

  static Escalated(): Phase {
    return new Phase(PhaseTag.Escalated);
  }

  static Settled(value: Verdict): Phase {
    const made = new Phase(PhaseTag.Settled);
    made._Settled = value;
    return made;
  }

  /** Traps when the arm is another. */
  get settled(): Verdict {
    return this._Settled!;
  }

  static readFrom(r: aos.Reader): Phase {
    const tag = r.tag();
    if (tag == "New") {
      r.noValue();
      return Phase.New();
    }
    if (tag == "Open") {
      r.noValue();
      return Phase.Open();
    }
    if (tag == "Escalated") {
      r.noValue();
      return Phase.Escalated();
    }
    if (tag == "Settled") {
      r.value();
      return Phase.Settled(Verdict.readFrom(r));
    }
    r.fail("an unknown arm");
    return new Phase(PhaseTag.New);
  }

  schemaName(): string {
    return "approval/Phase@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case PhaseTag.New: {
        w.unitArm("New");
        break;
      }
      case PhaseTag.Open: {
        w.unitArm("Open");
        break;
      }
      case PhaseTag.Escalated: {
        w.unitArm("Escalated");
        break;
      }
      case PhaseTag.Settled: {
        w.arm("Settled");
        this.settled.writeTo(w);
        break;
      }
    }
  }
}

/** approval/Requested@1 */
export class Requested extends aos.Schema {
  constructor(
    public request_id: string = "",
    public what: string = "",
    public approvers: Array<string> = new Array<string>(),
    public chief: string = "",
    public patience: i64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Requested {
    r.record(5);
    r.key("what");
    const what: string = r.text();
    r.key("chief");
    const chief: string = r.text();
    r.key("patience");
    const patience: i64 = r.int();
    r.key("approvers");
    const approvers: Array<string> = read_list_text(r);
    r.key("request_id");
    const request_id: string = r.text();
    return new Requested(request_id, what, approvers, chief, patience);
  }

  schemaName(): string {
    return "approval/Requested@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("what");
    w.text(this.what);
    w.key("chief");
    w.text(this.chief);
    w.key("patience");
    w.int(this.patience);
    w.key("approvers");
    write_list_text(w, this.approvers);
    w.key("request_id");
    w.text(this.request_id);
  }
}

/** approval/Withdrawn@1 */
export class Withdrawn extends aos.Schema {
  constructor(
    public request_id: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Withdrawn {
    r.record(1);
    r.key("request_id");
    const request_id: string = r.text();
    return new Withdrawn(request_id);
  }

  schemaName(): string {
    return "approval/Withdrawn@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("request_id");
    w.text(this.request_id);
  }
}

export enum RequestEventTag {
  Requested,
  Approved,
  Denied,
  Withdrawn,
  Receipt,
  Rejected,
}

/** approval/RequestEvent@1: `tag` says which arm; an arm's value is in its own. */
export class RequestEvent extends aos.Schema {
  private _Requested: Requested | null = null;
  private _Approved: Approved | null = null;
  private _Denied: Denied | null = null;
  private _Withdrawn: Withdrawn | null = null;
  private _Receipt: aos.EffectReceiptEnvelope | null = null;
  private _Rejected: aos.EffectReceiptRejected | null = null;

  constructor(public readonly tag: RequestEventTag) {
    super();
  }

  static Requested(value: Requested): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Requested);
    made._Requested = value;
    return made;
  }

  /** Traps when the arm is another. */
  get requested(): Requested {
    return this._Requested!;
  }

  static Approved(value: Approved): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Approved);
    made._Approved = value;
    return made;
  }

  /** Traps when the arm is another. */
  get approved(): Approved {
    return this._Approved!;
  }

  static Denied(value: Denied): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Denied);
    made._Denied = value;
    return made;
  }

  /** Traps when the arm is another. */
  get denied(): Denied {
    return this._Denied!;
  }

  static Withdrawn(value: Withdrawn): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Withdrawn);
    made._Withdrawn = value;
    return made;
  }

  /** Traps when the arm is another. */
  get withdrawn(): Withdrawn {
    return this._Withdrawn!;
  }

  static Receipt(value: aos.EffectReceiptEnvelope): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Receipt);
    made._Receipt = value;
    return made;
  }

  /** Traps when the arm is another. */
  get receipt(): aos.EffectReceiptEnvelope {
    return this._Receipt!;
  }

  static Rejected(value: aos.EffectReceiptRejected): RequestEvent {
    const made = new RequestEvent(RequestEventTag.Rejected);
    made._Rejected = value;
    return made;
  }

  /** Traps when the arm is another. */
  get rejected(): aos.EffectReceiptRejected {
    return this._Rejected!;
  }

  static readFrom(r: aos.Reader): RequestEvent {
    const tag = r.tag();
    if (tag == "Requested") {
      r.value();
      return RequestEvent.Requested(Requested.readFrom(r));
    }
    if (tag == "Approved") {
      r.value();
      return RequestEvent.Approved(Approved.readFrom(r));
    }
    if (tag == "Denied") {
      r.value();
      return RequestEvent.Denied(Denied.readFrom(r));
    }
    if (tag == "Withdrawn") {
      r.value();
      return RequestEvent.Withdrawn(Withdrawn.readFrom(r));
    }
    if (tag == "Receipt") {
      r.value();
      return RequestEvent.Receipt(aos.EffectReceiptEnvelope.readFrom(r));
    }
    if (tag == "Rejected") {
      r.value();
      return RequestEvent.Rejected(aos.EffectReceiptRejected.readFrom(r));
    }
    r.fail("an unknown arm");
    return new RequestEvent(RequestEventTag.Requested);
  }

  schemaName(): string {
    return "approval/RequestEvent@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case RequestEventTag.Requested: {
        w.arm("Requested");
        this.requested.writeTo(w);
        break;
      }
      case RequestEventTag.Approved: {
        w.arm("Approved");
        this.approved.writeTo(w);
        break;
      }
      case RequestEventTag.Denied: {
        w.arm("Denied");
        this.denied.writeTo(w);
        break;
      }
      case RequestEventTag.Withdrawn: {
        w.arm("Withdrawn");
        this.withdrawn.writeTo(w);
        break;
      }
      case RequestEventTag.Receipt: {
        w.arm("Receipt");
        this.receipt.writeTo(w);
        break;
      }
      case RequestEventTag.Rejected: {
        w.arm("Rejected");
        this.rejected.writeTo(w);
        break;
      }
    }
  }
}

/** approval/RequestState@1 */
export class RequestState extends aos.Schema {
  constructor(
    public phase: Phase = Phase.New(),
    public what: string = "",
    public approvers: Array<string> = new Array<string>(),
    public chief: string = "",
    public patience: i64 = 0,
    public deadline: aos.TimerSetPending = new aos.TimerSetPending(),
    public comment: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): RequestState {
    r.record(7);
    r.key("what");
    const what: string = r.text();
    r.key("chief");
    const chief: string = r.text();
    r.key("phase");
    const phase: Phase = Phase.readFrom(r);
    r.key("comment");
    const comment: string | null = read_option_text(r);
    r.key("deadline");
    const deadline: aos.TimerSetPending = aos.readPending<aos.TimerSetPending>(r);
    r.key("patience");
    const patience: i64 = r.int();
    r.key("approvers");
    const approvers: Array<string> = read_list_text(r);
    return new RequestState(phase, what, approvers, chief, patience, deadline, comment);
  }

  schemaName(): string {
    return "approval/RequestState@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("what");
    w.text(this.what);
    w.key("chief");
    w.text(this.chief);
    w.key("phase");
    this.phase.writeTo(w);
    w.key("comment");
    write_option_text(w, this.comment);
    w.key("deadline");
    this.deadline.writeTo(w);
    w.key("patience");
    w.int(this.patience);
    w.key("approvers");
    write_list_text(w, this.approvers);
  }
}

/** approval/RequestState@2 */
export class RequestStateV2 extends aos.Schema {
  constructor(
    public phase: Phase = Phase.New(),
    public what: string = "",
    public approvers: Array<string> = new Array<string>(),
    public chief: string = "",
    public patience: i64 = 0,
    public deadline: aos.TimerSetPending = new aos.TimerSetPending(),
    public comment: string | null = null,
    public needed: u64 = 0,
    public approved_by: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): RequestStateV2 {
    r.record(9);
    r.key("what");
    const what: string = r.text();
    r.key("chief");
    const chief: string = r.text();
    r.key("phase");
    const phase: Phase = Phase.readFrom(r);
    r.key("needed");
    const needed: u64 = r.nat();
    r.key("comment");
    const comment: string | null = read_option_text(r);
    r.key("deadline");
    const deadline: aos.TimerSetPending = aos.readPending<aos.TimerSetPending>(r);
    r.key("patience");
    const patience: i64 = r.int();
    r.key("approvers");
    const approvers: Array<string> = read_list_text(r);
    r.key("approved_by");
    const approved_by: Array<string> = read_list_text(r);
    return new RequestStateV2(phase, what, approvers, chief, patience, deadline, comment, needed, approved_by);
  }

  schemaName(): string {
    return "approval/RequestState@2";
  }

  writeTo(w: aos.Writer): void {
    w.record(9);
    w.key("what");
    w.text(this.what);
    w.key("chief");
    w.text(this.chief);
    w.key("phase");
    this.phase.writeTo(w);
    w.key("needed");
    w.nat(this.needed);
    w.key("comment");
    write_option_text(w, this.comment);
    w.key("deadline");
    this.deadline.writeTo(w);
    w.key("patience");
    w.int(this.patience);
    w.key("approvers");
    write_list_text(w, this.approvers);
    w.key("approved_by");
    write_list_text(w, this.approved_by);
  }
}

/** approval/Settled@1 */
export class Settled extends aos.Schema {
  constructor(
    public request_id: string = "",
    public verdict: Verdict = Verdict.Approved(),
    public by: string | null = null,
    public comment: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Settled {
    r.record(4);
    r.key("by");
    const by: string | null = read_option_text(r);
    r.key("comment");
    const comment: string | null = read_option_text(r);
    r.key("verdict");
    const verdict: Verdict = Verdict.readFrom(r);
    r.key("request_id");
    const request_id: string = r.text();
    return new Settled(request_id, verdict, by, comment);
  }

  schemaName(): string {
    return "approval/Settled@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("by");
    write_option_text(w, this.by);
    w.key("comment");
    write_option_text(w, this.comment);
    w.key("verdict");
    this.verdict.writeTo(w);
    w.key("request_id");
    w.text(this.request_id);
  }
}

/** approval/ask@1: a request. */
export class AskEffect extends aos.Effect {
  constructor(public params: Ask = new Ask()) {
    super();
  }

  withKey(idempotencyKey: string): AskEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): AskEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "approval/ask@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfAsk(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Asked> | null {
  if (receipt.status != "ok") {
    return aos.failed<Asked>(receipt, "approval/ask@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Asked = Asked.readFrom(r);
  return aos.succeeded<Asked>(r, value, "approval/ask@1");
}

/** approval/ask@1: a handle on a request in flight. */
export class AskPending extends aos.Pending {
  start(effect: AskEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Asked> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfAsk(receipt);
  }
}

/** approval/ask@1: handles on requests in flight, each under a key. */
export class AskPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: AskEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Asked> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfAsk(receipt);
    return outcome === null ? null : new aos.Settled<K, Asked>(key.value, outcome);
  }
}

/** approval/request@1: extend it, and export an entrypoint that runs it. */
export abstract class RequestWorkflow extends aos.Workflow {
  state: RequestStateV2 = new RequestStateV2();
  /** Of the cell. */
  key: string = "";

  abstract onRequested(event: Requested): void;
  abstract onApproved(event: Approved): void;
  abstract onDenied(event: Denied): void;
  abstract onWithdrawn(event: Withdrawn): void;
  abstract onReceipt(event: aos.EffectReceiptEnvelope): void;
  abstract onRejected(event: aos.EffectReceiptRejected): void;

  aosHandle(r: aos.Reader): void {
    const tag = r.tag();
    r.value();
    if (tag == "Requested") {
      const event: Requested = Requested.readFrom(r);
      if (r.done()) this.onRequested(event);
      return;
    }
    if (tag == "Approved") {
      const event: Approved = Approved.readFrom(r);
      if (r.done()) this.onApproved(event);
      return;
    }
    if (tag == "Denied") {
      const event: Denied = Denied.readFrom(r);
      if (r.done()) this.onDenied(event);
      return;
    }
    if (tag == "Withdrawn") {
      const event: Withdrawn = Withdrawn.readFrom(r);
      if (r.done()) this.onWithdrawn(event);
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
    this.state = RequestStateV2.readFrom(r);
  }

  aosWriteState(w: aos.Writer): void {
    this.state.writeTo(w);
  }
}

/** approval/request@1, from approval/RequestState@1: extend it, and export an entrypoint that runs it. */
export abstract class RequestMigration extends aos.Migration {
  /** Of the cell. */
  key: string = "";

  /** The state that takes the place of `old`. */
  abstract migrate(old: RequestState): RequestStateV2;

  aosReadKey(r: aos.Reader): void {
    this.key = r.text();
  }

  aosMigrate(r: aos.Reader, w: aos.Writer): void {
    const old: RequestState = RequestState.readFrom(r);
    if (!r.done()) return;
    const made: RequestStateV2 = this.migrate(old);
    made.writeTo(w);
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

function read_option_text(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.text();
}

function write_option_text(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.text(value);
}
