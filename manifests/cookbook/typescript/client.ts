// Written by generate.py from the OpenAPI document of a node. Do not edit it.

/** A request that the node did not carry out: `problem` says why. */
export class NodeError extends Error {
  constructor(
    readonly status: number,
    readonly problem: ProblemDocument,
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
  /** Within so many milliseconds an answer is complete (default 60,000). */
  answerMs?: number;
  /** A stream that is silent for so many milliseconds is begun again (default 45,000). */
  silenceMs?: number;
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

/** The longest pause that a node can ask for. */
const RETRY_AFTER_MS_MAX = 60_000;

const ANSWER_BYTES_MAX = 256 * 1024 * 1024;
const EVENT_CHARACTERS_MAX = 64 * 1024 * 1024;

/** The transport of a client: retries, problems, streams. */
export class Connection {
  private readonly urls: string[];
  /** Which of the nodes is in use. */
  private node = 0;
  private readonly token: string | undefined;
  private readonly retries: number;
  private readonly signal: AbortSignal | undefined;
  private readonly answerMs: number;
  private readonly silenceMs: number;

  /** `url` is that of a node; of a replicated world several, with commas between them. */
  constructor(url: string, options: Options = {}) {
    this.urls = url.split(",").map((text) => text.trim().replace(/\/+$/, ""));
    this.token = options.token ?? environment("AOS_TOKEN");
    this.retries = options.retries ?? 8;
    this.signal = options.signal;
    this.answerMs = options.answerMs ?? 60_000;
    this.silenceMs = options.silenceMs ?? 45_000;
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
    return JSON.parse(decoded(await this.body(call, "application/json"))) as T;
  }

  protected async text(call: Call): Promise<string> {
    return decoded(await this.body(call, "*/*"));
  }

  protected async bytes(call: Call): Promise<Uint8Array> {
    return this.body(call, "*/*");
  }

  private async body(call: Call, accept: string): Promise<Uint8Array> {
    return this.answered(call, accept, (answer, ends) => whole(answer, ends.signal));
  }

  /**
   * Read a stream for ever; after a lost connection it continues after the last event. Before the
   * first event, it begins again at `from`, or as its operation does without `from`.
   */
  protected async *stream(call: Call): AsyncGenerator<StreamEvent> {
    let last: string | undefined;
    for (;;) {
      const begin = async (answer: Response, ends: AbortController) => ({ answer, ends });
      const { answer, ends } = await this.answered(call, "text/event-stream", begin, last);
      const node = this.node;
      try {
        for await (const event of events(answer.body!, this.silenceMs, ends)) {
          last = event.id;
          yield event;
        }
      } catch (error) {
        if (this.signal?.aborted || error instanceof RangeError) throw error;
      }
      this.leave(node);
      await pause(PAUSE_MS, this.signal);
    }
  }

  /** Send a request, again where it may be repeated, until `read` has read the answer. */
  private async answered<T>(
    call: Call,
    accept: string,
    read: (answer: Response, ends: AbortController) => Promise<T>,
    last?: string,
  ): Promise<T> {
    const headers: Record<string, string> = { accept };
    if (this.token !== undefined) headers["authorization"] = `Bearer ${this.token}`;
    if (call.idempotencyKey !== undefined) headers["idempotency-key"] = call.idempotencyKey;
    if (last !== undefined) headers["last-event-id"] = last;
    let body: string | Uint8Array | undefined = call.bytes;
    if (call.body !== undefined) body = JSON.stringify(call.body);
    if (body !== undefined) headers["content-type"] = call.type ?? "application/json";
    const mayRepeat = call.method === "GET" || call.idempotencyKey !== undefined;
    const init = { method: call.method, headers, body: body ?? null };
    for (let attempt = 0; ; attempt += 1) {
      let wait = Math.min(PAUSE_MS * 2 ** attempt, PAUSE_MS_MAX);
      const node = this.node;
      const ends = endedBy(this.signal);
      const late = setTimeout(() => ends.abort(lateError(this.answerMs)), this.answerMs);
      try {
        const url = `${this.urls[node]}${call.path}${search(call.query)}`;
        const answer = await fetch(url, { ...init, signal: ends.signal } as RequestInit);
        if (answer.ok) return await read(answer, ends);
        const problem = problemOf(answer.status, decoded(await whole(answer, ends.signal)));
        // 429: nothing was done. 503: `admitted` says whether something was.
        const isUndone = answer.status === 503 && (mayRepeat || problem.admitted === "no");
        if (answer.status === 503) this.leave(node);
        const isLater = answer.status === 429 || isUndone;
        if (!isLater || attempt >= this.retries) throw new NodeError(answer.status, problem);
        wait = Math.max(wait, retryAfterMs(answer.headers.get("retry-after") ?? ""));
      } catch (error) {
        if (error instanceof NodeError || error instanceof RangeError) throw error;
        if (this.signal?.aborted) throw error;
        this.leave(node);
        if (!mayRepeat || attempt >= this.retries) throw error;
      } finally {
        clearTimeout(late);
      }
      await pause(wait, this.signal);
    }
  }

  /** Use the next node, unless another request has done that already. */
  private leave(node: number): void {
    if (this.node === node) this.node = (node + 1) % this.urls.length;
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
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), RETRY_AFTER_MS_MAX);
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

function problemOf(status: number, text: string): ProblemDocument {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "rule" in found) return found as ProblemDocument;
  } catch {
    // Not JSON: another server than a node has answered.
  }
  return { type: "about:blank", status, detail: text, rule: "not_a_problem" };
}

/** A controller that is aborted with a signal, or before it. */
function endedBy(signal: AbortSignal | undefined): AbortController {
  const ends = new AbortController();
  if (signal?.aborted) ends.abort(signal.reason);
  const end = (): void => ends.abort(signal?.reason);
  signal?.addEventListener("abort", end, { once: true, signal: ends.signal });
  return ends;
}

function lateError(ms: number): Error {
  return new Error(`the node has sent no whole answer within ${ms} ms`);
}

