//! Names of built-in definitions that the kernel treats in a way of their own
//! (`kernel/aos/manifest/names.py`, M-51).

pub const TIMER: &str = "sys/timer.set@1";
pub const HTTP: &str = "sys/http.request@1";
pub const BLOB_PUT: &str = "sys/blob.put@1";
pub const BLOB_GET: &str = "sys/blob.get@1";
pub const TIMER_CANCEL: &str = "sys/timer.cancel@1";
pub const EFFECT_CANCEL: &str = "sys/effect.cancel@1";
pub const INTROSPECT_MANIFEST: &str = "sys/introspect.manifest@1";
pub const INTROSPECT_STATE: &str = "sys/introspect.workflow_state@1";
pub const INTROSPECT_HEAD: &str = "sys/introspect.journal_head@1";
pub const INTROSPECT_CELLS: &str = "sys/introspect.list_cells@1";
/// The one workflow of this namespace (AG-54).
pub const WORKSPACE: &str = "sys/Workspace@1";
pub const WORKSPACE_RESOLVE: &str = "sys/workspace.resolve@1";

/// Effects that the core answers itself: no executor runs them, and none may sign for them.
pub const KERNEL_EFFECTS: [&str; 7] = [
    TIMER_CANCEL,
    EFFECT_CANCEL,
    INTROSPECT_MANIFEST,
    INTROSPECT_STATE,
    INTROSPECT_HEAD,
    INTROSPECT_CELLS,
    WORKSPACE_RESOLVE,
];

pub const CONTEXT: &str = "sys/WorkflowContext@1";
pub const ERROR: &str = "sys/EffectError@1";
pub const ENVELOPE: &str = "sys/EffectReceiptEnvelope@1";
pub const REJECTED: &str = "sys/EffectReceiptRejected@1";
pub const STREAM: &str = "sys/EffectStreamFrame@1";
pub const HTTP_PARAMS: &str = "sys/HttpRequestParams@1";

const TIMER_FIRED: &str = "sys/TimerFired@1";
const BLOB_PUT_RESULT: &str = "sys/BlobPutResult@1";
const BLOB_GET_RESULT: &str = "sys/BlobGetResult@1";

/// The older schema that carries the receipt of an effect, for a workflow without an envelope arm.
pub fn legacy_arm(effect: &str) -> Option<&'static str> {
    match effect {
        TIMER => Some(TIMER_FIRED),
        BLOB_PUT => Some(BLOB_PUT_RESULT),
        BLOB_GET => Some(BLOB_GET_RESULT),
        _ => None,
    }
}

/// Schemas of values that only the kernel makes: neither a subscription nor a sender may deliver
/// one (M-35).
pub const CONTINUATIONS: [&str; 6] =
    [ENVELOPE, REJECTED, STREAM, TIMER_FIRED, BLOB_PUT_RESULT, BLOB_GET_RESULT];

pub const ONLY_DELIVERED: &str = "is a continuation, which only the kernel delivers";

pub fn is_kernel_effect(effect: &str) -> bool {
    KERNEL_EFFECTS.contains(&effect)
}

pub fn is_continuation(schema: &str) -> bool {
    CONTINUATIONS.contains(&schema)
}
