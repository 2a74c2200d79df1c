//! `sleep` and `listen`: time and messages.

use alloc::vec::Vec;

use crate::Named;
use crate::air::Type;
use crate::cbor::{self, Reader, Stop};
use crate::schema::whole;
use crate::types::{Duration, Time};

use super::Cx;
use super::engine::{Core, Print};
use super::failure::FlowError;
use super::history::{Bytes, Kind, Outcome, State, put};
use super::path::reference;
use super::scope::{leaf, typed};
use super::inbox::Message;
use super::step::bad_duration;

/// A moment that an operation waits for.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Ever,
    After(Duration),
    At(Time),
}

impl Cx {
    /// Wait for a duration. Restarts, crashes and new versions do not change when it ends.
    ///
    /// ```
    /// # use aos_sdk::{Duration, flow::{Cx, FlowError}};
    /// async fn month(cx: Cx) -> Result<(), FlowError> {
    ///     cx.sleep("month", Duration::days(30)).await
    /// }
    /// ```
    ///
    /// A negative duration, or one that ends after the year 2262, is Critical, code `duration`.
    pub async fn sleep(self, name: &str, duration: Duration) -> Result<(), FlowError> {
        sleep(self, name, Until::After(duration)).await
    }

    /// Wait for a time. One that has passed ends at once.
    pub async fn sleep_until(self, name: &str, time: Time) -> Result<(), FlowError> {
        sleep(self, name, Until::At(time)).await
    }

    /// Wait for a message: a domain event that the flow `listens` for.
    ///
    /// Messages are consumed in the order in which they came, also those that came before. With an
    /// enum that derives `Event` it takes the first message of any of its arms.
    ///
    /// ```
    /// # use aos_sdk::{prelude::*, flow::{Cx, FlowError}};
    /// #[derive(Schema)]
    /// #[schema("shop/Cancel@1")]
    /// pub struct Cancel { pub order_id: String, pub why: String }
    ///
    /// async fn wait(cx: Cx) -> Result<String, FlowError> {
    ///     let cancel = cx.listen::<Cancel>("canceled").await?;
    ///     Ok(cancel.why)
    /// }
    /// ```
    pub async fn listen<M: Named>(self, name: &str) -> Result<M, FlowError> {
        let (index, value) = listen::<M>(self, name, None, Until::Ever).await?;
        Ok(typed(self, index, value).await)
    }

    /// Wait for the first message, and take up to `most` that are there.
    pub async fn listen_n<M: Named>(self, name: &str, most: u64) -> Result<Vec<M>, FlowError> {
        listen_n(self, name, most, Until::Ever).await
    }

    /// As [`listen`](Cx::listen), for at most this long: then None.
    pub async fn listen_with_timeout<M: Named>(
        self,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<M>, FlowError> {
        listen_one(self, name, Until::After(timeout)).await
    }

    /// As [`listen`](Cx::listen), until a time: then None.
    pub async fn listen_until<M: Named>(
        self,
        name: &str,
        time: Time,
    ) -> Result<Option<M>, FlowError> {
        listen_one(self, name, Until::At(time)).await
    }

    /// As [`listen_n`](Cx::listen_n), for at most this long: then none.
    pub async fn listen_n_with_timeout<M: Named>(
        self,
        name: &str,
        most: u64,
        timeout: Duration,
    ) -> Result<Vec<M>, FlowError> {
        listen_n(self, name, most, Until::After(timeout)).await
    }

    /// As [`listen_n`](Cx::listen_n), until a time: then none.
    pub async fn listen_n_until<M: Named>(
        self,
        name: &str,
        most: u64,
        time: Time,
    ) -> Result<Vec<M>, FlowError> {
        listen_n(self, name, most, Until::At(time)).await
    }
}

async fn sleep(cx: Cx, name: &str, until: Until) -> Result<(), FlowError> {
    leaf(cx, Kind::Sleep, name, Print::None, |core, index| core.begin_sleep(index, until)).await?;
    Ok(())
}

async fn listen_one<M: Named>(cx: Cx, name: &str, until: Until) -> Result<Option<M>, FlowError> {
    let (index, value) = listen::<M>(cx, name, None, until).await?;
    if value == b"\xf6" {
        return Ok(None);
    }
    Ok(Some(typed(cx, index, value).await))
}

async fn listen_n<M: Named>(
    cx: Cx,
    name: &str,
    most: u64,
    until: Until,
) -> Result<Vec<M>, FlowError> {
    let (index, value) = listen::<M>(cx, name, Some(most), until).await?;
    Ok(typed(cx, index, value).await)
}

async fn listen<M: Named>(
    cx: Cx,
    name: &str,
    most: Option<u64>,
    until: Until,
) -> Result<(usize, Bytes), FlowError> {
    let wanted = wanted(cx, M::NAME, &M::DEFINITION.of);
    let schemas: Vec<&'static str> = wanted.iter().map(|(schema, _)| *schema).collect();
    leaf(cx, Kind::Listen, name, Print::Texts(&schemas), |core, index| {
        core.run_listen(index, &wanted, most, until)
    })
    .await
}

/// The schemas that a type listens for, each with the arm that holds it.
pub(super) type Wanted = Vec<(&'static str, Option<&'static str>)>;

/// A message type is itself a schema that the flow listens for, or an enum of such schemas.
fn wanted(cx: Cx, name: &'static str, of: &'static Type) -> Wanted {
    let listens = cx.engine().with(|core| core.facts.listens);
    match of {
        Type::Variant(arms) if !listens.contains(&name) => arms
            .iter()
            .map(|(arm, ty)| match ty {
                Type::Ref(definition) => (definition.name, Some(*arm)),
                _ => (*arm, None),
            })
            .collect(),
        _ => alloc::vec![(name, None)],
    }
}

/// The body of a listen: `[outcome, schemas, most, deadline, is an enum, taken]`.
struct Listen {
    schemas: Vec<&'static str>,
    /// Null for a listen for one message; otherwise its value is a list.
    most: Option<u64>,
    deadline: Option<u64>,
    is_enum: bool,
    /// Of each message that was consumed: the place of its schema in `schemas`, and its number.
    taken: Vec<(u64, u64)>,
}

impl Listen {
    fn of(core: &Core, index: usize) -> Option<Listen> {
        whole(core.op(index).extra, Listen::read).ok()
    }