function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** The body of an answer, unless it is too long, or comes too slowly. */
async function whole(answer: Response, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = answer.body?.getReader();
  for (;;) {
    if (signal.aborted) throw signal.reason as Error;
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done || value === undefined) break;
    length += value.length;
    parts.push(value);
    if (length > ANSWER_BYTES_MAX) {
      await reader?.cancel().catch(() => undefined);
      throw new RangeError(`the node sent an answer of more than ${ANSWER_BYTES_MAX} bytes`);
    }
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function* events(
  body: ReadableStream<Uint8Array>,
  silenceMs: number,
  ends: AbortController,
): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let buffer = "";
  try {
    for (;;) {
      const silent = setTimeout(() => ends.abort(new Error("the stream is silent")), silenceMs);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return;
      buffer += decoder.decode(value, { stream: true });
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        const found = eventOf(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
        if (found !== undefined) yield found;
      }
      if (buffer.length > EVENT_CHARACTERS_MAX) {
        throw new RangeError(`the node sent an event of more than ${EVENT_CHARACTERS_MAX} characters`);
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

/** The command is record ``seq``. */
export type AdmittedCommand = {
  seq: number;
  dropped?: number;
  abandoned?: number;
};

/** It is record ``seq``. */
export type AdmittedRecord = {
  seq: number;
};

/** A world that this one was forked of. */
export type AncestorWorld = {
  world: string;
  at: number;
};

/** The manifest is in force since record ``seq``. */
export type AppliedManifest = {
  seq: number;
  manifest: string;
};

/** A cell that blocks a manifest. */
export type ApplyBlocker = {
  kind: string;
  cell: CellName;
  detail: unknown;
};

/** The rule that refuses a manifest. */
export type ApplyRefusal = {
  rule: string;
  message: string;
};

/** The modes that would work instead, and what else the manifest could declare. */
export type ApplyWaysOut = {
  modes: string[];
  leaves_cells: boolean;
  in_place: string[];
  to_migrate: string[];
};

/** An attempt of an effect has begun, or does not run. */
export type AttemptRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "attempt";
  intent: string;
  cell: CellName;
  attempt: number;
  phase: string;
  problem: string | null;
  code: string | null;
};

/** The document of ``aos batch show --json``. */
export type BatchDocument = {
  id: string;
  status: string;
  action: string;
  workflow?: string;
  where?: string;
  effect?: string;
  event?: string;
  value?: unknown;
  rate?: string;
  total: number;
  done: number;
  refused: number;
  left: number;
  created_ns: number;
  ended_ns: number | null;
  token: string;
  problem: string | null;
  refusals: BatchRefusal[];
};

/** An item of a batch: a cell, or one of its effects. */
export type BatchItemDocument = {
  workflow: string;
  key: unknown;
  intent?: string;
};

/** The place of a receipt in a batch that was signed together. */
export type BatchPlace = {
  index: number;
  size: number;
};

/** An item of a batch that the world refused. */
export type BatchRefusal = {
  workflow: string;
  key: unknown;
  intent: string | null;
  rule: string;
  message: string;
};

/** A batch of a list. */
export type BatchRow = {
  id: string;
  status: string;
  action: string;
  workflow?: string;
  where?: string;
  effect?: string;
  event?: string;
  value?: unknown;
  rate?: string;
  total: number;
  done: number;
  refused: number;
  left: number;
  created_ns: number;
  ended_ns: number | null;
  token: string;
  problem: string | null;
};

/** The document of ``aos batch list --json``. */
export type BatchesDocument = {
  batches: BatchRow[];
};

/** Blockers of one workflow and kind, with examples. */
export type BlockerGroup = {
  workflow: string;
  kind: string;
  count: number;
  examples: CellName[];
  detail: unknown;
};

/** All cells, by status and by workflow. */
export type CellCounts = {
  running: number;
  waiting: number;
  completed: number;
  failed: number;
  idle: number;
  total: number;
  ready: number;
  by_workflow: Record<string, unknown>;
};

/** The document of ``aos inspect cell --json``. */
export type CellDocument = {
  workflow: string;
  key: unknown;
  key_cbor: string;
  status: string;
  is_idle: boolean;
  declared: string | null;
  fault: CellFault | null;
  in_flight: number;
  mailbox: number;
  mail_uncounted: number;
  last_record: number;
  last_active_ns: number;
  state_size: number | null;
  version: CellVersion;
  waits_for: string[];
  state?: unknown;
  shard?: string;
  workflow_hash: string;
  module_hash: string;
  intents: IntentListRow[];
  mail: MailEntry[];
  reasons: ReasonDocument[];
  ended_by: ControlRecord | null;
};

/** Why the kernel failed a cell, and where. */
export type CellFault = {
  kind: string;
  message: string;
  detail: unknown;
  environmental: boolean;
  record: number | null;
  engine_text: string | null;
};

/** A cell: its workflow, and its key as JSON; null for the only cell of a workflow without keys. */
export type CellName = {
  workflow: string;
  key: unknown;
};

/** A cell of a list. */
export type CellRow = {
  workflow: string;
  key: unknown;
  key_cbor: string;
  status: string;
  is_idle: boolean;
  declared: string | null;
  fault: CellFault | null;
  in_flight: number;
  mailbox: number;
  mail_uncounted: number;
  last_record: number;
  last_active_ns: number;
  state_size: number | null;
  version: CellVersion;
  waits_for: string[];
  state?: unknown;
  shard?: string;
};

/** The manifest and the module that the next entry of a cell runs under. */
export type CellVersion = {
  record: number;
  manifest: string;
  is_pinned: boolean;
  module: string | null;
  module_hash: string | null;
};

/** The document of ``aos inspect cells --json``. */
export type CellsDocument = {
  cells: CellRow[];
  total: number;
  offset: number;
  next_offset: number | null;
  next_after: string | null;
  by_reason: Record<string, unknown>;
  looked_at: number;
};

/** A place of a state that a migration changes. */
export type ChangedPlace = {
  path: string;
  before: unknown;
  after: unknown;
};

/** The document of ``aos clock --json`` (A-61a). */
export type ClockDocument = {
  journal_ns: number;
  machine_ns: number;
  window_ns: number;
  ahead_ns: number;
  is_ahead: boolean;
  timers: LateTimer[];
  timers_total: number;
};

/** The newest base of a world, and the end of the log that it has. */
export type ClusterBase = {
  stream: string;
  position: number;
  seq: number;
  frame: string;
};

/** The document of ``aos cluster check --json``. */
export type ClusterCheckDocument = {
  worlds: string[];
  unchecked: string[];
  findings: ClusterFindingDocument[];
};

/**
 * The document of ``aos cluster status --json``. ``address`` is null for the embedded world of a
 * node.
 */
export type ClusterDocument = {
  address: string | null;
  here: OwnNodeDocument | null;
  members: ClusterMemberRow[];
  groups: ClusterGroup[];
  worlds: ClusterWorld[];
  worlds_cut: boolean;
};

/** A finding of a check. */
export type ClusterFindingDocument = {
  kind: string;
  text: string;
  exit_code: number;
};

/**
 * A registered group of worlds. One whose registration cannot be read has ``name`` and ``problem``
 * alone.
 */
export type ClusterGroup = {
  name: string;
  signature?: string;
  shards?: string[];
  problem: string | null;
};

/** The stream of a world. */
export type ClusterLog = {
  first: number;
  last: number;
  messages: number;
  bytes: number;
  leader: string;
  replicas: LogReplica[];
};

/** A member by its beat. */
export type ClusterMemberRow = {
  name: string;
  is_silent: boolean;
  draining: boolean;
  beat_age_ns: number;
  instance: string;
  standbys: number;
  worlds: string[];
  seen: string[];
};

/** A node of a world by its beat. */
export type ClusterNode = {
  node: string;
  role: string;
  is_silent: boolean;
  beat_age_ns: number;
  instance: string;
  release: string;
  inbox: string;
  signature: string;
  position: number;
  seq: number;
  frame: string;
  behind_messages: number;
  behind_records: number;
};

/** A registered world. One whose registration cannot be read has ``name`` and ``problem`` alone. */
export type ClusterWorld = {
  name: string;
  world?: string;
  stream?: string;
  signature?: string;
  embedded_at?: string | null;
  base?: ClusterBase | null;
  nodes?: ClusterNode[];
  other_beats?: number;
  log?: ClusterLog | null;
  placed_at?: string[];
  kept_at?: string | null;
  moving_to?: string | null;
  problem: string | null;
};

/** One of two manifests that are compared. */
export type ComparedManifest = {
  hash: string;
  record: number | null;
};

/** A compensation that a flow has registered. */
export type CompensationDocument = {
  path: string;
  effect: string;
  params: unknown;
  state: string;
  attempts: number;
  created_ns: number;
  last_ns: number | null;
  done_ns: number | null;
  error: FlowFailure | null;
};

/** An operator's command. */
export type ControlRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "control";
  action: string;
  cell: CellName | null;
  intent: string | null;
  value: string | null;
  status: string | null;
  payload: unknown;
  why: string | null;
  restamp: boolean;
  dropped: number;
  abandoned: string[];
  principal: string;
  serial: number;
};

/** A state before and after its migration. */
export type ConvertedState = {
  cell: CellName;
  before: unknown;
  after: unknown;
  fault: ShortFault | null;
  changed: ChangedPlace[];
};

/** The cells with one value; null for those that have none. */
export type CountGroup = {
  value: unknown;
  count: number;
};

/** The items that a batch would have. */
export type CountedBatch = {
  total: number;
  first: BatchItemDocument[];
};

/**
 * The document of ``aos inspect cells --count --json`` and ``aos linear list --count --json``. A
 * cell with several values is in the group of each of them.
 */
export type CountsDocument = {
  count: number;
  group_by: string | null;
  groups: CountGroup[];
  other_groups: number;
  other_count: number;
};

/** A definition of a manifest, as it has it (spec/manifest.md). */
export type Definition = {
  name: string;
};

/** A flow whose history the new code does not fit. */
export type DivergedFlow = {
  cell: CellName;
  path: string | null;
  expected: string | null;
  found: string | null;
  fault: ShortFault;
};

/** The place at which the code of a flow does not fit its history. */
export type DivergenceDocument = {
  path: string;
  expected: string;
  found: string;
};

/** The lines of ``aos trace``. */
export type DrawnTrace = {
  lines: TraceLine[];
  shard?: string;
};

/** An effect of a manifest. */
export type EffectRow = {
  name: string;
  hash: string;
  params: string;
  receipt: string;
  executor: string;
  attempts: number;
  timeout_ms: number;
  idempotency_scope: string;
};

/** An event that a step emitted. */
export type EmittedEvent = {
  to: CellName[];
  overloaded: CellName[];
  kept?: CellName[];
  schema: string;
  value: unknown;
  unknown: CellName[];
};

/** An event from outside was admitted. */
export type EventRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  to: CellName[];
  overloaded: CellName[];
  kept?: CellName[];
  kind: "event";
  schema: string;
  value: unknown;
  submission_id: string | null;
};

/** Open intents of one executor. */
export type ExecutorCounts = {
  open: number;
  retried: number;
  oldest_open_ns: number | null;
  oldest_retried_ns: number | null;
};

/** An executor of a manifest, and its keys. */
export type ExecutorRow = {
  name: string;
  public_key: string;
  effects: string[];
  retired_keys: string[];
  revoked_keys: string[];
};

/** The kernel has failed a cell at one entry of its mailbox. */
export type FaultRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  cell: CellName;
  under: number | null;
  entry: number[];
  root: number;
  depth: number;
  fuel: number | null;
  pages: number | null;
  output: string | null;
  kind: "fault";
  fault: RecordedFault;
};

