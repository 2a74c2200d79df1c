//! Random values of random schemas go through the interpreter and come back as the same bytes.

use std::fmt::Write;

use aos_sdk::cbor;
use monty::{FunctionCall, MontyRun, RunProgress};
use monty_types::unstable::{self, MontyNode};
use monty_types::{CompileOptions, MontyObject, PrintWriter, ResourceTracker};
use pyflow::types::{Schemas, Type};
use pyflow::values::Values;

const ROUNDS: u64 = 60;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

/// A type expression; the names are those of earlier schemas.
fn random_type(random: &mut Random, names: &[String], depth: u32) -> Type {
    let plain = [
        Type::Bool,
        Type::Int,
        Type::Nat,
        Type::Dec128,
        Type::Bytes,
        Type::Text,
        Type::Time,
        Type::Duration,
        Type::Hash,
        Type::Uuid,
        Type::Unit,
    ];
    let inner = |random: &mut Random| Box::new(random_type(random, names, depth - 1));
    match if depth == 0 { 9 } else { random.below(10) } {
        0 => Type::List(inner(random)),
        1 => Type::Set(inner(random)),
        2 => {
            // An option of an option, or of a unit, cannot be told from none (V-25).
            let of = [Type::Nat, Type::Text, Type::List(inner(random)), Type::Dec128];
            Type::Option(Box::new(random.of(&of)))
        }
        3 => {
            let keys = [Type::Int, Type::Nat, Type::Text, Type::Uuid, Type::Hash];
            Type::Map(Box::new(random.of(&keys)), inner(random))
        }
        4 => Type::Record(parts(random, names, depth)),
        5 => Type::Variant(parts(random, names, depth)),
        6 | 7 if !names.is_empty() => Type::Ref(random.of(names)),
        _ => random.of(&plain),
    }
}

/// Fields or arms, in the canonical order of their names.
fn parts(random: &mut Random, names: &[String], depth: u32) -> Vec<(String, Type)> {
    let mut words: Vec<String> = ["a", "b", "is_paid", "Class", "a b", "größe", "self", "x1"]
        .iter()
        .filter(|_| random.chance())
        .map(|word| (*word).to_owned())
        .collect();
    if words.is_empty() {
        words.push("only".to_owned());
    }
    words.sort_by_key(|word| (word.len(), word.clone()));
    words.into_iter().map(|word| (word, random_type(random, names, depth - 1))).collect()
}

/// The canonical bytes of a random value, written without the code under test.
fn random_value(random: &mut Random, schemas: &Schemas, of: &Type) -> Vec<u8> {
    let mut out = Vec::new();
    match of {
        Type::Bool => cbor::write_bool(random.chance(), &mut out),
        Type::Int => {
            let edges = [0, -1, i64::MIN, i64::MAX, random.next() as i64, random.below(100) as i64];
            cbor::write_int(random.of(&edges), &mut out);
        }
        Type::Nat => {
            let edges = [0, 23, 24, u64::MAX, 1 << 63, i64::MAX as u64, random.next()];
            cbor::write_nat(random.of(&edges), &mut out);
        }
        Type::Dec128 => {
            let texts = [
                "0",
                "-1",
                "0.1",
                "-0.0000000000000000000000000000000001",
                "1200",
                "9999999999999999999999999999999999",
                "-12345678901234567.89012345678901234",
            ];
            cbor::write_text(random.of(&texts), &mut out);
        }
        Type::Bytes => {
            let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
            cbor::write_bytes(&bytes, &mut out);
        }
        Type::Text => {
            let texts = ["", "tea", "é\u{301}\0\u{1f600}\u{fffe}", "$tag", "'\"\\\n", "None"];
            cbor::write_text(random.of(&texts), &mut out);
        }
        Type::Time | Type::Duration => {
            let us = [0, -1, i64::MIN / 1_000, i64::MAX / 1_000, random.next() as i64 / 1_000];
            cbor::write_int(random.of(&us) * 1_000, &mut out);
        }
        Type::Hash => {
            let lengths = [("blake3", 64), ("sha256", 64), ("sha384", 96), ("sha512", 128)];
            let (algorithm, length) = random.of(&lengths);
            cbor::write_text(&format!("{algorithm}:{}", hex(random, length)), &mut out);
        }
        Type::Uuid => {
            let digits = hex(random, 32);
            let (a, b, c, d, e) =
                (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
            cbor::write_text(&format!("{a}-{b}-{c}-{d}-{e}"), &mut out);
        }
        Type::Unit => cbor::write_null(&mut out),
        Type::List(of) => {
            let count = random.below(4);
            cbor::write_list(count as usize, &mut out);
            (0..count).for_each(|_| out.extend(random_value(random, schemas, of)));
        }
        Type::Set(of) => {
            let mut all: Vec<_> =
                (0..random.below(4)).map(|_| random_value(random, schemas, of)).collect();
            all.sort();
            all.dedup();
            cbor::write_list(all.len(), &mut out);
            out.extend(all.concat());
        }
        Type::Option(of) => match random.chance() {
            true => cbor::write_null(&mut out),
            false => out = random_value(random, schemas, of),
        },
        Type::Map(key, of) => {
            let mut all: Vec<_> = (0..random.below(4))
                .map(|_| (random_value(random, schemas, key), random_value(random, schemas, of)))
                .collect();
            all.sort();
            all.dedup_by(|one, other| one.0 == other.0);
            cbor::write_map(all.len(), &mut out);
            all.into_iter().for_each(|(key, value)| out.extend([key, value].concat()));
        }
        Type::Record(fields) => {
            cbor::write_map(fields.len(), &mut out);
            for (name, of) in fields {
                cbor::write_text(name, &mut out);
                out.extend(random_value(random, schemas, of));
            }
        }
        Type::Variant(arms) => {
            let (name, of) = random.of(arms);
            cbor::write_arm(&name, of != Type::Unit, &mut out);
            if of != Type::Unit {
                out.extend(random_value(random, schemas, &of));
            }
        }
        Type::Ref(name) => out = random_value(random, schemas, &schemas.get(name).unwrap()),
    }
    out
}

fn hex(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])).collect()
}

