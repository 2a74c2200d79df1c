//! The bytes of `ops`: the operations of a flow and its compensations (`spec/flow.md`, FL-20 to
//! FL-30).

use alloc::vec::Vec;

use crate::cbor;

/// Bytes and text of this turn are never freed: a guest's heap only grows, and ends with the call.
pub(super) type Bytes = &'static [u8];

/// `extend_from_slice`, once in the module and not at every place.
#[inline(never)]
pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

pub(super) const FORMAT: u64 = 1;

/// The kinds of operations, by their number in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Step,
    Local,
    Emit,
    Sleep,
    Listen,
    Join,
    Race,
    Branch,
    Scope,
    Loop,
    Iteration,
    Checkpoint,
    RollbackTo,
    Commit,
    Version,
    Removed,
    Call,
    Spawn,
}

const KINDS: [(Kind, &str); 18] = [
    (Kind::Step, "step"),
    (Kind::Local, "local"),
    (Kind::Emit, "emit"),
    (Kind::Sleep, "sleep"),
    (Kind::Listen, "listen"),
    (Kind::Join, "join"),
    (Kind::Race, "race"),
    (Kind::Branch, "branch"),
    (Kind::Scope, "scope"),
    (Kind::Loop, "loop"),
    (Kind::Iteration, "iteration"),
    (Kind::Checkpoint, "checkpoint"),
    (Kind::RollbackTo, "rollback_to"),
    (Kind::Commit, "commit"),
    (Kind::Version, "version"),
    (Kind::Removed, "removed"),
    (Kind::Call, "call"),
    (Kind::Spawn, "spawn"),
];

impl Kind {
    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        KINDS[self as usize].1
    }

    pub(super) fn of(number: u64) -> Option<Kind> {
        KINDS.get(usize::try_from(number).ok()?).map(|(kind, _)| *kind)
    }
}

/// The states of an operation, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Recorded, and nothing of it is in flight: a branch before its turn, a step before its next
    /// attempt.
    Pending,
    Running,
    Completed,
    Failed,
    Exhausted,
    Cancelled,
}

const STATES: [State; 6] = [
    State::Pending,
    State::Running,
    State::Completed,
    State::Failed,
    State::Exhausted,
    State::Cancelled,
];

impl State {
    pub fn is_open(self) -> bool {
        matches!(self, State::Pending | State::Running)
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is open, or its value was not kept.
    None,
    /// Canonical CBOR.
    Value(Bytes),
    /// The list of a stored failure.
    Failure(Bytes),
}

/// An operation. Index 0 of a list of them is the function itself, which is not stored.
#[derive(Clone)]
pub(super) struct Op {
    pub parent: usize,
    pub kind: Kind,
    pub name: &'static str,
    pub state: State,
    pub attempts: u64,
    pub created: u64,
    pub last: Option<u64>,
    pub done: Option<u64>,
    pub outcome: Outcome,
    /// The items of the body behind the outcome, and how many.
    pub extra: Bytes,
    pub extras: usize,
    /// As it was read, behind the parent; empty where it has to be written again.
    recorded: Bytes,

    // Of this turn only. An index of 0 means none.
    pub first_child: usize,
    pub last_child: usize,
    pub sibling: usize,
    /// The child that the body took last.
    pub cursor: usize,
    /// The child that the body waits for.
    pub waiting: usize,
    /// Began in this turn.
    pub is_new: bool,
    /// Ended in this turn.
    pub is_fresh: bool,
    /// Collapsed into its parent.
    pub is_gone: bool,
}

impl Op {
    pub fn new(parent: usize, kind: Kind, name: &'static str, now: u64) -> Op {
        Op {
            parent,
            kind,
            name,
            state: State::Pending,
            attempts: 0,
            created: now,
            last: None,
            done: None,
            outcome: Outcome::None,
            extra: &[],
            extras: 0,
            recorded: &[],
            first_child: 0,
            last_child: 0,
            sibling: 0,
            cursor: 0,
            waiting: 0,
            is_new: true,
            is_fresh: false,
            is_gone: false,
        }
    }

    /// To be called before each change of what is stored.
    pub fn changes(&mut self) -> &mut Op {
        self.recorded = &[];
        self
    }

    /// Replace the items of the body behind the outcome.
    pub fn set_extra(&mut self, count: usize, items: Vec<u8>) {
        self.changes();
        self.extras = count;
        self.extra = items.leak();
    }

    fn write(&self, parent: usize, out: &mut Vec<u8>) {
        cbor::write_list(9, out);
        cbor::write_nat(parent as u64, out);
        if !self.recorded.is_empty() {
            return put(out, self.recorded);
        }
        cbor::write_nat(self.kind as u64, out);
        cbor::write_text(self.name, out);
        cbor::write_nat(self.state as u64, out);
        cbor::write_nat(self.attempts, out);
        cbor::write_nat(self.created, out);
        write_time(self.last, out);
        write_time(self.done, out);
        cbor::write_list(1 + self.extras, out);
        match self.outcome {
            Outcome::None => cbor::write_null(out),
            Outcome::Value(value) => cbor::write_bytes(value, out),
            Outcome::Failure(failure) => put(out, failure),
        }
        put(out, self.extra);
    }

