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
  private readonly urls: string[];
  /** Which of the nodes is in use. */
  private node = 0;
  private readonly token: string | undefined;
  private readonly retries: number;
  private readonly signal: AbortSignal | undefined;

  /** `url` is that of a node; of a replicated world several, with commas between them. */
  constructor(url: string, options: Options = {}) {
    this.urls = url.split(",").map((text) => text.trim().replace(/\/+$/, ""));
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
      const node = this.node;
      try {
        for await (const event of events(answer.body!)) {
          last = event.id;
          yield event;
        }
      } catch (error) {
        if (this.signal?.aborted) throw error;
      }
      this.leave(node);
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
      const node = this.node;
      try {
        const url = `${this.urls[node]}${call.path}${search(call.query)}`;
        const answer = await fetch(url, init as RequestInit);
        if (answer.ok) return answer;
        const problem = await problemOf(answer);
        // 429: nothing was done. 503: `admitted` says whether something was.
        const isUndone = answer.status === 503 && (mayRepeat || problem.admitted === "no");
        if (answer.status === 503) this.leave(node);
        const isLater = answer.status === 429 || isUndone;
        if (!isLater || attempt >= this.retries) throw new NodeError(answer.status, problem);
        wait = Math.max(wait, retryAfterMs(answer.headers.get("retry-after") ?? ""));
      } catch (error) {
        if (error instanceof NodeError || this.signal?.aborted) throw error;
        this.leave(node);
        if (!mayRepeat || attempt >= this.retries) throw error;
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

async function problemOf(answer: Response): Promise<ProblemDocument> {
  const text = await answer.text();
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "rule" in found) return found as ProblemDocument;
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
