//! The interpreter as the body of a flow: a `Program` of the engine (PY-40 to PY-47).
//!
//! One virtual machine runs all bodies as tasks. The code of `prelude.py` in front of the program
//! turns each operation into a call of `_aos_op`, at which the machine pauses; an operation that has
//! not ended is awaited as a future of `_aos_wait`.

mod request;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use aos_sdk::flow::untyped::{Answer, Ended, Id, Pause, Program, Request, Start};
use aos_sdk::flow::{Failure, FlowError};
use aos_sdk::{Fault, Time};
use monty::{FunctionCall, MontyRun, ResolveFutures, RunProgress};
use monty_types::unstable::{self, ClassTypeNode, MontyGraph, MontyNode};
use monty_types::{
    DateTimeSource, ExcType, ExtFunctionResult, FlowErrorData, MontyException, MontyObject,
    MontyType, NameLookupResult, OsFunctionCall, OsPolicy, PrintWriter, ProcessTime, RandomStart,
    ResourceLimits, ResourceTracker, SandboxTimeZone, SleepMode,
};

use crate::heap;
use crate::prepared;
use crate::segment::{Effect, Flow, Other, Segment};
use crate::values::Values;
use request::Expected;

/// Names that the program reads without an import, in front of its own.
pub(crate) const PRELUDE: &str = include_str!("prelude.py");

/// Frames of Python. They are on the heap.
const FRAMES_MAX: usize = 500;

/// The most bytes of a fault's message: the kernel takes 4,096 with its kind.
const MESSAGE_BYTES_MAX: usize = 4_000;

/// Of it, about so many show where the program began; the text of the exception has at most
/// `TEXT_BYTES_MAX`, each line of the source at most `LINE_BYTES_MAX`.
const HEAD_BYTES: usize = 600;
const TEXT_BYTES_MAX: usize = 2_000;
const LINE_BYTES_MAX: usize = 300;

pub(crate) const FAILURES: [(&str, ExcType); 8] = [
    ("FlowError", ExcType::FlowError),
    ("Critical", ExcType::FlowCritical),
    ("Rollback", ExcType::FlowRollback),
    ("Exhausted", ExcType::FlowExhausted),
    ("Timeout", ExcType::FlowTimeout),
    ("Canceled", ExcType::FlowCanceled),
    ("JoinFailed", ExcType::FlowJoin),
    ("RaceFailed", ExcType::FlowRace),
];

pub(crate) const FUNCTIONS: [&str; 3] = ["_aos_op", "_aos_wait", "_aos_register"];

/// The name of the number of the flow that runs, among those of the program.
pub(crate) const FLOW: &str = "_aos_flow";

/// A flow of a program that runs.
pub struct Python {
    values: Values,
    effects: HashMap<&'static str, Effect>,
    /// The effect whose params are instances of a class, by the schema of the params.
    effect_of: HashMap<&'static str, &'static str>,
    flow: Flow,
    /// Its place in the list of the program's flows.
    number: i64,
    calls: HashMap<&'static str, Other>,
    /// The package `aos`, whose attribute `flow` has the names of the prelude.
    package: Option<MontyObject>,
    source_lines: u32,
    input: &'static [u8],
    machine: Machine,
    /// The type of the answer to the request that is open now.
    expected: Expected,
    /// The same for requests that wait, with the future that waits for each.
    waits: HashMap<Id, Wait>,
    /// The ends of joins and races that have ended in this turn.
    ends: HashMap<Id, Result<MontyObject, FlowError>>,
}

struct Wait {
    expected: Expected,
    future: Option<u32>,
}

/// The state of the virtual machine.
enum Machine {
    /// The program has not begun.
    Ready(MontyRun),
    /// `_aos_op` was called and is not answered.
    Called(FunctionCall),
    /// All tasks wait.
    Waiting(ResolveFutures),
    /// The last request has ended the flow, or a fault has.
    Over,
}