/** A cell that the kernel failed, and the remedy. */
export type FaultRow = {
  workflow: string;
  key: unknown;
  kind: string;
  message: string;
  detail: unknown;
  environmental: boolean;
  record: number | null;
  engine_text: string | null;
  mailbox: number;
  mail_uncounted: number;
  advice: string;
  retry: string;
  skip: string | null;
  shard?: string;
};

/** The document of ``aos inspect faults --json``. */
export type FaultsDocument = {
  faults: FaultRow[];
  total: number;
  offset: number;
  next_offset: number | null;
};

/** The document of ``aos flow show --json``. */
export type FlowDocument = {
  workflow: string;
  key: unknown;
  key_cbor: string;
  status: string;
  fault: CellFault | null;
  started_ns: number | null;
  last_record: number;
  last_active_ns: number;
  version: CellVersion;
  waits: WaitDocument[] | null;
  mailbox: number;
  input: unknown;
  output: unknown;
  error: FlowFailure | null;
  view: unknown;
  operations: OperationDocument[] | null;
  compensations: CompensationDocument[] | null;
  inbox: FlowMessage[] | null;
  parent: FlowParent | null;
  history_problem?: string | null;
  divergence: DivergenceDocument | null;
  problem: string | null;
  intents: IntentListRow[];
  reasons: ReasonDocument[];
  with_history: boolean;
  shard?: string;
};

/** Why a flow or an operation failed, with the causes. */
export type FlowFailure = {
  kind: string;
  code: string;
  message: string;
  path: string;
  causes: FlowFailure[];
};

/** The flows that were tried on the new code. */
export type FlowGateDocument = {
  checked: number;
  go_on: number;
  diverge: DivergedFlow[];
};

/** A message in the inbox of a flow. */
export type FlowMessage = {
  schema: string;
  value: unknown;
};

/** The flow that called this one. */
export type FlowParent = {
  schema: string;
  key: unknown;
  path: string;
  attempt: number;
};

/** The operation of a flow that requested an effect. */
export type FlowPlace = {
  path: string;
  attempt: number;
  role: string | null;
};

/** An instance of a flow in a list. */
export type FlowRow = {
  workflow: string;
  key: unknown;
  key_cbor: string;
  status: string;
  fault: string | null;
  started_ns: number | null;
  last_record: number;
  last_active_ns: number;
  version: CellVersion;
  waits: WaitDocument[];
  mailbox: number;
  shard?: string;
};

/** The document of ``aos flow list --json``. */
export type FlowsDocument = {
  flows: FlowRow[];
  total: number;
  offset: number;
  next_offset: number | null;
  by_status: Record<string, unknown>;
};

/** The world was forked of another one. */
export type ForkRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "fork";
  world: string;
  world_key: string;
  operators: NamedKey[];
  parent: string;
  at: number;
  frame: string;
  cut: string | null;
  open_work: string;
  erased: string[];
};

/** The first record of a world. */
export type GenesisRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "genesis";
  world: string;
  world_key: string;
  operators: NamedKey[];
  semantics: unknown;
};

/** A proposal, a report, a vote or a withdrawal. */
export type GovernanceRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "governance";
  action: string;
  principal: string;
  proposal: number;
  serial: number | null;
  base: string | null;
  document: string | null;
  patch: string | null;
  report: string | null;
  mode: string | null;
  leaves: string[];
  seen: string | null;
  note: string | null;
};

/** The document of ``aos inspect world --json`` for a group. */
export type GroupDocument = {
  shards: ShardWorldDocument[];
};

/** Why an open intent does not run. */
export type HaltDocument = {
  phase: string;
  code: string;
  problem: string | null;
  attempt: number;
  record: number;
  since_ns: number;
};

/** Effects of one kind that are held or parked. */
export type HaltedEffects = {
  effect: string;
  executor: string;
  phase: string;
  code: string;
  count: number;
  oldest_ns: number;
};

/** The front answers. ``role`` and ``lag`` are those of a node of a replicated world. */
export type HealthDocument = {
  ok: boolean;
  role: string | null;
  lag: number | null;
};

