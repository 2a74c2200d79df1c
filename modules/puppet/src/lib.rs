//! A workflow that does what its event says. The operations are in this module's README.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Display, Formatter};
use core::hint::black_box;

use aos_abi::envelope::run;
use aos_abi::read::{arm, text, Record};
use aos_abi::{decode, encode, memory, Fault, Input, Output, Status, Value};

const OPERATIONS: [&str; 14] = [
    "out",
    "trap",
    "panic",
    "loop",
    "recurse",
    "eat_memory",
    "big_output",
    "bad_pointer",
    "fault",
    "delete",
    "keep",
    "count",
    "echo_input",
    "recode",
];

/// Longer than any memory that a guest may have.
const NOWHERE: u64 = 0xffff_fff0_0000_0100;

/// The form `(ptr, len) -> ptr << 32 | len`.
#[no_mangle]
pub extern "C" fn step(pointer: u32, length: u32) -> u64 {
    let mut nowhere = false;
    let packed = memory::call(pointer, length, |input| perform(input, &mut nowhere));
    if nowhere {
        NOWHERE
    } else {
        packed
    }
}

/// The form `(ret, ptr, len)`.
///
/// # Safety
/// `ret` must be the address of eight bytes that are the caller's to write.
#[no_mangle]
pub unsafe extern "C" fn step_returning_at(ret: u32, pointer: u32, length: u32) {
    unsafe { memory::call_returning_at(ret, pointer, length, |input| perform(input, &mut false)) }
}

fn perform(bytes: &[u8], nowhere: &mut bool) -> Vec<u8> {
    let operation = match Input::read(bytes).and_then(|input| operation(&input.event.value)) {
        Ok(operation) => operation,
        Err(fault) => return encode(&fault.into()),
    };
    let argument = &operation.argument;
    match operation.name.as_str() {
        "out" => match argument {
            Value::Bytes(output) => output.clone(),
            _ => encode(&Fault::new("puppet", "out: expected bytes").into()),
        },
        "recode" => encode(&match argument {
            Value::Bytes(bytes) => match decode(bytes) {
                Ok(value) => keeping(Value::Bytes(encode(&value))).into(),
                Err(malformed) => Fault::from(malformed).into(),
            },
            _ => Fault::new("puppet", "recode: expected bytes").into(),
        }),
        "echo_input" => encode(&keeping(Value::Bytes(bytes.to_vec())).into()),
        "big_output" => vec![0; size(argument)],
        "bad_pointer" => {
            *nowhere = true;
            Vec::new()
        }
        "trap" => core::arch::wasm32::unreachable(),
        "panic" => give_up(text(argument).unwrap_or("in no particular way")),
        "loop" => loop {
            black_box(());
        },
        "recurse" => {
            black_box(recurse(size(argument) as u64));
            run(bytes, count)
        }
        "eat_memory" => {
            eat(size(argument));
            run(bytes, count)
        }
        "fault" => encode(&Fault::new("puppet", text(argument).unwrap_or("as asked")).into()),
        "delete" => encode(&Output::default().into()),
        "keep" => run(bytes, |input| Ok(Output { state: input.state, ..Output::default() })),
        _ => run(bytes, count),
    }
}

struct Operation {
    name: String,
    argument: Value,
}

/// Find the operation in an event that may be wrapped in its arm: a variant, a record with a variant
/// in its field `do`, or a record whose first field of an operation's name is neither null nor
/// false. A receipt names it in `issuer_ref`. Anything else is counted.
fn operation(event: &Value) -> Result<Operation, Fault> {
    let inside = arm(event).map_or(event, |(_, value)| value);
    let record = Record::new(inside)?;
    if let Ok((name, argument)) = arm(inside).or_else(|_| record.arm("do")) {
        return Ok(Operation { name: String::from(name), argument: argument.clone() });
    }
    if let Some(reference) = record.optional_text("issuer_ref") {
        return Ok(from_issuer_ref(reference));
    }
    let is_asked = |name: &&&str| !matches!(record.get(name), Value::Null | Value::Bool(false));
    let name = OPERATIONS.iter().find(is_asked).copied().unwrap_or("count");
    Ok(Operation { name: String::from(name), argument: record.get(name).clone() })
}

/// `out:<hex>`, or the name of an operation without an argument.
fn from_issuer_ref(reference: &str) -> Operation {
    match reference.strip_prefix("out:") {
        Some(hex) => Operation { name: String::from("out"), argument: Value::Bytes(unhex(hex)) },
        None => Operation { name: String::from(reference), argument: Value::Null },
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The state counts the steps: null, 1, 2 … A state that is no number stays as it is.
fn count(input: Input) -> Result<Output, Fault> {
    Ok(keeping(match input.state {
        None => Value::Nat(1),
        Some(Value::Nat(number)) => Value::Nat(number.wrapping_add(1)),
        Some(state) => state,
    }))
}

fn keeping(state: Value) -> Output {
    Output { state: Some(state), status: Some(Status::Running), ..Output::default() }
}

/// A number of bytes; anything but a number asks for as much as there is.
fn size(argument: &Value) -> usize {
    match argument {
        Value::Nat(number) => usize::try_from(*number).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

/// Panic in this way; of another, with its name for words.
fn give_up(way: &str) -> Vec<u8> {
    let (egg, eggs, sum) = black_box((None::<u8>, [1, 2, 3], u64::MAX));
    match way {
        "literal" => panic!("out of eggs"),
        "unwrap" => vec![egg.unwrap()],
        "expect" => vec![egg.expect("an egg")],
        "error" => vec![egg.ok_or(Broken("yolk")).unwrap()],
        "index" => vec![eggs[way.len()]],
        "overflow" => (sum + way.len() as u64).to_le_bytes().to_vec(),
        "assert" => {
            assert_eq!(eggs.len(), way.len());
            Vec::new()
        }
        "long" => panic!("{}", "🥚".repeat(1000)),
        "while it speaks" => panic!("of {}", Broken("shell")),
        "capacity" => Vec::with_capacity(sum as usize),
        other => panic!("{other}"),
    }
}

/// Can be shown by its fields, and panics when it is to be shown to people.
#[derive(Debug)]
struct Broken(#[allow(dead_code)] &'static str);

impl Display for Broken {
    fn fmt(&self, _: &mut Formatter) -> core::fmt::Result {
        panic!("again")
    }
}

/// Take `bytes` of memory and touch all of it. Traps where there is no more.
fn eat(bytes: usize) {
    const BITE: usize = 65_536;
    for _ in 0..bytes.div_ceil(BITE) {
        black_box(vec![1u8; BITE].leak());
    }
}

/// Neither a loop in disguise nor a user of the guest's own stack: only calls within calls.
fn recurse(depth: u64) -> u64 {
    if depth == 0 {
        return 1;
    }
    let below = recurse(depth - 1);
    below.rotate_left((below ^ depth) as u32).wrapping_add(depth)
}