    fn read(from: &mut Cursor, before: usize) -> Option<Op> {
        from.list(9)?;
        let parent = from.nat().filter(|parent| *parent < before as u64)?;
        let start = from.at;
        let kind = Kind::of(from.nat()?)?;
        let name = from.text()?;
        let state = *STATES.get(usize::try_from(from.nat()?).ok()?)?;
        let mut op = Op::new(parent as usize, kind, name, 0);
        op.state = state;
        op.attempts = from.nat()?;
        op.created = from.nat()?;
        op.last = from.time()?;
        op.done = from.time()?;
        op.extras = from.head(LIST)?.checked_sub(1)? as usize;
        op.outcome = from.outcome()?;
        let behind = from.at;
        from.skip(op.extras as u64)?;
        op.extra = &from.bytes[behind..from.at];
        op.recorded = &from.bytes[start..from.at];
        op.is_new = false;
        Some(op)
    }
}

const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const NULL: u8 = 0xf6;

/// Reads the operations, which every turn does: less general than the SDK's reader, and
/// several times as fast. None means that the bytes are no history.
struct Cursor {
    bytes: Bytes,
    at: usize,
}

impl Cursor {
    /// Major type and argument of the next head.
    fn any_head(&mut self) -> Option<(u8, u64)> {
        let rest = self.bytes.get(self.at..)?;
        let first = *rest.first()?;
        let (argument, length) = match first & 31 {
            small @ 0..=23 => (small as u64, 1),
            24 => (*rest.get(1)? as u64, 2),
            25 => (u16::from_be_bytes(*rest.get(1..)?.first_chunk()?) as u64, 3),
            26 => (u32::from_be_bytes(*rest.get(1..)?.first_chunk()?) as u64, 5),
            27 => (u64::from_be_bytes(*rest.get(1..)?.first_chunk()?), 9),
            _ => return None,
        };
        self.at += length;
        Some((first >> 5, argument))
    }

    fn head(&mut self, major: u8) -> Option<u64> {
        self.any_head().filter(|(found, _)| *found == major).map(|(_, argument)| argument)
    }

    fn nat(&mut self) -> Option<u64> {
        self.head(0)
    }

    fn list(&mut self, length: u64) -> Option<()> {
        (self.head(LIST)? == length).then_some(())
    }

    fn take(&mut self, length: u64) -> Option<Bytes> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn text(&mut self) -> Option<&'static str> {
        let length = self.head(TEXT)?;
        core::str::from_utf8(self.take(length)?).ok()
    }

    fn is_null(&mut self) -> bool {
        let is_null = self.bytes.get(self.at) == Some(&NULL);
        self.at += is_null as usize;
        is_null
    }

    fn time(&mut self) -> Option<Option<u64>> {
        if self.is_null() { Some(None) } else { self.nat().map(Some) }
    }

    fn outcome(&mut self) -> Option<Outcome> {
        if self.is_null() {
            return Some(Outcome::None);
        }
        let start = self.at;
        match self.any_head()? {
            (BYTES, length) => self.take(length).map(Outcome::Value),
            (LIST, items) => {
                self.skip(items)?;
                Some(Outcome::Failure(&self.bytes[start..self.at]))
            }
            _ => None,
        }
    }

    /// Pass over so many items of any shape.
    fn skip(&mut self, mut items: u64) -> Option<()> {
        while items > 0 {
            items -= 1;
            if matches!(self.bytes.get(self.at)?, 0xf4..=0xf6) {
                self.at += 1;
                continue;
            }
            match self.any_head()? {
                (0 | 1, _) => {}
                (BYTES | TEXT, length) => drop(self.take(length)?),
                (LIST, length) => items = items.checked_add(length)?,
                (5, length) => items = items.checked_add(length.checked_mul(2)?)?,
                _ => return None,
            }
        }
        Some(())
    }
}

/// The states of a compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Undo {
    Registered,
    Running,
    Done,
    Stuck,
    Skipped,
}

const UNDOS: [Undo; 5] = [Undo::Registered, Undo::Running, Undo::Done, Undo::Stuck, Undo::Skipped];

/// An effect that undoes a step.
#[derive(Clone)]
pub(super) struct Compensation {
    pub path: &'static str,
    pub effect: &'static str,
    pub params: Bytes,
    pub state: Undo,
    pub attempts: u64,
    pub created: u64,
    pub last: Option<u64>,
    pub done: Option<u64>,
    /// Of the last attempt, as it is stored.
    pub failure: Option<Bytes>,
    /// As it was read; empty where it has to be written again.
    pub recorded: Bytes,
}

