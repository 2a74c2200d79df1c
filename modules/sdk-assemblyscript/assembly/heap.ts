// The heap of a step: it only grows. A step is short and its instance is thrown away, so freeing would be work for
// nothing. It takes the place of the compiler's own (asconfig.json), whose variables need a start function, which
// the kernel does not run (spec/sandbox.md).

// The first free address, 8-aligned; 0 before the first use.
let top: usize = 0;

// The compiler expects this header before each object: its class, and its size in bytes.
// @ts-ignore: decorator
@inline const HEADER: usize = 8;
// @ts-ignore: decorator
@inline const PAGE_BITS: usize = 16;

function take(size: usize): usize {
  const start = top ? top : (__heap_base + 7) & ~7;
  const end = start + ((size + 7) & ~7);
  if (end < start || size > 0xffff_0000) unreachable();
  const have = <usize>memory.size() << PAGE_BITS;
  if (end > have) {
    const needed = <i32>((end - have + 0xffff) >>> PAGE_BITS);
    // Twice as much at once, so that a buffer that grows does not ask each time.
    if (memory.grow(max(memory.size(), needed)) < 0 && memory.grow(needed) < 0) unreachable();
  }
  top = end;
  return start;
}

/** Set aside `size` bytes for the kernel to write the input into. Traps when memory cannot grow. */
export function alloc(size: i32): i32 {
  return <i32>take(<usize>(<u32>size));
}

export function allocate(size: usize): usize {
  return make(size, 0);
}

export function reallocate(block: usize, size: usize): usize {
  return resize(block, size);
}

export function free(_block: usize): void {}

export function make(size: usize, id: u32): usize {
  const object = take(size + HEADER) + HEADER;
  store<u32>(object - 8, id);
  store<u32>(object - 4, <u32>size);
  return object;
}

/** The last object grows and shrinks where it is; another is copied when it grows. */
export function resize(object: usize, size: usize): usize {
  const before = <usize>load<u32>(object - 4);
  if (object + ((before + 7) & ~7) == top) {
    top = object;
    take(size);
  } else if (size > before) {
    const moved = make(size, load<u32>(object - 8));
    memory.copy(moved, object, before);
    return moved;
  }
  store<u32>(object - 4, <u32>size);
  return object;
}