impl Python {
    /// The program of a flow before it begins. The fault has the place of a syntax error.
    pub fn new(segment: &Segment, flow: &Flow, schemas: Values) -> Result<Python, Fault> {
        let run = prepared::ready(segment)?;
        let number = segment.flows.iter().position(|one| one.event == flow.event);
        Ok(Python {
            values: schemas,
            effects: segment.effects.clone(),
            effect_of: HashMap::new(),
            flow: flow.clone(),
            number: number.unwrap_or_default() as i64,
            calls: segment.calls.clone(),
            package: None,
            source_lines: segment.source.lines().count() as u32,
            input: &[],
            machine: Machine::Ready(run),
            expected: Expected::Nothing,
            waits: HashMap::new(),
            ends: HashMap::new(),
        })
    }

    /// Run on until the program pauses.
    fn run(&mut self, mut progress: Result<RunProgress, MontyException>) -> Pause {
        loop {
            progress = match progress {
                Err(exception) => return self.over(&exception),
                Ok(RunProgress::FunctionCall(call)) => match self.called(call) {
                    Ok(progress) => progress,
                    Err(pause) => return pause,
                },
                Ok(RunProgress::OsCall(call)) => {
                    let result = self.outside(&call.function_call);
                    call.resume(result, PrintWriter::Disabled)
                }
                Ok(RunProgress::NameLookup(lookup)) => {
                    lookup.resume(NameLookupResult::Undefined, PrintWriter::Disabled)
                }
                Ok(RunProgress::ResolveFutures(futures)) => {
                    self.machine = Machine::Waiting(futures);
                    return Pause::Waiting;
                }
                // The flow's `end` has no answer, so the code after it never runs.
                Ok(RunProgress::Complete(_)) => return Pause::Waiting,
            }
        }
    }

    /// The answer to an import or to an access to the outside.
    fn outside(&self, call: &OsFunctionCall) -> ExtFunctionResult {
        match (call, &self.package) {
            (OsFunctionCall::Import(name), Some(package)) if name == "aos" => {
                package.clone().into()
            }
            _ => refused(call),
        }
    }

    /// The end of the program by an exception: the flow's failure, or a fault.
    fn over(&self, exception: &MontyException) -> Pause {
        let failed = exception.data().flow().and_then(|data| caught(exception.exc_type(), data));
        match failed {
            Some(error) => Pause::Request(Request::End { body: 0, ended: Ended::Failed(error) }),
            None => Pause::Fault(fault(exception, self.source_lines)),
        }
    }

    /// Handle a call of one of `FUNCTIONS`: with the program's progress, or with a pause.
    fn called(&mut self, call: FunctionCall) -> Result<Result<RunProgress, MontyException>, Pause> {
        match call.function_name.as_str() {
            "_aos_wait" => {
                let id = call.args.arg(0).and_then(|id| id.as_int()).unwrap_or(-1) as Id;
                let future = Some(call.call_id);
                match self.waits.get_mut(&id) {
                    Some(wait) => wait.future = future,
                    None => {
                        drop(self.waits.insert(id, Wait { expected: Expected::Dynamic, future }))
                    }
                }
                Ok(call.resume_pending(PrintWriter::Disabled))
            }
            "_aos_register" => {
                let result = self.register(&call);
                Ok(call.resume(result, PrintWriter::Disabled))
            }
            _ => match self.operation(&call) {
                Ok(request::Next::Answer(object)) => Ok(call.resume(object, PrintWriter::Disabled)),
                Ok(request::Next::Request(request, expected)) => {
                    if let Some(expected) = expected {
                        self.expected = expected;
                    }
                    self.machine = Machine::Called(call);
                    Err(Pause::Request(request))
                }
                Ok(request::Next::Misfit(words)) => Err(Pause::Misfit(words)),
                Err(exception) => Ok(call.resume(exception, PrintWriter::Disabled)),
            },
        }
    }

