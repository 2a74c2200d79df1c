// The output of the step so far. Each step runs in a fresh instance, so there is only one.

import { Reader } from "./reader";
import { WorkflowContext } from "./system";
import { Writer } from "./writer";

export class Step {
  static context: Reader | null = null;
  static read: WorkflowContext | null = null;

  static faultKind: string | null = null;
  static faultMessage: string = "";
  static status: string | null = null;
  static deleted: bool = false;

  static events: Writer | null = null;
  static eventCount: i32 = 0;
  static effects: Writer | null = null;
  static effectCount: i32 = 0;
  static annotation: Writer | null = null;

  static logs: bool = false;
  static lines: Array<string> | null = null;
}

/** The first fault is the step's. */
export function fault(kind: string, message: string): void {
  if (Step.faultKind !== null) return;
  Step.faultKind = kind;
  Step.faultMessage = message;
}

/** `sys/WorkflowContext@1`; where the workflow has none, the fault that says so. */
export function context(): WorkflowContext {
  const known = Step.read;
  if (known !== null) return known;
  let read = new WorkflowContext();
  const bytes = Step.context;
  if (bytes === null) {
    fault("sdk_no_context", "the workflow does not declare sys/WorkflowContext@1");
  } else {
    read = WorkflowContext.readFrom(bytes);
    if (!bytes.done()) fault("sdk_input", "ctx: " + bytes.problem!);
  }
  Step.read = read;
  return read;
}
