// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "../index";

/** sys/BlobEdge@1 */
export class BlobEdge extends aos.Schema {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public refs: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobEdge {
    r.record(2);
    r.key("refs");
    const refs: Array<string> = read_list_hash(r);
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    return new BlobEdge(blob_ref, refs);
  }

  schemaName(): string {
    return "sys/BlobEdge@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("refs");
    write_list_hash(w, this.refs);
    w.key("blob_ref");
    w.hash(this.blob_ref);
  }
}

/** sys/BlobGetParams@1 */
export class BlobGetParams extends aos.Schema {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobGetParams {
    r.record(1);
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    return new BlobGetParams(blob_ref);
  }

  schemaName(): string {
    return "sys/BlobGetParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("blob_ref");
    w.hash(this.blob_ref);
  }
}

/** sys/BlobGetReceipt@1 */
export class BlobGetReceipt extends aos.Schema {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
    public bytes: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobGetReceipt {
    r.record(3);
    r.key("size");
    const size: u64 = r.nat();
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    return new BlobGetReceipt(blob_ref, size, bytes);
  }

  schemaName(): string {
    return "sys/BlobGetReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("size");
    w.nat(this.size);
    w.key("bytes");
    w.bytes(this.bytes);
    w.key("blob_ref");
    w.hash(this.blob_ref);
  }
}

/** sys/BlobGetResult@1 */
export class BlobGetResult extends aos.Schema {
  constructor(
    public intent_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public workflow: string = "",
    public effect: string = "",
    public status: string = "",
    public requested: BlobGetParams = new BlobGetParams(),
    public receipt: BlobGetReceipt = new BlobGetReceipt(),
    public cost_cents: aos.Some<u64> | null = null,
    public signature: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobGetResult {
    r.record(8);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    r.key("receipt");
    const receipt: BlobGetReceipt = BlobGetReceipt.readFrom(r);
    r.key("workflow");
    const workflow: string = r.text();
    r.key("requested");
    const requested: BlobGetParams = BlobGetParams.readFrom(r);
    r.key("signature");
    const signature: Uint8Array = r.bytes();
    r.key("cost_cents");
    const cost_cents: aos.Some<u64> | null = read_option_nat(r);
    r.key("intent_hash");
    const intent_hash: string = r.hash();
    return new BlobGetResult(intent_hash, workflow, effect, status, requested, receipt, cost_cents, signature);
  }

  schemaName(): string {
    return "sys/BlobGetResult@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(8);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
    w.key("receipt");
    this.receipt.writeTo(w);
    w.key("workflow");
    w.text(this.workflow);
    w.key("requested");
    this.requested.writeTo(w);
    w.key("signature");
    w.bytes(this.signature);
    w.key("cost_cents");
    write_option_nat(w, this.cost_cents);
    w.key("intent_hash");
    w.hash(this.intent_hash);
  }
}

/** sys/BlobPutParams@1 */
export class BlobPutParams extends aos.Schema {
  constructor(
    public bytes: Uint8Array = new Uint8Array(0),
    public blob_ref: string | null = null,
    public refs: Array<string> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobPutParams {
    r.record(3);
    r.key("refs");
    const refs: Array<string> | null = read_option_list_hash(r);
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    r.key("blob_ref");
    const blob_ref: string | null = read_option_hash(r);
    return new BlobPutParams(bytes, blob_ref, refs);
  }

  schemaName(): string {
    return "sys/BlobPutParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("refs");
    write_option_list_hash(w, this.refs);
    w.key("bytes");
    w.bytes(this.bytes);
    w.key("blob_ref");
    write_option_hash(w, this.blob_ref);
  }
}

/** sys/BlobPutReceipt@1 */
export class BlobPutReceipt extends aos.Schema {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public edge_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobPutReceipt {
    r.record(3);
    r.key("size");
    const size: u64 = r.nat();
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    r.key("edge_ref");
    const edge_ref: string = r.hash();
    return new BlobPutReceipt(blob_ref, edge_ref, size);
  }

  schemaName(): string {
    return "sys/BlobPutReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("size");
    w.nat(this.size);
    w.key("blob_ref");
    w.hash(this.blob_ref);
    w.key("edge_ref");
    w.hash(this.edge_ref);
  }
}

/** sys/BlobPutResult@1 */
export class BlobPutResult extends aos.Schema {
  constructor(
    public intent_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public workflow: string = "",
    public effect: string = "",
    public status: string = "",
    public requested: BlobPutParams = new BlobPutParams(),
    public receipt: BlobPutReceipt = new BlobPutReceipt(),
    public cost_cents: aos.Some<u64> | null = null,
    public signature: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): BlobPutResult {
    r.record(8);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    r.key("receipt");
    const receipt: BlobPutReceipt = BlobPutReceipt.readFrom(r);
    r.key("workflow");
    const workflow: string = r.text();
    r.key("requested");
    const requested: BlobPutParams = BlobPutParams.readFrom(r);
    r.key("signature");
    const signature: Uint8Array = r.bytes();
    r.key("cost_cents");
    const cost_cents: aos.Some<u64> | null = read_option_nat(r);
    r.key("intent_hash");
    const intent_hash: string = r.hash();
    return new BlobPutResult(intent_hash, workflow, effect, status, requested, receipt, cost_cents, signature);
  }

  schemaName(): string {
    return "sys/BlobPutResult@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(8);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
    w.key("receipt");
    this.receipt.writeTo(w);
    w.key("workflow");
    w.text(this.workflow);
    w.key("requested");
    this.requested.writeTo(w);
    w.key("signature");
    w.bytes(this.signature);
    w.key("cost_cents");
    write_option_nat(w, this.cost_cents);
    w.key("intent_hash");
    w.hash(this.intent_hash);
  }
}

/** sys/SecretRef@1 */
export class SecretRef extends aos.Schema {
  constructor(
    public alias: string = "",
    public version: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): SecretRef {
    r.record(2);
    r.key("alias");
    const alias: string = r.text();
    r.key("version");
    const version: u64 = r.nat();
    return new SecretRef(alias, version);
  }

  schemaName(): string {
    return "sys/SecretRef@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("alias");
    w.text(this.alias);
    w.key("version");
    w.nat(this.version);
  }
}

export enum BytesOrSecretRefTag {
  literal,
  secret,
}

/** sys/BytesOrSecretRef@1: `tag` says which arm; an arm's value is in its own. */
export class BytesOrSecretRef extends aos.Schema {
  private _literal: Uint8Array | null = null;
  private _secret: SecretRef | null = null;

  constructor(public readonly tag: BytesOrSecretRefTag) {
    super();
  }

  static literal(value: Uint8Array): BytesOrSecretRef {
    const made = new BytesOrSecretRef(BytesOrSecretRefTag.literal);
    made._literal = value;
    return made;
  }

  /** Traps when the arm is another. */
  get literal(): Uint8Array {
    return this._literal!;
  }

  static secret(value: SecretRef): BytesOrSecretRef {
    const made = new BytesOrSecretRef(BytesOrSecretRefTag.secret);
    made._secret = value;
    return made;
  }

  /** Traps when the arm is another. */
  get secret(): SecretRef {
    return this._secret!;
  }

  static readFrom(r: aos.Reader): BytesOrSecretRef {
    const tag = r.tag();
    if (tag == "literal") {
      r.value();
      return BytesOrSecretRef.literal(r.bytes());
    }
    if (tag == "secret") {
      r.value();
      return BytesOrSecretRef.secret(SecretRef.readFrom(r));
    }
    r.fail("an unknown arm");
    return new BytesOrSecretRef(BytesOrSecretRefTag.literal);
  }

  schemaName(): string {
    return "sys/BytesOrSecretRef@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case BytesOrSecretRefTag.literal: {
        w.arm("literal");
        w.bytes(this.literal);
        break;
      }
      case BytesOrSecretRefTag.secret: {
        w.arm("secret");
        this.secret.writeTo(w);
        break;
      }
    }
  }
}

/** sys/CronNextParams@1 */
export class CronNextParams extends aos.Schema {
  constructor(
    public cron: string = "",
    public tz: string = "",
    public after_ns: u64 = 0,
    public count: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): CronNextParams {
    r.record(4);
    r.key("tz");
    const tz: string = r.text();
    r.key("cron");
    const cron: string = r.text();
    r.key("count");
    const count: u64 = r.nat();
    r.key("after_ns");
    const after_ns: u64 = r.nat();
    return new CronNextParams(cron, tz, after_ns, count);
  }

  schemaName(): string {
    return "sys/CronNextParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("tz");
    w.text(this.tz);
    w.key("cron");
    w.text(this.cron);
    w.key("count");
    w.nat(this.count);
    w.key("after_ns");
    w.nat(this.after_ns);
  }
}

/** sys/CronNextReceipt@1 */
export class CronNextReceipt extends aos.Schema {
  constructor(
    public times: Array<u64> = new Array<u64>(),
    public tzdata: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): CronNextReceipt {
    r.record(2);
    r.key("times");
    const times: Array<u64> = read_list_nat(r);
    r.key("tzdata");
    const tzdata: string = r.text();
    return new CronNextReceipt(times, tzdata);
  }

  schemaName(): string {
    return "sys/CronNextReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("times");
    write_list_nat(w, this.times);
    w.key("tzdata");
    w.text(this.tzdata);
  }
}

/** sys/EffectCancelParams@1 */
export class EffectCancelParams extends aos.Schema {
  constructor(
    public intent: string | null = null,
    public issuer_ref: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectCancelParams {
    r.record(2);
    r.key("intent");
    const intent: string | null = read_option_hash(r);
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    return new EffectCancelParams(intent, issuer_ref);
  }

  schemaName(): string {
    return "sys/EffectCancelParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("intent");
    write_option_hash(w, this.intent);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
  }
}

/** sys/EffectCancelReceipt@1 */
export class EffectCancelReceipt extends aos.Schema {
  constructor(
    public cancelled: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectCancelReceipt {
    r.record(1);
    r.key("cancelled");
    const cancelled: bool = r.bool();
    return new EffectCancelReceipt(cancelled);
  }

  schemaName(): string {
    return "sys/EffectCancelReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("cancelled");
    w.bool(this.cancelled);
  }
}

/** sys/EffectError@1 */
export class EffectError extends aos.Schema {
  constructor(
    public code: string = "",
    public message: string = "",
    public retryable: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectError {
    r.record(3);
    r.key("code");
    const code: string = r.text();
    r.key("message");
    const message: string = r.text();
    r.key("retryable");
    const retryable: bool = r.bool();
    return new EffectError(code, message, retryable);
  }

  schemaName(): string {
    return "sys/EffectError@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("code");
    w.text(this.code);
    w.key("message");
    w.text(this.message);
    w.key("retryable");
    w.bool(this.retryable);
  }
}

/** sys/EffectReceiptEnvelope@1 */
export class EffectReceiptEnvelope extends aos.Schema {
  constructor(
    public origin_module_id: string = "",
    public origin_workflow_hash: string | null = null,
    public origin_instance_key: Uint8Array | null = null,
    public intent_id: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public effect: string = "",
    public effect_hash: string | null = null,
    public executor_module: string | null = null,
    public executor_module_hash: string | null = null,
    public executor_entrypoint: string | null = null,
    public params_hash: string | null = null,
    public issuer_ref: string | null = null,
    public receipt_payload: Uint8Array = new Uint8Array(0),
    public status: string = "",
    public emitted_at_seq: u64 = 0,
    public cost_cents: aos.Some<u64> | null = null,
    public signature: Uint8Array = new Uint8Array(0),
    public payload_schema: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectReceiptEnvelope {
    r.record(17);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    r.key("intent_id");
    const intent_id: string = r.hash();
    r.key("signature");
    const signature: Uint8Array = r.bytes();
    r.key("cost_cents");
    const cost_cents: aos.Some<u64> | null = read_option_nat(r);
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    r.key("effect_hash");
    const effect_hash: string | null = read_option_hash(r);
    r.key("params_hash");
    const params_hash: string | null = read_option_hash(r);
    r.key("emitted_at_seq");
    const emitted_at_seq: u64 = r.nat();
    r.key("payload_schema");
    const payload_schema: string | null = read_option_text(r);
    r.key("executor_module");
    const executor_module: string | null = read_option_text(r);
    r.key("receipt_payload");
    const receipt_payload: Uint8Array = r.bytes();
    r.key("origin_module_id");
    const origin_module_id: string = r.text();
    r.key("executor_entrypoint");
    const executor_entrypoint: string | null = read_option_text(r);
    r.key("origin_instance_key");
    const origin_instance_key: Uint8Array | null = read_option_bytes(r);
    r.key("executor_module_hash");
    const executor_module_hash: string | null = read_option_hash(r);
    r.key("origin_workflow_hash");
    const origin_workflow_hash: string | null = read_option_hash(r);
    return new EffectReceiptEnvelope(origin_module_id, origin_workflow_hash, origin_instance_key, intent_id, effect, effect_hash, executor_module, executor_module_hash, executor_entrypoint, params_hash, issuer_ref, receipt_payload, status, emitted_at_seq, cost_cents, signature, payload_schema);
  }

  schemaName(): string {
    return "sys/EffectReceiptEnvelope@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(17);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
    w.key("intent_id");
    w.hash(this.intent_id);
    w.key("signature");
    w.bytes(this.signature);
    w.key("cost_cents");
    write_option_nat(w, this.cost_cents);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
    w.key("effect_hash");
    write_option_hash(w, this.effect_hash);
    w.key("params_hash");
    write_option_hash(w, this.params_hash);
    w.key("emitted_at_seq");
    w.nat(this.emitted_at_seq);
    w.key("payload_schema");
    write_option_text(w, this.payload_schema);
    w.key("executor_module");
    write_option_text(w, this.executor_module);
    w.key("receipt_payload");
    w.bytes(this.receipt_payload);
    w.key("origin_module_id");
    w.text(this.origin_module_id);
    w.key("executor_entrypoint");
    write_option_text(w, this.executor_entrypoint);
    w.key("origin_instance_key");
    write_option_bytes(w, this.origin_instance_key);
    w.key("executor_module_hash");
    write_option_hash(w, this.executor_module_hash);
    w.key("origin_workflow_hash");
    write_option_hash(w, this.origin_workflow_hash);
  }
}

/** sys/EffectReceiptRejected@1 */
export class EffectReceiptRejected extends aos.Schema {
  constructor(
    public origin_module_id: string = "",
    public origin_workflow_hash: string | null = null,
    public origin_instance_key: Uint8Array | null = null,
    public intent_id: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public effect: string = "",
    public effect_hash: string | null = null,
    public executor_module: string | null = null,
    public executor_module_hash: string | null = null,
    public executor_entrypoint: string | null = null,
    public params_hash: string | null = null,
    public issuer_ref: string | null = null,
    public status: string = "",
    public error_code: string = "",
    public error_message: string = "",
    public payload_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public payload_size: u64 = 0,
    public emitted_at_seq: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectReceiptRejected {
    r.record(17);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    r.key("intent_id");
    const intent_id: string = r.hash();
    r.key("error_code");
    const error_code: string = r.text();
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    r.key("effect_hash");
    const effect_hash: string | null = read_option_hash(r);
    r.key("params_hash");
    const params_hash: string | null = read_option_hash(r);
    r.key("payload_hash");
    const payload_hash: string = r.hash();
    r.key("payload_size");
    const payload_size: u64 = r.nat();
    r.key("error_message");
    const error_message: string = r.text();
    r.key("emitted_at_seq");
    const emitted_at_seq: u64 = r.nat();
    r.key("executor_module");
    const executor_module: string | null = read_option_text(r);
    r.key("origin_module_id");
    const origin_module_id: string = r.text();
    r.key("executor_entrypoint");
    const executor_entrypoint: string | null = read_option_text(r);
    r.key("origin_instance_key");
    const origin_instance_key: Uint8Array | null = read_option_bytes(r);
    r.key("executor_module_hash");
    const executor_module_hash: string | null = read_option_hash(r);
    r.key("origin_workflow_hash");
    const origin_workflow_hash: string | null = read_option_hash(r);
    return new EffectReceiptRejected(origin_module_id, origin_workflow_hash, origin_instance_key, intent_id, effect, effect_hash, executor_module, executor_module_hash, executor_entrypoint, params_hash, issuer_ref, status, error_code, error_message, payload_hash, payload_size, emitted_at_seq);
  }

  schemaName(): string {
    return "sys/EffectReceiptRejected@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(17);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
    w.key("intent_id");
    w.hash(this.intent_id);
    w.key("error_code");
    w.text(this.error_code);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
    w.key("effect_hash");
    write_option_hash(w, this.effect_hash);
    w.key("params_hash");
    write_option_hash(w, this.params_hash);
    w.key("payload_hash");
    w.hash(this.payload_hash);
    w.key("payload_size");
    w.nat(this.payload_size);
    w.key("error_message");
    w.text(this.error_message);
    w.key("emitted_at_seq");
    w.nat(this.emitted_at_seq);
    w.key("executor_module");
    write_option_text(w, this.executor_module);
    w.key("origin_module_id");
    w.text(this.origin_module_id);
    w.key("executor_entrypoint");
    write_option_text(w, this.executor_entrypoint);
    w.key("origin_instance_key");
    write_option_bytes(w, this.origin_instance_key);
    w.key("executor_module_hash");
    write_option_hash(w, this.executor_module_hash);
    w.key("origin_workflow_hash");
    write_option_hash(w, this.origin_workflow_hash);
  }
}

/** sys/EffectStreamFrame@1 */
export class EffectStreamFrame extends aos.Schema {
  constructor(
    public origin_module_id: string = "",
    public origin_workflow_hash: string | null = null,
    public origin_instance_key: Uint8Array | null = null,
    public intent_id: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public effect: string = "",
    public effect_hash: string | null = null,
    public executor_module: string | null = null,
    public executor_module_hash: string | null = null,
    public executor_entrypoint: string | null = null,
    public params_hash: string | null = null,
    public issuer_ref: string | null = null,
    public emitted_at_seq: u64 = 0,
    public seq: u64 = 0,
    public kind: string = "",
    public payload: Uint8Array = new Uint8Array(0),
    public payload_ref: string | null = null,
    public signature: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): EffectStreamFrame {
    r.record(17);
    r.key("seq");
    const seq: u64 = r.nat();
    r.key("kind");
    const kind: string = r.text();
    r.key("effect");
    const effect: string = r.text();
    r.key("payload");
    const payload: Uint8Array = r.bytes();
    r.key("intent_id");
    const intent_id: string = r.hash();
    r.key("signature");
    const signature: Uint8Array = r.bytes();
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    r.key("effect_hash");
    const effect_hash: string | null = read_option_hash(r);
    r.key("params_hash");
    const params_hash: string | null = read_option_hash(r);
    r.key("payload_ref");
    const payload_ref: string | null = read_option_hash(r);
    r.key("emitted_at_seq");
    const emitted_at_seq: u64 = r.nat();
    r.key("executor_module");
    const executor_module: string | null = read_option_text(r);
    r.key("origin_module_id");
    const origin_module_id: string = r.text();
    r.key("executor_entrypoint");
    const executor_entrypoint: string | null = read_option_text(r);
    r.key("origin_instance_key");
    const origin_instance_key: Uint8Array | null = read_option_bytes(r);
    r.key("executor_module_hash");
    const executor_module_hash: string | null = read_option_hash(r);
    r.key("origin_workflow_hash");
    const origin_workflow_hash: string | null = read_option_hash(r);
    return new EffectStreamFrame(origin_module_id, origin_workflow_hash, origin_instance_key, intent_id, effect, effect_hash, executor_module, executor_module_hash, executor_entrypoint, params_hash, issuer_ref, emitted_at_seq, seq, kind, payload, payload_ref, signature);
  }

  schemaName(): string {
    return "sys/EffectStreamFrame@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(17);
    w.key("seq");
    w.nat(this.seq);
    w.key("kind");
    w.text(this.kind);
    w.key("effect");
    w.text(this.effect);
    w.key("payload");
    w.bytes(this.payload);
    w.key("intent_id");
    w.hash(this.intent_id);
    w.key("signature");
    w.bytes(this.signature);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
    w.key("effect_hash");
    write_option_hash(w, this.effect_hash);
    w.key("params_hash");
    write_option_hash(w, this.params_hash);
    w.key("payload_ref");
    write_option_hash(w, this.payload_ref);
    w.key("emitted_at_seq");
    w.nat(this.emitted_at_seq);
    w.key("executor_module");
    write_option_text(w, this.executor_module);
    w.key("origin_module_id");
    w.text(this.origin_module_id);
    w.key("executor_entrypoint");
    write_option_text(w, this.executor_entrypoint);
    w.key("origin_instance_key");
    write_option_bytes(w, this.origin_instance_key);
    w.key("executor_module_hash");
    write_option_hash(w, this.executor_module_hash);
    w.key("origin_workflow_hash");
    write_option_hash(w, this.origin_workflow_hash);
  }
}

export class GovPatchInputPatchBlobRef {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public format: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): GovPatchInputPatchBlobRef {
    r.record(2);
    r.key("format");
    const format: string = r.text();
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    return new GovPatchInputPatchBlobRef(blob_ref, format);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("format");
    w.text(this.format);
    w.key("blob_ref");
    w.hash(this.blob_ref);
  }
}

export enum GovPatchInputTag {
  hash,
  patch_cbor,
  patch_doc_json,
  patch_blob_ref,
}

/** sys/GovPatchInput@1: `tag` says which arm; an arm's value is in its own. */
export class GovPatchInput extends aos.Schema {
  private _hash: string | null = null;
  private _patch_cbor: Uint8Array | null = null;
  private _patch_doc_json: Uint8Array | null = null;
  private _patch_blob_ref: GovPatchInputPatchBlobRef | null = null;

  constructor(public readonly tag: GovPatchInputTag) {
    super();
  }

  static hash(value: string): GovPatchInput {
    const made = new GovPatchInput(GovPatchInputTag.hash);
    made._hash = value;
    return made;
  }

  /** Traps when the arm is another. */
  get hash(): string {
    return this._hash!;
  }

  static patch_cbor(value: Uint8Array): GovPatchInput {
    const made = new GovPatchInput(GovPatchInputTag.patch_cbor);
    made._patch_cbor = value;
    return made;
  }

  /** Traps when the arm is another. */
  get patch_cbor(): Uint8Array {
    return this._patch_cbor!;
  }

  static patch_doc_json(value: Uint8Array): GovPatchInput {
    const made = new GovPatchInput(GovPatchInputTag.patch_doc_json);
    made._patch_doc_json = value;
    return made;
  }

  /** Traps when the arm is another. */
  get patch_doc_json(): Uint8Array {
    return this._patch_doc_json!;
  }

  static patch_blob_ref(value: GovPatchInputPatchBlobRef): GovPatchInput {
    const made = new GovPatchInput(GovPatchInputTag.patch_blob_ref);
    made._patch_blob_ref = value;
    return made;
  }

  /** Traps when the arm is another. */
  get patch_blob_ref(): GovPatchInputPatchBlobRef {
    return this._patch_blob_ref!;
  }

  static readFrom(r: aos.Reader): GovPatchInput {
    const tag = r.tag();
    if (tag == "hash") {
      r.value();
      return GovPatchInput.hash(r.hash());
    }
    if (tag == "patch_cbor") {
      r.value();
      return GovPatchInput.patch_cbor(r.bytes());
    }
    if (tag == "patch_doc_json") {
      r.value();
      return GovPatchInput.patch_doc_json(r.bytes());
    }
    if (tag == "patch_blob_ref") {
      r.value();
      return GovPatchInput.patch_blob_ref(GovPatchInputPatchBlobRef.readFrom(r));
    }
    r.fail("an unknown arm");
    return new GovPatchInput(GovPatchInputTag.hash);
  }

  schemaName(): string {
    return "sys/GovPatchInput@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case GovPatchInputTag.hash: {
        w.arm("hash");
        w.hash(this.hash);
        break;
      }
      case GovPatchInputTag.patch_cbor: {
        w.arm("patch_cbor");
        w.bytes(this.patch_cbor);
        break;
      }
      case GovPatchInputTag.patch_doc_json: {
        w.arm("patch_doc_json");
        w.bytes(this.patch_doc_json);
        break;
      }
      case GovPatchInputTag.patch_blob_ref: {
        w.arm("patch_blob_ref");
        this.patch_blob_ref.writeTo(w);
        break;
      }
    }
  }
}

/** sys/GovActionRequested@1 */
export class GovActionRequested extends aos.Schema {
  constructor(
    public patch: GovPatchInput = GovPatchInput.hash("blake3:0000000000000000000000000000000000000000000000000000000000000000"),
    public manifest_base: string | null = null,
    public description: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovActionRequested {
    r.record(3);
    r.key("patch");
    const patch: GovPatchInput = GovPatchInput.readFrom(r);
    r.key("description");
    const description: string | null = read_option_text(r);
    r.key("manifest_base");
    const manifest_base: string | null = read_option_hash(r);
    return new GovActionRequested(patch, manifest_base, description);
  }

  schemaName(): string {
    return "sys/GovActionRequested@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("patch");
    this.patch.writeTo(w);
    w.key("description");
    write_option_text(w, this.description);
    w.key("manifest_base");
    write_option_hash(w, this.manifest_base);
  }
}

/** sys/GovApplyParams@1 */
export class GovApplyParams extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovApplyParams {
    r.record(1);
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    return new GovApplyParams(proposal_id);
  }

  schemaName(): string {
    return "sys/GovApplyParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("proposal_id");
    w.nat(this.proposal_id);
  }
}

/** sys/GovApplyReceipt@1 */
export class GovApplyReceipt extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
    public manifest_hash_new: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public patch_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovApplyReceipt {
    r.record(3);
    r.key("patch_hash");
    const patch_hash: string = r.hash();
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    r.key("manifest_hash_new");
    const manifest_hash_new: string = r.hash();
    return new GovApplyReceipt(proposal_id, manifest_hash_new, patch_hash);
  }

  schemaName(): string {
    return "sys/GovApplyReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("patch_hash");
    w.hash(this.patch_hash);
    w.key("proposal_id");
    w.nat(this.proposal_id);
    w.key("manifest_hash_new");
    w.hash(this.manifest_hash_new);
  }
}

export enum GovApproveParamsDecisionTag {
  approve,
  reject,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class GovApproveParamsDecision {

  constructor(public readonly tag: GovApproveParamsDecisionTag) {
  }

  static approve(): GovApproveParamsDecision {
    return new GovApproveParamsDecision(GovApproveParamsDecisionTag.approve);
  }

  static reject(): GovApproveParamsDecision {
    return new GovApproveParamsDecision(GovApproveParamsDecisionTag.reject);
  }

  static readFrom(r: aos.Reader): GovApproveParamsDecision {
    const tag = r.tag();
    if (tag == "approve") {
      r.noValue();
      return GovApproveParamsDecision.approve();
    }
    if (tag == "reject") {
      r.noValue();
      return GovApproveParamsDecision.reject();
    }
    r.fail("an unknown arm");
    return new GovApproveParamsDecision(GovApproveParamsDecisionTag.approve);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case GovApproveParamsDecisionTag.approve: {
        w.unitArm("approve");
        break;
      }
      case GovApproveParamsDecisionTag.reject: {
        w.unitArm("reject");
        break;
      }
    }
  }
}

/** sys/GovApproveParams@1 */
export class GovApproveParams extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
    public decision: GovApproveParamsDecision = GovApproveParamsDecision.approve(),
    public approver: string = "",
    public reason: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovApproveParams {
    r.record(4);
    r.key("reason");
    const reason: string | null = read_option_text(r);
    r.key("approver");
    const approver: string = r.text();
    r.key("decision");
    const decision: GovApproveParamsDecision = GovApproveParamsDecision.readFrom(r);
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    return new GovApproveParams(proposal_id, decision, approver, reason);
  }

  schemaName(): string {
    return "sys/GovApproveParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("reason");
    write_option_text(w, this.reason);
    w.key("approver");
    w.text(this.approver);
    w.key("decision");
    this.decision.writeTo(w);
    w.key("proposal_id");
    w.nat(this.proposal_id);
  }
}

export enum GovApproveReceiptDecisionTag {
  approve,
  reject,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class GovApproveReceiptDecision {

  constructor(public readonly tag: GovApproveReceiptDecisionTag) {
  }

  static approve(): GovApproveReceiptDecision {
    return new GovApproveReceiptDecision(GovApproveReceiptDecisionTag.approve);
  }

  static reject(): GovApproveReceiptDecision {
    return new GovApproveReceiptDecision(GovApproveReceiptDecisionTag.reject);
  }

  static readFrom(r: aos.Reader): GovApproveReceiptDecision {
    const tag = r.tag();
    if (tag == "approve") {
      r.noValue();
      return GovApproveReceiptDecision.approve();
    }
    if (tag == "reject") {
      r.noValue();
      return GovApproveReceiptDecision.reject();
    }
    r.fail("an unknown arm");
    return new GovApproveReceiptDecision(GovApproveReceiptDecisionTag.approve);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case GovApproveReceiptDecisionTag.approve: {
        w.unitArm("approve");
        break;
      }
      case GovApproveReceiptDecisionTag.reject: {
        w.unitArm("reject");
        break;
      }
    }
  }
}