    /// `_aos_register(kind, name, class)`.
    fn register(&mut self, call: &FunctionCall) -> ExtFunctionResult {
        let text = |at| call.args.arg(at).and_then(|text| text.as_str());
        let class = call.args.arg(2).map(unstable::node);
        let (Some(kind), Some(name), Some(MontyNode::ClassType(class))) = (text(0), text(1), class)
        else {
            return type_error(
                "schema(name) and effect(name, executor=executor) take the name of a schema or an effect",
            )
            .into();
        };
        let schema = match kind {
            "package" => {
                self.package = class_object(class);
                return MontyObject::none().into();
            }
            "effect" => match self.effects.get_key_value(name) {
                Some((name, effect)) => {
                    self.effect_of.insert(effect.params, name);
                    effect.params
                }
                None => {
                    return type_error(&format!(
                        "the program has no effect {name}: build it again"
                    ))
                    .into();
                }
            },
            _ => name,
        };
        if self.values.schemas.get(schema).is_none() {
            return type_error(&format!("the program has no schema {schema}: build it again"))
                .into();
        }
        self.values.register(schema, &class.name, class.id);
        MontyObject::none().into()
    }

    /// The answer as the prelude reads it, or the failure that it raises.
    fn answered(&mut self, answer: Answer) -> Result<ExtFunctionResult, Pause> {
        let words = |words: &str| MontyObject::string(words);
        let object = match answer {
            Answer::Done(Ok(value)) => {
                let value = self.expected.read(&self.values, value).map_err(Pause::Misfit)?;
                MontyObject::tuple([words("done"), value])
            }
            Answer::Done(Err(error)) => return Ok(raised(&error).into()),
            Answer::Wait(id) => {
                let expected = mem::replace(&mut self.expected, Expected::Nothing);
                self.waits.insert(id, Wait { expected, future: None });
                MontyObject::tuple([words("wait"), MontyObject::int(id.into())])
            }
            Answer::Branches { wait, bodies } => {
                let expected =
                    Expected::End(Box::new(mem::replace(&mut self.expected, Expected::Nothing)));
                self.waits.insert(wait, Wait { expected, future: None });
                let bodies = bodies.into_iter().map(|body| MontyObject::int(body.into()));
                let bodies = MontyObject::list(bodies);
                MontyObject::tuple([words("branches"), MontyObject::int(wait.into()), bodies])
            }
            Answer::Run { body, state } => {
                let state = self.values.read_dynamic(state).map_err(Pause::Misfit)?;
                MontyObject::tuple([words("run"), MontyObject::int(body.into()), state])
            }
            Answer::Compensate(value) => {
                let value = self.expected.read(&self.values, value).map_err(Pause::Misfit)?;
                MontyObject::tuple([words("compensate"), value])
            }
            Answer::Compute { now } => {
                // Python's datetime has microseconds.
                let us = now.ns().div_euclid(1_000) * 1_000;
                let now = request::moment(Time::from_ns(us));
                MontyObject::tuple([words("compute"), now])
            }
        };
        Ok(object.into())
    }
}

impl Program for Python {
    fn start(&mut self, start: &Start) -> Pause {
        let Machine::Ready(run) = mem::replace(&mut self.machine, Machine::Over) else {
            return Pause::Waiting;
        };
        self.input = start.input;
        heap::start_to_count();
        let functions = FUNCTIONS.iter().map(|name| MontyObject::function(*name, None));
        let failures =
            FAILURES.iter().map(|(_, of)| MontyObject::type_object(MontyType::Exception(*of)));
        let inputs = functions.chain(failures).chain([MontyObject::int(self.number)]).collect();
        let limits =
            ResourceLimits::default().max_recursion_depth(FRAMES_MAX).max_memory(heap::MEMORY_MAX);
        let run = run.with_os_policy(policy(start.started_at));
        let progress = run.start(inputs, ResourceTracker::new(limits), PrintWriter::Disabled);
        self.run(progress)
    }

    fn answer(&mut self, answer: Answer) -> Pause {
        let Machine::Called(call) = mem::replace(&mut self.machine, Machine::Over) else {
            return Pause::Waiting;
        };
        match self.answered(answer) {
            Ok(result) => {
                let progress = call.resume(result, PrintWriter::Disabled);
                self.run(progress)
            }
            Err(pause) => pause,
        }
    }

