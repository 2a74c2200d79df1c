//! `set`: each element once, in the order of its canonical bytes.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::air::Type;
use crate::cbor::{self, Reader, SET_ASIDE_MAX, Stop};
use crate::schema::Schema;

/// Different values of one type, in canonical order whatever order they came in: by that of their
/// bytes, so shorter text comes before longer, and 1 before -1.
///
/// ```
/// use aos_sdk::Set;
///
/// let mut tags = Set::new();
/// assert!(tags.insert(String::from("new")));
/// assert!(tags.insert(String::from("b")));
/// assert!(!tags.insert(String::from("new")));
/// assert_eq!(tags.iter().collect::<Vec<_>>(), ["b", "new"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<T> {
    items: Vec<T>,
}

impl<T> Default for Set<T> {
    fn default() -> Set<T> {
        Set { items: Vec::new() }
    }
}

impl<T: Schema> Set<T> {
    pub fn new() -> Set<T> {
        Set::default()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The index of `item`, or the index where it would be inserted.
    fn place(&self, item: &T) -> Result<usize, usize> {
        self.items.binary_search_by(|other| other.order(item))
    }

    pub fn contains(&self, item: &T) -> bool {
        self.place(item).is_ok()
    }

    /// False, and nothing changes, when it is there already.
    pub fn insert(&mut self, item: T) -> bool {
        match self.place(&item) {
            Ok(_) => false,
            Err(place) => {
                self.items.insert(place, item);
                true
            }
        }
    }

    /// Whether it was there.
    pub fn remove(&mut self, item: &T) -> bool {
        self.place(item).map(|place| self.items.remove(place)).is_ok()
    }

    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.items.iter()
    }
}

impl<T: Schema> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Set<T> {
        let mut set = Set::new();
        items.into_iter().for_each(|item| {
            set.insert(item);
        });
        set
    }
}

impl<'a, T> IntoIterator for &'a Set<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = alloc::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<T: Schema> Schema for Set<T> {
    const TYPE: Type = Type::Set(&T::TYPE);

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_list(self.items.len(), out);
        self.items.iter().for_each(|item| item.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Set<T>, Stop> {
        let length = from.list()?;
        let mut items: Vec<T> = Vec::with_capacity(length.min(SET_ASIDE_MAX));
        for _ in 0..length {
            let item = T::read(from)?;
            if items.last().is_some_and(|last| last.order(&item) != Ordering::Less) {
                return Err(from.stop("ascending elements before here"));
            }
            items.push(item);
        }
        Ok(Set { items })
    }
}
