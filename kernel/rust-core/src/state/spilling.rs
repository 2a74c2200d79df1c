//! Which packed cells leave memory with a frame, and which blobs must stay for them (SN-11a;
//! `kernel/aos/core/state/spilling.py`).
//!
//! `Cells` moves the cells. This object counts their bytes, chooses the ones to spill, and pins
//! their blobs.

use crate::collections::{OrderedMap, SeededMap};
use crate::journal::records::CellId;
use crate::limits::Limits;
use crate::values::digests::Hash;

/// Spilled blobs that the world still needs although no snapshot names them yet: the last record
/// that changed a cell with the blob, by content hash.
#[derive(Default)]
pub struct Pins {
    at: SeededMap<Hash, u64>,
    /// Blobs that were pinned since `take_new`.
    new: Vec<Hash>,
}

impl Pins {
    pub fn contains(&self, hash: &Hash) -> bool {
        self.at.contains_key(hash)
    }

    /// All pinned blobs, in no order.
    pub fn hashes(&self) -> impl Iterator<Item = &Hash> {
        self.at.keys()
    }

    /// Pin a blob of a cell that record `changed` changed last.
    pub fn add(&mut self, hash: Hash, changed: u64) {
        // Another cell may have the same state and need it until a later snapshot.
        let last = self.at.entry(hash).or_insert_with(|| {
            self.new.push(hash);
            0
        });
        *last = changed.max(*last);
    }

    /// The blobs that were pinned since the last call.
    pub fn take_new(&mut self) -> Vec<Hash> {
        std::mem::take(&mut self.new)
    }

    /// Drop the blobs of cells that no record after `last` changed: a snapshot names those.
    pub fn drop_to(&mut self, last: u64) {
        self.at.retain(|_, seq| *seq > last);
    }
}

/// The packed cells of all workflows whose states and keys are in memory, the oldest first.
pub struct Spilling {
    /// Whether the host commits the blobs that `Cells::spill` returns. False during a restart and
    /// in replay: nothing is spilled then, and the deltas grow without a bound.
    pub is_on: bool,
    /// Spilled blobs that only the cells need.
    pub pins: Pins,
    /// Bytes of states and keys in the deltas of all workflows; entries do not count.
    bytes: u64,
    /// Above this, spilling begins; it ends when half of this is left.
    bytes_max: u64,
    /// Bytes that one frame may spill, unless it packed more than that.
    frame_bytes_max: u64,
    /// Bytes that were packed since the last `take`.
    packed_bytes: u64,
    /// Bytes of each cell, the oldest first.
    sizes: OrderedMap<CellId, u64>,
    /// Whether the deltas exceeded their bound and are not yet down to half of it.
    has_begun: bool,
}

impl Spilling {
    pub fn new(limits: &Limits) -> Self {
        Spilling {
            is_on: false,
            pins: Pins::default(),
            bytes: 0,
            bytes_max: limits.delta_bytes,
            frame_bytes_max: limits.spill_bytes,
            packed_bytes: 0,
            sizes: OrderedMap::default(),
            has_begun: false,
        }
    }

    /// Bytes of states and keys in the deltas of all workflows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Count a cell that was packed, with `size` bytes of state and keys; 0 is not counted.
    pub fn add(&mut self, id: &CellId, size: u64) {
        if size > 0 {
            self.sizes.insert(id.clone(), size);
            self.bytes += size;
            if self.is_on {
                self.packed_bytes += size; // in a restart, no frame waits for the blobs
            }
        }
    }

    /// Count a cell no more: it has left its delta, or is only an entry there.
    pub fn drop(&mut self, id: &CellId) {
        self.bytes -= self.sizes.remove(id).unwrap_or(0);
    }

    /// Drop and return the cells that this frame spills, the oldest first. Once per frame.
    pub fn take(&mut self) -> Vec<CellId> {
        let packed_bytes = std::mem::take(&mut self.packed_bytes);
        let mut spilled = Vec::new();
        if !self.is_on {
            return spilled;
        }
        if self.bytes > self.bytes_max {
            self.has_begun = true;
        }
        let mut spilled_bytes = 0;
        while self.has_begun {
            if self.bytes <= self.bytes_max / 2 {
                self.has_begun = false;
                break;
            }
            let (id, size) = self.sizes.first().expect("bytes are of some cell");
            // A cell that is larger than the bound is spilled as the only one of its frame.
            if spilled_bytes > 0
                && spilled_bytes >= packed_bytes
                && spilled_bytes + size > self.frame_bytes_max
            {
                break;
            }
            spilled_bytes += size;
            let id = id.clone();
            self.drop(&id);
            spilled.push(id);
        }
        spilled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LIMITS;

    fn id(n: u8) -> CellId {
        CellId::new("w", &[n][..])
    }

    #[test]
    fn the_oldest_cells_spill_until_half_of_the_bound_is_left() {
        let limits = Limits { delta_bytes: 100, spill_bytes: 30, ..LIMITS };
        let mut spilling = Spilling::new(&limits);
        spilling.is_on = true;
        for n in 0..11 {
            spilling.add(&id(n), 10);
        }
        // This frame packed 110 bytes, and may spill as many.
        assert_eq!(spilling.take(), (0..6).map(id).collect::<Vec<_>>());
        assert_eq!(spilling.bytes(), 50);
        assert_eq!(spilling.take(), []);
        for n in 11..17 {
            spilling.add(&id(n), 10);
        }
        spilling.drop(&id(7));
        assert_eq!(spilling.take(), []);
        spilling.is_on = false;
        spilling.add(&id(17), 100);
        assert_eq!(spilling.take(), []);
        spilling.is_on = true;
        // It packed nothing, so the bound of a frame holds.
        assert_eq!(spilling.take(), [6, 8, 9].map(id));
        assert_eq!(spilling.take(), [10, 11, 12].map(id));
    }

    #[test]
    fn a_pin_lasts_until_the_snapshot_has_the_last_change() {
        let mut pins = Pins::default();
        pins.add([1; 32], 5);
        pins.add([1; 32], 3);
        pins.add([2; 32], 4);
        assert_eq!(pins.take_new(), [[1; 32], [2; 32]]);
        pins.drop_to(4);
        assert_eq!(pins.take_new(), [[0; 32]; 0]);
        assert!(pins.contains(&[1; 32]) && !pins.contains(&[2; 32]));
    }
}
