// Books two trips, then follows what the workflows emit until both have ended.
//
//     node dist/trips.js http://127.0.0.1:7460

import { Client, NodeError } from "./client.js";

declare const process: { argv: string[] };

const stop = new AbortController();
const client = new Client(process.argv[2] ?? "http://127.0.0.1:7460", { signal: stop.signal });

const first = await client.send("trip/Requested@1", { trip_id: "n-1", city: "Lisbon" });
console.log(`n-1: record ${first.seq}`);
await client.send("trip/Requested@1", { trip_id: "n-2", city: "Atlantis" });

try {
  await client.send("trip/Requested@1", { trip_id: "n-3" });
} catch (error) {
  if (!(error instanceof NodeError)) throw error;
  console.log(`n-3: ${error.status} ${error.problem.rule}`);
}

const schema = ["trip/Booked@1", "trip/Undone@1"];
const ended = new Set<string>();
for await (const event of client.streamFeed({ schema, from: first.seq })) {
  const { schema: name, key } = event.data as { schema: string; key: string };
  console.log(`${key}: ${name}`);
  ended.add(key);
  if (ended.size === 2) break;
}

const { cells } = (await client.readCells()) as { cells: { key: string; status: string }[] };
for (const each of cells) console.log(`${each.key}: ${each.status}`);
stop.abort();
