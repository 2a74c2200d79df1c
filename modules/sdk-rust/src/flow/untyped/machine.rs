//! A program in progress: the request that it makes now, and the way of an answer back to it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;

use crate::fault::Fault;
use crate::flow::Cx;
use crate::flow::engine::Core;
use crate::flow::history::Bytes;
use crate::types::Time;

use super::program::{Answer, Id, Pause, Program, Request, Start};

/// The value of operations without one.
pub(super) const NULL: Bytes = b"\xf6";
/// Kind and message of a fault have at most 4,096 bytes together.
const FAULT_MAX: usize = 4096;
/// A fault says so where its message was cut.
const CUT: &str = " […]";

/// A program with its pause. All bodies share it, and one of them runs at a time.
pub(super) struct Machine {
    pub cx: Cx,
    inner: RefCell<Inner>,
}

struct Inner {
    program: Box<dyn Program>,
    stage: Stage,
    last: Id,
}

enum Stage {
    /// The program has requested something, and no body has taken the request.
    Asked(Request),
    /// A body has taken the request, and not answered it.
    Taken,
    /// Every part of the program waits.
    Waiting,
    /// The turn has a fault.
    Over,
}

/// The source of a value that the program has just read, for a fault.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Input,
    Operation(usize),
}

impl Machine {
    /// It lives as long as the turn, as all memory of a guest.
    pub fn new(cx: Cx, program: Box<dyn Program>) -> &'static Machine {
        let inner = Inner { program, stage: Stage::Waiting, last: 0 };
        Box::leak(Box::new(Machine { cx, inner: RefCell::new(inner) }))
    }

    pub fn with<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        self.cx.engine().with(work)
    }

    /// A number that nothing has yet.
    pub fn number(&self) -> Id {
        let mut inner = self.inner.borrow_mut();
        inner.last += 1;
        inner.last
    }

    pub fn start(&self, input: Bytes) {
        let (key, started) = self.with(|core| (core.key, core.started));
        let start = Start { input, key, started_at: Time::from_ns(started as i64) };
        self.run(Source::Input, |program| program.start(&start));
    }

    /// Answer the request that a body has taken.
    pub fn answer(&self, from: usize, answer: Answer) {
        self.run(Source::Operation(from), |program| program.answer(answer));
    }

    pub fn resume(&self, wait: Id, from: usize, answer: Answer) {
        self.run(Source::Operation(from), |program| program.resume(wait, answer));
    }

    /// Whether the program can read the value of a branch.
    pub fn check(&self, branch: &str, value: Bytes) -> Result<(), String> {
        self.inner.borrow_mut().program.check(branch, value)
    }

    fn run(&self, source: Source, run: impl FnOnce(&mut dyn Program) -> Pause) {
        let mut inner = self.inner.borrow_mut();
        if self.with(|core| core.fault.is_some()) {
            inner.stage = Stage::Over;
            return;
        }
        inner.stage = match run(&mut *inner.program) {
            Pause::Request(request) => Stage::Asked(request),
            Pause::Waiting => Stage::Waiting,
            Pause::Fault(fault) => {
                self.with(|core| core.fault.get_or_insert(cut(fault)).kind.len());
                Stage::Over
            }
            Pause::Misfit(words) => {
                self.with(|core| core.misread(source, &words));
                Stage::Over
            }
        };
    }

    fn take(&self) -> Option<Request> {
        let mut inner = self.inner.borrow_mut();
        match core::mem::replace(&mut inner.stage, Stage::Taken) {
            Stage::Asked(request) => Some(request),
            stage => {
                inner.stage = stage;
                None
            }
        }
    }

    /// The request of the body that runs, once the ones that are no operations are answered. None if
    /// it waits, or the turn has a fault.
    pub fn request_now(&self) -> Option<Request> {
        loop {
            match self.take()? {
                Request::Publish(value) => self.with(|core| core.publish_bytes(value)),
                Request::Annotate(value) => self.with(|core| core.annotate_bytes(value)),
                Request::Log(line) if crate::log::IS_ON => self.cx.line(line),
                Request::Log(_) => {}
                request => return Some(request),
            }
            self.answer(0, Answer::Done(Ok(NULL)));
        }
    }

    /// As `request_now`, and waits.
    pub async fn request(&self) -> Request {
        poll_fn(|_| match self.request_now() {
            Some(request) => Poll::Ready(request),
            None => Poll::Pending,
        })
        .await
    }

    /// The operation of the request has not ended: the program gets a number instead.
    pub fn wait_if_unanswered(&self, asked: &Asked) {
        if matches!(self.inner.borrow().stage, Stage::Taken) {
            let wait = self.number();
            asked.reply(self, 0, Answer::Wait(wait));
            asked.wait.set(Some(wait));
            self.hold();
        }
    }

    /// The body waits. Another operation that a part of it requests meanwhile is concurrent, as in a
    /// flow of `#[flow]`.
    pub fn hold(&self) {
        while let Some(request) = self.request_now() {
            let waiting = self.with(|core| core.op(core.scope).waiting);
            if waiting != 0 {
                self.with(|core| core.concurrent::<()>(waiting, request.name()));
                return;
            }
            // Nothing can begin in this turn any more, so that both wait for the next one.
            self.answer(0, Answer::Wait(self.number()));
        }
    }

    /// The program does not do its part of the protocol.
    pub fn refuse(&self, words: &str) {
        self.with(|core| {
            let mut message = core.place(core.scope);
            message.push_str(": ");
            message.push_str(words);
            core.fault.get_or_insert(Fault::new("flow_program", message)).kind.len()
        });
    }
}

/// The request of an operation, which waits under a number or is answered at once.
#[derive(Default)]
pub(super) struct Asked {
    pub wait: Cell<Option<Id>>,
}

impl Asked {
    /// Answer it with something of the operation `from`.
    pub fn reply(&self, machine: &Machine, from: usize, answer: Answer) {
        match self.wait.take() {
            Some(wait) => machine.resume(wait, from, answer),
            None => machine.answer(from, answer),
        }
    }
}

impl Core {
    /// As [`Cx::publish`](crate::flow::Cx::publish).
    fn publish_bytes(&mut self, view: Vec<u8>) {
        if self.facts.view.is_none() {
            let words = "publish was called in a flow that declares no view";
            self.fault.get_or_insert(Fault::new("flow_name", words));
        } else if self.is_live() {
            self.view = Some(view);
        }
    }

    fn annotate_bytes(&mut self, annotation: Vec<u8>) {
        if self.is_live() {
            self.annotation = Some(annotation);
        }
    }

    fn misread(&mut self, source: Source, words: &str) {
        match source {
            Source::Input => self.diverge::<()>("", "a start of another type", words),
            Source::Operation(index) => {
                let path = self.path(index);
                self.diverge::<()>(&path, "a value of another type", words)
            }
        };
    }
}

/// A fault with as much of its message as there is room for.
fn cut(mut fault: Fault) -> Fault {
    let room = FAULT_MAX.saturating_sub(fault.kind.len());
    if fault.message.len() > room {
        let mut end = room.saturating_sub(CUT.len());
        while !fault.message.is_char_boundary(end) {
            end -= 1;
        }
        fault.message.truncate(end);
        fault.message.push_str(CUT);
    }
    fault
}
