//! Numbers as decimal text and back, without the library's formatter, which is larger than a whole
//! counter.

use alloc::string::String;

/// Append the digits of `number`.
pub fn decimal(number: u64, text: &mut String) {
    if number >= 10 {
        decimal(number / 10, text);
    }
    text.push((b'0' + (number % 10) as u8) as char);
}

pub(crate) const HEX: &[u8; 16] = b"0123456789abcdef";

/// The value of a hex digit of either case.
pub(crate) fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
