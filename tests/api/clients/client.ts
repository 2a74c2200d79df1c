// Use a node with the types that openapi-typescript has made: PROGRAM URL TOKEN. The compiler checks
// the types of every field that is read here, and the program what the node answers.

import createClient from "openapi-fetch";
import type { components, paths } from "./made.js";

type Step = components["schemas"]["StepRecord"];

function check(isTrue: boolean, what: unknown): asserts isTrue {
  if (!isTrue) throw new Error(JSON.stringify(what));
}

const [url, token] = process.argv.slice(2);
check(url !== undefined && token !== undefined, "expected URL TOKEN");
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${token}` },
});

const sent = await client.POST("/v1/events", {
  params: { query: { wait: "settled" } },
  body: { schema: "trip/Requested@1", value: { trip_id: "typescript", city: "Lisbon" } },
});
check(sent.data !== undefined && "seq" in sent.data, sent.error);
const [reached] = sent.data.to ?? [];
check(reached?.key === "typescript" && reached.status === "completed", sent.data);

const { data: world } = await client.GET("/v1/world");
check(world !== undefined && "journal" in world, world); // a group answers with its shards
check(world.path === null && world.journal.records >= sent.data.seq, world);
const cell = await client.GET("/v1/cell", {
  params: { query: { workflow: reached.workflow, key: "typescript" } },
});
check(cell.data !== undefined && cell.data.version.is_pinned === false, cell.error);
const reasons: string[] = cell.data.reasons.map((each) => each.text);
check(reasons.length >= 0, reasons);

const records = await client.GET("/v1/records", {
  params: { query: { from: 1, limit: 1000 } },
});
check(records.data !== undefined, records.error);
const steps: Step[] = records.data.records.filter((each): each is Step => each.kind === "step");
check(steps.some((each) => each.cell.key === "typescript"), steps);

const trace = await client.GET("/v1/trace", { params: { query: { seq: sent.data.seq } } });
check(trace.data !== undefined && "roots" in trace.data, trace.error);
check(trace.data.roots[0]?.children[0]?.kind === "step", trace.data);

const retried = await client.POST("/v1/work/retry", { body: { all_parked: true } });
check(retried.data?.tasks.length === 0, retried.error);

const absent = await client.GET("/v1/cell", {
  params: { query: { workflow: reached.workflow, key: "absent" } },
});
check(absent.error?.rule === "cell_is_unknown" && absent.error.status === 404, absent.error);
