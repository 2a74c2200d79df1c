//! A flow that interprets a program, which is its input: `tests/flow/model.py` interprets the same
//! programs without this engine, and `tests/flow/test_model.py` compares them.

#![no_std]
#![deny(unused_must_use)]

use core::future::Future;
use core::pin::Pin;

use aos_sdk::flow::{branch, Cx, Flow, FlowError, Kind, Loop, Retry, Turn};
use aos_sdk::prelude::*;

/// One operation of a program. Bodies name their nodes by number, because a type of AIR does not
/// contain itself.
#[derive(Schema, Clone)]
#[schema("f/Node@1")]
pub struct Node {
    pub op: String,
    pub name: String,
    /// Attempts, messages, iterations, branches at the same time, or a version.
    pub number: u64,
    /// A pause, a duration, or a time after the start.
    pub span: Duration,
    /// The timeout of a step.
    pub limit: Option<Duration>,
    /// The name of a checkpoint, the code of a failure, or the key of a child.
    pub text: String,
    pub flags: Set<String>,
    pub every: u64,
    pub keep: u64,
    pub nodes: Vec<u64>,
}

/// Starts a program.
#[derive(Schema, Clone)]
#[schema("f/Run@1")]
pub struct Run {
    pub id: String,
    pub nodes: Vec<Node>,
    pub body: Vec<u64>,
}

/// Starts a program as the child of another one.
#[derive(Schema, Clone)]
#[schema("f/Part@1")]
pub struct Part {
    pub id: String,
    pub nodes: Vec<Node>,
    pub body: Vec<u64>,
}

#[derive(Schema)]
#[schema("f/Note@1")]
pub struct Note {
    pub id: String,
    pub text: String,
}

#[derive(Schema)]
#[schema("f/Bell@1")]
pub struct Bell {
    pub id: String,
    pub text: String,
}

#[derive(Event)]
#[schema("f/Either@1")]
pub enum Either {
    Note(Note),
    Bell(Bell),
}

/// Emitted by a program.
#[derive(Schema)]
#[schema("f/Told@1")]
pub struct Told {
    pub text: String,
}

#[derive(Effect)]
#[effect("f/do@1", receipt = Done, executor = "f")]
pub struct Do {
    pub what: String,
}

#[derive(Effect)]
#[effect("f/undo@1", receipt = Done, executor = "f")]
pub struct Undo {
    pub what: String,
}

#[derive(Schema)]
#[schema("f/Done@1")]
pub struct Done {
    pub note: String,
}

/// The state of a loop.
#[derive(Schema, Clone)]
#[schema("f/Counted@1")]
pub struct Counted {
    pub count: u64,
    pub text: String,
}

type Ended = Result<String, FlowError>;

#[flow(
    "f/run@1",
    key = "f/Id@1",
    start(Run by "id"),
    listens(Note by "id", Bell by "id"),
    effects(Do, Undo),
    calls(Worker),
    name = Runner
)]
async fn run(cx: Cx, run: Run) -> Ended {
    first(cx, run, "later").await
}

/// Another version of the same workflow.
macro_rules! version {
    ($name:ident, $without:literal, $effects:expr, $events:expr) => {
        pub struct $name;

        impl Flow for $name {
            type Input = Run;
            type Output = String;
            type View = ();
            const WORKFLOW: &'static str = Runner::WORKFLOW;
            const CONTROL: &'static str = Runner::CONTROL;
            const RETURN: Option<&'static str> = Runner::RETURN;
            const OUTPUT: Option<&'static str> = Runner::OUTPUT;
            const VIEW: Option<&'static str> = Runner::VIEW;
            const LISTENS: &'static [&'static str] = Runner::LISTENS;
            const EFFECTS_LIMIT: u64 = $effects;
            const EVENTS_LIMIT: u64 = $events;

            fn run(cx: Cx, run: Run) -> impl Future<Output = Ended> {
                first(cx, run, $without)
            }
        }
    };
}

