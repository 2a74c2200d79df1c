//! The programs of `conformance/flow`, interpreted by requests instead of typed operations.

use std::pin::Pin;
use std::rc::Rc;

use aos_sdk::flow::untyped::{
    Answer, Call, Deadline, Ended, Facts, Listen, Loop, Request, Spawn, Start, Step, Undo,
};
use aos_sdk::flow::{Flow, FlowError, Kind, Retry};
use aos_sdk::{Duration, Effect, Named, Schema, Time, decode, encode};

use crate::programs::{self, Bell, Counted, Do, Done, Either, Later, Node, Note, Part, Run, Told};
use crate::script::{Body, Bytes, Machine, Script};

/// The flow that programs call.
const CHILD: &str = "f/part@1";

type Text = Result<String, FlowError>;

/// The facts of the flow `f/run@1`, with these limits of a turn.
pub const fn facts(effects_limit: u64, events_limit: u64) -> Facts {
    Facts {
        control: Later::CONTROL,
        returned: Later::RETURN,
        listens: Later::LISTENS,
        output: Later::OUTPUT,
        view: Later::VIEW,
        effects_limit,
        events_limit,
        types: [Some(&Run::TYPE), Some(&String::TYPE), None],
        ..Facts::new(Run::NAME)
    }
}

/// The program that interprets the nodes of its input, except those with the flag `without`.
pub fn machine(without: &'static str) -> Machine {
    Machine::new(
        async move |script, start| {
            let run: Run = script.read(start.input).await;
            let program = Rc::new(Nodes { script, start, run, without });
            let list = program.run.body.clone();
            ended(body(program, list, String::new()).await)
        },
        |_, value| decode::<String>(value).map(drop).map_err(|misfit| format!("{misfit:?}")),
    )
}

fn ended(text: Text) -> Ended {
    match text {
        Ok(text) => Ended::Value(encode(&text)),
        Err(error) => Ended::Failed(error),
    }
}

struct Nodes {
    script: Script,
    start: Start,
    run: Run,
    without: &'static str,
}

impl Nodes {
    fn listed(&self, list: &[u64]) -> Vec<Node> {
        let nodes = list.iter().map(|number| self.run.nodes[*number as usize].clone());
        nodes.filter(|node| !has(node, self.without)).collect()
    }
}

