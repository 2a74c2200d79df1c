#![no_std]
#![deny(warnings)]

extern crate alloc;

/// Names of the author's own hide none that the attribute uses.
pub struct Vec;
pub struct Result;
pub struct Option;
pub struct String;
pub struct Flow;
pub struct Turn;

#[derive(aos_sdk::Schema)]
#[schema("t/Placed@1")]
pub struct Placed {
    pub id: alloc::string::String,
}

/// The value leaves by another name of the type, too.
type Ended<T> = core::result::Result<T, aos_sdk::flow::FlowError>;

#[aos_sdk::flow("t/order@1", key = "t/Id@1", start(Placed by "id"), callable)]
pub async fn order(_cx: aos_sdk::flow::Cx, r#in: Placed) -> Ended<alloc::string::String> {
    Ok(r#in.id)
}
