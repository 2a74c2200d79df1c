// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.

import * as aos from "aos-sdk";

/** Whether a workflow logs. */
export const LOG: bool = false;

/** shop/Placed@1 */
export class Placed extends aos.Schema {
  constructor(
    public order_id: string = "",
    public by: u64 = 0,
  ) {
    super();
  }

  static readFrom(r: aos.Reader): Placed {
    r.record(2);
    r.key("by");
    const by: u64 = r.nat();
    r.key("order_id");
    const order_id: string = r.text();
    return new Placed(order_id, by);
  }

  schemaName(): string {
    return "shop/Placed@1";
  }

  writeTo(w: aos.Writer): void {
    w.record(2);
    w.key("by");
    w.nat(this.by);
    w.key("order_id");
    w.text(this.order_id);
  }
}
