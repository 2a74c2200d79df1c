import { cx, EffectReceiptEnvelope, encodeText, Some, Status } from "aos-sdk";
import {
  Act,
  ActActTag,
  Acted,
  Annotate,
  AnnotatedWorkflow,
  ContextWorkflow,
  EmitterWorkflow,
  LOG,
  LoggedWorkflow,
  Look,
  Note,
  Said,
  Say,
  StatusWorkflow,
  Work,
  WorkEffect,
  Write,
} from "./generated";

export class Emitter extends EmitterWorkflow {
  onSay(event: Say): void {
    for (let i = 0; i < event.to.length; ++i) {
      const name = event.to[i];
      const said = new Said(event.from, name);
      if (event.with_key) cx.emitWithKey(said, encodeText(name));
      else cx.emit(said);
    }
  }

  onSaid(event: Said): void {
    this.state.heard.push(event.from);
  }
}

export class StatusOf extends StatusWorkflow {
  onAct(event: Act): void {
    this.state.steps += 1;
    const act = event.act;
    switch (act.tag) {
      case ActActTag.Run:
        cx.status(Status.Running);
        break;
      case ActActTag.Complete:
        cx.status(Status.Completed);
        break;
      case ActActTag.Fail:
        cx.status(Status.Failed);
        break;
      case ActActTag.Delete:
        cx.deleteCell();
        break;
      case ActActTag.DeleteAndAsk:
        cx.deleteCell();
        cx.ask(new WorkEffect(new Work("late", 0)));
        break;
      case ActActTag.Fault:
        cx.fault(act.fault.kind, act.fault.message);
        break;
      case ActActTag.FaultLate:
        cx.emit(new Acted(this.state.steps));
        cx.ask(new WorkEffect(new Work("late", 0)));
        cx.status(Status.Completed);
        cx.fault("late", "after all");
        break;
      case ActActTag.Trap:
        assert(false, "as asked");
    }
  }

  onReceipt(_event: EffectReceiptEnvelope): void {}
}

export class Annotated extends AnnotatedWorkflow {
  onEvent(event: Annotate): void {
    this.state.steps += 1;
    for (let i = 0; i < event.texts.length; ++i) this.annotate(new Note(this.state.steps, event.texts[i]));
  }
}

export class Logged extends LoggedWorkflow {
  onEvent(event: Write): void {
    this.state.steps += 1;
    for (let i = 0; i < event.lines.length; ++i) {
      if (LOG) cx.log(event.lines[i]);
    }
  }
}

export class ContextOf extends ContextWorkflow {
  onEvent(event: Look): void {
    const context = cx.context();
    const view = this.state;
    view.now_ns = cx.now();
    view.logical_now_ns = cx.journalNow();
    view.journal_height = context.journal_height;
    view.entropy = context.entropy;
    view.event_hash = context.event_hash;
    view.manifest_hash = context.manifest_hash;
    view.workflow = context.workflow;
    view.workflow_hash = context.workflow_hash;
    view.key = new Some<i64>(this.key);
    view.cell_mode = context.cell_mode;
    view.random = [cx.random(), cx.random(), cx.random()];
    view.below = new Array<u64>();
    for (let i = 0; i < event.below.length; ++i) view.below.push(cx.below(event.below[i]));
    view.bytes = cx.randomBytes(<i32>event.bytes);
    view.uuid = cx.uuid();
  }
}
