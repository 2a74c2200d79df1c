//! A call of `_aos_op` -> a request to the engine, and the type of its answer.

use aos_sdk::cbor::{Reader, Stop};
use aos_sdk::flow::untyped::{Call, Deadline, Ended, Id, Listen, Loop, Request, Spawn, Step, Undo};
use aos_sdk::flow::{Kind, Retry};
use aos_sdk::{Duration, Time};
use monty::FunctionCall;
use monty_types::unstable::{self, MontyNode};
use monty_types::{MontyException, MontyObject, ObjectRef};

use super::{Python, failure, raised, type_error};
use crate::segment::Other;
use crate::types::Type;
use crate::values::{Unfit, Values};

/// The type of the value of an answer.
#[derive(Debug)]
pub enum Expected {
    /// Null.
    Nothing,
    /// A value whose bytes say what it is.
    Dynamic,
    /// A value of this type.
    Typed(Type),
    /// The values of the branches, each dynamic.
    Join,
    /// `{value, branch}`: the value of the winner and its name.
    Race,
    /// The end of a join or race whose branches run in this turn.
    End(Box<Expected>),
}

/// The consequence of a call.
pub enum Next {
    /// The engine is not needed.
    Answer(MontyObject),
    /// Without a type, the answer is what the request before expected.
    Request(Request, Option<Expected>),
    /// The input is not of its type.
    Misfit(String),
}

type Done = Result<Next, MontyException>;

impl Expected {
    pub fn read(&self, values: &Values, bytes: &[u8]) -> Result<MontyObject, String> {
        match self {
            Expected::Nothing => values.read(&Type::Unit, bytes),
            Expected::Dynamic => values.read_dynamic(bytes),
            Expected::Typed(of) => values.read(of, bytes),
            Expected::End(expected) => expected.read(values, bytes),
            Expected::Join => {
                let items = whole(bytes, |from| (0..from.list()?).map(|_| from.item()).collect())?;
                let items: Vec<&[u8]> = items;
                let read = items.into_iter().map(|item| values.read_dynamic(item));
                Ok(MontyObject::list(read.collect::<Result<Vec<_>, _>>()?))
            }
            Expected::Race => {
                let (value, branch) = whole(bytes, |from| {
                    from.record(2)?;
                    from.field(b"\x65value")?;
                    let value = from.item()?;
                    from.field(b"\x66branch")?;
                    Ok((value, from.text()?))
                })?;
                Ok(MontyObject::tuple([MontyObject::string(branch), values.read_dynamic(value)?]))
            }
        }
    }
}

fn whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Stop>,
) -> Result<T, String> {
    let mut from = Reader::new(bytes);
    let read = read(&mut from).and_then(|value| from.end().map(|()| value));
    read.map_err(|_| format!("{:?}", from.misfit()))
}

/// A datetime of whole microseconds.
pub fn moment(time: Time) -> MontyObject {
    let ns = time.ns();
    let read = Values::default().read(&Type::Time, &encoded(ns));
    read.unwrap_or_else(|_| MontyObject::none())
}

fn encoded(ns: i64) -> Vec<u8> {
    let mut out = Vec::new();
    aos_sdk::cbor::write_int(ns, &mut out);
    out
}

/// The arguments of a call, in their order.
struct Arguments<'a>(Vec<ObjectRef<'a>>);

impl<'a> Arguments<'a> {
    fn at(&self, index: usize) -> Result<ObjectRef<'a>, MontyException> {
        self.0.get(index).copied().ok_or_else(|| type_error("an operation lacks an argument"))
    }

    /// The operation's name, or another text.
    fn text(&self, index: usize, meaning: &str) -> Result<String, MontyException> {
        let value = self.at(index)?;
        match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(expected(meaning, "str", value)),
        }
    }

    fn name(&self) -> Result<String, MontyException> {
        self.text(1, "the name of an operation")
    }

    fn nat(&self, index: usize, meaning: &str) -> Result<u64, MontyException> {
        nat(self.at(index)?, meaning)
    }

    fn body(&self) -> Result<Id, MontyException> {
        Ok(self.nat(1, "a body")? as Id)
    }
}