/** sys/GovApproveReceipt@1 */
export class GovApproveReceipt extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
    public decision: GovApproveReceiptDecision = GovApproveReceiptDecision.approve(),
    public patch_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public approver: string = "",
    public reason: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovApproveReceipt {
    r.record(5);
    r.key("reason");
    const reason: string | null = read_option_text(r);
    r.key("approver");
    const approver: string = r.text();
    r.key("decision");
    const decision: GovApproveReceiptDecision = GovApproveReceiptDecision.readFrom(r);
    r.key("patch_hash");
    const patch_hash: string = r.hash();
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    return new GovApproveReceipt(proposal_id, decision, patch_hash, approver, reason);
  }

  schemaName(): string {
    return "sys/GovApproveReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("reason");
    write_option_text(w, this.reason);
    w.key("approver");
    w.text(this.approver);
    w.key("decision");
    this.decision.writeTo(w);
    w.key("patch_hash");
    w.hash(this.patch_hash);
    w.key("proposal_id");
    w.nat(this.proposal_id);
  }
}

export enum GovPatchSummaryDefChangesActionTag {
  added,
  removed,
  changed,
}

/** A variant: `tag` says which arm; an arm's value is in its own. */
export class GovPatchSummaryDefChangesAction {

  constructor(public readonly tag: GovPatchSummaryDefChangesActionTag) {
  }

  static added(): GovPatchSummaryDefChangesAction {
    return new GovPatchSummaryDefChangesAction(GovPatchSummaryDefChangesActionTag.added);
  }

  static removed(): GovPatchSummaryDefChangesAction {
    return new GovPatchSummaryDefChangesAction(GovPatchSummaryDefChangesActionTag.removed);
  }

  static changed(): GovPatchSummaryDefChangesAction {
    return new GovPatchSummaryDefChangesAction(GovPatchSummaryDefChangesActionTag.changed);
  }

  static readFrom(r: aos.Reader): GovPatchSummaryDefChangesAction {
    const tag = r.tag();
    if (tag == "added") {
      r.noValue();
      return GovPatchSummaryDefChangesAction.added();
    }
    if (tag == "removed") {
      r.noValue();
      return GovPatchSummaryDefChangesAction.removed();
    }
    if (tag == "changed") {
      r.noValue();
      return GovPatchSummaryDefChangesAction.changed();
    }
    r.fail("an unknown arm");
    return new GovPatchSummaryDefChangesAction(GovPatchSummaryDefChangesActionTag.added);
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case GovPatchSummaryDefChangesActionTag.added: {
        w.unitArm("added");
        break;
      }
      case GovPatchSummaryDefChangesActionTag.removed: {
        w.unitArm("removed");
        break;
      }
      case GovPatchSummaryDefChangesActionTag.changed: {
        w.unitArm("changed");
        break;
      }
    }
  }
}

export class GovPatchSummaryDefChanges {
  constructor(
    public kind: string = "",
    public name: string = "",
    public action: GovPatchSummaryDefChangesAction = GovPatchSummaryDefChangesAction.added(),
  ) {
  }

  static readFrom(r: aos.Reader): GovPatchSummaryDefChanges {
    r.record(3);
    r.key("kind");
    const kind: string = r.text();
    r.key("name");
    const name: string = r.text();
    r.key("action");
    const action: GovPatchSummaryDefChangesAction = GovPatchSummaryDefChangesAction.readFrom(r);
    return new GovPatchSummaryDefChanges(kind, name, action);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("kind");
    w.text(this.kind);
    w.key("name");
    w.text(this.name);
    w.key("action");
    this.action.writeTo(w);
  }
}

/** sys/GovPatchSummary@1 */
export class GovPatchSummary extends aos.Schema {
  constructor(
    public base_manifest_hash: string | null = null,
    public patch_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public ops: Set<string> = new Set<string>(),
    public def_changes: Array<GovPatchSummaryDefChanges> = new Array<GovPatchSummaryDefChanges>(),
    public manifest_sections: Set<string> = new Set<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovPatchSummary {
    r.record(5);
    r.key("ops");
    const ops: Set<string> = read_set_text(r);
    r.key("patch_hash");
    const patch_hash: string = r.hash();
    r.key("def_changes");
    const def_changes: Array<GovPatchSummaryDefChanges> = read_list_GovPatchSummaryDefChanges(r);
    r.key("manifest_sections");
    const manifest_sections: Set<string> = read_set_text(r);
    r.key("base_manifest_hash");
    const base_manifest_hash: string | null = read_option_hash(r);
    return new GovPatchSummary(base_manifest_hash, patch_hash, ops, def_changes, manifest_sections);
  }

  schemaName(): string {
    return "sys/GovPatchSummary@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("ops");
    write_set_text(w, this.ops);
    w.key("patch_hash");
    w.hash(this.patch_hash);
    w.key("def_changes");
    write_list_GovPatchSummaryDefChanges(w, this.def_changes);
    w.key("manifest_sections");
    write_set_text(w, this.manifest_sections);
    w.key("base_manifest_hash");
    write_option_hash(w, this.base_manifest_hash);
  }
}

/** sys/GovProposeParams@1 */
export class GovProposeParams extends aos.Schema {
  constructor(
    public patch: GovPatchInput = GovPatchInput.hash("blake3:0000000000000000000000000000000000000000000000000000000000000000"),
    public summary: GovPatchSummary | null = null,
    public manifest_base: string | null = null,
    public description: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovProposeParams {
    r.record(4);
    r.key("patch");
    const patch: GovPatchInput = GovPatchInput.readFrom(r);
    r.key("summary");
    const summary: GovPatchSummary | null = read_option_GovPatchSummary(r);
    r.key("description");
    const description: string | null = read_option_text(r);
    r.key("manifest_base");
    const manifest_base: string | null = read_option_hash(r);
    return new GovProposeParams(patch, summary, manifest_base, description);
  }

  schemaName(): string {
    return "sys/GovProposeParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("patch");
    this.patch.writeTo(w);
    w.key("summary");
    write_option_GovPatchSummary(w, this.summary);
    w.key("description");
    write_option_text(w, this.description);
    w.key("manifest_base");
    write_option_hash(w, this.manifest_base);
  }
}

/** sys/GovProposeReceipt@1 */
export class GovProposeReceipt extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
    public patch_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public manifest_base: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovProposeReceipt {
    r.record(3);
    r.key("patch_hash");
    const patch_hash: string = r.hash();
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    r.key("manifest_base");
    const manifest_base: string | null = read_option_hash(r);
    return new GovProposeReceipt(proposal_id, patch_hash, manifest_base);
  }

  schemaName(): string {
    return "sys/GovProposeReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("patch_hash");
    w.hash(this.patch_hash);
    w.key("proposal_id");
    w.nat(this.proposal_id);
    w.key("manifest_base");
    write_option_hash(w, this.manifest_base);
  }
}

/** sys/GovShadowParams@1 */
export class GovShadowParams extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovShadowParams {
    r.record(1);
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    return new GovShadowParams(proposal_id);
  }

  schemaName(): string {
    return "sys/GovShadowParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("proposal_id");
    w.nat(this.proposal_id);
  }
}

export class GovShadowReceiptPredictedEffects {
  constructor(
    public kind: string = "",
    public intent_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public params_json: string | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): GovShadowReceiptPredictedEffects {
    r.record(3);
    r.key("kind");
    const kind: string = r.text();
    r.key("intent_hash");
    const intent_hash: string = r.hash();
    r.key("params_json");
    const params_json: string | null = read_option_text(r);
    return new GovShadowReceiptPredictedEffects(kind, intent_hash, params_json);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("kind");
    w.text(this.kind);
    w.key("intent_hash");
    w.hash(this.intent_hash);
    w.key("params_json");
    write_option_text(w, this.params_json);
  }
}

export class GovShadowReceiptPendingWorkflowReceipts {
  constructor(
    public instance_id: string = "",
    public origin_module_id: string = "",
    public origin_instance_key_b64: string | null = null,
    public intent_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public effect: string = "",
    public emitted_at_seq: u64 = 0,
  ) {
  }

  static readFrom(r: aos.Reader): GovShadowReceiptPendingWorkflowReceipts {
    r.record(6);
    r.key("effect");
    const effect: string = r.text();
    r.key("instance_id");
    const instance_id: string = r.text();
    r.key("intent_hash");
    const intent_hash: string = r.hash();
    r.key("emitted_at_seq");
    const emitted_at_seq: u64 = r.nat();
    r.key("origin_module_id");
    const origin_module_id: string = r.text();
    r.key("origin_instance_key_b64");
    const origin_instance_key_b64: string | null = read_option_text(r);
    return new GovShadowReceiptPendingWorkflowReceipts(instance_id, origin_module_id, origin_instance_key_b64, intent_hash, effect, emitted_at_seq);
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("effect");
    w.text(this.effect);
    w.key("instance_id");
    w.text(this.instance_id);
    w.key("intent_hash");
    w.hash(this.intent_hash);
    w.key("emitted_at_seq");
    w.nat(this.emitted_at_seq);
    w.key("origin_module_id");
    w.text(this.origin_module_id);
    w.key("origin_instance_key_b64");
    write_option_text(w, this.origin_instance_key_b64);
  }
}

export class GovShadowReceiptWorkflowInstances {
  constructor(
    public instance_id: string = "",
    public status: string = "",
    public last_processed_event_seq: u64 = 0,
    public module_version: string | null = null,
    public inflight_intents: u64 = 0,
  ) {
  }

  static readFrom(r: aos.Reader): GovShadowReceiptWorkflowInstances {
    r.record(5);
    r.key("status");
    const status: string = r.text();
    r.key("instance_id");
    const instance_id: string = r.text();
    r.key("module_version");
    const module_version: string | null = read_option_text(r);
    r.key("inflight_intents");
    const inflight_intents: u64 = r.nat();
    r.key("last_processed_event_seq");
    const last_processed_event_seq: u64 = r.nat();
    return new GovShadowReceiptWorkflowInstances(instance_id, status, last_processed_event_seq, module_version, inflight_intents);
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("status");
    w.text(this.status);
    w.key("instance_id");
    w.text(this.instance_id);
    w.key("module_version");
    write_option_text(w, this.module_version);
    w.key("inflight_intents");
    w.nat(this.inflight_intents);
    w.key("last_processed_event_seq");
    w.nat(this.last_processed_event_seq);
  }
}

export class GovShadowReceiptModuleEffectAllowlists {
  constructor(
    public module: string = "",
    public effects_emitted: Array<string> = new Array<string>(),
  ) {
  }

  static readFrom(r: aos.Reader): GovShadowReceiptModuleEffectAllowlists {
    r.record(2);
    r.key("module");
    const module: string = r.text();
    r.key("effects_emitted");
    const effects_emitted: Array<string> = read_list_text(r);
    return new GovShadowReceiptModuleEffectAllowlists(module, effects_emitted);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("module");
    w.text(this.module);
    w.key("effects_emitted");
    write_list_text(w, this.effects_emitted);
  }
}

/** sys/GovShadowReceipt@1 */
export class GovShadowReceipt extends aos.Schema {
  constructor(
    public proposal_id: u64 = 0,
    public manifest_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public predicted_effects: Array<GovShadowReceiptPredictedEffects> = new Array<GovShadowReceiptPredictedEffects>(),
    public pending_workflow_receipts: Array<GovShadowReceiptPendingWorkflowReceipts> = new Array<GovShadowReceiptPendingWorkflowReceipts>(),
    public workflow_instances: Array<GovShadowReceiptWorkflowInstances> = new Array<GovShadowReceiptWorkflowInstances>(),
    public module_effect_allowlists: Array<GovShadowReceiptModuleEffectAllowlists> = new Array<GovShadowReceiptModuleEffectAllowlists>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): GovShadowReceipt {
    r.record(6);
    r.key("proposal_id");
    const proposal_id: u64 = r.nat();
    r.key("manifest_hash");
    const manifest_hash: string = r.hash();
    r.key("predicted_effects");
    const predicted_effects: Array<GovShadowReceiptPredictedEffects> = read_list_GovShadowReceiptPredictedEffects(r);
    r.key("workflow_instances");
    const workflow_instances: Array<GovShadowReceiptWorkflowInstances> = read_list_GovShadowReceiptWorkflowInstances(r);
    r.key("module_effect_allowlists");
    const module_effect_allowlists: Array<GovShadowReceiptModuleEffectAllowlists> = read_list_GovShadowReceiptModuleEffectAllowlists(r);
    r.key("pending_workflow_receipts");
    const pending_workflow_receipts: Array<GovShadowReceiptPendingWorkflowReceipts> = read_list_GovShadowReceiptPendingWorkflowReceipts(r);
    return new GovShadowReceipt(proposal_id, manifest_hash, predicted_effects, pending_workflow_receipts, workflow_instances, module_effect_allowlists);
  }

  schemaName(): string {
    return "sys/GovShadowReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("proposal_id");
    w.nat(this.proposal_id);
    w.key("manifest_hash");
    w.hash(this.manifest_hash);
    w.key("predicted_effects");
    write_list_GovShadowReceiptPredictedEffects(w, this.predicted_effects);
    w.key("workflow_instances");
    write_list_GovShadowReceiptWorkflowInstances(w, this.workflow_instances);
    w.key("module_effect_allowlists");
    write_list_GovShadowReceiptModuleEffectAllowlists(w, this.module_effect_allowlists);
    w.key("pending_workflow_receipts");
    write_list_GovShadowReceiptPendingWorkflowReceipts(w, this.pending_workflow_receipts);
  }
}

/** sys/HostBlobRefInput@1 */
export class HostBlobRefInput extends aos.Schema {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostBlobRefInput {
    r.record(1);
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    return new HostBlobRefInput(blob_ref);
  }

  schemaName(): string {
    return "sys/HostBlobRefInput@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("blob_ref");
    w.hash(this.blob_ref);
  }
}

/** sys/HostExecParams@1 */
export class HostExecParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public argv: Array<string> = new Array<string>(),
    public cwd: string | null = null,
    public timeout_ns: aos.Some<u64> | null = null,
    public env_patch: Map<string, string> | null = null,
    public stdin_ref: string | null = null,
    public output_mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostExecParams {
    r.record(7);
    r.key("cwd");
    const cwd: string | null = read_option_text(r);
    r.key("argv");
    const argv: Array<string> = read_list_text(r);
    r.key("env_patch");
    const env_patch: Map<string, string> | null = read_option_map_text_text(r);
    r.key("stdin_ref");
    const stdin_ref: string | null = read_option_hash(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("timeout_ns");
    const timeout_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("output_mode");
    const output_mode: string | null = read_option_text(r);
    return new HostExecParams(session_id, argv, cwd, timeout_ns, env_patch, stdin_ref, output_mode);
  }

  schemaName(): string {
    return "sys/HostExecParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("cwd");
    write_option_text(w, this.cwd);
    w.key("argv");
    write_list_text(w, this.argv);
    w.key("env_patch");
    write_option_map_text_text(w, this.env_patch);
    w.key("stdin_ref");
    write_option_hash(w, this.stdin_ref);
    w.key("session_id");
    w.text(this.session_id);
    w.key("timeout_ns");
    write_option_nat(w, this.timeout_ns);
    w.key("output_mode");
    write_option_text(w, this.output_mode);
  }
}

/** sys/HostExecProgressFrame@1 */
export class HostExecProgressFrame extends aos.Schema {
  constructor(
    public exec_id: string | null = null,
    public elapsed_ns: u64 = 0,
    public stdout_delta: Uint8Array = new Uint8Array(0),
    public stderr_delta: Uint8Array = new Uint8Array(0),
    public stdout_bytes: u64 = 0,
    public stderr_bytes: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostExecProgressFrame {
    r.record(6);
    r.key("exec_id");
    const exec_id: string | null = read_option_text(r);
    r.key("elapsed_ns");
    const elapsed_ns: u64 = r.nat();
    r.key("stderr_bytes");
    const stderr_bytes: u64 = r.nat();
    r.key("stderr_delta");
    const stderr_delta: Uint8Array = r.bytes();
    r.key("stdout_bytes");
    const stdout_bytes: u64 = r.nat();
    r.key("stdout_delta");
    const stdout_delta: Uint8Array = r.bytes();
    return new HostExecProgressFrame(exec_id, elapsed_ns, stdout_delta, stderr_delta, stdout_bytes, stderr_bytes);
  }

  schemaName(): string {
    return "sys/HostExecProgressFrame@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("exec_id");
    write_option_text(w, this.exec_id);
    w.key("elapsed_ns");
    w.nat(this.elapsed_ns);
    w.key("stderr_bytes");
    w.nat(this.stderr_bytes);
    w.key("stderr_delta");
    w.bytes(this.stderr_delta);
    w.key("stdout_bytes");
    w.nat(this.stdout_bytes);
    w.key("stdout_delta");
    w.bytes(this.stdout_delta);
  }
}

export class HostOutputInlineText {
  constructor(
    public text: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): HostOutputInlineText {
    r.record(1);
    r.key("text");
    const text: string = r.text();
    return new HostOutputInlineText(text);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("text");
    w.text(this.text);
  }
}

export class HostOutputInlineBytes {
  constructor(
    public bytes: Uint8Array = new Uint8Array(0),
  ) {
  }

  static readFrom(r: aos.Reader): HostOutputInlineBytes {
    r.record(1);
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    return new HostOutputInlineBytes(bytes);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("bytes");
    w.bytes(this.bytes);
  }
}

export class HostOutputBlob {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size_bytes: u64 = 0,
    public preview_bytes: Uint8Array | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): HostOutputBlob {
    r.record(3);
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    r.key("size_bytes");
    const size_bytes: u64 = r.nat();
    r.key("preview_bytes");
    const preview_bytes: Uint8Array | null = read_option_bytes(r);
    return new HostOutputBlob(blob_ref, size_bytes, preview_bytes);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("blob_ref");
    w.hash(this.blob_ref);
    w.key("size_bytes");
    w.nat(this.size_bytes);
    w.key("preview_bytes");
    write_option_bytes(w, this.preview_bytes);
  }
}

export enum HostOutputTag {
  inline_text,
  inline_bytes,
  blob,
}

/** sys/HostOutput@1: `tag` says which arm; an arm's value is in its own. */
export class HostOutput extends aos.Schema {
  private _inline_text: HostOutputInlineText | null = null;
  private _inline_bytes: HostOutputInlineBytes | null = null;
  private _blob: HostOutputBlob | null = null;

  constructor(public readonly tag: HostOutputTag) {
    super();
  }

  static inline_text(value: HostOutputInlineText): HostOutput {
    const made = new HostOutput(HostOutputTag.inline_text);
    made._inline_text = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_text(): HostOutputInlineText {
    return this._inline_text!;
  }

  static inline_bytes(value: HostOutputInlineBytes): HostOutput {
    const made = new HostOutput(HostOutputTag.inline_bytes);
    made._inline_bytes = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_bytes(): HostOutputInlineBytes {
    return this._inline_bytes!;
  }

  static blob(value: HostOutputBlob): HostOutput {
    const made = new HostOutput(HostOutputTag.blob);
    made._blob = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blob(): HostOutputBlob {
    return this._blob!;
  }

  static readFrom(r: aos.Reader): HostOutput {
    const tag = r.tag();
    if (tag == "inline_text") {
      r.value();
      return HostOutput.inline_text(HostOutputInlineText.readFrom(r));
    }
    if (tag == "inline_bytes") {
      r.value();
      return HostOutput.inline_bytes(HostOutputInlineBytes.readFrom(r));
    }
    if (tag == "blob") {
      r.value();
      return HostOutput.blob(HostOutputBlob.readFrom(r));
    }
    r.fail("an unknown arm");
    return new HostOutput(HostOutputTag.inline_text);
  }

  schemaName(): string {
    return "sys/HostOutput@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case HostOutputTag.inline_text: {
        w.arm("inline_text");
        this.inline_text.writeTo(w);
        break;
      }
      case HostOutputTag.inline_bytes: {
        w.arm("inline_bytes");
        this.inline_bytes.writeTo(w);
        break;
      }
      case HostOutputTag.blob: {
        w.arm("blob");
        this.blob.writeTo(w);
        break;
      }
    }
  }
}

/** sys/HostExecReceipt@1 */
export class HostExecReceipt extends aos.Schema {
  constructor(
    public exit_code: i64 = 0,
    public status: string = "",
    public stdout: HostOutput | null = null,
    public stderr: HostOutput | null = null,
    public started_at_ns: u64 = 0,
    public ended_at_ns: u64 = 0,
    public error_code: string | null = null,
    public error_message: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostExecReceipt {
    r.record(8);
    r.key("status");
    const status: string = r.text();
    r.key("stderr");
    const stderr: HostOutput | null = read_option_HostOutput(r);
    r.key("stdout");
    const stdout: HostOutput | null = read_option_HostOutput(r);
    r.key("exit_code");
    const exit_code: i64 = r.int();
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("ended_at_ns");
    const ended_at_ns: u64 = r.nat();
    r.key("error_message");
    const error_message: string | null = read_option_text(r);
    r.key("started_at_ns");
    const started_at_ns: u64 = r.nat();
    return new HostExecReceipt(exit_code, status, stdout, stderr, started_at_ns, ended_at_ns, error_code, error_message);
  }

  schemaName(): string {
    return "sys/HostExecReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(8);
    w.key("status");
    w.text(this.status);
    w.key("stderr");
    write_option_HostOutput(w, this.stderr);
    w.key("stdout");
    write_option_HostOutput(w, this.stdout);
    w.key("exit_code");
    w.int(this.exit_code);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("ended_at_ns");
    w.nat(this.ended_at_ns);
    w.key("error_message");
    write_option_text(w, this.error_message);
    w.key("started_at_ns");
    w.nat(this.started_at_ns);
  }
}

export class HostFileContentInputInlineText {
  constructor(
    public text: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): HostFileContentInputInlineText {
    r.record(1);
    r.key("text");
    const text: string = r.text();
    return new HostFileContentInputInlineText(text);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("text");
    w.text(this.text);
  }
}

export class HostFileContentInputInlineBytes {
  constructor(
    public bytes: Uint8Array = new Uint8Array(0),
  ) {
  }

  static readFrom(r: aos.Reader): HostFileContentInputInlineBytes {
    r.record(1);
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    return new HostFileContentInputInlineBytes(bytes);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("bytes");
    w.bytes(this.bytes);
  }
}

export enum HostFileContentInputTag {
  inline_text,
  inline_bytes,
  blob_ref,
}

/** sys/HostFileContentInput@1: `tag` says which arm; an arm's value is in its own. */
export class HostFileContentInput extends aos.Schema {
  private _inline_text: HostFileContentInputInlineText | null = null;
  private _inline_bytes: HostFileContentInputInlineBytes | null = null;
  private _blob_ref: HostBlobRefInput | null = null;

  constructor(public readonly tag: HostFileContentInputTag) {
    super();
  }

  static inline_text(value: HostFileContentInputInlineText): HostFileContentInput {
    const made = new HostFileContentInput(HostFileContentInputTag.inline_text);
    made._inline_text = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_text(): HostFileContentInputInlineText {
    return this._inline_text!;
  }

  static inline_bytes(value: HostFileContentInputInlineBytes): HostFileContentInput {
    const made = new HostFileContentInput(HostFileContentInputTag.inline_bytes);
    made._inline_bytes = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_bytes(): HostFileContentInputInlineBytes {
    return this._inline_bytes!;
  }

  static blob_ref(value: HostBlobRefInput): HostFileContentInput {
    const made = new HostFileContentInput(HostFileContentInputTag.blob_ref);
    made._blob_ref = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blob_ref(): HostBlobRefInput {
    return this._blob_ref!;
  }

  static readFrom(r: aos.Reader): HostFileContentInput {
    const tag = r.tag();
    if (tag == "inline_text") {
      r.value();
      return HostFileContentInput.inline_text(HostFileContentInputInlineText.readFrom(r));
    }
    if (tag == "inline_bytes") {
      r.value();
      return HostFileContentInput.inline_bytes(HostFileContentInputInlineBytes.readFrom(r));
    }
    if (tag == "blob_ref") {
      r.value();
      return HostFileContentInput.blob_ref(HostBlobRefInput.readFrom(r));
    }
    r.fail("an unknown arm");
    return new HostFileContentInput(HostFileContentInputTag.inline_text);
  }

  schemaName(): string {
    return "sys/HostFileContentInput@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case HostFileContentInputTag.inline_text: {
        w.arm("inline_text");
        this.inline_text.writeTo(w);
        break;
      }
      case HostFileContentInputTag.inline_bytes: {
        w.arm("inline_bytes");
        this.inline_bytes.writeTo(w);
        break;
      }
      case HostFileContentInputTag.blob_ref: {
        w.arm("blob_ref");
        this.blob_ref.writeTo(w);
        break;
      }
    }
  }
}

export class HostPatchInputInlineText {
  constructor(
    public text: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): HostPatchInputInlineText {
    r.record(1);
    r.key("text");
    const text: string = r.text();
    return new HostPatchInputInlineText(text);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("text");
    w.text(this.text);
  }
}

export enum HostPatchInputTag {
  inline_text,
  blob_ref,
}

/** sys/HostPatchInput@1: `tag` says which arm; an arm's value is in its own. */
export class HostPatchInput extends aos.Schema {
  private _inline_text: HostPatchInputInlineText | null = null;
  private _blob_ref: HostBlobRefInput | null = null;

  constructor(public readonly tag: HostPatchInputTag) {
    super();
  }

  static inline_text(value: HostPatchInputInlineText): HostPatchInput {
    const made = new HostPatchInput(HostPatchInputTag.inline_text);
    made._inline_text = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_text(): HostPatchInputInlineText {
    return this._inline_text!;
  }

  static blob_ref(value: HostBlobRefInput): HostPatchInput {
    const made = new HostPatchInput(HostPatchInputTag.blob_ref);
    made._blob_ref = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blob_ref(): HostBlobRefInput {
    return this._blob_ref!;
  }

  static readFrom(r: aos.Reader): HostPatchInput {
    const tag = r.tag();
    if (tag == "inline_text") {
      r.value();
      return HostPatchInput.inline_text(HostPatchInputInlineText.readFrom(r));
    }
    if (tag == "blob_ref") {
      r.value();
      return HostPatchInput.blob_ref(HostBlobRefInput.readFrom(r));
    }
    r.fail("an unknown arm");
    return new HostPatchInput(HostPatchInputTag.inline_text);
  }

  schemaName(): string {
    return "sys/HostPatchInput@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case HostPatchInputTag.inline_text: {
        w.arm("inline_text");
        this.inline_text.writeTo(w);
        break;
      }
      case HostPatchInputTag.blob_ref: {
        w.arm("blob_ref");
        this.blob_ref.writeTo(w);
        break;
      }
    }
  }
}

/** sys/HostFsApplyPatchParams@1 */
export class HostFsApplyPatchParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public patch: HostPatchInput = HostPatchInput.inline_text(new HostPatchInputInlineText()),
    public patch_format: string | null = null,
    public dry_run: aos.Some<bool> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsApplyPatchParams {
    r.record(4);
    r.key("patch");
    const patch: HostPatchInput = HostPatchInput.readFrom(r);
    r.key("dry_run");
    const dry_run: aos.Some<bool> | null = read_option_bool(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("patch_format");
    const patch_format: string | null = read_option_text(r);
    return new HostFsApplyPatchParams(session_id, patch, patch_format, dry_run);
  }

  schemaName(): string {
    return "sys/HostFsApplyPatchParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("patch");
    this.patch.writeTo(w);
    w.key("dry_run");
    write_option_bool(w, this.dry_run);
    w.key("session_id");
    w.text(this.session_id);
    w.key("patch_format");
    write_option_text(w, this.patch_format);
  }
}

/** sys/HostPatchOpsSummary@1 */
export class HostPatchOpsSummary extends aos.Schema {
  constructor(
    public add: u64 = 0,
    public update: u64 = 0,
    public delete_: u64 = 0,
    public move: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostPatchOpsSummary {
    r.record(4);
    r.key("add");
    const add: u64 = r.nat();
    r.key("move");
    const move: u64 = r.nat();
    r.key("delete");
    const delete_: u64 = r.nat();
    r.key("update");
    const update: u64 = r.nat();
    return new HostPatchOpsSummary(add, update, delete_, move);
  }

  schemaName(): string {
    return "sys/HostPatchOpsSummary@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("add");
    w.nat(this.add);
    w.key("move");
    w.nat(this.move);
    w.key("delete");
    w.nat(this.delete_);
    w.key("update");
    w.nat(this.update);
  }
}

/** sys/HostFsApplyPatchReceipt@1 */
export class HostFsApplyPatchReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public files_changed: aos.Some<u64> | null = null,
    public changed_paths: Array<string> | null = null,
    public ops: HostPatchOpsSummary | null = null,
    public summary_text: string | null = null,
    public errors: Array<string> | null = null,
    public error_code: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsApplyPatchReceipt {
    r.record(7);
    r.key("ops");
    const ops: HostPatchOpsSummary | null = read_option_HostPatchOpsSummary(r);
    r.key("errors");
    const errors: Array<string> | null = read_option_list_text(r);
    r.key("status");
    const status: string = r.text();
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("summary_text");
    const summary_text: string | null = read_option_text(r);
    r.key("changed_paths");
    const changed_paths: Array<string> | null = read_option_list_text(r);
    r.key("files_changed");
    const files_changed: aos.Some<u64> | null = read_option_nat(r);
    return new HostFsApplyPatchReceipt(status, files_changed, changed_paths, ops, summary_text, errors, error_code);
  }

