//! Random programs with random mail: at each turn both forms have equal bytes.

use std::collections::HashMap;
use std::ops::Range;

use aos_sdk::cbor::Reader;
use aos_sdk::{Duration, Random, Set, encode};

use crate::programs::{Bell, Done, Later, Narrow, Node, Note, Run};
use crate::world::{
    Code, Intent, Sent, World, cancel, error, failure, fired, go_on, mail, ok, rejected, resume,
    returned, start,
};

/// Programs of one test, and the most turns of each.
const PROGRAMS: u64 = 600;
const TURNS: u64 = 60;
const DEPTH: u64 = 3;

const LEAVES: [&str; 18] = [
    "step",
    "step",
    "step",
    "local",
    "emit",
    "sleep",
    "sleep_until",
    "listen",
    "listen_either",
    "listen_n",
    "listen_with_timeout",
    "listen_n_with_timeout",
    "checkpoint",
    "rollback_to",
    "commit",
    "version",
    "fail",
    "removed",
];
const BODIES: [&str; 6] = ["join", "race", "scope", "loop", "call", "spawn"];
const FLAGS: [(&str, u64); 7] = [
    ("catch", 2),
    ("rollback", 3),
    ("rollback_unknown", 4),
    ("retry_timeouts", 4),
    ("rollback_losers", 3),
    ("later", 15),
    ("earlier", 15),
];

struct Dice(Random);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Random::new(&seed.to_le_bytes()))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

fn program(dice: &mut Dice) -> Run {
    let mut nodes = Vec::new();
    let body = list(dice, DEPTH, &mut nodes);
    Run { id: "o-1".into(), nodes, body }
}

fn list(dice: &mut Dice, depth: u64, nodes: &mut Vec<Node>) -> Vec<u64> {
    let count = 1 + dice.below(4);
    (0..count).map(|at| node(dice, depth, at, nodes)).collect()
}

fn node(dice: &mut Dice, depth: u64, at: u64, nodes: &mut Vec<Node>) -> u64 {
    let op = match depth > 0 && dice.one_in(2) {
        true => *dice.pick(&BODIES),
        false => *dice.pick(&LEAVES),
    };
    let children = match op {
        "join" | "race" => {
            let count = 1 + dice.below(3);
            (0..count).map(|at| branch(dice, depth - 1, at, nodes)).collect()
        }
        _ if depth > 0 => list(dice, depth - 1, nodes),
        _ => Vec::new(),
    };
    let flags: Set<String> = FLAGS
        .iter()
        .filter(|(_, many)| dice.one_in(*many))
        .map(|(flag, _)| String::from(*flag))
        .collect();
    let limit = dice.one_in(4).then(|| Duration::seconds(dice.below(100)));
    nodes.push(Node {
        op: op.into(),
        // Now and then a name is there twice.
        name: if dice.one_in(12) { "n0".into() } else { format!("n{at}") },
        number: if dice.one_in(25) { 0 } else { 1 + dice.below(4) },
        span: Duration::from_ns(dice.below(50_000_000_000) as i64 - 1_000_000_000),
        limit,
        text: format!("n{}", dice.below(3)),
        flags,
        every: if dice.one_in(25) { 0 } else { 1 + dice.below(2) },
        keep: dice.below(3),
        nodes: children,
    });
    nodes.len() as u64 - 1
}

fn branch(dice: &mut Dice, depth: u64, at: u64, nodes: &mut Vec<Node>) -> u64 {
    let children = list(dice, depth, nodes);
    let name = format!("b{at}");
    nodes.push(Node { name, nodes: children, ..crate::operations::node("branch", "") });
    nodes.len() as u64 - 1
}

/// The requests of a flow that no answer has come to.
#[derive(Default)]
struct Open {
    intents: Vec<Intent>,
    calls: Vec<String>,
}

impl Open {
    fn add(&mut self, sent: Sent) {
        if sent.fault.is_some() {
            return;
        }
        self.intents.extend(sent.intents.into_iter().filter(|intent| intent.reference.is_some()));
        for (schema, value) in sent.events {
            if schema == "f/PartCall@1" {
                self.calls.push(path_of(&value));
            }
        }
    }
}