fn nat(value: ObjectRef<'_>, meaning: &str) -> Result<u64, MontyException> {
    match unstable::node(value) {
        MontyNode::Int(number) if *number >= 0 => Ok(number.unsigned_abs()),
        _ => Err(expected(meaning, "an int of at least 0", value)),
    }
}

fn expected(meaning: &str, of: &str, value: ObjectRef<'_>) -> MontyException {
    type_error(&format!("{meaning}: expected {of}, found {}", value.type_name()))
}

fn unfit(meaning: &str, unfit: Unfit) -> MontyException {
    type_error(&format!("{meaning}: {unfit}"))
}

fn is_none(value: ObjectRef<'_>) -> bool {
    matches!(unstable::node(value), MontyNode::None)
}

/// A timedelta, or a text as `spec/values.md` V-36 has it: `1m30s`.
fn duration(value: ObjectRef<'_>, meaning: &str) -> Result<Duration, MontyException> {
    let ns = match unstable::node(value) {
        MontyNode::TimeDelta(_) => Values::default()
            .write(&Type::Duration, value)
            .ok()
            .and_then(|bytes| Reader::new(&bytes).int().ok()),
        MontyNode::String(text) => text_ns(text),
        _ => None,
    };
    ns.map(Duration::from_ns)
        .ok_or_else(|| expected(meaning, "a timedelta, or a text such as '1m30s'", value))
}

/// The ns of `1d2h`: numbers with units, the largest first, each at most once.
fn text_ns(text: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let (mut left, mut next, mut total) = (text, 0, 0i64);
    while !left.is_empty() {
        let digits = left.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = left.split_at(digits);
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let (word, rest) = rest.split_at(letters);
        let unit = UNITS.iter().skip(next).position(|(unit, _)| *unit == word)? + next;
        let ns = number.parse::<i64>().ok()?.checked_mul(UNITS[unit].1)?;
        total = total.checked_add(ns)?;
        (left, next) = (rest, unit + 1);
    }
    (next > 0).then_some(total)
}

/// A duration from now, or the time itself.
fn deadline(value: ObjectRef<'_>, meaning: &str) -> Result<Deadline, MontyException> {
    match unstable::node(value) {
        MontyNode::DateTime(_) => {
            let bytes = Values::default()
                .write(&Type::Time, value)
                .map_err(|error| unfit(meaning, error))?;
            let ns = Reader::new(&bytes).int().unwrap_or_default();
            Ok(Deadline::At(Time::from_ns(ns)))
        }
        _ => duration(value, meaning).map(Deadline::After),
    }
}

impl Python {
    pub(super) fn operation(&mut self, call: &FunctionCall) -> Done {
        let arguments = Arguments(call.args.args().collect());
        let word = arguments.text(0, "the kind of an operation")?;
        let done = |request, expected| Ok(Next::Request(request, Some(expected)));
        match word.as_str() {
            "input" => Ok(self.read_input()),
            "step" => self.step(&arguments),
            "compensation" => {
                let undo = self.undo(arguments.at(1)?, "rollback")?;
                Ok(Next::Request(Request::Compensation(undo), None))
            }
            "local" => done(Request::Local { name: arguments.name()? }, Expected::Dynamic),
            "computed" => {
                let value = self.dynamic(arguments.at(1)?, "the value of cx.local")?;
                done(Request::Computed(Ok(value)), Expected::Dynamic)
            }
            "not_computed" => {
                let error = failure(arguments.at(1)?).ok_or_else(|| type_error("no failure"))?;
                done(Request::Computed(Err(error)), Expected::Dynamic)
            }
            "random" => self.random(arguments.at(1)?),
            "uuid" => done(Request::Uuid, Expected::Typed(Type::Uuid)),
            "emit" => self.emit(&arguments),
            "sleep" => {
                let (name, end) = (arguments.name()?, deadline(arguments.at(2)?, "cx.sleep")?);
                done(Request::Sleep { name, end }, Expected::Nothing)
            }
            "listen" => self.listen(&arguments),
            "join" | "race" => branches(&word, &arguments),
            "scope" => done(Request::Scope { name: arguments.name()? }, Expected::Dynamic),
            "loop" => self.repeat(&arguments),
            "checkpoint" => {
                done(Request::Checkpoint { name: arguments.name()? }, Expected::Nothing)
            }
            "rollback_to" => {
                let checkpoint = arguments.text(2, "the name of a checkpoint")?;
                done(Request::RollbackTo { name: arguments.name()?, checkpoint }, Expected::Nothing)
            }
            "commit" => done(Request::Commit { name: arguments.name()? }, Expected::Nothing),
            "version" => {
                let (name, latest) = (arguments.name()?, arguments.nat(2, "the latest version")?);
                done(Request::Version { name, latest }, Expected::Typed(Type::Nat))
            }
            "removed" => {
                let (name, kind) = (arguments.name()?, kind(&arguments.text(2, "a kind")?)?);
                done(Request::Removed { name, kind }, Expected::Nothing)
            }
            "call" => self.call(&arguments),
            "spawn" => self.spawn(&arguments),
            "publish" => self.publish(arguments.at(1)?),
            "annotate" => self.annotate(arguments.at(1)?),
            "log" => done(Request::Log(arguments.text(1, "cx.log")?), Expected::Nothing),
            "end_of" => self.end_of(&arguments),
            _ => self.end(&word, &arguments),
        }
    }

