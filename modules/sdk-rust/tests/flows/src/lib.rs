//! Small programs for `tests/flow`: the start names the one that runs. `probe` is their first
//! version, and `next` a later one over the same history.

#![no_std]
#![deny(unused_must_use)]

use core::future::Future;

use aos_sdk::flow::{branch, Branch, Callable, Cx, Flow, FlowError, Kind, Loop, Retry, Turn};
use aos_sdk::prelude::*;

/// Starts a flow with a program.
#[derive(Schema, Clone)]
#[schema("t/Go@1")]
pub struct Go {
    pub id: String,
    pub program: String,
    pub count: u64,
    pub pause: Duration,
    pub until: Time,
    pub blob: Option<Hash>,
}

/// Starts a child.
#[derive(Schema)]
#[schema("t/Work@1")]
pub struct Work {
    pub id: String,
    pub what: String,
}

#[derive(Schema, Debug)]
#[schema("t/Note@1")]
pub struct Note {
    pub id: String,
    pub text: String,
}

#[derive(Schema, Debug)]
#[schema("t/Bell@1")]
pub struct Bell {
    pub id: String,
    pub times: u64,
}

/// A schema that no flow listens for.
#[derive(Schema)]
#[schema("t/Stranger@1")]
pub struct Stranger {
    pub id: String,
}

#[derive(Event)]
#[schema("t/Either@1")]
pub enum Either {
    Note(Note),
    Bell(Bell),
}

/// Emitted by a flow.
#[derive(Schema)]
#[schema("t/Told@1")]
pub struct Told {
    pub text: String,
}

#[derive(Effect)]
#[effect("t/do@1", receipt = Done, executor = "t")]
pub struct Do {
    pub what: String,
}

#[derive(Schema)]
#[schema("t/Done@1")]
pub struct Done {
    pub note: String,
}

#[derive(Effect)]
#[effect("t/undo@1", receipt = Undone, executor = "t")]
pub struct Undo {
    pub what: String,
}

#[derive(Schema)]
#[schema("t/Undone@1")]
pub struct Undone {
    pub note: String,
}

#[derive(Schema)]
#[schema("t/Shown@1")]
pub struct Shown {
    pub at: String,
    pub blob: Option<Hash>,
}

/// The result of a flow of these tests.
type Ended = Result<String, FlowError>;

#[flow(
    "t/probe@1",
    key = "t/Id@1",
    start(Go by "id"),
    listens(Note by "id", Bell by "id"),
    effects(Do, Undo),
    view = Shown,
    calls(Child),
    limits(effects = 100)
)]
async fn probe(cx: Cx, go: Go) -> Ended {
    run(cx, go, 1).await
}

/// A child that other flows call.
#[flow(
    "t/child@1",
    key = "t/Id@1",
    start(Work by "id"),
    effects(Do, Undo),
    callable
)]
async fn child(cx: Cx, work: Work) -> Ended {
    let done = act(cx, &work.what).await?;
    cx.sleep("nap", Duration::hours(1)).await?;
    if work.what == "child-fails" {
        return Err(FlowError::rollback("refused", "the child refuses"));
    }
    Ok(done)
}

/// The same workflow in a later version.
pub struct Next;

impl Flow for Next {
    type Input = Go;
    type Output = String;
    type View = Shown;
    const WORKFLOW: &'static str = Probe::WORKFLOW;
    const CONTROL: &'static str = Probe::CONTROL;
    const RETURN: Option<&'static str> = Probe::RETURN;
    const OUTPUT: Option<&'static str> = Probe::OUTPUT;
    const VIEW: Option<&'static str> = Probe::VIEW;
    const LISTENS: &'static [&'static str] = Probe::LISTENS;
    const EFFECTS_LIMIT: u64 = Probe::EFFECTS_LIMIT;

    fn run(cx: Cx, go: Go) -> impl Future<Output = Ended> {
        run(cx, go, 2)
    }
}

aos_sdk::export!(next: Turn<Next>);