/// The path in the `reply` of a call.
fn path_of(call: &[u8]) -> String {
    let mut reader = Reader::new(call);
    let mut read = || {
        reader.record(2)?;
        reader.field(b"\x65input")?;
        reader.item()?;
        reader.field(b"\x65reply")?;
        reader.record(4)?;
        reader.field(b"\x63key")?;
        reader.bytes()?;
        reader.field(b"\x64path")?;
        reader.text().map(String::from)
    };
    read().expect("a call")
}

fn answer(dice: &mut Dice, intent: &Intent) -> Vec<u8> {
    let reference = intent.reference.as_deref().unwrap_or_default();
    if intent.is_timer() || intent.effect == "sys/effect.cancel@1" {
        return fired(reference);
    }
    match dice.below(10) {
        0 => error(reference, "error", "busy", true),
        1 => error(reference, "error", "broken", false),
        2 => match dice.below(5) {
            0 => error(reference, "error", "rollback", false),
            1 => error(reference, "error", "exception", false),
            2 => error(reference, "timeout", "slow", false),
            3 => error(reference, "canceled", "by_hand", false),
            _ => rejected(reference),
        },
        _ => ok(reference, &Done { note: format!("d{}", dice.below(9)) }),
    }
}

fn next(dice: &mut Dice, world: &mut World, open: &mut Open) -> Vec<u8> {
    let text = format!("m{}", dice.below(9));
    match dice.below(24) {
        0 => cancel(!dice.one_in(3)),
        1 => resume(dice.one_in(2)),
        2 | 3 => go_on(),
        4 | 5 => mail("M0", &encode(&Note { id: "o-1".into(), text })),
        6 => mail("M1", &encode(&Bell { id: "o-1".into(), text })),
        7 => start(&program(dice)),
        8 | 9 if !open.calls.is_empty() => {
            let path = open.calls.swap_remove(dice.below(open.calls.len() as u64) as usize);
            let result = encode(&text);
            match dice.one_in(3) {
                true => returned(&path, Err(&failure("rollback", "kid"))),
                false => returned(&path, Ok(&result)),
            }
        }
        _ if open.intents.is_empty() => go_on(),
        _ => {
            let at = dice.below(open.intents.len() as u64) as usize;
            let intent = match dice.one_in(12) {
                // It is answered twice.
                true => open.intents[at].clone(),
                false => open.intents.remove(at),
            };
            if intent.is_timer() {
                world.now = world.now.max(intent.due());
            }
            answer(dice, &intent)
        }
    }
}

/// Run programs from these seeds, with an upgrade now and then. How often each word was a fault, or
/// the status at the end.
fn run(seeds: Range<u64>, code: fn() -> Code, upgrade: fn() -> Code) -> HashMap<String, u64> {
    let mut ends = HashMap::new();
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let mut world = World::new(code());
        let mut open = Open::default();
        let mut event = start(&program(&mut dice));
        for _ in 0..TURNS {
            let sent = world.send(&event);
            if sent.fault.is_some() {
                *ends.entry(sent.fault().into()).or_default() += 1;
            }
            open.add(sent);
            if world.has_ended() && dice.one_in(3) {
                break;
            }
            if dice.one_in(40) {
                world.code = upgrade();
            }
            world.now += dice.below(1_000_000_000);
            event = next(&mut dice, &mut world, &mut open);
        }
        if world.state.is_some() {
            *ends.entry(world.status()).or_default() += 1;
        }
    }
    ends
}

fn later() -> Code {
    Code::nodes::<Later>("earlier")
}

/// With the smallest limits of a turn.
fn narrow() -> Code {
    Code::nodes::<Narrow>("later")
}

/// The programs came to each of these ends.
fn assert_usual(ends: &HashMap<String, u64>) {
    for end in ["completed", "failed", "cancelled", "diverged", "flow_name"] {
        assert!(ends.get(end).is_some_and(|count| *count > 3), "{end} is too rare: {ends:?}");
    }
}

#[test]
fn random_programs_have_equal_turns() {
    let ends = run(0..PROGRAMS, later, narrow);
    assert_usual(&ends);
}

#[test]
fn random_programs_with_the_smallest_limits_of_a_turn_have_equal_turns() {
    let ends = run(PROGRAMS..2 * PROGRAMS, narrow, later);
    assert_usual(&ends);
}
