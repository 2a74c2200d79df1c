//! Flows in Python (`spec/pyflow.md`): the interpreter *monty* as one WASM module without imports.

#[cfg(target_arch = "wasm32")]
mod entropy;
mod heap;
pub mod prepared;
pub mod program;
pub mod segment;
pub mod types;
pub mod values;

use aos_sdk::Fault;
use aos_sdk::flow::untyped;
use aos_sdk::step::{Input, Output, Reducer};

use program::Python;
use segment::Segment;
use values::Values;

/// A turn of the flow that the module's program has for the step's event schema.
pub struct Turn;

impl Reducer for Turn {
    fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
        #[cfg(target_arch = "wasm32")]
        trap_on_panic();
        let Some(bytes) = segment::bytes() else {
            return Err(Fault::new(
                "program",
                "the module has no program: build it with aos build",
            ));
        };
        let segment = Segment::read(bytes)?;
        let flow = segment.flow(input.schema)?;
        let facts = segment.facts(flow);
        let values = Values::new(segment.schemas.clone());
        untyped::turn(&facts, input, output, || Python::new(&segment, flow, values))
    }
}

aos_sdk::export!(step: Turn);

/// The entrypoint of the build.
#[cfg(target_arch = "wasm32")]
#[unsafe(export_name = "prepare")]
extern "C" fn prepare(pointer: u32, length: u32) -> u64 {
    trap_on_panic();
    aos_sdk::memory::call(pointer, length, prepared::prepare)
}

#[cfg(target_arch = "wasm32")]
fn trap_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        aos_sdk::panic::trap(info.location(), info.payload_as_str().unwrap_or("a panic"));
    }));
}