// Leaves out nodes with the flag `earlier`, as the first version does with `later`.
version!(Later, "earlier", Runner::EFFECTS_LIMIT, Runner::EVENTS_LIMIT);
// Has the smallest limits of a turn.
version!(Narrow, "later", 4, 2);

aos_sdk::export!(later: Turn<Later>);
aos_sdk::export!(narrow: Turn<Narrow>);

async fn first(cx: Cx, run: Run, without: &str) -> Ended {
    let program = Program { id: &run.id, nodes: &run.nodes, without };
    body(cx, program, &run.body, "").await
}

#[flow(
    "f/part@1",
    key = "f/Id@1",
    start(Part by "id"),
    listens(Note by "id", Bell by "id"),
    effects(Do, Undo),
    calls(Worker),
    callable,
    name = Worker
)]
async fn part(cx: Cx, part: Part) -> Ended {
    let program = Program { id: &part.id, nodes: &part.nodes, without: "later" };
    body(cx, program, &part.body, "").await
}

#[derive(Clone, Copy)]
struct Program<'a> {
    id: &'a str,
    nodes: &'a [Node],
    /// The flag of nodes that are not in this version.
    without: &'a str,
}

impl<'a> Program<'a> {
    /// The nodes of a body that are in this version.
    fn nodes_of(self, list: &'a [u64]) -> impl Iterator<Item = &'a Node> {
        let nodes = list.iter().map(move |number| &self.nodes[*number as usize]);
        nodes.filter(move |node| !has(node, self.without))
    }
}

/// Run nodes one after another. `around` counts the iterations around them: `.0.2`.
fn body<'a>(
    cx: Cx,
    program: Program<'a>,
    list: &'a [u64],
    around: &'a str,
) -> Pin<Box<dyn Future<Output = Ended> + 'a>> {
    Box::pin(async move {
        let mut all = String::new();
        for node in program.nodes_of(list) {
            if node.op == "return" {
                break;
            }
            match operation(cx, program, node, around).await {
                Ok(value) => all.push_str(&value),
                Err(error) if has(node, "catch") => all.push_str(&told(&error)),
                Err(error) => return Err(error),
            }
            all.push(';');
        }
        Ok(all)
    })
}

fn has(node: &Node, flag: &str) -> bool {
    node.flags.iter().any(|each| each == flag)
}

/// A failure in words: `!kind.code@path[causes]`.
fn told(error: &FlowError) -> String {
    let causes: Vec<String> = error.causes().iter().map(told).collect();
    format!("!{}.{}@{}[{}]", error.kind(), error.code(), error.path(), causes.join(""))
}

async fn operation(cx: Cx, program: Program<'_>, node: &Node, around: &str) -> Ended {
    let name = node.name.as_str();
    let what = format!("{name}{around}");
    match node.op.as_str() {
        "step" => step(cx, node, what).await,
        "local" => {
            let started = cx.started_at();
            cx.local(name, |local| format!("{what}={}", (local.now() - started).ns())).await
        }
        "emit" => cx.emit(name, Told { text: what }).await.map(nothing),
        "sleep" => cx.sleep(name, node.span).await.map(nothing),
        "sleep_until" => cx.sleep_until(name, cx.started_at() + node.span).await.map(nothing),
        "fail" if has(node, "rollback") => Err(FlowError::rollback(node.text.as_str(), "told to")),
        "fail" => Err(FlowError::critical(node.text.as_str(), "told to")),
        "join" => {
            let parts = branches(cx, program, node, around);
            let joined = cx.join_all(name, parts).at_most(node.number as usize).await?;
            Ok(joined.join("|"))
        }
        "race" => {
            let race = cx.race(name, branches(cx, program, node, around));
            let won = match has(node, "rollback_losers") {
                true => race.rollback_losers().await?,
                false => race.await?,
            };
            Ok(format!("{}={}", won.branch, won.value))
        }
        "scope" => cx.scope(name, async || body(cx, program, &node.nodes, around).await).await,
        "loop" => repeat(cx, program, node, around).await,
        "checkpoint" => cx.checkpoint(name).await.map(nothing),
        "rollback_to" => cx.rollback_to(name, &node.text).await.map(nothing),
        "commit" => cx.commit(name).await.map(nothing),
        "version" => Ok(cx.version(name, node.number).await?.to_string()),
        "removed" => cx.removed(name, Kind::Step).await.map(nothing),
        "call" => {
            let call = cx.call::<Worker>(name, child(program, node, around));
            match has(node, "rollback") {
                true => call.rollback(|done| Undo { what: done.clone() }).await,
                false => call.await,
            }
        }
        "spawn" => cx.spawn::<Worker>(name, child(program, node, around)).await.map(nothing),
        _ => listen(cx, node).await,
    }
}