/// A program that registers a class for each schema, and hands back a deep copy of each value.
fn program(classes: usize) -> String {
    let mut code = "import copy\nfrom dataclasses import dataclass\n".to_owned();
    for number in 0..classes {
        let frozen = if number % 2 == 0 { "@dataclass" } else { "@dataclass(frozen=True)" };
        writeln!(
            code,
            "{frozen}\nclass C{number}:\n    only: int\nregister('t/S{number}@1', C{number})"
        )
        .unwrap();
    }
    code + "while True:\n    swap(copy.deepcopy(swap(None)))\n"
}

fn started(classes: usize) -> RunProgress {
    let names = vec!["register".to_owned(), "swap".to_owned()];
    let functions = names.iter().map(|name| MontyObject::function(name.clone(), None)).collect();
    MontyRun::new(program(classes), "flow.py", names, CompileOptions::default())
        .unwrap()
        .start(functions, ResourceTracker::default(), PrintWriter::Disabled)
        .unwrap()
}

fn called(progress: RunProgress) -> FunctionCall {
    progress.into_function_call().expect("the program calls a function of the host")
}

fn answered(call: FunctionCall, value: MontyObject) -> FunctionCall {
    called(call.resume(value, PrintWriter::Disabled).unwrap())
}

/// Random schemas, the first ones with classes, and the paused program with these classes.
fn world(random: &mut Random) -> (Values, Vec<String>, FunctionCall) {
    let mut schemas = Schemas::default();
    let mut names = Vec::new();
    for number in 0..6 {
        let name = format!("t/S{number}@1");
        let of = match number < 4 {
            true => Type::Record(parts(random, &names, 3)),
            false => random_type(random, &names, 3),
        };
        schemas.insert(&name, of);
        names.push(name);
    }
    let mut values = Values::new(schemas);
    let mut call = called(started(4));
    while call.function_name == "register" {
        let schema = call.args.arg(0).unwrap().as_str().unwrap().to_owned();
        let MontyNode::ClassType(class) = unstable::node(call.args.arg(1).unwrap()) else {
            panic!("a class")
        };
        values.register(&schema, &class.name, class.id);
        call = answered(call, MontyObject::none());
    }
    (values, names, call)
}

