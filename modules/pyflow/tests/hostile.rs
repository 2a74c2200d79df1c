//! Hostile programs end as exceptions of Python (PY-20, PY-21, PY-25), whatever the stack.

use aos_sdk::cbor::Reader;
use aos_sdk::flow::untyped::{Ended, Pause, Request};

mod support;

use support::{started, started_with};

/// Frames of a build for tests are several times as large as those of the module.
const STACK_BYTES: usize = 256 << 20;

const MAIN: &str = "
async def main(cx, go):
    if go.id == 'count':
        return str(len(CASES))
    if go.id == 'gather':
        await gathered()
        return 'ended'
    name, case = CASES[int(go.id)]
    return f'{name}: {outcome(case)}'
";

/// The result of a case.
fn result(id: &str) -> String {
    let code = format!("{}{MAIN}", include_str!("hostile.py"));
    match started_with(&code, id).1 {
        Pause::Request(Request::End { body: 0, ended: Ended::Value(bytes) }) => {
            Reader::new(&bytes).text().unwrap().to_owned()
        }
        other => format!("{other:?}"),
    }
}

fn on_a_large_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap().join().unwrap();
}

#[test]
fn each_hostile_program_ends_with_an_exception_or_its_value() {
    on_a_large_stack(|| {
        let count: usize = result("count").parse().unwrap();
        let all: Vec<String> = (0..count).map(|case| result(&case.to_string())).collect();
        for ended in &all {
            let (_, outcome) = ended.rsplit_once(": ").unwrap_or(("", ended));
            let known = ["RecursionError", "SyntaxError", "Exception", "ended"];
            assert!(known.contains(&outcome), "{ended}");
        }
        for expected in [
            "eq 0: RecursionError",
            "deepcopy 2: RecursionError",
            "hash 1: RecursionError",
            "json 0: RecursionError",
            "plus: SyntaxError",
            "attributes: SyntaxError",
            "parentheses: SyntaxError",
            "recursion: RecursionError",
        ] {
            assert!(all.iter().any(|ended| ended == expected), "{expected} in {all:#?}");
        }
    });
}

#[test]
fn nested_gathers_end_and_a_gather_of_too_many_is_refused() {
    on_a_large_stack(|| assert_eq!(result("gather"), "ended"));
    let code = "
import asyncio
async def one():
    pass
async def main(cx, go):
    await asyncio.gather(*[one() for _ in range(1000)])
    try:
        await asyncio.gather(*[one() for _ in range(1001)])
    except ValueError as error:
        return str(error)
";
    let Pause::Request(Request::End { ended: Ended::Value(bytes), .. }) = started(code).1 else {
        panic!("an end")
    };
    let expected = "gather() takes at most 1000 awaitables (1001 given)";
    assert_eq!(Reader::new(&bytes).text(), Ok(expected));
}
