// Written by generate.py from the OpenAPI document of a node. Do not edit it.

/** A request that the node did not carry out: `problem` says why. */
export class NodeError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail);
    this.name = "NodeError";
  }
}

/** One event of a stream: a document, and the id with which a stream continues after it. */
export interface StreamEvent {
  id: string;
  event: string;
  data: unknown;
}

export interface Options {
  /** Sent as `Authorization: Bearer …` (default: `AOS_TOKEN` of the environment, in Node.js). */
  token?: string;
  /** How often a request is repeated that may be repeated (default 8). */
  retries?: number;
  /** Ends all requests. */
  signal?: AbortSignal;
}

interface Call {
  method: string;
  path: string;
  query?: object;
  body?: unknown;
  bytes?: Uint8Array;
  type?: string;
  idempotencyKey?: string | undefined;
}

const PAUSE_MS = 200;
const PAUSE_MS_MAX = 10_000;

/** The transport of a client: retries, problems, streams. */
export class Connection {
  private readonly url: string;
  private readonly token: string | undefined;
  private readonly retries: number;
  private readonly signal: AbortSignal | undefined;

  constructor(url: string, options: Options = {}) {
    this.url = url.replace(/\/+$/, "");
    this.token = options.token ?? environment("AOS_TOKEN");
    this.retries = options.retries ?? 8;
    this.signal = options.signal;
  }

  /** Send one event. It is accepted once, however often the request is repeated. */
  async send(
    schema: string,
    value: unknown,
    query: SendEventsQuery = {},
    idempotencyKey: string = crypto.randomUUID(),
  ): Promise<Sent> {
    const body = { schema, value };
    const call = { method: "POST", path: "/v1/events", query, body, idempotencyKey };
    return this.json<Sent>(call);
  }

  protected async json<T>(call: Call): Promise<T> {
    return (await (await this.fetched(call, "application/json")).json()) as T;
  }

  protected async text(call: Call): Promise<string> {
    return (await this.fetched(call, "*/*")).text();
  }

  protected async bytes(call: Call): Promise<Uint8Array> {
    return new Uint8Array(await (await this.fetched(call, "*/*")).arrayBuffer());
  }

  /**
   * Read a stream for ever; after a lost connection it continues after the last event. Before the
   * first event, it begins again at `from`, or as its operation does without `from`.
   */
  protected async *stream(call: Call): AsyncGenerator<StreamEvent> {
    let last: string | undefined;
    for (;;) {
      const answer = await this.fetched(call, "text/event-stream", last);
      try {
        for await (const event of events(answer.body!)) {
          last = event.id;
          yield event;
        }
      } catch (error) {
        if (this.signal?.aborted) throw error;
      }
      await pause(PAUSE_MS, this.signal);
    }
  }

  private async fetched(call: Call, accept: string, last?: string): Promise<Response> {
    const headers: Record<string, string> = { accept };
    if (this.token !== undefined) headers["authorization"] = `Bearer ${this.token}`;
    if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey;
    if (last !== undefined) headers["last-event-id"] = last;
    let body: string | Uint8Array | undefined = call.bytes;
    if (call.body !== undefined) body = JSON.stringify(call.body);
    if (body !== undefined) headers["content-type"] = call.type ?? "application/json";
    const mayRepeat = call.method === "GET" || call.idempotencyKey !== undefined;
    const init = { method: call.method, headers, body: body ?? null, signal: this.signal ?? null };
    for (let attempt = 0; ; attempt += 1) {
      let wait = Math.min(PAUSE_MS * 2 ** attempt, PAUSE_MS_MAX);
      try {
        const answer = await fetch(this.url + call.path + search(call.query), init as RequestInit);
        if (answer.ok) return answer;
        const problem = await problemOf(answer);
        // 429: nothing was done. 503: that is not known of a request that was under way.
        const isLater = answer.status === 429 || (answer.status === 503 && mayRepeat);
        if (!isLater || attempt >= this.retries) throw new NodeError(answer.status, problem);
        wait = Math.max(wait, retryAfterMs(answer.headers.get("retry-after") ?? ""));
      } catch (error) {
        if (error instanceof NodeError || this.signal?.aborted) throw error;
        if (!mayRepeat || attempt >= this.retries) throw error;
      }
      await pause(wait, this.signal);
    }
  }
}

/** An event that is in the journal, as record `seq`. */
export type Sent = Exclude<SendEventsAnswer, { items: unknown }>;

