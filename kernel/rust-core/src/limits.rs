//! How much the core lists, holds in memory and writes at a time (`kernel/aos/core/limits.py`).

/// The bounds of the core that no manifest sets. Every world runs with `LIMITS`; tests pass smaller
/// ones. `deliveries`, `chunk`, `page_bytes` and `page_items` determine bytes that are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Mailboxes that one event, or all events of one step, may reach.
    pub deliveries: u64,
    /// Reasons that the refusal of a manifest lists.
    pub blockers: u64,
    /// Bytes of states that the deltas keep in memory.
    pub delta_bytes: u64,
    /// The most that one frame spills.
    pub spill_bytes: u64,
    /// Cells of a migration that go into the index of their workflow together.
    pub slice_cells: u64,
    /// Bytes of a migration's blobs that are in memory before the host makes them durable.
    pub kept_bytes: u64,
    /// Sequences of one chunk of the dedup window.
    pub chunk: u64,
    /// Chunks of the dedup window that stay in memory once they were read.
    pub chunks_held: u64,
    /// A page of a snapshot's open work ends with the item that reaches this size.
    pub page_bytes: u64,
    /// A page of a snapshot's open work has at most so many items.
    pub page_items: u64,
    /// The format of the snapshots that are taken where no journal names another, and of the layers
    /// of a world without a snapshot. With 2, cells that only wait may leave memory (SN-14).
    pub snapshot_format: u64,
}

pub const LIMITS: Limits = Limits {
    deliveries: 16_384,
    blockers: 1000,
    delta_bytes: 64 * 1024 * 1024,
    spill_bytes: 512 * 1024,
    slice_cells: 4096,
    kept_bytes: 4 * 1024 * 1024,
    chunk: 4096,
    chunks_held: 8,
    page_bytes: 64 * 1024,
    page_items: 1024,
    snapshot_format: 2,
};

impl Default for Limits {
    fn default() -> Self {
        LIMITS
    }
}