/** The signal or the command for a linear instance is record ``seq``. */
export type InstanceRecord = {
  instance: string;
  seq: number;
};

/** Open intents. */
export type IntentCounts = {
  open: number;
  abandoned: number;
  by_effect: Record<string, unknown>;
  by_executor: Record<string, unknown>;
  timers: TimerCounts;
  oldest_open_ns: number | null;
  halted: HaltedEffects[];
};

/** The document of ``aos inspect intent --json``. */
export type IntentDocument = {
  intent: string;
  status: string;
  effect: string;
  executor: string | null;
  workflow: string;
  key: unknown;
  record: number;
  index: number;
  opened_ns: number | null;
  age_ns: number | null;
  idempotency_key: string | null;
  requested_key: unknown;
  issuer_ref: string | null;
  flow: FlowPlace | null;
  settled_record: number | null;
  receipt_status: string | null;
  code: string | null;
  halt: HaltDocument | null;
  shard?: string;
  params: unknown;
  params_hash: string | null;
  effect_hash: string | null;
  delivery: string | null;
  attempt: number | null;
  attempts_max: number | null;
  attempts: AttemptRecord[];
  cancels: ControlRecord[];
  settlements: ControlRecord[];
  frames: number;
  last_frames: StreamRecord[];
  abandoned_by: ControlRecord | null;
  receipt: ReceiptRecord | KernelReceiptRecord | null;
  signature: ReceiptSignature | null;
  reason: ReasonDocument | null;
};

/** An intent of a list. */
export type IntentListRow = {
  intent: string;
  status: string;
  effect: string;
  executor: string | null;
  workflow: string;
  key: unknown;
  record: number;
  index: number;
  opened_ns: number | null;
  age_ns: number | null;
  idempotency_key: string | null;
  requested_key: unknown;
  issuer_ref: string | null;
  flow: FlowPlace | null;
  settled_record: number | null;
  receipt_status: string | null;
  code: string | null;
  halt: HaltDocument | null;
  shard?: string;
};

/** The document of ``aos inspect intents --json``. */
export type IntentsDocument = {
  intents: IntentListRow[];
  total: number;
  offset: number;
  next_offset: number | null;
  looked_at?: number;
};

/** The end of the journal. */
export type JournalFigures = {
  records: number;
  frames: number;
  frame: string;
  log_root: string;
  clock_ns: number;
  clock_ahead_ns: number;
};

export type JournaledReport = {
  hash: string;
  seq: number;
  size: number;
  from: number | null;
  to: number | null;
  records: number | null;
};

/** The kernel itself has settled an effect. */
export type KernelReceiptRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  kind: "kernel_receipt";
  intent: string;
  cell: CellName;
  effect: string;
  status: string;
  payload: unknown;
  payload_schema: string | null;
  root: number;
  depth: number;
  by: string | null;
  outcome: string;
  problem: string | null;
  abandoned: string[];
};

/**
 * A timer that was set while the journal clock was ahead; ``settle`` is the command that ends it as
 * due.
 */
export type LateTimer = {
  intent: string;
  workflow: string;
  key: unknown;
  opened_ns: number;
  due_ns: number;
  settle: string;
};

/** The document of ``aos linear show --json``. */
export type LinearInstanceDocument = {
  instance: string;
  plan: string;
  version: number;
  biz_key: string | null;
  status: string;
  step_seq: number;
  step: string;
  step_status: string;
  attempts: number;
  max_attempts: number;
  last_error: string | null;
  next: string;
  shard?: string;
  mode: string;
  schedule: unknown;
  cancel_reason: string | null;
  created_at: string | null;
  completed_at: string | null;
  failed_at: string | null;
  canceled_at: string | null;
  context: Record<string, unknown>;
  steps: LinearStep[];
  buffered: LinearSignal[];
};

/** The document of ``aos linear list --json``. */
export type LinearInstancesDocument = {
  instances: LinearRow[];
  total: number;
};

/** A linear instance of a list. */
export type LinearRow = {
  instance: string;
  plan: string;
  version: number;
  biz_key: string | null;
  status: string;
  step_seq: number;
  step: string;
  step_status: string;
  attempts: number;
  max_attempts: number;
  last_error: string | null;
  next: string;
  shard?: string;
};

/** A signal of a linear instance. */
export type LinearSignal = {
  event_id: string;
  type: string;
  payload: unknown;
};

/** A row of the plan of a linear instance. */
export type LinearStep = {
  seq: number;
  step: string;
  status: string;
  task: string;
  attempts: number;
  max_attempts: number;
  backoff_ms: number;
  lease_ms: number;
  epoch: number;
  locked_by: string | null;
  waiting_event_type: string | null;
  last_error: string | null;
  next_run_at: string | null;
  locked_until: string | null;
  deadline_at: string | null;
  woken_by: LinearSignal | null;
};

/** A replica of a stream, at another server than its leader. */
export type LogReplica = {
  name: string;
  is_offline: boolean;
  silent_ns: number;
  behind_operations: number;
};

/** Entries of all mailboxes. */
export type MailCounts = {
  queued: number;
  behind_faults: number;
  uncounted: number;
};

/** An entry of a mailbox. */
export type MailEntry = {
  record: number;
  index: number;
  root: number;
  depth: number;
  kind: "event" | "receipt" | "stream";
  schema?: string;
  value?: unknown;
  effect?: string;
  intent?: string;
  status?: string;
  frame_seq?: number;
  frame_kind?: string;
  payload?: unknown;
};

/** The changes of a manifest, each as a line that begins with ``+``, ``-`` or ``~``. */
export type ManifestChanges = {
  definitions: string[];
  routes: string[];
  routes_reordered: boolean;
  placements: string[];
  limits: string[];
  plans: string[];
  schedules: string[];
  authority: string[];
};

/** The document of ``aos inspect manifest --since``. */
export type ManifestDifference = {
  since: ComparedManifest;
  now: ComparedManifest;
  changes: ManifestChanges;
};

/** The document of ``aos inspect manifest --json``. */
export type ManifestDocument = {
  hash: string;
  manifest_hash: string;
  shard: ShardDocument | null;
  record: number;
  serial: number;
  versions: ManifestVersion[];
  workflows: WorkflowRow[];
  effects: EffectRow[];
  modules: ModuleRow[];
  schemas: string[];
  routes: RouteRow[];
  ingress: string[] | null;
  executors: ExecutorRow[] | null;
  limits: Record<string, unknown>;
};

/** The manifest that is in force. ``shard`` is null in a world that is in no group. */
export type ManifestInForce = {
  hash: string;
  manifest_hash: string;
  shard: ShardDocument | null;
  record: number;
  serial: number;
};

/** A manifest came into force. */
export type ManifestRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "manifest";
  hash: string;
  size: number;
  principal: string;
  serial: number;
  mode: string;
  leaves: string[];
  migrated: MigratedWorkflow[];
  proposal?: number;
};

/** A manifest that instances run under. */
export type ManifestVersion = {
  record: number;
  manifest: string;
  in_force: boolean;
  cells: number;
  by_workflow: Record<string, unknown>;
};

/** Cells whose states a manifest has converted. */
export type MigratedWorkflow = {
  workflow: string;
  root: string;
  cells: number;
};