function environment(name: string): string | undefined {
  const host = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return host.process?.env?.[name];
}

/** `Retry-After` in milliseconds: seconds, or a date; 0 for anything else. */
function retryAfterMs(text: string): number {
  const ms = /^[0-9]+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

function search(query: object = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const each of Array.isArray(value) ? value : [value]) found.append(name, String(each));
  }
  const text = found.toString();
  return text === "" ? "" : `?${text}`;
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "rule" in found) return found as Problem;
  } catch {
    // Not JSON: another server than a node has answered.
  }
  return { type: "about:blank", status: answer.status, detail: text, rule: "not_a_problem" };
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += decoder.decode(value, { stream: true });
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        const found = eventOf(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
        if (found !== undefined) yield found;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function eventOf(text: string): StreamEvent | undefined {
  const fields: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields[name] = value;
  }
  if (fields["data"] === undefined) return undefined;
  const data: unknown = JSON.parse(fields["data"]);
  return { id: fields["id"] ?? "", event: fields["event"] ?? "message", data };
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    }, { once: true });
  });
}

/** Why the request was not carried out (RFC 9457). */
export type Problem = {
  type: string;
  status: number;
  detail: string;
  rule: string;
  pointer?: string;
  blockers?: Record<string, unknown>[];
};

export type SendEventsBody = {
  schema: string;
  /** JSON that fits the schema; in CBOR, the event's ingress form. */
  value: unknown;
  submission_id?: string | null;
} | {
  items: ({
    schema: string;
    /** JSON that fits the schema; in CBOR, the event's ingress form. */
    value: unknown;
    submission_id?: string | null;
  })[];
};

export type SendEventsQuery = {
  /**
   * durable: the event is in the journal. ran: each instance that it reached has taken it. settled:
   * each of them has also ended, or, if its workflow is quiescent, has nothing open or queued.
   */
  wait?: "durable" | "ran" | "settled";
  /** Maximum time of the wait, in milliseconds; after it the answer is 202. */
  timeout_ms?: number;
  /** Answer also with states. */
  state?: boolean;
};

export type SendEventsAnswer = {
  seq: number;
  duplicate: boolean;
  to: (({
    workflow: string;
    key: unknown;
    ran?: boolean;
    status?: string;
    record?: number | null;
    annotation?: unknown;
    state?: unknown;
  })[]) | null;
} | {
  items: ({
    seq: number;
    duplicate: boolean;
    to: (({
      workflow: string;
      key: unknown;
      ran?: boolean;
      status?: string;
      record?: number | null;
      annotation?: unknown;
      state?: unknown;
    })[]) | null;
  } | {
    /** Why the request was not carried out (RFC 9457). */
    problem: {
      type: string;
      status: number;
      detail: string;
      rule: string;
      pointer?: string;
      blockers?: Record<string, unknown>[];
    };
  })[];
};

export type ReadWorldQuery = {
  /** The world as it was after this record (default: now). */
  at?: number;
};

export type ReadWorldAnswer = Record<string, unknown>;

export type ReadManifestQuery = {
  /** One definition, whole. */
  name?: string;
  /** Instead, the changes since the manifest in force after this record. */
  since?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
};

export type ReadManifestAnswer = Record<string, unknown>;