/// A step whose effect and compensation are named after it.
async fn act(cx: Cx, name: &str) -> Ended {
    let done = cx
        .step(name, Do { what: name.into() })
        .retry(Retry::NEVER)
        .rollback(|done| Undo { what: done.note.clone() })
        .await?;
    Ok(done.note)
}

async fn run(cx: Cx, go: Go, revision: u64) -> Ended {
    let is_next = revision > 1;
    match go.program.as_str() {
        "steps" => {
            let one = act(cx, "one").await?;
            let two = act(cx, "two").await?;
            let three = cx.step("three", Do { what: format!("{one} {two}") }).await?;
            Ok(three.note)
        }
        "straight" => {
            let mut notes = 0;
            for number in 0..go.count {
                let name = format!("s{number}");
                notes += cx.step(&name, Do { what: name.clone() }).await?.note.len();
            }
            cx.sleep("nap", go.pause).await?;
            Ok(notes.to_string())
        }
        "retry" => Ok(cx.step("try", Do { what: "try".into() }).await?.note),
        "patient" => {
            let retry = Retry::attempts(go.count).pauses(go.pause, Duration::hours(1)).jitter();
            let step = cx.step("try", Do { what: "try".into() }).retry(retry);
            Ok(step.retry_timeouts().await?.note)
        }
        "timeout" => {
            let step = cx.step("slow", Do { what: "slow".into() }).timeout(go.pause);
            let step = step
                .retry(Retry::attempts(go.count).pauses(Duration::hours(1), Duration::hours(1)));
            match step.rollback_unknown(|| Undo { what: "slow".into() }).await {
                Ok(done) => Ok(done.note),
                Err(FlowError::Timeout(failure)) if go.count < 3 => Ok(failure.code),
                Err(error) => Err(error),
            }
        }
        "locals" => {
            let now = cx.local("now", |local| local.now()).await?;
            let number = cx.local("number", |local| local.random()).await?;
            let uuid = cx.local("uuid", |local| local.uuid()).await?;
            cx.emit("told", Told { text: uuid.text() }).await?;
            cx.sleep("nap", go.pause).await?;
            let later = cx.local("later", |local| (local.now() - now).ns()).await?;
            Ok(format!("{number} {} {later} {}", uuid.text(), (cx.started_at() - now).ns()))
        }
        "sleep" => {
            cx.sleep("nap", go.pause).await?;
            Ok("awake".into())
        }
        "sleep-until" => {
            cx.sleep_until("nap", go.until).await?;
            Ok("awake".into())
        }
        "listens" => listens(cx, &go).await,
        "either" => {
            let mut all = String::new();
            for name in ["first", "second", "third"] {
                match cx.listen::<Either>(name).await? {
                    Either::Note(note) => all.push_str(&note.text),
                    Either::Bell(bell) => all.push_str(&bell.times.to_string()),
                }
            }
            Ok(all)
        }
        "drains" => {
            cx.sleep("nap", go.pause).await?;
            cx.loop_("notes", String::new(), async |all| {
                let note = cx.listen::<Note>("note").await?;
                let all = all + &note.text;
                let count = all.matches(';').count() as u64;
                Ok(if count == go.count { Loop::Break(all) } else { Loop::Continue(all) })
            })
            .await
        }
        "stranger" => {
            cx.listen::<Stranger>("for-ever").await?;
            Ok("heard".into())
        }
        "shows" => {
            cx.publish(Shown { at: "first".into(), blob: go.blob.clone() });
            cx.step("one", Do { what: "one".into() }).await?;
            cx.join(
                "both",
                (
                    branch("left", async || {
                        cx.step("two", Do { what: "two".into() }).await?;
                        cx.publish(Shown { at: "left".into(), blob: None });
                        Ok(())
                    }),
                    branch("right", async || cx.sleep("nap", go.pause).await),
                ),
            )
            .await?;
            Ok("shown".into())
        }
        "publishes-another-type" => {
            cx.publish(7u64);
            Ok("unreachable".into())
        }
        "unwinds" => {
            act(cx, "before").await?;
            cx.checkpoint("mark").await?;
            act(cx, "one").await?;
            act(cx, "two").await?;
            cx.rollback_to("back", "mark").await?;
            act(cx, "after").await?;
            Err(FlowError::critical("enough", "the end of the test"))
        }
        "commits" => {
            act(cx, "one").await?;
            cx.checkpoint("mark").await?;
            act(cx, "two").await?;
            cx.commit("final").await?;
            act(cx, "three").await?;
            cx.rollback_to("back", "mark").await?;
            act(cx, "four").await?;
            Err(FlowError::critical("enough", "the end of the test"))
        }
        "no-mark" => {
            cx.rollback_to("back", "nowhere").await?;
            Ok("unreachable".into())
        }
        "join" => {
            let joined = cx
                .join(
                    "both",
                    (
                        branch("left", async || act(cx, "one").await),
                        branch("right", async || {
                            let one = act(cx, "one").await?;
                            let two = act(cx, "two").await?;
                            Ok(format!("{one}+{two}"))
                        }),
                    ),
                )
                .await;
            match joined {
                Ok((left, right)) => Ok(format!("{left} {right}")),
                Err(error) if go.count == 1 => {
                    cx.sleep("nap", go.pause).await?;
                    Ok(causes(&error))
                }
                Err(error) => Err(error),
            }
        }
        "join-all" => {
            let names: Vec<String> = (0..go.count).map(|number| format!("b{number}")).collect();
            let all =
                cx.join_all("all", names.iter().map(|name| acting(cx, name))).at_most(2).await?;
            Ok(all.join(" "))
        }
        "many" => {
            let names: Vec<String> = (0..go.count).map(|number| format!("b{number}")).collect();
            let all = cx.join_all("all", names.iter().map(|name| acting(cx, name))).await?;
            Ok(all.len().to_string())
        }
        "many-and-cancel" => {
            let names: Vec<String> = (0..go.count).map(|number| format!("b{number}")).collect();
            let won = cx
                .race(
                    "race",
                    [
                        branch("many", async || {
                            let all = names.iter().map(|name| acting(cx, name));
                            Ok(cx.join_all("all", all).await?.len().to_string())
                        }),
                        branch("note", async || Ok(cx.listen::<Note>("note").await?.text)),
                    ],
                )
                .await?;
            Ok(won.value)
        }
        "race" => {
            let race = cx.race(
                "race",
                [
                    branch("work", async || {
                        act(cx, "one").await?;
                        act(cx, "two").await
                    }),
                    branch("note", async || {
                        let note = cx.listen::<Note>("note").await?;
                        match note.text.as_str() {
                            "rollback" => Err(FlowError::rollback("asked", "by a note")),
                            "critical" => Err(FlowError::critical("asked", "by a note")),
                            _ => Ok(note.text),
                        }
                    }),
                ],
            );
            let won = if go.count == 1 { race.rollback_losers().await } else { race.await };
            match won {
                Ok(won) => {
                    act(cx, "after").await?;
                    Ok(format!("{} {}", won.branch, won.value))
                }
                Err(error) if go.count == 2 => {
                    cx.sleep("nap", go.pause).await?;
                    Ok(format!("{} {}", error.kind(), causes(&error)))
                }
                Err(error) => Err(error),
            }
        }
        "step-or-note" => {
            let won = cx
                .race(
                    "race",
                    [
                        branch("step", async || {
                            let done = act(cx, "one").await;
                            if go.count == 1 {
                                done.map_err(FlowError::into_rollback)
                            } else {
                                done
                            }
                        }),
                        branch("note", async || Ok(cx.listen::<Note>("note").await?.text)),
                    ],
                )
                .await?;
            Ok(won.value)
        }
        "gives-back" => {
            let won = cx
                .race(
                    "race",
                    [
                        branch("greedy", async || {
                            cx.scope("inner", async || {
                                cx.listen::<Note>("one").await?;
                                Ok(())
                            })
                            .await?;
                            cx.loop_("three", 0u64, async |count| {
                                cx.listen::<Note>("two").await?;
                                Ok(if count == 1 {
                                    Loop::Break(())
                                } else {
                                    Loop::Continue(count + 1)
                                })
                            })
                            .await?;
                            cx.listen::<Note>("four").await?;
                            Ok("greedy".to_string())
                        }),
                        branch("bell", async || {
                            cx.listen::<Bell>("bell").await?;
                            Ok("bell".to_string())
                        }),
                    ],
                )
                .await?;
            let mut all = won.value;
            for note in cx.listen_n::<Note>("rest", 10).await? {
                all.push_str(&note.text);
            }
            Ok(all)
        }
        "nested" => nested(cx, &go).await,
        "loop" => {
            cx.loop_("pages", 0u64, async |page| {
                let done = cx.step("fetch", Do { what: format!("page {page}") }).await?;
                let done = cx.step("store", Do { what: done.note }).await?;
                Ok(if page + 1 == go.count {
                    Loop::Break(done.note)
                } else {
                    Loop::Continue(page + 1)
                })
            })
            .history_every(10)
            .history_keep(10)
            .commit_interval(10)
            .await
        }
        "loop-of-locals" => {
            let sum = cx
                .loop_("sum", (0u64, 0u64).0, async |number| {
                    cx.local("next", |_| number).await?;
                    Ok(if number + 1 == go.count {
                        Loop::Break(number)
                    } else {
                        Loop::Continue(number + 1)
                    })
                })
                .await?;
            Ok(sum.to_string())
        }
        "loop-for-ever" => {
            cx.loop_("for-ever", 0u64, async |number| Ok(Loop::<u64, String>::Continue(number + 1)))
                .await
        }
        "loop-of-nothing" => loop {
            if cx.started_at().ns() < 0 {
                return Ok(String::new());
            }
        },
        "intervals" => {
            let body = async |_: u64| Ok(Loop::<u64, String>::Break("unreachable".into()));
            match go.count {
                0 => cx.loop_("loop", 0, body).commit_interval(0).await,
                1 => cx.loop_("loop", 0, body).history_every(0).await,
                2 => {
                    cx.join_all("all", [acting(cx, "one")]).at_most(0).await.map(|all| all.join(""))
                }
                3 => cx.listen_n::<Note>("notes", 0).await.map(|_| String::new()),
                4 => Ok(cx
                    .step("one", Do { what: "one".into() })
                    .retry(Retry::attempts(0))
                    .await?
                    .note),
                _ => cx.sleep("nap", go.pause).await.map(|()| String::new()),
            }
        }
        "rolls-back-in-loop" => {
            cx.loop_("loop", 0u64, async |number| {
                act(cx, "one").await?;
                Ok(if number == 2 { Loop::Break(()) } else { Loop::Continue(number + 1) })
            })
            .await?;
            match cx.step("caught", Do { what: "caught".into() }).await {
                Err(FlowError::Critical(_)) => {}
                _ => return Ok("unreachable".into()),
            }
            cx.scope("scope", async || act(cx, "two").await).await?;
            Err(FlowError::critical("enough", "the end of the test"))
        }
        "catches" => {
            let failed = cx.step("one", Do { what: "one".into() }).await.map(|done| done.note);
            cx.sleep("nap", go.pause).await?;
            match failed {
                Ok(note) => Ok(note),
                Err(error) => Ok(error.to_string()),
            }
        }
        "changes" => {
            let mut notes: Vec<String> = Vec::new();
            notes.push(cx.step("one", Do { what: "one".into() }).await?.note);
            notes[0].push('!');
            cx.sleep("nap", go.pause).await?;
            Ok(notes.join(" "))
        }
        "calls" => {
            let work = Work {
                id: "kid".into(),
                what: if go.count == 1 { "child-fails" } else { "kid" }.into(),
            };
            act(cx, "one").await?;
            let called = cx.call::<Child>("kid", work).await;
            match called {
                Err(error) if go.count == 2 => Ok(error.to_string()),
                called => called,
            }
        }
        "races-a-call" => {
            let won = cx
                .race(
                    "race",
                    [
                        branch("kid", async || {
                            let work = Work { id: "kid".into(), what: "kid".into() };
                            let call = cx.call::<Child>("call", work);
                            match go.count {
                                1 => call.rollback(|done| Undo { what: done.clone() }).await,
                                _ => call.await,
                            }
                        }),
                        branch("note", async || Ok(cx.listen::<Note>("note").await?.text)),
                    ],
                )
                .await?;
            Ok(won.value)
        }
        "undoes-a-call" => {
            let work = Work { id: "kid".into(), what: "kid".into() };
            let call = cx.call::<Child>("kid", work).rollback(|done| Undo { what: done.clone() });
            let done = call.await?;
            cx.sleep("nap", go.pause).await?;
            match go.count {
                1 => Err(FlowError::critical("enough", "the end of the test")),
                _ => Ok(done),
            }
        }
        "timed" => {
            let step = cx.step("slow", Do { what: "slow".into() }).timeout(go.pause);
            let step = step.rollback(|done| Undo { what: done.note.clone() });
            match step.rollback_unknown(|| Undo { what: "unknown".into() }).await {
                Ok(_) => cx.sleep("nap", Duration::days(1)).await.map(|()| "in time".into()),
                Err(error) => Err(error),
            }
        }
        "changed-value" => {
            let left = branch("left", async || act(cx, "one").await);
            let right = branch("right", async || cx.sleep("nap", go.pause).await);
            if !is_next {
                return cx.join("both", (left, right)).await.map(|(left, ())| left);
            }
            let left = branch("left", async || act(cx, "one").await.map(|done| done.len() as u64));
            let both = cx.join("both", (left, right)).await;
            both.map(|(left, ())| left.to_string())
        }
        "spawns" => {
            cx.spawn::<Child>("kid", Work { id: "kid".into(), what: "kid".into() }).await?;
            Ok("spawned".into())
        }
        "changed-code" => changed(cx, is_next).await,
        "moved" => {
            let (first, second) = if is_next { ("two", "one") } else { ("one", "two") };
            act(cx, first).await?;
            act(cx, second).await
        }
        "changed-branches" => {
            let names: &[&str] = match (is_next, go.count) {
                (false, _) => &["a", "b"],
                (true, 1) => &["a", "b", "c"],
                (true, 2) => &["a"],
                (true, _) => &["b", "a"],
            };
            let all = cx.join_all("all", names.iter().map(|name| acting(cx, name))).await?;
            cx.sleep("nap", go.pause).await?;
            Ok(all.join(" "))
        }
        "left-out" => {
            if !is_next {
                act(cx, "one").await?;
            }
            Ok("done".into())
        }
        "versions" => {
            act(cx, "before").await?;
            if is_next && cx.version("gate", 2).await? >= 2 {
                act(cx, "added").await?;
            }
            cx.sleep("nap", go.pause).await?;
            if is_next && cx.version("later", 3).await? >= 2 {
                act(cx, "also").await?;
            }
            Ok("done".into())
        }
        "versions-in-loop" => {
            let total = cx
                .loop_("days", 0u64, async |day| {
                    cx.sleep("day", go.pause).await?;
                    if is_next && cx.version("gate", 2).await? == 2 {
                        cx.emit("told", Told { text: format!("day {day}") }).await?;
                    }
                    Ok(if day == 2 { Loop::Break(day) } else { Loop::Continue(day + 1) })
                })
                .await?;
            Ok(total.to_string())
        }
        "removes" => {
            act(cx, "before").await?;
            if is_next {
                cx.removed("gone", Kind::Step).await?;
            } else {
                act(cx, "gone").await?;
            }
            act(cx, "after").await
        }
        "names" => match go.count {
            0 => act(cx, "").await,
            1 => act(cx, &"n".repeat(129)).await,
            2 => {
                cx.local("same", |_| 1u64).await?;
                cx.local("same", |_| 1u64).await?;
                Ok("unreachable".into())
            }
            3 => cx
                .join_all("all", [acting(cx, "same"), acting(cx, "same")])
                .await
                .map(|all| all.join("")),
            4 => cx.scope(&"s".repeat(100), async || act(cx, &"n".repeat(100)).await).await,
            _ => cx.scope("a/b:%~", async || act(cx, "~1#2:x/é").await).await,
        },
        "two-at-once" => {
            let mut one = core::pin::pin!(cx.sleep("one", go.pause));
            let mut two = core::pin::pin!(cx.sleep("two", go.pause));
            core::future::poll_fn(|task| {
                let one = one.as_mut().poll(task).is_ready();
                let two = two.as_mut().poll(task).is_ready();
                if one && two {
                    core::task::Poll::Ready(())
                } else {
                    core::task::Poll::Pending
                }
            })
            .await;
            Ok("unreachable".into())
        }
        "dropped" => {
            {
                let mut one = core::pin::pin!(cx.sleep("one", go.pause));
                core::future::poll_fn(|task| {
                    let _ = one.as_mut().poll(task);
                    core::task::Poll::Ready(())
                })
                .await;
            }
            Ok("unreachable".into())
        }
        "something-else" => {
            core::future::pending::<()>().await;
            Ok("unreachable".into())
        }
        _ => Err(FlowError::critical("program", format!("no program {}", go.program))),
    }
}