impl Compensation {
    /// To be called before each change of what is stored.
    pub fn changes(&mut self) -> &mut Compensation {
        self.recorded = &[];
        self
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.recorded.is_empty() {
            return put(out, self.recorded);
        }
        cbor::write_list(9, out);
        cbor::write_text(self.path, out);
        cbor::write_text(self.effect, out);
        cbor::write_bytes(self.params, out);
        cbor::write_nat(self.state as u64, out);
        cbor::write_nat(self.attempts, out);
        cbor::write_nat(self.created, out);
        write_time(self.last, out);
        write_time(self.done, out);
        match self.failure {
            Some(failure) => put(out, failure),
            None => cbor::write_null(out),
        }
    }

    fn read(from: &mut Cursor) -> Option<Compensation> {
        let start = from.at;
        from.list(9)?;
        let (path, effect) = (from.text()?, from.text()?);
        let length = from.head(BYTES)?;
        let params = from.take(length)?;
        let state = *UNDOS.get(usize::try_from(from.nat()?).ok()?)?;
        let (attempts, created) = (from.nat()?, from.nat()?);
        let (last, done) = (from.time()?, from.time()?);
        let behind = from.at;
        let failure = match from.is_null() {
            true => None,
            false => {
                from.skip(1)?;
                Some(&from.bytes[behind..from.at])
            }
        };
        let recorded = &from.bytes[start..from.at];
        Some(Compensation {
            path,
            effect,
            params,
            state,
            attempts,
            created,
            last,
            done,
            failure,
            recorded,
        })
    }
}

fn write_time(time: Option<u64>, out: &mut Vec<u8>) {
    match time {
        Some(ns) => cbor::write_nat(ns, out),
        None => cbor::write_null(out),
    }
}

/// The content of `ops`, with the function itself before the operations.
pub(super) struct History {
    pub ops: Vec<Op>,
    pub compensations: Vec<Compensation>,
    /// How many turns in a row had to continue in another one; see `Core::continue_later`.
    pub continues: u64,
}

impl Default for History {
    fn default() -> History {
        let mut root = Op::new(0, Kind::Scope, "", 0);
        root.is_new = true;
        History { ops: alloc::vec![root], compensations: Vec::new(), continues: 0 }
    }
}

impl History {
    /// Read `ops`. If it cannot be read, or a later format wrote it: the offset of the problem.
    pub fn read(bytes: Bytes) -> Result<History, usize> {
        let mut from = Cursor { bytes, at: 0 };
        match History::read_from(&mut from) {
            Some(history) if from.at == bytes.len() => Ok(history),
            _ => Err(from.at),
        }
    }

    fn read_from(from: &mut Cursor) -> Option<History> {
        let items = from.head(LIST).filter(|items| matches!(items, 3 | 4))?;
        from.nat().filter(|format| *format == FORMAT)?;
        // Each operation has at least a byte, so no more than these are set aside.
        let length = from.head(LIST)?.min(from.bytes.len() as u64 + 1) as usize;
        let mut history = History::default();
        history.ops[0].is_new = false;
        history.ops.reserve(length + 8);
        for index in 1..=length {
            history.ops.push(Op::read(from, index)?);
            history.link(index);
        }
        for _ in 0..from.head(LIST)? {
            history.compensations.push(Compensation::read(from)?);
        }
        if items == 4 {
            history.continues = from.nat().filter(|continues| *continues > 0)?;
        }
        Some(history)
    }

    /// Make the operation at `index`, the newest, the last child of its parent.
    pub fn link(&mut self, index: usize) {
        let parent = self.ops[index].parent;
        match self.ops[parent].last_child {
            0 => self.ops[parent].first_child = index,
            last => self.ops[last].sibling = index,
        }
        self.ops[parent].last_child = index;
    }

