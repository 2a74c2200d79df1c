/* Keeps a page as it is now, while someone can see it (spec/page.md, PG-125 to PG-130).
 *
 *     stream ──figures──▶ fetch the page again ──▶ change what differs in the parts with data-live
 *
 * It adds nothing else: without it every page is complete, and a reload shows what is new. */

const REFRESH_MS = 1000; // between two fetches of the page
const SHARE = 10; // a page that takes long to make is fetched for at most this part of the time
const RETRY_MS = 1000; // before a new attempt; then twice as long each time
const RETRY_MAX_MS = 60_000;
const SLOTS = 4; // streams of one browser
const SILENT_MS = 40_000; // the server sends something every 15 s

const bar = document.querySelector("[data-live-bar]");
const state = document.querySelector("[data-live-state]");
const news = document.querySelector("[data-live-news]");
const button = document.querySelector("[data-live-pause]");

let source = null; // the open stream
let release = null; // gives back its slot
let isPaused = false;
let attempts = 0; // since the stream was open
let failures = 0; // since the page was fetched
let retry = 0; // timers
let silence = 0;
let due = 0;
let isFetching = false;
let isStale = false; // the world has changed since the page was fetched
let nextMs = 0; // the earliest time of the next fetch
let figures = null; // those of the last event
let shown = ""; // the page that was fetched last
let wanted = null; // the fetch of a step

/* The stream */

async function begin() {
  clearTimeout(retry);
  if (!mayBegin()) return;
  const found = await takeSlot();
  if (found === null) {
    lost(`${SLOTS} other pages of this browser are live`);
    return;
  }
  if (!mayBegin()) {
    found();
    return;
  }
  release = found;
  source = new EventSource(document.body.dataset.stream);
  source.addEventListener("open", opened);
  source.addEventListener("figures", (event) => take(JSON.parse(event.data)));
  source.addEventListener("alive", takeAlive);
  source.addEventListener("ended", (event) => lost(JSON.parse(event.data).problem));
  source.addEventListener("error", explain);
  heard();
}

function mayBegin() {
  return source === null && !isPaused && !document.hidden;
}

/* A browser opens at most six connections to one server: streams must leave some for pages.
 * Resolves to the function that gives the slot back, or to null. */
function takeSlot(number = 0) {
  if (!navigator.locks) return Promise.resolve(() => {});
  if (number === SLOTS) return Promise.resolve(null);
  return new Promise((resolve) => {
    navigator.locks.request(`aos-live-${number}`, { ifAvailable: true }, (lock) => {
      if (lock !== null) return new Promise((done) => resolve(done));
      resolve(takeSlot(number + 1));
      return undefined;
    });
  });
}

function end() {
  clearTimeout(retry);
  clearTimeout(silence);
  clearTimeout(due);
  due = 0;
  if (source === null) return;
  source.close();
  source = null;
  release();
}

function opened() {
  attempts = 0;
  if (failures === 0) say("Live");
}

function heard() {
  clearTimeout(silence);
  silence = setTimeout(explain, SILENT_MS);
}

/* The stream has ended. Its address as JSON has the sentence, if the server still answers. */
async function explain() {
  const failed = source;
  end();
  let why = "the connection was lost";
  try {
    const answer = await fetch(document.body.dataset.stream, {
      headers: { accept: "application/json" },
      signal: AbortSignal.timeout(5000),
    });
    if (answer.ok) why = "the server has ended the stream";
    else why = (await answer.json()).detail;
  } catch {
    // No answer: the sentence above.
  }
  if (failed !== null && source === null) lost(why);
}

function lost(why) {
  end();
  if (isPaused || document.hidden) return;
  if (attempts === 0) {
    const time = new Date().toISOString().slice(11, 19);
    say(`Not live since ${time} UTC: ${why}. The page tries again.`, true);
  }
  retry = setTimeout(begin, delayMs(attempts));
  attempts += 1;
}

function say(text, isBad = false) {
  bar.hidden = false;
  bar.classList.toggle("lost", isBad);
  if (state.textContent !== text) state.textContent = text;
}

/* Figures */

function take(found) {
  heard();
  if (figures !== null) announce(figures, found);
  figures = found;
  write();
  if (String(found.record) === document.body.dataset.record) return;
  isStale = true;
  schedule();
}

/* Leases and the end of a batch make no record, so pages with data-again are fetched now, too. */
function takeAlive() {
  heard();
  if (!("again" in document.body.dataset)) return;
  isStale = true;
  schedule();
}

/* The figures of the stream are newer than those of the page, or the same. */
function write() {
  if (figures.record < Number(document.body.dataset.record)) return;
  for (const each of document.querySelectorAll("[data-figure]")) {
    const text = figures[each.dataset.figure].toLocaleString("en-US");
    if (each.textContent !== text) each.textContent = text;
  }
}

/* What a reader of the screen hears: only what needs a person. */
function announce(before, after) {
  const said = [];
  for (const [name, what] of [["failed", "failed"], ["halted", "held or parked"]]) {
    const more = after[name] - before[name];
    if (more > 0) said.push(`${more} more ${what}`);
  }
  if (said.length) news.textContent = said.join(", ");
}

