//! A scripted program: its code is async functions that request operations by name and bytes, as the
//! code of an interpreter does. It has a task for each branch.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use aos_sdk::flow::FlowError;
use aos_sdk::flow::untyped::{Answer, Ended, Id, Pause, Program, Request, Start, Undo};
use aos_sdk::{Fault, Schema, decode};

pub type Bytes = &'static [u8];
pub type Task = Pin<Box<dyn Future<Output = ()>>>;
/// The body of a branch, scope or iteration.
pub type Body = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Ended>>>>;

/// The way from the code of a script to the engine.
#[derive(Clone, Default)]
pub struct Script(Rc<Shared>);

#[derive(Default)]
struct Shared {
    asked: RefCell<Option<Request>>,
    answered: RefCell<Option<Answer>>,
    failed: RefCell<Option<Pause>>,
    resumed: RefCell<HashMap<Id, Answer>>,
    /// The task that waits under a number.
    waiting: RefCell<HashMap<Id, usize>>,
    spawned: RefCell<Vec<Task>>,
    running: Cell<usize>,
}

impl Script {
    /// Request something, and wait for an answer that is not `Wait`.
    pub async fn ask(&self, request: Request) -> Answer {
        let replaced = self.0.asked.borrow_mut().replace(request);
        assert!(replaced.is_none(), "a request was not seen");
        let answer = poll_fn(|_| match self.0.answered.borrow_mut().take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await;
        self.settled(answer).await
    }

    async fn settled(&self, mut answer: Answer) -> Answer {
        while let Answer::Wait(id) = answer {
            answer = self.resumed(id).await;
        }
        answer
    }

    async fn resumed(&self, id: Id) -> Answer {
        poll_fn(|_| match self.0.resumed.borrow_mut().remove(&id) {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.0.waiting.borrow_mut().insert(id, self.0.running.get());
                Poll::Pending
            }
        })
        .await
    }

    /// An operation without a body.
    pub async fn run(&self, request: Request) -> Result<Bytes, FlowError> {
        match self.ask(request).await {
            Answer::Done(ended) => ended,
            other => panic!("an operation without a body was answered with {other:?}"),
        }
    }

    /// A step or call whose compensation `undo` makes.
    pub async fn run_undoable(
        &self,
        request: Request,
        undo: impl AsyncFn(Bytes) -> Undo,
    ) -> Result<Bytes, FlowError> {
        match self.ask(request).await {
            Answer::Compensate(value) => self.run(Request::Compensation(undo(value).await)).await,
            Answer::Done(ended) => ended,
            other => panic!("a step was answered with {other:?}"),
        }
    }

    /// A join or race.
    pub async fn branches(&self, request: Request, bodies: Vec<Body>) -> Result<Bytes, FlowError> {
        let (wait, ids) = match self.ask(request).await {
            Answer::Done(ended) => return ended,
            Answer::Branches { wait, bodies } => (wait, bodies),
            other => panic!("a join or race was answered with {other:?}"),
        };
        assert_eq!(ids.len(), bodies.len());
        for (id, body) in ids.into_iter().zip(bodies) {
            let script = self.clone();
            self.spawn(Box::pin(async move {
                let Answer::Run { body: begun, .. } = script.resumed(id).await else {
                    panic!("a branch was not run");
                };
                assert_eq!(begun, id);
                let ended = body().await;
                let answer = script.ask(Request::End { body: id, ended }).await;
                assert!(matches!(answer, Answer::Done(Ok(b"\xf6"))), "{answer:?}");
            }));
        }
        match self.settled(Answer::Wait(wait)).await {
            Answer::Done(ended) => ended,
            other => panic!("a join or race ended with {other:?}"),
        }
    }

