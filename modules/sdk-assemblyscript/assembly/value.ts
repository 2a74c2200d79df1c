import { Writer } from "./writer";

/** A value of a schema that has a name: what can be emitted. Generated classes extend it. */
export abstract class Schema {
  abstract schemaName(): string;
  abstract writeTo(w: Writer): void;
}

/** An option of a number or a bool that is there: `new Some<u64>(5)`. One that is not there is null. */
export class Some<T> {
  constructor(public value: T) {}
}

/** The one value of the type unit. */
export class Unit {}
