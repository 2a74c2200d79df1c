//! The operations of a flow during one turn.

use alloc::string::String;
use alloc::vec::Vec;
use core::any::TypeId;
use core::cell::{RefCell, RefMut};

use crate::cbor::{self, Misfit, Reader};
use crate::fault::Fault;
use crate::memory;
use crate::random::Random;
use crate::step::{IdempotencyKey, Output};

use super::failure::{FlowError, failure};
use super::history::{Bytes, Compensation, History, Kind, Op, Outcome, State, Undo, put};
use super::inbox::Inbox;
use super::path;

/// A turn ends when it has ended so many operations.
const ENDED_MAX: usize = 10_000;

/// A turn ends when it has used so many bytes of the heap, which only grows: a loop that never waits
/// would otherwise exhaust the memory of a step, and again in each retry.
const HEAP_BYTES_MAX: usize = 16 << 20;
/// After so many turns in a row that end with a `Continue`, the next one waits for a timer that is
/// due at once. It begins a new cascade: the kernel lets one event cause only so long a chain of
/// others (`kernel.md`, K-45).
const CONTINUES_MAX: u64 = 200;
/// The role of that timer.
pub(super) const CONTINUE: &str = "continue";
/// One operation asks for at most so many effects, and emits at most one event.
const EFFECTS_AT_ONCE: usize = 2;
/// Bytes of a name or a list of names that a fault quotes.
const QUOTED_MAX: usize = 300;

pub(super) const TIMER: &str = "sys/timer.set@1";
const CANCEL: &str = "sys/effect.cancel@1";

/// The facts about a flow that `#[flow]` knows.
pub(super) struct Facts {
    pub control: &'static str,
    pub returned: Option<&'static str>,
    pub listens: &'static [&'static str],
    pub effects_max: usize,
    pub events_max: usize,
    pub input: &'static str,
    pub output: Option<&'static str>,
    pub view: Option<&'static str>,
}

/// The fingerprint of an operation: a recorded one must have it, besides kind and name.
#[derive(Clone, Copy)]
pub(super) enum Print<'a> {
    None,
    /// Of a step its effect, of an emit its schema, of a call or spawn its workflow.
    Text(&'a str),
    /// The schemas of a listen.
    Texts(&'a [&'static str]),
    /// The branches of a join or race.
    Branches(&'a [String]),
}

/// The operation of a future: 0 before its first poll.
pub(super) type Slot = usize;

/// The engine of one turn. Its parts live as long as the call, like all memory of a guest.
pub(super) struct Engine {
    core: RefCell<Core>,
    view: TypeId,
}

impl Engine {
    pub fn new(core: Core, view: TypeId) -> Engine {
        Engine { core: RefCell::new(core), view }
    }

    /// The type that `view = …` declares.
    pub fn view(&self) -> TypeId {
        self.view
    }

    /// Never calls the author's code, so it is never entered twice.
    pub fn with<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        work(&mut self.lend())
    }

    #[inline(never)]
    fn lend(&self) -> RefMut<'_, Core> {
        match self.core.try_borrow_mut() {
            Ok(core) => core,
            Err(_) => panic!("the engine of a flow was entered twice"),
        }
    }
}

pub(super) struct Core {
    pub facts: &'static Facts,
    pub key: Bytes,
    pub now: u64,
    pub started: u64,
    pub random: Random,
    pub history: History,
    pub inbox: Inbox,
    pub view: Option<Vec<u8>>,
    pub annotation: Option<Vec<u8>>,
    pub lines: Vec<String>,
    pub output: Output,
    pub fault: Option<Fault>,
    /// The operation whose body is being polled.
    pub scope: usize,
    /// A pass changed something, so there is another one.
    pub has_progressed: bool,
    /// The branches that are polled have lost: nothing new may begin.
    pub is_draining: bool,
    /// Something could not begin or end in this pass.
    pub is_blocked: bool,
    /// Something has to wait for the next turn.
    pub is_held: bool,
    /// An operation that was canceled has succeeded in this turn.
    pub has_late_result: bool,
    /// Values are decoded that the code of this turn does not read (FL-66).
    pub reads_ahead: bool,
    events: usize,
    ended: usize,
    heap_before: usize,
}

