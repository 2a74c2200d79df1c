//! Requests that are no operations, next to a typed flow that does the same; and programs that do
//! not keep to the protocol.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use aos_sdk::flow::untyped::{Answer, Deadline, Ended, Facts, Request, Step, drive};
use aos_sdk::flow::{Cx, Flow, FlowError, Retry};
use aos_sdk::{Duration, Effect, Hash, Named, Schema, decode, encode};

use crate::programs::{Do, Done, Note, Told};
use crate::script::{Machine, Script};
use crate::world::{Code, HOUR, World, fired, go_on, mail, ok, start};

/// The input of the flows here, and their view.
#[derive(Schema, Clone)]
#[schema("t/Page@1")]
struct Page {
    id: String,
    picture: Hash,
}

const FACTS: Facts = Facts {
    control: "t/PageControl@1",
    listens: &["f/Note@1"],
    output: Some("t/Page@1"),
    view: Some("t/Page@1"),
    types: [Some(&Page::TYPE), Some(&Page::TYPE), Some(&Page::TYPE)],
    ..Facts::new("t/Page@1")
};

/// A flow of the type `Page -> Page`, with its view, from a function.
macro_rules! flow {
    ($name:ident, $run:path) => {
        struct $name;

        impl Flow for $name {
            type Input = Page;
            type Output = Page;
            type View = Page;
            const WORKFLOW: &'static str = "t/page@1";
            const CONTROL: &'static str = FACTS.control;
            const RETURN: Option<&'static str> = None;
            const OUTPUT: Option<&'static str> = FACTS.output;
            const VIEW: Option<&'static str> = FACTS.view;
            const LISTENS: &'static [&'static str] = FACTS.listens;
            const EFFECTS_LIMIT: u64 = FACTS.effects_limit;
            const EVENTS_LIMIT: u64 = FACTS.events_limit;

            fn run(cx: Cx, page: Page) -> impl Future<Output = Result<Page, FlowError>> {
                $run(cx, page)
            }
        }
    };
}

fn hash(digit: &str) -> Hash {
    Hash::parse(&format!("blake3:{}", digit.repeat(64))).expect("a hash")
}

fn page(digit: &str) -> Page {
    Page { id: "o-1".into(), picture: hash(digit) }
}

/// The code of a program.
type Main = fn(Script, Page) -> Pin<Box<dyn Future<Output = Ended>>>;

fn world<F: Flow<View = Page>>(code: Main) -> World {
    let program = move || {
        let main = async move |script: Script, begun: aos_sdk::flow::untyped::Start| {
            let input: Page = script.read(begun.input).await;
            code(script, input).await
        };
        Machine::new(main, |_, _| Ok(()))
    };
    World::new(Code::new::<F>(FACTS, program))
}

fn sleep(name: &str) -> Request {
    Request::Sleep { name: name.into(), end: Deadline::After(Duration::hours(1)) }
}

fn step(name: &str) -> Request {
    Request::Step(Step {
        name: name.into(),
        effect: Do::EFFECT,
        params: encode(&Do { what: name.into() }),
        retry: Retry::default(),
        retry_timeouts: false,
        timeout: None,
        has_rollback: false,
        rollback_unknown: None,
    })
}

fn ended<T: Schema>(ended: Result<T, FlowError>) -> Ended {
    match ended {
        Ok(value) => Ended::Value(encode(&value)),
        Err(error) => Ended::Failed(error),
    }
}

async fn shows(cx: Cx, input: Page) -> Result<Page, FlowError> {
    cx.publish(page("1"));
    cx.annotate(Told { text: "begun".into() });
    cx.sleep("one", Duration::hours(1)).await?;
    cx.publish(page("2"));
    cx.sleep("two", Duration::hours(1)).await?;
    cx.annotate(Told { text: "woken".into() });
    Ok(input)
}

#[test]
fn outputs_count_in_the_turn_of_the_operation_before_them_and_blobs_are_found() {
    flow!(Shows, shows);
    let mut world = world::<Shows>(|script, input| {
        Box::pin(async move {
            let say = async |request| drop(script.run(request).await);
            say(Request::Publish(encode(&page("1")))).await;
            say(Request::Annotate(encode(&Told { text: "begun".into() }))).await;
            say(Request::Log("no part of a module without the feature".into())).await;
            say(sleep("one")).await;
            say(Request::Publish(encode(&page("2")))).await;
            say(sleep("two")).await;
            say(Request::Annotate(encode(&Told { text: "woken".into() }))).await;
            Ended::Value(encode(&input))
        })
    });
    let sent = world.send(&start(&page("3")));
    assert_eq!(sent.annotation, Some(encode(&Told { text: "begun".into() })));
    assert_eq!(world.field("view"), encode(&page("1")));
    world.now += HOUR;
    let sent = world.send(&fired("flow:one#1:sleep"));
    assert_eq!((sent.annotation, world.field("view")), (None, encode(&page("2"))));
    world.send(&go_on());
    world.now += HOUR;
    world.send(&fired("flow:two#1:sleep"));
    assert_eq!(world.output::<Page>().picture, hash("3"));
}