export type MissingVotes = {
  approvals: number;
  from: string[];
  report: boolean;
};

/** A module of a manifest. */
export type ModuleRow = {
  name: string;
  hash: string;
  abi: string;
};

/** A cell by its workflow and its key. */
export type NamedCell = {
  workflow: string;
  key: unknown;
};

/** A name and its public key. */
export type NamedKey = {
  name: string;
  public_key: string;
};

/** Values that were erased and that the servers may still have (CL-283). */
export type OpenErasuresDocument = {
  number: number | null;
  first_seq: number | null;
  since_ns: number | null;
  reason: string | null;
};

/** An operation of a flow, with those inside it. */
export type OperationDocument = {
  path: string;
  kind: string;
  state: string | null;
  attempts: number;
  created_ns: number;
  last_ns: number | null;
  done_ns: number | null;
  effect: string | null;
  schemas: string[];
  child: CellName | null;
  retry_ns: number | null;
  until_ns: number | null;
  value: unknown;
  error: FlowFailure | null;
  children: OperationDocument[];
  record?: number | null;
  is_kept?: boolean;
  is_skipped?: boolean;
};

/** A value that is stored outside its record. */
export type OutsideValue = {
  where: string;
  value: string;
  size: number;
};

/** The node that is asked. Over HTTP, ``folder`` is null. */
export type OwnNodeDocument = {
  folder: string | null;
  node: string;
  world: string;
  stream: string;
  role: string;
  position: number;
  seq: number;
  frame: string;
  dead_messages: number;
  dead_reason: string | null;
  open_erasures: OpenErasuresDocument;
  reference: ReferenceDocument | null;
};

/** Tasks of an executor in one phase, and since when the oldest is in it. */
export type PhaseFigures = {
  number: number;
  since_ns: number;
};

/**
 * The shards of a group that have the cells of a workflow: that of the ``key`` or of the part
 * ``shard_by`` of it, the ``first``, or ``each``.
 */
export type PlacementDocument = {
  kind: string;
  shard_by: string | null;
};

/** A plan as a manifest has it: without fields that have their default. */
export type PlanDocument = {
  type: string;
  version: number;
  wait_timeouts?: boolean;
  steps: PlanStepDocument[];
};

/** A plan step as a manifest has it: without fields that have their default. */
export type PlanStepDocument = {
  type: string;
  max_attempts?: number;
  backoff_ms?: number;
  lease_ms?: number;
};

/** The document of ``aos linear plans --json``. */
export type PlansDocument = {
  plans: PlanDocument[];
};

/** Why the request was not carried out (RFC 9457). */
export type ProblemDocument = {
  type: string;
  status: number;
  detail: string;
  rule: string;
  pointer?: string;
  blockers?: Record<string, unknown>[];
  admitted?: string;
};

/** The process that runs the world; ``core`` is null if it is of an earlier release. */
export type ProcessFigures = {
  pid: number;
  core: string | null;
  steps: number;
  queued: number;
  no_room: string | null;
  executors: Record<string, unknown>;
};

/** The document of ``aos gov show --json``. */
export type ProposalDocument = {
  proposal: number;
  quorum: number | null;
  approvers: string[];
  status: string;
  shadow_records?: number;
  at_ns: number | null;
  principal: string | null;
  base: string | null;
  document: string | null;
  patch: string | null;
  mode: string | null;
  leaves: string[] | null;
  note: string | null;
  votes?: ProposalVote[];
  reports?: JournaledReport[];
  changes: ManifestChanges | null;
  missing: MissingVotes | null;
};

/** A proposal in a list, closed; an open one is a ``Proposal``. */
export type ProposalHead = {
  proposal: number;
  quorum: number | null;
  approvers: string[];
  status: string;
  shadow_records?: number;
  at_ns: number | null;
  principal: string | null;
  base: string | null;
  document: string | null;
  patch: string | null;
  mode: string | null;
  leaves: string[] | null;
  note: string | null;
  votes?: ProposalVote[];
  reports?: JournaledReport[];
};

/** A vote on a proposal. */
export type ProposalVote = {
  approver: string;
  vote: string;
  seq: number;
  at_ns: number | null;
  seen: string | null;
  note: string | null;
};

/** The document of ``aos gov list --json``. */
export type ProposalsDocument = {
  proposed: number;
  proposals: ProposalHead[];
};

/** A cell that an event reached. The other fields are there after a wait (N-115). */
export type ReachedCell = {
  workflow: string;
  key: unknown;
  ran?: boolean;
  status?: string | null;
  record?: number | null;
  annotation?: unknown;
  fault?: ShortFault;
  state?: unknown;
};

/**
 * Each condition, and whether it is met; and what to do about a journal clock that is ahead.
 * ``role``, ``lag`` and ``owner`` are those of a node of a replicated world.
 */
export type ReadinessDocument = {
  world_is_open: boolean;
  follower_is_current: boolean;
  disk_has_room: boolean;
  is_not_stopping: boolean;
  log_answers: boolean;
  clock_problem: string | null;
  role: string | null;
  lag: number | null;
  owner: string | null;
};

/** One fact about a cell: why it waits or has ended, and the next thing to do. */
export type ReasonDocument = {
  kind: string;
  text: string;
  is_stuck: boolean;
  next: string | null;
};

/** An executor has settled an effect. */
export type ReceiptRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "receipt";
  intent: string;
  cell: CellName;
  effect: string;
  attempt: number;
  status: string;
  payload: unknown;
  payload_schema: string | null;
  started_ns: number;
  finished_ns: number;
  cost_cents: number | null;
  executor: string;
  key_id: string;
  outcome: string;
  problem: string | null;
  abandoned: string[];
  batch: BatchPlace | null;
};

/** The signature of a receipt, checked when the document was made. */
export type ReceiptSignature = {
  key: string;
  executor: string;
  is_valid: boolean;
  was_allowed: boolean | null;
  is_revoked: boolean;
  manifest_record: number | null;
  batch: BatchPlace | null;
};

/** Why the kernel failed a cell. */
export type RecordedFault = {
  kind: string;
  message: string;
  detail: unknown;
  environmental: boolean;
};

/**
 * Records as the lines of ``aos inspect journal --json``; ``next`` is the first record of the next
 * page, or null.
 */
export type RecordsDocument = {
  records: (GenesisRecord | StartRecord | ManifestRecord | EventRecord | StepRecord | FaultRecord | ReceiptRecord | KernelReceiptRecord | StreamRecord | AttemptRecord | SnapshotRecord | ForkRecord | ControlRecord | GovernanceRecord)[];
  next: number | null;
};

/** How far the reference has compared the journal of a node (CL-288). */
export type ReferenceDocument = {
  at: number;
  behind: number;
  compared: number;
  skipped: number;
  difference: string | null;
};

/** An event of a batch that was refused. */
export type RefusedEvent = {
  problem: ProblemDocument;
};

/** An effect that a step requested. */
export type RequestedIntent = {
  intent: string;
  effect: string;
  params: unknown;
  requested_key: unknown;
  issuer_ref: string | null;
  flow: FlowPlace | null;
};

/** A subscription of a manifest. */
export type RouteRow = {
  event: string;
  workflow: string;
  key_field: string | null;
  creates: boolean;
};

