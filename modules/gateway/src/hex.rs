//! Text of `0x` and lower-case hex <-> bytes, and the keys of the cells.

use aos_sdk::prelude::*;

use crate::keccak::keccak256;

pub type Word = [u8; 32];
pub type Address = [u8; 20];

/// `0x` and exactly two lower-case digits for each byte. None for any other text.
pub fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0u8; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

pub fn text(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[half as usize]));
        }
    }
    text
}

/// The key of a signer's lane.
pub fn lane_key(chain: u64, signer: &str) -> String {
    format!("{chain}/{signer}")
}

/// The chain and the signer of a lane's key. None for a key that no lane may have.
pub fn read_lane_key(key: &str) -> Option<(u64, String)> {
    let (chain, signer) = key.split_once('/')?;
    let number: u64 = chain.parse().ok()?;
    parse::<20>(signer)?;
    // `+1` and `01` are numbers too, but no other key may mean the same lane.
    (number > 0 && number.to_string() == chain).then(|| (number, signer.into()))
}

/// The id of a record: a UUID of version 8, of the keccak-256 of its key.
pub fn record_id(key: &str) -> Uuid {
    let hash = keccak256(key.as_bytes());
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}
