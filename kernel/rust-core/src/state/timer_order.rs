//! The timers above the base, by the time at which they are due
//! (`kernel/aos/core/state/timer_order.py`; spec/state.md, SN-16).
//!
//! The base has its own timers in this order, in a map. These are the timers of cells that are in the
//! layers above it. The time of a timer is in its params, which may be a blob, so the timer gets its
//! key when someone asks for the order.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::collections::SeededMap;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// Timers by their key in the map `timers` (SN-15). It may have some that are not above the base any
/// more.
#[derive(Default)]
pub struct TimerOrder {
    /// The key of each timer, None until it is needed.
    keys: SeededMap<Hash, Option<Hash>>,
    /// The timers that have a key.
    timers: BTreeMap<Hash, Hash>,
}

impl TimerOrder {
    pub fn add(&mut self, timer: Hash) {
        self.keys.entry(timer).or_default();
    }

    /// Remove an intent, which may be another one than a timer.
    pub fn remove(&mut self, intent: &Hash) {
        if let Some(Some(key)) = self.keys.remove(intent) {
            self.timers.remove(&key);
        }
    }

    /// Remove the timers that are not above the base any more.
    pub fn keep(&mut self, is_above: impl Fn(&Hash) -> bool) {
        self.keys.retain(|timer, _| is_above(timer));
        self.timers.retain(|_, timer| is_above(timer));
    }

    /// Give each timer above the base its key. Fails as `key_of`, and then gives no key.
    pub fn place(
        &mut self,
        is_above: impl Fn(&Hash) -> bool,
        key_of: impl Fn(&Hash) -> Outcome<Hash>,
    ) -> Outcome<()> {
        let unplaced = self.keys.iter().filter(|(_, key)| key.is_none()).map(|(timer, _)| *timer);
        let unplaced: Vec<Hash> = unplaced.collect();
        let mut placed = Vec::new();
        for timer in unplaced.iter().filter(|timer| is_above(timer)) {
            placed.push((key_of(timer)?, *timer));
        }
        unplaced.iter().for_each(|timer| {
            self.keys.remove(timer);
        });
        for (key, timer) in placed {
            self.keys.insert(timer, Some(key));
            self.timers.insert(key, timer);
        }
        Ok(())
    }

    /// The first timers with a key that is greater than `after`, each after its key.
    pub fn after<'a>(
        &'a self,
        after: Option<&Hash>,
        is_above: impl Fn(&Hash) -> bool + 'a,
    ) -> impl Iterator<Item = (Hash, Hash)> + 'a {
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(*after));
        let rows = self.timers.range((start, Bound::Unbounded));
        rows.map(|(key, timer)| (*key, *timer)).filter(move |(_, timer)| is_above(timer))
    }
}
