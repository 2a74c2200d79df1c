// Events for other worlds in the same folder: `sys/world.send@1`.

import { WorldSendEffect, WorldSendParams } from "./system";
import { Schema } from "./value";
import { Writer } from "./writer";

/** Send `event` to the world of this name. It is admitted once, or the workflow is told why not. */
export function sendTo(to: string, event: Schema): WorldSendEffect {
  const w = new Writer();
  event.writeTo(w);
  return new WorldSendEffect(new WorldSendParams(to, event.schemaName(), w.toBytes()));
}
