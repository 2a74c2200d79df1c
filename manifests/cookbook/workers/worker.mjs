// A worker of an AOS node: Node.js 18 or newer, without a dependency.
//
// It claims tasks for free slots, keeps their leases alive, and sends each result until the node has
// answered it. spec/node-work.md specifies the requests, spec/worker.md how a worker behaves.

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname, uptime } from "node:os";
import { setTimeout as pause } from "node:timers/promises";

const WAIT_MS = 30_000; // how long a claim waits for a task at the node
const ANSWER_MS = 30_000; // how long the node may take to answer, in addition
const ANSWER_BYTES_MAX = 256 * 1024 * 1024;
const DRAIN_MS = 30_000; // how long functions may take to end when the worker stops
const GRACE_MS = 250; // how long a function may take to end when its signal fires
const PAUSE_MS = 100; // before a request is sent again; doubled each time
const PAUSE_MS_MAX = 2_000;
const MESSAGE_CHARS_MAX = 1_000;
const MISFIT = new Set([400, 413, 422]); // the node does not take the body

/** Throw it in a function to settle the effect as an error with a code that the workflow can act on. */
export class EffectFailed extends Error {
  constructor(code, message, { retryable = false } = {}) {
    super(message);
    Object.assign(this, { code, retryable });
  }
}

/** The node does not allow the request, or does not understand it: a person must act. */
export class NodeRefused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The node does not answer now: the same request may succeed later. */
class NodeAway extends Error {
  constructor(message, pauseMs = 0) {
    super(message);
    this.pauseMs = pauseMs;
  }
}

/**
 * Carries out the tasks of a node until it is stopped.
 *
 * `functions` maps the name of an effect to `async (params, context) => result`. `context` has
 * `idempotencyKey`, `attempt`, `task`, `workflow`, `key`, and `signal`, an AbortSignal: it fires when
 * the time of the attempt is over, or when the task was canceled or lost.
 */
export class Worker {
  #url;
  #token;
  #functions;
  #name;
  #concurrency;
  #leaseMs;
  #held = new Map(); // "TASK EPOCH" -> {task, epoch, abort, isLost, ended}
  #stopping = new AbortController();
  #closing = new AbortController();
  #wake = () => {};
  #failure = null;

