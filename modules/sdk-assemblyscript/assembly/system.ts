// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "../index";

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

function read_option_bytes(r: aos.Reader): Uint8Array | null {
  if (r.isNull()) return null;
  return r.bytes();
}

function write_option_bytes(w: aos.Writer, value: Uint8Array | null): void {
  if (value === null) w.null();
  else w.bytes(value);
}

function read_option_hash(r: aos.Reader): string | null {
  if (r.isNull()) return null;
  return r.hash();
}

function write_option_hash(w: aos.Writer, value: string | null): void {
  if (value === null) w.null();
  else w.hash(value);
}

function read_option_list_hash(r: aos.Reader): Array<string> | null {
  if (r.isNull()) return null;
  return read_list_hash(r);
}

function write_option_list_hash(w: aos.Writer, value: Array<string> | null): void {
  if (value === null) w.null();
  else write_list_hash(w, value);
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