    fn read_input(&self) -> Next {
        let of = Type::Ref(self.flow.input.to_owned());
        match self.values.read(&of, self.input) {
            Ok(input) => Next::Answer(MontyObject::tuple([MontyObject::string("done"), input])),
            Err(words) => Next::Misfit(words),
        }
    }

    fn dynamic(&self, value: ObjectRef<'_>, meaning: &str) -> Result<Vec<u8>, MontyException> {
        self.values.write_dynamic(value).map_err(|error| unfit(meaning, error))
    }

    /// The schema of an instance, or of a class.
    fn schema_of(&self, value: ObjectRef<'_>) -> Option<&str> {
        let class = match unstable::node(value) {
            MontyNode::ClassInstance { class_type, .. } => unstable::child(value, *class_type),
            _ => value,
        };
        match unstable::node(class) {
            MontyNode::ClassType(class) => self.values.schema_of(&class.id),
            _ => None,
        }
    }

    /// The effect whose params are this instance.
    fn undo(&self, value: ObjectRef<'_>, meaning: &str) -> Result<Undo, MontyException> {
        let effect = self.schema_of(value).and_then(|schema| self.effect_of.get(schema).copied());
        let Some(effect) = effect else {
            return Err(expected(meaning, "an instance of a class with @effect", value));
        };
        let of = Type::Ref(self.effects[effect].params.to_owned());
        let params = self.values.write(&of, value).map_err(|error| unfit(meaning, error))?;
        Ok(Undo { effect, params })
    }