    fn read(from: &mut Reader<'static>) -> Result<Listen, Stop> {
        let mut schemas = Vec::new();
        for _ in 0..from.list()? {
            schemas.push(from.text()?);
        }
        let most = if from.is_null() { None } else { Some(from.nat()?) };
        let deadline = if from.is_null() { None } else { Some(from.nat()?) };
        let is_enum = from.bool()?;
        let mut taken = Vec::new();
        for _ in 0..from.list()? {
            from.list()?;
            taken.push((from.nat()?, from.nat()?));
        }
        Ok(Listen { schemas, most, deadline, is_enum, taken })
    }

    fn store(&self, core: &mut Core, index: usize) {
        let mut out = Vec::new();
        cbor::write_list(self.schemas.len(), &mut out);
        self.schemas.iter().for_each(|schema| cbor::write_text(schema, &mut out));
        for number in [self.most, self.deadline] {
            match number {
                Some(number) => cbor::write_nat(number, &mut out),
                None => cbor::write_null(&mut out),
            }
        }
        cbor::write_bool(self.is_enum, &mut out);
        cbor::write_list(self.taken.len(), &mut out);
        for (place, number) in &self.taken {
            cbor::write_list(2, &mut out);
            cbor::write_nat(*place, &mut out);
            cbor::write_nat(*number, &mut out);
        }
        core.op_mut(index).set_extra(5, out);
    }
}

impl Core {
    /// The deadline in ns; past ones are there, negative and endless durations are not.
    fn moment(&self, until: Until) -> Result<Option<u64>, FlowError> {
        match until {
            Until::Ever => Ok(None),
            Until::At(time) => Ok(Some(time.nat_ns())),
            Until::After(duration) => self.deadline(duration).map(Some).ok_or_else(bad_duration),
        }
    }

    fn begin_sleep(&mut self, index: usize, until: Until) {
        if self.op(index).state == State::Running {
            return;
        }
        let deadline = match self.moment(until) {
            Ok(deadline) => deadline.unwrap_or(0),
            Err(error) => return self.fail(index, error),
        };
        let mut extra = Vec::new();
        cbor::write_nat(deadline, &mut extra);
        let op = self.op_mut(index);
        op.set_extra(1, extra);
        op.state = State::Running;
        op.attempts = 1;
        if deadline <= self.now {
            return self.complete(index, Vec::from(b"\xf6"));
        }
        let path = self.path(index);
        self.timer(deadline, &reference(&path, 1, "sleep"));
    }

    pub fn run_listen(&mut self, index: usize, wanted: &Wanted, most: Option<u64>, until: Until) {
        let is_new = self.op(index).state == State::Pending;
        if is_new && !self.begin_listen(index, wanted, most, until) {
            return;
        }
        if self.is_draining {
            return;
        }
        if self.consume(index, wanted, is_new) || !is_new {
            return;
        }
        // Nothing is there yet: a deadline that has not passed needs a timer.
        let Some(deadline) = Listen::of(self, index).and_then(|listen| listen.deadline) else {
            return;
        };
        if deadline <= self.now {
            return self.end_listen(index);
        }
        let path = self.path(index);
        self.timer(deadline, &reference(&path, 1, "listen"));
    }

