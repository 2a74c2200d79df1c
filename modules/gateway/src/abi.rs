//! The ABI of Solidity: calls, and values of one word.

use aos_sdk::prelude::*;

use crate::hex::{Address, Word};
use crate::keccak::keccak256;

/// An argument of a call.
pub enum Argument<'a> {
    Word(Word),
    Address(Address),
    Number(u64),
    Text(&'a str),
    /// `uint16[]` and its like: each number is one word.
    Numbers(&'a [u64]),
}

/// The data of a call: the selector of `signature`, such as `closeEpoch(uint64)`, and its arguments.
pub fn call(signature: &str, arguments: &[Argument]) -> Vec<u8> {
    let mut data = selector(signature).to_vec();
    data.extend(encode(arguments));
    data
}

/// The first four bytes of a signature's hash: of a function or of a custom error.
pub fn selector(signature: &str) -> [u8; 4] {
    let hash = keccak256(signature.as_bytes());
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The bytes of Solidity's `abi.encode` for these arguments.
pub fn encode(arguments: &[Argument]) -> Vec<u8> {
    let mut head = Vec::new();
    let mut tail = Vec::new();
    for argument in arguments {
        let offset = 32 * arguments.len() + tail.len();
        match argument {
            Argument::Word(word) => head.extend(word),
            Argument::Address(address) => head.extend(address_word(address)),
            Argument::Number(value) => head.extend(number(*value)),
            Argument::Text(text) => {
                head.extend(number(offset as u64));
                tail.extend(number(text.len() as u64));
                tail.extend(text.as_bytes());
                tail.resize(tail.len().next_multiple_of(32), 0);
            }
            Argument::Numbers(numbers) => {
                head.extend(number(offset as u64));
                tail.extend(number(numbers.len() as u64));
                numbers.iter().for_each(|each| tail.extend(number(*each)));
            }
        }
    }
    head.extend(tail);
    head
}

pub fn number(value: u64) -> Word {
    let mut word = [0u8; 32];
    word[24..].copy_from_slice(&value.to_be_bytes());
    word
}

pub fn address_word(address: &Address) -> Word {
    let mut word = [0u8; 32];
    word[12..].copy_from_slice(address);
    word
}

/// The word at this index. None if the data is shorter.
pub fn word_at(data: &[u8], index: usize) -> Option<Word> {
    data.get(32 * index..32 * index + 32)?.try_into().ok()
}

/// The number in a word. None if it needs more than 64 bits.
pub fn read_number(word: &Word) -> Option<u64> {
    let (high, low) = word.split_at(24);
    high.iter().all(|byte| *byte == 0).then_some(())?;
    Some(u64::from_be_bytes(low.try_into().ok()?))
}
