//! `call` and `spawn`: flows that a flow starts.

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{self, Reader};
use crate::schema::{Named, encode, whole};

use super::engine::{Core, Print};
use super::failure::{FlowError, failure};
use super::history::{Bytes, Kind, Outcome, State, put};
use super::mail::Return;
use super::scope::{leaf, typed};
use super::state::Parent;
use super::{Callable, Cx, Flow};

impl Cx {
    /// Run another flow and wait for its result. Its cell must not exist: a key that is in use is
    /// Critical, code `exists`.
    ///
    /// If this flow is canceled or rolled back, or the branch loses, a child that is still running
    /// is canceled, with its compensations. A failure of the child has it among its causes.
    pub async fn call<C: Callable>(
        self,
        name: &str,
        input: C::Input,
    ) -> Result<C::Output, FlowError> {
        let (index, value) =
            leaf(self, Kind::Call, name, Print::Text(C::WORKFLOW), |core, index| {
                if core.op(index).state == State::Pending {
                    let input: Bytes = encode(&input).leak();
                    let key = field_of(input, C::KEY_FIELD);
                    let child = Child { workflow: C::WORKFLOW, control: C::CONTROL, key };
                    core.begin_call(index, C::CALL, &child, input);
                }
            })
            .await?;
        Ok(typed(self, index, value).await)
    }

    /// Start another flow without waiting for its result. If its cell has already started, nothing happens.
    pub async fn spawn<C: Flow>(self, name: &str, input: C::Input) -> Result<(), FlowError> {
        leaf(self, Kind::Spawn, name, Print::Text(C::WORKFLOW), |core, index| {
            let mut extra = Vec::new();
            cbor::write_text(C::WORKFLOW, &mut extra);
            core.op_mut(index).set_extra(1, extra);
            core.emit(C::Input::NAME, &encode(&input));
            core.complete(index, Vec::from(b"\xf6"));
        })
        .await?;
        Ok(())
    }
}

/// The body of a call: `[outcome, workflow, control, key]`.
struct Child {
    workflow: &'static str,
    /// The schema by which it is canceled.
    control: &'static str,
    key: Bytes,
}

impl Child {
    fn of(core: &Core, index: usize) -> Option<Child> {
        whole(core.op(index).extra, |from| {
            Ok(Child { workflow: from.text()?, control: from.text()?, key: from.bytes()? })
        })
        .ok()
    }
}

impl Core {
    fn begin_call(&mut self, index: usize, schema: &str, child: &Child, input: &[u8]) {
        let mut extra = Vec::new();
        cbor::write_text(child.workflow, &mut extra);
        cbor::write_text(child.control, &mut extra);
        cbor::write_bytes(child.key, &mut extra);
        let (path, now) = (self.path(index), self.now);
        let op = self.op_mut(index);
        op.set_extra(3, extra);
        op.state = State::Running;
        op.attempts = 1;
        op.last = Some(now);
        let Some(returned) = self.facts.returned else {
            let mut message = path;
            message.push_str(" calls a flow, and calls(…) of this flow does not have it: its result would not come back");
            self.fault.get_or_insert(crate::Fault::new("flow_listen", message));
            return;
        };
        let mut value = Vec::from(b"\xa2\x65input");
        put(&mut value, input);
        put(&mut value, b"\x65reply");
        let path = String::leak(path);
        Parent { schema: returned, key: self.key, path, attempt: 1 }.write(&mut value);
        self.emit(schema, &value);
    }

    /// Fold the result of a child. False if no call waits for it.
    pub fn settle_call(&mut self, returned: &Return) -> bool {
        let Some(index) = self.find(returned.path) else { return false };
        let op = self.op(index);
        if op.kind != Kind::Call || !op.state.is_open() || op.attempts != returned.attempt {
            return false;
        }
        match returned.result {
            Ok(value) => self.end(index, State::Completed, Outcome::Value(value)),
            Err(bytes) => {
                let Ok(cause) = whole(bytes, FlowError::read) else { return false };
                self.fail(index, failed(cause));
            }
        }
        true
    }

    /// End an open call whose branch has lost; the child ends, too.
    pub fn cancel_call(&mut self, index: usize) {
        if let (Some(child), State::Running) = (Child::of(self, index), self.op(index).state) {
            let mut value = Vec::from(
                b"\xa2\x67command\xa2\x64$tag\x66Cancel\x66$value\xa1\x68rollback\xf5\x68instance",
            );
            put(&mut value, child.key);
            self.emit(child.control, &value);
        }
        self.end(index, State::Cancelled, Outcome::None);
    }

    /// Tell the flow that called this one how it ended.
    pub fn answer(&mut self, parent: &Parent, result: Result<&[u8], &[u8]>) {
        let (arm, bytes) = match result {
            Ok(bytes) => ("Ok", bytes),
            Err(bytes) => ("Failed", bytes),
        };
        let mut value = Vec::from(b"\xa4\x64path");
        cbor::write_text(parent.path, &mut value);
        put(&mut value, b"\x66result");
        cbor::write_arm(arm, true, &mut value);
        cbor::write_bytes(bytes, &mut value);
        put(&mut value, b"\x67attempt");
        cbor::write_nat(parent.attempt, &mut value);
        put(&mut value, b"\x68instance");
        put(&mut value, parent.key);
        self.emit(parent.schema, &value);
    }
}

/// The field of a record at a path, such as `order.id`; null if there is none.
fn field_of(record: Bytes, path: &str) -> Bytes {
    path.split('.').fold(record, |record, name| {
        let mut from = Reader::new(record);
        for _ in 0..from.map().unwrap_or(0) {
            match (from.text(), from.item()) {
                (Ok(found), Ok(value)) if found == name => return value,
                _ => {}
            }
        }
        b"\xf6"
    })
}

/// The failure of a call: of the kind, code and message of the child's, which is its cause.
fn failed(cause: FlowError) -> FlowError {
    let mut own = failure(cause.code(), cause.message());
    let make = match cause {
        FlowError::Rollback(_) => FlowError::Rollback,
        FlowError::Timeout(_) => FlowError::Timeout,
        FlowError::Canceled(_) => FlowError::Canceled,
        FlowError::Exhausted(_) => FlowError::Exhausted,
        _ => FlowError::Critical,
    };
    own.causes.push(cause);
    make(own)
}
