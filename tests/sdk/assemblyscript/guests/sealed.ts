import { run } from "aos-sdk";
import { CardWorkflow, Given } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Card extends CardWorkflow {
  onEvent(event: Given): void {
    if (this.state.last.isEmpty) this.state.first = event.card;
    this.state.last = event.card;
    this.state.all.push(event.card);
  }
}

export function card(pointer: i32, length: i32): u64 {
  return run<Card>(pointer, length);
}