    fn step(&self, arguments: &Arguments<'_>) -> Done {
        let Undo { effect, params } = self.undo(arguments.at(2)?, "cx.step")?;
        let (policy, undone) = (arguments.at(3)?.items(), arguments.at(5)?.items());
        let (Some(policy), Some(undone)) = (policy, undone) else {
            return Err(type_error("cx.step: the retry is not a Retry"));
        };
        let (attempts, truth) =
            (nat(policy[0], "attempts of a Retry")?, |value: ObjectRef<'_>| value.is_truthy());
        let (first, most) =
            (duration(policy[1], "first of a Retry")?, duration(policy[2], "most of a Retry")?);
        let mut retry = Retry::attempts(attempts).pauses(first, most);
        if truth(policy[3]) {
            retry = retry.jitter();
        }
        let timeout = arguments.at(4)?;
        let timeout = match is_none(timeout) {
            true => None,
            false => Some(duration(timeout, "the timeout of a step")?),
        };
        let rollback_unknown = match is_none(undone[1]) {
            true => None,
            false => Some(self.undo(undone[1], "rollback_unknown")?),
        };
        let step = Step {
            name: arguments.name()?,
            effect,
            params,
            retry,
            retry_timeouts: truth(policy[4]),
            timeout,
            has_rollback: truth(undone[0]),
            rollback_unknown,
        };
        let receipt = self.effects[effect].receipt.clone();
        Ok(Next::Request(Request::Step(step), Some(Expected::Typed(receipt))))
    }

    fn random(&self, below: ObjectRef<'_>) -> Done {
        let below = match is_none(below) {
            true => None,
            false => Some(nat(below, "the bound of a random number")?),
        };
        Ok(Next::Request(Request::Random { below }, Some(Expected::Typed(Type::Nat))))
    }

    /// A name that lives as long as the turn.
    fn named(&self, value: ObjectRef<'_>, meaning: &str) -> Result<&'static str, MontyException> {
        match self.schema_of(value) {
            Some(schema) => Ok(Box::leak(schema.to_owned().into_boxed_str())),
            None => Err(expected(meaning, "a class with @schema", value)),
        }
    }

    fn emit(&self, arguments: &Arguments<'_>) -> Done {
        let event = arguments.at(2)?;
        let schema = self.named(event, "cx.emit")?;
        let of = Type::Ref(schema.to_owned());
        let value = self.values.write(&of, event).map_err(|error| unfit("cx.emit", error))?;
        let request = Request::Emit { name: arguments.name()?, schema, value };
        Ok(Next::Request(request, Some(Expected::Nothing)))
    }

    fn listen(&self, arguments: &Arguments<'_>) -> Done {
        let mut schemas = Vec::new();
        for class in arguments.at(2)?.items().unwrap_or_default() {
            schemas.push(self.named(class, "cx.listen")?);
        }
        let arm = |schema: &'static str| {
            let name = schema.rsplit('/').next().unwrap_or(schema);
            name.split('@').next().unwrap_or(name)
        };
        let (of, schemas) = match schemas.as_slice() {
            [schema] => (Type::Ref((*schema).to_owned()), vec![(*schema, None)]),
            [] => return Err(type_error("cx.listen: expected at least one class with @schema")),
            several => {
                let arms = several
                    .iter()
                    .map(|schema| (arm(schema).to_owned(), Type::Ref((*schema).to_owned())));
                (
                    Type::Variant(arms.collect()),
                    several.iter().map(|schema| (*schema, Some(arm(schema)))).collect(),
                )
            }
        };
        let (timeout, most) = (arguments.at(3)?, arguments.at(4)?);
        let deadline = match is_none(timeout) {
            true => None,
            false => Some(deadline(timeout, "the timeout of cx.listen")?),
        };
        let (most, of) = match is_none(most) {
            true if deadline.is_some() => (None, Type::Option(Box::new(of))),
            true => (None, of),
            false => (Some(nat(most, "the most messages")?), Type::List(Box::new(of))),
        };
        let listen = Listen { name: arguments.name()?, schemas, most, deadline };
        Ok(Next::Request(Request::Listen(listen), Some(Expected::Typed(of))))
    }

    fn repeat(&self, arguments: &Arguments<'_>) -> Done {
        let limits = arguments.at(3)?.items().unwrap_or_default();
        let [commit_interval, history_every, history_keep] = limits.as_slice() else {
            return Err(type_error("cx.loop: the history's limits are missing"));
        };
        let repeat = Loop {
            name: arguments.name()?,
            state: self.dynamic(arguments.at(2)?, "the state of cx.loop")?,
            commit_interval: nat(*commit_interval, "commit_interval")?,
            history_every: nat(*history_every, "history_every")?,
            history_keep: nat(*history_keep, "history_keep")?,
        };
        Ok(Next::Request(Request::Loop(repeat), Some(Expected::Dynamic)))
    }

    /// Another flow by its name, and its input.
    fn other(
        &self,
        arguments: &Arguments<'_>,
        meaning: &str,
    ) -> Result<(&'static str, &Other, Vec<u8>), MontyException> {
        let name = arguments.text(2, meaning)?;
        let Some((workflow, other)) = self.calls.get_key_value(name.as_str()) else {
            let words = format!("{meaning}: the program has no flow {name}: build it again");
            return Err(type_error(&words));
        };
        let of = Type::Ref(other.input.to_owned());
        let input = self.values.write(&of, arguments.at(3)?);
        Ok((*workflow, other, input.map_err(|error| unfit(meaning, error))?))
    }

    fn call(&self, arguments: &Arguments<'_>) -> Done {
        let (workflow, other, input) = self.other(arguments, "cx.call")?;
        let call = Call {
            name: arguments.name()?,
            workflow,
            call: other.call,
            control: other.control,
            key_field: other.key_field,
            input,
            has_rollback: arguments.at(4)?.is_truthy(),
        };
        Ok(Next::Request(Request::Call(call), Some(Expected::Typed(other.output.clone()))))
    }

    fn spawn(&self, arguments: &Arguments<'_>) -> Done {
        let (workflow, other, input) = self.other(arguments, "cx.spawn")?;
        let spawn = Spawn { name: arguments.name()?, workflow, schema: other.input, input };
        Ok(Next::Request(Request::Spawn(spawn), Some(Expected::Nothing)))
    }

    fn annotate(&self, annotation: ObjectRef<'_>) -> Done {
        let of = Type::Ref(self.named(annotation, "cx.annotate")?.to_owned());
        let bytes = self.values.write(&of, annotation);
        let bytes = bytes.map_err(|error| unfit("cx.annotate", error))?;
        Ok(Next::Request(Request::Annotate(bytes), Some(Expected::Nothing)))
    }

    fn publish(&self, view: ObjectRef<'_>) -> Done {
        let Some(schema) = self.flow.view else {
            return Err(type_error("cx.publish: the flow has no view"));
        };
        let of = Type::Ref(schema.to_owned());
        let bytes = self.values.write(&of, view).map_err(|error| unfit("cx.publish", error))?;
        Ok(Next::Request(Request::Publish(bytes), Some(Expected::Nothing)))
    }

    /// The end of a join or race, which `resume` has kept.
    fn end_of(&mut self, arguments: &Arguments<'_>) -> Done {
        match self.ends.remove(&arguments.body()?) {
            Some(Ok(value)) => {
                Ok(Next::Answer(MontyObject::tuple([MontyObject::string("done"), value])))
            }
            Some(Err(error)) => Err(raised(&error)),
            None => Err(type_error("this join or race has not ended")),
        }
    }

    /// The end of a body: `ended`, `continued` or `failed`.
    fn end(&self, word: &str, arguments: &Arguments<'_>) -> Done {
        let (body, value) = (arguments.body()?, arguments.at(2)?);
        let ended = match word {
            "failed" => Ended::Failed(failure(value).ok_or_else(|| type_error("no failure"))?),
            "continued" => Ended::Continue(self.dynamic(value, "the state of a loop")?),
            "ended" if body == 0 => Ended::Value(self.result(value)?),
            "ended" => Ended::Value(self.dynamic(value, "the value of a branch, scope or loop")?),
            _ => return Err(type_error(&format!("there is no operation {word}"))),
        };
        Ok(Next::Request(Request::End { body, ended }, Some(Expected::Dynamic)))
    }

    /// The result of the flow.
    fn result(&self, value: ObjectRef<'_>) -> Result<Vec<u8>, MontyException> {
        self.values
            .write(&self.flow.result, value)
            .map_err(|error| unfit("the result of the flow", error))
    }
}

fn branches(word: &str, arguments: &Arguments<'_>) -> Done {
    let name = arguments.name()?;
    let names = arguments.at(2)?.items().unwrap_or_default();
    let names = names.iter().filter_map(|name| name.as_str()).map(str::to_owned).collect();
    let option = arguments.at(3)?;
    let (request, expected) = match word {
        "join" => {
            let at_most = match is_none(option) {
                true => None,
                false => Some(nat(option, "at_most")? as usize),
            };
            (Request::Join { name, branches: names, at_most }, Expected::Join)
        }
        _ => {
            let rollback_losers = option.is_truthy();
            (Request::Race { name, branches: names, rollback_losers }, Expected::Race)
        }
    };
    Ok(Next::Request(request, Some(expected)))
}

/// A kind of operation by its word.
fn kind(word: &str) -> Result<Kind, MontyException> {
    const KINDS: [(&str, Kind); 13] = [
        ("step", Kind::Step),
        ("local", Kind::Local),
        ("emit", Kind::Emit),
        ("sleep", Kind::Sleep),
        ("listen", Kind::Listen),
        ("join", Kind::Join),
        ("race", Kind::Race),
        ("scope", Kind::Scope),
        ("loop", Kind::Loop),
        ("version", Kind::Version),
        ("checkpoint", Kind::Checkpoint),
        ("call", Kind::Call),
        ("spawn", Kind::Spawn),
    ];
    let named = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    named.ok_or_else(|| type_error(&format!("cx.removed: {word} is not a kind of operation")))
}