  schemaName(): string {
    return "sys/HostFsApplyPatchReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("ops");
    write_option_HostPatchOpsSummary(w, this.ops);
    w.key("errors");
    write_option_list_text(w, this.errors);
    w.key("status");
    w.text(this.status);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("summary_text");
    write_option_text(w, this.summary_text);
    w.key("changed_paths");
    write_option_list_text(w, this.changed_paths);
    w.key("files_changed");
    write_option_nat(w, this.files_changed);
  }
}

/** sys/HostFsEditFileParams@1 */
export class HostFsEditFileParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string = "",
    public old_string: string = "",
    public new_string: string = "",
    public replace_all: aos.Some<bool> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsEditFileParams {
    r.record(5);
    r.key("path");
    const path: string = r.text();
    r.key("new_string");
    const new_string: string = r.text();
    r.key("old_string");
    const old_string: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    r.key("replace_all");
    const replace_all: aos.Some<bool> | null = read_option_bool(r);
    return new HostFsEditFileParams(session_id, path, old_string, new_string, replace_all);
  }

  schemaName(): string {
    return "sys/HostFsEditFileParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("path");
    w.text(this.path);
    w.key("new_string");
    w.text(this.new_string);
    w.key("old_string");
    w.text(this.old_string);
    w.key("session_id");
    w.text(this.session_id);
    w.key("replace_all");
    write_option_bool(w, this.replace_all);
  }
}

/** sys/HostFsEditFileReceipt@1 */
export class HostFsEditFileReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public replacements: aos.Some<u64> | null = null,
    public applied: aos.Some<bool> | null = null,
    public summary_text: string | null = null,
    public error_code: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsEditFileReceipt {
    r.record(5);
    r.key("status");
    const status: string = r.text();
    r.key("applied");
    const applied: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("replacements");
    const replacements: aos.Some<u64> | null = read_option_nat(r);
    r.key("summary_text");
    const summary_text: string | null = read_option_text(r);
    return new HostFsEditFileReceipt(status, replacements, applied, summary_text, error_code);
  }

  schemaName(): string {
    return "sys/HostFsEditFileReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("status");
    w.text(this.status);
    w.key("applied");
    write_option_bool(w, this.applied);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("replacements");
    write_option_nat(w, this.replacements);
    w.key("summary_text");
    write_option_text(w, this.summary_text);
  }
}

/** sys/HostFsExistsParams@1 */
export class HostFsExistsParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsExistsParams {
    r.record(2);
    r.key("path");
    const path: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    return new HostFsExistsParams(session_id, path);
  }

  schemaName(): string {
    return "sys/HostFsExistsParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("path");
    w.text(this.path);
    w.key("session_id");
    w.text(this.session_id);
  }
}

/** sys/HostFsExistsReceipt@1 */
export class HostFsExistsReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public exists: aos.Some<bool> | null = null,
    public error_code: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsExistsReceipt {
    r.record(3);
    r.key("exists");
    const exists: aos.Some<bool> | null = read_option_bool(r);
    r.key("status");
    const status: string = r.text();
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    return new HostFsExistsReceipt(status, exists, error_code);
  }

  schemaName(): string {
    return "sys/HostFsExistsReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("exists");
    write_option_bool(w, this.exists);
    w.key("status");
    w.text(this.status);
    w.key("error_code");
    write_option_text(w, this.error_code);
  }
}

/** sys/HostFsGlobParams@1 */
export class HostFsGlobParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public pattern: string = "",
    public path: string | null = null,
    public max_results: aos.Some<u64> | null = null,
    public output_mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsGlobParams {
    r.record(5);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("pattern");
    const pattern: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    r.key("max_results");
    const max_results: aos.Some<u64> | null = read_option_nat(r);
    r.key("output_mode");
    const output_mode: string | null = read_option_text(r);
    return new HostFsGlobParams(session_id, pattern, path, max_results, output_mode);
  }

  schemaName(): string {
    return "sys/HostFsGlobParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("path");
    write_option_text(w, this.path);
    w.key("pattern");
    w.text(this.pattern);
    w.key("session_id");
    w.text(this.session_id);
    w.key("max_results");
    write_option_nat(w, this.max_results);
    w.key("output_mode");
    write_option_text(w, this.output_mode);
  }
}

export class HostTextOutputInlineText {
  constructor(
    public text: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): HostTextOutputInlineText {
    r.record(1);
    r.key("text");
    const text: string = r.text();
    return new HostTextOutputInlineText(text);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("text");
    w.text(this.text);
  }
}

export class HostTextOutputBlob {
  constructor(
    public blob_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size_bytes: u64 = 0,
    public preview_bytes: Uint8Array | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): HostTextOutputBlob {
    r.record(3);
    r.key("blob_ref");
    const blob_ref: string = r.hash();
    r.key("size_bytes");
    const size_bytes: u64 = r.nat();
    r.key("preview_bytes");
    const preview_bytes: Uint8Array | null = read_option_bytes(r);
    return new HostTextOutputBlob(blob_ref, size_bytes, preview_bytes);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("blob_ref");
    w.hash(this.blob_ref);
    w.key("size_bytes");
    w.nat(this.size_bytes);
    w.key("preview_bytes");
    write_option_bytes(w, this.preview_bytes);
  }
}

export enum HostTextOutputTag {
  inline_text,
  blob,
}

/** sys/HostTextOutput@1: `tag` says which arm; an arm's value is in its own. */
export class HostTextOutput extends aos.Schema {
  private _inline_text: HostTextOutputInlineText | null = null;
  private _blob: HostTextOutputBlob | null = null;

  constructor(public readonly tag: HostTextOutputTag) {
    super();
  }

  static inline_text(value: HostTextOutputInlineText): HostTextOutput {
    const made = new HostTextOutput(HostTextOutputTag.inline_text);
    made._inline_text = value;
    return made;
  }

  /** Traps when the arm is another. */
  get inline_text(): HostTextOutputInlineText {
    return this._inline_text!;
  }

  static blob(value: HostTextOutputBlob): HostTextOutput {
    const made = new HostTextOutput(HostTextOutputTag.blob);
    made._blob = value;
    return made;
  }

  /** Traps when the arm is another. */
  get blob(): HostTextOutputBlob {
    return this._blob!;
  }

  static readFrom(r: aos.Reader): HostTextOutput {
    const tag = r.tag();
    if (tag == "inline_text") {
      r.value();
      return HostTextOutput.inline_text(HostTextOutputInlineText.readFrom(r));
    }
    if (tag == "blob") {
      r.value();
      return HostTextOutput.blob(HostTextOutputBlob.readFrom(r));
    }
    r.fail("an unknown arm");
    return new HostTextOutput(HostTextOutputTag.inline_text);
  }

  schemaName(): string {
    return "sys/HostTextOutput@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case HostTextOutputTag.inline_text: {
        w.arm("inline_text");
        this.inline_text.writeTo(w);
        break;
      }
      case HostTextOutputTag.blob: {
        w.arm("blob");
        this.blob.writeTo(w);
        break;
      }
    }
  }
}

/** sys/HostFsGlobReceipt@1 */
export class HostFsGlobReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public paths: HostTextOutput | null = null,
    public count: aos.Some<u64> | null = null,
    public truncated: aos.Some<bool> | null = null,
    public error_code: string | null = null,
    public summary_text: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsGlobReceipt {
    r.record(6);
    r.key("count");
    const count: aos.Some<u64> | null = read_option_nat(r);
    r.key("paths");
    const paths: HostTextOutput | null = read_option_HostTextOutput(r);
    r.key("status");
    const status: string = r.text();
    r.key("truncated");
    const truncated: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("summary_text");
    const summary_text: string | null = read_option_text(r);
    return new HostFsGlobReceipt(status, paths, count, truncated, error_code, summary_text);
  }

  schemaName(): string {
    return "sys/HostFsGlobReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("count");
    write_option_nat(w, this.count);
    w.key("paths");
    write_option_HostTextOutput(w, this.paths);
    w.key("status");
    w.text(this.status);
    w.key("truncated");
    write_option_bool(w, this.truncated);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("summary_text");
    write_option_text(w, this.summary_text);
  }
}

/** sys/HostFsGrepParams@1 */
export class HostFsGrepParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public pattern: string = "",
    public path: string | null = null,
    public glob_filter: string | null = null,
    public case_insensitive: aos.Some<bool> | null = null,
    public max_results: aos.Some<u64> | null = null,
    public output_mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsGrepParams {
    r.record(7);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("pattern");
    const pattern: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    r.key("glob_filter");
    const glob_filter: string | null = read_option_text(r);
    r.key("max_results");
    const max_results: aos.Some<u64> | null = read_option_nat(r);
    r.key("output_mode");
    const output_mode: string | null = read_option_text(r);
    r.key("case_insensitive");
    const case_insensitive: aos.Some<bool> | null = read_option_bool(r);
    return new HostFsGrepParams(session_id, pattern, path, glob_filter, case_insensitive, max_results, output_mode);
  }

  schemaName(): string {
    return "sys/HostFsGrepParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("path");
    write_option_text(w, this.path);
    w.key("pattern");
    w.text(this.pattern);
    w.key("session_id");
    w.text(this.session_id);
    w.key("glob_filter");
    write_option_text(w, this.glob_filter);
    w.key("max_results");
    write_option_nat(w, this.max_results);
    w.key("output_mode");
    write_option_text(w, this.output_mode);
    w.key("case_insensitive");
    write_option_bool(w, this.case_insensitive);
  }
}

/** sys/HostFsGrepReceipt@1 */
export class HostFsGrepReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public matches: HostTextOutput | null = null,
    public match_count: aos.Some<u64> | null = null,
    public truncated: aos.Some<bool> | null = null,
    public error_code: string | null = null,
    public summary_text: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsGrepReceipt {
    r.record(6);
    r.key("status");
    const status: string = r.text();
    r.key("matches");
    const matches: HostTextOutput | null = read_option_HostTextOutput(r);
    r.key("truncated");
    const truncated: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("match_count");
    const match_count: aos.Some<u64> | null = read_option_nat(r);
    r.key("summary_text");
    const summary_text: string | null = read_option_text(r);
    return new HostFsGrepReceipt(status, matches, match_count, truncated, error_code, summary_text);
  }

  schemaName(): string {
    return "sys/HostFsGrepReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("status");
    w.text(this.status);
    w.key("matches");
    write_option_HostTextOutput(w, this.matches);
    w.key("truncated");
    write_option_bool(w, this.truncated);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("match_count");
    write_option_nat(w, this.match_count);
    w.key("summary_text");
    write_option_text(w, this.summary_text);
  }
}

/** sys/HostFsListDirParams@1 */
export class HostFsListDirParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string | null = null,
    public max_results: aos.Some<u64> | null = null,
    public output_mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsListDirParams {
    r.record(4);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("max_results");
    const max_results: aos.Some<u64> | null = read_option_nat(r);
    r.key("output_mode");
    const output_mode: string | null = read_option_text(r);
    return new HostFsListDirParams(session_id, path, max_results, output_mode);
  }

  schemaName(): string {
    return "sys/HostFsListDirParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("path");
    write_option_text(w, this.path);
    w.key("session_id");
    w.text(this.session_id);
    w.key("max_results");
    write_option_nat(w, this.max_results);
    w.key("output_mode");
    write_option_text(w, this.output_mode);
  }
}

/** sys/HostFsListDirReceipt@1 */
export class HostFsListDirReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public entries: HostTextOutput | null = null,
    public count: aos.Some<u64> | null = null,
    public truncated: aos.Some<bool> | null = null,
    public error_code: string | null = null,
    public summary_text: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsListDirReceipt {
    r.record(6);
    r.key("count");
    const count: aos.Some<u64> | null = read_option_nat(r);
    r.key("status");
    const status: string = r.text();
    r.key("entries");
    const entries: HostTextOutput | null = read_option_HostTextOutput(r);
    r.key("truncated");
    const truncated: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("summary_text");
    const summary_text: string | null = read_option_text(r);
    return new HostFsListDirReceipt(status, entries, count, truncated, error_code, summary_text);
  }

  schemaName(): string {
    return "sys/HostFsListDirReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("count");
    write_option_nat(w, this.count);
    w.key("status");
    w.text(this.status);
    w.key("entries");
    write_option_HostTextOutput(w, this.entries);
    w.key("truncated");
    write_option_bool(w, this.truncated);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("summary_text");
    write_option_text(w, this.summary_text);
  }
}

/** sys/HostFsReadFileParams@1 */
export class HostFsReadFileParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string = "",
    public offset_bytes: aos.Some<u64> | null = null,
    public max_bytes: aos.Some<u64> | null = null,
    public encoding: string | null = null,
    public output_mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsReadFileParams {
    r.record(6);
    r.key("path");
    const path: string = r.text();
    r.key("encoding");
    const encoding: string | null = read_option_text(r);
    r.key("max_bytes");
    const max_bytes: aos.Some<u64> | null = read_option_nat(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("output_mode");
    const output_mode: string | null = read_option_text(r);
    r.key("offset_bytes");
    const offset_bytes: aos.Some<u64> | null = read_option_nat(r);
    return new HostFsReadFileParams(session_id, path, offset_bytes, max_bytes, encoding, output_mode);
  }

  schemaName(): string {
    return "sys/HostFsReadFileParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("path");
    w.text(this.path);
    w.key("encoding");
    write_option_text(w, this.encoding);
    w.key("max_bytes");
    write_option_nat(w, this.max_bytes);
    w.key("session_id");
    w.text(this.session_id);
    w.key("output_mode");
    write_option_text(w, this.output_mode);
    w.key("offset_bytes");
    write_option_nat(w, this.offset_bytes);
  }
}

/** sys/HostFsReadFileReceipt@1 */
export class HostFsReadFileReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public content: HostOutput | null = null,
    public truncated: aos.Some<bool> | null = null,
    public size_bytes: aos.Some<u64> | null = null,
    public mtime_ns: aos.Some<u64> | null = null,
    public error_code: string | null = null,
    public error_message: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsReadFileReceipt {
    r.record(7);
    r.key("status");
    const status: string = r.text();
    r.key("content");
    const content: HostOutput | null = read_option_HostOutput(r);
    r.key("mtime_ns");
    const mtime_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("truncated");
    const truncated: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("size_bytes");
    const size_bytes: aos.Some<u64> | null = read_option_nat(r);
    r.key("error_message");
    const error_message: string | null = read_option_text(r);
    return new HostFsReadFileReceipt(status, content, truncated, size_bytes, mtime_ns, error_code, error_message);
  }

  schemaName(): string {
    return "sys/HostFsReadFileReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("status");
    w.text(this.status);
    w.key("content");
    write_option_HostOutput(w, this.content);
    w.key("mtime_ns");
    write_option_nat(w, this.mtime_ns);
    w.key("truncated");
    write_option_bool(w, this.truncated);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("size_bytes");
    write_option_nat(w, this.size_bytes);
    w.key("error_message");
    write_option_text(w, this.error_message);
  }
}

/** sys/HostFsStatParams@1 */
export class HostFsStatParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsStatParams {
    r.record(2);
    r.key("path");
    const path: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    return new HostFsStatParams(session_id, path);
  }

  schemaName(): string {
    return "sys/HostFsStatParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("path");
    w.text(this.path);
    w.key("session_id");
    w.text(this.session_id);
  }
}

/** sys/HostFsStatReceipt@1 */
export class HostFsStatReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public exists: aos.Some<bool> | null = null,
    public is_dir: aos.Some<bool> | null = null,
    public size_bytes: aos.Some<u64> | null = null,
    public mtime_ns: aos.Some<u64> | null = null,
    public error_code: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsStatReceipt {
    r.record(6);
    r.key("exists");
    const exists: aos.Some<bool> | null = read_option_bool(r);
    r.key("is_dir");
    const is_dir: aos.Some<bool> | null = read_option_bool(r);
    r.key("status");
    const status: string = r.text();
    r.key("mtime_ns");
    const mtime_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("size_bytes");
    const size_bytes: aos.Some<u64> | null = read_option_nat(r);
    return new HostFsStatReceipt(status, exists, is_dir, size_bytes, mtime_ns, error_code);
  }

  schemaName(): string {
    return "sys/HostFsStatReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("exists");
    write_option_bool(w, this.exists);
    w.key("is_dir");
    write_option_bool(w, this.is_dir);
    w.key("status");
    w.text(this.status);
    w.key("mtime_ns");
    write_option_nat(w, this.mtime_ns);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("size_bytes");
    write_option_nat(w, this.size_bytes);
  }
}

/** sys/HostFsWriteFileParams@1 */
export class HostFsWriteFileParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public path: string = "",
    public content: HostFileContentInput = HostFileContentInput.inline_text(new HostFileContentInputInlineText()),
    public create_parents: aos.Some<bool> | null = null,
    public mode: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsWriteFileParams {
    r.record(5);
    r.key("mode");
    const mode: string | null = read_option_text(r);
    r.key("path");
    const path: string = r.text();
    r.key("content");
    const content: HostFileContentInput = HostFileContentInput.readFrom(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("create_parents");
    const create_parents: aos.Some<bool> | null = read_option_bool(r);
    return new HostFsWriteFileParams(session_id, path, content, create_parents, mode);
  }

  schemaName(): string {
    return "sys/HostFsWriteFileParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("mode");
    write_option_text(w, this.mode);
    w.key("path");
    w.text(this.path);
    w.key("content");
    this.content.writeTo(w);
    w.key("session_id");
    w.text(this.session_id);
    w.key("create_parents");
    write_option_bool(w, this.create_parents);
  }
}

/** sys/HostFsWriteFileReceipt@1 */
export class HostFsWriteFileReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public written_bytes: aos.Some<u64> | null = null,
    public created: aos.Some<bool> | null = null,
    public new_mtime_ns: aos.Some<u64> | null = null,
    public error_code: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostFsWriteFileReceipt {
    r.record(5);
    r.key("status");
    const status: string = r.text();
    r.key("created");
    const created: aos.Some<bool> | null = read_option_bool(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("new_mtime_ns");
    const new_mtime_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("written_bytes");
    const written_bytes: aos.Some<u64> | null = read_option_nat(r);
    return new HostFsWriteFileReceipt(status, written_bytes, created, new_mtime_ns, error_code);
  }

  schemaName(): string {
    return "sys/HostFsWriteFileReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("status");
    w.text(this.status);
    w.key("created");
    write_option_bool(w, this.created);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("new_mtime_ns");
    write_option_nat(w, this.new_mtime_ns);
    w.key("written_bytes");
    write_option_nat(w, this.written_bytes);
  }
}

/** sys/HostMount@1 */
export class HostMount extends aos.Schema {
  constructor(
    public host_path: string = "",
    public guest_path: string = "",
    public mode: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostMount {
    r.record(3);
    r.key("mode");
    const mode: string = r.text();
    r.key("host_path");
    const host_path: string = r.text();
    r.key("guest_path");
    const guest_path: string = r.text();
    return new HostMount(host_path, guest_path, mode);
  }

  schemaName(): string {
    return "sys/HostMount@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("mode");
    w.text(this.mode);
    w.key("host_path");
    w.text(this.host_path);
    w.key("guest_path");
    w.text(this.guest_path);
  }
}

/** sys/HostLocalTarget@1 */
export class HostLocalTarget extends aos.Schema {
  constructor(
    public mounts: Array<HostMount> | null = null,
    public workdir: string | null = null,
    public env: Map<string, string> | null = null,
    public network_mode: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostLocalTarget {
    r.record(4);
    r.key("env");
    const env: Map<string, string> | null = read_option_map_text_text(r);
    r.key("mounts");
    const mounts: Array<HostMount> | null = read_option_list_HostMount(r);
    r.key("workdir");
    const workdir: string | null = read_option_text(r);
    r.key("network_mode");
    const network_mode: string = r.text();
    return new HostLocalTarget(mounts, workdir, env, network_mode);
  }

  schemaName(): string {
    return "sys/HostLocalTarget@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("env");
    write_option_map_text_text(w, this.env);
    w.key("mounts");
    write_option_list_HostMount(w, this.mounts);
    w.key("workdir");
    write_option_text(w, this.workdir);
    w.key("network_mode");
    w.text(this.network_mode);
  }
}

/** sys/HostSandboxTarget@1 */
export class HostSandboxTarget extends aos.Schema {
  constructor(
    public image: string = "",
    public runtime_class: string | null = null,
    public workdir: string | null = null,
    public env: Map<string, string> | null = null,
    public network_mode: string | null = null,
    public mounts: Array<HostMount> | null = null,
    public cpu_limit_millis: aos.Some<u64> | null = null,
    public memory_limit_bytes: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostSandboxTarget {
    r.record(8);
    r.key("env");
    const env: Map<string, string> | null = read_option_map_text_text(r);
    r.key("image");
    const image: string = r.text();
    r.key("mounts");
    const mounts: Array<HostMount> | null = read_option_list_HostMount(r);
    r.key("workdir");
    const workdir: string | null = read_option_text(r);
    r.key("network_mode");
    const network_mode: string | null = read_option_text(r);
    r.key("runtime_class");
    const runtime_class: string | null = read_option_text(r);
    r.key("cpu_limit_millis");
    const cpu_limit_millis: aos.Some<u64> | null = read_option_nat(r);
    r.key("memory_limit_bytes");
    const memory_limit_bytes: aos.Some<u64> | null = read_option_nat(r);
    return new HostSandboxTarget(image, runtime_class, workdir, env, network_mode, mounts, cpu_limit_millis, memory_limit_bytes);
  }

  schemaName(): string {
    return "sys/HostSandboxTarget@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(8);
    w.key("env");
    write_option_map_text_text(w, this.env);
    w.key("image");
    w.text(this.image);
    w.key("mounts");
    write_option_list_HostMount(w, this.mounts);
    w.key("workdir");
    write_option_text(w, this.workdir);
    w.key("network_mode");
    write_option_text(w, this.network_mode);
    w.key("runtime_class");
    write_option_text(w, this.runtime_class);
    w.key("cpu_limit_millis");
    write_option_nat(w, this.cpu_limit_millis);
    w.key("memory_limit_bytes");
    write_option_nat(w, this.memory_limit_bytes);
  }
}

export enum HostTargetTag {
  local,
  sandbox,
}

/** sys/HostTarget@1: `tag` says which arm; an arm's value is in its own. */
export class HostTarget extends aos.Schema {
  private _local: HostLocalTarget | null = null;
  private _sandbox: HostSandboxTarget | null = null;

  constructor(public readonly tag: HostTargetTag) {
    super();
  }

  static local(value: HostLocalTarget): HostTarget {
    const made = new HostTarget(HostTargetTag.local);
    made._local = value;
    return made;
  }

  /** Traps when the arm is another. */
  get local(): HostLocalTarget {
    return this._local!;
  }

  static sandbox(value: HostSandboxTarget): HostTarget {
    const made = new HostTarget(HostTargetTag.sandbox);
    made._sandbox = value;
    return made;
  }

  /** Traps when the arm is another. */
  get sandbox(): HostSandboxTarget {
    return this._sandbox!;
  }

  static readFrom(r: aos.Reader): HostTarget {
    const tag = r.tag();
    if (tag == "local") {
      r.value();
      return HostTarget.local(HostLocalTarget.readFrom(r));
    }
    if (tag == "sandbox") {
      r.value();
      return HostTarget.sandbox(HostSandboxTarget.readFrom(r));
    }
    r.fail("an unknown arm");
    return new HostTarget(HostTargetTag.local);
  }

  schemaName(): string {
    return "sys/HostTarget@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case HostTargetTag.local: {
        w.arm("local");
        this.local.writeTo(w);
        break;
      }
      case HostTargetTag.sandbox: {
        w.arm("sandbox");
        this.sandbox.writeTo(w);
        break;
      }
    }
  }
}

/** sys/HostSessionOpenParams@1 */
export class HostSessionOpenParams extends aos.Schema {
  constructor(
    public target: HostTarget = HostTarget.local(new HostLocalTarget()),
    public session_ttl_ns: aos.Some<u64> | null = null,
    public labels: Map<string, string> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostSessionOpenParams {
    r.record(3);
    r.key("labels");
    const labels: Map<string, string> | null = read_option_map_text_text(r);
    r.key("target");
    const target: HostTarget = HostTarget.readFrom(r);
    r.key("session_ttl_ns");
    const session_ttl_ns: aos.Some<u64> | null = read_option_nat(r);
    return new HostSessionOpenParams(target, session_ttl_ns, labels);
  }

  schemaName(): string {
    return "sys/HostSessionOpenParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("labels");
    write_option_map_text_text(w, this.labels);
    w.key("target");
    this.target.writeTo(w);
    w.key("session_ttl_ns");
    write_option_nat(w, this.session_ttl_ns);
  }
}

/** sys/HostSessionOpenReceipt@1 */
export class HostSessionOpenReceipt extends aos.Schema {
  constructor(
    public session_id: string = "",
    public status: string = "",
    public started_at_ns: u64 = 0,
    public expires_at_ns: aos.Some<u64> | null = null,
    public error_code: string | null = null,
    public error_message: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostSessionOpenReceipt {
    r.record(6);
    r.key("status");
    const status: string = r.text();
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("session_id");
    const session_id: string = r.text();
    r.key("error_message");
    const error_message: string | null = read_option_text(r);
    r.key("expires_at_ns");
    const expires_at_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("started_at_ns");
    const started_at_ns: u64 = r.nat();
    return new HostSessionOpenReceipt(session_id, status, started_at_ns, expires_at_ns, error_code, error_message);
  }

  schemaName(): string {
    return "sys/HostSessionOpenReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("status");
    w.text(this.status);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("session_id");
    w.text(this.session_id);
    w.key("error_message");
    write_option_text(w, this.error_message);
    w.key("expires_at_ns");
    write_option_nat(w, this.expires_at_ns);
    w.key("started_at_ns");
    w.nat(this.started_at_ns);
  }
}

/** sys/HostSessionSignalParams@1 */
export class HostSessionSignalParams extends aos.Schema {
  constructor(
    public session_id: string = "",
    public signal: string = "",
    public grace_timeout_ns: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostSessionSignalParams {
    r.record(3);
    r.key("signal");
    const signal: string = r.text();
    r.key("session_id");
    const session_id: string = r.text();
    r.key("grace_timeout_ns");
    const grace_timeout_ns: aos.Some<u64> | null = read_option_nat(r);
    return new HostSessionSignalParams(session_id, signal, grace_timeout_ns);
  }

  schemaName(): string {
    return "sys/HostSessionSignalParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("signal");
    w.text(this.signal);
    w.key("session_id");
    w.text(this.session_id);
    w.key("grace_timeout_ns");
    write_option_nat(w, this.grace_timeout_ns);
  }
}

/** sys/HostSessionSignalReceipt@1 */
export class HostSessionSignalReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public exit_code: aos.Some<i64> | null = null,
    public ended_at_ns: aos.Some<u64> | null = null,
    public error_code: string | null = null,
    public error_message: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HostSessionSignalReceipt {
    r.record(5);
    r.key("status");
    const status: string = r.text();
    r.key("exit_code");
    const exit_code: aos.Some<i64> | null = read_option_int(r);
    r.key("error_code");
    const error_code: string | null = read_option_text(r);
    r.key("ended_at_ns");
    const ended_at_ns: aos.Some<u64> | null = read_option_nat(r);
    r.key("error_message");
    const error_message: string | null = read_option_text(r);
    return new HostSessionSignalReceipt(status, exit_code, ended_at_ns, error_code, error_message);
  }

  schemaName(): string {
    return "sys/HostSessionSignalReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("status");
    w.text(this.status);
    w.key("exit_code");
    write_option_int(w, this.exit_code);
    w.key("error_code");
    write_option_text(w, this.error_code);
    w.key("ended_at_ns");
    write_option_nat(w, this.ended_at_ns);
    w.key("error_message");
    write_option_text(w, this.error_message);
  }
}

export enum TextOrSecretRefTag {
  literal,
  secret,
}

/** sys/TextOrSecretRef@1: `tag` says which arm; an arm's value is in its own. */
export class TextOrSecretRef extends aos.Schema {
  private _literal: string | null = null;
  private _secret: SecretRef | null = null;

  constructor(public readonly tag: TextOrSecretRefTag) {
    super();
  }

  static literal(value: string): TextOrSecretRef {
    const made = new TextOrSecretRef(TextOrSecretRefTag.literal);
    made._literal = value;
    return made;
  }

  /** Traps when the arm is another. */
  get literal(): string {
    return this._literal!;
  }

  static secret(value: SecretRef): TextOrSecretRef {
    const made = new TextOrSecretRef(TextOrSecretRefTag.secret);
    made._secret = value;
    return made;
  }

  /** Traps when the arm is another. */
  get secret(): SecretRef {
    return this._secret!;
  }

  static readFrom(r: aos.Reader): TextOrSecretRef {
    const tag = r.tag();
    if (tag == "literal") {
      r.value();
      return TextOrSecretRef.literal(r.text());
    }
    if (tag == "secret") {
      r.value();
      return TextOrSecretRef.secret(SecretRef.readFrom(r));
    }
    r.fail("an unknown arm");
    return new TextOrSecretRef(TextOrSecretRefTag.literal);
  }