impl Core {
    pub fn new(facts: &'static Facts, key: Bytes, now: u64, entropy: &[u8]) -> Core {
        Core {
            facts,
            key,
            now,
            started: now,
            random: Random::new(entropy),
            history: History::default(),
            inbox: Inbox::default(),
            view: None,
            annotation: None,
            lines: Vec::new(),
            output: Output::default(),
            fault: None,
            scope: 0,
            has_progressed: false,
            is_draining: false,
            is_blocked: false,
            is_held: false,
            has_late_result: false,
            reads_ahead: false,
            events: 0,
            ended: 0,
            heap_before: memory::used(),
        }
    }

    // Not inlined: so many places use them that a module would grow by kilobytes.
    #[inline(never)]
    pub fn op(&self, index: usize) -> &Op {
        &self.history.ops[index]
    }

    #[inline(never)]
    pub fn op_mut(&mut self, index: usize) -> &mut Op {
        &mut self.history.ops[index]
    }

    pub fn children(&self, index: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = self.op(index).first_child;
        while at != 0 {
            found.push(at);
            at = self.op(at).sibling;
        }
        found
    }

    // Where a body is.

    /// The operation that comes next in the scope whose body is polled: the recorded one, or a new
    /// one. None if it cannot begin now, or the turn has a fault.
    pub fn enter(
        &mut self,
        slot: &mut Slot,
        kind: Kind,
        name: &str,
        print: Print<'_>,
    ) -> Option<usize> {
        if self.fault.is_some() {
            return None;
        }
        let scope = self.scope;
        let next = if *slot == 0 { self.next_child(scope) } else { *slot };
        if next != 0 && self.op(next).state == State::Cancelled {
            // The branch has lost, and the turn had no room to cancel all of it.
            self.is_blocked = true;
            return None;
        }
        if *slot != 0 {
            return Some(*slot);
        }
        let waiting = self.op(scope).waiting;
        if waiting != 0 {
            return self.concurrent(waiting, name);
        }
        *slot = match next {
            0 => self.begin(scope, kind, name)?,
            recorded => self.take(recorded, kind, name, print)?,
        };
        Some(*slot)
    }

    /// The recorded child that the body of `scope` has not taken yet; 0 if there is none.
    pub fn next_child(&self, scope: usize) -> usize {
        match self.op(scope).cursor {
            0 => self.op(scope).first_child,
            taken => self.op(taken).sibling,
        }
    }

    /// Whether a turn may begin or cancel something more.
    pub fn has_room(&self) -> bool {
        let (effects, events) = (self.output.effect_count(), self.events);
        // With a limit of 1, a turn does one thing all the same.
        self.history.continues != CONTINUES_MAX
            && (effects == 0 || effects + EFFECTS_AT_ONCE <= self.facts.effects_max)
            && (events == 0 || events + 2 <= self.facts.events_max)
            && self.ended < ENDED_MAX
            && (self.ended == 0 || memory::used() - self.heap_before < HEAP_BYTES_MAX)
    }

    /// Let what has no room in this turn continue in another one (FL-6).
    pub fn continue_later(&mut self, has_ended: bool) {
        if has_ended || !self.is_held {
            self.history.continues = 0;
            return;
        }
        match self.history.continues {
            ..CONTINUES_MAX => {
                let mut value = Vec::from(b"\xa2\x67command\xa1\x64$tag\x68Continue\x68instance");
                put(&mut value, self.key);
                self.emit(self.facts.control, &value);
            }
            CONTINUES_MAX => self.timer(self.now, &path::reference("", 1, CONTINUE)),
            // The timer is set.
            _ => return,
        }
        self.history.continues += 1;
    }

    /// The timer of `continue_later` has fired. False if no turn waits for it.
    pub fn wake(&mut self) -> bool {
        let waits = self.history.continues > CONTINUES_MAX;
        if waits {
            self.history.continues = 0;
        }
        waits
    }

    /// `has_room`, or else the turn is held.
    pub fn room(&mut self) -> Option<()> {
        if self.is_draining {
            self.is_blocked = true;
            return None;
        }
        self.room_to_end()
    }