/** The document of ``aos schedule show --json``. */
export type ScheduleDocument = {
  id: string;
  by_manifest: boolean;
  cron: string | null;
  tz: string | null;
  every_ms: number | null;
  start: string | null;
  end: string | null;
  catchup_ms: number;
  overlap: string;
  jitter_ms: number;
  event: string;
  value: Record<string, unknown>;
  at_field: string | null;
  paused: boolean;
  failed: boolean;
  problem: string | null;
  next: string[];
  waits_for_end: unknown;
  runs: number;
  made_up: number;
  skipped: number;
  overlapped: number;
  recent: ScheduleRun[];
  tzdata: string | null;
  shard?: string;
};

/** The command for a schedule is done since record ``seq``. */
export type ScheduleRecord = {
  id: string;
  seq: number;
};

/** A run of a schedule. */
export type ScheduleRun = {
  due: string;
  at: string;
  kind: string;
};

/** The document of ``aos schedule list --json``. */
export type SchedulesDocument = {
  schedules: ScheduleDocument[];
};

/** The answers to a batch, in its order. */
export type SentBatch = {
  items: (SentEvent | RefusedEvent)[];
};

/**
 * The event is record ``seq``, durable. ``to`` is null if the record was pruned. ``ended`` are the
 * flows in ``to`` that had ended, which ignore the event; it is absent if there are none. ``shard``
 * is that of a group.
 */
export type SentEvent = {
  seq: number;
  duplicate: boolean;
  to: ReachedCell[] | null;
  ended?: NamedCell[];
  shard?: string;
};

/** The effects that a workflow may ask for on both sides. */
export type ShadowAllowlist = {
  recorded: string[] | null;
  shadow: string[] | null;
};

/** Answers that are not in the journal. */
export type ShadowAnswered = {
  timers: number;
  blobs: number;
  core: number;
  file: number;
};

/** Requests for one effect, and the statuses of their receipts. */
export type ShadowAsked = {
  asked: number;
  receipts: Record<string, unknown>;
};

/** The cells that block the manifest of a shadow. */
export type ShadowBlockers = {
  total: number;
  first: ApplyBlocker[];
};

/** Cells of one workflow. */
export type ShadowCells = {
  same: number;
  different: number;
  by_class: Record<string, unknown>;
};

/** A cell that differs. */
export type ShadowDifference = {
  cell: CellName;
  classes: string[];
  first: ShadowFirst;
  last: ShadowLast;
};

/** Requests for effects on both sides. */
export type ShadowEffects = {
  recorded: Record<string, unknown>;
  shadow: Record<string, unknown>;
};

/** A field that differs. */
export type ShadowField = {
  field: string;
  recorded: unknown;
  shadow: unknown;
  places: ShadowPlace[];
};

/** The first difference of a cell. */
export type ShadowFirst = {
  record: number;
  on: string;
  classes: string[];
  differences: ShadowField[];
};

/** Recorded events and commands. */
export type ShadowInputs = {
  admitted: number;
  refused: number;
};

/** Instances by status at the end of both sides. */
export type ShadowInstances = {
  recorded: Record<string, unknown>;
  shadow: Record<string, unknown>;
};

/** A cell at the end of both sides. */
export type ShadowLast = {
  recorded: ShadowSide | null;
  shadow: ShadowSide | null;
};

/** An intent that is open in the shadow. */
export type ShadowOpen = {
  effect: string;
  cell: CellName;
  params: string;
  recorded: boolean;
};

/** Open intents at the end of both sides. */
export type ShadowPending = {
  recorded: number;
  shadow: number;
};

/** A place of a field that differs. */
export type ShadowPlace = {
  path: string;
  recorded: unknown;
  shadow: unknown;
};

export type ShadowReportDocument = {
  proposal: number;
  record: number;
  hash: string;
  format: string;
  world: string;
  base: string;
  document: string;
  mode: string;
  leaves: string[];
  from: number;
  to: number;
  frame: string;
  answers: string | null;
  same: boolean;
  blocked: boolean;
  blockers: ShadowBlockers;
  clock_ns?: number;
  steps?: ShadowStepCounts;
  inputs?: ShadowInputs;
  by_class?: Record<string, unknown>;
  cells?: Record<string, unknown>;
  differences?: ShadowDifference[];
  left_out?: number;
  effects?: ShadowEffects;
  answered?: ShadowAnswered;
  instances?: ShadowInstances;
  allowlists?: Record<string, unknown>;
  pending?: ShadowPending;
  open?: ShadowOpen[];
};

/** A cell at the end of one side. */
export type ShadowSide = {
  status: string;
  state: unknown;
  fault: string | null;
};

/** Steps of a shadow. */
export type ShadowStepCounts = {
  compared: number;
  different: number;
  missing: number;
  extra: number;
  erased: number;
  environmental: number;
};

/** The shard of a group that a world is. */
export type ShardDocument = {
  index: number;
  count: number;
};

/** The world of a shard. */
export type ShardWorldDocument = {
  path: string | null;
  world: string;
  world_key: string;
  operators: NamedKey[];
  semantics: unknown;
  created_ns: number;
  journal: JournalFigures;
  manifest: ManifestInForce | null;
  versions: ManifestVersion[];
  cells: CellCounts;
  intents: IntentCounts;
  mail: MailCounts;
  submissions: number;
  at: number | null;
  snapshot: SnapshotMark | null;
  ancestors: AncestorWorld[];
  last_start: StartedCore | null;
  process: ProcessFigures | null;
  origin: string | null;
  shard: string;
};

/** A fault: its kind and message. */
export type ShortFault = {
  kind: string;
  message: string;
};

/** The document of ``aos snapshot --json``. */
export type SnapshotDocument = {
  seq: number;
  at: number;
  document: string;
  cells: number;
  blobs: number;
  bytes: number;
  took_ns: number;
};

/** The newest snapshot. */
export type SnapshotMark = {
  at: number;
  record: number;
  document: string;
};

/** A snapshot of the state was taken. */
export type SnapshotRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "snapshot";
  at: number;
  frame: string;
  document: string;
  size: number;
};

/** The hash of a module, and how many are kept. */
export type StagedModule = {
  module: string;
  kept: number;
};

/** A process has begun to run the world. */
export type StartRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "start";
  host: Record<string, unknown>;
};

/** A ``start`` record, and the kernel that began to execute there. */
export type StartedCore = {
  record: number;
  core: string;
};

/** A linear instance runs since record ``seq``. */
export type StartedInstance = {
  instance: string;
  plan: string;
  version: number;
  biz_key: string | null;
  seq: number;
};

/** Cells by status. */
export type StatusCounts = {
  running: number;
  waiting: number;
  completed: number;
  failed: number;
  idle: number;
};

/** A cell has taken one entry of its mailbox. */
export type StepRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  cell: CellName;
  under: number | null;
  entry: number[];
  root: number;
  depth: number;
  fuel: number | null;
  pages: number | null;
  output: string | null;
  kind: "step";
  status: string;
  state: unknown;
  events: EmittedEvent[];
  intents: RequestedIntent[];
  abandoned: string[];
  annotations: unknown;
};

/** An executor has sent a part of a result. */
export type StreamRecord = {
  seq: number;
  summary?: string;
  values?: OutsideValue[];
  at_ns: number;
  kind: "stream";
  intent: string;
  cell: CellName;
  effect: string;
  attempt: number;
  frame_seq: number;
  frame_kind: string;
  payload: unknown;
  payload_ref: string | null;
  executor: string;
  key_id: string;
};