  constructor(url, functions, options = {}) {
    this.#url = url.replace(/\/$/, "");
    this.#functions = functions;
    this.#token = options.token;
    this.#name = options.name ?? `${hostname()}-${process.pid}`;
    this.#concurrency = options.concurrency ?? 8;
    this.#leaseMs = options.leaseMs ?? 30_000;
    setMaxListeners(0, this.#stopping.signal, this.#closing.signal);
  }

  /** Claim no more; let functions end for up to 30 s, give the rest back, and return from `run`. */
  stop() {
    this.#stopping.abort();
    this.#wake();
  }

  /** Carry out tasks until `stop`. Throws NodeRefused. */
  async run() {
    const beating = this.#beat();
    try {
      await this.#claimTasks().catch((error) => this.#fail(error));
      await this.#drain();
    } finally {
      this.#closing.abort();
      await beating;
    }
  }

  // Claims

  async #claimTasks() {
    const refused = new Set();
    while (!this.#stopping.signal.aborted) {
      const free = this.#concurrency - this.#held.size;
      if (free <= 0) {
        await new Promise((resolve) => (this.#wake = resolve));
        continue;
      }
      // The same name until there is an answer: after a lost answer the node gives the same tasks.
      const body = {
        worker: this.#name, claim: randomUUID(), max: free, lease_ms: this.#leaseMs, wait_ms: WAIT_MS,
        effects: Object.keys(this.#functions).map((name) => ({ name })),
      };
      const asked = uptimeMs();
      const answer = await this.#insist("claim", body, this.#stopping.signal);
      for (const { effect, detail } of answer?.unserved ?? []) {
        if (!refused.has(effect)) console.error(`no tasks of ${effect}: ${detail}`);
        refused.add(effect);
      }
      for (const task of answer?.tasks ?? []) this.#begin(task, asked);
    }
  }

  #begin(task, asked) {
    const id = `${task.task} ${task.epoch}`;
    if (this.#held.has(id)) return;
    const earlier = [...this.#held.values()].filter((each) => each.task === task.task);
    const held = { task: task.task, epoch: task.epoch, abort: new AbortController(), isLost: false };
    this.#held.set(id, held);
    held.ended = (async () => {
      try {
        // An earlier attempt still runs here, although its lease was lost.
        for (const each of earlier) this.#cancel(each, true);
        await Promise.all(earlier.map((each) => each.ended));
        if (!(await this.#isLeased(held, asked))) return;
        const result = await this.#carryOut(task, held.abort.signal);
        if (!held.isLost) await this.#report(result);
      } catch (error) {
        if (!this.#closing.signal.aborted) this.#fail(error);
      } finally {
        this.#held.delete(id);
        this.#wake();
      }
    })();
  }

  /**
   * Whether a lease that was asked for at `since` lasts for certain. The process or the machine may
   * have slept, and another worker may have the task: in doubt, ask the node.
   */
  async #isLeased(held, since) {
    while (!held.isLost && uptimeMs() - since > 0.9 * this.#leaseMs) {
      since = uptimeMs();
      const leases = [{ task: held.task, epoch: held.epoch }];
      const body = { worker: this.#name, leases, lease_ms: this.#leaseMs };
      const answered = await this.#insist("heartbeat", body, this.#closing.signal);
      if (answered?.answers[0].answer !== "leased") return false;
    }
    return !held.isLost;
  }

  #fail(error) {
    this.#failure ??= error;
    this.stop();
  }

  // One task

  /** Run the function once; return the item of `results`. */
  async #carryOut(task, canceled) {
    const started = now();
    const timeout = AbortSignal.timeout(Math.min(task.timeout_ms, 2 ** 31 - 1));
    const ends = either(canceled, timeout);
    const context = {
      idempotencyKey: task.idempotency_key, attempt: task.attempt, task: task.task,
      workflow: task.workflow, key: task.key, signal: ends.signal,
    };
    const call = Promise.resolve()
      .then(() => this.#functions[task.effect](task.params, context))
      .then((result) => ({ status: "ok", payload: result ?? null }), failed);
    let found = await Promise.race([call, overdue(ends.signal)]);
    // A call that may still run must not run a second time.
    const rest = found === null ? { is_final: true } : {};
    if (canceled.aborted) found = { status: "canceled", payload: problem("canceled", "canceled") };
    else if (timeout.aborted) {
      found = { status: "timeout", payload: problem("timeout", `after ${task.timeout_ms} ms`, true) };
    }
    ends.abort();
    const { task: intent, epoch } = task;
    return { task: intent, epoch, ...found, ...rest, started_ns: started, finished_ns: now() };
  }

  /** Send a result until the node has answered it. */
  async #report(result) {
    for (let ms = PAUSE_MS; ; ms = Math.min(2 * ms, PAUSE_MS_MAX)) {
      const refused = await this.#refusal(result);
      if (refused === undefined) return;
      const { status, detail } = refused;
      if (status === 404 || status === 409) return; // settled, or another worker has it
      if (![429, 500, 503].includes(status)) {
        console.error(`${result.task}: the node refused its result: ${detail}`);
        if (result.status === "parked") return;
        const payload = problem("executor_result_invalid", detail);
        result = { ...result, status: status === 403 ? "held" : "parked", payload };
      } else if (!(await this.#rest(ms, this.#closing.signal))) return;
    }
  }

  /**
   * Send a result; return the node's problem with it, if it has one. A request that the node does not
   * understand, or that is no JSON, is a mistake of this result: it must not end the other tasks.
   */
  async #refusal(result) {
    const body = { worker: this.#name, results: [result] };
    try {
      // Without an answer the worker ends, and has given the task back.
      return (await this.#insist("results", body, this.#closing.signal))?.answers[0].problem;
    } catch (error) {
      const isMisfit = error instanceof NodeRefused ? MISFIT.has(error.status) : error instanceof TypeError;
      if (!isMisfit || result.status === "parked") throw error;
      return { status: 422, detail: error.message };
    }
  }

  // Leases

  /** Prolong all leases, three times in a lease. */
  async #beat() {
    while (await this.#rest(this.#leaseMs / 3, this.#closing.signal)) {
      const held = [...this.#held.values()];
      if (held.length === 0) continue;
      const leases = held.map(({ task, epoch }) => ({ task, epoch }));
      const body = { worker: this.#name, leases, lease_ms: this.#leaseMs };
      try {
        const { answers } = await this.#post("heartbeat", body, this.#closing.signal);
        answers.forEach(({ answer }, index) => {
          if (answer !== "leased") this.#cancel(held[index], answer === "lost");
        });
      } catch (error) {
        if (error instanceof NodeRefused) this.#fail(error);
      }
    }
  }

  #cancel(held, isLost) {
    held.isLost ||= isLost;
    held.abort.abort();
  }

  /** Let functions end, then give the rest back. Throws the reason if the worker was not asked to stop. */
  async #drain() {
    const ended = Promise.allSettled([...this.#held.values()].map((each) => each.ended));
    if (this.#failure === null) {
      const over = new AbortController();
      await Promise.race([ended, pause(DRAIN_MS, null, { signal: over.signal }).catch(() => {})]);
      over.abort();
    }
    const leases = [...this.#held.values()].map(({ task, epoch }) => ({ task, epoch, began: true }));
    if (leases.length > 0) {
      const body = { worker: this.#name, leases };
      await this.#post("release", body, this.#closing.signal).catch(() => {}); // or they end by themselves
    }
    for (const each of this.#held.values()) this.#cancel(each, true);
    if (this.#failure !== null) throw this.#failure;
  }

  // Requests

  /** Send a request until it is answered; undefined if `signal` fires before. Throws NodeRefused. */
  async #insist(operation, body, signal) {
    for (let ms = PAUSE_MS; !signal.aborted; ms = Math.min(2 * ms, PAUSE_MS_MAX)) {
      try {
        return await this.#post(operation, body, signal);
      } catch (error) {
        if (!(error instanceof NodeAway)) throw error;
        if (signal.aborted) return undefined;
        if (ms === PAUSE_MS) console.error(`${operation}: ${error.message}; it is sent again`);
        await this.#rest(Math.max(ms, error.pauseMs), signal);
      }
    }
    return undefined;
  }

  async #post(operation, body, signal) {
    const headers = { "content-type": "application/json" };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    const content = JSON.stringify(body); // a TypeError for a BigInt or a cycle
    const ends = either(signal, AbortSignal.timeout((body.wait_ms ?? 0) + ANSWER_MS));
    let answer, document;
    try {
      answer = await fetch(`${this.#url}/v1/work/${operation}`, {
        method: "POST", headers, body: content, signal: ends.signal,
      });
      document = JSON.parse(await whole(answer));
    } catch (error) {
      throw new NodeAway(`the node at ${this.#url} does not answer (${error.cause?.code ?? error.message})`);
    } finally {
      ends.abort();
    }
    if (answer.ok) return document;
    const text = `the node answered ${answer.status}: ${document.detail}`;
    if (answer.status !== 429 && answer.status < 500) throw new NodeRefused(text, answer.status);
    throw new NodeAway(text, retryAfterMs(answer.headers.get("retry-after")));
  }

  /** Wait; false if `signal` fires before the end. */
  async #rest(ms, signal) {
    return pause(ms, true, { signal }).catch(() => false);
  }
}

function failed(error) {
  if (error instanceof EffectFailed) {
    return { status: "error", payload: problem(error.code, error.message, error.retryable) };
  }
  // `fetch` throws a TypeError with a cause if it got no answer.
  if (error instanceof TypeError && error.cause !== undefined) {
    return { status: "error", payload: problem("transport", String(error.cause), true) };
  }
  // A mistake in the function: the node retries the task, then parks it. No workflow sees it.
  console.error(error);
  return { status: "parked", payload: problem("exception", String(error), true) };
}

/** A value of sys/EffectError@1. */
function problem(code, message, retryable = false) {
  return { code: unicode(code), message: unicode(message), retryable };
}

/** A bounded text without halves of surrogate pairs, which a node does not take. */
function unicode(text) {
  return String(text).slice(0, MESSAGE_CHARS_MAX).replace(/\p{Surrogate}/gu, "\ufffd");
}

/** `Retry-After` in milliseconds: seconds, or a date. One second without it. */
function retryAfterMs(text) {
  if (text === null) return 1000;
  const ms = /^[0-9]+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? 1000 : Math.max(0, ms);
}

/** The wall clock in nanoseconds. JSON.stringify writes a number of this size as an integer. */
function now() {
  return Date.now() * 1e6;
}

/** A clock that never goes back, and counts while the machine sleeps, in milliseconds. */
function uptimeMs() {
  return 1000 * uptime();
}

/** Resolve to null some time after `signal` has fired. */
function overdue(signal) {
  return new Promise((resolve) => {
    const later = () => setTimeout(() => resolve(null), GRACE_MS).unref();
    if (signal.aborted) later();
    else signal.addEventListener("abort", later, { once: true });
  });
}

/** An AbortController that fires with the first of the signals. Abort it to forget them. */
function either(...signals) {
  const found = new AbortController();
  for (const each of signals) {
    if (each.aborted) found.abort(each.reason);
    else each.addEventListener("abort", () => found.abort(each.reason), { signal: found.signal });
  }
  return found;
}

/** The text of an answer, unless it is too long. */
async function whole(answer) {
  const decoder = new TextDecoder();
  let text = "", length = 0;
  for await (const part of answer.body ?? []) {
    length += part.length;
    if (length > ANSWER_BYTES_MAX) throw new Error(`an answer of more than ${ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}
