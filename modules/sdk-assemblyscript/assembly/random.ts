// Chance out of the context's entropy (spec/sdk.md SD-11 to SD-14): xoshiro256**.

import { context } from "./step";

let seeded: bool = false;
let s0: u64 = 0;
let s1: u64 = 0;
let s2: u64 = 0;
let s3: u64 = 0;

function mix(z: u64): u64 {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

function word(entropy: Uint8Array, index: i32): u64 {
  const at = index << 3;
  return at + 8 <= entropy.length ? load<u64>(entropy.dataStart + <usize>at) : 0;
}

function seed(entropy: Uint8Array, index: i32): u64 {
  return mix(word(entropy, index) + <u64>(index + 1) * 0x9e3779b97f4a7c15) ^ word(entropy, index + 4);
}

export function draw(): u64 {
  if (!seeded) {
    const entropy = context().entropy;
    s0 = seed(entropy, 0);
    s1 = seed(entropy, 1);
    s2 = seed(entropy, 2);
    s3 = seed(entropy, 3);
    seeded = true;
  }
  const result = rotl<u64>(s1 * 5, 7) * 9;
  const t = s1 << 17;
  s2 ^= s0;
  s3 ^= s1;
  s1 ^= s2;
  s0 ^= s3;
  s2 ^= t;
  s3 = rotl<u64>(s3, 45);
  return result;
}

export function drawBelow(bound: u64): u64 {
  assert(bound, "no number is below 0");
  const most = bound - 1;
  const mask: u64 = most ? <u64>-1 >> clz<u64>(most) : 0;
  let found: u64;
  do found = draw() & mask;
  while (found > most);
  return found;
}

export function drawBytes(size: i32): Uint8Array {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 8) {
    const word = draw();
    for (let i = 0; i < 8 && at + i < size; ++i) bytes[at + i] = <u8>(word >> (<u64>i << 3));
  }
  return bytes;
}

export function drawUuid(): string {
  const bytes = drawBytes(16);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const text = __new(72, idof<string>());
  let to = text;
  for (let i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      store<u16>(to, 0x2d);
      to += 2;
    }
    store<u16>(to, digit(bytes[i] >> 4));
    store<u16>(to, digit(bytes[i] & 15), 2);
    to += 4;
  }
  return changetype<string>(text);
}

function digit(value: u8): u16 {
  return value < 10 ? 0x30 + value : 0x57 + value;
}
