//! The answer that a canceled operation waits for (`spec/flow.md`, FL-60a).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Poll;

use crate::Effect;
use crate::cbor::{Reader, Stop};
use crate::schema::{Schema, decode, encode};

use super::Cx;
use super::engine::Core;
use super::failure::FlowError;
use super::history::{Bytes, Kind};

/// The effect of a compensation, and its params.
pub(super) type Undo = (&'static str, Vec<u8>);

/// Makes the compensation from the result of an operation.
pub(super) type Rollback<'a, T> = Box<dyn Fn(&T) -> Undo + 'a>;

/// Whether an open step or call has to hear the answer to what it requested, even if it is canceled:
/// only with its result can the code make its compensation. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Ending {
    /// It has no `.rollback`, so it ends as soon as it is canceled.
    AtOnce,
    /// It has a `.rollback`.
    WithAnswer,
    /// It was canceled, and waits for the answer.
    Canceled,
    /// Its time is over, and it waits for the answer.
    TimedOut,
}

const ENDINGS: [Ending; 4] =
    [Ending::AtOnce, Ending::WithAnswer, Ending::Canceled, Ending::TimedOut];

impl Ending {
    pub fn of(has_rollback: bool) -> Ending {
        if has_rollback { Ending::WithAnswer } else { Ending::AtOnce }
    }

    pub fn is_awaited(self) -> bool {
        matches!(self, Ending::Canceled | Ending::TimedOut)
    }

    /// With what the code says now, which decides unless the operation was canceled.
    pub fn with(self, has_rollback: bool) -> Ending {
        if self.is_awaited() { self } else { Ending::of(has_rollback) }
    }

    pub fn read(from: &mut Reader<'static>) -> Result<Ending, Stop> {
        let number = usize::try_from(from.nat()?).ok();
        match number.and_then(|number| ENDINGS.get(number)) {
            Some(ending) => Ok(*ending),
            None => Err(from.stop("0 to 3 before here")),
        }
    }
}

/// The `.rollback` of an operation whose result is a `T`.
pub(super) fn rollback<'a, T, C: Effect>(undo: impl Fn(&T) -> C + 'a) -> Option<Rollback<'a, T>> {
    Some(Box::new(move |result| (C::EFFECT, encode(&undo(result)))))
}

/// The end of an operation for the code that waits for it. A result that is new registers its
/// compensation.
pub(super) fn ready<T: Schema>(
    cx: Cx,
    index: usize,
    ended: Result<Bytes, FlowError>,
    rollback: &mut Option<Rollback<'_, T>>,
) -> Poll<Result<T, FlowError>> {
    let engine = cx.engine();
    let result: T = match ended.map(decode) {
        Ok(Ok(result)) => result,
        Ok(Err(misfit)) => {
            engine.with(|core| core.misfit::<()>(index, misfit));
            return Poll::Pending;
        }
        Err(error) => return Poll::Ready(Err(error)),
    };
    if let (Some(undo), true) = (&rollback, engine.with(|core| core.op(index).is_fresh)) {
        let (effect, params) = undo(&result);
        engine.with(|core| {
            let path = core.path(index);
            core.register(&path, effect, params);
        });
        *rollback = None;
    }
    Poll::Ready(Ok(result))
}

impl Core {
    /// Nothing in an operation waits for an answer any more when it is canceled.
    pub fn forget_rollbacks_within(&mut self, index: usize) {
        self.forget_rollback(index);
        for child in self.children(index) {
            self.forget_rollbacks_within(child);
        }
    }

    fn forget_rollback(&mut self, index: usize) {
        if !self.op(index).state.is_open() {
            return;
        }
        match self.op(index).kind {
            Kind::Step => self.set_step_ending(index, Ending::AtOnce),
            Kind::Call => self.set_call_ending(index, Ending::AtOnce),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canceled_operation_stays_canceled_whatever_the_code_says_later() {
        assert_eq!(Ending::AtOnce.with(true), Ending::WithAnswer);
        assert_eq!(Ending::WithAnswer.with(false), Ending::AtOnce);
        assert_eq!(Ending::Canceled.with(false), Ending::Canceled);
        assert_eq!(Ending::TimedOut.with(true), Ending::TimedOut);
    }

    #[test]
    fn the_numbers_are_those_of_the_specification() {
        for (number, ending) in ENDINGS.iter().enumerate() {
            assert_eq!(*ending as usize, number);
            let bytes: Bytes = alloc::vec![number as u8].leak();
            assert_eq!(Ending::read(&mut Reader::new(bytes)), Ok(*ending));
        }
        assert!(Ending::read(&mut Reader::new(b"\x04")).is_err());
    }
}