  schemaName(): string {
    return "sys/TextOrSecretRef@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case TextOrSecretRefTag.literal: {
        w.arm("literal");
        w.text(this.literal);
        break;
      }
      case TextOrSecretRefTag.secret: {
        w.arm("secret");
        this.secret.writeTo(w);
        break;
      }
    }
  }
}

/** sys/HttpRequestParams@1 */
export class HttpRequestParams extends aos.Schema {
  constructor(
    public method: string = "",
    public url: string = "",
    public headers: Map<string, TextOrSecretRef> = new Map<string, TextOrSecretRef>(),
    public body_ref: string | null = null,
    public body: Uint8Array | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HttpRequestParams {
    r.record(5);
    r.key("url");
    const url: string = r.text();
    r.key("body");
    const body: Uint8Array | null = read_option_bytes(r);
    r.key("method");
    const method: string = r.text();
    r.key("headers");
    const headers: Map<string, TextOrSecretRef> = read_map_text_TextOrSecretRef(r);
    r.key("body_ref");
    const body_ref: string | null = read_option_hash(r);
    return new HttpRequestParams(method, url, headers, body_ref, body);
  }

  schemaName(): string {
    return "sys/HttpRequestParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("url");
    w.text(this.url);
    w.key("body");
    write_option_bytes(w, this.body);
    w.key("method");
    w.text(this.method);
    w.key("headers");
    write_map_text_TextOrSecretRef(w, this.headers);
    w.key("body_ref");
    write_option_hash(w, this.body_ref);
  }
}

export class HttpRequestReceiptTimings {
  constructor(
    public start_ns: u64 = 0,
    public end_ns: u64 = 0,
  ) {
  }

  static readFrom(r: aos.Reader): HttpRequestReceiptTimings {
    r.record(2);
    r.key("end_ns");
    const end_ns: u64 = r.nat();
    r.key("start_ns");
    const start_ns: u64 = r.nat();
    return new HttpRequestReceiptTimings(start_ns, end_ns);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("end_ns");
    w.nat(this.end_ns);
    w.key("start_ns");
    w.nat(this.start_ns);
  }
}

/** sys/HttpRequestReceipt@1 */
export class HttpRequestReceipt extends aos.Schema {
  constructor(
    public status: i64 = 0,
    public headers: Map<string, string> = new Map<string, string>(),
    public body_ref: string | null = null,
    public body: Uint8Array | null = null,
    public timings: HttpRequestReceiptTimings = new HttpRequestReceiptTimings(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): HttpRequestReceipt {
    r.record(5);
    r.key("body");
    const body: Uint8Array | null = read_option_bytes(r);
    r.key("status");
    const status: i64 = r.int();
    r.key("headers");
    const headers: Map<string, string> = read_map_text_text(r);
    r.key("timings");
    const timings: HttpRequestReceiptTimings = HttpRequestReceiptTimings.readFrom(r);
    r.key("body_ref");
    const body_ref: string | null = read_option_hash(r);
    return new HttpRequestReceipt(status, headers, body_ref, body, timings);
  }

  schemaName(): string {
    return "sys/HttpRequestReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("body");
    write_option_bytes(w, this.body);
    w.key("status");
    w.int(this.status);
    w.key("headers");
    write_map_text_text(w, this.headers);
    w.key("timings");
    this.timings.writeTo(w);
    w.key("body_ref");
    write_option_hash(w, this.body_ref);
  }
}

/** sys/IntrospectCellInfo@1 */
export class IntrospectCellInfo extends aos.Schema {
  constructor(
    public key: Uint8Array = new Uint8Array(0),
    public state_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
    public last_active_ns: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectCellInfo {
    r.record(4);
    r.key("key");
    const key: Uint8Array = r.bytes();
    r.key("size");
    const size: u64 = r.nat();
    r.key("state_hash");
    const state_hash: string = r.hash();
    r.key("last_active_ns");
    const last_active_ns: u64 = r.nat();
    return new IntrospectCellInfo(key, state_hash, size, last_active_ns);
  }

  schemaName(): string {
    return "sys/IntrospectCellInfo@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("key");
    w.bytes(this.key);
    w.key("size");
    w.nat(this.size);
    w.key("state_hash");
    w.hash(this.state_hash);
    w.key("last_active_ns");
    w.nat(this.last_active_ns);
  }
}

/** sys/IntrospectJournalHeadParams@1 */
export class IntrospectJournalHeadParams extends aos.Schema {
  static readFrom(r: aos.Reader): IntrospectJournalHeadParams {
    r.record(0);
    return new IntrospectJournalHeadParams();
  }

  schemaName(): string {
    return "sys/IntrospectJournalHeadParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(0);
  }
}

/** sys/ReadMeta@1 */
export class ReadMeta extends aos.Schema {
  constructor(
    public journal_height: u64 = 0,
    public snapshot_hash: string | null = null,
    public manifest_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): ReadMeta {
    r.record(3);
    r.key("manifest_hash");
    const manifest_hash: string = r.hash();
    r.key("snapshot_hash");
    const snapshot_hash: string | null = read_option_hash(r);
    r.key("journal_height");
    const journal_height: u64 = r.nat();
    return new ReadMeta(journal_height, snapshot_hash, manifest_hash);
  }