/** Timers that are set. */
export type TimerCounts = {
  open: number;
  oldest_open_ns: number | null;
};

/** A cell of a trace that is not done, with the reasons. */
export type TraceCase = {
  workflow: string;
  key: unknown;
  world: string | null;
  status: string;
  is_idle: boolean;
  reasons: ReasonDocument[];
};

/** The document of ``aos trace --json``. */
export type TraceDocument = {
  target: string;
  roots: TraceNode[];
  earlier: number;
  cases: TraceCase[];
  shard?: string;
};

/** A line of ``aos trace``. */
export type TraceLine = {
  depth: number;
  kind: string;
  text: string;
  is_target: boolean;
  is_bad: boolean;
};

/** A record, an event or an effect in a trace. */
export type TraceNode = {
  kind: string;
  world: string | null;
  seq: number;
  index: number | null;
  cell: CellName | null;
  subject: string | null;
  status: string;
  at_ns: number | null;
  took_ns: number | null;
  value: unknown;
  intent: string | null;
  flow: FlowPlace | null;
  note: string | null;
  logs: string[];
  is_target: boolean;
  left_out: number;
  children: TraceNode[];
};

/** The document of ``aos apply --dry-run --json``, with the workflows that it leaves. */
export type TriedManifest = {
  manifest: string;
  applied: boolean;
  in_force: boolean;
  seq: number | null;
  changes: ManifestChanges;
  blockers: ApplyBlocker[];
  groups: BlockerGroup[];
  ways_out: ApplyWaysOut | null;
  states: ConvertedState[];
  refused: ApplyRefusal | null;
  fates: Record<string, unknown> | null;
  flows: FlowGateDocument;
  leaves: string[];
};

/** The document of ``aos inspect value --json``. */
export type ValueDocument = {
  value: string;
  size: number | null;
  is_there: boolean;
  erased_by: number[];
  records: ValuePlace[];
  total: number;
  shard?: string;
};

/** A record that refers to a value. */
export type ValuePlace = {
  record: number;
  kind: string;
  where: string;
  cell: CellName | null;
};

/** A wait of a flow: for an effect, a message, a timer or another flow. */
export type WaitDocument = {
  path: string;
  kind: string;
  since_ns: number;
  until_ns: number | null;
  attempt: number | null;
  effect: string | null;
  schemas: string[];
  child: CellName | null;
  is_canceled: boolean;
};

/** Effects, executors and tasks of the kernel process. */
export type WorkDocument = {
  effects: string[];
  executors: Record<string, unknown>;
  tasks: WorkTask[];
};

/** A task of an executor in the kernel process. */
export type WorkTask = {
  intent: string;
  phase: string;
  attempt: number;
  since_ns: number;
};

/** A workflow of a manifest. */
export type WorkflowRow = {
  name: string;
  hash: string;
  module: string;
  module_hash: string;
  entrypoint: string;
  state: string;
  event: string;
  arms: Record<string, unknown>;
  key_schema: string | null;
  placement: PlacementDocument;
  annotations: string | null;
  context: unknown;
  lifecycle: string;
  upgrade: string | null;
  effects_emitted: string[];
  limits: Record<string, unknown>;
};