export type ReadCellsQuery = {
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** Only cells of this status. */
  status?: "running" | "waiting" | "completed" | "failed";
  /** Only cells whose key begins with this text. */
  key_prefix?: string;
  /** Only cells that wait for this effect, or for timer, event or mail. */
  waits_for?: string;
  /** Only cells whose last step was at least this long ago, such as 90s or 2d. */
  older_than?: string;
  /** Only cells pinned to an earlier manifest. */
  pinned?: boolean;
  /** Only cells that failed by this fault. */
  fault?: string;
  /** Only those that pass this condition, such as customer = "c-1" and total >= 1000. */
  where?: string;
  /** Show the state of each cell. */
  state?: boolean;
  /** The order of the list. */
  sort?: "key" | "age" | "activity" | "mail";
  /** Continue after this place: next_after of the page before. */
  after?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadCellsAnswer = Record<string, unknown>;

export type ReadCellQuery = {
  /** The name of the workflow, or a unique part of it. */
  workflow: string;
  /** The key, as JSON or as plain text. */
  key?: string;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadCellAnswer = Record<string, unknown>;

export type ReadIntentsQuery = {
  /** Only intents of this status, or of this status of their receipt. */
  status?: "open" | "abandoned" | "settled" | "all" | "ok" | "error" | "timeout" | "canceled";
  /** Only intents with this error code. */
  code?: string;
  /** Only open intents that are held or parked. */
  parked?: boolean;
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** Only this effect. */
  effect?: string;
  /** Only cells whose key begins with this text. */
  key_prefix?: string;
  /** Only those that pass this condition, such as customer = "c-1" and total >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadIntentsAnswer = Record<string, unknown>;

export type ReadIntentQuery = {
  /** Its hash, or the first 8 digits or more. */
  intent: string;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadIntentAnswer = Record<string, unknown>;

export type ReadFaultsQuery = {
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** Only faults of this kind. */
  kind?: string;
  /** Only those that pass this condition, such as customer = "c-1" and total >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadFaultsAnswer = Record<string, unknown>;

export type ReadRecordsQuery = {
  /** From this record on (default: the newest). */
  from?: number;
  /** Up to this record. */
  to?: number;
  /** Only records of this kind. May be given several times. */
  kind?: ("genesis" | "start" | "manifest" | "event" | "step" | "fault" | "receipt" | "kernel_receipt" | "stream" | "attempt" | "control" | "governance" | "snapshot" | "fork")[];
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** The key, as JSON or as plain text. */
  key?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadRecordsAnswer = {
  records: Record<string, unknown>[];
  next: number | null;
};

export type ReadRecordQuery = {
  /** Its number. */
  seq: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadRecordAnswer = Record<string, unknown>;

export type ReadValueQuery = {
  /** Its content hash, or the sha256: name of a blob. */
  value: string;
};

export type ReadValueAnswer = Record<string, unknown>;

export type ReadBlobQuery = {
  /** Its content hash, or the sha256: name of a blob. */
  value: string;
};

export type ReadTraceQuery = {
  /** A record. */
  seq?: number;
  /** An intent. */
  intent?: string;
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** The key, as JSON or as plain text. */
  key?: string;
  /** For a cell: continue with the cells that its events reached. */
  follow_events?: boolean;
  /** Answer with `lines` instead, those of aos trace, each {depth, kind, text, is_target, is_bad}. */
  drawn?: boolean;
  /** With drawn: cut values so that lines fit into so many columns. */
  width?: number;
};

export type ReadTraceAnswer = Record<string, unknown>;

export type ReadWorkAnswer = {
  effects: string[];
  executors: Record<string, unknown>;
  tasks: Record<string, unknown>[];
};

export type StreamJournalQuery = {
  /** The first record (default: the next one). */
  from?: number;
  /** Only records of this kind. May be given several times. */
  kind?: ("genesis" | "start" | "manifest" | "event" | "step" | "fault" | "receipt" | "kernel_receipt" | "stream" | "attempt" | "control" | "governance" | "snapshot" | "fork")[];
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** The key, as JSON or as plain text. */
  key?: string;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type StreamFeedQuery = {
  /** An event's schema. May be given several times. */
  schema: string[];
  /** The first record (default: the first that was not pruned). */
  from?: number;
};

export type SendCommandBody = {
  action: "retry" | "skip" | "cancel" | "erase" | "unpin" | "settle" | "end" | "remove";
  workflow?: string;
  /** The key of the instance as a JSON value. */
  key?: unknown;
  intent?: string;
  value?: string;
  status?: "ok" | "error" | "completed" | "failed";
  /** The receipt of `settle`, as a JSON value. */
  payload?: unknown;
  /** The same as CBOR, instead. */
  payload_cbor?: string;
  why?: string;
  /** With `serial` and `signature`: signed by the caller. */
  principal?: string;
  serial?: number;
  signature?: string;
};

export type SendCommandAnswer = {
  seq: number;
  dropped?: number;
  abandoned?: number;
};

export type StageModuleAnswer = {
  module: string;
  kept: number;
};

export type TryManifestBody = {
  /** The record of an open proposal, instead of `document`: its manifest, with its mode and leaves. */
  proposal?: number;
  /** The effective manifest as canonical CBOR. */
  document?: string;
  mode?: "strict" | "pin" | "migrate";
  leave_cells?: boolean;
  show?: number;
  /** Hashes of modules that were sent before to /v1/modules. */
  modules?: string[];
};

export type TryManifestAnswer = Record<string, unknown>;

export type ApplyManifestBody = {
  /** The record of an open proposal, instead of `document`: its manifest, with its mode and leaves. */
  proposal?: number;
  /** The effective manifest as canonical CBOR. */
  document?: string;
  principal?: string;
  serial?: number;
  signature?: string;
  mode?: "strict" | "pin" | "migrate";
  leaves?: string[];
  /**
   * Apply although the new code does not fit the history of flows in progress; they stop with a
   * fault.
   */
  allow_diverged?: boolean;
  /** Hashes of modules that were sent before to /v1/modules. */
  modules?: string[];
};

export type ApplyManifestAnswer = {
  seq: number;
  manifest: string;
};

export type GovernBody = {
  action: "propose" | "report" | "approve" | "reject" | "withdraw";
  /** The record of the proposal, of all actions but `propose`. */
  proposal?: number;
  /** Of `propose`: the effective manifest, canonical CBOR. */
  document?: string;
  /**
   * Of `propose`: the patch as canonical CBOR, with `base`; without it the one from the manifest in
   * force.
   */
  patch?: string;
  /** The manifest in force that `patch` begins with. */
  base?: string;
  mode?: "strict" | "pin" | "migrate";
  leaves?: string[];
  /** Hashes of modules that were sent before to /v1/modules. */
  modules?: string[];
  /** Of `report`: a shadow report as canonical CBOR. */
  report?: string;
  /** Of a vote: the journaled report that the approver has read. */
  seen?: string;
  note?: string;
  /** With `signature`: signed by the caller, as a vote must be. */
  principal?: string;
  serial?: number;
  signature?: string;
};

export type GovernAnswer = {
  seq: number;
};

export type ReadProposalsAnswer = Record<string, unknown>;

export type ReadProposalQuery = {
  /** Its record. */
  proposal: number;
  /** The hash of a journaled shadow report of it, which is the answer then. */
  report?: string;
};

export type ReadProposalAnswer = Record<string, unknown>;

export type MakeSnapshotAnswer = Record<string, unknown>;

export type ReadFlowsQuery = {
  /** Only this flow, or a unique part of it. */
  flow?: string;
  /** Only flows of this status. */
  status?: "pending" | "running" | "sleeping" | "rolling_back" | "completed" | "failed" | "cancelled" | "stuck" | "faulted" | "closed";
  /** Only cells whose key begins with this text. */
  key_prefix?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
};

export type ReadFlowsAnswer = Record<string, unknown>;

export type ReadFlowQuery = {
  /** The name of the flow, or a unique part of it. */
  flow: string;
  /** The key, as JSON or as plain text. */
  key: string;
  /** Also the operations that its state no longer has, from the journal. */
  history?: boolean;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
};

export type ReadFlowAnswer = Record<string, unknown>;

export type StartLinearBody = {
  /** The type of a plan of the manifest in force, or a plan as a manifest has it. */
  plan: string | Record<string, unknown>;
  version?: number;
  instance: string;
  biz_key?: string | null;
  context?: Record<string, unknown>;
  mode?: "standard" | "source";
};

export type StartLinearAnswer = {
  instance: string;
  plan: string;
  version: number;
  biz_key: string | null;
  seq: number;
};

export type WakeLinearBody = {
  instance: string;
  type: string;
  event_id: string;
  /** Any JSON value; null without it. */
  payload?: unknown;
  payload_cbor?: string;
};

export type WakeLinearAnswer = {
  instance: string;
  seq: number;
};

export type CancelLinearBody = {
  instance: string;
  reason?: string;
};

export type CancelLinearAnswer = {
  instance: string;
  seq: number;
};

export type ReadPlansAnswer = Record<string, unknown>;

export type ReadLinearInstancesQuery = {
  /** Only instances of this status. */
  status?: "RUNNING" | "COMPLETED" | "FAILED" | "CANCELED";
  /** Only instances of this plan. */
  plan?: string;
  /** Only with this current plan step. */
  step?: string;
  /** Only those that pass this condition, such as customer = "c-1" and total >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
};

export type ReadLinearInstancesAnswer = Record<string, unknown>;

export type ReadLinearInstanceQuery = {
  /** Its id. */
  instance: string;
  /** The world as it was after this record (default: now). */
  at?: number;
};

export type ReadLinearInstanceAnswer = Record<string, unknown>;

export type CreateScheduleBody = {
  id: string;
  cron?: string;
  tz?: string;
  every_ms?: number;
  /** RFC 3339: 2026-12-01T00:00:00Z. */
  start?: string;
  end?: string;
  catchup_ms?: number;
  overlap?: "allow" | "skip";
  jitter_ms?: number;
  paused?: boolean;
  event?: string;
  value?: Record<string, unknown>;
  at_field?: string;
  plan?: string;
  version?: number;
  context?: Record<string, unknown>;
  /** Give an existing schedule this definition. */
  replace?: boolean;
};

export type CreateScheduleAnswer = {
  id: string;
  seq: number;
};

export type CommandScheduleBody = {
  id: string;
  action: "pause" | "resume" | "trigger" | "delete";
};

export type CommandScheduleAnswer = {
  id: string;
  seq: number;
};

export type ReadSchedulesAnswer = Record<string, unknown>;

export type ReadScheduleQuery = {
  /** Its id. */
  id: string;
};

export type ReadScheduleAnswer = Record<string, unknown>;

export type BeginBatchBody = {
  action: "retry" | "skip" | "unpin" | "cancel-effects" | "send";
  id?: string;
  workflow?: string;
  where?: string;
  effect?: string;
  event?: string;
  /** Of `send`: the event for each cell; `{"$cell": "key"}` in it is the key. */
  value?: unknown;
  /** Most items in a given time: 50/s, 100/min or 10/h. */
  rate?: string;
  /** Only count the items. */
  dry_run?: boolean;
};

export type BeginBatchAnswer = Record<string, unknown> | {
  total: number;
  first: Record<string, unknown>[];
};

export type ReadBatchesAnswer = Record<string, unknown>;

export type ReadBatchQuery = {
  /** Its id. */
  id: string;
};

export type ReadBatchAnswer = Record<string, unknown>;

export type StopBatchBody = {
  id: string;
};

export type StopBatchAnswer = Record<string, unknown>;

export type ClaimTasksBody = {
  worker: string;
  claim: string;
  effects?: {
    name: string;
    max?: number;
    attempts?: number;
    backoff_ms?: number;
    backoff_cap_ms?: number;
  }[];
  steps?: {
    name: string;
    max?: number;
  }[];
  max?: number;
  lease_ms?: number;
  wait_ms?: number;
  signs?: {
    executor: string;
    key: string;
  };
  form?: "json" | "cbor";
  manifest?: string;
};

export type ClaimTasksAnswer = {
  world: string;
  tasks: ({
    task: string;
    kind: "effect";
    effect: string;
    attempt: number;
    epoch: number;
    idempotency_key: string;
    workflow: string;
    issuer_ref: string | null;
    world: string;
    lease_until_ns: number;
    lease_ms: number;
    timeout_ms: number;
    next_frame: number;
    takes_progress: boolean;
    params?: unknown;
    params_cbor?: string;
    key?: unknown;
    key_cbor?: string;
    traceparent?: string;
    sealed?: string[];
  } | {
    task: string;
    kind: "step";
    instance: string;
    biz_key: string | null;
    plan: string;
    version: number;
    step: string;
    step_seq: number;
    task_type: "READY_STEP" | "WAITING_TIMEOUT";
    attempt: number;
    max_attempts: number;
    epoch: number;
    lease_until_ns: number;
    lease_ms: number;
    context?: unknown;
    context_cbor?: string;
    woken_by?: unknown;
    woken_by_cbor?: string;
  })[];
  unserved: {
    effect: string;
    rule: string;
    detail: string;
  }[];
  manifest?: {
    hash: string;
    document: string;
  };
};

export type HeartbeatTasksBody = {
  worker: string;
  leases: {
    task: string;
    epoch: number;
  }[];
  lease_ms?: number;
};

export type HeartbeatTasksAnswer = {
  answers: ({
    task: string;
    answer: "leased" | "canceled" | "lost";
    lease_until_ns?: number;
  })[];
};

export type SettleTasksBody = {
  worker: string;
  results: ({
    task: string;
    epoch: number;
    status: "ok" | "error" | "timeout" | "canceled" | "held" | "parked";
    started_ns: number;
    finished_ns: number;
    payload?: unknown;
    payload_cbor?: string;
    cost_cents?: number;
    blobs?: string[];
    is_final?: boolean;
    signature?: {
      executor: string;
      key: string;
      value: string;
      batch?: {
        index: number;
        size: number;
        path: string[];
      };
    };
  } | {
    task: string;
    epoch: number;
    outcome: {
      status: "completed";
      patch?: Record<string, unknown>;
      patch_cbor?: string;
    } | {
      status: "waiting";
      event_type: string;
      timeout_ms?: number;
    } | {
      status: "retry";
      error: string;
      backoff_ms?: number;
    } | {
      status: "dead";
      error: string;
    };
    outbound?: {
      schema: string;
      value?: unknown;
      value_cbor?: string;
    }[];
  })[];
};

export type SettleTasksAnswer = {
  answers: ({
    task: string;
    answer?: "settled" | "duplicate" | "abandoned" | "retry" | "held" | "parked";
    seq?: number;
    outcome?: string;
    retry_at_ns?: number;
    problem?: {
      type: string;
      status: number;
      detail: string;
      rule: string;
      pointer?: string;
    };
  })[];
};

export type ReportProgressBody = {
  worker: string;
  frames: {
    task: string;
    epoch: number;
    number: number;
    kind: string;
    payload?: unknown;
    payload_cbor?: string;
    blob?: string;
    signature?: {
      executor: string;
      key: string;
      value: string;
      batch?: {
        index: number;
        size: number;
        path: string[];
      };
    };
  }[];
};

export type ReportProgressAnswer = {
  answers: ({
    task: string;
    number: number;
    answer?: "taken" | "dropped";
    detail?: string;
    problem?: {
      type: string;
      status: number;
      detail: string;
      rule: string;
      pointer?: string;
    };
  })[];
};

export type ReleaseTasksBody = {
  worker: string;
  leases: {
    task: string;
    epoch: number;
    began: boolean;
  }[];
};

export type ReleaseTasksAnswer = {
  answers: ({
    task: string;
    answer: "released" | "lost";
  })[];
};

export type ListTasksAnswer = {
  tasks: ({
    task: string;
    effect: string;
    phase: "leased" | "paused" | "parked" | "held";
    attempt: number;
    lost: number;
    worker?: string;
    token?: string;
    until_ns?: number;
    problem?: string | null;
  })[];
  leased: number;
  offered: number;
  parked: number;
};

export type RetryTasksBody = {
  tasks?: string[];
  all_parked?: true;
};

export type RetryTasksAnswer = {
  tasks: string[];
};

export type ReclaimTasksBody = {
  tasks: string[];
};

export type ReclaimTasksAnswer = {
  tasks: string[];
};

export type AnswerHealthAnswer = Record<string, unknown>;

export type AnswerReadyAnswer = Record<string, unknown>;

export type ReadOpenapiAnswer = Record<string, unknown>;

/** A client of one node. Each method is an operation of its API. */
export class Client extends Connection {
  /** Send one event or a batch, and wait until it is durable, ran or settled. */
  sendEvents(body: SendEventsBody, query: SendEventsQuery = {}, idempotencyKey?: string): Promise<SendEventsAnswer> {
    return this.json({ method: "POST", path: "/v1/events", body, query, idempotencyKey });
  }

  /** Show the world at a glance: journal, manifest, cells and effects. */
  readWorld(query: ReadWorldQuery = {}): Promise<ReadWorldAnswer> {
    return this.json({ method: "GET", path: "/v1/world", query });
  }

  /** Show the manifest in force, or one of its definitions. */
  readManifest(query: ReadManifestQuery = {}): Promise<ReadManifestAnswer> {
    return this.json({ method: "GET", path: "/v1/manifest", query });
  }

  /** List the cells, by workflow and key. */
  readCells(query: ReadCellsQuery = {}): Promise<ReadCellsAnswer> {
    return this.json({ method: "GET", path: "/v1/cells", query });
  }

  /** Show one cell: its state, open effects, mail, and why it waits. */
  readCell(query: ReadCellQuery): Promise<ReadCellAnswer> {
    return this.json({ method: "GET", path: "/v1/cell", query });
  }

  /** List the intents, by default those that are open. */
  readIntents(query: ReadIntentsQuery = {}): Promise<ReadIntentsAnswer> {
    return this.json({ method: "GET", path: "/v1/intents", query });
  }

  /** Show one intent: its parameters, attempts and receipt. */
  readIntent(query: ReadIntentQuery): Promise<ReadIntentAnswer> {
    return this.json({ method: "GET", path: "/v1/intent", query });
  }

  /** List the failed instances, with the reason and the remedy. */
  readFaults(query: ReadFaultsQuery = {}): Promise<ReadFaultsAnswer> {
    return this.json({ method: "GET", path: "/v1/faults", query });
  }

  /** List records of the journal, oldest first. */
  readRecords(query: ReadRecordsQuery = {}): Promise<ReadRecordsAnswer> {
    return this.json({ method: "GET", path: "/v1/records", query });
  }

  /** Show one record of the journal in full. */
  readRecord(query: ReadRecordQuery): Promise<ReadRecordAnswer> {
    return this.json({ method: "GET", path: "/v1/record", query });
  }

  /** Show which records refer to a value, and whether it was erased. */
  readValue(query: ReadValueQuery): Promise<ReadValueAnswer> {
    return this.json({ method: "GET", path: "/v1/value", query });
  }

  /** Read the bytes of a value that is stored outside its records. */
  readBlob(query: ReadBlobQuery): Promise<Uint8Array> {
    return this.bytes({ method: "GET", path: "/v1/blob", query });
  }

  /** Show the causes and effects of a record, an intent or a cell. */
  readTrace(query: ReadTraceQuery = {}): Promise<ReadTraceAnswer> {
    return this.json({ method: "GET", path: "/v1/trace", query });
  }

  /** Show the current work of the executors in the kernel process. */
  readWork(): Promise<ReadWorkAnswer> {
    return this.json({ method: "GET", path: "/v1/work" });
  }

  /** Stream records, oldest first and then each new one; the id is its number. */
  streamJournal(query: StreamJournalQuery = {}, idempotencyKey?: string): AsyncGenerator<StreamEvent> {
    return this.stream({ method: "GET", path: "/v1/journal/stream", query, idempotencyKey });
  }

  /** Stream the events of chosen schemas that workflows emit, each once, in order. */
  streamFeed(query: StreamFeedQuery, idempotencyKey?: string): AsyncGenerator<StreamEvent> {
    return this.stream({ method: "GET", path: "/v1/feed", query, idempotencyKey });
  }

  /** Submit an operator's command: retry, skip, unpin, cancel, settle, end, remove or erase. */
  sendCommand(body: SendCommandBody): Promise<SendCommandAnswer> {
    return this.json({ method: "POST", path: "/v1/commands", body });
  }

  /** Send a module that a manifest sent later names. */
  stageModule(bytes: Uint8Array): Promise<StageModuleAnswer> {
    return this.json({ method: "POST", path: "/v1/modules", bytes, type: "application/wasm" });
  }

  /** Try a manifest: its changes and what blocks it. Nothing is applied. */
  tryManifest(body: TryManifestBody): Promise<TryManifestAnswer> {
    return this.json({ method: "POST", path: "/v1/manifests/try", body });
  }

  /** Put a manifest in force. */
  applyManifest(body: ApplyManifestBody): Promise<ApplyManifestAnswer> {
    return this.json({ method: "POST", path: "/v1/manifests", body });
  }

  /** Propose a manifest, or report on a proposal, vote on it or withdraw it. */
  govern(body: GovernBody): Promise<GovernAnswer> {
    return this.json({ method: "POST", path: "/v1/governance", body });
  }

  /** List proposals, the oldest first. */
  readProposals(): Promise<ReadProposalsAnswer> {
    return this.json({ method: "GET", path: "/v1/proposals" });
  }

  /**
   * Show a proposal: its votes, reports and changes, and what it lacks. /v1/manifests/try says what
   * blocks it.
   */
  readProposal(query: ReadProposalQuery): Promise<ReadProposalAnswer> {
    return this.json({ method: "GET", path: "/v1/proposal", query });
  }

  /** Write a snapshot of the world, so that a restart reads less. */
  makeSnapshot(): Promise<MakeSnapshotAnswer> {
    return this.json({ method: "POST", path: "/v1/snapshots" });
  }

  /** List the instances of flows, by flow and key. */
  readFlows(query: ReadFlowsQuery = {}): Promise<ReadFlowsAnswer> {
    return this.json({ method: "GET", path: "/v1/flows", query });
  }

  /** Show one flow: its operations as a tree, and what it waits for. */
  readFlow(query: ReadFlowQuery): Promise<ReadFlowAnswer> {
    return this.json({ method: "GET", path: "/v1/flow", query });
  }

  /** Start an instance of a linear plan; answered once it has started. */
  startLinear(body: StartLinearBody): Promise<StartLinearAnswer> {
    return this.json({ method: "POST", path: "/v1/linear/start", body });
  }

  /**
   * Signal a linear instance: wake the plan step that waits for this type, or keep the signal until
   * one does.
   */
  wakeLinear(body: WakeLinearBody): Promise<WakeLinearAnswer> {
    return this.json({ method: "POST", path: "/v1/linear/wake", body });
  }

  /** Cancel a linear instance. Results of its workers are refused from then on. */
  cancelLinear(body: CancelLinearBody): Promise<CancelLinearAnswer> {
    return this.json({ method: "POST", path: "/v1/linear/cancel", body });
  }

  /** List the plans of the manifest in force. */
  readPlans(): Promise<ReadPlansAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/plans" });
  }

  /** List linear instances, by id. */
  readLinearInstances(query: ReadLinearInstancesQuery = {}): Promise<ReadLinearInstancesAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/instances", query });
  }

  /** Show a linear instance: all rows of its plan, its context, and its next event. */
  readLinearInstance(query: ReadLinearInstanceQuery): Promise<ReadLinearInstanceAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/instance", query });
  }

  /** Create a schedule, as a manifest has it; answered once it is set. */
  createSchedule(body: CreateScheduleBody): Promise<CreateScheduleAnswer> {
    return this.json({ method: "POST", path: "/v1/schedules/create", body });
  }

  /** Pause, resume, trigger or delete a schedule. */
  commandSchedule(body: CommandScheduleBody): Promise<CommandScheduleAnswer> {
    return this.json({ method: "POST", path: "/v1/schedules/command", body });
  }

  /** List schedules, by id. */
  readSchedules(): Promise<ReadSchedulesAnswer> {
    return this.json({ method: "GET", path: "/v1/schedules" });
  }

  /** Show a schedule: its definition, its next times, and its last runs. */
  readSchedule(query: ReadScheduleQuery): Promise<ReadScheduleAnswer> {
    return this.json({ method: "GET", path: "/v1/schedule", query });
  }

  /** Begin a batch: a command or an event for each of many cells. */
  beginBatch(body: BeginBatchBody): Promise<BeginBatchAnswer> {
    return this.json({ method: "POST", path: "/v1/batches", body });
  }

  /** List batches, the newest first. */
  readBatches(): Promise<ReadBatchesAnswer> {
    return this.json({ method: "GET", path: "/v1/batches" });
  }

  /** Show a batch: its counts, and the first refusals. */
  readBatch(query: ReadBatchQuery): Promise<ReadBatchAnswer> {
    return this.json({ method: "GET", path: "/v1/batch", query });
  }

  /** Stop a batch. Items that are done stay done. */
  stopBatch(body: StopBatchBody): Promise<StopBatchAnswer> {
    return this.json({ method: "POST", path: "/v1/batches/stop", body });
  }

  /** Lease tasks to a worker, and wait for them if there are none. */
  claimTasks(body: ClaimTasksBody): Promise<ClaimTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/claim", body });
  }

  /** Extend leases, and learn which tasks are canceled or lost. */
  heartbeatTasks(body: HeartbeatTasksBody): Promise<HeartbeatTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/heartbeat", body });
  }

  /** Report how attempts ended. */
  settleTasks(body: SettleTasksBody): Promise<SettleTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/results", body });
  }

  /** Send stream frames of tasks. */
  reportProgress(body: ReportProgressBody): Promise<ReportProgressAnswer> {
    return this.json({ method: "POST", path: "/v1/work/progress", body });
  }

  /** Give leases back. */
  releaseTasks(body: ReleaseTasksBody): Promise<ReleaseTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/release", body });
  }

  /** List leases and parked tasks. */
  listTasks(): Promise<ListTasksAnswer> {
    return this.json({ method: "GET", path: "/v1/work/tasks" });
  }

  /**
   * Run held and parked effects again: offer their tasks to workers, or run them in the process of
   * the world.
   */
  retryTasks(body: RetryTasksBody): Promise<RetryTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/retry", body });
  }

  /** End leases, so that their tasks are offered again. */
  reclaimTasks(body: ReclaimTasksBody): Promise<ReclaimTasksAnswer> {
    return this.json({ method: "POST", path: "/v1/work/reclaim", body });
  }

  /** Answer that the front runs. */
  answerHealth(): Promise<AnswerHealthAnswer> {
    return this.json({ method: "GET", path: "/healthz" });
  }

  /** Answer whether the node takes requests. */
  answerReady(): Promise<AnswerReadyAnswer> {
    return this.json({ method: "GET", path: "/readyz" });
  }

  /** Metrics in the text format of Prometheus. */
  readMetrics(): Promise<string> {
    return this.text({ method: "GET", path: "/metrics" });
  }

  /** This document. */
  readOpenapi(): Promise<ReadOpenapiAnswer> {
    return this.json({ method: "GET", path: "/v1/openapi.json" });
  }
}