    /// As `room`, for what ends branches that have lost.
    pub fn room_to_end(&mut self) -> Option<()> {
        if self.has_room() {
            return Some(());
        }
        self.is_blocked = true;
        self.is_held = true;
        None
    }

    fn begin(&mut self, scope: usize, kind: Kind, name: &str) -> Option<usize> {
        self.room()?;
        let index = self.add(scope, kind, name)?;
        self.op_mut(scope).cursor = index;
        Some(index)
    }

    /// Add an operation, if its name is valid in `scope`.
    pub fn add(&mut self, scope: usize, kind: Kind, name: &str) -> Option<usize> {
        let is_iteration = kind == Kind::Iteration;
        // Those of iterations and branches are known to differ.
        let is_known = matches!(kind, Kind::Iteration | Kind::Branch);
        if name.is_empty() || name.len() > path::NAME_MAX {
            let words = if name.is_empty() { "is empty" } else { "has more than 128 bytes" };
            return self.bad_name(scope, name, words);
        }
        if !is_known {
            let mut at = self.op(scope).first_child;
            while at != 0 {
                if self.op(at).name == name {
                    let mut words = String::from("is there twice, as ");
                    words.push_str(self.op(at).kind.word());
                    words.push_str(" and as ");
                    words.push_str(kind.word());
                    return self.bad_name(scope, name, &words);
                }
                at = self.op(at).sibling;
            }
        }
        let mut path = self.path(scope);
        if !path.is_empty() {
            path.push('/');
        }
        path::escape(name, is_iteration, &mut path);
        if path.len() > path::PATH_MAX {
            return self.bad_name(scope, name, "makes a path of more than 200 bytes");
        }
        let name = String::from(name).leak();
        Some(self.push(Op::new(scope, kind, name, self.now)))
    }

    pub fn push(&mut self, op: Op) -> usize {
        let index = self.history.ops.len();
        self.history.ops.push(op);
        self.history.link(index);
        self.has_progressed = true;
        index
    }

    fn take(&mut self, index: usize, kind: Kind, name: &str, print: Print<'_>) -> Option<usize> {
        let op = self.op(index);
        if op.kind != kind || op.name != name || !self.fits(index, print) {
            let found = described(kind, name, &printed(print));
            return self.diverged(index, &found);
        }
        let scope = op.parent;
        self.op_mut(scope).cursor = index;
        Some(index)
    }

    fn fits(&self, index: usize, print: Print<'_>) -> bool {
        let op = self.op(index);
        match print {
            Print::None => true,
            Print::Text(text) => Reader::new(op.extra).text() == Ok(text),
            Print::Texts(texts) => is_list(op.extra, texts.iter().copied()),
            Print::Branches(names) if op.state.is_open() => {
                let branches = self.children(index);
                branches.len() == names.len()
                    && branches
                        .iter()
                        .zip(names)
                        .all(|(branch, name)| self.op(*branch).name == name)
            }
            Print::Branches(names) => is_list(op.extra, names.iter().map(String::as_str)),
        }
    }

    /// A recorded operation in words, for a message.
    fn recorded(&self, index: usize) -> String {
        let op = self.op(index);
        let mut from = Reader::new(op.extra);
        let print = match op.kind {
            Kind::Step | Kind::Emit | Kind::Call | Kind::Spawn => {
                from.text().map(String::from).unwrap_or_default()
            }
            Kind::Join | Kind::Race if op.state.is_open() => {
                let branches = self.children(index);
                joined(branches.iter().map(|branch| self.op(*branch).name))
            }
            Kind::Listen | Kind::Join | Kind::Race => texts(&mut from),
            _ => String::new(),
        };
        described(op.kind, op.name, &print)
    }

    /// The body of `scope` has ended: nothing recorded may be left, and nothing be waiting. False
    /// with a fault.
    pub fn leave_body(&mut self, scope: usize) -> bool {
        if self.fault.is_some() {
            return false;
        }
        let waiting = self.op(scope).waiting;
        if waiting != 0 {
            self.concurrent::<()>(waiting, "the end");
            return false;
        }
        match self.next_child(scope) {
            0 => true,
            left => {
                self.diverged::<()>(left, "the end");
                false
            }
        }
    }