    fn resume(&mut self, wait: Id, answer: Answer) -> Pause {
        let waiting = self.waits.remove(&wait);
        let (Machine::Waiting(futures), Some(Wait { expected, future: Some(future) })) =
            (mem::replace(&mut self.machine, Machine::Over), waiting)
        else {
            let words = format!("nothing waits for the answer {wait}");
            return Pause::Fault(Fault::new("program", words));
        };
        let result = match (expected, answer) {
            // The end of a join or race: the prelude leaves its `gather` and asks for the end.
            (Expected::End(expected), Answer::Done(ended)) => {
                let ended = match ended.map(|value| expected.read(&self.values, value)) {
                    Ok(Ok(value)) => Ok(value),
                    Ok(Err(words)) => return Pause::Misfit(words),
                    Err(error) => Err(error),
                };
                self.ends.insert(wait, ended);
                Ok(MontyException::new(ExcType::SystemExit, None).into())
            }
            (expected, answer) => {
                self.expected = expected;
                self.answered(answer)
            }
        };
        match result {
            Ok(result) => {
                let progress = futures.resume(vec![(future, result)], PrintWriter::Disabled);
                self.run(progress)
            }
            Err(pause) => pause,
        }
    }

    fn check(&mut self, _branch: &str, value: &'static [u8]) -> Result<(), String> {
        self.values.read_dynamic(value).map(drop)
    }
}

/// A class of the program as a value.
fn class_object(class: &ClassTypeNode) -> Option<MontyObject> {
    let mut graph = MontyGraph::new();
    let root = graph.push(MontyNode::ClassType(Box::new(class.clone())));
    unstable::object_from_graph(graph, root).ok()
}

/// The clock is the time of the flow's start, in each turn. There are no files, no sleep, and no
/// random numbers but those of `cx.local`.
fn policy(started_at: Time) -> OsPolicy {
    let us = started_at.ns().div_euclid(1_000);
    OsPolicy {
        datetime: DateTimeSource::Fixed {
            unix_seconds: us.div_euclid(1_000_000),
            microsecond: us.rem_euclid(1_000_000) as u32,
        },
        timezone: SandboxTimeZone::utc(),
        sleep: SleepMode::CallHost,
        process_time: ProcessTime::Zero,
        random_start: RandomStart::CallHost,
    }
}

/// The answer to an access to the outside.
fn refused(call: &OsFunctionCall) -> ExtFunctionResult {
    let advice = match call.name() {
        "import" => return ExtFunctionResult::NotFound(String::new()),
        "os.urandom" => "random numbers are in cx.local(name, lambda local: local.random())",
        "time.sleep" | "asyncio.sleep" => "a flow waits with cx.sleep(name, time)",
        _ => "a flow reaches the outside with cx.step(name, effect)",
    };
    let words = format!("{} is not possible in a flow: {advice}", call.name());
    MontyException::new(ExcType::PermissionError, Some(words)).into()
}

fn type_error(words: &str) -> MontyException {
    MontyException::new(ExcType::TypeError, Some(words.to_owned()))
}

/// The exception of a failure.
fn raised(error: &FlowError) -> MontyException {
    let (of, data) = raised_data(error);
    data.into_exception(of)
}

fn raised_data(error: &FlowError) -> (ExcType, FlowErrorData) {
    let of = match error {
        FlowError::Critical(_) => ExcType::FlowCritical,
        FlowError::Rollback(_) => ExcType::FlowRollback,
        FlowError::Exhausted(_) => ExcType::FlowExhausted,
        FlowError::Timeout(_) => ExcType::FlowTimeout,
        FlowError::Canceled(_) => ExcType::FlowCanceled,
        FlowError::Join(_) => ExcType::FlowJoin,
        FlowError::Race(_) => ExcType::FlowRace,
    };
    let data = FlowErrorData {
        code: error.code().to_owned(),
        message: error.message().to_owned(),
        path: error.path().to_owned(),
        causes: error.causes().iter().map(raised_data).collect(),
    };
    (of, data)
}