    /// Without the operations that are gone, with the indices that then hold.
    pub fn bytes(&self, capacity: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(capacity);
        cbor::write_list(3 + (self.continues > 0) as usize, &mut out);
        cbor::write_nat(FORMAT, &mut out);
        let mut place = alloc::vec![0; self.ops.len()];
        let mut count = 0;
        for (index, op) in self.ops.iter().enumerate().skip(1) {
            if !op.is_gone {
                count += 1;
                place[index] = count;
            }
        }
        cbor::write_list(count, &mut out);
        for op in &self.ops[1..] {
            if !op.is_gone {
                op.write(place[op.parent], &mut out);
            }
        }
        cbor::write_list(self.compensations.len(), &mut out);
        self.compensations.iter().for_each(|each| each.write(&mut out));
        if self.continues > 0 {
            cbor::write_nat(self.continues, &mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A join with a branch that has a step, and a compensation.
    fn history() -> History {
        let mut history = History::default();
        let mut add = |parent, kind, name, state| {
            let mut op = Op::new(parent, kind, name, 7);
            op.state = state;
            history.ops.push(op);
            history.link(history.ops.len() - 1);
            history.ops.len() - 1
        };
        let join = add(0, Kind::Join, "both", State::Running);
        let branch = add(join, Kind::Branch, "left", State::Running);
        let step = add(branch, Kind::Step, "one", State::Completed);
        add(join, Kind::Branch, "right", State::Pending);
        history.ops[step].attempts = 1;
        history.ops[step].last = Some(7);
        history.ops[step].done = Some(8);
        history.ops[step].outcome = Outcome::Value(b"\xf6");
        history.ops[step].set_extra(1, b"\x61e".to_vec());
        history.compensations.push(Compensation {
            path: "both/left/one",
            effect: "e",
            params: b"\xf6",
            state: Undo::Registered,
            attempts: 0,
            created: 8,
            last: None,
            done: None,
            failure: None,
            recorded: &[],
        });
        history
    }

    #[test]
    fn a_history_is_read_as_it_was_written_and_written_as_it_was_read() {
        let bytes = history().bytes(0);

        let read = History::read(bytes.clone().leak()).unwrap();

        assert_eq!(read.bytes(0), bytes);
        let names: Vec<&str> = read.ops.iter().map(|op| op.name).collect();
        assert_eq!(names, ["", "both", "left", "one", "right"]);
        assert_eq!((read.ops[1].first_child, read.ops[1].last_child), (2, 4));
        assert_eq!(read.ops[2].sibling, 4);
        assert_eq!(read.ops[3].outcome, Outcome::Value(b"\xf6"));
        assert_eq!(read.ops[3].extra, b"\x61e");
        assert_eq!(read.compensations[0].path, "both/left/one");
    }

    #[test]
    fn the_bytes_of_a_step_are_those_of_the_specification() {
        let mut history = history();
        history.ops.truncate(4);
        history.compensations.clear();

        let expected: &[u8] = &[
            0x83, 1, 0x83, // format, three operations
            0x89, 0, 5, 0x64, b'b', b'o', b't', b'h', 1, 0, 7, 0xf6, 0xf6, 0x81,
            0xf6, // a join
            0x89, 1, 7, 0x64, b'l', b'e', b'f', b't', 1, 0, 7, 0xf6, 0xf6, 0x81,
            0xf6, // a branch
            0x89, 2, 0, 0x63, b'o', b'n', b'e', 2, 1, 7, 7, 8, // a step
            0x82, 0x41, 0xf6, 0x61, b'e', // its value and its effect
            0x80,
        ];
        assert_eq!(history.bytes(0), expected);
    }

    #[test]
    fn the_number_of_turns_in_a_row_is_there_only_if_the_flow_has_to_continue() {
        let mut history = history();
        let without = history.bytes(0);
        history.continues = 7;

        let with = history.bytes(0);

        assert_eq!(with[0], 0x84);
        assert_eq!(with[1..with.len() - 1], without[1..]);
        assert_eq!(with.last(), Some(&7));
        assert_eq!(History::read(with.clone().leak()).unwrap().continues, 7);
        let zero = [&with[..with.len() - 1], &[0]].concat();
        assert!(History::read(zero.leak()).is_err());
    }

    #[test]
    fn operations_that_are_gone_leave_the_list_and_the_others_move_up() {
        let mut history = history();
        history.ops[2].is_gone = true;
        history.ops[3].is_gone = true;

        let read = History::read(history.bytes(0).leak()).unwrap();

        let names: Vec<&str> = read.ops.iter().map(|op| op.name).collect();
        assert_eq!(names, ["", "both", "right"]);
        assert_eq!(read.ops[2].parent, 1);
    }

    #[test]
    fn every_prefix_of_a_history_and_every_other_format_is_refused() {
        let bytes = history().bytes(0);
        for length in 0..bytes.len() {
            assert!(History::read(bytes[..length].to_vec().leak()).is_err(), "{length}");
        }
        let mut later = bytes.clone();
        later[1] = 2;
        assert!(History::read(later.leak()).is_err());
    }

    #[test]
    fn a_parent_that_comes_later_and_an_unknown_kind_or_state_are_refused() {
        let read = |parent: u8, kind: u8, state: u8| {
            let op = [0x89, parent, kind, 0x61, b'a', state, 0, 7, 0xf6, 0xf6, 0x81, 0xf6];
            let bytes = [&[0x83, 1, 0x81][..], &op, &[0x80]].concat();
            History::read(bytes.leak()).is_ok()
        };
        assert!(read(0, 17, 5));
        assert!(!read(1, 17, 5));
        assert!(!read(0, 18, 5));
        assert!(!read(0, 17, 6));
    }
}