    /// The body of `scope` is pending. It has to be so because of an operation.
    pub fn pend_body(&mut self, scope: usize) {
        if self.op(scope).waiting == 0 && !self.is_blocked && self.fault.is_none() {
            let mut message = self.place(scope);
            message.push_str(
                " waits for something that is no operation: a flow can wait for operations only",
            );
            self.fault = Some(Fault::new("flow_pending", message));
        }
    }

    /// The future of an operation is pending.
    pub fn wait(&mut self, index: usize) {
        let parent = self.op(index).parent;
        self.op_mut(parent).waiting = index;
    }

    /// The result of an operation that has ended, for the code that waits for it.
    pub fn result(&mut self, index: usize) -> Result<Bytes, FlowError> {
        let parent = self.op(index).parent;
        if self.op(parent).waiting == index {
            self.op_mut(parent).waiting = 0;
        }
        match self.op(index).outcome {
            Outcome::Value(value) => Ok(value),
            Outcome::Failure(failure) => Err(read_failure(failure)),
            Outcome::None => Ok(b"\xf6"),
        }
    }

    /// Whether the operation before this point of the body ended in this turn: then the code here runs
    /// for the first time.
    pub fn is_live(&self) -> bool {
        let scope = self.op(self.scope);
        match scope.cursor {
            0 => scope.is_new,
            last => self.op(last).is_fresh,
        }
    }

    pub fn path(&self, index: usize) -> String {
        if index == 0 {
            return String::new();
        }
        let op = self.op(index);
        let mut path = self.path(op.parent);
        if !path.is_empty() {
            path.push('/');
        }
        path::escape(op.name, op.kind == Kind::Iteration, &mut path);
        path
    }

    // Ends.

    pub fn end(&mut self, index: usize, state: State, outcome: Outcome) {
        let now = self.now;
        self.ended += 1;
        self.has_progressed = true;
        let op = self.op_mut(index).changes();
        op.state = state;
        op.outcome = outcome;
        op.done = Some(now);
        op.is_fresh = true;
    }

    pub fn complete(&mut self, index: usize, value: Vec<u8>) {
        self.end(index, State::Completed, Outcome::Value(value.leak()));
    }

    /// End with a failure, which gets the path of the operation if it has none.
    pub fn fail(&mut self, index: usize, mut error: FlowError) {
        if error.path().is_empty() {
            error.failure_mut().path = self.path(index);
        }
        let state = match error {
            FlowError::Exhausted(_) => State::Exhausted,
            _ => State::Failed,
        };
        self.end(index, state, Outcome::Failure(error.bytes().leak()));
    }

    /// End as Critical.
    pub fn refuse(&mut self, index: usize, code: &str, message: &str) {
        self.fail(index, FlowError::Critical(failure(code, message)));
    }

    // Effects and events.

    pub fn request(
        &mut self,
        effect: &str,
        params: &[u8],
        key: Option<&str>,
        reference: Option<&str>,
    ) {
        let key = key.map(IdempotencyKey::from);
        self.output.effect(effect, params, key.as_ref(), reference);
    }

    pub fn timer(&mut self, deadline: u64, reference: &str) {
        let mut params = Vec::from(b"\xa2\x63key\xf6\x6ddeliver_at_ns");
        cbor::write_nat(deadline, &mut params);
        self.request(TIMER, &params, None, Some(reference));
    }

    pub fn cancel(&mut self, reference: &str) {
        self.cancel_for(reference, None);
    }

    /// Cancel, and get the answer to that under the reference `own`.
    pub fn cancel_for(&mut self, reference: &str, own: Option<&str>) {
        let mut params = Vec::from(b"\xa2\x66intent\xf6\x6aissuer_ref");
        cbor::write_text(reference, &mut params);
        self.request(CANCEL, &params, None, own);
    }

    pub fn emit(&mut self, schema: &str, value: &[u8]) {
        self.events += 1;
        self.output.event(schema, value, None);
    }

