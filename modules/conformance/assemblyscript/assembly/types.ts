import { cx, dec128, Some, Unit, uuid } from "aos-sdk";
import {
  DefaultsWorkflow,
  Echo,
  Everything,
  EverythingRecord,
  EverythingRecordB,
  EverythingVariant,
  EverythingVariantPair,
  Point,
  Shape,
  ShapeNamed,
  Touch,
  Build,
  TypesWorkflow,
} from "./generated";

export class Types extends TypesWorkflow {
  onPut(event: Everything): void {
    this.put(event);
  }

  onBuild(_event: Build): void {
    this.put(build());
  }

  private put(value: Everything): void {
    this.state.last = value;
    this.state.steps += 1;
    cx.emit(new Echo(value));
  }
}

export class Defaults extends DefaultsWorkflow {
  onEvent(_event: Touch): void {}
}

function build(): Everything {
  const it = new Everything();
  it.yes = true;
  it.int = i64.MIN_VALUE;
  it.nat = u64.MAX_VALUE;
  it.dec = dec128("+001.500e1")!;
  it.bytes = bytes([0, 1, 255]);
  it.text = 'é日本🎉"\\\n';
  it.time = -1;
  it.duration = 90_000_000_000;
  it.hash = "sha256:" + "a".repeat(64);
  it.uuid = uuid("00112233-4455-6677-8899-AABBCCDDEEFF")!;
  it.record = new EverythingRecord(-24, new EverythingRecordB("c"));
  it.variant = EverythingVariant.Pair(new EverythingVariantPair(24, ""));
  it.list = [23, 24, -24, -25];
  it.lists = [[], ["a", "bb"]];
  const ints: i64[] = [3, -1, 24, 3, 256, -25, 0];
  for (let i = 0; i < ints.length; ++i) it.ints.add(ints[i]);
  const texts = ["bb", "a", "", "b", "a"];
  for (let i = 0; i < texts.length; ++i) it.texts.add(texts[i]);
  it.points = [new Point(2, 1), new Point(1, 2), new Point(2, 1), new Point(-1, 0)];
  it.by_int.set(1, "one");
  it.by_int.set(-1, "minus one");
  it.by_int.set(1000, "thousand");
  it.by_int.set(-25, "far");
  it.by_int.set(24, "x");
  it.by_nat.set(300, new Point(3, 0));
  it.by_nat.set(2, new Point(0, 0));
  it.by_text.set("bb", []);
  it.by_text.set("b", [1, 2]);
  it.by_text.set("aaa", [0]);
  it.by_uuid.set("ffffffff-ffff-4fff-bfff-ffffffffffff", true);
  it.by_uuid.set("00000000-0000-4000-8000-000000000000", false);
  it.by_hash.set("blake3:" + "0".repeat(64), null);
  it.by_hash.set("blake3:" + "f".repeat(64), new Some<i64>(-1));
  it.maybe_nat = new Some<u64>(0);
  it.maybe_bytes = [];
  it.maybe_point = new Point(7, -7);
  it.options = [null, new Some<bool>(true), new Some<bool>(false)];
  it.point = new Point(0, 1);
  it.shape = Shape.Named(new ShapeNamed("n", null));
  it.shapes = [
    Shape.Empty(),
    Shape.Dot(new Point(1, 1)),
    Shape.Line([new Point(0, 0), new Point(1, 1)]),
    Shape.Named(new ShapeNamed("", new Point(5, 5))),
    Shape.Nothing(new Unit()),
  ];
  it.number = 7;
  it.type = "t";
  it.x_rate = 65536;
  return it;
}

export function bytes(values: u8[]): Uint8Array {
  const made = new Uint8Array(values.length);
  for (let i = 0; i < values.length; ++i) made[i] = values[i];
  return made;
}
