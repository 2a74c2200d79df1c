//! `desk/agent@1`, keyed by task: a model that calls tools and proposes one action, as a flow.
//!
//! Rule 1: the tools that the model calls together run in parallel. One that fails is told to the
//! model; it does not fail the task.
//!
//! Rule 2: an action needs the approval of a person for this very proposal, within a day.
//!
//! Rule 3: each call of the model gets the tokens that the budget of the task has left.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

const PATIENCE: Duration = Duration::days(1);
const TOOL_TIMEOUT: Duration = Duration::minutes(2);
const TOOLS_AT_A_TIME: usize = 3;
const MODEL: Retry = Retry::attempts(6).pauses(Duration::seconds(1), Duration::minutes(1)).jitter();

/// A customer asks for something.
#[derive(Schema)]
#[schema("desk/Asked@1")]
pub struct Asked {
    pub task_id: String,
    pub text: String,
    /// Tokens that the model may use for the whole task.
    pub budget: u64,
}

/// A person approves or rejects the proposal of this number.
#[derive(Schema)]
#[schema("desk/Verdict@1")]
pub struct Verdict {
    pub task_id: String,
    pub proposal: u64,
    pub approved: bool,
    pub note: String,
}

/// One message of the conversation with the model.
#[derive(Schema, Clone)]
#[schema("desk/Message@1")]
pub struct Message {
    pub from: String,
    pub text: String,
}

/// Call the model.
#[derive(Effect)]
#[effect("desk/model.call@1", receipt = Thought, executor = "desk", timeout_ms = 120000)]
pub struct Think {
    pub conversation: Vec<Message>,
    pub tokens_max: u64,
}

#[derive(Schema)]
#[schema("desk/Thought@1")]
pub struct Thought {
    pub tokens: u64,
    pub next: Next,
}

/// The model's decision.
#[derive(Schema)]
#[schema("desk/Next@1")]
pub enum Next {
    Tools { calls: Vec<Call> },
    Propose { action: String },
    Answer { text: String },
}

#[derive(Schema, Clone)]
#[schema("desk/Call@1")]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub argument: String,
}

/// Use a tool that only reads.
#[derive(Effect)]
#[effect("desk/tool.use@1", receipt = Found, executor = "desk", timeout_ms = 60000)]
pub struct Use {
    pub tool: String,
    pub argument: String,
}

#[derive(Schema)]
#[schema("desk/Found@1")]
pub struct Found {
    pub text: String,
}

/// Do what a person has approved.
#[derive(Effect)]
#[effect("desk/action.do@1", receipt = Done, executor = "desk", timeout_ms = 60000)]
pub struct Do {
    pub action: String,
}

#[derive(Schema)]
#[schema("desk/Done@1")]
pub struct Done {
    pub receipt: String,
}

/// The view: what the agent is doing.
#[derive(Schema)]
#[schema("desk/Progress@1")]
pub enum Progress {
    Thinking { tokens: u64 },
    UsingTools { calls: u64 },
    /// A person has to send a `desk/Verdict@1` with this number.
    NeedsApproval { proposal: u64, action: String },
    Acting { action: String },
}

/// The output.
#[derive(Schema)]
#[schema("desk/Result@1")]
pub enum Finished {
    Answered { text: String, tokens: u64 },
    Done { action: String, receipt: String, tokens: u64 },
    /// No one decided in time. Nothing was done.
    NotDecided { action: String, tokens: u64 },
    OverBudget { tokens: u64 },
}

/// The state of the loop.
#[derive(Schema, Clone)]
#[schema("desk/Talk@1")]
pub struct Talk {
    pub conversation: Vec<Message>,
    pub tokens: u64,
    pub proposals: u64,
}

#[flow(
    "desk/agent@1",
    key = "desk/TaskId@1",
    start(Asked by "task_id"),
    listens(Verdict by "task_id"),
    effects(Think, Use, Do),
    view = Progress
)]
async fn agent(cx: Cx, asked: Asked) -> Result<Finished, FlowError> {
    let first = Talk {
        conversation: vec![message("customer", &asked.text)],
        tokens: 0,
        proposals: 0,
    };
    cx.loop_("thought", first, async |mut talk| {
        let tokens_max = asked.budget.saturating_sub(talk.tokens);
        if tokens_max == 0 {
            return Ok(Loop::Break(Finished::OverBudget { tokens: talk.tokens }));
        }
        cx.publish(Progress::Thinking { tokens: talk.tokens });
        let think = Think { conversation: talk.conversation.clone(), tokens_max };
        let thought = cx.step("model", think).retry(MODEL).retry_timeouts().await?;
        talk.tokens += thought.tokens;
        match thought.next {
            Next::Answer { text } => {
                Ok(Loop::Break(Finished::Answered { text, tokens: talk.tokens }))
            }
            Next::Tools { calls } => {
                talk.conversation.extend(use_tools(cx, &calls).await?);
                Ok(Loop::Continue(talk))
            }
            Next::Propose { action } => propose(cx, talk, action).await,
        }
    })
    .await
}

/// Use all tools in parallel, at most three at a time. Each has a message as its result.
async fn use_tools(cx: Cx, calls: &[Call]) -> Result<Vec<Message>, FlowError> {
    cx.publish(Progress::UsingTools { calls: calls.len() as u64 });
    // Numbers as names: an id that the model makes up may be empty, or there twice.
    let branches = calls.iter().enumerate().map(|(number, call)| {
        branch(number.to_string(), async move || {
            let tool = Use { tool: call.tool.clone(), argument: call.argument.clone() };
            let text = match cx.step("use", tool).timeout(TOOL_TIMEOUT).await {
                Ok(found) => found.text,
                Err(error) => ["failed: ", error.code()].concat(),
            };
            Ok(message(&call.id, &text))
        })
    });
    cx.join_all("tools", branches).at_most(TOOLS_AT_A_TIME).await
}

/// Wait for a person, and then act, tell the model of the rejection, or give up.
async fn propose(
    cx: Cx,
    mut talk: Talk,
    action: String,
) -> Result<Loop<Talk, Finished>, FlowError> {
    let (proposal, tokens) = (talk.proposals, talk.tokens);
    cx.publish(Progress::NeedsApproval { proposal, action: action.clone() });
    let Some(verdict) = decide(cx, proposal).await? else {
        return Ok(Loop::Break(Finished::NotDecided { action, tokens }));
    };
    if verdict.approved {
        cx.publish(Progress::Acting { action: action.clone() });
        let done = cx.step("act", Do { action: action.clone() }).await?;
        return Ok(Loop::Break(Finished::Done { action, receipt: done.receipt, tokens }));
    }
    talk.proposals += 1;
    talk.conversation.push(message("person", &["rejected: ", &*verdict.note].concat()));
    Ok(Loop::Continue(talk))
}

/// The verdict on this proposal; None after a day. Verdicts on earlier ones come too late.
async fn decide(cx: Cx, proposal: u64) -> Result<Option<Verdict>, FlowError> {
    let until = cx.local("until", |local| local.now() + PATIENCE).await?;
    cx.loop_("decision", (), async |()| {
        Ok(match cx.listen_until::<Verdict>("verdict", until).await? {
            Some(verdict) if verdict.proposal != proposal => Loop::Continue(()),
            decided => Loop::Break(decided),
        })
    })
    .await
}

fn message(from: &str, text: &str) -> Message {
    Message { from: from.into(), text: text.into() }
}
