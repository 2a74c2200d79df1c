// Everything that a workflow, and the code that is generated for it, imports from "aos-sdk".
export { addMonths, CalendarDate, DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, WEEK_NS } from "./assembly/calendar";
export { cx, Status } from "./assembly/context";
export { Effect } from "./assembly/effect";
export { alloc } from "./assembly/heap";
export { postJson, responseJson } from "./assembly/http";
export { Json, JsonKind } from "./assembly/json";
export { parseJson } from "./assembly/json_reader";
export { encodeBytes, encodeInt, encodeNat, encodeText } from "./assembly/keys";
export { failed, Outcome, OutcomeKind, succeeded } from "./assembly/outcome";
export { migrate, Migration } from "./assembly/migration";
export { aos_panic } from "./assembly/panic";
export { Pending, PendingSet, readPending, Settled } from "./assembly/pending";
export { Reader } from "./assembly/reader";
export * from "./assembly/system";
export { dec128, hash, uuid } from "./assembly/text";
export { Schema, Some, Unit } from "./assembly/value";
export { run, Workflow } from "./assembly/workflow";
export { Writer } from "./assembly/writer";
