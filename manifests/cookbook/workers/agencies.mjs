// The effects of ../saga in JavaScript: booking and canceling at three agencies.
//
//     AOS_NODE=http://127.0.0.1:7460 node manifests/cookbook/workers/agencies.mjs
//
// AOS_TOKEN is the secret of a token with the scope work, if the node asks for one. The functions do
// the same as those of ../saga/effects.py.

import { EffectFailed, NodeRefused, Worker } from "./worker.mjs";

const SOLD_OUT = new Set(["Hotel Atlantis", "Car Limbo"]);
const CANCELS_NOTHING = new Set(["Hotel Limbo"]);

/** A unit arm of a variant arrives as {"$tag": "Hotel"}. */
const place = (params) => `${params.what.$tag} ${params.city}`;

const functions = {
  /** Book once under this key; a repeated request gets the same answer. */
  async "trip/book@1"(params, { idempotencyKey }) {
    if (SOLD_OUT.has(place(params))) throw new EffectFailed("sold_out", "nothing left");
    return { reference: `${params.what.$tag}-${idempotencyKey.slice(-8)}` };
  },

  /** Cancel by trip, so that a booking whose answer was lost is canceled too. */
  async "trip/cancel@1"(params) {
    if (CANCELS_NOTHING.has(place(params))) throw new EffectFailed("desk_is_closed", "call us on Monday");
    return { note: `canceled ${params.what.$tag} of ${params.trip_id}` };
  },
};

const url = process.env.AOS_NODE;
if (!url) {
  console.error("AOS_NODE is not set: expected the address of the node, such as http://127.0.0.1:7460");
  process.exit(2);
}
const worker = new Worker(url, functions, { token: process.env.AOS_TOKEN });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => worker.stop());
try {
  await worker.run();
} catch (error) {
  if (!(error instanceof NodeRefused)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