  schemaName(): string {
    return "sys/ReadMeta@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("manifest_hash");
    w.hash(this.manifest_hash);
    w.key("snapshot_hash");
    write_option_hash(w, this.snapshot_hash);
    w.key("journal_height");
    w.nat(this.journal_height);
  }
}

/** sys/IntrospectJournalHeadReceipt@1 */
export class IntrospectJournalHeadReceipt extends aos.Schema {
  constructor(
    public meta: ReadMeta = new ReadMeta(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectJournalHeadReceipt {
    r.record(1);
    r.key("meta");
    const meta: ReadMeta = ReadMeta.readFrom(r);
    return new IntrospectJournalHeadReceipt(meta);
  }

  schemaName(): string {
    return "sys/IntrospectJournalHeadReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("meta");
    this.meta.writeTo(w);
  }
}

/** sys/IntrospectListCellsParams@1 */
export class IntrospectListCellsParams extends aos.Schema {
  constructor(
    public workflow: string = "",
    public after: Uint8Array | null = null,
    public limit: aos.Some<u64> | null = null,
    public consistency: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectListCellsParams {
    r.record(4);
    r.key("after");
    const after: Uint8Array | null = read_option_bytes(r);
    r.key("limit");
    const limit: aos.Some<u64> | null = read_option_nat(r);
    r.key("workflow");
    const workflow: string = r.text();
    r.key("consistency");
    const consistency: string | null = read_option_text(r);
    return new IntrospectListCellsParams(workflow, after, limit, consistency);
  }

  schemaName(): string {
    return "sys/IntrospectListCellsParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("after");
    write_option_bytes(w, this.after);
    w.key("limit");
    write_option_nat(w, this.limit);
    w.key("workflow");
    w.text(this.workflow);
    w.key("consistency");
    write_option_text(w, this.consistency);
  }
}

/** sys/IntrospectListCellsReceipt@1 */
export class IntrospectListCellsReceipt extends aos.Schema {
  constructor(
    public cells: Array<IntrospectCellInfo> = new Array<IntrospectCellInfo>(),
    public next: Uint8Array | null = null,
    public meta: ReadMeta = new ReadMeta(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectListCellsReceipt {
    r.record(3);
    r.key("meta");
    const meta: ReadMeta = ReadMeta.readFrom(r);
    r.key("next");
    const next: Uint8Array | null = read_option_bytes(r);
    r.key("cells");
    const cells: Array<IntrospectCellInfo> = read_list_IntrospectCellInfo(r);
    return new IntrospectListCellsReceipt(cells, next, meta);
  }

  schemaName(): string {
    return "sys/IntrospectListCellsReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("meta");
    this.meta.writeTo(w);
    w.key("next");
    write_option_bytes(w, this.next);
    w.key("cells");
    write_list_IntrospectCellInfo(w, this.cells);
  }
}

/** sys/IntrospectManifestParams@1 */
export class IntrospectManifestParams extends aos.Schema {
  constructor(
    public consistency: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectManifestParams {
    r.record(1);
    r.key("consistency");
    const consistency: string | null = read_option_text(r);
    return new IntrospectManifestParams(consistency);
  }

  schemaName(): string {
    return "sys/IntrospectManifestParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("consistency");
    write_option_text(w, this.consistency);
  }
}

/** sys/IntrospectManifestReceipt@1 */
export class IntrospectManifestReceipt extends aos.Schema {
  constructor(
    public manifest: Uint8Array = new Uint8Array(0),
    public meta: ReadMeta = new ReadMeta(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectManifestReceipt {
    r.record(2);
    r.key("meta");
    const meta: ReadMeta = ReadMeta.readFrom(r);
    r.key("manifest");
    const manifest: Uint8Array = r.bytes();
    return new IntrospectManifestReceipt(manifest, meta);
  }

  schemaName(): string {
    return "sys/IntrospectManifestReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("meta");
    this.meta.writeTo(w);
    w.key("manifest");
    w.bytes(this.manifest);
  }
}

/** sys/IntrospectWorkflowStateParams@1 */
export class IntrospectWorkflowStateParams extends aos.Schema {
  constructor(
    public workflow: string = "",
    public key: Uint8Array | null = null,
    public consistency: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectWorkflowStateParams {
    r.record(3);
    r.key("key");
    const key: Uint8Array | null = read_option_bytes(r);
    r.key("workflow");
    const workflow: string = r.text();
    r.key("consistency");
    const consistency: string | null = read_option_text(r);
    return new IntrospectWorkflowStateParams(workflow, key, consistency);
  }

  schemaName(): string {
    return "sys/IntrospectWorkflowStateParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("key");
    write_option_bytes(w, this.key);
    w.key("workflow");
    w.text(this.workflow);
    w.key("consistency");
    write_option_text(w, this.consistency);
  }
}

/** sys/IntrospectWorkflowStateReceipt@1 */
export class IntrospectWorkflowStateReceipt extends aos.Schema {
  constructor(
    public state: Uint8Array | null = null,
    public meta: ReadMeta = new ReadMeta(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): IntrospectWorkflowStateReceipt {
    r.record(2);
    r.key("meta");
    const meta: ReadMeta = ReadMeta.readFrom(r);
    r.key("state");
    const state: Uint8Array | null = read_option_bytes(r);
    return new IntrospectWorkflowStateReceipt(state, meta);
  }

  schemaName(): string {
    return "sys/IntrospectWorkflowStateReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("meta");
    this.meta.writeTo(w);
    w.key("state");
    write_option_bytes(w, this.state);
  }
}

export enum LlmCompactStrategyTag {
  ProviderNative,
  AosSummary,
  Auto,
}

/** sys/LlmCompactStrategy@1: `tag` says which arm; an arm's value is in its own. */
export class LlmCompactStrategy extends aos.Schema {

  constructor(public readonly tag: LlmCompactStrategyTag) {
    super();
  }

  static ProviderNative(): LlmCompactStrategy {
    return new LlmCompactStrategy(LlmCompactStrategyTag.ProviderNative);
  }

  static AosSummary(): LlmCompactStrategy {
    return new LlmCompactStrategy(LlmCompactStrategyTag.AosSummary);
  }

  static Auto(): LlmCompactStrategy {
    return new LlmCompactStrategy(LlmCompactStrategyTag.Auto);
  }

  static readFrom(r: aos.Reader): LlmCompactStrategy {
    const tag = r.tag();
    if (tag == "ProviderNative") {
      r.noValue();
      return LlmCompactStrategy.ProviderNative();
    }
    if (tag == "AosSummary") {
      r.noValue();
      return LlmCompactStrategy.AosSummary();
    }
    if (tag == "Auto") {
      r.noValue();
      return LlmCompactStrategy.Auto();
    }
    r.fail("an unknown arm");
    return new LlmCompactStrategy(LlmCompactStrategyTag.ProviderNative);
  }

  schemaName(): string {
    return "sys/LlmCompactStrategy@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LlmCompactStrategyTag.ProviderNative: {
        w.unitArm("ProviderNative");
        break;
      }
      case LlmCompactStrategyTag.AosSummary: {
        w.unitArm("AosSummary");
        break;
      }
      case LlmCompactStrategyTag.Auto: {
        w.unitArm("Auto");
        break;
      }
    }
  }
}

export class LlmWindowItemKindCustom {
  constructor(
    public kind: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): LlmWindowItemKindCustom {
    r.record(1);
    r.key("kind");
    const kind: string = r.text();
    return new LlmWindowItemKindCustom(kind);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("kind");
    w.text(this.kind);
  }
}

export enum LlmWindowItemKindTag {
  MessageRef,
  AosSummaryRef,
  ProviderNativeArtifactRef,
  ProviderRawWindowRef,
  Custom,
}

/** sys/LlmWindowItemKind@1: `tag` says which arm; an arm's value is in its own. */
export class LlmWindowItemKind extends aos.Schema {
  private _Custom: LlmWindowItemKindCustom | null = null;

  constructor(public readonly tag: LlmWindowItemKindTag) {
    super();
  }

  static MessageRef(): LlmWindowItemKind {
    return new LlmWindowItemKind(LlmWindowItemKindTag.MessageRef);
  }

  static AosSummaryRef(): LlmWindowItemKind {
    return new LlmWindowItemKind(LlmWindowItemKindTag.AosSummaryRef);
  }

  static ProviderNativeArtifactRef(): LlmWindowItemKind {
    return new LlmWindowItemKind(LlmWindowItemKindTag.ProviderNativeArtifactRef);
  }

  static ProviderRawWindowRef(): LlmWindowItemKind {
    return new LlmWindowItemKind(LlmWindowItemKindTag.ProviderRawWindowRef);
  }

  static Custom(value: LlmWindowItemKindCustom): LlmWindowItemKind {
    const made = new LlmWindowItemKind(LlmWindowItemKindTag.Custom);
    made._Custom = value;
    return made;
  }

  /** Traps when the arm is another. */
  get custom(): LlmWindowItemKindCustom {
    return this._Custom!;
  }

  static readFrom(r: aos.Reader): LlmWindowItemKind {
    const tag = r.tag();
    if (tag == "MessageRef") {
      r.noValue();
      return LlmWindowItemKind.MessageRef();
    }
    if (tag == "AosSummaryRef") {
      r.noValue();
      return LlmWindowItemKind.AosSummaryRef();
    }
    if (tag == "ProviderNativeArtifactRef") {
      r.noValue();
      return LlmWindowItemKind.ProviderNativeArtifactRef();
    }
    if (tag == "ProviderRawWindowRef") {
      r.noValue();
      return LlmWindowItemKind.ProviderRawWindowRef();
    }
    if (tag == "Custom") {
      r.value();
      return LlmWindowItemKind.Custom(LlmWindowItemKindCustom.readFrom(r));
    }
    r.fail("an unknown arm");
    return new LlmWindowItemKind(LlmWindowItemKindTag.MessageRef);
  }

  schemaName(): string {
    return "sys/LlmWindowItemKind@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LlmWindowItemKindTag.MessageRef: {
        w.unitArm("MessageRef");
        break;
      }
      case LlmWindowItemKindTag.AosSummaryRef: {
        w.unitArm("AosSummaryRef");
        break;
      }
      case LlmWindowItemKindTag.ProviderNativeArtifactRef: {
        w.unitArm("ProviderNativeArtifactRef");
        break;
      }
      case LlmWindowItemKindTag.ProviderRawWindowRef: {
        w.unitArm("ProviderRawWindowRef");
        break;
      }
      case LlmWindowItemKindTag.Custom: {
        w.arm("Custom");
        this.custom.writeTo(w);
        break;
      }
    }
  }
}

/** sys/LlmTranscriptRange@1 */
export class LlmTranscriptRange extends aos.Schema {
  constructor(
    public start_seq: u64 = 0,
    public end_seq: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmTranscriptRange {
    r.record(2);
    r.key("end_seq");
    const end_seq: u64 = r.nat();
    r.key("start_seq");
    const start_seq: u64 = r.nat();
    return new LlmTranscriptRange(start_seq, end_seq);
  }

  schemaName(): string {
    return "sys/LlmTranscriptRange@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("end_seq");
    w.nat(this.end_seq);
    w.key("start_seq");
    w.nat(this.start_seq);
  }
}

/** sys/LlmProviderCompatibility@1 */
export class LlmProviderCompatibility extends aos.Schema {
  constructor(
    public provider: string = "",
    public api_kind: string = "",
    public model: string | null = null,
    public model_family: string | null = null,
    public artifact_type: string = "",
    public opaque: bool = false,
    public encrypted: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmProviderCompatibility {
    r.record(7);
    r.key("model");
    const model: string | null = read_option_text(r);
    r.key("opaque");
    const opaque: bool = r.bool();
    r.key("api_kind");
    const api_kind: string = r.text();
    r.key("provider");
    const provider: string = r.text();
    r.key("encrypted");
    const encrypted: bool = r.bool();
    r.key("model_family");
    const model_family: string | null = read_option_text(r);
    r.key("artifact_type");
    const artifact_type: string = r.text();
    return new LlmProviderCompatibility(provider, api_kind, model, model_family, artifact_type, opaque, encrypted);
  }

  schemaName(): string {
    return "sys/LlmProviderCompatibility@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(7);
    w.key("model");
    write_option_text(w, this.model);
    w.key("opaque");
    w.bool(this.opaque);
    w.key("api_kind");
    w.text(this.api_kind);
    w.key("provider");
    w.text(this.provider);
    w.key("encrypted");
    w.bool(this.encrypted);
    w.key("model_family");
    write_option_text(w, this.model_family);
    w.key("artifact_type");
    w.text(this.artifact_type);
  }
}

/** sys/LlmWindowItem@1 */
export class LlmWindowItem extends aos.Schema {
  constructor(
    public item_id: string = "",
    public kind: LlmWindowItemKind = LlmWindowItemKind.MessageRef(),
    public ref_: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public lane: string | null = null,
    public source_range: LlmTranscriptRange | null = null,
    public source_refs: Array<string> = new Array<string>(),
    public provider_compatibility: LlmProviderCompatibility | null = null,
    public estimated_tokens: aos.Some<u64> | null = null,
    public metadata: Map<string, string> = new Map<string, string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmWindowItem {
    r.record(9);
    r.key("kind");
    const kind: LlmWindowItemKind = LlmWindowItemKind.readFrom(r);
    r.key("lane");
    const lane: string | null = read_option_text(r);
    r.key("ref_");
    const ref_: string = r.hash();
    r.key("item_id");
    const item_id: string = r.text();
    r.key("metadata");
    const metadata: Map<string, string> = read_map_text_text(r);
    r.key("source_refs");
    const source_refs: Array<string> = read_list_hash(r);
    r.key("source_range");
    const source_range: LlmTranscriptRange | null = read_option_LlmTranscriptRange(r);
    r.key("estimated_tokens");
    const estimated_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("provider_compatibility");
    const provider_compatibility: LlmProviderCompatibility | null = read_option_LlmProviderCompatibility(r);
    return new LlmWindowItem(item_id, kind, ref_, lane, source_range, source_refs, provider_compatibility, estimated_tokens, metadata);
  }

  schemaName(): string {
    return "sys/LlmWindowItem@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(9);
    w.key("kind");
    this.kind.writeTo(w);
    w.key("lane");
    write_option_text(w, this.lane);
    w.key("ref_");
    w.hash(this.ref_);
    w.key("item_id");
    w.text(this.item_id);
    w.key("metadata");
    write_map_text_text(w, this.metadata);
    w.key("source_refs");
    write_list_hash(w, this.source_refs);
    w.key("source_range");
    write_option_LlmTranscriptRange(w, this.source_range);
    w.key("estimated_tokens");
    write_option_nat(w, this.estimated_tokens);
    w.key("provider_compatibility");
    write_option_LlmProviderCompatibility(w, this.provider_compatibility);
  }
}

/** sys/LlmCompactParams@1 */
export class LlmCompactParams extends aos.Schema {
  constructor(
    public correlation_id: string | null = null,
    public operation_id: string = "",
    public provider: string = "",
    public model: string = "",
    public strategy: LlmCompactStrategy = LlmCompactStrategy.ProviderNative(),
    public source_window_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public preserve_window_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public recent_tail_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public source_range: LlmTranscriptRange | null = null,
    public target_tokens: aos.Some<u64> | null = null,
    public provider_options_ref: string | null = null,
    public api_key: TextOrSecretRef | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmCompactParams {
    r.record(12);
    r.key("model");
    const model: string = r.text();
    r.key("api_key");
    const api_key: TextOrSecretRef | null = read_option_TextOrSecretRef(r);
    r.key("provider");
    const provider: string = r.text();
    r.key("strategy");
    const strategy: LlmCompactStrategy = LlmCompactStrategy.readFrom(r);
    r.key("operation_id");
    const operation_id: string = r.text();
    r.key("source_range");
    const source_range: LlmTranscriptRange | null = read_option_LlmTranscriptRange(r);
    r.key("target_tokens");
    const target_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("correlation_id");
    const correlation_id: string | null = read_option_text(r);
    r.key("recent_tail_items");
    const recent_tail_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    r.key("source_window_items");
    const source_window_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    r.key("provider_options_ref");
    const provider_options_ref: string | null = read_option_hash(r);
    r.key("preserve_window_items");
    const preserve_window_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    return new LlmCompactParams(correlation_id, operation_id, provider, model, strategy, source_window_items, preserve_window_items, recent_tail_items, source_range, target_tokens, provider_options_ref, api_key);
  }

  schemaName(): string {
    return "sys/LlmCompactParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(12);
    w.key("model");
    w.text(this.model);
    w.key("api_key");
    write_option_TextOrSecretRef(w, this.api_key);
    w.key("provider");
    w.text(this.provider);
    w.key("strategy");
    this.strategy.writeTo(w);
    w.key("operation_id");
    w.text(this.operation_id);
    w.key("source_range");
    write_option_LlmTranscriptRange(w, this.source_range);
    w.key("target_tokens");
    write_option_nat(w, this.target_tokens);
    w.key("correlation_id");
    write_option_text(w, this.correlation_id);
    w.key("recent_tail_items");
    write_list_LlmWindowItem(w, this.recent_tail_items);
    w.key("source_window_items");
    write_list_LlmWindowItem(w, this.source_window_items);
    w.key("provider_options_ref");
    write_option_hash(w, this.provider_options_ref);
    w.key("preserve_window_items");
    write_list_LlmWindowItem(w, this.preserve_window_items);
  }
}

export enum LlmCompactionArtifactKindTag {
  AosSummary,
  ProviderNative,
  Mixed,
}

/** sys/LlmCompactionArtifactKind@1: `tag` says which arm; an arm's value is in its own. */
export class LlmCompactionArtifactKind extends aos.Schema {

  constructor(public readonly tag: LlmCompactionArtifactKindTag) {
    super();
  }

  static AosSummary(): LlmCompactionArtifactKind {
    return new LlmCompactionArtifactKind(LlmCompactionArtifactKindTag.AosSummary);
  }

  static ProviderNative(): LlmCompactionArtifactKind {
    return new LlmCompactionArtifactKind(LlmCompactionArtifactKindTag.ProviderNative);
  }

  static Mixed(): LlmCompactionArtifactKind {
    return new LlmCompactionArtifactKind(LlmCompactionArtifactKindTag.Mixed);
  }

  static readFrom(r: aos.Reader): LlmCompactionArtifactKind {
    const tag = r.tag();
    if (tag == "AosSummary") {
      r.noValue();
      return LlmCompactionArtifactKind.AosSummary();
    }
    if (tag == "ProviderNative") {
      r.noValue();
      return LlmCompactionArtifactKind.ProviderNative();
    }
    if (tag == "Mixed") {
      r.noValue();
      return LlmCompactionArtifactKind.Mixed();
    }
    r.fail("an unknown arm");
    return new LlmCompactionArtifactKind(LlmCompactionArtifactKindTag.AosSummary);
  }

  schemaName(): string {
    return "sys/LlmCompactionArtifactKind@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LlmCompactionArtifactKindTag.AosSummary: {
        w.unitArm("AosSummary");
        break;
      }
      case LlmCompactionArtifactKindTag.ProviderNative: {
        w.unitArm("ProviderNative");
        break;
      }
      case LlmCompactionArtifactKindTag.Mixed: {
        w.unitArm("Mixed");
        break;
      }
    }
  }
}

/** sys/TokenUsage@1 */
export class TokenUsage extends aos.Schema {
  constructor(
    public prompt: u64 = 0,
    public completion: u64 = 0,
    public total: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TokenUsage {
    r.record(3);
    r.key("total");
    const total: aos.Some<u64> | null = read_option_nat(r);
    r.key("prompt");
    const prompt: u64 = r.nat();
    r.key("completion");
    const completion: u64 = r.nat();
    return new TokenUsage(prompt, completion, total);
  }

  schemaName(): string {
    return "sys/TokenUsage@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("total");
    write_option_nat(w, this.total);
    w.key("prompt");
    w.nat(this.prompt);
    w.key("completion");
    w.nat(this.completion);
  }
}

/** sys/LlmCompactReceipt@1 */
export class LlmCompactReceipt extends aos.Schema {
  constructor(
    public operation_id: string = "",
    public artifact_kind: LlmCompactionArtifactKind = LlmCompactionArtifactKind.AosSummary(),
    public artifact_refs: Array<string> = new Array<string>(),
    public source_range: LlmTranscriptRange | null = null,
    public compacted_through: aos.Some<u64> | null = null,
    public active_window_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public token_usage: TokenUsage | null = null,
    public provider_metadata_ref: string | null = null,
    public warnings_ref: string | null = null,
    public provider_id: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmCompactReceipt {
    r.record(10);
    r.key("provider_id");
    const provider_id: string = r.text();
    r.key("token_usage");
    const token_usage: TokenUsage | null = read_option_TokenUsage(r);
    r.key("operation_id");
    const operation_id: string = r.text();
    r.key("source_range");
    const source_range: LlmTranscriptRange | null = read_option_LlmTranscriptRange(r);
    r.key("warnings_ref");
    const warnings_ref: string | null = read_option_hash(r);
    r.key("artifact_kind");
    const artifact_kind: LlmCompactionArtifactKind = LlmCompactionArtifactKind.readFrom(r);
    r.key("artifact_refs");
    const artifact_refs: Array<string> = read_list_hash(r);
    r.key("compacted_through");
    const compacted_through: aos.Some<u64> | null = read_option_nat(r);
    r.key("active_window_items");
    const active_window_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    r.key("provider_metadata_ref");
    const provider_metadata_ref: string | null = read_option_hash(r);
    return new LlmCompactReceipt(operation_id, artifact_kind, artifact_refs, source_range, compacted_through, active_window_items, token_usage, provider_metadata_ref, warnings_ref, provider_id);
  }

  schemaName(): string {
    return "sys/LlmCompactReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(10);
    w.key("provider_id");
    w.text(this.provider_id);
    w.key("token_usage");
    write_option_TokenUsage(w, this.token_usage);
    w.key("operation_id");
    w.text(this.operation_id);
    w.key("source_range");
    write_option_LlmTranscriptRange(w, this.source_range);
    w.key("warnings_ref");
    write_option_hash(w, this.warnings_ref);
    w.key("artifact_kind");
    this.artifact_kind.writeTo(w);
    w.key("artifact_refs");
    write_list_hash(w, this.artifact_refs);
    w.key("compacted_through");
    write_option_nat(w, this.compacted_through);
    w.key("active_window_items");
    write_list_LlmWindowItem(w, this.active_window_items);
    w.key("provider_metadata_ref");
    write_option_hash(w, this.provider_metadata_ref);
  }
}

/** sys/LlmCountTokensParams@1 */
export class LlmCountTokensParams extends aos.Schema {
  constructor(
    public correlation_id: string | null = null,
    public provider: string = "",
    public model: string = "",
    public window_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public tool_definitions_ref: string | null = null,
    public response_format_ref: string | null = null,
    public provider_options_ref: string | null = null,
    public rendering_profile: string | null = null,
    public candidate_plan_id: string | null = null,
    public metadata: Map<string, string> = new Map<string, string>(),
    public api_key: TextOrSecretRef | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmCountTokensParams {
    r.record(11);
    r.key("model");
    const model: string = r.text();
    r.key("api_key");
    const api_key: TextOrSecretRef | null = read_option_TextOrSecretRef(r);
    r.key("metadata");
    const metadata: Map<string, string> = read_map_text_text(r);
    r.key("provider");
    const provider: string = r.text();
    r.key("window_items");
    const window_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    r.key("correlation_id");
    const correlation_id: string | null = read_option_text(r);
    r.key("candidate_plan_id");
    const candidate_plan_id: string | null = read_option_text(r);
    r.key("rendering_profile");
    const rendering_profile: string | null = read_option_text(r);
    r.key("response_format_ref");
    const response_format_ref: string | null = read_option_hash(r);
    r.key("provider_options_ref");
    const provider_options_ref: string | null = read_option_hash(r);
    r.key("tool_definitions_ref");
    const tool_definitions_ref: string | null = read_option_hash(r);
    return new LlmCountTokensParams(correlation_id, provider, model, window_items, tool_definitions_ref, response_format_ref, provider_options_ref, rendering_profile, candidate_plan_id, metadata, api_key);
  }

  schemaName(): string {
    return "sys/LlmCountTokensParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(11);
    w.key("model");
    w.text(this.model);
    w.key("api_key");
    write_option_TextOrSecretRef(w, this.api_key);
    w.key("metadata");
    write_map_text_text(w, this.metadata);
    w.key("provider");
    w.text(this.provider);
    w.key("window_items");
    write_list_LlmWindowItem(w, this.window_items);
    w.key("correlation_id");
    write_option_text(w, this.correlation_id);
    w.key("candidate_plan_id");
    write_option_text(w, this.candidate_plan_id);
    w.key("rendering_profile");
    write_option_text(w, this.rendering_profile);
    w.key("response_format_ref");
    write_option_hash(w, this.response_format_ref);
    w.key("provider_options_ref");
    write_option_hash(w, this.provider_options_ref);
    w.key("tool_definitions_ref");
    write_option_hash(w, this.tool_definitions_ref);
  }
}

export enum LlmTokenCountQualityTag {
  Exact,
  ProviderEstimate,
  LocalEstimate,
  Unknown,
}

/** sys/LlmTokenCountQuality@1: `tag` says which arm; an arm's value is in its own. */
export class LlmTokenCountQuality extends aos.Schema {

  constructor(public readonly tag: LlmTokenCountQualityTag) {
    super();
  }

  static Exact(): LlmTokenCountQuality {
    return new LlmTokenCountQuality(LlmTokenCountQualityTag.Exact);
  }

  static ProviderEstimate(): LlmTokenCountQuality {
    return new LlmTokenCountQuality(LlmTokenCountQualityTag.ProviderEstimate);
  }

  static LocalEstimate(): LlmTokenCountQuality {
    return new LlmTokenCountQuality(LlmTokenCountQualityTag.LocalEstimate);
  }

  static Unknown(): LlmTokenCountQuality {
    return new LlmTokenCountQuality(LlmTokenCountQualityTag.Unknown);
  }

  static readFrom(r: aos.Reader): LlmTokenCountQuality {
    const tag = r.tag();
    if (tag == "Exact") {
      r.noValue();
      return LlmTokenCountQuality.Exact();
    }
    if (tag == "ProviderEstimate") {
      r.noValue();
      return LlmTokenCountQuality.ProviderEstimate();
    }
    if (tag == "LocalEstimate") {
      r.noValue();
      return LlmTokenCountQuality.LocalEstimate();
    }
    if (tag == "Unknown") {
      r.noValue();
      return LlmTokenCountQuality.Unknown();
    }
    r.fail("an unknown arm");
    return new LlmTokenCountQuality(LlmTokenCountQualityTag.Exact);
  }

  schemaName(): string {
    return "sys/LlmTokenCountQuality@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LlmTokenCountQualityTag.Exact: {
        w.unitArm("Exact");
        break;
      }
      case LlmTokenCountQualityTag.ProviderEstimate: {
        w.unitArm("ProviderEstimate");
        break;
      }
      case LlmTokenCountQualityTag.LocalEstimate: {
        w.unitArm("LocalEstimate");
        break;
      }
      case LlmTokenCountQualityTag.Unknown: {
        w.unitArm("Unknown");
        break;
      }
    }
  }
}

/** sys/LlmTokenCountByRef@1 */
export class LlmTokenCountByRef extends aos.Schema {
  constructor(
    public ref_: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public tokens: u64 = 0,
    public quality: LlmTokenCountQuality = LlmTokenCountQuality.Exact(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmTokenCountByRef {
    r.record(3);
    r.key("ref_");
    const ref_: string = r.hash();
    r.key("tokens");
    const tokens: u64 = r.nat();
    r.key("quality");
    const quality: LlmTokenCountQuality = LlmTokenCountQuality.readFrom(r);
    return new LlmTokenCountByRef(ref_, tokens, quality);
  }

  schemaName(): string {
    return "sys/LlmTokenCountByRef@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("ref_");
    w.hash(this.ref_);
    w.key("tokens");
    w.nat(this.tokens);
    w.key("quality");
    this.quality.writeTo(w);
  }
}

/** sys/LlmCountTokensReceipt@1 */
export class LlmCountTokensReceipt extends aos.Schema {
  constructor(
    public input_tokens: aos.Some<u64> | null = null,
    public original_input_tokens: aos.Some<u64> | null = null,
    public counts_by_ref: Array<LlmTokenCountByRef> = new Array<LlmTokenCountByRef>(),
    public tool_tokens: aos.Some<u64> | null = null,
    public response_format_tokens: aos.Some<u64> | null = null,
    public quality: LlmTokenCountQuality = LlmTokenCountQuality.Exact(),
    public provider: string = "",
    public model: string = "",
    public candidate_plan_id: string | null = null,
    public provider_metadata_ref: string | null = null,
    public warnings_ref: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmCountTokensReceipt {
    r.record(11);
    r.key("model");
    const model: string = r.text();
    r.key("quality");
    const quality: LlmTokenCountQuality = LlmTokenCountQuality.readFrom(r);
    r.key("provider");
    const provider: string = r.text();
    r.key("tool_tokens");
    const tool_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("input_tokens");
    const input_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("warnings_ref");
    const warnings_ref: string | null = read_option_hash(r);
    r.key("counts_by_ref");
    const counts_by_ref: Array<LlmTokenCountByRef> = read_list_LlmTokenCountByRef(r);
    r.key("candidate_plan_id");
    const candidate_plan_id: string | null = read_option_text(r);
    r.key("original_input_tokens");
    const original_input_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("provider_metadata_ref");
    const provider_metadata_ref: string | null = read_option_hash(r);
    r.key("response_format_tokens");
    const response_format_tokens: aos.Some<u64> | null = read_option_nat(r);
    return new LlmCountTokensReceipt(input_tokens, original_input_tokens, counts_by_ref, tool_tokens, response_format_tokens, quality, provider, model, candidate_plan_id, provider_metadata_ref, warnings_ref);
  }

  schemaName(): string {
    return "sys/LlmCountTokensReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(11);
    w.key("model");
    w.text(this.model);
    w.key("quality");
    this.quality.writeTo(w);
    w.key("provider");
    w.text(this.provider);
    w.key("tool_tokens");
    write_option_nat(w, this.tool_tokens);
    w.key("input_tokens");
    write_option_nat(w, this.input_tokens);
    w.key("warnings_ref");
    write_option_hash(w, this.warnings_ref);
    w.key("counts_by_ref");
    write_list_LlmTokenCountByRef(w, this.counts_by_ref);
    w.key("candidate_plan_id");
    write_option_text(w, this.candidate_plan_id);
    w.key("original_input_tokens");
    write_option_nat(w, this.original_input_tokens);
    w.key("provider_metadata_ref");
    write_option_hash(w, this.provider_metadata_ref);
    w.key("response_format_tokens");
    write_option_nat(w, this.response_format_tokens);
  }
}

export class LlmToolChoiceTool {
  constructor(
    public name: string = "",
  ) {
  }

  static readFrom(r: aos.Reader): LlmToolChoiceTool {
    r.record(1);
    r.key("name");
    const name: string = r.text();
    return new LlmToolChoiceTool(name);
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("name");
    w.text(this.name);
  }
}

export enum LlmToolChoiceTag {
  Auto,
  None,
  Required,
  Tool,
}

/** sys/LlmToolChoice@1: `tag` says which arm; an arm's value is in its own. */
export class LlmToolChoice extends aos.Schema {
  private _Tool: LlmToolChoiceTool | null = null;

  constructor(public readonly tag: LlmToolChoiceTag) {
    super();
  }

  static Auto(): LlmToolChoice {
    return new LlmToolChoice(LlmToolChoiceTag.Auto);
  }

  static None(): LlmToolChoice {
    return new LlmToolChoice(LlmToolChoiceTag.None);
  }

  static Required(): LlmToolChoice {
    return new LlmToolChoice(LlmToolChoiceTag.Required);
  }

  static Tool(value: LlmToolChoiceTool): LlmToolChoice {
    const made = new LlmToolChoice(LlmToolChoiceTag.Tool);
    made._Tool = value;
    return made;
  }

  /** Traps when the arm is another. */
  get tool(): LlmToolChoiceTool {
    return this._Tool!;
  }

  static readFrom(r: aos.Reader): LlmToolChoice {
    const tag = r.tag();
    if (tag == "Auto") {
      r.noValue();
      return LlmToolChoice.Auto();
    }
    if (tag == "None") {
      r.noValue();
      return LlmToolChoice.None();
    }
    if (tag == "Required") {
      r.noValue();
      return LlmToolChoice.Required();
    }
    if (tag == "Tool") {
      r.value();
      return LlmToolChoice.Tool(LlmToolChoiceTool.readFrom(r));
    }
    r.fail("an unknown arm");
    return new LlmToolChoice(LlmToolChoiceTag.Auto);
  }

  schemaName(): string {
    return "sys/LlmToolChoice@1";
  }

  writeTo(w: aos.Writer): void {
    switch (this.tag) {
      case LlmToolChoiceTag.Auto: {
        w.unitArm("Auto");
        break;
      }
      case LlmToolChoiceTag.None: {
        w.unitArm("None");
        break;
      }
      case LlmToolChoiceTag.Required: {
        w.unitArm("Required");
        break;
      }
      case LlmToolChoiceTag.Tool: {
        w.arm("Tool");
        this.tool.writeTo(w);
        break;
      }
    }
  }
}

export class LlmGenerateParamsRuntime {
  constructor(
    public temperature: string | null = null,
    public top_p: string | null = null,
    public max_tokens: aos.Some<u64> | null = null,
    public tool_refs: Array<string> | null = null,
    public tool_choice: LlmToolChoice | null = null,
    public reasoning_effort: string | null = null,
    public stop_sequences: Array<string> | null = null,
    public metadata: Map<string, string> | null = null,
    public provider_options_ref: string | null = null,
    public response_format_ref: string | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): LlmGenerateParamsRuntime {
    r.record(10);
    r.key("top_p");
    const top_p: string | null = read_option_dec128(r);
    r.key("metadata");
    const metadata: Map<string, string> | null = read_option_map_text_text(r);
    r.key("tool_refs");
    const tool_refs: Array<string> | null = read_option_list_hash(r);
    r.key("max_tokens");
    const max_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("temperature");
    const temperature: string | null = read_option_dec128(r);
    r.key("tool_choice");
    const tool_choice: LlmToolChoice | null = read_option_LlmToolChoice(r);
    r.key("stop_sequences");
    const stop_sequences: Array<string> | null = read_option_list_text(r);
    r.key("reasoning_effort");
    const reasoning_effort: string | null = read_option_text(r);
    r.key("response_format_ref");
    const response_format_ref: string | null = read_option_hash(r);
    r.key("provider_options_ref");
    const provider_options_ref: string | null = read_option_hash(r);
    return new LlmGenerateParamsRuntime(temperature, top_p, max_tokens, tool_refs, tool_choice, reasoning_effort, stop_sequences, metadata, provider_options_ref, response_format_ref);
  }

  writeTo(w: aos.Writer): void {
    w.record(10);
    w.key("top_p");
    write_option_dec128(w, this.top_p);
    w.key("metadata");
    write_option_map_text_text(w, this.metadata);
    w.key("tool_refs");
    write_option_list_hash(w, this.tool_refs);
    w.key("max_tokens");
    write_option_nat(w, this.max_tokens);
    w.key("temperature");
    write_option_dec128(w, this.temperature);
    w.key("tool_choice");
    write_option_LlmToolChoice(w, this.tool_choice);
    w.key("stop_sequences");
    write_option_list_text(w, this.stop_sequences);
    w.key("reasoning_effort");
    write_option_text(w, this.reasoning_effort);
    w.key("response_format_ref");
    write_option_hash(w, this.response_format_ref);
    w.key("provider_options_ref");
    write_option_hash(w, this.provider_options_ref);
  }
}

/** sys/LlmGenerateParams@1 */
export class LlmGenerateParams extends aos.Schema {
  constructor(
    public correlation_id: string | null = null,
    public provider: string = "",
    public model: string = "",
    public window_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public runtime: LlmGenerateParamsRuntime = new LlmGenerateParamsRuntime(),
    public api_key: TextOrSecretRef | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmGenerateParams {
    r.record(6);
    r.key("model");
    const model: string = r.text();
    r.key("api_key");
    const api_key: TextOrSecretRef | null = read_option_TextOrSecretRef(r);
    r.key("runtime");
    const runtime: LlmGenerateParamsRuntime = LlmGenerateParamsRuntime.readFrom(r);
    r.key("provider");
    const provider: string = r.text();
    r.key("window_items");
    const window_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    r.key("correlation_id");
    const correlation_id: string | null = read_option_text(r);
    return new LlmGenerateParams(correlation_id, provider, model, window_items, runtime, api_key);
  }

  schemaName(): string {
    return "sys/LlmGenerateParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("model");
    w.text(this.model);
    w.key("api_key");
    write_option_TextOrSecretRef(w, this.api_key);
    w.key("runtime");
    this.runtime.writeTo(w);
    w.key("provider");
    w.text(this.provider);
    w.key("window_items");
    write_list_LlmWindowItem(w, this.window_items);
    w.key("correlation_id");
    write_option_text(w, this.correlation_id);
  }
}

export class LlmGenerateReceiptFinishReason {
  constructor(
    public reason: string = "",
    public raw: string | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): LlmGenerateReceiptFinishReason {
    r.record(2);
    r.key("raw");
    const raw: string | null = read_option_text(r);
    r.key("reason");
    const reason: string = r.text();
    return new LlmGenerateReceiptFinishReason(reason, raw);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("raw");
    write_option_text(w, this.raw);
    w.key("reason");
    w.text(this.reason);
  }
}

export class LlmGenerateReceiptTokenUsage {
  constructor(
    public prompt: u64 = 0,
    public completion: u64 = 0,
    public total: aos.Some<u64> | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): LlmGenerateReceiptTokenUsage {
    r.record(3);
    r.key("total");
    const total: aos.Some<u64> | null = read_option_nat(r);
    r.key("prompt");
    const prompt: u64 = r.nat();
    r.key("completion");
    const completion: u64 = r.nat();
    return new LlmGenerateReceiptTokenUsage(prompt, completion, total);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("total");
    write_option_nat(w, this.total);
    w.key("prompt");
    w.nat(this.prompt);
    w.key("completion");
    w.nat(this.completion);
  }
}

export class LlmGenerateReceiptUsageDetails {
  constructor(
    public reasoning_tokens: aos.Some<u64> | null = null,
    public cache_read_tokens: aos.Some<u64> | null = null,
    public cache_write_tokens: aos.Some<u64> | null = null,
  ) {
  }

  static readFrom(r: aos.Reader): LlmGenerateReceiptUsageDetails {
    r.record(3);
    r.key("reasoning_tokens");
    const reasoning_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("cache_read_tokens");
    const cache_read_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("cache_write_tokens");
    const cache_write_tokens: aos.Some<u64> | null = read_option_nat(r);
    return new LlmGenerateReceiptUsageDetails(reasoning_tokens, cache_read_tokens, cache_write_tokens);
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("reasoning_tokens");
    write_option_nat(w, this.reasoning_tokens);
    w.key("cache_read_tokens");
    write_option_nat(w, this.cache_read_tokens);
    w.key("cache_write_tokens");
    write_option_nat(w, this.cache_write_tokens);
  }
}

/** sys/LlmGenerateReceipt@1 */
export class LlmGenerateReceipt extends aos.Schema {
  constructor(
    public output_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public raw_output_ref: string | null = null,
    public provider_response_id: string | null = null,
    public provider_context_items: Array<LlmWindowItem> = new Array<LlmWindowItem>(),
    public finish_reason: LlmGenerateReceiptFinishReason = new LlmGenerateReceiptFinishReason(),
    public token_usage: LlmGenerateReceiptTokenUsage = new LlmGenerateReceiptTokenUsage(),
    public usage_details: LlmGenerateReceiptUsageDetails | null = null,
    public warnings_ref: string | null = null,
    public rate_limit_ref: string | null = null,
    public cost_cents: aos.Some<u64> | null = null,
    public provider_id: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmGenerateReceipt {
    r.record(11);
    r.key("cost_cents");
    const cost_cents: aos.Some<u64> | null = read_option_nat(r);
    r.key("output_ref");
    const output_ref: string = r.hash();
    r.key("provider_id");
    const provider_id: string = r.text();
    r.key("token_usage");
    const token_usage: LlmGenerateReceiptTokenUsage = LlmGenerateReceiptTokenUsage.readFrom(r);
    r.key("warnings_ref");
    const warnings_ref: string | null = read_option_hash(r);
    r.key("finish_reason");
    const finish_reason: LlmGenerateReceiptFinishReason = LlmGenerateReceiptFinishReason.readFrom(r);
    r.key("usage_details");
    const usage_details: LlmGenerateReceiptUsageDetails | null = read_option_LlmGenerateReceiptUsageDetails(r);
    r.key("rate_limit_ref");
    const rate_limit_ref: string | null = read_option_hash(r);
    r.key("raw_output_ref");
    const raw_output_ref: string | null = read_option_hash(r);
    r.key("provider_response_id");
    const provider_response_id: string | null = read_option_text(r);
    r.key("provider_context_items");
    const provider_context_items: Array<LlmWindowItem> = read_list_LlmWindowItem(r);
    return new LlmGenerateReceipt(output_ref, raw_output_ref, provider_response_id, provider_context_items, finish_reason, token_usage, usage_details, warnings_ref, rate_limit_ref, cost_cents, provider_id);
  }

  schemaName(): string {
    return "sys/LlmGenerateReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(11);
    w.key("cost_cents");
    write_option_nat(w, this.cost_cents);
    w.key("output_ref");
    w.hash(this.output_ref);
    w.key("provider_id");
    w.text(this.provider_id);
    w.key("token_usage");
    this.token_usage.writeTo(w);
    w.key("warnings_ref");
    write_option_hash(w, this.warnings_ref);
    w.key("finish_reason");
    this.finish_reason.writeTo(w);
    w.key("usage_details");
    write_option_LlmGenerateReceiptUsageDetails(w, this.usage_details);
    w.key("rate_limit_ref");
    write_option_hash(w, this.rate_limit_ref);
    w.key("raw_output_ref");
    write_option_hash(w, this.raw_output_ref);
    w.key("provider_response_id");
    write_option_text(w, this.provider_response_id);
    w.key("provider_context_items");
    write_list_LlmWindowItem(w, this.provider_context_items);
  }
}

/** sys/LlmOutputEnvelope@1 */
export class LlmOutputEnvelope extends aos.Schema {
  constructor(
    public assistant_text: string | null = null,
    public tool_calls_ref: string | null = null,
    public reasoning_ref: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmOutputEnvelope {
    r.record(3);
    r.key("reasoning_ref");
    const reasoning_ref: string | null = read_option_hash(r);
    r.key("assistant_text");
    const assistant_text: string | null = read_option_text(r);
    r.key("tool_calls_ref");
    const tool_calls_ref: string | null = read_option_hash(r);
    return new LlmOutputEnvelope(assistant_text, tool_calls_ref, reasoning_ref);
  }

  schemaName(): string {
    return "sys/LlmOutputEnvelope@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("reasoning_ref");
    write_option_hash(w, this.reasoning_ref);
    w.key("assistant_text");
    write_option_text(w, this.assistant_text);
    w.key("tool_calls_ref");
    write_option_hash(w, this.tool_calls_ref);
  }
}

/** sys/LlmRuntimeArgs@1 */
export class LlmRuntimeArgs extends aos.Schema {
  constructor(
    public temperature: string | null = null,
    public top_p: string | null = null,
    public max_tokens: aos.Some<u64> | null = null,
    public tool_refs: Array<string> | null = null,
    public tool_choice: LlmToolChoice | null = null,
    public reasoning_effort: string | null = null,
    public stop_sequences: Array<string> | null = null,
    public metadata: Map<string, string> | null = null,
    public provider_options_ref: string | null = null,
    public response_format_ref: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmRuntimeArgs {
    r.record(10);
    r.key("top_p");
    const top_p: string | null = read_option_dec128(r);
    r.key("metadata");
    const metadata: Map<string, string> | null = read_option_map_text_text(r);
    r.key("tool_refs");
    const tool_refs: Array<string> | null = read_option_list_hash(r);
    r.key("max_tokens");
    const max_tokens: aos.Some<u64> | null = read_option_nat(r);
    r.key("temperature");
    const temperature: string | null = read_option_dec128(r);
    r.key("tool_choice");
    const tool_choice: LlmToolChoice | null = read_option_LlmToolChoice(r);
    r.key("stop_sequences");
    const stop_sequences: Array<string> | null = read_option_list_text(r);
    r.key("reasoning_effort");
    const reasoning_effort: string | null = read_option_text(r);
    r.key("response_format_ref");
    const response_format_ref: string | null = read_option_hash(r);
    r.key("provider_options_ref");
    const provider_options_ref: string | null = read_option_hash(r);
    return new LlmRuntimeArgs(temperature, top_p, max_tokens, tool_refs, tool_choice, reasoning_effort, stop_sequences, metadata, provider_options_ref, response_format_ref);
  }

  schemaName(): string {
    return "sys/LlmRuntimeArgs@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(10);
    w.key("top_p");
    write_option_dec128(w, this.top_p);
    w.key("metadata");
    write_option_map_text_text(w, this.metadata);
    w.key("tool_refs");
    write_option_list_hash(w, this.tool_refs);
    w.key("max_tokens");
    write_option_nat(w, this.max_tokens);
    w.key("temperature");
    write_option_dec128(w, this.temperature);
    w.key("tool_choice");
    write_option_LlmToolChoice(w, this.tool_choice);
    w.key("stop_sequences");
    write_option_list_text(w, this.stop_sequences);
    w.key("reasoning_effort");
    write_option_text(w, this.reasoning_effort);
    w.key("response_format_ref");
    write_option_hash(w, this.response_format_ref);
    w.key("provider_options_ref");
    write_option_hash(w, this.provider_options_ref);
  }
}

/** sys/LlmToolCall@1 */
export class LlmToolCall extends aos.Schema {
  constructor(
    public call_id: string = "",
    public tool_name: string = "",
    public arguments_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public provider_call_id: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): LlmToolCall {
    r.record(4);
    r.key("call_id");
    const call_id: string = r.text();
    r.key("tool_name");
    const tool_name: string = r.text();
    r.key("arguments_ref");
    const arguments_ref: string = r.hash();
    r.key("provider_call_id");
    const provider_call_id: string | null = read_option_text(r);
    return new LlmToolCall(call_id, tool_name, arguments_ref, provider_call_id);
  }

  schemaName(): string {
    return "sys/LlmToolCall@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("call_id");
    w.text(this.call_id);
    w.key("tool_name");
    w.text(this.tool_name);
    w.key("arguments_ref");
    w.hash(this.arguments_ref);
    w.key("provider_call_id");
    write_option_text(w, this.provider_call_id);
  }
}

/** sys/PendingBatchGroupText@1 */
export class PendingBatchGroupText extends aos.Schema {
  constructor(
    public keys: Array<string> = new Array<string>(),
    public terminal_keys: Array<string> = new Array<string>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PendingBatchGroupText {
    r.record(2);
    r.key("keys");
    const keys: Array<string> = read_list_text(r);
    r.key("terminal_keys");
    const terminal_keys: Array<string> = read_list_text(r);
    return new PendingBatchGroupText(keys, terminal_keys);
  }

  schemaName(): string {
    return "sys/PendingBatchGroupText@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("keys");
    write_list_text(w, this.keys);
    w.key("terminal_keys");
    write_list_text(w, this.terminal_keys);
  }
}

/** sys/PendingBatchText@1 */
export class PendingBatchText extends aos.Schema {
  constructor(
    public groups: Array<PendingBatchGroupText> = new Array<PendingBatchGroupText>(),
    public next_group_index: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PendingBatchText {
    r.record(2);
    r.key("groups");
    const groups: Array<PendingBatchGroupText> = read_list_PendingBatchGroupText(r);
    r.key("next_group_index");
    const next_group_index: u64 = r.nat();
    return new PendingBatchText(groups, next_group_index);
  }

  schemaName(): string {
    return "sys/PendingBatchText@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("groups");
    write_list_PendingBatchGroupText(w, this.groups);
    w.key("next_group_index");
    w.nat(this.next_group_index);
  }
}

/** sys/PendingEffect@1 */
export class PendingEffect extends aos.Schema {
  constructor(
    public effect: string = "",
    public params_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public intent_id: string | null = null,
    public issuer_ref: string | null = null,
    public emitted_at_ns: i64 = 0,
    public last_stream_seq: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PendingEffect {
    r.record(6);
    r.key("effect");
    const effect: string = r.text();
    r.key("intent_id");
    const intent_id: string | null = read_option_hash(r);
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    r.key("params_hash");
    const params_hash: string = r.hash();
    r.key("emitted_at_ns");
    const emitted_at_ns: i64 = r.int();
    r.key("last_stream_seq");
    const last_stream_seq: u64 = r.nat();
    return new PendingEffect(effect, params_hash, intent_id, issuer_ref, emitted_at_ns, last_stream_seq);
  }

  schemaName(): string {
    return "sys/PendingEffect@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("effect");
    w.text(this.effect);
    w.key("intent_id");
    write_option_hash(w, this.intent_id);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
    w.key("params_hash");
    w.hash(this.params_hash);
    w.key("emitted_at_ns");
    w.int(this.emitted_at_ns);
    w.key("last_stream_seq");
    w.nat(this.last_stream_seq);
  }
}

/** sys/PortalSendParams@1 */
export class PortalSendParams extends aos.Schema {
  constructor(
    public dest_universe: string | null = null,
    public dest_world: string = "00000000-0000-0000-0000-000000000000",
    public mode: string = "",
    public schema: string | null = null,
    public value_cbor: Uint8Array | null = null,
    public inbox: string | null = null,
    public payload_cbor: Uint8Array | null = null,
    public headers: Map<string, string> | null = null,
    public correlation_id: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PortalSendParams {
    r.record(9);
    r.key("mode");
    const mode: string = r.text();
    r.key("inbox");
    const inbox: string | null = read_option_text(r);
    r.key("schema");
    const schema: string | null = read_option_text(r);
    r.key("headers");
    const headers: Map<string, string> | null = read_option_map_text_text(r);
    r.key("dest_world");
    const dest_world: string = r.uuid();
    r.key("value_cbor");
    const value_cbor: Uint8Array | null = read_option_bytes(r);
    r.key("payload_cbor");
    const payload_cbor: Uint8Array | null = read_option_bytes(r);
    r.key("dest_universe");
    const dest_universe: string | null = read_option_uuid(r);
    r.key("correlation_id");
    const correlation_id: string | null = read_option_text(r);
    return new PortalSendParams(dest_universe, dest_world, mode, schema, value_cbor, inbox, payload_cbor, headers, correlation_id);
  }

  schemaName(): string {
    return "sys/PortalSendParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(9);
    w.key("mode");
    w.text(this.mode);
    w.key("inbox");
    write_option_text(w, this.inbox);
    w.key("schema");
    write_option_text(w, this.schema);
    w.key("headers");
    write_option_map_text_text(w, this.headers);
    w.key("dest_world");
    w.uuid(this.dest_world);
    w.key("value_cbor");
    write_option_bytes(w, this.value_cbor);
    w.key("payload_cbor");
    write_option_bytes(w, this.payload_cbor);
    w.key("dest_universe");
    write_option_uuid(w, this.dest_universe);
    w.key("correlation_id");
    write_option_text(w, this.correlation_id);
  }
}

/** sys/PortalSendReceipt@1 */
export class PortalSendReceipt extends aos.Schema {
  constructor(
    public status: string = "",
    public message_id: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public dest_world: string = "00000000-0000-0000-0000-000000000000",
    public enqueued_seq: Uint8Array | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PortalSendReceipt {
    r.record(4);
    r.key("status");
    const status: string = r.text();
    r.key("dest_world");
    const dest_world: string = r.uuid();
    r.key("message_id");
    const message_id: string = r.hash();
    r.key("enqueued_seq");
    const enqueued_seq: Uint8Array | null = read_option_bytes(r);
    return new PortalSendReceipt(status, message_id, dest_world, enqueued_seq);
  }

  schemaName(): string {
    return "sys/PortalSendReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("status");
    w.text(this.status);
    w.key("dest_world");
    w.uuid(this.dest_world);
    w.key("message_id");
    w.hash(this.message_id);
    w.key("enqueued_seq");
    write_option_bytes(w, this.enqueued_seq);
  }
}

/** sys/PureContext@1 */
export class PureContext extends aos.Schema {
  constructor(
    public logical_now_ns: u64 = 0,
    public journal_height: u64 = 0,
    public manifest_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public module: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): PureContext {
    r.record(4);
    r.key("module");
    const module: string = r.text();
    r.key("manifest_hash");
    const manifest_hash: string = r.hash();
    r.key("journal_height");
    const journal_height: u64 = r.nat();
    r.key("logical_now_ns");
    const logical_now_ns: u64 = r.nat();
    return new PureContext(logical_now_ns, journal_height, manifest_hash, module);
  }

  schemaName(): string {
    return "sys/PureContext@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("module");
    w.text(this.module);
    w.key("manifest_hash");
    w.hash(this.manifest_hash);
    w.key("journal_height");
    w.nat(this.journal_height);
    w.key("logical_now_ns");
    w.nat(this.logical_now_ns);
  }
}

/** sys/TimerCancelParams@1 */
export class TimerCancelParams extends aos.Schema {
  constructor(
    public intent: string | null = null,
    public issuer_ref: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TimerCancelParams {
    r.record(2);
    r.key("intent");
    const intent: string | null = read_option_hash(r);
    r.key("issuer_ref");
    const issuer_ref: string | null = read_option_text(r);
    return new TimerCancelParams(intent, issuer_ref);
  }

  schemaName(): string {
    return "sys/TimerCancelParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("intent");
    write_option_hash(w, this.intent);
    w.key("issuer_ref");
    write_option_text(w, this.issuer_ref);
  }
}

/** sys/TimerCancelReceipt@1 */
export class TimerCancelReceipt extends aos.Schema {
  constructor(
    public cancelled: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TimerCancelReceipt {
    r.record(1);
    r.key("cancelled");
    const cancelled: bool = r.bool();
    return new TimerCancelReceipt(cancelled);
  }

  schemaName(): string {
    return "sys/TimerCancelReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("cancelled");
    w.bool(this.cancelled);
  }
}

/** sys/TimerSetParams@1 */
export class TimerSetParams extends aos.Schema {
  constructor(
    public deliver_at_ns: u64 = 0,
    public key: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TimerSetParams {
    r.record(2);
    r.key("key");
    const key: string | null = read_option_text(r);
    r.key("deliver_at_ns");
    const deliver_at_ns: u64 = r.nat();
    return new TimerSetParams(deliver_at_ns, key);
  }

  schemaName(): string {
    return "sys/TimerSetParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("key");
    write_option_text(w, this.key);
    w.key("deliver_at_ns");
    w.nat(this.deliver_at_ns);
  }
}

/** sys/TimerSetReceipt@1 */
export class TimerSetReceipt extends aos.Schema {
  constructor(
    public delivered_at_ns: u64 = 0,
    public key: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TimerSetReceipt {
    r.record(2);
    r.key("key");
    const key: string | null = read_option_text(r);
    r.key("delivered_at_ns");
    const delivered_at_ns: u64 = r.nat();
    return new TimerSetReceipt(delivered_at_ns, key);
  }

  schemaName(): string {
    return "sys/TimerSetReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("key");
    write_option_text(w, this.key);
    w.key("delivered_at_ns");
    w.nat(this.delivered_at_ns);
  }
}

/** sys/TimerFired@1 */
export class TimerFired extends aos.Schema {
  constructor(
    public intent_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public workflow: string = "",
    public effect: string = "",
    public status: string = "",
    public requested: TimerSetParams = new TimerSetParams(),
    public receipt: TimerSetReceipt = new TimerSetReceipt(),
    public cost_cents: aos.Some<u64> | null = null,
    public signature: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): TimerFired {
    r.record(8);
    r.key("effect");
    const effect: string = r.text();
    r.key("status");
    const status: string = r.text();
    r.key("receipt");
    const receipt: TimerSetReceipt = TimerSetReceipt.readFrom(r);
    r.key("workflow");
    const workflow: string = r.text();
    r.key("requested");
    const requested: TimerSetParams = TimerSetParams.readFrom(r);
    r.key("signature");
    const signature: Uint8Array = r.bytes();
    r.key("cost_cents");
    const cost_cents: aos.Some<u64> | null = read_option_nat(r);
    r.key("intent_hash");
    const intent_hash: string = r.hash();
    return new TimerFired(intent_hash, workflow, effect, status, requested, receipt, cost_cents, signature);
  }

  schemaName(): string {
    return "sys/TimerFired@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(8);
    w.key("effect");
    w.text(this.effect);
    w.key("status");
    w.text(this.status);
    w.key("receipt");
    this.receipt.writeTo(w);
    w.key("workflow");
    w.text(this.workflow);
    w.key("requested");
    this.requested.writeTo(w);
    w.key("signature");
    w.bytes(this.signature);
    w.key("cost_cents");
    write_option_nat(w, this.cost_cents);
    w.key("intent_hash");
    w.hash(this.intent_hash);
  }
}

/** sys/VaultPutParams@1 */
export class VaultPutParams extends aos.Schema {
  constructor(
    public alias: string = "",
    public binding_id: string = "",
    public value_ref: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public expected_digest: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): VaultPutParams {
    r.record(4);
    r.key("alias");
    const alias: string = r.text();
    r.key("value_ref");
    const value_ref: string = r.hash();
    r.key("binding_id");
    const binding_id: string = r.text();
    r.key("expected_digest");
    const expected_digest: string = r.hash();
    return new VaultPutParams(alias, binding_id, value_ref, expected_digest);
  }

  schemaName(): string {
    return "sys/VaultPutParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("alias");
    w.text(this.alias);
    w.key("value_ref");
    w.hash(this.value_ref);
    w.key("binding_id");
    w.text(this.binding_id);
    w.key("expected_digest");
    w.hash(this.expected_digest);
  }
}

/** sys/VaultPutReceipt@1 */
export class VaultPutReceipt extends aos.Schema {
  constructor(
    public alias: string = "",
    public version: u64 = 0,
    public binding_id: string = "",
    public digest: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): VaultPutReceipt {
    r.record(4);
    r.key("alias");
    const alias: string = r.text();
    r.key("digest");
    const digest: string = r.hash();
    r.key("version");
    const version: u64 = r.nat();
    r.key("binding_id");
    const binding_id: string = r.text();
    return new VaultPutReceipt(alias, version, binding_id, digest);
  }

  schemaName(): string {
    return "sys/VaultPutReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("alias");
    w.text(this.alias);
    w.key("digest");
    w.hash(this.digest);
    w.key("version");
    w.nat(this.version);
    w.key("binding_id");
    w.text(this.binding_id);
  }
}

/** sys/VaultRotateParams@1 */
export class VaultRotateParams extends aos.Schema {
  constructor(
    public alias: string = "",
    public version: u64 = 0,
    public binding_id: string = "",
    public expected_digest: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): VaultRotateParams {
    r.record(4);
    r.key("alias");
    const alias: string = r.text();
    r.key("version");
    const version: u64 = r.nat();
    r.key("binding_id");
    const binding_id: string = r.text();
    r.key("expected_digest");
    const expected_digest: string = r.hash();
    return new VaultRotateParams(alias, version, binding_id, expected_digest);
  }

  schemaName(): string {
    return "sys/VaultRotateParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("alias");
    w.text(this.alias);
    w.key("version");
    w.nat(this.version);
    w.key("binding_id");
    w.text(this.binding_id);
    w.key("expected_digest");
    w.hash(this.expected_digest);
  }
}

/** sys/VaultRotateReceipt@1 */
export class VaultRotateReceipt extends aos.Schema {
  constructor(
    public alias: string = "",
    public version: u64 = 0,
    public binding_id: string = "",
    public digest: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): VaultRotateReceipt {
    r.record(4);
    r.key("alias");
    const alias: string = r.text();
    r.key("digest");
    const digest: string = r.hash();
    r.key("version");
    const version: u64 = r.nat();
    r.key("binding_id");
    const binding_id: string = r.text();
    return new VaultRotateReceipt(alias, version, binding_id, digest);
  }

  schemaName(): string {
    return "sys/VaultRotateReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("alias");
    w.text(this.alias);
    w.key("digest");
    w.hash(this.digest);
    w.key("version");
    w.nat(this.version);
    w.key("binding_id");
    w.text(this.binding_id);
  }
}

/** sys/WorkflowContext@1 */
export class WorkflowContext extends aos.Schema {
  constructor(
    public now_ns: u64 = 0,
    public logical_now_ns: u64 = 0,
    public journal_height: u64 = 0,
    public entropy: Uint8Array = new Uint8Array(0),
    public event_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public manifest_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public workflow: string = "",
    public workflow_hash: string | null = null,
    public key: Uint8Array | null = null,
    public cell_mode: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkflowContext {
    r.record(10);
    r.key("key");
    const key: Uint8Array | null = read_option_bytes(r);
    r.key("now_ns");
    const now_ns: u64 = r.nat();
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
    return new WorkflowContext(now_ns, logical_now_ns, journal_height, entropy, event_hash, manifest_hash, workflow, workflow_hash, key, cell_mode);
  }

  schemaName(): string {
    return "sys/WorkflowContext@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(10);
    w.key("key");
    write_option_bytes(w, this.key);
    w.key("now_ns");
    w.nat(this.now_ns);
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

/** sys/WorkspaceAnnotationsGetParams@1 */
export class WorkspaceAnnotationsGetParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceAnnotationsGetParams {
    r.record(2);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceAnnotationsGetParams(root_hash, path);
  }

  schemaName(): string {
    return "sys/WorkspaceAnnotationsGetParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("path");
    write_option_text(w, this.path);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceAnnotationsGetReceipt@1 */
export class WorkspaceAnnotationsGetReceipt extends aos.Schema {
  constructor(
    public annotations: Map<string, string> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceAnnotationsGetReceipt {
    r.record(1);
    r.key("annotations");
    const annotations: Map<string, string> | null = read_option_map_text_hash(r);
    return new WorkspaceAnnotationsGetReceipt(annotations);
  }

  schemaName(): string {
    return "sys/WorkspaceAnnotationsGetReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("annotations");
    write_option_map_text_hash(w, this.annotations);
  }
}

/** sys/WorkspaceAnnotationsSetParams@1 */
export class WorkspaceAnnotationsSetParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string | null = null,
    public annotations_patch: Map<string, string | null> = new Map<string, string | null>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceAnnotationsSetParams {
    r.record(3);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("root_hash");
    const root_hash: string = r.hash();
    r.key("annotations_patch");
    const annotations_patch: Map<string, string | null> = read_map_text_option_hash(r);
    return new WorkspaceAnnotationsSetParams(root_hash, path, annotations_patch);
  }

  schemaName(): string {
    return "sys/WorkspaceAnnotationsSetParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("path");
    write_option_text(w, this.path);
    w.key("root_hash");
    w.hash(this.root_hash);
    w.key("annotations_patch");
    write_map_text_option_hash(w, this.annotations_patch);
  }
}

/** sys/WorkspaceAnnotationsSetReceipt@1 */
export class WorkspaceAnnotationsSetReceipt extends aos.Schema {
  constructor(
    public new_root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public annotations_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceAnnotationsSetReceipt {
    r.record(2);
    r.key("new_root_hash");
    const new_root_hash: string = r.hash();
    r.key("annotations_hash");
    const annotations_hash: string = r.hash();
    return new WorkspaceAnnotationsSetReceipt(new_root_hash, annotations_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceAnnotationsSetReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("new_root_hash");
    w.hash(this.new_root_hash);
    w.key("annotations_hash");
    w.hash(this.annotations_hash);
  }
}

/** sys/WorkspaceCommitMeta@1 */
export class WorkspaceCommitMeta extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public owner: string = "",
    public created_at: i64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceCommitMeta {
    r.record(3);
    r.key("owner");
    const owner: string = r.text();
    r.key("root_hash");
    const root_hash: string = r.hash();
    r.key("created_at");
    const created_at: i64 = r.int();
    return new WorkspaceCommitMeta(root_hash, owner, created_at);
  }

  schemaName(): string {
    return "sys/WorkspaceCommitMeta@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("owner");
    w.text(this.owner);
    w.key("root_hash");
    w.hash(this.root_hash);
    w.key("created_at");
    w.int(this.created_at);
  }
}

/** sys/WorkspaceCommit@1 */
export class WorkspaceCommit extends aos.Schema {
  constructor(
    public workspace: string = "",
    public expected_head: aos.Some<u64> | null = null,
    public meta: WorkspaceCommitMeta = new WorkspaceCommitMeta(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceCommit {
    r.record(3);
    r.key("meta");
    const meta: WorkspaceCommitMeta = WorkspaceCommitMeta.readFrom(r);
    r.key("workspace");
    const workspace: string = r.text();
    r.key("expected_head");
    const expected_head: aos.Some<u64> | null = read_option_nat(r);
    return new WorkspaceCommit(workspace, expected_head, meta);
  }

  schemaName(): string {
    return "sys/WorkspaceCommit@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("meta");
    this.meta.writeTo(w);
    w.key("workspace");
    w.text(this.workspace);
    w.key("expected_head");
    write_option_nat(w, this.expected_head);
  }
}

/** sys/WorkspaceDiffChange@1 */
export class WorkspaceDiffChange extends aos.Schema {
  constructor(
    public path: string = "",
    public kind: string = "",
    public old_hash: string | null = null,
    public new_hash: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceDiffChange {
    r.record(4);
    r.key("kind");
    const kind: string = r.text();
    r.key("path");
    const path: string = r.text();
    r.key("new_hash");
    const new_hash: string | null = read_option_hash(r);
    r.key("old_hash");
    const old_hash: string | null = read_option_hash(r);
    return new WorkspaceDiffChange(path, kind, old_hash, new_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceDiffChange@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("kind");
    w.text(this.kind);
    w.key("path");
    w.text(this.path);
    w.key("new_hash");
    write_option_hash(w, this.new_hash);
    w.key("old_hash");
    write_option_hash(w, this.old_hash);
  }
}

/** sys/WorkspaceDiffParams@1 */
export class WorkspaceDiffParams extends aos.Schema {
  constructor(
    public root_a: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public root_b: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public prefix: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceDiffParams {
    r.record(3);
    r.key("prefix");
    const prefix: string | null = read_option_text(r);
    r.key("root_a");
    const root_a: string = r.hash();
    r.key("root_b");
    const root_b: string = r.hash();
    return new WorkspaceDiffParams(root_a, root_b, prefix);
  }

  schemaName(): string {
    return "sys/WorkspaceDiffParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("prefix");
    write_option_text(w, this.prefix);
    w.key("root_a");
    w.hash(this.root_a);
    w.key("root_b");
    w.hash(this.root_b);
  }
}

/** sys/WorkspaceDiffReceipt@1 */
export class WorkspaceDiffReceipt extends aos.Schema {
  constructor(
    public changes: Array<WorkspaceDiffChange> = new Array<WorkspaceDiffChange>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceDiffReceipt {
    r.record(1);
    r.key("changes");
    const changes: Array<WorkspaceDiffChange> = read_list_WorkspaceDiffChange(r);
    return new WorkspaceDiffReceipt(changes);
  }

  schemaName(): string {
    return "sys/WorkspaceDiffReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("changes");
    write_list_WorkspaceDiffChange(w, this.changes);
  }
}

/** sys/WorkspaceEmptyRootParams@1 */
export class WorkspaceEmptyRootParams extends aos.Schema {
  constructor(
    public workspace: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceEmptyRootParams {
    r.record(1);
    r.key("workspace");
    const workspace: string = r.text();
    return new WorkspaceEmptyRootParams(workspace);
  }

  schemaName(): string {
    return "sys/WorkspaceEmptyRootParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("workspace");
    w.text(this.workspace);
  }
}

/** sys/WorkspaceEmptyRootReceipt@1 */
export class WorkspaceEmptyRootReceipt extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceEmptyRootReceipt {
    r.record(1);
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceEmptyRootReceipt(root_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceEmptyRootReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceEntry@1 */
export class WorkspaceEntry extends aos.Schema {
  constructor(
    public name: string = "",
    public kind: string = "",
    public hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
    public mode: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceEntry {
    r.record(5);
    r.key("hash");
    const hash: string = r.hash();
    r.key("kind");
    const kind: string = r.text();
    r.key("mode");
    const mode: u64 = r.nat();
    r.key("name");
    const name: string = r.text();
    r.key("size");
    const size: u64 = r.nat();
    return new WorkspaceEntry(name, kind, hash, size, mode);
  }

  schemaName(): string {
    return "sys/WorkspaceEntry@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("hash");
    w.hash(this.hash);
    w.key("kind");
    w.text(this.kind);
    w.key("mode");
    w.nat(this.mode);
    w.key("name");
    w.text(this.name);
    w.key("size");
    w.nat(this.size);
  }
}

/** sys/WorkspaceEntry@2 */
export class WorkspaceEntryV2 extends aos.Schema {
  constructor(
    public name: string = "",
    public kind: string = "",
    public hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
    public mode: u64 = 0,
    public annotations_hash: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceEntryV2 {
    r.record(6);
    r.key("hash");
    const hash: string = r.hash();
    r.key("kind");
    const kind: string = r.text();
    r.key("mode");
    const mode: u64 = r.nat();
    r.key("name");
    const name: string = r.text();
    r.key("size");
    const size: u64 = r.nat();
    r.key("annotations_hash");
    const annotations_hash: string | null = read_option_hash(r);
    return new WorkspaceEntryV2(name, kind, hash, size, mode, annotations_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceEntry@2";
  }

  writeTo(w: aos.Writer): void {
    w.record(6);
    w.key("hash");
    w.hash(this.hash);
    w.key("kind");
    w.text(this.kind);
    w.key("mode");
    w.nat(this.mode);
    w.key("name");
    w.text(this.name);
    w.key("size");
    w.nat(this.size);
    w.key("annotations_hash");
    write_option_hash(w, this.annotations_hash);
  }
}

/** sys/WorkspaceHistory@1 */
export class WorkspaceHistory extends aos.Schema {
  constructor(
    public latest: u64 = 0,
    public versions: Map<u64, WorkspaceCommitMeta> = new Map<u64, WorkspaceCommitMeta>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceHistory {
    r.record(2);
    r.key("latest");
    const latest: u64 = r.nat();
    r.key("versions");
    const versions: Map<u64, WorkspaceCommitMeta> = read_map_nat_WorkspaceCommitMeta(r);
    return new WorkspaceHistory(latest, versions);
  }

  schemaName(): string {
    return "sys/WorkspaceHistory@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("latest");
    w.nat(this.latest);
    w.key("versions");
    write_map_nat_WorkspaceCommitMeta(w, this.versions);
  }
}

/** sys/WorkspaceListEntry@1 */
export class WorkspaceListEntry extends aos.Schema {
  constructor(
    public path: string = "",
    public kind: string = "",
    public hash: string | null = null,
    public size: aos.Some<u64> | null = null,
    public mode: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceListEntry {
    r.record(5);
    r.key("hash");
    const hash: string | null = read_option_hash(r);
    r.key("kind");
    const kind: string = r.text();
    r.key("mode");
    const mode: aos.Some<u64> | null = read_option_nat(r);
    r.key("path");
    const path: string = r.text();
    r.key("size");
    const size: aos.Some<u64> | null = read_option_nat(r);
    return new WorkspaceListEntry(path, kind, hash, size, mode);
  }

  schemaName(): string {
    return "sys/WorkspaceListEntry@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("hash");
    write_option_hash(w, this.hash);
    w.key("kind");
    w.text(this.kind);
    w.key("mode");
    write_option_nat(w, this.mode);
    w.key("path");
    w.text(this.path);
    w.key("size");
    write_option_nat(w, this.size);
  }
}

/** sys/WorkspaceListParams@1 */
export class WorkspaceListParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string | null = null,
    public scope: string | null = null,
    public cursor: string | null = null,
    public limit: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceListParams {
    r.record(5);
    r.key("path");
    const path: string | null = read_option_text(r);
    r.key("limit");
    const limit: u64 = r.nat();
    r.key("scope");
    const scope: string | null = read_option_text(r);
    r.key("cursor");
    const cursor: string | null = read_option_text(r);
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceListParams(root_hash, path, scope, cursor, limit);
  }

  schemaName(): string {
    return "sys/WorkspaceListParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(5);
    w.key("path");
    write_option_text(w, this.path);
    w.key("limit");
    w.nat(this.limit);
    w.key("scope");
    write_option_text(w, this.scope);
    w.key("cursor");
    write_option_text(w, this.cursor);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceListReceipt@1 */
export class WorkspaceListReceipt extends aos.Schema {
  constructor(
    public entries: Array<WorkspaceListEntry> = new Array<WorkspaceListEntry>(),
    public next_cursor: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceListReceipt {
    r.record(2);
    r.key("entries");
    const entries: Array<WorkspaceListEntry> = read_list_WorkspaceListEntry(r);
    r.key("next_cursor");
    const next_cursor: string | null = read_option_text(r);
    return new WorkspaceListReceipt(entries, next_cursor);
  }

  schemaName(): string {
    return "sys/WorkspaceListReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("entries");
    write_list_WorkspaceListEntry(w, this.entries);
    w.key("next_cursor");
    write_option_text(w, this.next_cursor);
  }
}

export class WorkspaceReadBytesParamsRange {
  constructor(
    public start: u64 = 0,
    public end: u64 = 0,
  ) {
  }

  static readFrom(r: aos.Reader): WorkspaceReadBytesParamsRange {
    r.record(2);
    r.key("end");
    const end: u64 = r.nat();
    r.key("start");
    const start: u64 = r.nat();
    return new WorkspaceReadBytesParamsRange(start, end);
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("end");
    w.nat(this.end);
    w.key("start");
    w.nat(this.start);
  }
}

/** sys/WorkspaceReadBytesParams@1 */
export class WorkspaceReadBytesParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string = "",
    public range: WorkspaceReadBytesParamsRange | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceReadBytesParams {
    r.record(3);
    r.key("path");
    const path: string = r.text();
    r.key("range");
    const range: WorkspaceReadBytesParamsRange | null = read_option_WorkspaceReadBytesParamsRange(r);
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceReadBytesParams(root_hash, path, range);
  }

  schemaName(): string {
    return "sys/WorkspaceReadBytesParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("path");
    w.text(this.path);
    w.key("range");
    write_option_WorkspaceReadBytesParamsRange(w, this.range);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceReadRefParams@1 */
export class WorkspaceReadRefParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceReadRefParams {
    r.record(2);
    r.key("path");
    const path: string = r.text();
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceReadRefParams(root_hash, path);
  }

  schemaName(): string {
    return "sys/WorkspaceReadRefParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("path");
    w.text(this.path);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceRefEntry@1 */
export class WorkspaceRefEntry extends aos.Schema {
  constructor(
    public kind: string = "",
    public hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public size: u64 = 0,
    public mode: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceRefEntry {
    r.record(4);
    r.key("hash");
    const hash: string = r.hash();
    r.key("kind");
    const kind: string = r.text();
    r.key("mode");
    const mode: u64 = r.nat();
    r.key("size");
    const size: u64 = r.nat();
    return new WorkspaceRefEntry(kind, hash, size, mode);
  }

  schemaName(): string {
    return "sys/WorkspaceRefEntry@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("hash");
    w.hash(this.hash);
    w.key("kind");
    w.text(this.kind);
    w.key("mode");
    w.nat(this.mode);
    w.key("size");
    w.nat(this.size);
  }
}

/** sys/WorkspaceRemoveParams@1 */
export class WorkspaceRemoveParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string = "",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceRemoveParams {
    r.record(2);
    r.key("path");
    const path: string = r.text();
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceRemoveParams(root_hash, path);
  }

  schemaName(): string {
    return "sys/WorkspaceRemoveParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("path");
    w.text(this.path);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceRemoveReceipt@1 */
export class WorkspaceRemoveReceipt extends aos.Schema {
  constructor(
    public new_root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceRemoveReceipt {
    r.record(1);
    r.key("new_root_hash");
    const new_root_hash: string = r.hash();
    return new WorkspaceRemoveReceipt(new_root_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceRemoveReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("new_root_hash");
    w.hash(this.new_root_hash);
  }
}

/** sys/WorkspaceResolveParams@1 */
export class WorkspaceResolveParams extends aos.Schema {
  constructor(
    public workspace: string = "",
    public version: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceResolveParams {
    r.record(2);
    r.key("version");
    const version: aos.Some<u64> | null = read_option_nat(r);
    r.key("workspace");
    const workspace: string = r.text();
    return new WorkspaceResolveParams(workspace, version);
  }

  schemaName(): string {
    return "sys/WorkspaceResolveParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("version");
    write_option_nat(w, this.version);
    w.key("workspace");
    w.text(this.workspace);
  }
}

/** sys/WorkspaceResolveReceipt@1 */
export class WorkspaceResolveReceipt extends aos.Schema {
  constructor(
    public exists: bool = false,
    public resolved_version: aos.Some<u64> | null = null,
    public head: aos.Some<u64> | null = null,
    public root_hash: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceResolveReceipt {
    r.record(4);
    r.key("head");
    const head: aos.Some<u64> | null = read_option_nat(r);
    r.key("exists");
    const exists: bool = r.bool();
    r.key("root_hash");
    const root_hash: string | null = read_option_hash(r);
    r.key("resolved_version");
    const resolved_version: aos.Some<u64> | null = read_option_nat(r);
    return new WorkspaceResolveReceipt(exists, resolved_version, head, root_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceResolveReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("head");
    write_option_nat(w, this.head);
    w.key("exists");
    w.bool(this.exists);
    w.key("root_hash");
    write_option_hash(w, this.root_hash);
    w.key("resolved_version");
    write_option_nat(w, this.resolved_version);
  }
}

/** sys/WorkspaceTree@1 */
export class WorkspaceTree extends aos.Schema {
  constructor(
    public entries: Array<WorkspaceEntry> = new Array<WorkspaceEntry>(),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceTree {
    r.record(1);
    r.key("entries");
    const entries: Array<WorkspaceEntry> = read_list_WorkspaceEntry(r);
    return new WorkspaceTree(entries);
  }

  schemaName(): string {
    return "sys/WorkspaceTree@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(1);
    w.key("entries");
    write_list_WorkspaceEntry(w, this.entries);
  }
}

/** sys/WorkspaceTree@2 */
export class WorkspaceTreeV2 extends aos.Schema {
  constructor(
    public entries: Array<WorkspaceEntryV2> = new Array<WorkspaceEntryV2>(),
    public annotations_hash: string | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceTreeV2 {
    r.record(2);
    r.key("entries");
    const entries: Array<WorkspaceEntryV2> = read_list_WorkspaceEntryV2(r);
    r.key("annotations_hash");
    const annotations_hash: string | null = read_option_hash(r);
    return new WorkspaceTreeV2(entries, annotations_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceTree@2";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("entries");
    write_list_WorkspaceEntryV2(w, this.entries);
    w.key("annotations_hash");
    write_option_hash(w, this.annotations_hash);
  }
}

/** sys/WorkspaceWriteBytesParams@1 */
export class WorkspaceWriteBytesParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string = "",
    public bytes: Uint8Array = new Uint8Array(0),
    public mode: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceWriteBytesParams {
    r.record(4);
    r.key("mode");
    const mode: aos.Some<u64> | null = read_option_nat(r);
    r.key("path");
    const path: string = r.text();
    r.key("bytes");
    const bytes: Uint8Array = r.bytes();
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceWriteBytesParams(root_hash, path, bytes, mode);
  }

  schemaName(): string {
    return "sys/WorkspaceWriteBytesParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("mode");
    write_option_nat(w, this.mode);
    w.key("path");
    w.text(this.path);
    w.key("bytes");
    w.bytes(this.bytes);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceWriteBytesReceipt@1 */
export class WorkspaceWriteBytesReceipt extends aos.Schema {
  constructor(
    public new_root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public blob_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceWriteBytesReceipt {
    r.record(2);
    r.key("blob_hash");
    const blob_hash: string = r.hash();
    r.key("new_root_hash");
    const new_root_hash: string = r.hash();
    return new WorkspaceWriteBytesReceipt(new_root_hash, blob_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceWriteBytesReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("blob_hash");
    w.hash(this.blob_hash);
    w.key("new_root_hash");
    w.hash(this.new_root_hash);
  }
}

/** sys/WorkspaceWriteRefParams@1 */
export class WorkspaceWriteRefParams extends aos.Schema {
  constructor(
    public root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public path: string = "",
    public blob_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public mode: aos.Some<u64> | null = null,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceWriteRefParams {
    r.record(4);
    r.key("mode");
    const mode: aos.Some<u64> | null = read_option_nat(r);
    r.key("path");
    const path: string = r.text();
    r.key("blob_hash");
    const blob_hash: string = r.hash();
    r.key("root_hash");
    const root_hash: string = r.hash();
    return new WorkspaceWriteRefParams(root_hash, path, blob_hash, mode);
  }

  schemaName(): string {
    return "sys/WorkspaceWriteRefParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(4);
    w.key("mode");
    write_option_nat(w, this.mode);
    w.key("path");
    w.text(this.path);
    w.key("blob_hash");
    w.hash(this.blob_hash);
    w.key("root_hash");
    w.hash(this.root_hash);
  }
}

/** sys/WorkspaceWriteRefReceipt@1 */
export class WorkspaceWriteRefReceipt extends aos.Schema {
  constructor(
    public new_root_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public blob_hash: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorkspaceWriteRefReceipt {
    r.record(2);
    r.key("blob_hash");
    const blob_hash: string = r.hash();
    r.key("new_root_hash");
    const new_root_hash: string = r.hash();
    return new WorkspaceWriteRefReceipt(new_root_hash, blob_hash);
  }

  schemaName(): string {
    return "sys/WorkspaceWriteRefReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("blob_hash");
    w.hash(this.blob_hash);
    w.key("new_root_hash");
    w.hash(this.new_root_hash);
  }
}

/** sys/WorldSendParams@1 */
export class WorldSendParams extends aos.Schema {
  constructor(
    public to: string = "",
    public schema: string = "",
    public value: Uint8Array = new Uint8Array(0),
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorldSendParams {
    r.record(3);
    r.key("to");
    const to: string = r.text();
    r.key("value");
    const value: Uint8Array = r.bytes();
    r.key("schema");
    const schema: string = r.text();
    return new WorldSendParams(to, schema, value);
  }

  schemaName(): string {
    return "sys/WorldSendParams@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("to");
    w.text(this.to);
    w.key("value");
    w.bytes(this.value);
    w.key("schema");
    w.text(this.schema);
  }
}

/** sys/WorldSendReceipt@1 */
export class WorldSendReceipt extends aos.Schema {
  constructor(
    public world: string = "blake3:0000000000000000000000000000000000000000000000000000000000000000",
    public seq: u64 = 0,
    public duplicate: bool = false,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): WorldSendReceipt {
    r.record(3);
    r.key("seq");
    const seq: u64 = r.nat();
    r.key("world");
    const world: string = r.hash();
    r.key("duplicate");
    const duplicate: bool = r.bool();
    return new WorldSendReceipt(world, seq, duplicate);
  }

  schemaName(): string {
    return "sys/WorldSendReceipt@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(3);
    w.key("seq");
    w.nat(this.seq);
    w.key("world");
    w.hash(this.world);
    w.key("duplicate");
    w.bool(this.duplicate);
  }
}

/** sys/blob.get@1: a request. */
export class BlobGetEffect extends aos.Effect {
  constructor(public params: BlobGetParams = new BlobGetParams()) {
    super();
  }

  withKey(idempotencyKey: string): BlobGetEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): BlobGetEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/blob.get@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfBlobGet(receipt: aos.EffectReceiptEnvelope): aos.Outcome<BlobGetReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<BlobGetReceipt>(receipt, "sys/blob.get@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: BlobGetReceipt = BlobGetReceipt.readFrom(r);
  return aos.succeeded<BlobGetReceipt>(r, value, "sys/blob.get@1");
}

/** sys/blob.get@1: a handle on a request in flight. */
export class BlobGetPending extends aos.Pending {
  start(effect: BlobGetEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<BlobGetReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfBlobGet(receipt);
  }
}

/** sys/blob.get@1: handles on requests in flight, each under a key. */
export class BlobGetPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: BlobGetEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, BlobGetReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfBlobGet(receipt);
    return outcome === null ? null : new aos.Settled<K, BlobGetReceipt>(key.value, outcome);
  }
}

/** sys/blob.put@1: a request. */
export class BlobPutEffect extends aos.Effect {
  constructor(public params: BlobPutParams = new BlobPutParams()) {
    super();
  }

  withKey(idempotencyKey: string): BlobPutEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): BlobPutEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/blob.put@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfBlobPut(receipt: aos.EffectReceiptEnvelope): aos.Outcome<BlobPutReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<BlobPutReceipt>(receipt, "sys/blob.put@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: BlobPutReceipt = BlobPutReceipt.readFrom(r);
  return aos.succeeded<BlobPutReceipt>(r, value, "sys/blob.put@1");
}

/** sys/blob.put@1: a handle on a request in flight. */
export class BlobPutPending extends aos.Pending {
  start(effect: BlobPutEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<BlobPutReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfBlobPut(receipt);
  }
}

/** sys/blob.put@1: handles on requests in flight, each under a key. */
export class BlobPutPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: BlobPutEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, BlobPutReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfBlobPut(receipt);
    return outcome === null ? null : new aos.Settled<K, BlobPutReceipt>(key.value, outcome);
  }
}

/** sys/cron.next@1: a request. */
export class CronNextEffect extends aos.Effect {
  constructor(public params: CronNextParams = new CronNextParams()) {
    super();
  }

  withKey(idempotencyKey: string): CronNextEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): CronNextEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/cron.next@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfCronNext(receipt: aos.EffectReceiptEnvelope): aos.Outcome<CronNextReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<CronNextReceipt>(receipt, "sys/cron.next@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: CronNextReceipt = CronNextReceipt.readFrom(r);
  return aos.succeeded<CronNextReceipt>(r, value, "sys/cron.next@1");
}

/** sys/cron.next@1: a handle on a request in flight. */
export class CronNextPending extends aos.Pending {
  start(effect: CronNextEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<CronNextReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfCronNext(receipt);
  }
}

/** sys/cron.next@1: handles on requests in flight, each under a key. */
export class CronNextPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: CronNextEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, CronNextReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfCronNext(receipt);
    return outcome === null ? null : new aos.Settled<K, CronNextReceipt>(key.value, outcome);
  }
}

/** sys/effect.cancel@1: a request. */
export class EffectCancelEffect extends aos.Effect {
  constructor(public params: EffectCancelParams = new EffectCancelParams()) {
    super();
  }

  withKey(idempotencyKey: string): EffectCancelEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): EffectCancelEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/effect.cancel@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfEffectCancel(receipt: aos.EffectReceiptEnvelope): aos.Outcome<EffectCancelReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<EffectCancelReceipt>(receipt, "sys/effect.cancel@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: EffectCancelReceipt = EffectCancelReceipt.readFrom(r);
  return aos.succeeded<EffectCancelReceipt>(r, value, "sys/effect.cancel@1");
}

/** sys/effect.cancel@1: a handle on a request in flight. */
export class EffectCancelPending extends aos.Pending {
  start(effect: EffectCancelEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<EffectCancelReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfEffectCancel(receipt);
  }
}

/** sys/effect.cancel@1: handles on requests in flight, each under a key. */
export class EffectCancelPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: EffectCancelEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, EffectCancelReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfEffectCancel(receipt);
    return outcome === null ? null : new aos.Settled<K, EffectCancelReceipt>(key.value, outcome);
  }
}

/** sys/host.exec@1: a request. */
export class HostExecEffect extends aos.Effect {
  constructor(public params: HostExecParams = new HostExecParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostExecEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostExecEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.exec@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostExec(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostExecReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostExecReceipt>(receipt, "sys/host.exec@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostExecReceipt = HostExecReceipt.readFrom(r);
  return aos.succeeded<HostExecReceipt>(r, value, "sys/host.exec@1");
}

/** sys/host.exec@1: a handle on a request in flight. */
export class HostExecPending extends aos.Pending {
  start(effect: HostExecEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostExecReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostExec(receipt);
  }
}

/** sys/host.exec@1: handles on requests in flight, each under a key. */
export class HostExecPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostExecEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostExecReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostExec(receipt);
    return outcome === null ? null : new aos.Settled<K, HostExecReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.apply_patch@1: a request. */
export class HostFsApplyPatchEffect extends aos.Effect {
  constructor(public params: HostFsApplyPatchParams = new HostFsApplyPatchParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsApplyPatchEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsApplyPatchEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.apply_patch@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsApplyPatch(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsApplyPatchReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsApplyPatchReceipt>(receipt, "sys/host.fs.apply_patch@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsApplyPatchReceipt = HostFsApplyPatchReceipt.readFrom(r);
  return aos.succeeded<HostFsApplyPatchReceipt>(r, value, "sys/host.fs.apply_patch@1");
}

/** sys/host.fs.apply_patch@1: a handle on a request in flight. */
export class HostFsApplyPatchPending extends aos.Pending {
  start(effect: HostFsApplyPatchEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsApplyPatchReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsApplyPatch(receipt);
  }
}

/** sys/host.fs.apply_patch@1: handles on requests in flight, each under a key. */
export class HostFsApplyPatchPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsApplyPatchEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsApplyPatchReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsApplyPatch(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsApplyPatchReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.edit_file@1: a request. */
export class HostFsEditFileEffect extends aos.Effect {
  constructor(public params: HostFsEditFileParams = new HostFsEditFileParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsEditFileEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsEditFileEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.edit_file@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsEditFile(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsEditFileReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsEditFileReceipt>(receipt, "sys/host.fs.edit_file@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsEditFileReceipt = HostFsEditFileReceipt.readFrom(r);
  return aos.succeeded<HostFsEditFileReceipt>(r, value, "sys/host.fs.edit_file@1");
}

/** sys/host.fs.edit_file@1: a handle on a request in flight. */
export class HostFsEditFilePending extends aos.Pending {
  start(effect: HostFsEditFileEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsEditFileReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsEditFile(receipt);
  }
}

/** sys/host.fs.edit_file@1: handles on requests in flight, each under a key. */
export class HostFsEditFilePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsEditFileEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsEditFileReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsEditFile(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsEditFileReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.exists@1: a request. */
export class HostFsExistsEffect extends aos.Effect {
  constructor(public params: HostFsExistsParams = new HostFsExistsParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsExistsEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsExistsEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.exists@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsExists(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsExistsReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsExistsReceipt>(receipt, "sys/host.fs.exists@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsExistsReceipt = HostFsExistsReceipt.readFrom(r);
  return aos.succeeded<HostFsExistsReceipt>(r, value, "sys/host.fs.exists@1");
}

/** sys/host.fs.exists@1: a handle on a request in flight. */
export class HostFsExistsPending extends aos.Pending {
  start(effect: HostFsExistsEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsExistsReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsExists(receipt);
  }
}

/** sys/host.fs.exists@1: handles on requests in flight, each under a key. */
export class HostFsExistsPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsExistsEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsExistsReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsExists(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsExistsReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.glob@1: a request. */
export class HostFsGlobEffect extends aos.Effect {
  constructor(public params: HostFsGlobParams = new HostFsGlobParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsGlobEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsGlobEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.glob@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsGlob(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsGlobReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsGlobReceipt>(receipt, "sys/host.fs.glob@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsGlobReceipt = HostFsGlobReceipt.readFrom(r);
  return aos.succeeded<HostFsGlobReceipt>(r, value, "sys/host.fs.glob@1");
}

/** sys/host.fs.glob@1: a handle on a request in flight. */
export class HostFsGlobPending extends aos.Pending {
  start(effect: HostFsGlobEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsGlobReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsGlob(receipt);
  }
}

/** sys/host.fs.glob@1: handles on requests in flight, each under a key. */
export class HostFsGlobPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsGlobEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsGlobReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsGlob(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsGlobReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.grep@1: a request. */
export class HostFsGrepEffect extends aos.Effect {
  constructor(public params: HostFsGrepParams = new HostFsGrepParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsGrepEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsGrepEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.grep@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsGrep(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsGrepReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsGrepReceipt>(receipt, "sys/host.fs.grep@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsGrepReceipt = HostFsGrepReceipt.readFrom(r);
  return aos.succeeded<HostFsGrepReceipt>(r, value, "sys/host.fs.grep@1");
}

/** sys/host.fs.grep@1: a handle on a request in flight. */
export class HostFsGrepPending extends aos.Pending {
  start(effect: HostFsGrepEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsGrepReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsGrep(receipt);
  }
}

/** sys/host.fs.grep@1: handles on requests in flight, each under a key. */
export class HostFsGrepPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsGrepEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsGrepReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsGrep(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsGrepReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.list_dir@1: a request. */
export class HostFsListDirEffect extends aos.Effect {
  constructor(public params: HostFsListDirParams = new HostFsListDirParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsListDirEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsListDirEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.list_dir@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsListDir(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsListDirReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsListDirReceipt>(receipt, "sys/host.fs.list_dir@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsListDirReceipt = HostFsListDirReceipt.readFrom(r);
  return aos.succeeded<HostFsListDirReceipt>(r, value, "sys/host.fs.list_dir@1");
}

/** sys/host.fs.list_dir@1: a handle on a request in flight. */
export class HostFsListDirPending extends aos.Pending {
  start(effect: HostFsListDirEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsListDirReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsListDir(receipt);
  }
}

/** sys/host.fs.list_dir@1: handles on requests in flight, each under a key. */
export class HostFsListDirPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsListDirEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsListDirReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsListDir(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsListDirReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.read_file@1: a request. */
export class HostFsReadFileEffect extends aos.Effect {
  constructor(public params: HostFsReadFileParams = new HostFsReadFileParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsReadFileEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsReadFileEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.read_file@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsReadFile(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsReadFileReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsReadFileReceipt>(receipt, "sys/host.fs.read_file@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsReadFileReceipt = HostFsReadFileReceipt.readFrom(r);
  return aos.succeeded<HostFsReadFileReceipt>(r, value, "sys/host.fs.read_file@1");
}

/** sys/host.fs.read_file@1: a handle on a request in flight. */
export class HostFsReadFilePending extends aos.Pending {
  start(effect: HostFsReadFileEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsReadFileReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsReadFile(receipt);
  }
}

/** sys/host.fs.read_file@1: handles on requests in flight, each under a key. */
export class HostFsReadFilePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsReadFileEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsReadFileReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsReadFile(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsReadFileReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.stat@1: a request. */
export class HostFsStatEffect extends aos.Effect {
  constructor(public params: HostFsStatParams = new HostFsStatParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsStatEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsStatEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.stat@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsStat(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsStatReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsStatReceipt>(receipt, "sys/host.fs.stat@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsStatReceipt = HostFsStatReceipt.readFrom(r);
  return aos.succeeded<HostFsStatReceipt>(r, value, "sys/host.fs.stat@1");
}

/** sys/host.fs.stat@1: a handle on a request in flight. */
export class HostFsStatPending extends aos.Pending {
  start(effect: HostFsStatEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsStatReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsStat(receipt);
  }
}

/** sys/host.fs.stat@1: handles on requests in flight, each under a key. */
export class HostFsStatPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsStatEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsStatReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsStat(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsStatReceipt>(key.value, outcome);
  }
}

/** sys/host.fs.write_file@1: a request. */
export class HostFsWriteFileEffect extends aos.Effect {
  constructor(public params: HostFsWriteFileParams = new HostFsWriteFileParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostFsWriteFileEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostFsWriteFileEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.fs.write_file@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostFsWriteFile(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsWriteFileReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostFsWriteFileReceipt>(receipt, "sys/host.fs.write_file@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostFsWriteFileReceipt = HostFsWriteFileReceipt.readFrom(r);
  return aos.succeeded<HostFsWriteFileReceipt>(r, value, "sys/host.fs.write_file@1");
}

/** sys/host.fs.write_file@1: a handle on a request in flight. */
export class HostFsWriteFilePending extends aos.Pending {
  start(effect: HostFsWriteFileEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostFsWriteFileReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostFsWriteFile(receipt);
  }
}

/** sys/host.fs.write_file@1: handles on requests in flight, each under a key. */
export class HostFsWriteFilePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostFsWriteFileEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostFsWriteFileReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostFsWriteFile(receipt);
    return outcome === null ? null : new aos.Settled<K, HostFsWriteFileReceipt>(key.value, outcome);
  }
}

/** sys/host.session.open@1: a request. */
export class HostSessionOpenEffect extends aos.Effect {
  constructor(public params: HostSessionOpenParams = new HostSessionOpenParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostSessionOpenEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostSessionOpenEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.session.open@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostSessionOpen(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostSessionOpenReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostSessionOpenReceipt>(receipt, "sys/host.session.open@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostSessionOpenReceipt = HostSessionOpenReceipt.readFrom(r);
  return aos.succeeded<HostSessionOpenReceipt>(r, value, "sys/host.session.open@1");
}

/** sys/host.session.open@1: a handle on a request in flight. */
export class HostSessionOpenPending extends aos.Pending {
  start(effect: HostSessionOpenEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostSessionOpenReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostSessionOpen(receipt);
  }
}

/** sys/host.session.open@1: handles on requests in flight, each under a key. */
export class HostSessionOpenPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostSessionOpenEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostSessionOpenReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostSessionOpen(receipt);
    return outcome === null ? null : new aos.Settled<K, HostSessionOpenReceipt>(key.value, outcome);
  }
}

/** sys/host.session.signal@1: a request. */
export class HostSessionSignalEffect extends aos.Effect {
  constructor(public params: HostSessionSignalParams = new HostSessionSignalParams()) {
    super();
  }

  withKey(idempotencyKey: string): HostSessionSignalEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HostSessionSignalEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/host.session.signal@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHostSessionSignal(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostSessionSignalReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HostSessionSignalReceipt>(receipt, "sys/host.session.signal@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HostSessionSignalReceipt = HostSessionSignalReceipt.readFrom(r);
  return aos.succeeded<HostSessionSignalReceipt>(r, value, "sys/host.session.signal@1");
}

/** sys/host.session.signal@1: a handle on a request in flight. */
export class HostSessionSignalPending extends aos.Pending {
  start(effect: HostSessionSignalEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HostSessionSignalReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHostSessionSignal(receipt);
  }
}

/** sys/host.session.signal@1: handles on requests in flight, each under a key. */
export class HostSessionSignalPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HostSessionSignalEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HostSessionSignalReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHostSessionSignal(receipt);
    return outcome === null ? null : new aos.Settled<K, HostSessionSignalReceipt>(key.value, outcome);
  }
}

/** sys/http.request@1: a request. */
export class HttpRequestEffect extends aos.Effect {
  constructor(public params: HttpRequestParams = new HttpRequestParams()) {
    super();
  }

  withKey(idempotencyKey: string): HttpRequestEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): HttpRequestEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/http.request@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfHttpRequest(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HttpRequestReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<HttpRequestReceipt>(receipt, "sys/http.request@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: HttpRequestReceipt = HttpRequestReceipt.readFrom(r);
  return aos.succeeded<HttpRequestReceipt>(r, value, "sys/http.request@1");
}

/** sys/http.request@1: a handle on a request in flight. */
export class HttpRequestPending extends aos.Pending {
  start(effect: HttpRequestEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<HttpRequestReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfHttpRequest(receipt);
  }
}

/** sys/http.request@1: handles on requests in flight, each under a key. */
export class HttpRequestPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: HttpRequestEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, HttpRequestReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfHttpRequest(receipt);
    return outcome === null ? null : new aos.Settled<K, HttpRequestReceipt>(key.value, outcome);
  }
}

/** sys/introspect.journal_head@1: a request. */
export class IntrospectJournalHeadEffect extends aos.Effect {
  constructor(public params: IntrospectJournalHeadParams = new IntrospectJournalHeadParams()) {
    super();
  }

  withKey(idempotencyKey: string): IntrospectJournalHeadEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): IntrospectJournalHeadEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/introspect.journal_head@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfIntrospectJournalHead(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectJournalHeadReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<IntrospectJournalHeadReceipt>(receipt, "sys/introspect.journal_head@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: IntrospectJournalHeadReceipt = IntrospectJournalHeadReceipt.readFrom(r);
  return aos.succeeded<IntrospectJournalHeadReceipt>(r, value, "sys/introspect.journal_head@1");
}

/** sys/introspect.journal_head@1: a handle on a request in flight. */
export class IntrospectJournalHeadPending extends aos.Pending {
  start(effect: IntrospectJournalHeadEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectJournalHeadReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfIntrospectJournalHead(receipt);
  }
}

/** sys/introspect.journal_head@1: handles on requests in flight, each under a key. */
export class IntrospectJournalHeadPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: IntrospectJournalHeadEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, IntrospectJournalHeadReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfIntrospectJournalHead(receipt);
    return outcome === null ? null : new aos.Settled<K, IntrospectJournalHeadReceipt>(key.value, outcome);
  }
}

/** sys/introspect.list_cells@1: a request. */
export class IntrospectListCellsEffect extends aos.Effect {
  constructor(public params: IntrospectListCellsParams = new IntrospectListCellsParams()) {
    super();
  }

  withKey(idempotencyKey: string): IntrospectListCellsEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): IntrospectListCellsEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/introspect.list_cells@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfIntrospectListCells(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectListCellsReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<IntrospectListCellsReceipt>(receipt, "sys/introspect.list_cells@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: IntrospectListCellsReceipt = IntrospectListCellsReceipt.readFrom(r);
  return aos.succeeded<IntrospectListCellsReceipt>(r, value, "sys/introspect.list_cells@1");
}

/** sys/introspect.list_cells@1: a handle on a request in flight. */
export class IntrospectListCellsPending extends aos.Pending {
  start(effect: IntrospectListCellsEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectListCellsReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfIntrospectListCells(receipt);
  }
}

/** sys/introspect.list_cells@1: handles on requests in flight, each under a key. */
export class IntrospectListCellsPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: IntrospectListCellsEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, IntrospectListCellsReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfIntrospectListCells(receipt);
    return outcome === null ? null : new aos.Settled<K, IntrospectListCellsReceipt>(key.value, outcome);
  }
}

/** sys/introspect.manifest@1: a request. */
export class IntrospectManifestEffect extends aos.Effect {
  constructor(public params: IntrospectManifestParams = new IntrospectManifestParams()) {
    super();
  }

  withKey(idempotencyKey: string): IntrospectManifestEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): IntrospectManifestEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/introspect.manifest@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfIntrospectManifest(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectManifestReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<IntrospectManifestReceipt>(receipt, "sys/introspect.manifest@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: IntrospectManifestReceipt = IntrospectManifestReceipt.readFrom(r);
  return aos.succeeded<IntrospectManifestReceipt>(r, value, "sys/introspect.manifest@1");
}

/** sys/introspect.manifest@1: a handle on a request in flight. */
export class IntrospectManifestPending extends aos.Pending {
  start(effect: IntrospectManifestEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectManifestReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfIntrospectManifest(receipt);
  }
}

/** sys/introspect.manifest@1: handles on requests in flight, each under a key. */
export class IntrospectManifestPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: IntrospectManifestEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, IntrospectManifestReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfIntrospectManifest(receipt);
    return outcome === null ? null : new aos.Settled<K, IntrospectManifestReceipt>(key.value, outcome);
  }
}

/** sys/introspect.workflow_state@1: a request. */
export class IntrospectWorkflowStateEffect extends aos.Effect {
  constructor(public params: IntrospectWorkflowStateParams = new IntrospectWorkflowStateParams()) {
    super();
  }

  withKey(idempotencyKey: string): IntrospectWorkflowStateEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): IntrospectWorkflowStateEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/introspect.workflow_state@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfIntrospectWorkflowState(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectWorkflowStateReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<IntrospectWorkflowStateReceipt>(receipt, "sys/introspect.workflow_state@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: IntrospectWorkflowStateReceipt = IntrospectWorkflowStateReceipt.readFrom(r);
  return aos.succeeded<IntrospectWorkflowStateReceipt>(r, value, "sys/introspect.workflow_state@1");
}

/** sys/introspect.workflow_state@1: a handle on a request in flight. */
export class IntrospectWorkflowStatePending extends aos.Pending {
  start(effect: IntrospectWorkflowStateEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<IntrospectWorkflowStateReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfIntrospectWorkflowState(receipt);
  }
}

/** sys/introspect.workflow_state@1: handles on requests in flight, each under a key. */
export class IntrospectWorkflowStatePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: IntrospectWorkflowStateEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, IntrospectWorkflowStateReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfIntrospectWorkflowState(receipt);
    return outcome === null ? null : new aos.Settled<K, IntrospectWorkflowStateReceipt>(key.value, outcome);
  }
}

/** sys/llm.compact@1: a request. */
export class LlmCompactEffect extends aos.Effect {
  constructor(public params: LlmCompactParams = new LlmCompactParams()) {
    super();
  }

  withKey(idempotencyKey: string): LlmCompactEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): LlmCompactEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/llm.compact@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfLlmCompact(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmCompactReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<LlmCompactReceipt>(receipt, "sys/llm.compact@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: LlmCompactReceipt = LlmCompactReceipt.readFrom(r);
  return aos.succeeded<LlmCompactReceipt>(r, value, "sys/llm.compact@1");
}

/** sys/llm.compact@1: a handle on a request in flight. */
export class LlmCompactPending extends aos.Pending {
  start(effect: LlmCompactEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmCompactReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfLlmCompact(receipt);
  }
}

/** sys/llm.compact@1: handles on requests in flight, each under a key. */
export class LlmCompactPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: LlmCompactEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, LlmCompactReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfLlmCompact(receipt);
    return outcome === null ? null : new aos.Settled<K, LlmCompactReceipt>(key.value, outcome);
  }
}

/** sys/llm.count_tokens@1: a request. */
export class LlmCountTokensEffect extends aos.Effect {
  constructor(public params: LlmCountTokensParams = new LlmCountTokensParams()) {
    super();
  }

  withKey(idempotencyKey: string): LlmCountTokensEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): LlmCountTokensEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/llm.count_tokens@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfLlmCountTokens(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmCountTokensReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<LlmCountTokensReceipt>(receipt, "sys/llm.count_tokens@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: LlmCountTokensReceipt = LlmCountTokensReceipt.readFrom(r);
  return aos.succeeded<LlmCountTokensReceipt>(r, value, "sys/llm.count_tokens@1");
}

/** sys/llm.count_tokens@1: a handle on a request in flight. */
export class LlmCountTokensPending extends aos.Pending {
  start(effect: LlmCountTokensEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmCountTokensReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfLlmCountTokens(receipt);
  }
}

/** sys/llm.count_tokens@1: handles on requests in flight, each under a key. */
export class LlmCountTokensPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: LlmCountTokensEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, LlmCountTokensReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfLlmCountTokens(receipt);
    return outcome === null ? null : new aos.Settled<K, LlmCountTokensReceipt>(key.value, outcome);
  }
}

/** sys/llm.generate@1: a request. */
export class LlmGenerateEffect extends aos.Effect {
  constructor(public params: LlmGenerateParams = new LlmGenerateParams()) {
    super();
  }

  withKey(idempotencyKey: string): LlmGenerateEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): LlmGenerateEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/llm.generate@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfLlmGenerate(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmGenerateReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<LlmGenerateReceipt>(receipt, "sys/llm.generate@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: LlmGenerateReceipt = LlmGenerateReceipt.readFrom(r);
  return aos.succeeded<LlmGenerateReceipt>(r, value, "sys/llm.generate@1");
}

/** sys/llm.generate@1: a handle on a request in flight. */
export class LlmGeneratePending extends aos.Pending {
  start(effect: LlmGenerateEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<LlmGenerateReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfLlmGenerate(receipt);
  }
}

/** sys/llm.generate@1: handles on requests in flight, each under a key. */
export class LlmGeneratePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: LlmGenerateEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, LlmGenerateReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfLlmGenerate(receipt);
    return outcome === null ? null : new aos.Settled<K, LlmGenerateReceipt>(key.value, outcome);
  }
}

/** sys/portal.send@1: a request. */
export class PortalSendEffect extends aos.Effect {
  constructor(public params: PortalSendParams = new PortalSendParams()) {
    super();
  }

  withKey(idempotencyKey: string): PortalSendEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): PortalSendEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/portal.send@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfPortalSend(receipt: aos.EffectReceiptEnvelope): aos.Outcome<PortalSendReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<PortalSendReceipt>(receipt, "sys/portal.send@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: PortalSendReceipt = PortalSendReceipt.readFrom(r);
  return aos.succeeded<PortalSendReceipt>(r, value, "sys/portal.send@1");
}

/** sys/portal.send@1: a handle on a request in flight. */
export class PortalSendPending extends aos.Pending {
  start(effect: PortalSendEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<PortalSendReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfPortalSend(receipt);
  }
}

/** sys/portal.send@1: handles on requests in flight, each under a key. */
export class PortalSendPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: PortalSendEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, PortalSendReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfPortalSend(receipt);
    return outcome === null ? null : new aos.Settled<K, PortalSendReceipt>(key.value, outcome);
  }
}

/** sys/timer.cancel@1: a request. */
export class TimerCancelEffect extends aos.Effect {
  constructor(public params: TimerCancelParams = new TimerCancelParams()) {
    super();
  }

  withKey(idempotencyKey: string): TimerCancelEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): TimerCancelEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/timer.cancel@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfTimerCancel(receipt: aos.EffectReceiptEnvelope): aos.Outcome<TimerCancelReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<TimerCancelReceipt>(receipt, "sys/timer.cancel@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: TimerCancelReceipt = TimerCancelReceipt.readFrom(r);
  return aos.succeeded<TimerCancelReceipt>(r, value, "sys/timer.cancel@1");
}

/** sys/timer.cancel@1: a handle on a request in flight. */
export class TimerCancelPending extends aos.Pending {
  start(effect: TimerCancelEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<TimerCancelReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfTimerCancel(receipt);
  }
}

/** sys/timer.cancel@1: handles on requests in flight, each under a key. */
export class TimerCancelPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: TimerCancelEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, TimerCancelReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfTimerCancel(receipt);
    return outcome === null ? null : new aos.Settled<K, TimerCancelReceipt>(key.value, outcome);
  }
}

/** sys/timer.set@1: a request. */
export class TimerSetEffect extends aos.Effect {
  constructor(public params: TimerSetParams = new TimerSetParams()) {
    super();
  }

  withKey(idempotencyKey: string): TimerSetEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): TimerSetEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/timer.set@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfTimerSet(receipt: aos.EffectReceiptEnvelope): aos.Outcome<TimerSetReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<TimerSetReceipt>(receipt, "sys/timer.set@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: TimerSetReceipt = TimerSetReceipt.readFrom(r);
  return aos.succeeded<TimerSetReceipt>(r, value, "sys/timer.set@1");
}

/** sys/timer.set@1: a handle on a request in flight. */
export class TimerSetPending extends aos.Pending {
  start(effect: TimerSetEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<TimerSetReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfTimerSet(receipt);
  }
}

/** sys/timer.set@1: handles on requests in flight, each under a key. */
export class TimerSetPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: TimerSetEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, TimerSetReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfTimerSet(receipt);
    return outcome === null ? null : new aos.Settled<K, TimerSetReceipt>(key.value, outcome);
  }
}

/** sys/vault.put@1: a request. */
export class VaultPutEffect extends aos.Effect {
  constructor(public params: VaultPutParams = new VaultPutParams()) {
    super();
  }

  withKey(idempotencyKey: string): VaultPutEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): VaultPutEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/vault.put@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfVaultPut(receipt: aos.EffectReceiptEnvelope): aos.Outcome<VaultPutReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<VaultPutReceipt>(receipt, "sys/vault.put@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: VaultPutReceipt = VaultPutReceipt.readFrom(r);
  return aos.succeeded<VaultPutReceipt>(r, value, "sys/vault.put@1");
}

/** sys/vault.put@1: a handle on a request in flight. */
export class VaultPutPending extends aos.Pending {
  start(effect: VaultPutEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<VaultPutReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfVaultPut(receipt);
  }
}

/** sys/vault.put@1: handles on requests in flight, each under a key. */
export class VaultPutPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: VaultPutEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, VaultPutReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfVaultPut(receipt);
    return outcome === null ? null : new aos.Settled<K, VaultPutReceipt>(key.value, outcome);
  }
}

/** sys/vault.rotate@1: a request. */
export class VaultRotateEffect extends aos.Effect {
  constructor(public params: VaultRotateParams = new VaultRotateParams()) {
    super();
  }

  withKey(idempotencyKey: string): VaultRotateEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): VaultRotateEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/vault.rotate@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfVaultRotate(receipt: aos.EffectReceiptEnvelope): aos.Outcome<VaultRotateReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<VaultRotateReceipt>(receipt, "sys/vault.rotate@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: VaultRotateReceipt = VaultRotateReceipt.readFrom(r);
  return aos.succeeded<VaultRotateReceipt>(r, value, "sys/vault.rotate@1");
}

/** sys/vault.rotate@1: a handle on a request in flight. */
export class VaultRotatePending extends aos.Pending {
  start(effect: VaultRotateEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<VaultRotateReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfVaultRotate(receipt);
  }
}

/** sys/vault.rotate@1: handles on requests in flight, each under a key. */
export class VaultRotatePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: VaultRotateEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, VaultRotateReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfVaultRotate(receipt);
    return outcome === null ? null : new aos.Settled<K, VaultRotateReceipt>(key.value, outcome);
  }
}

/** sys/workspace.annotations_get@1: a request. */
export class WorkspaceAnnotationsGetEffect extends aos.Effect {
  constructor(public params: WorkspaceAnnotationsGetParams = new WorkspaceAnnotationsGetParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceAnnotationsGetEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceAnnotationsGetEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.annotations_get@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceAnnotationsGet(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceAnnotationsGetReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceAnnotationsGetReceipt>(receipt, "sys/workspace.annotations_get@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceAnnotationsGetReceipt = WorkspaceAnnotationsGetReceipt.readFrom(r);
  return aos.succeeded<WorkspaceAnnotationsGetReceipt>(r, value, "sys/workspace.annotations_get@1");
}

/** sys/workspace.annotations_get@1: a handle on a request in flight. */
export class WorkspaceAnnotationsGetPending extends aos.Pending {
  start(effect: WorkspaceAnnotationsGetEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceAnnotationsGetReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceAnnotationsGet(receipt);
  }
}

/** sys/workspace.annotations_get@1: handles on requests in flight, each under a key. */
export class WorkspaceAnnotationsGetPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceAnnotationsGetEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceAnnotationsGetReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceAnnotationsGet(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceAnnotationsGetReceipt>(key.value, outcome);
  }
}

/** sys/workspace.annotations_set@1: a request. */
export class WorkspaceAnnotationsSetEffect extends aos.Effect {
  constructor(public params: WorkspaceAnnotationsSetParams = new WorkspaceAnnotationsSetParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceAnnotationsSetEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceAnnotationsSetEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.annotations_set@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceAnnotationsSet(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceAnnotationsSetReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceAnnotationsSetReceipt>(receipt, "sys/workspace.annotations_set@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceAnnotationsSetReceipt = WorkspaceAnnotationsSetReceipt.readFrom(r);
  return aos.succeeded<WorkspaceAnnotationsSetReceipt>(r, value, "sys/workspace.annotations_set@1");
}

/** sys/workspace.annotations_set@1: a handle on a request in flight. */
export class WorkspaceAnnotationsSetPending extends aos.Pending {
  start(effect: WorkspaceAnnotationsSetEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceAnnotationsSetReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceAnnotationsSet(receipt);
  }
}

/** sys/workspace.annotations_set@1: handles on requests in flight, each under a key. */
export class WorkspaceAnnotationsSetPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceAnnotationsSetEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceAnnotationsSetReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceAnnotationsSet(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceAnnotationsSetReceipt>(key.value, outcome);
  }
}

/** sys/workspace.diff@1: a request. */
export class WorkspaceDiffEffect extends aos.Effect {
  constructor(public params: WorkspaceDiffParams = new WorkspaceDiffParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceDiffEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceDiffEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.diff@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceDiff(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceDiffReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceDiffReceipt>(receipt, "sys/workspace.diff@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceDiffReceipt = WorkspaceDiffReceipt.readFrom(r);
  return aos.succeeded<WorkspaceDiffReceipt>(r, value, "sys/workspace.diff@1");
}

/** sys/workspace.diff@1: a handle on a request in flight. */
export class WorkspaceDiffPending extends aos.Pending {
  start(effect: WorkspaceDiffEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceDiffReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceDiff(receipt);
  }
}

/** sys/workspace.diff@1: handles on requests in flight, each under a key. */
export class WorkspaceDiffPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceDiffEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceDiffReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceDiff(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceDiffReceipt>(key.value, outcome);
  }
}

/** sys/workspace.empty_root@1: a request. */
export class WorkspaceEmptyRootEffect extends aos.Effect {
  constructor(public params: WorkspaceEmptyRootParams = new WorkspaceEmptyRootParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceEmptyRootEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceEmptyRootEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.empty_root@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceEmptyRoot(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceEmptyRootReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceEmptyRootReceipt>(receipt, "sys/workspace.empty_root@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceEmptyRootReceipt = WorkspaceEmptyRootReceipt.readFrom(r);
  return aos.succeeded<WorkspaceEmptyRootReceipt>(r, value, "sys/workspace.empty_root@1");
}

/** sys/workspace.empty_root@1: a handle on a request in flight. */
export class WorkspaceEmptyRootPending extends aos.Pending {
  start(effect: WorkspaceEmptyRootEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceEmptyRootReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceEmptyRoot(receipt);
  }
}

/** sys/workspace.empty_root@1: handles on requests in flight, each under a key. */
export class WorkspaceEmptyRootPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceEmptyRootEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceEmptyRootReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceEmptyRoot(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceEmptyRootReceipt>(key.value, outcome);
  }
}

/** sys/workspace.list@1: a request. */
export class WorkspaceListEffect extends aos.Effect {
  constructor(public params: WorkspaceListParams = new WorkspaceListParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceListEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceListEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.list@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceList(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceListReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceListReceipt>(receipt, "sys/workspace.list@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceListReceipt = WorkspaceListReceipt.readFrom(r);
  return aos.succeeded<WorkspaceListReceipt>(r, value, "sys/workspace.list@1");
}

/** sys/workspace.list@1: a handle on a request in flight. */
export class WorkspaceListPending extends aos.Pending {
  start(effect: WorkspaceListEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceListReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceList(receipt);
  }
}

/** sys/workspace.list@1: handles on requests in flight, each under a key. */
export class WorkspaceListPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceListEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceListReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceList(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceListReceipt>(key.value, outcome);
  }
}

/** sys/workspace.read_bytes@1: a request. */
export class WorkspaceReadBytesEffect extends aos.Effect {
  constructor(public params: WorkspaceReadBytesParams = new WorkspaceReadBytesParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceReadBytesEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceReadBytesEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.read_bytes@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceReadBytes(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Uint8Array> | null {
  if (receipt.status != "ok") {
    return aos.failed<Uint8Array>(receipt, "sys/workspace.read_bytes@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: Uint8Array = r.bytes();
  return aos.succeeded<Uint8Array>(r, value, "sys/workspace.read_bytes@1");
}

/** sys/workspace.read_bytes@1: a handle on a request in flight. */
export class WorkspaceReadBytesPending extends aos.Pending {
  start(effect: WorkspaceReadBytesEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<Uint8Array> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceReadBytes(receipt);
  }
}

/** sys/workspace.read_bytes@1: handles on requests in flight, each under a key. */
export class WorkspaceReadBytesPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceReadBytesEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, Uint8Array> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceReadBytes(receipt);
    return outcome === null ? null : new aos.Settled<K, Uint8Array>(key.value, outcome);
  }
}

/** sys/workspace.read_ref@1: a request. */
export class WorkspaceReadRefEffect extends aos.Effect {
  constructor(public params: WorkspaceReadRefParams = new WorkspaceReadRefParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceReadRefEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceReadRefEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.read_ref@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceReadRef(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceRefEntry | null> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceRefEntry | null>(receipt, "sys/workspace.read_ref@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceRefEntry | null = read_option_WorkspaceRefEntry(r);
  return aos.succeeded<WorkspaceRefEntry | null>(r, value, "sys/workspace.read_ref@1");
}

/** sys/workspace.read_ref@1: a handle on a request in flight. */
export class WorkspaceReadRefPending extends aos.Pending {
  start(effect: WorkspaceReadRefEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceRefEntry | null> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceReadRef(receipt);
  }
}

/** sys/workspace.read_ref@1: handles on requests in flight, each under a key. */
export class WorkspaceReadRefPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceReadRefEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceRefEntry | null> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceReadRef(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceRefEntry | null>(key.value, outcome);
  }
}

/** sys/workspace.remove@1: a request. */
export class WorkspaceRemoveEffect extends aos.Effect {
  constructor(public params: WorkspaceRemoveParams = new WorkspaceRemoveParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceRemoveEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceRemoveEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.remove@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceRemove(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceRemoveReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceRemoveReceipt>(receipt, "sys/workspace.remove@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceRemoveReceipt = WorkspaceRemoveReceipt.readFrom(r);
  return aos.succeeded<WorkspaceRemoveReceipt>(r, value, "sys/workspace.remove@1");
}

/** sys/workspace.remove@1: a handle on a request in flight. */
export class WorkspaceRemovePending extends aos.Pending {
  start(effect: WorkspaceRemoveEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceRemoveReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceRemove(receipt);
  }
}

/** sys/workspace.remove@1: handles on requests in flight, each under a key. */
export class WorkspaceRemovePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceRemoveEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceRemoveReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceRemove(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceRemoveReceipt>(key.value, outcome);
  }
}

/** sys/workspace.resolve@1: a request. */
export class WorkspaceResolveEffect extends aos.Effect {
  constructor(public params: WorkspaceResolveParams = new WorkspaceResolveParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceResolveEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceResolveEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.resolve@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceResolve(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceResolveReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceResolveReceipt>(receipt, "sys/workspace.resolve@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceResolveReceipt = WorkspaceResolveReceipt.readFrom(r);
  return aos.succeeded<WorkspaceResolveReceipt>(r, value, "sys/workspace.resolve@1");
}

/** sys/workspace.resolve@1: a handle on a request in flight. */
export class WorkspaceResolvePending extends aos.Pending {
  start(effect: WorkspaceResolveEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceResolveReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceResolve(receipt);
  }
}

/** sys/workspace.resolve@1: handles on requests in flight, each under a key. */
export class WorkspaceResolvePendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceResolveEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceResolveReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceResolve(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceResolveReceipt>(key.value, outcome);
  }
}

/** sys/workspace.write_bytes@1: a request. */
export class WorkspaceWriteBytesEffect extends aos.Effect {
  constructor(public params: WorkspaceWriteBytesParams = new WorkspaceWriteBytesParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceWriteBytesEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceWriteBytesEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.write_bytes@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceWriteBytes(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceWriteBytesReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceWriteBytesReceipt>(receipt, "sys/workspace.write_bytes@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceWriteBytesReceipt = WorkspaceWriteBytesReceipt.readFrom(r);
  return aos.succeeded<WorkspaceWriteBytesReceipt>(r, value, "sys/workspace.write_bytes@1");
}

/** sys/workspace.write_bytes@1: a handle on a request in flight. */
export class WorkspaceWriteBytesPending extends aos.Pending {
  start(effect: WorkspaceWriteBytesEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceWriteBytesReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceWriteBytes(receipt);
  }
}

/** sys/workspace.write_bytes@1: handles on requests in flight, each under a key. */
export class WorkspaceWriteBytesPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceWriteBytesEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceWriteBytesReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceWriteBytes(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceWriteBytesReceipt>(key.value, outcome);
  }
}

/** sys/workspace.write_ref@1: a request. */
export class WorkspaceWriteRefEffect extends aos.Effect {
  constructor(public params: WorkspaceWriteRefParams = new WorkspaceWriteRefParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorkspaceWriteRefEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorkspaceWriteRefEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/workspace.write_ref@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorkspaceWriteRef(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceWriteRefReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorkspaceWriteRefReceipt>(receipt, "sys/workspace.write_ref@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorkspaceWriteRefReceipt = WorkspaceWriteRefReceipt.readFrom(r);
  return aos.succeeded<WorkspaceWriteRefReceipt>(r, value, "sys/workspace.write_ref@1");
}

/** sys/workspace.write_ref@1: a handle on a request in flight. */
export class WorkspaceWriteRefPending extends aos.Pending {
  start(effect: WorkspaceWriteRefEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorkspaceWriteRefReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorkspaceWriteRef(receipt);
  }
}

/** sys/workspace.write_ref@1: handles on requests in flight, each under a key. */
export class WorkspaceWriteRefPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorkspaceWriteRefEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorkspaceWriteRefReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorkspaceWriteRef(receipt);
    return outcome === null ? null : new aos.Settled<K, WorkspaceWriteRefReceipt>(key.value, outcome);
  }
}

/** sys/world.send@1: a request. */
export class WorldSendEffect extends aos.Effect {
  constructor(public params: WorldSendParams = new WorldSendParams()) {
    super();
  }

  withKey(idempotencyKey: string): WorldSendEffect {
    this.idempotencyKey = idempotencyKey;
    return this;
  }

  withRef(issuerRef: string): WorldSendEffect {
    this.issuerRef = issuerRef;
    return this;
  }

  effectName(): string {
    return "sys/world.send@1";
  }

  writeParams(w: aos.Writer): void {
    this.params.writeTo(w);
  }
}

function outcomeOfWorldSend(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorldSendReceipt> | null {
  if (receipt.status != "ok") {
    return aos.failed<WorldSendReceipt>(receipt, "sys/world.send@1");
  }
  const r = aos.Reader.of(receipt.receipt_payload);
  const value: WorldSendReceipt = WorldSendReceipt.readFrom(r);
  return aos.succeeded<WorldSendReceipt>(r, value, "sys/world.send@1");
}

/** sys/world.send@1: a handle on a request in flight. */
export class WorldSendPending extends aos.Pending {
  start(effect: WorldSendEffect): void {
    this.begin(effect);
  }

  /** Null when the receipt is of another request. Idle afterwards. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Outcome<WorldSendReceipt> | null {
    if (!this.matches(receipt.issuer_ref)) return null;
    this.ref = null;
    return outcomeOfWorldSend(receipt);
  }
}

/** sys/world.send@1: handles on requests in flight, each under a key. */
export class WorldSendPendingSet<K> extends aos.PendingSet<K> {
  start(key: K, effect: WorldSendEffect): void {
    this.begin(key, effect);
  }

  /** Null when the receipt is of none of them. It is taken out. */
  settle(receipt: aos.EffectReceiptEnvelope): aos.Settled<K, WorldSendReceipt> | null {
    const key = this.take(receipt.issuer_ref);
    if (key === null) return null;
    const outcome = outcomeOfWorldSend(receipt);
    return outcome === null ? null : new aos.Settled<K, WorldSendReceipt>(key.value, outcome);
  }
}

function read_list_GovPatchSummaryDefChanges(r: aos.Reader): Array<GovPatchSummaryDefChanges> {
  const items = new Array<GovPatchSummaryDefChanges>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(GovPatchSummaryDefChanges.readFrom(r));
  }
  return items;
}

function write_list_GovPatchSummaryDefChanges(w: aos.Writer, value: Array<GovPatchSummaryDefChanges>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_GovShadowReceiptModuleEffectAllowlists(r: aos.Reader): Array<GovShadowReceiptModuleEffectAllowlists> {
  const items = new Array<GovShadowReceiptModuleEffectAllowlists>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(GovShadowReceiptModuleEffectAllowlists.readFrom(r));
  }
  return items;
}

function write_list_GovShadowReceiptModuleEffectAllowlists(w: aos.Writer, value: Array<GovShadowReceiptModuleEffectAllowlists>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_GovShadowReceiptPendingWorkflowReceipts(r: aos.Reader): Array<GovShadowReceiptPendingWorkflowReceipts> {
  const items = new Array<GovShadowReceiptPendingWorkflowReceipts>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(GovShadowReceiptPendingWorkflowReceipts.readFrom(r));
  }
  return items;
}

function write_list_GovShadowReceiptPendingWorkflowReceipts(w: aos.Writer, value: Array<GovShadowReceiptPendingWorkflowReceipts>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_GovShadowReceiptPredictedEffects(r: aos.Reader): Array<GovShadowReceiptPredictedEffects> {
  const items = new Array<GovShadowReceiptPredictedEffects>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(GovShadowReceiptPredictedEffects.readFrom(r));
  }
  return items;
}

function write_list_GovShadowReceiptPredictedEffects(w: aos.Writer, value: Array<GovShadowReceiptPredictedEffects>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_GovShadowReceiptWorkflowInstances(r: aos.Reader): Array<GovShadowReceiptWorkflowInstances> {
  const items = new Array<GovShadowReceiptWorkflowInstances>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(GovShadowReceiptWorkflowInstances.readFrom(r));
  }
  return items;
}

function write_list_GovShadowReceiptWorkflowInstances(w: aos.Writer, value: Array<GovShadowReceiptWorkflowInstances>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_HostMount(r: aos.Reader): Array<HostMount> {
  const items = new Array<HostMount>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(HostMount.readFrom(r));
  }
  return items;
}

function write_list_HostMount(w: aos.Writer, value: Array<HostMount>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_IntrospectCellInfo(r: aos.Reader): Array<IntrospectCellInfo> {
  const items = new Array<IntrospectCellInfo>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(IntrospectCellInfo.readFrom(r));
  }
  return items;
}

function write_list_IntrospectCellInfo(w: aos.Writer, value: Array<IntrospectCellInfo>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_LlmTokenCountByRef(r: aos.Reader): Array<LlmTokenCountByRef> {
  const items = new Array<LlmTokenCountByRef>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(LlmTokenCountByRef.readFrom(r));
  }
  return items;
}

function write_list_LlmTokenCountByRef(w: aos.Writer, value: Array<LlmTokenCountByRef>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_LlmWindowItem(r: aos.Reader): Array<LlmWindowItem> {
  const items = new Array<LlmWindowItem>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(LlmWindowItem.readFrom(r));
  }
  return items;
}

function write_list_LlmWindowItem(w: aos.Writer, value: Array<LlmWindowItem>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_PendingBatchGroupText(r: aos.Reader): Array<PendingBatchGroupText> {
  const items = new Array<PendingBatchGroupText>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(PendingBatchGroupText.readFrom(r));
  }
  return items;
}

function write_list_PendingBatchGroupText(w: aos.Writer, value: Array<PendingBatchGroupText>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_WorkspaceDiffChange(r: aos.Reader): Array<WorkspaceDiffChange> {
  const items = new Array<WorkspaceDiffChange>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(WorkspaceDiffChange.readFrom(r));
  }
  return items;
}

function write_list_WorkspaceDiffChange(w: aos.Writer, value: Array<WorkspaceDiffChange>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_WorkspaceEntry(r: aos.Reader): Array<WorkspaceEntry> {
  const items = new Array<WorkspaceEntry>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(WorkspaceEntry.readFrom(r));
  }
  return items;
}

function write_list_WorkspaceEntry(w: aos.Writer, value: Array<WorkspaceEntry>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_WorkspaceEntryV2(r: aos.Reader): Array<WorkspaceEntryV2> {
  const items = new Array<WorkspaceEntryV2>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(WorkspaceEntryV2.readFrom(r));
  }
  return items;
}

function write_list_WorkspaceEntryV2(w: aos.Writer, value: Array<WorkspaceEntryV2>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_WorkspaceListEntry(r: aos.Reader): Array<WorkspaceListEntry> {
  const items = new Array<WorkspaceListEntry>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(WorkspaceListEntry.readFrom(r));
  }
  return items;
}

function write_list_WorkspaceListEntry(w: aos.Writer, value: Array<WorkspaceListEntry>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { value[i].writeTo(w); }
}

function read_list_hash(r: aos.Reader): Array<string> {
  const items = new Array<string>();
  for (let left = r.list(); left > 0 && !r.failed; --left) {
    items.push(r.hash());
  }
  return items;
}

function write_list_hash(w: aos.Writer, value: Array<string>): void {
  w.list(value.length);
  for (let i = 0; i < value.length; ++i) { w.hash(value[i]); }
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

function read_map_nat_WorkspaceCommitMeta(r: aos.Reader): Map<u64, WorkspaceCommitMeta> {
  const items = new Map<u64, WorkspaceCommitMeta>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.nat();
    before = r.ascending(before, start);
    items.set(key, WorkspaceCommitMeta.readFrom(r));
  }
  return items;
}

function write_map_nat_WorkspaceCommitMeta(w: aos.Writer, value: Map<u64, WorkspaceCommitMeta>): void {
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

function read_map_text_TextOrSecretRef(r: aos.Reader): Map<string, TextOrSecretRef> {
  const items = new Map<string, TextOrSecretRef>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, TextOrSecretRef.readFrom(r));
  }
  return items;
}

function write_map_text_TextOrSecretRef(w: aos.Writer, value: Map<string, TextOrSecretRef>): void {
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

function read_map_text_hash(r: aos.Reader): Map<string, string> {
  const items = new Map<string, string>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, r.hash());
  }
  return items;
}

function write_map_text_hash(w: aos.Writer, value: Map<string, string>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    w.hash(items[i]);
  }
  w.endMap(sorter);
}

function read_map_text_option_hash(r: aos.Reader): Map<string, string | null> {
  const items = new Map<string, string | null>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, read_option_hash(r));
  }
  return items;
}

function write_map_text_option_hash(w: aos.Writer, value: Map<string, string | null>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    write_option_hash(w, items[i]);
  }
  w.endMap(sorter);
}

function read_map_text_text(r: aos.Reader): Map<string, string> {
  const items = new Map<string, string>();
  let before: usize = 0;
  for (let left = r.map(); left > 0 && !r.failed; --left) {
    const start = r.at;
    const key = r.text();
    before = r.ascending(before, start);
    items.set(key, r.text());
  }
  return items;
}

function write_map_text_text(w: aos.Writer, value: Map<string, string>): void {
  const keys = value.keys();
  const items = value.values();
  const sorter = w.sorter(keys.length);
  for (let i = 0; i < keys.length; ++i) {
    sorter.item();
    w.text(keys[i]);
    sorter.keyed();
    w.text(items[i]);
  }
  w.endMap(sorter);
}

function read_option_GovPatchSummary(r: aos.Reader): GovPatchSummary | null {
  if (r.isNull()) return null;
  return GovPatchSummary.readFrom(r);
}

function write_option_GovPatchSummary(w: aos.Writer, value: GovPatchSummary | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_HostOutput(r: aos.Reader): HostOutput | null {
  if (r.isNull()) return null;
  return HostOutput.readFrom(r);
}

function write_option_HostOutput(w: aos.Writer, value: HostOutput | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_HostPatchOpsSummary(r: aos.Reader): HostPatchOpsSummary | null {
  if (r.isNull()) return null;
  return HostPatchOpsSummary.readFrom(r);
}

function write_option_HostPatchOpsSummary(w: aos.Writer, value: HostPatchOpsSummary | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_HostTextOutput(r: aos.Reader): HostTextOutput | null {
  if (r.isNull()) return null;
  return HostTextOutput.readFrom(r);
}

function write_option_HostTextOutput(w: aos.Writer, value: HostTextOutput | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_LlmGenerateReceiptUsageDetails(r: aos.Reader): LlmGenerateReceiptUsageDetails | null {
  if (r.isNull()) return null;
  return LlmGenerateReceiptUsageDetails.readFrom(r);
}

function write_option_LlmGenerateReceiptUsageDetails(w: aos.Writer, value: LlmGenerateReceiptUsageDetails | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_LlmProviderCompatibility(r: aos.Reader): LlmProviderCompatibility | null {
  if (r.isNull()) return null;
  return LlmProviderCompatibility.readFrom(r);
}

function write_option_LlmProviderCompatibility(w: aos.Writer, value: LlmProviderCompatibility | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_LlmToolChoice(r: aos.Reader): LlmToolChoice | null {
  if (r.isNull()) return null;
  return LlmToolChoice.readFrom(r);
}

function write_option_LlmToolChoice(w: aos.Writer, value: LlmToolChoice | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_LlmTranscriptRange(r: aos.Reader): LlmTranscriptRange | null {
  if (r.isNull()) return null;
  return LlmTranscriptRange.readFrom(r);
}

function write_option_LlmTranscriptRange(w: aos.Writer, value: LlmTranscriptRange | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_TextOrSecretRef(r: aos.Reader): TextOrSecretRef | null {
  if (r.isNull()) return null;
  return TextOrSecretRef.readFrom(r);
}

function write_option_TextOrSecretRef(w: aos.Writer, value: TextOrSecretRef | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_TokenUsage(r: aos.Reader): TokenUsage | null {
  if (r.isNull()) return null;
  return TokenUsage.readFrom(r);
}

function write_option_TokenUsage(w: aos.Writer, value: TokenUsage | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_WorkspaceReadBytesParamsRange(r: aos.Reader): WorkspaceReadBytesParamsRange | null {
  if (r.isNull()) return null;
  return WorkspaceReadBytesParamsRange.readFrom(r);
}

function write_option_WorkspaceReadBytesParamsRange(w: aos.Writer, value: WorkspaceReadBytesParamsRange | null): void {
  if (value === null) w.null();
  else value.writeTo(w);
}

function read_option_WorkspaceRefEntry(r: aos.Reader): WorkspaceRefEntry | null {
  if (r.isNull()) return null;
  return WorkspaceRefEntry.readFrom(r);
}

function write_option_WorkspaceRefEntry(w: aos.Writer, value: WorkspaceRefEntry | null): void {
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

function read_option_bytes(r: aos.Reader): Uint8Array | null {
  if (r.isNull()) return null;
  return r.bytes();
}

function write_option_bytes(w: aos.Writer, value: Uint8Array | null): void {
  if (value === null) w.null();
  else w.bytes(value);
}

function read_option_dec128(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.dec128();
}

function write_option_dec128(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.dec128(value);
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

function read_option_list_HostMount(r: aos.Reader): Array<HostMount> | null {
  if (r.isNull()) return null;
  return read_list_HostMount(r);
}

function write_option_list_HostMount(w: aos.Writer, value: Array<HostMount> | null): void {
  if (value === null) w.null();
  else write_list_HostMount(w, value);
}

function read_option_list_hash(r: aos.Reader): Array<string> | null {
  if (r.isNull()) return null;
  return read_list_hash(r);
}

function write_option_list_hash(w: aos.Writer, value: Array<string> | null): void {
  if (value === null) w.null();
  else write_list_hash(w, value);
}

function read_option_list_text(r: aos.Reader): Array<string> | null {
  if (r.isNull()) return null;
  return read_list_text(r);
}

function write_option_list_text(w: aos.Writer, value: Array<string> | null): void {
  if (value === null) w.null();
  else write_list_text(w, value);
}

function read_option_map_text_hash(r: aos.Reader): Map<string, string> | null {
  if (r.isNull()) return null;
  return read_map_text_hash(r);
}

function write_option_map_text_hash(w: aos.Writer, value: Map<string, string> | null): void {
  if (value === null) w.null();
  else write_map_text_hash(w, value);
}

function read_option_map_text_text(r: aos.Reader): Map<string, string> | null {
  if (r.isNull()) return null;
  return read_map_text_text(r);
}

function write_option_map_text_text(w: aos.Writer, value: Map<string, string> | null): void {
  if (value === null) w.null();
  else write_map_text_text(w, value);
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

function read_option_uuid(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.uuid();
}

function write_option_uuid(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.uuid(value);
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