    /// False if it has ended, or the turn has a fault.
    fn begin_listen(
        &mut self,
        index: usize,
        wanted: &Wanted,
        most: Option<u64>,
        until: Until,
    ) -> bool {
        for (schema, _) in wanted {
            if !self.facts.listens.contains(schema) {
                let mut message = self.path(index);
                for part in [
                    " listens for ",
                    schema,
                    ", which listens(…) of the flow does not have: it would wait for ever",
                ] {
                    message.push_str(part);
                }
                self.fault.get_or_insert(crate::Fault::new("flow_listen", message));
                return false;
            }
        }
        let schemas = wanted.iter().map(|(schema, _)| *schema).collect();
        let is_enum = wanted.iter().any(|(_, arm)| arm.is_some());
        let mut listen = Listen { schemas, most, deadline: None, is_enum, taken: Vec::new() };
        listen.store(self, index);
        if most == Some(0) {
            self.refuse(index, "count", "a listen for at most 0 messages");
            return false;
        }
        match self.moment(until) {
            Ok(deadline) => listen.deadline = deadline,
            Err(error) => {
                self.fail(index, error);
                return false;
            }
        }
        listen.store(self, index);
        let op = self.op_mut(index);
        op.state = State::Running;
        op.attempts = 1;
        true
    }

    /// Take the messages that are there. False if there is none.
    fn consume(&mut self, index: usize, wanted: &Wanted, is_new: bool) -> bool {
        let Some(mut listen) = Listen::of(self, index) else { return false };
        let mut values = Vec::new();
        let found = self.inbox.take(listen.most.unwrap_or(1), &mut |message| {
            let place = wanted.iter().position(|(schema, _)| *schema == message.schema);
            if let Some(place) = place {
                listen.taken.push((place as u64, message.number));
                write_message(wanted[place].1, message.value, &mut values);
            }
            place.is_some()
        });
        if found.is_none() {
            self.unreadable_inbox();
        }
        if listen.taken.is_empty() {
            return false;
        }
        let mut value = Vec::new();
        if listen.most.is_some() {
            cbor::write_list(listen.taken.len(), &mut value);
        }
        put(&mut value, &values);
        // The timer was asked for only if there was no message at first.
        let is_timed = listen.deadline.is_some() && !is_new;
        listen.store(self, index);
        if is_timed {
            let path = self.path(index);
            self.cancel(&reference(&path, 1, "listen"));
        }
        self.complete(index, value);
        true
    }

    /// The deadline of a listen has come.
    pub fn end_listen(&mut self, index: usize) {
        let is_one = Listen::of(self, index).is_some_and(|listen| listen.most.is_none());
        self.complete(index, Vec::from(if is_one { b"\xf6" } else { b"\x80" }));
    }

    /// The messages that a listen consumed.
    pub fn messages_of(&self, index: usize, taken: &mut Vec<Message>) {
        let Outcome::Value(value) = self.op(index).outcome else { return };
        let Some(listen) = Listen::of(self, index) else { return };
        let mut from = Reader::new(value);
        if listen.most.is_some() {
            let _ = from.list();
        }
        for (place, number) in listen.taken {
            let (Some(schema), Ok(item)) = (listen.schemas.get(place as usize), from.item()) else {
                return;
            };
            let value = if listen.is_enum { unwrapped(item) } else { item };
            taken.push(Message { number, schema, value });
        }
    }

    pub fn forget_messages_of(&mut self, index: usize) {
        if let Some(mut listen) = Listen::of(self, index) {
            listen.taken.clear();
            listen.store(self, index);
        }
    }

    /// End an open sleep or listen whose branch has lost.
    pub fn cancel_wait(&mut self, index: usize) {
        let role = match self.op(index).kind {
            Kind::Sleep => Some("sleep"),
            _ => Listen::of(self, index).and_then(|listen| listen.deadline).map(|_| "listen"),
        };
        if let (Some(role), State::Running) = (role, self.op(index).state) {
            let path = self.path(index);
            self.cancel(&reference(&path, 1, role));
        }
        self.end(index, State::Cancelled, Outcome::None);
    }
}

/// A message as the type that listened: alone, or as the value of its arm.
fn write_message(arm: Option<&str>, value: Bytes, out: &mut Vec<u8>) {
    if let Some(arm) = arm {
        cbor::write_arm(arm, true, out);
    }
    put(out, value);
}

fn unwrapped(item: Bytes) -> Bytes {
    let mut from = Reader::new(item);
    match from.arm() {
        Ok((_, true)) => &item[from.position()..],
        _ => item,
    }
}
