import { run } from "aos-sdk";
import { AItem, BItem, AMap, AMapTag, ItemV2, OddNamesOneWorkflow, Put, State, TextList } from "./generated";
export { alloc, aos_panic } from "aos-sdk";

class Odd extends OddNamesOneWorkflow {
  onEvent(event: Put): void {
    const item = new AItem();
    item.class_ = "c";
    item.x_y = 1;
    item.x_y_ = 2;
    item._1st = 3;
    item._ = "e";
    item.Item_ = "i";
    item.tag_ = "t";
    item.r_ = 4;
    item.length = 5;
    this.state = event.put.map.tag == AMapTag.a_b
      ? new State(AMap.new_(new ItemV2(new BItem(item))), new TextList(["x"]))
      : event.put;
  }
}

export function step(pointer: i32, length: i32): u64 {
  return run<Odd>(pointer, length);
}