    /// A scope or loop: `body` gets the state.
    pub async fn bodies(
        &self,
        request: Request,
        body: impl AsyncFn(Bytes) -> Ended,
    ) -> Result<Bytes, FlowError> {
        let mut answer = self.ask(request).await;
        loop {
            answer = match answer {
                Answer::Run { body: id, state } => {
                    let ended = body(state).await;
                    self.ask(Request::End { body: id, ended }).await
                }
                Answer::Done(ended) => return ended,
                other => panic!("a scope or loop was answered with {other:?}"),
            };
        }
    }

    /// Read a value as its type; a value of another type ends the turn.
    pub async fn read<T: Schema>(&self, value: Bytes) -> T {
        match decode(value) {
            Ok(value) => value,
            Err(misfit) => self.fail(Pause::Misfit(format!("{misfit:?}"))).await,
        }
    }

    pub async fn fail<T>(&self, pause: Pause) -> T {
        *self.0.failed.borrow_mut() = Some(pause);
        pending().await
    }

    pub async fn fault<T>(&self, kind: &str, message: String) -> T {
        self.fail(Pause::Fault(Fault::new(kind, message))).await
    }

    pub fn spawn(&self, task: Task) {
        self.0.spawned.borrow_mut().push(task);
    }
}

type Main = Box<dyn FnOnce(Script, Start) -> Pin<Box<dyn Future<Output = Ended>>>>;
type Check = fn(&str, Bytes) -> Result<(), String>;

/// A [`Program`] that runs a script.
pub struct Machine {
    script: Script,
    main: Option<Main>,
    check: Check,
    /// None for a task that has ended.
    tasks: Vec<Option<Task>>,
    /// Those that have to run before the program waits.
    ready: VecDeque<usize>,
    /// The task that has requested something.
    asking: usize,
}

impl Machine {
    pub fn new<F>(main: impl FnOnce(Script, Start) -> F + 'static, check: Check) -> Machine
    where
        F: Future<Output = Ended> + 'static,
    {
        let main: Main = Box::new(|script, start| Box::pin(main(script, start)));
        let script = Script::default();
        let (tasks, ready) = (Vec::new(), VecDeque::new());
        Machine { script, main: Some(main), check, tasks, ready, asking: 0 }
    }

    /// Run a task, and those that it spawns, until one requests something or all wait.
    fn run(&mut self, first: usize) -> Pause {
        self.ready.push_front(first);
        while let Some(number) = self.ready.pop_front() {
            self.script.0.running.set(number);
            let mut context = Context::from_waker(Waker::noop());
            let task = self.tasks[number].as_mut().expect("a task that has not ended");
            if task.as_mut().poll(&mut context).is_ready() {
                self.tasks[number] = None;
            }
            for task in self.script.0.spawned.take() {
                self.ready.push_back(self.tasks.len());
                self.tasks.push(Some(task));
            }
            if let Some(pause) = self.script.0.failed.take() {
                return pause;
            }
            if let Some(request) = self.script.0.asked.take() {
                self.asking = number;
                return Pause::Request(request);
            }
        }
        Pause::Waiting
    }
}

impl Program for Machine {
    fn start(&mut self, start: &Start) -> Pause {
        let main = self.main.take().expect("a program starts once");
        let (script, ended) = (self.script.clone(), main(self.script.clone(), *start));
        self.tasks.push(Some(Box::pin(async move {
            let ended = ended.await;
            script.ask(Request::End { body: 0, ended }).await;
        })));
        self.run(0)
    }

    fn answer(&mut self, answer: Answer) -> Pause {
        let before = self.script.0.answered.borrow_mut().replace(answer);
        assert!(before.is_none(), "an answer was not read");
        self.run(self.asking)
    }

    fn resume(&mut self, wait: Id, answer: Answer) -> Pause {
        let waiting = self.script.0.waiting.borrow_mut().remove(&wait);
        self.script.0.resumed.borrow_mut().insert(wait, answer);
        self.run(waiting.expect("a task that waits under this number"))
    }

    fn check(&mut self, branch: &str, value: Bytes) -> Result<(), String> {
        (self.check)(branch, value)
    }
}