async fn local(cx: Cx, mut input: Page) -> Result<Page, FlowError> {
    let text = cx.local("l", |local| {
        let (any, below) = (local.random(), local.random_below(10));
        format!("{any} {below} {} {}", local.uuid(), local.now().ns())
    });
    input.id = text.await?;
    let other = cx.local("m", |local| local.random()).await?;
    input.id = format!("{} {other}", input.id);
    Ok(input)
}

#[test]
fn random_values_of_a_local_are_the_sequence_of_the_turn() {
    flow!(Locals, local);
    let mut world = world::<Locals>(|script, mut input| {
        Box::pin(async move {
            let compute = async |name: &str, with: &dyn AsyncCompute| match script
                .ask(Request::Local { name: name.into() })
                .await
            {
                Answer::Done(ended) => ended,
                Answer::Compute { now } => with.compute(&script, now.ns()).await,
                other => panic!("{other:?}"),
            };
            let text = compute("l", &All).await.expect("a value");
            input.id = script.read(text).await;
            let other = compute("m", &One).await.expect("a value");
            input.id = format!("{} {}", input.id, script.read::<u64>(other).await);
            Ended::Value(encode(&input))
        })
    });
    world.send(&start(&page("3")));
    assert_eq!(world.output::<Page>().id.split(' ').count(), 5);
}

type Computed<'a> = Pin<Box<dyn Future<Output = Result<&'static [u8], FlowError>> + 'a>>;

trait AsyncCompute {
    fn compute<'a>(&'a self, script: &'a Script, now: i64) -> Computed<'a>;
}

struct All;
struct One;

async fn number(script: &Script, below: Option<u64>) -> u64 {
    let value = script.run(Request::Random { below }).await.expect("a number");
    script.read(value).await
}

impl AsyncCompute for All {
    fn compute<'a>(&'a self, script: &'a Script, now: i64) -> Computed<'a> {
        Box::pin(async move {
            let (any, below) = (number(script, None).await, number(script, Some(10)).await);
            let uuid = script.run(Request::Uuid).await?;
            let uuid: aos_sdk::Uuid = script.read(uuid).await;
            let text = format!("{any} {below} {uuid} {now}");
            script.run(Request::Computed(Ok(encode(&text)))).await
        })
    }
}

impl AsyncCompute for One {
    fn compute<'a>(&'a self, script: &'a Script, _: i64) -> Computed<'a> {
        Box::pin(async move {
            let any = encode(&number(script, None).await);
            script.run(Request::Computed(Ok(any))).await
        })
    }
}

