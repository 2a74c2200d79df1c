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