    /// Register an effect that undoes the operation at `path`.
    pub fn register(&mut self, path: &str, effect: &str, params: Vec<u8>) {
        self.history.compensations.push(Compensation {
            path: String::from(path).leak(),
            effect: String::from(effect).leak(),
            params: params.leak(),
            state: Undo::Registered,
            attempts: 0,
            created: self.now,
            last: None,
            done: None,
            failure: None,
            recorded: &[],
        });
    }

    // Faults.

    pub fn diverged<T>(&mut self, index: usize, found: &str) -> Option<T> {
        let (path, expected) = (self.path(index), self.recorded(index));
        self.diverge(&path, &expected, found)
    }

    /// The code and the history do not belong together.
    pub fn diverge<T>(&mut self, path: &str, expected: &str, found: &str) -> Option<T> {
        if self.fault.is_none() {
            let mut message = String::from("at ");
            message.push_str(if path.is_empty() { "the flow" } else { path });
            for part in [": the history has ", expected, ", the code has ", found] {
                message.push_str(part);
            }
            let mut fault = Fault::new("diverged", message);
            let mut detail = Vec::new();
            cbor::write_map(3, &mut detail);
            for (name, text) in [("path", path), ("found", found), ("expected", expected)] {
                cbor::write_text(name, &mut detail);
                cbor::write_text(text, &mut detail);
            }
            fault.detail = Some(detail);
            self.fault = Some(fault);
        }
        None
    }

    /// A stored value is not of the type that the code reads.
    pub fn misfit<T>(&mut self, index: usize, misfit: Misfit) -> Option<T> {
        let path = self.path(index);
        self.diverge(&path, "a value of another type", &misfit.words())
    }

    pub fn concurrent<T>(&mut self, waiting: usize, other: &str) -> Option<T> {
        let mut message = self.path(waiting);
        message.push_str(" is still open, or was dropped, where its scope has come to ");
        message.push_str(quoted(other));
        message.push_str(
            ": await each operation, and use a join or race for operations at the same time",
        );
        self.fault.get_or_insert(Fault::new("flow_concurrent", message));
        None
    }

    pub fn bad_name<T>(&mut self, scope: usize, name: &str, words: &str) -> Option<T> {
        let mut message = self.place(scope);
        message.push_str(": the name \"");
        message.push_str(quoted(name));
        message.push_str("\" ");
        message.push_str(words);
        self.fault.get_or_insert(Fault::new("flow_name", message));
        None
    }

    pub fn place(&self, scope: usize) -> String {
        match scope {
            0 => String::from("the flow"),
            scope => self.path(scope),
        }
    }
}

pub(super) fn read_failure(bytes: Bytes) -> FlowError {
    let read = FlowError::read(&mut Reader::new(bytes));
    // `History::read` takes any item as a failure, so that an unknown kind does not stop a replay.
    read.unwrap_or_else(|_| {
        FlowError::Critical(failure("history", "the stored failure cannot be read"))
    })
}

fn is_list<'a>(bytes: Bytes, mut texts: impl ExactSizeIterator<Item = &'a str>) -> bool {
    let mut from = Reader::new(bytes);
    from.list() == Ok(texts.len()) && texts.all(|text| from.text() == Ok(text))
}

fn texts(from: &mut Reader<'static>) -> String {
    let length = from.list().unwrap_or(0);
    joined((0..length).map(|_| from.text().unwrap_or_default()))
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut all = String::new();
    for text in texts {
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(text);
    }
    all
}

fn printed(print: Print<'_>) -> String {
    match print {
        Print::None => String::new(),
        Print::Text(text) => String::from(text),
        Print::Texts(texts) => joined(texts.iter().copied()),
        Print::Branches(names) => joined(names.iter().map(String::as_str)),
    }
}

/// `step "charge" of shop/card.charge@1`.
fn described(kind: Kind, name: &str, print: &str) -> String {
    let mut words = String::from(kind.word());
    words.push_str(" \"");
    words.push_str(quoted(name));
    words.push('"');
    if !print.is_empty() {
        words.push_str(" of ");
        words.push_str(quoted(print));
    }
    words
}

/// As much of a text as a fault has room for.
fn quoted(text: &str) -> &str {
    let mut end = text.len().min(QUOTED_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
