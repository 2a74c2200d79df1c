//! A program without the engine: its requests, and what it does with the answers.

use std::collections::VecDeque;

use aos_sdk::cbor;
use aos_sdk::flow::FlowError;
use aos_sdk::flow::untyped::{Answer, Ended, Pause, Program, Request};
use aos_sdk::{Duration, Time};

mod support;

use support::{CLASSES, started, text};

fn note(note: &str) -> Answer {
    let mut out = Vec::new();
    cbor::write_map(1, &mut out);
    text("note", &mut out);
    text(note, &mut out);
    Answer::Done(Ok(out.leak()))
}

/// The end of the flow: its result as text.
fn ended(pause: Pause) -> String {
    match pause {
        Pause::Request(Request::End { body: 0, ended: Ended::Value(bytes) }) => {
            cbor::Reader::new(&bytes).text().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn request(pause: Pause) -> Request {
    match pause {
        Pause::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_is_requested_and_answered() {
    let (mut python, pause) =
        started("async def main(cx, go):\n    return (await cx.step('one', Do(go.id))).note\n");
    let Request::Step(step) = request(pause) else { panic!("a step") };
    assert_eq!((step.name.as_str(), step.effect), ("one", "t/do@1"));
    assert_eq!(step.params, b"\xa1\x64what\x61a");
    assert!(!step.has_rollback && step.timeout.is_none());

    assert_eq!(ended(python.answer(note("done"))), "done");
}

#[test]
fn an_operation_that_has_not_ended_waits_and_is_resumed() {
    let code = "async def main(cx, go):\n    await cx.sleep('nap', '1m30s')\n    return 'awake'\n";
    let (mut python, pause) = started(code);
    let Request::Sleep { end, .. } = request(pause) else { panic!("a sleep") };
    assert_eq!(end, aos_sdk::flow::untyped::Deadline::After(Duration::seconds(90)));

    assert!(matches!(python.answer(Answer::Wait(1)), Pause::Waiting));
    assert_eq!(ended(python.resume(1, Answer::Done(Ok(b"\xf6")))), "awake");
}

#[test]
fn a_failure_is_an_exception_with_its_fields() {
    let code = "
async def main(cx, go):
    try:
        await cx.step('one', Do('x'))
    except Critical as error:
        assert isinstance(error, FlowError)
        return f'{error.kind} {error.code} {error.message} {error} {error.causes}'
";
    let (mut python, _) = started(code);
    let error = FlowError::critical("sold_out", "there is no tea left");
    let text = ended(python.answer(Answer::Done(Err(error))));
    assert_eq!(text, "critical sold_out there is no tea left sold_out: there is no tea left ()");
}

#[test]
fn a_program_fails_with_its_own_failure_or_with_that_of_an_operation() {
    let code = "
async def main(cx, go):
    try:
        await cx.sleep('nap', '1s')
    except FlowError as error:
        raise Rollback(error)
";
    let (mut python, _) = started(code);
    let pause = python.answer(Answer::Done(Err(FlowError::critical("a", "b"))));
    let Request::End { ended: Ended::Failed(failed), .. } = request(pause) else {
        panic!("an end")
    };
    assert_eq!(failed, FlowError::rollback("a", "b"));
}

#[test]
fn a_race_runs_its_branches_and_leaves_the_losers() {
    let code = "
async def main(cx, go):
    seen = []
    async def left(cx):
        seen.append('left')
        return (await cx.step('one', Do('x'))).note
    async def right(cx):
        seen.append('right')
        await cx.sleep('nap', '1s')
        return 'awake'
    won, value = await cx.race('both', left=left, right=right)
    return f'{won} {value} {seen}'
";
    let (mut python, pause) = started(code);
    let Request::Race { branches, .. } = request(pause) else { panic!("a race") };
    assert_eq!(branches, ["left", "right"]);
    let pause = python.answer(Answer::Branches { wait: 1, bodies: vec![2, 3] });
    assert!(matches!(pause, Pause::Waiting));
    let run = |body| Answer::Run { body, state: b"\xf6" };

    assert!(matches!(request(python.resume(2, run(2))), Request::Step(_)));
    assert!(matches!(python.answer(Answer::Wait(4)), Pause::Waiting));
    assert!(matches!(request(python.resume(3, run(3))), Request::Sleep { .. }));
    assert!(matches!(python.answer(Answer::Wait(5)), Pause::Waiting));
    let pause = python.resume(5, Answer::Done(Ok(b"\xf6")));
    let Request::End { body: 3, ended: Ended::Value(value) } = request(pause) else {
        panic!("an end")
    };
    assert_eq!(value, b"\x65awake");
    assert!(matches!(python.answer(Answer::Done(Ok(b"\xf6"))), Pause::Waiting));
    let won = b"\xa2\x65value\x65awake\x66branch\x65right";
    assert_eq!(ended(python.resume(1, Answer::Done(Ok(won)))), "right awake []");
}

#[test]
fn a_loop_runs_its_body_with_copies_of_what_it_captures() {
    let code = "
async def main(cx, go):
    seen = []
    async def body(cx, count):
        seen.append(count)
        return Break(f'{count} {seen}') if count == 2 else Continue(count + 1)
    return await cx.loop('pages', 0, body)
";
    let (mut python, pause) = started(code);
    let Request::Loop(repeat) = request(pause) else { panic!("a loop") };
    assert_eq!(repeat.state, [0]);
    let mut states = VecDeque::from([&[0][..], &[1], &[2]]);
    let mut pause = python.answer(Answer::Run { body: 1, state: states.pop_front().unwrap() });
    for body in [1, 2] {
        let Request::End { body: ended, ended: Ended::Continue(state) } = request(pause) else {
            panic!("a next iteration")
        };
        assert_eq!((ended, state), (body, vec![body as u8]));
        pause = python.answer(Answer::Run { body: body + 1, state: states.pop_front().unwrap() });
    }
    let Request::End { ended: Ended::Value(value), .. } = request(pause) else {
        panic!("the last")
    };
    assert_eq!(value, b"\x652 [2]");
    assert_eq!(ended(python.answer(Answer::Done(Ok(b"\x652 [2]")))), "2 [2]");
}

#[test]
fn a_local_and_a_rollback_are_computed_by_the_program() {
    let code = "
async def main(cx, go):
    number = await cx.local('number', lambda local: local.random(below=7) + 1)
    await cx.step('one', Do('x'), rollback=lambda done: Do('undo ' + done.note))
    return str(number)
";
    let (mut python, pause) = started(code);
    assert!(matches!(request(pause), Request::Local { .. }));
    let now = Time::from_ns(1);
    let pause = python.answer(Answer::Compute { now });
    assert!(matches!(request(pause), Request::Random { below: Some(7) }));
    let Request::Computed(Ok(value)) = request(python.answer(Answer::Done(Ok(&[3])))) else {
        panic!("a computed value")
    };
    assert_eq!(value, [4]);
    let Request::Step(step) = request(python.answer(Answer::Done(Ok(&[4])))) else {
        panic!("a step")
    };
    assert!(step.has_rollback);
    let Answer::Done(Ok(receipt)) = note("n") else { unreachable!() };
    let Request::Compensation(undo) = request(python.answer(Answer::Compensate(receipt))) else {
        panic!("an undo")
    };
    assert_eq!((undo.effect, undo.params), ("t/do@1", b"\xa1\x64what\x66undo n".to_vec()));
    assert_eq!(ended(python.answer(note("n"))), "4");
}

#[test]
fn other_exceptions_are_faults_with_the_lines_of_the_program() {
    let lines = CLASSES.lines().count() as u32;
    for (code, expected) in [
        ("async def main(cx, go):\n    return 1 // 0\n", "ZeroDivisionError: "),
        (
            "async def main(cx, go):\n    return 7\n",
            "the result of the flow: $: expected text, found int 7",
        ),
        ("import random\nasync def main(cx, go):\n    return random.random()\n", "cx.local(name"),
        ("async def main(cx, go):\n    return open('x').read()\n", "cx.step(name, effect)"),
        ("async def main(cx, go):\n    return 'a' * 10**9\n", "MemoryError"),
        ("import tkinter\nasync def main(cx, go):\n    return ''\n", "No module named 'tkinter'"),
        (
            "async def main(cx, go):\n    await cx.step('x', go)\n",
            "an instance of a class with @effect",
        ),
    ] {
        match started(code).1 {
            Pause::Fault(fault) => {
                assert_eq!(fault.kind, "exception");
                assert!(fault.message.contains(expected), "{}", fault.message);
                assert!(!fault.message.contains("_aos_"), "{}", fault.message);
            }
            other => panic!("{other:?}"),
        }
    }
    let Pause::Fault(fault) = started("async def main(cx, go):\n    return 1 // 0\n").1 else {
        panic!("a fault")
    };
    let place = format!("File \"flow.py\", line {}, in main", lines + 2);
    assert!(fault.message.contains(&place), "{}", fault.message);
}

#[test]
fn a_stored_value_of_another_type_is_a_misfit() {
    let (mut python, _) =
        started("async def main(cx, go):\n    return (await cx.step('one', Do('x'))).note\n");
    match python.answer(Answer::Done(Ok(b"\xa1\x64note\x01"))) {
        Pause::Misfit(words) => assert_eq!(words, "byte 6: expected text"),
        other => panic!("{other:?}"),
    }
}