/// A branch with a step of the same name.
fn acting<'a>(cx: Cx, name: &'a str) -> Branch<'a, String> {
    branch(name, async move || act(cx, "act").await)
}

fn causes(error: &FlowError) -> String {
    let causes: Vec<String> = error.causes().iter().map(|cause| cause.to_string()).collect();
    causes.join(", ")
}

async fn listens(cx: Cx, go: &Go) -> Ended {
    let text =
        |notes: Vec<Note>| notes.into_iter().map(|note| note.text).collect::<Vec<_>>().join("+");
    let one = |note: Option<Note>| note.map_or("none".to_string(), |note| note.text);
    Ok(match go.count {
        0 => cx.listen::<Note>("note").await?.text,
        1 => text(cx.listen_n("notes", 2).await?),
        2 => one(cx.listen_with_timeout("note", go.pause).await?),
        3 => one(cx.listen_until("note", go.until).await?),
        4 => text(cx.listen_n_with_timeout("notes", 2, go.pause).await?),
        _ => text(cx.listen_n_until("notes", 2, go.until).await?),
    })
}

/// Three deep: a race in a join in a loop.
async fn nested(cx: Cx, go: &Go) -> Ended {
    cx.loop_("rounds", String::new(), async |so_far| {
        let (won, done) = cx
            .join(
                "both",
                (
                    branch("raced", async || {
                        let won = cx
                            .race(
                                "race",
                                [
                                    branch("nap", async || {
                                        cx.sleep("nap", go.pause).await?;
                                        Ok("slept".to_string())
                                    }),
                                    branch("act", async || act(cx, "one").await),
                                ],
                            )
                            .await?;
                        Ok(won.branch)
                    }),
                    branch("unit", async || {
                        cx.scope("scope", async || cx.sleep("nap", go.pause).await).await
                    }),
                ),
            )
            .await?;
        let () = done;
        let so_far = so_far + &won + ";";
        let rounds = so_far.matches(';').count() as u64;
        Ok(if rounds == go.count { Loop::Break(so_far) } else { Loop::Continue(so_far) })
    })
    .await
}

async fn changed(cx: Cx, is_next: bool) -> Ended {
    let what = if is_next { "other params" } else { "params" };
    Ok(cx.step("one", Do { what: what.into() }).await?.note)
}

/// For the compiler: a callable flow has a key.
const _: &str = <Child as Callable>::KEY_FIELD;
