// Three workflows that know each other's events, and nothing else of each other.

import { run } from "aos-sdk";
import { Delivery } from "./delivery";
import { Order } from "./order";
import { Payment } from "./payment";

export { alloc, aos_panic } from "aos-sdk";

export function order(pointer: i32, length: i32): u64 {
  return run<Order>(pointer, length);
}

export function payment(pointer: i32, length: i32): u64 {
  return run<Payment>(pointer, length);
}

export function delivery(pointer: i32, length: i32): u64 {
  return run<Delivery>(pointer, length);
}
