//! The name that was meant, for a refusal (spec/core.md, CR-26;
//! `kernel/aos/core/decide/suggestion.py`).

/// Characters that a name may lack, have too many or have wrong.
const EDITS_MAX: usize = 3;

/// A longer name is no misspelt one.
const NAME_CHARACTERS: usize = 200;

/// The one of `names` with the fewest edits, the first of several; None if all need more than
/// `EDITS_MAX`, or no fewer than the name has characters.
///
/// `name` is code points: it may have lone surrogates.
pub fn nearest<'a>(name: &[u32], names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_CHARACTERS {
        return None;
    }
    let mut edits_max = EDITS_MAX.min(name.len().checked_sub(1)?);
    let mut best = None;
    for candidate in names {
        let other = points(candidate);
        if let Some(edits) = edits_between(name, &other, edits_max) {
            best = Some(candidate);
            // Only fewer edits are better.
            match edits.checked_sub(1) {
                Some(fewer) => edits_max = fewer,
                None => break,
            }
        }
    }
    best
}

fn points(name: &str) -> Vec<u32> {
    name.chars().map(u32::from).collect()
}

/// The characters to insert, delete or replace between two names; None if more than that.
fn edits_between(name: &[u32], other: &[u32], edits_max: usize) -> Option<usize> {
    if name.len().abs_diff(other.len()) > edits_max {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, character) in name.iter().enumerate() {
        let above = std::mem::replace(&mut row, vec![at + 1]);
        for (i, other_character) in other.iter().enumerate() {
            let replaced = above[i] + usize::from(character != other_character);
            row.push(replaced.min(above[i + 1] + 1).min(row[i] + 1));
        }
        if row.iter().all(|edits| *edits > edits_max) {
            return None;
        }
    }
    row.last().copied().filter(|edits| *edits <= edits_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_needs_the_fewest_edits() {
        let names = ["shop/OrderPaid@1", "shop/OrderPlaced@1", "shop/Refunded@1"];
        let near = |name| nearest(&points(name), names.iter().copied());
        assert_eq!(near("shop/OrderPlaced"), Some("shop/OrderPlaced@1"));
        assert_eq!(near("shop/OrderPaids@1"), Some("shop/OrderPaid@1"));
        assert_eq!(near("shop/Refunded@1"), Some("shop/Refunded@1"));
        assert_eq!(near("weather"), None);
        assert_eq!(nearest(&[], [""].into_iter()), None);
        assert_eq!(nearest(&points("ab"), ["a", "xb"].into_iter()), Some("a"));
    }
}