fn body(nodes: Rc<Nodes>, list: Vec<u64>, around: String) -> Pin<Box<dyn Future<Output = Text>>> {
    Box::pin(async move {
        let mut all = String::new();
        for node in nodes.listed(&list) {
            if node.op == "return" {
                break;
            }
            match operation(&nodes, &node, &around).await {
                Ok(value) => all.push_str(&value),
                Err(error) if has(&node, "catch") => all.push_str(&told(&error)),
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

fn told(error: &FlowError) -> String {
    let causes: Vec<String> = error.causes().iter().map(told).collect();
    format!("!{}.{}@{}[{}]", error.kind(), error.code(), error.path(), causes.join(""))
}

async fn operation(nodes: &Rc<Nodes>, node: &Node, around: &str) -> Text {
    let script = &nodes.script;
    let name = node.name.clone();
    let what = format!("{name}{around}");
    let request = match node.op.as_str() {
        "step" => return step(script, node, what).await,
        "local" => return local(nodes, node, &what).await,
        "fail" if has(node, "rollback") => {
            return Err(FlowError::rollback(node.text.as_str(), "told to"));
        }
        "fail" => return Err(FlowError::critical(node.text.as_str(), "told to")),
        "join" => return join(nodes, node, around).await,
        "race" => return race(nodes, node, around).await,
        "scope" => {
            let value = script.bodies(Request::Scope { name }, async |_| {
                ended(body(nodes.clone(), node.nodes.clone(), around.to_string()).await)
            });
            return Ok(script.read(value.await?).await);
        }
        "loop" => return repeat(nodes, node, around).await,
        "version" => {
            let request = Request::Version { name, latest: node.number };
            return Ok(script.read::<u64>(script.run(request).await?).await.to_string());
        }
        "call" => return call(nodes, node, around).await,
        "emit" => Request::Emit { name, schema: Told::NAME, value: encode(&Told { text: what }) },
        "sleep" => Request::Sleep { name, end: Deadline::After(node.span) },
        "sleep_until" => Request::Sleep { name, end: Deadline::At(until(nodes, node)) },
        "checkpoint" => Request::Checkpoint { name },
        "rollback_to" => Request::RollbackTo { name, checkpoint: node.text.clone() },
        "commit" => Request::Commit { name },
        "removed" => Request::Removed { name, kind: Kind::Step },
        "spawn" => {
            let input = encode(&child(nodes, node, around));
            Request::Spawn(Spawn { name, workflow: CHILD, schema: Part::NAME, input })
        }
        _ => return listen(nodes, node).await,
    };
    script.run(request).await.map(|_| String::new())
}

fn until(nodes: &Nodes, node: &Node) -> Time {
    nodes.start.started_at + node.span
}

fn undo(what: String) -> Undo {
    Undo { effect: programs::Undo::EFFECT, params: encode(&programs::Undo { what }) }
}

async fn step(script: &Script, node: &Node, what: String) -> Text {
    let has_rollback = has(node, "rollback");
    let request = Request::Step(Step {
        name: node.name.clone(),
        effect: Do::EFFECT,
        params: encode(&Do { what: what.clone() }),
        retry: Retry::attempts(node.number).pauses(node.span, Duration::minutes(1)),
        retry_timeouts: has(node, "retry_timeouts"),
        timeout: node.limit,
        has_rollback,
        rollback_unknown: has(node, "rollback_unknown").then(|| undo(format!("?{what}"))),
    });
    let done =
        script.run_undoable(request, async |value| undo(script.read::<Done>(value).await.note));
    Ok(script.read::<Done>(done.await?).await.note)
}

async fn local(nodes: &Nodes, node: &Node, what: &str) -> Text {
    let script = &nodes.script;
    let value = match script.ask(Request::Local { name: node.name.clone() }).await {
        Answer::Compute { now } => {
            let text = format!("{what}={}", (now - nodes.start.started_at).ns());
            script.run(Request::Computed(Ok(encode(&text)))).await?
        }
        Answer::Done(ended) => ended?,
        other => panic!("a local was answered with {other:?}"),
    };
    Ok(script.read(value).await)
}

async fn call(nodes: &Rc<Nodes>, node: &Node, around: &str) -> Text {
    let script = &nodes.script;
    let request = Request::Call(Call {
        name: node.name.clone(),
        workflow: CHILD,
        call: "f/PartCall@1",
        control: "f/PartControl@1",
        key_field: "id",
        input: encode(&child(nodes, node, around)),
        has_rollback: has(node, "rollback"),
    });
    let done = script.run_undoable(request, async |value| undo(script.read(value).await));
    Ok(script.read(done.await?).await)
}

fn child(nodes: &Nodes, node: &Node, around: &str) -> Part {
    let id = format!("{}/{}{around}", nodes.run.id, node.text);
    Part { id, nodes: nodes.run.nodes.clone(), body: node.nodes.clone() }
}

fn branches(nodes: &Rc<Nodes>, node: &Node, around: &str) -> (Vec<String>, Vec<Body>) {
    let parts = nodes.listed(&node.nodes);
    let run = |part: &Node| {
        let (nodes, list, around) = (nodes.clone(), part.nodes.clone(), around.to_string());
        let run: Body =
            Box::new(move || Box::pin(async move { ended(body(nodes, list, around).await) }));
        run
    };
    let bodies = parts.iter().map(run).collect();
    (parts.into_iter().map(|part| part.name).collect(), bodies)
}

async fn join(nodes: &Rc<Nodes>, node: &Node, around: &str) -> Text {
    let (branches, bodies) = branches(nodes, node, around);
    let at_most = Some(node.number as usize);
    let request = Request::Join { name: node.name.clone(), branches, at_most };
    let value = nodes.script.branches(request, bodies).await?;
    Ok(nodes.script.read::<Vec<String>>(value).await.join("|"))
}

async fn race(nodes: &Rc<Nodes>, node: &Node, around: &str) -> Text {
    let (branches, bodies) = branches(nodes, node, around);
    let rollback_losers = has(node, "rollback_losers");
    let request = Request::Race { name: node.name.clone(), branches, rollback_losers };
    let value = nodes.script.branches(request, bodies).await?;
    let won: Winner = nodes.script.read(value).await;
    Ok(format!("{}={}", won.branch, won.value))
}

#[derive(Schema)]
struct Winner {
    branch: String,
    value: String,
}

async fn repeat(nodes: &Rc<Nodes>, node: &Node, around: &str) -> Text {
    let script = &nodes.script;
    let request = Request::Loop(Loop {
        name: node.name.clone(),
        state: encode(&Counted { count: 0, text: String::new() }),
        commit_interval: 1,
        history_every: node.every,
        history_keep: node.keep,
    });
    let value = script.bodies(request, async |state| {
        let so_far: Counted = script.read(state).await;
        let around = format!("{around}.{}", so_far.count);
        match body(nodes.clone(), node.nodes.clone(), around).await {
            Err(error) => Ended::Failed(error),
            Ok(value) => {
                let next = Counted { count: so_far.count + 1, text: so_far.text + &value };
                match next.count >= node.number {
                    true => Ended::Value(encode(&next.text)),
                    false => Ended::Continue(encode(&next)),
                }
            }
        }
    });
    Ok(script.read(value.await?).await)
}

async fn listen(nodes: &Nodes, node: &Node) -> Text {
    let script = &nodes.script;
    let notes = vec![(Note::NAME, None)];
    let either = vec![(Note::NAME, Some("Note")), (Bell::NAME, Some("Bell"))];
    let after = Some(Deadline::After(node.span));
    let at = Some(Deadline::At(until(nodes, node)));
    let most = Some(node.number);
    let (schemas, most, deadline) = match node.op.as_str() {
        "listen" => (notes, None, None),
        "listen_either" => (either, None, None),
        "listen_n" => (notes, most, None),
        "listen_with_timeout" => (notes, None, after),
        "listen_until" => (vec![(Bell::NAME, None)], None, at),
        "listen_n_with_timeout" => (either, most, after),
        "listen_n_until" => (notes, most, at),
        other => return Err(FlowError::critical("program", format!("no operation {other}"))),
    };
    let is_either = schemas.len() == 2;
    let request = Request::Listen(Listen { name: node.name.clone(), schemas, most, deadline });
    let value = script.run(request).await?;
    let messages = match (value, most) {
        (b"\xf6", None) => return Ok("none".into()),
        (value, None) => vec![message(script, value, is_either).await],
        (value, Some(_)) => split(script, value, is_either).await,
    };
    Ok(messages.join("+"))
}

async fn message(script: &Script, value: Bytes, is_either: bool) -> String {
    if !is_either {
        // A note and a bell have the same fields.
        return script.read::<Note>(value).await.text;
    }
    match script.read(value).await {
        Either::Note(note) => note.text,
        Either::Bell(bell) => bell.text,
    }
}

async fn split(script: &Script, value: Bytes, is_either: bool) -> Vec<String> {
    let mut reader = aos_sdk::cbor::Reader::new(value);
    let mut messages = Vec::new();
    for _ in 0..reader.list().expect("a list of messages") {
        let item = reader.item().expect("a message");
        messages.push(message(script, item, is_either).await);
    }
    messages
}