/// The failure of an exception.
fn caught(of: ExcType, data: &FlowErrorData) -> Option<FlowError> {
    let causes = data.causes.iter().map(|(of, data)| caught(*of, data)).collect::<Option<_>>()?;
    let FlowErrorData { code, message, path, .. } = data.clone();
    failure_of(of.flow_kind()?, Failure { code, message, path, causes })
}

/// The failure of `(kind, code, message, path, [cause, …])`.
fn failure(of: monty_types::ObjectRef<'_>) -> Option<FlowError> {
    let parts = of.items()?;
    let text = |at: usize| parts.get(at).and_then(|text| text.as_str()).map(str::to_owned);
    let causes = parts.get(4)?.items()?.into_iter().map(failure).collect::<Option<Vec<_>>>()?;
    let failure = Failure { code: text(1)?, message: text(2)?, path: text(3)?, causes };
    failure_of(&text(0)?, failure)
}

fn failure_of(kind: &str, failure: Failure) -> Option<FlowError> {
    Some(match kind {
        "critical" => FlowError::Critical(failure),
        "rollback" => FlowError::Rollback(failure),
        "exhausted" => FlowError::Exhausted(failure),
        "timeout" => FlowError::Timeout(failure),
        "canceled" => FlowError::Canceled(failure),
        "join" => FlowError::Join(failure),
        "race" => FlowError::Race(failure),
        _ => return None,
    })
}

/// The fault of an exception that no code has handled, with its traceback. The frames of the prelude
/// and of the line behind the program are left out, and lines count from the program's first.
pub(crate) fn fault(exception: &MontyException, source_lines: u32) -> Fault {
    let first = PRELUDE.lines().count() as u32;
    let frames = exception.traceback().iter().cloned().filter_map(|mut frame| {
        frame.start.line = frame.start.line.checked_sub(first).filter(|line| *line > 0)?;
        frame.end.line = frame.end.line.saturating_sub(first);
        frame.frame_name = frame.frame_name.map(|name| short(&name, LINE_BYTES_MAX).into_owned());
        if let Some(line) = frame.preview_line.take_if(|line| line.len() > LINE_BYTES_MAX) {
            frame.preview_line = Some(short(&line, LINE_BYTES_MAX).into());
            frame.hide_caret = true;
        }
        (frame.start.line <= source_lines).then_some(frame)
    });
    let message = exception.message().map(|message| short(message, TEXT_BYTES_MAX).into_owned());
    let shown = MontyException::with_traceback(exception.exc_type(), message, frames.collect());
    Fault::new("exception", without_middle(&shown.to_string()))
}

/// The text, or its beginning with an ellipsis.
fn short(text: &str, bytes_max: usize) -> Cow<'_, str> {
    match text.len() <= bytes_max {
        true => text.into(),
        false => format!("{}…", &text[..text.floor_char_boundary(bytes_max)]).into(),
    }
}

/// A traceback that fits into the message of a fault: the first lines show how the program began, the
/// last ones the exception and the line that raised it.
fn without_middle(text: &str) -> String {
    if text.len() <= MESSAGE_BYTES_MAX {
        return text.to_owned();
    }
    let mut head = String::new();
    let mut lines = text.lines();
    for line in lines.by_ref() {
        head.push_str(line);
        head.push('\n');
        if head.len() > HEAD_BYTES {
            break;
        }
    }
    head.push_str("  [lines are left out here]\n");
    let mut room = MESSAGE_BYTES_MAX.saturating_sub(head.len());
    let fits = |line: &&str| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or_default();
        left.is_some()
    };
    let last: Vec<&str> = lines.rev().take_while(fits).collect();
    last.into_iter().rev().for_each(|line| {
        head.push_str(line);
        head.push('\n');
    });
    head.truncate(head.trim_end().len());
    head
}