fn nothing(_: ()) -> String {
    String::new()
}

async fn step(cx: Cx, node: &Node, what: String) -> Ended {
    let retry = Retry::attempts(node.number).pauses(node.span, Duration::minutes(1));
    let mut step = cx.step(&node.name, Do { what: what.clone() }).retry(retry);
    if let Some(limit) = node.limit {
        step = step.timeout(limit);
    }
    if has(node, "retry_timeouts") {
        step = step.retry_timeouts();
    }
    if has(node, "rollback") {
        step = step.rollback(|done| Undo { what: done.note.clone() });
    }
    if has(node, "rollback_unknown") {
        step = step.rollback_unknown(|| Undo { what: format!("?{what}") });
    }
    Ok(step.await?.note)
}

async fn listen(cx: Cx, node: &Node) -> Ended {
    let (name, most, span) = (node.name.as_str(), node.number, node.span);
    let until = || cx.started_at() + span;
    match node.op.as_str() {
        "listen" => cx.listen::<Note>(name).await.map(|note| note.text),
        "listen_either" => cx.listen::<Either>(name).await.map(either),
        "listen_n" => cx.listen_n::<Note>(name, most).await.map(notes),
        "listen_with_timeout" => cx.listen_with_timeout::<Note>(name, span).await.map(perhaps),
        "listen_until" => cx.listen_until::<Bell>(name, until()).await.map(rung),
        "listen_n_with_timeout" => {
            let found = cx.listen_n_with_timeout::<Either>(name, most, span).await?;
            Ok(found.into_iter().map(either).collect::<Vec<_>>().join("+"))
        }
        "listen_n_until" => cx.listen_n_until::<Note>(name, most, until()).await.map(notes),
        other => Err(FlowError::critical("program", format!("no operation {other}"))),
    }
}

fn either(found: Either) -> String {
    match found {
        Either::Note(note) => note.text,
        Either::Bell(bell) => bell.text,
    }
}

fn notes(found: Vec<Note>) -> String {
    found.into_iter().map(|note| note.text).collect::<Vec<_>>().join("+")
}

fn perhaps(found: Option<Note>) -> String {
    found.map_or("none".into(), |note| note.text)
}

fn rung(found: Option<Bell>) -> String {
    found.map_or("none".into(), |bell| bell.text)
}

fn branches<'a>(
    cx: Cx,
    program: Program<'a>,
    node: &'a Node,
    around: &'a str,
) -> impl Iterator<Item = aos_sdk::flow::Branch<'a, String>> {
    program.nodes_of(&node.nodes).map(move |part| {
        branch(part.name.as_str(), async move || body(cx, program, &part.nodes, around).await)
    })
}

async fn repeat(cx: Cx, program: Program<'_>, node: &Node, around: &str) -> Ended {
    let first = Counted { count: 0, text: String::new() };
    cx.loop_(&node.name, first, async |so_far: Counted| {
        let around = format!("{around}.{}", so_far.count);
        let value = body(cx, program, &node.nodes, &around).await?;
        let next = Counted { count: so_far.count + 1, text: so_far.text + &value };
        Ok(match next.count >= node.number {
            true => Loop::Break(next.text),
            false => Loop::Continue(next),
        })
    })
    .history_every(node.every)
    .history_keep(node.keep)
    .await
}

fn child(program: Program<'_>, node: &Node, around: &str) -> Part {
    let id = format!("{}/{}{around}", program.id, node.text);
    Part { id, nodes: program.nodes.to_vec(), body: node.nodes.clone() }
}
