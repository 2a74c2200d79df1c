//! The type that a flow's function returns.

use super::FlowError;
use crate::schema::Schema;

/// Return types of a flow's function: `Result<Output, FlowError>`.
///
/// [`#[flow]`](macro@crate::flow) finds the output's type with it.
#[diagnostic::on_unimplemented(
    message = "a flow returns `Result<Output, FlowError>`, not `{Self}`",
    label = "returns something else"
)]
pub trait Returned {
    /// The result of a flow that completes.
    type Output: Schema;
}

impl<T: Schema> Returned for Result<T, FlowError> {
    type Output = T;
}