#[test]
fn each_value_of_each_schema_comes_back_as_the_same_bytes() {
    for seed in 0..ROUNDS {
        let random = &mut Random(seed);
        let (values, names, mut call) = world(random);
        for _ in 0..20 {
            let of = match random.chance() {
                true => Type::Ref(random.of(&names)),
                false => random_type(random, &names, 4),
            };
            let bytes = random_value(random, &values.schemas, &of);
            let object =
                values.read(&of, &bytes).unwrap_or_else(|why| panic!("{seed} {of:?}: {why}"));
            assert_eq!(values.write_object(&of, &object), Ok(bytes.clone()), "{seed} {of:?}");

            call = answered(call, object);
            let back = call.args.arg(0).unwrap();
            assert_eq!(values.write(&of, back), Ok(bytes.clone()), "{seed} {of:?}");

            let stored = values.write_dynamic(back).unwrap_or_else(|why| panic!("{seed}: {why}"));
            let again = values.read_dynamic(&stored).unwrap();
            assert_eq!(values.write_object(&of, &again), Ok(bytes), "{seed} {of:?}");
            call = answered(call, MontyObject::none());
        }
    }
}

#[test]
fn no_damaged_bytes_are_read_as_another_value() {
    for seed in 0..ROUNDS {
        let random = &mut Random(seed);
        let (values, names, _) = world(random);
        let of = Type::Ref(random.of(&names));
        let mut bytes = random_value(random, &values.schemas, &of);
        for end in 0..bytes.len() {
            assert!(values.read(&of, &bytes[..end]).is_err());
        }
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        // Each value has a single form, so a value that is read is written as the same bytes.
        if let Ok(object) = values.read(&of, &bytes) {
            assert_eq!(values.write_object(&of, &object), Ok(bytes), "{seed} {of:?}");
        }
    }
}

#[test]
fn a_value_of_another_type_is_refused_with_its_path() {
    let mut schemas = Schemas::default();
    let items = Type::List(Box::new(Type::Record(vec![("cents".to_owned(), Type::Nat)])));
    schemas.insert("shop/Order@1", Type::Record(vec![("items".to_owned(), items)]));
    let values = Values::new(schemas);
    let of = Type::Ref("shop/Order@1".to_owned());
    let order = |cents: MontyObject| {
        let item = MontyObject::dict([(MontyObject::string("cents"), cents)]);
        MontyObject::dict([(MontyObject::string("items"), MontyObject::list([item]))])
    };
    let why = |value| values.write_object(&of, &value).map_err(|unfit| unfit.to_string());
    for (cents, found) in [
        (MontyObject::int(-1), "int -1"),
        (MontyObject::bool(true), "bool True"),
        (MontyObject::float(1.5), "float 1.5"),
        (MontyObject::string("1"), "str '1'"),
        (MontyObject::none(), "None"),
        (MontyObject::bigint(num_bigint::BigInt::from(1u8) << 64), "int of 65 bits"),
        (MontyObject::list([]), "list"),
    ] {
        let expected = format!("$.items[0].cents: expected nat, found {found}");
        assert_eq!(why(order(cents)), Err(expected));
    }
    let unknown = MontyObject::dict([(MontyObject::string("total"), MontyObject::int(1))]);
    let expected = "$: expected no field but those of the schema, found the field 'total'";
    assert_eq!(why(unknown), Err(expected.to_owned()));
    assert_eq!(
        why(MontyObject::dict([])),
        Err("$.items: expected list, found no such field".to_owned())
    );
}

#[test]
fn ordinary_values_of_python_go_through_a_history() {
    let values = Values::default();
    let big: num_bigint::BigInt = num_bigint::BigInt::from(1u8) << 200;
    for value in [
        MontyObject::bigint(-big),
        MontyObject::tuple([MontyObject::int(1), MontyObject::tuple([])]),
        MontyObject::dict([(MontyObject::int(1), MontyObject::string("$set"))]),
        MontyObject::dict([(MontyObject::string("$set"), MontyObject::none())]),
        MontyObject::set([MontyObject::string("a"), MontyObject::string("b")]),
        MontyObject::decimal("1.20"),
    ] {
        let bytes = values.write_dynamic(value.as_ref()).unwrap();
        assert_eq!(values.read_dynamic(&bytes), Ok(value));
    }
    for value in [MontyObject::float(0.5), MontyObject::path("/x")] {
        let unfit = values.write_dynamic(value.as_ref()).unwrap_err();
        assert_eq!(unfit.expected, "a value that a history can store");
    }
}