/// Two operations of one body at the same time, as `futures::join!` does it.
async fn both<A: Future, B: Future>(one: A, two: B) {
    let (mut one, mut two) = (Box::pin(one), Box::pin(two));
    let (mut first, mut second) = (false, false);
    std::future::poll_fn(|task| {
        first = first || one.as_mut().poll(task).is_ready();
        second = second || two.as_mut().poll(task).is_ready();
        if first && second { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}

async fn at_once(cx: Cx, input: Page) -> Result<Page, FlowError> {
    let step = |name: &str| cx.step(name, Do { what: name.into() });
    both(step("one"), step("two")).await;
    Ok(input)
}

async fn race_and_step(cx: Cx, input: Page) -> Result<Page, FlowError> {
    let nap = aos_sdk::flow::branch("nap", async || cx.sleep("n", Duration::hours(1)).await);
    both(cx.race("first", [nap]), cx.step("two", Do { what: "two".into() })).await;
    Ok(input)
}

#[test]
fn two_operations_of_a_body_at_the_same_time_are_the_same_fault() {
    flow!(AtOnce, at_once);
    let mut world = world::<AtOnce>(|script, input| {
        Box::pin(async move {
            let other = script.clone();
            script.spawn(Box::pin(async move { drop(other.run(step("two")).await) }));
            drop(script.run(step("one")).await);
            Ended::Value(encode(&input))
        })
    });
    let sent = world.send(&start(&page("3")));
    assert_eq!(sent.fault(), "flow_concurrent");

    flow!(RaceAndStep, race_and_step);
    let mut world = self::world::<RaceAndStep>(|script, input| {
        Box::pin(async move {
            let other = script.clone();
            script.spawn(Box::pin(async move { drop(other.run(step("two")).await) }));
            let (name, branches) = ("first".into(), vec!["nap".into()]);
            let race = Request::Race { name, branches, rollback_losers: false };
            let nap = script.clone();
            let body: crate::script::Body = Box::new(move || {
                Box::pin(async move { ended(nap.run(sleep("n")).await.map(drop)) })
            });
            drop(script.branches(race, vec![body]).await);
            Ended::Value(encode(&input))
        })
    });
    let sent = world.send(&start(&page("3")));
    assert_eq!(sent.fault(), "flow_concurrent");
}

async fn waits(_: Cx, input: Page) -> Result<Page, FlowError> {
    std::future::pending::<()>().await;
    Ok(input)
}

#[test]
fn a_body_that_waits_for_no_operation_is_the_same_fault() {
    flow!(Waits, waits);
    let mut world = world::<Waits>(|_, _| Box::pin(std::future::pending()));
    assert_eq!(world.send(&start(&page("3"))).fault(), "flow_pending");
}

async fn listens_for_another(cx: Cx, input: Page) -> Result<Page, FlowError> {
    cx.listen::<Told>("l").await?;
    Ok(input)
}

#[test]
fn a_listen_for_a_schema_that_is_not_declared_is_the_same_fault() {
    flow!(Listens, listens_for_another);
    let mut world = world::<Listens>(|script, input| {
        Box::pin(async move {
            let listen = aos_sdk::flow::untyped::Listen {
                name: "l".into(),
                schemas: vec![(Told::NAME, None)],
                most: None,
                deadline: None,
            };
            drop(script.run(Request::Listen(listen)).await);
            Ended::Value(encode(&input))
        })
    });
    assert_eq!(world.send(&start(&page("3"))).fault(), "flow_listen");
}

#[test]
fn a_start_of_another_type_is_the_same_divergence() {
    flow!(Shows, shows);
    let mut world =
        world::<Shows>(|_, input| Box::pin(async move { Ended::Value(encode(&input)) }));
    let sent = world.send(&start(&Note { id: "o-1".into(), text: "x".into() }));
    assert_eq!(sent.fault(), "diverged");
}

/// A typed flow whose body is a program: its operations are those of the scope around it.
async fn drives(cx: Cx, input: Page) -> Result<Page, FlowError> {
    let bytes: &'static [u8] = encode(&input).leak();
    let output = cx.scope("driven", async || {
        let main = async |script: Script, begun: aos_sdk::flow::untyped::Start| {
            let done = script.run(step("one")).await;
            let done = done.map(|value| decode::<Done>(value).expect("a receipt").note);
            ended(done.map(|note| format!("{note} {}", begun.input.len())))
        };
        let value = drive(cx, Machine::new(main, |_, _| Ok(())), bytes).await?;
        decode::<String>(&value).map_err(|_| FlowError::critical("output", "no text"))
    });
    Ok(Page { id: output.await?, ..input })
}

#[test]
fn a_typed_flow_drives_a_program_in_a_scope() {
    flow!(Drives, drives);
    let mut world = world::<Drives>(|script, input| {
        Box::pin(async move {
            let value = script.bodies(Request::Scope { name: "driven".into() }, async |_| {
                let done = script.run(step("one")).await;
                let note = done.map(|value| decode::<Done>(value).expect("a receipt").note);
                ended(note.map(|note| format!("{note} {}", encode(&input).len())))
            });
            let id = match value.await {
                Ok(value) => script.read(value).await,
                Err(error) => return Ended::Failed(error),
            };
            Ended::Value(encode(&Page { id, ..input }))
        })
    });
    let sent = world.send(&start(&page("3")));
    assert_eq!(sent.references(), ["flow:driven/one#1"]);
    world.send(&ok("flow:driven/one#1", &Done { note: "done".into() }));
    assert!(world.output::<Page>().id.starts_with("done "));
}

// Programs alone: a typed flow cannot do what these do.

/// The fault of the first turn of a program, and its message.
fn fault(code: Main) -> (String, String) {
    let reducer = |mail: &[u8]| {
        let mut output = aos_sdk::step::Output::default();
        let context = crate::world::context(1, 1);
        let input = aos_sdk::step::Input {
            state: None,
            schema: "t/PageFlowEvent@1",
            event: mail,
            key: Some(b"\x63o-1"),
            context: Some(&context),
        };
        let program = move || {
            let main = async move |script: Script, _: aos_sdk::flow::untyped::Start| {
                code(script, page("3")).await
            };
            Ok(Machine::new(main, |_, _| Ok(())))
        };
        aos_sdk::flow::untyped::turn(&FACTS, &input, &mut output, program)
    };
    let fault = reducer(&start(&page("3"))).expect_err("a fault");
    (fault.kind, fault.message)
}

fn null(value: Result<&'static [u8], FlowError>) -> Ended {
    ended(value.map(drop))
}

#[test]
fn a_program_that_breaks_the_protocol_ends_the_turn_with_flow_program() {
    let cases: [(Main, &str); 7] = [
        (
            |script, _| {
                Box::pin(async move {
                    script.ask(Request::End { body: 7, ended: Ended::Value(vec![0xf6]) }).await;
                    Ended::Value(vec![0xf6])
                })
            },
            "the flow: the program ended another body than the one that runs",
        ),
        (
            |_, _| Box::pin(async { Ended::Continue(vec![0xf6]) }),
            "the flow: the program continued a body that is no iteration of a loop",
        ),
        (
            |script, _| {
                Box::pin(async move {
                    let scope = Request::Scope { name: "s".into() };
                    null(script.bodies(scope, async |_| Ended::Continue(vec![0xf6])).await)
                })
            },
            "the flow: the program continued a body that is no iteration of a loop",
        ),
        (
            |script, _| Box::pin(async move { null(script.run(Request::Uuid).await) }),
            "the flow: the program is not in the computation of a local",
        ),
        (
            |script, _| {
                Box::pin(async move {
                    let undo = aos_sdk::flow::untyped::Undo { effect: "f/undo@1", params: vec![] };
                    null(script.run(Request::Compensation(undo)).await)
                })
            },
            "the flow: the program was not asked for a compensation",
        ),
        (
            |script, _| {
                Box::pin(async move {
                    script.ask(Request::Local { name: "l".into() }).await;
                    null(script.run(sleep("n")).await)
                })
            },
            "the flow: a local computes a value, and awaits no operation",
        ),
        (
            |script, _| {
                Box::pin(async move {
                    script.ask(Request::Local { name: "l".into() }).await;
                    null(script.run(Request::Random { below: Some(0) }).await)
                })
            },
            "the flow: a random number below 0 was requested: a bound is 1 or more",
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(fault(code), ("flow_program".into(), expected.into()));
    }
}

#[test]
fn a_fault_of_the_program_is_that_of_the_turn_and_its_message_is_cut() {
    let short =
        fault(|script, _| Box::pin(async move { script.fault("exception", "x".into()).await }));
    assert_eq!(short, ("exception".into(), "x".into()));

    let (kind, message) = fault(|script, _| {
        Box::pin(async move { script.fault("exception", "ü".repeat(5000)).await })
    });
    assert!(kind.len() + message.len() <= 4096 && message.ends_with("ü […]"), "{}", message.len());
}

#[test]
fn a_program_that_cannot_be_made_is_a_fault() {
    let mut output = aos_sdk::step::Output::default();
    let (context, event) = (crate::world::context(1, 1), start(&page("3")));
    let input = aos_sdk::step::Input {
        state: None,
        schema: "t/PageFlowEvent@1",
        event: &event,
        key: Some(b"\x63o-1"),
        context: Some(&context),
    };
    let no_program = || Err::<Machine, _>(aos_sdk::Fault::new("program", "it is damaged"));

    let fault = aos_sdk::flow::untyped::turn(&FACTS, &input, &mut output, no_program);

    assert_eq!(fault.expect_err("a fault").kind, "program");
}

#[test]
fn mail_that_changes_nothing_makes_no_program() {
    let mut output = aos_sdk::step::Output::default();
    let context = crate::world::context(1, 1);
    let event = mail("M0", &encode(&Note { id: "o-1".into(), text: "early".into() }));
    let input = aos_sdk::step::Input {
        state: None,
        schema: "t/PageFlowEvent@1",
        event: &event,
        key: Some(b"\x63o-1"),
        context: Some(&context),
    };
    let never = || -> Result<Machine, aos_sdk::Fault> { panic!("a program was made") };

    aos_sdk::flow::untyped::turn(&FACTS, &input, &mut output, never).expect("a turn");

    assert!(output.state.is_some());
}

#[test]
fn the_blobs_that_a_state_names_change_only_with_the_state() {
    const WITHOUT: Facts = Facts { types: [None; 3], ..FACTS };
    let program = || {
        let main = async |script: Script, _: aos_sdk::flow::untyped::Start| {
            null(script.run(sleep("n")).await)
        };
        Ok(Machine::new(main, |_, _| Ok(())))
    };
    let send = |facts: &Facts, state: Option<&[u8]>, event: &[u8]| {
        let mut output = aos_sdk::step::Output::default();
        let context = crate::world::context(1, 1);
        let input = aos_sdk::step::Input {
            state,
            schema: "t/PageFlowEvent@1",
            event,
            key: Some(b"\x63o-1"),
            context: Some(&context),
        };
        aos_sdk::flow::untyped::turn(facts, &input, &mut output, program).expect("a turn");
        output.state.expect("a state")
    };
    let before = send(&WITHOUT, None, &start(&page("3")));

    let same = send(&FACTS, Some(&before), &fired("flow:other#1:sleep"));
    let polled = send(&FACTS, Some(&before), &go_on());

    assert_eq!(same, before);
    let named = format!("blake3:{}", "3".repeat(64));
    let count = |state: &[u8]| String::from_utf8_lossy(state).matches(&named).count();
    assert_eq!((count(&before), count(&polled)), (1, 2));
}

#[test]
fn a_failed_local_is_recorded_and_read_in_each_replay() {
    // The second turn would compute another failure, so an equal one was read from the history.
    let program = || {
        let main = async |script: Script, _: aos_sdk::flow::untyped::Start| {
            let failed = match script.ask(Request::Local { name: "l".into() }).await {
                Answer::Compute { now } => {
                    let error = FlowError::critical("no", format!("{}", now.ns()));
                    script.run(Request::Computed(Err(error))).await
                }
                Answer::Done(ended) => ended,
                other => panic!("{other:?}"),
            };
            drop(script.run(sleep("n")).await);
            null(failed)
        };
        Ok(Machine::new(main, |_, _| Ok(())))
    };
    let mut state = None;
    let mut send = |now: u64, event: &[u8]| {
        let mut output = aos_sdk::step::Output::default();
        let context = crate::world::context(now, 1);
        let input = aos_sdk::step::Input {
            state: state.as_deref(),
            schema: "t/PageFlowEvent@1",
            event,
            key: Some(b"\x63o-1"),
            context: Some(&context),
        };
        aos_sdk::flow::untyped::turn(&FACTS, &input, &mut output, program).expect("a turn");
        state = output.state.clone();
        output.state.unwrap_or_default()
    };
    send(5, &start(&page("3")));
    let ended = send(HOUR * 2, &fired("flow:n#1:sleep"));
    let text = String::from_utf8_lossy(&ended);
    assert!(text.contains("critical") && text.contains("bno\u{61}5al"), "{text}");
}

#[test]
fn the_program_is_asked_about_the_values_that_it_reads_later() {
    let code = |check| {
        move || {
            let main = async |script: Script, _: aos_sdk::flow::untyped::Start| {
                let branches = vec!["a".into(), "b".into()];
                let join = Request::Join { name: "j".into(), branches, at_most: None };
                let (one, two) = (script.clone(), script.clone());
                let a: crate::script::Body =
                    Box::new(move || Box::pin(async move { null(one.run(sleep("n")).await) }));
                let b: crate::script::Body =
                    Box::new(move || Box::pin(async move { null(two.run(step("s")).await) }));
                null(script.branches(join, vec![a, b]).await)
            };
            Ok(Machine::new(main, check))
        }
    };
    let mut state: Option<Vec<u8>> = None;
    let mut send = |event: &[u8], check: fn(&str, &'static [u8]) -> Result<(), String>| {
        let mut output = aos_sdk::step::Output::default();
        let context = crate::world::context(HOUR * 2, 1);
        let input = aos_sdk::step::Input {
            state: state.as_deref(),
            schema: "t/PageFlowEvent@1",
            event,
            key: Some(b"\x63o-1"),
            context: Some(&context),
        };
        let turn = aos_sdk::flow::untyped::turn(&FACTS, &input, &mut output, code(check));
        if turn.is_ok() {
            state = output.state;
        }
        turn
    };
    send(&start(&page("3")), |_, _| Ok(())).expect("a turn");
    send(&fired("flow:j/a/n#1:sleep"), |_, _| Err("not asked".into())).expect("a turn");

    let fault =
        send(&go_on(), |branch, _| Err(format!("{branch} is a text"))).expect_err("a fault");

    assert_eq!(fault.kind, "diverged");
    assert!(fault.message.starts_with("at j/a:") && fault.message.ends_with("a is a text"));
    send(&go_on(), |_, _| Ok(())).expect("a turn");
}