/** The document of ``aos inspect world --json``; ``path`` is null over HTTP. */
export type WorldDocument = {
  path: string | null;
  world: string;
  world_key: string;
  operators: NamedKey[];
  semantics: unknown;
  created_ns: number;
  journal: JournalFigures;
  manifest: ManifestInForce | null;
  versions: ManifestVersion[];
  cells: CellCounts;
  intents: IntentCounts;
  mail: MailCounts;
  submissions: number;
  at: number | null;
  snapshot: SnapshotMark | null;
  ancestors: AncestorWorld[];
  last_start: StartedCore | null;
  process: ProcessFigures | null;
  origin: string | null;
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

export type SendEventsAnswer = SentEvent | SentBatch;

export type ReadWorldQuery = {
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadWorldAnswer = WorldDocument | GroupDocument;

export type ReadClockQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadClockAnswer = ClockDocument;

export type ReadManifestQuery = {
  /** One definition, whole. */
  name?: string;
  /** Instead, the changes since the manifest in force after this record. */
  since?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadManifestAnswer = ManifestDocument | ManifestDifference | Definition;

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
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
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
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadCellsAnswer = CellsDocument;

export type ReadCellCountsQuery = {
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
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Count also by the values of this name, which is one that a condition can have. */
  group_by?: string;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadCellCountsAnswer = CountsDocument;

export type ReadCellQuery = {
  /** The name of the workflow, or a unique part of it. */
  workflow: string;
  /** The key, as JSON or as plain text. */
  key?: string;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadCellAnswer = CellDocument;

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
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadIntentsAnswer = IntentsDocument;

export type ReadIntentQuery = {
  /** Its hash, or the first 8 digits or more. */
  intent: string;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadIntentAnswer = IntentDocument;

export type ReadFaultsQuery = {
  /** The name of the workflow, or a unique part of it. */
  workflow?: string;
  /** Only faults of this kind. */
  kind?: string;
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadFaultsAnswer = FaultsDocument;

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
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadRecordsAnswer = RecordsDocument;

export type ReadRecordQuery = {
  /** Its number. */
  seq: number;
  /** Values as text for people: times, durations and bytes as the command shows them. */
  spelled?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadRecordAnswer = GenesisRecord | StartRecord | ManifestRecord | EventRecord | StepRecord | FaultRecord | ReceiptRecord | KernelReceiptRecord | StreamRecord | AttemptRecord | SnapshotRecord | ForkRecord | ControlRecord | GovernanceRecord;

export type ReadValueQuery = {
  /** Its content hash, or the sha256: name of a blob. */
  value: string;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadValueAnswer = ValueDocument;

export type ReadBlobQuery = {
  /** Its content hash, or the sha256: name of a blob. */
  value: string;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
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
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadTraceAnswer = TraceDocument | DrawnTrace;

export type ReadWorkQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadWorkAnswer = WorkDocument;

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
  action: "retry" | "skip" | "cancel" | "erase" | "unpin" | "settle" | "end" | "remove" | "clock";
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
  /** Of a `retry` or `skip` that the caller signs: the mail gets its time. */
  restamp?: boolean;
  /** With `serial` and `signature`: signed by the caller. */
  principal?: string;
  serial?: number;
  signature?: string;
};

export type SendCommandAnswer = AdmittedCommand;

export type StageModuleAnswer = StagedModule;

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

export type TryManifestAnswer = TriedManifest;

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

export type ApplyManifestAnswer = AppliedManifest;

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

export type GovernAnswer = AdmittedRecord;

export type ReadProposalsQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadProposalsAnswer = ProposalsDocument;

export type ReadProposalQuery = {
  /** Its record. */
  proposal: number;
  /** The hash of a journaled shadow report of it, which is the answer then. */
  report?: string;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadProposalAnswer = ProposalDocument | ShadowReportDocument;

export type MakeSnapshotAnswer = SnapshotDocument;

export type ReadFlowsQuery = {
  /** Only this flow, or a unique part of it. */
  flow?: string;
  /** Only flows of this status. */
  status?: "pending" | "running" | "sleeping" | "rolling_back" | "completed" | "failed" | "canceled" | "stuck" | "faulted" | "closed" | "parked" | "cancelled";
  /** Only cells whose key begins with this text. */
  key_prefix?: string;
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadFlowsAnswer = FlowsDocument;

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
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadFlowAnswer = FlowDocument;

export type StartLinearBody = {
  /** The type of a plan of the manifest in force, or a plan as a manifest has it. */
  plan: string | Record<string, unknown>;
  version?: number;
  instance: string;
  biz_key?: string | null;
  context?: Record<string, unknown>;
  mode?: "standard" | "source";
};

export type StartLinearAnswer = StartedInstance;

export type WakeLinearBody = {
  instance: string;
  type: string;
  event_id: string;
  /** Any JSON value; null without it. */
  payload?: unknown;
  payload_cbor?: string;
};

export type WakeLinearAnswer = InstanceRecord;

export type CancelLinearBody = {
  instance: string;
  reason?: string;
};

export type CancelLinearAnswer = InstanceRecord;

export type ReadPlansQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadPlansAnswer = PlansDocument;

export type ReadLinearInstancesQuery = {
  /** Only instances of this status. */
  status?: "RUNNING" | "COMPLETED" | "FAILED" | "CANCELED";
  /** Only instances of this plan. */
  plan?: string;
  /** Only with this current plan step. */
  step?: string;
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Maximum number of rows. */
  limit?: number;
  /** Number of rows to skip. */
  offset?: number;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadLinearInstancesAnswer = LinearInstancesDocument;

export type ReadLinearCountsQuery = {
  /** Only instances of this status. */
  status?: "RUNNING" | "COMPLETED" | "FAILED" | "CANCELED";
  /** Only instances of this plan. */
  plan?: string;
  /** Only with this current plan step. */
  step?: string;
  /** Only those that pass this condition, such as customer_id = "c-1" and amount_cents >= 1000. */
  where?: string;
  /** Count also by the values of this name, which is one that a condition can have. */
  group_by?: string;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadLinearCountsAnswer = CountsDocument;

export type ReadLinearInstanceQuery = {
  /** Its id. */
  instance: string;
  /** The world as it was after this record (default: now). */
  at?: number;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadLinearInstanceAnswer = LinearInstanceDocument;

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

export type CreateScheduleAnswer = ScheduleRecord;

export type CommandScheduleBody = {
  id: string;
  action: "pause" | "resume" | "trigger" | "delete";
};

export type CommandScheduleAnswer = ScheduleRecord;

export type ReadSchedulesQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadSchedulesAnswer = SchedulesDocument;

export type ReadScheduleQuery = {
  /** Its id. */
  id: string;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadScheduleAnswer = ScheduleDocument;

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

export type BeginBatchAnswer = BatchDocument | CountedBatch;

export type ReadBatchesQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadBatchesAnswer = BatchesDocument;

export type ReadBatchQuery = {
  /** Its id. */
  id: string;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadBatchAnswer = BatchDocument;

export type ReadClusterQuery = {
  /** All worlds of the servers, not only that of this node. */
  all?: boolean;
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadClusterAnswer = ClusterDocument;

export type ReadClusterCheckQuery = {
  /** Of a replicated world: answer with everything that was acknowledged before the request. */
  fresh?: boolean;
};

export type ReadClusterCheckAnswer = ClusterCheckDocument;

export type StopBatchBody = {
  id: string;
};

export type StopBatchAnswer = BatchDocument;

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

export type AnswerHealthAnswer = HealthDocument;

export type AnswerReadyAnswer = ReadinessDocument;

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

  /** Show the journal clock, the machine's clock, and timers that are too late. */
  readClock(query: ReadClockQuery = {}): Promise<ReadClockAnswer> {
    return this.json({ method: "GET", path: "/v1/clock", query });
  }

  /** Show the manifest in force, or one of its definitions. */
  readManifest(query: ReadManifestQuery = {}): Promise<ReadManifestAnswer> {
    return this.json({ method: "GET", path: "/v1/manifest", query });
  }

  /** List the cells, by workflow and key. */
  readCells(query: ReadCellsQuery = {}): Promise<ReadCellsAnswer> {
    return this.json({ method: "GET", path: "/v1/cells", query });
  }

  /** Count the cells that a list would have, in all and by the values of a name. */
  readCellCounts(query: ReadCellCountsQuery = {}): Promise<ReadCellCountsAnswer> {
    return this.json({ method: "GET", path: "/v1/cells/count", query });
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
  readWork(query: ReadWorkQuery = {}): Promise<ReadWorkAnswer> {
    return this.json({ method: "GET", path: "/v1/work", query });
  }

  /** Stream records, oldest first and then each new one; the id is its number. */
  streamJournal(query: StreamJournalQuery = {}, idempotencyKey?: string): AsyncGenerator<StreamEvent> {
    return this.stream({ method: "GET", path: "/v1/journal/stream", query, idempotencyKey });
  }

  /** Stream the events of chosen schemas that workflows emit, each once, in order. */
  streamFeed(query: StreamFeedQuery, idempotencyKey?: string): AsyncGenerator<StreamEvent> {
    return this.stream({ method: "GET", path: "/v1/feed", query, idempotencyKey });
  }

  /** Submit an operator's command: retry, skip, unpin, cancel, settle, end, remove, erase or clock. */
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
  readProposals(query: ReadProposalsQuery = {}): Promise<ReadProposalsAnswer> {
    return this.json({ method: "GET", path: "/v1/proposals", query });
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

  /** List the instances of flows, by flow and key or in the order of a condition. */
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
  readPlans(query: ReadPlansQuery = {}): Promise<ReadPlansAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/plans", query });
  }

  /** List linear instances, by id. */
  readLinearInstances(query: ReadLinearInstancesQuery = {}): Promise<ReadLinearInstancesAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/instances", query });
  }

  /** Count the linear instances that a list would have, in all and by the values of a name. */
  readLinearCounts(query: ReadLinearCountsQuery = {}): Promise<ReadLinearCountsAnswer> {
    return this.json({ method: "GET", path: "/v1/linear/instances/count", query });
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
  readSchedules(query: ReadSchedulesQuery = {}): Promise<ReadSchedulesAnswer> {
    return this.json({ method: "GET", path: "/v1/schedules", query });
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
  readBatches(query: ReadBatchesQuery = {}): Promise<ReadBatchesAnswer> {
    return this.json({ method: "GET", path: "/v1/batches", query });
  }

  /** Show a batch: its counts, and the first refusals. */
  readBatch(query: ReadBatchQuery): Promise<ReadBatchAnswer> {
    return this.json({ method: "GET", path: "/v1/batch", query });
  }

  /** Show the cluster of a replicated world: nodes, owner, log, lag and members. */
  readCluster(query: ReadClusterQuery = {}): Promise<ReadClusterAnswer> {
    return this.json({ method: "GET", path: "/v1/cluster", query });
  }

  /** Check the servers of a replicated world: findings, each with what to change. */
  readClusterCheck(query: ReadClusterCheckQuery = {}): Promise<ReadClusterCheckAnswer> {
    return this.json({ method: "GET", path: "/v1/cluster/check", query });
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
