import { Writer } from "./writer";

/** A value of a named schema, which a step can emit. Generated classes extend this class. */
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