/* The page */

function schedule() {
  if (due || isFetching || isPaused || document.hidden) return;
  due = setTimeout(refresh, Math.max(0, nextMs - performance.now()));
}

async function refresh() {
  due = 0;
  isFetching = true;
  isStale = false;
  const began = performance.now();
  try {
    await load(location.href);
    if (failures > 0 && source !== null) say("Live");
    failures = 0;
  } catch (error) {
    failures += 1;
    isStale = true;
    if (!(error instanceof TypeError)) say(`The page is older than the world: ${error.message}`, true);
  }
  const now = performance.now();
  const waitMs = failures > 0 ? delayMs(failures) : SHARE * (now - began);
  nextMs = Math.max(began + REFRESH_MS, now + waitMs);
  isFetching = false;
  if (isStale && source !== null) schedule();
}

function delayMs(count) {
  return Math.min(RETRY_MS * 2 ** count, RETRY_MAX_MS);
}

/* Fetch a page and show it in place of this one. Throws an Error with the server's sentence, or a
 * TypeError without an answer. */
async function load(address, signal = AbortSignal.timeout(30_000)) {
  const answer = await fetch(address, { headers: { accept: "text/html" }, signal });
  const text = await answer.text();
  const page = new DOMParser().parseFromString(text, "text/html");
  if (!answer.ok) {
    const problem = page.querySelector("main [role=alert]");
    throw new Error(problem === null ? `status ${answer.status}` : problem.textContent);
  }
  if (text === shown) return;
  shown = text;
  show(page);
}

function show(page) {
  const focus = document.activeElement;
  const root = document.documentElement;
  const isAtEnd =
    document.querySelector("[data-tail]") !== null && root.scrollTop > 0 &&
    root.scrollTop + root.clientHeight >= root.scrollHeight - 4;
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = page.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
    if (next !== null) update(part, next);
    if (focus !== null && !focus.isConnected && part.localName === "main") {
      part.tabIndex = -1;
      part.focus({ preventScroll: true });
    }
  }
  document.title = page.title;
  if (page.body.dataset.record) document.body.dataset.record = page.body.dataset.record;
  if (figures !== null) write();
  if (isAtEnd) root.scrollTop = root.scrollHeight;
}

/* Make a node equal to another one. Nodes that stay keep focus, selection and scroll position;
 * the reader's own choices stay, too: what is open, and what was typed into a form. */
function update(node, next) {
  if (node.isEqualNode(next)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.data = next.data;
    return;
  }
  if (node.localName === "form" && !("submit" in node.dataset)) return;
  for (const { name } of [...node.attributes]) {
    if (!next.hasAttribute(name) && !isOwn(node, name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value && !isOwn(node, name)) node.setAttribute(name, value);
  }
  updateChildren(node, next);
}

function isOwn(node, name) {
  return (name === "open" && node.localName === "details") || (name === "tabindex" && node.id === "main");
}

function updateChildren(node, next) {
  const kept = new Set([...next.children].map(keyOf));
  const byKey = new Map();
  for (const child of [...node.children]) {
    const key = keyOf(child);
    if (key && !kept.has(key)) child.remove();
    else if (key) byKey.set(key, child);
  }
  let spot = node.firstChild;
  for (const wish of next.childNodes) {
    const key = keyOf(wish);
    const match = key ? byKey.get(key) : spot;
    if (key && match !== undefined) {
      while (spot !== null && spot !== match && !keyOf(spot)) spot = dropped(spot);
    }
    if (match && fits(match, wish)) {
      if (match === spot) spot = spot.nextSibling;
      else node.insertBefore(match, spot);
      update(match, wish);
    } else {
      node.insertBefore(document.importNode(wish, true), spot);
    }
  }
  while (spot !== null) spot = dropped(spot);
}

function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/* What names a row among its neighbours, so that it stays the same element when others come. */
function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? (node.dataset.key ?? node.id) : "";
}

function fits(node, wish) {
  return node.nodeName === wish.nodeName && keyOf(node) === keyOf(wish);
}

/* Controls */

function pause() {
  isPaused = !isPaused;
  button.textContent = isPaused ? "Continue" : "Pause";
  if (isPaused) {
    end();
    say("Paused");
  } else {
    attempts = 0;
    begin();
  }
}

/* A form with data-submit shows its page as soon as it is changed, in place of this one. */
async function changed(event) {
  const form = event.target.form;
  if (!form || !("submit" in form.dataset)) return;
  const address = new URL(form.action);
  address.search = new URLSearchParams(new FormData(form)).toString();
  wanted?.abort();
  wanted = new AbortController();
  const mine = wanted;
  try {
    await load(address, mine.signal);
    history.replaceState(null, "", address);
  } catch {
    if (wanted === mine) form.submit(); // the page itself has the sentence
  }
}

document.addEventListener("change", changed);
if (document.body.dataset.stream) {
  button.addEventListener("click", pause);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) end();
    else begin();
  });
  addEventListener("pagehide", end);
  addEventListener("pageshow", begin);
  begin();
}
