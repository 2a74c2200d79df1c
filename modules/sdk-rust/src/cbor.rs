//! Canonical CBOR (RFC 8949 §4.2.1), straight between bytes and typed values: no tree in between.
//!
//! Writers cannot write bytes that are not canonical. Readers refuse them, as the record gate does
//! (`spec/values.md`): a single byte that is not canonical is a `Misfit`.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::number::decimal;

/// Lists and maps may nest this deep, as at the record gate (V-16).
pub const DEPTH_MAX: usize = 128;
/// So many elements are set aside at first: heads within heads must not add up.
pub(crate) const SET_ASIDE_MAX: usize = 64;

const NAT: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// The bytes are not of the type: the offset, and what the reader expected there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// Offset in the bytes.
    pub at: usize,
    /// `a nat`, or the name of a field.
    pub expected: &'static [u8],
}

/// Reading has come to an end; [`Reader::misfit`] says why. It is nothing but a sign, so that each
/// of the many places that pass it on costs next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop(());

impl Misfit {
    pub(crate) fn words(self) -> String {
        let mut words = String::from("byte ");
        decimal(self.at as u64, &mut words);
        words.push_str(": expected ");
        words.push_str(core::str::from_utf8(self.expected).unwrap_or("another field"));
        words
    }
}

impl fmt::Debug for Misfit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.words())
    }
}

pub fn write_null(out: &mut Vec<u8>) {
    out.push(NULL);
}

pub fn write_bool(truth: bool, out: &mut Vec<u8>) {
    out.push(if truth { TRUE } else { FALSE });
}

pub fn write_nat(number: u64, out: &mut Vec<u8>) {
    write_head(NAT, number, out);
}

pub fn write_int(number: i64, out: &mut Vec<u8>) {
    // -1 - n, which is all bits the other way.
    let sign = number >> 63;
    write_head(if sign == 0 { NAT } else { NEGATIVE }, (number ^ sign) as u64, out);
}

pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_head(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub fn write_text(text: &str, out: &mut Vec<u8>) {
    write_head(TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// The head of a list: its elements follow.
pub fn write_list(length: usize, out: &mut Vec<u8>) {
    write_head(LIST, length as u64, out);
}

/// The head of a map: its entries follow, ascending by the bytes of their keys.
pub fn write_map(length: usize, out: &mut Vec<u8>) {
    write_head(MAP, length as u64, out);
}

/// The tag of a variant's arm, and the key of its value where one follows.
pub fn write_arm(tag: &str, is_valued: bool, out: &mut Vec<u8>) {
    write_map(1 + is_valued as usize, out);
    write_text("$tag", out);
    write_text(tag, out);
    if is_valued {
        write_text("$value", out);
    }
}

/// The shortest head: three bits of `major`, then the argument.
#[doc(hidden)]
pub fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let high = major << 5;
    if argument < 24 {
        return out.push(high | argument as u8);
    }
    // 1, 2, 4 or 8 bytes: 24 to 27.
    let width_log = match argument {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    };
    out.push(high | (24 + width_log));
    out.extend_from_slice(&argument.to_be_bytes()[8 - (1 << width_log)..]);
}

/// Reads canonical bytes from front to back.
///
/// ```
/// use aos_sdk::cbor::Reader;
///
/// let mut reader = Reader::new(&[0x82, 0x01, 0x61, b'a']);
/// assert_eq!(reader.list().unwrap(), 2);
/// assert_eq!(reader.nat().unwrap(), 1);
/// assert_eq!(reader.text().unwrap(), "a");
/// assert!(reader.end().is_ok());
/// ```
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    misfit: Misfit,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, misfit: Misfit { at: 0, expected: b"" } }
    }

    /// Stop here: this was expected.
    pub fn stop(&mut self, expected: &'static str) -> Stop {
        self.stop_for(expected.as_bytes())
    }

    #[cold]
    fn stop_for(&mut self, expected: &'static [u8]) -> Stop {
        self.misfit = Misfit { at: self.at, expected };
        Stop(())
    }

    /// Why reading stopped.
    pub fn misfit(&self) -> Misfit {
        self.misfit
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.at
    }

    fn left(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Stop> {
        let left = self.left();
        if count > left.len() as u64 {
            return Err(self.stop("more bytes"));
        }
        self.at += count as usize;
        Ok(&left[..count as usize])
    }

    fn head(&mut self) -> Result<(u8, u64), Stop> {
        let first = self.take(1)?[0];
        let (major, small) = (first >> 5, first & 31);
        if small < 24 {
            return Ok((major, small as u64));
        }
        if small > 27 {
            return Err(self.stop("a definite length"));
        }
        let width = 1u64 << (small - 24);
        let argument = self.take(width)?.iter().fold(0, |number, byte| number << 8 | *byte as u64);
        // A number that fits half the width (or the first byte) has a shorter head.
        let least = if width == 1 { 24 } else { 1u64 << (width * 4) };
        if argument < least {
            return Err(self.stop("the shortest head"));
        }
        Ok((major, argument))
    }

    /// The argument of a head of this major type. On a misfit nothing is read.
    fn expect(&mut self, major: u8, expected: &'static str) -> Result<u64, Stop> {
        let start = self.at;
        match self.head() {
            Ok((found, argument)) if found == major => Ok(argument),
            Ok(_) => {
                self.at = start;
                Err(self.stop(expected))
            }
            Err(stop) => Err(stop),
        }
    }

    pub fn null(&mut self) -> Result<(), Stop> {
        if self.is_null() {
            return Ok(());
        }
        Err(self.stop("null"))
    }

    /// Whether null comes next; it is read then, and nothing otherwise.
    pub fn is_null(&mut self) -> bool {
        let found = self.left().first() == Some(&NULL);
        self.at += found as usize;
        found
    }

    pub fn bool(&mut self) -> Result<bool, Stop> {
        let truth = match self.left().first() {
            Some(&TRUE) => true,
            Some(&FALSE) => false,
            _ => return Err(self.stop("a bool")),
        };
        self.at += 1;
        Ok(truth)
    }

    pub fn nat(&mut self) -> Result<u64, Stop> {
        self.expect(NAT, "a nat")
    }

    pub fn int(&mut self) -> Result<i64, Stop> {
        match self.head()? {
            (NAT, number) if number <= i64::MAX as u64 => Ok(number as i64),
            (NEGATIVE, number) if number <= i64::MAX as u64 => Ok(!(number as i64)),
            _ => Err(self.stop("an int before here")),
        }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.expect(BYTES, "bytes")?;
        self.take(length)
    }

    pub fn text(&mut self) -> Result<&'a str, Stop> {
        let length = self.expect(TEXT, "text")?;
        let bytes = self.take(length)?;
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => Err(self.stop("UTF-8 before here")),
        }
    }

    /// The number of elements that follow: never more than bytes that are left.
    pub fn list(&mut self) -> Result<usize, Stop> {
        let length = self.expect(LIST, "a list")?;
        self.room(length)
    }

    /// The number of entries that follow, each a key and a value.
    pub fn map(&mut self) -> Result<usize, Stop> {
        let length = self.expect(MAP, "a map")?;
        self.room(length)
    }

    /// Each item has at least a byte, so more than these are not there.
    fn room(&mut self, length: u64) -> Result<usize, Stop> {
        if length > self.left().len() as u64 {
            return Err(self.stop("more bytes"));
        }
        Ok(length as usize)
    }

    /// The head of a record of so many fields.
    pub fn record(&mut self, fields: usize) -> Result<(), Stop> {
        if self.map()? != fields {
            return Err(self.stop("all fields and no others"));
        }
        Ok(())
    }

    /// The name of a record's next field, given as its CBOR.
    pub fn field(&mut self, encoded: &'static [u8]) -> Result<(), Stop> {
        if !self.left().starts_with(encoded) {
            let head = if encoded[0] < 0x78 { 1 } else { 2 };
            return Err(self.stop_for(&encoded[head..]));
        }
        self.at += encoded.len();
        Ok(())
    }

    /// The tag of a variant, and whether a value follows.
    pub fn arm(&mut self) -> Result<(&'a str, bool), Stop> {
        let entries = self.map()?;
        if entries != 1 && entries != 2 {
            return Err(self.stop("$tag and $value"));
        }
        self.field(b"\x64$tag")?;
        let tag = self.text()?;
        if entries == 2 {
            self.field(b"\x66$value")?;
        }
        Ok((tag, entries == 2))
    }

    /// One item of any shape, as the bytes that it is. Its inside is checked, not built.
    pub fn item(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at;
        self.skip(0)?;
        Ok(&self.bytes[start..self.at])
    }

    fn skip(&mut self, depth: usize) -> Result<(), Stop> {
        match self.left().first() {
            Some(&(NULL | TRUE | FALSE)) => {
                self.at += 1;
                return Ok(());
            }
            Some(first) if first >> 5 > MAP => {
                return Err(self.stop("no tag, float or other simple value"));
            }
            _ => {}
        }
        let start = self.at;
        let (major, argument) = self.head()?;
        match major {
            NAT | NEGATIVE => Ok(()),
            BYTES => self.take(argument).map(|_| ()),
            TEXT => {
                self.at = start;
                self.text().map(|_| ())
            }
            _ if depth == DEPTH_MAX => Err(self.stop("less depth")),
            LIST => (0..self.room(argument)?).try_for_each(|_| self.skip(depth + 1)),
            _ => self.skip_map(argument, depth),
        }
    }

    fn skip_map(&mut self, length: u64, depth: usize) -> Result<(), Stop> {
        let mut previous: &[u8] = &[];
        for _ in 0..self.room(length)? {
            let start = self.at;
            if self.left().first().is_some_and(|first| !matches!(first >> 5, NAT | NEGATIVE | TEXT))
            {
                return Err(self.stop("a key that is text or integer"));
            }
            self.skip(depth + 1)?;
            let key = &self.bytes[start..self.at];
            if key <= previous {
                return Err(self.stop("ascending keys before here"));
            }
            previous = key;
            self.skip(depth + 1)?;
        }
        Ok(())
    }

    /// Nothing may be left.
    pub fn end(&mut self) -> Result<(), Stop> {
        match self.left().is_empty() {
            true => Ok(()),
            false => Err(self.stop("the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn item(bytes: &[u8]) -> Result<(), Misfit> {
        let mut reader = Reader::new(bytes);
        let read = reader.item().and_then(|_| reader.end());
        read.map_err(|_| reader.misfit())
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn heads_are_the_shortest() {
        let cases: [(u64, &[u8]); 8] = [
            (23, &[23]),
            (24, &[24, 24]),
            (0xff, &[24, 255]),
            (0x100, &[25, 1, 0]),
            (0xffff, &[25, 255, 255]),
            (0x1_0000, &[26, 0, 1, 0, 0]),
            (0x1_0000_0000, &[27, 0, 0, 0, 1, 0, 0, 0, 0]),
            (u64::MAX, &[27, 255, 255, 255, 255, 255, 255, 255, 255]),
        ];
        for (number, bytes) in cases {
            assert_eq!(written(|out| write_nat(number, out)), bytes);
            assert_eq!(Reader::new(bytes).nat(), Ok(number));
        }
        assert_eq!(written(|out| write_int(-1, out)), [0x20]);
        assert_eq!(written(|out| write_int(-25, out)), [0x38, 24]);
        for number in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(Reader::new(&written(|out| write_int(number, out))).int(), Ok(number));
        }
    }

    #[test]
    fn what_is_not_canonical_is_refused() {
        let cases: [(&[u8], &str); 18] = [
            (&[], "more bytes"),
            (&[0x18, 23], "the shortest head"),
            (&[0x19, 0, 255], "the shortest head"),
            (&[0x1a, 0, 0, 255, 255], "the shortest head"),
            (&[0x1b, 0, 0, 0, 0, 255, 255, 255, 255], "the shortest head"),
            (&[0x5f, 0xff], "a definite length"),
            (&[0x1c], "a definite length"),
            (&[0xc0, 0x60], "no tag, float or other simple value"),
            (&[0xf9, 0, 0], "no tag, float or other simple value"),
            (&[0xf7], "no tag, float or other simple value"),
            (&[0x61, 0xff], "UTF-8 before here"),
            (&[0x63, 0xed, 0xa0, 0x80], "UTF-8 before here"),
            (&[0xa1, 0x41, 0x61, 0], "a key that is text or integer"),
            (&[0xa2, 1, 0, 1, 0], "ascending keys before here"),
            (&[0xa2, 2, 0, 1, 0], "ascending keys before here"),
            (&[0x9b, 255, 255, 255, 255, 255, 255, 255, 255], "more bytes"),
            (&[0x5b, 255, 255, 255, 255, 255, 255, 255, 255], "more bytes"),
            (&[0, 0], "the end"),
        ];
        for (bytes, expected) in cases {
            let misfit = item(bytes).unwrap_err();
            assert_eq!(core::str::from_utf8(misfit.expected), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn the_deepest_item_is_read_and_one_deeper_is_not() {
        let nested = |depth: usize| [vec![0x81; depth], vec![NULL]].concat();
        assert!(item(&nested(DEPTH_MAX)).is_ok());
        assert!(item(&nested(DEPTH_MAX + 1)).is_err());
        assert!(item(&nested(100_000)).is_err());
    }

    #[test]
    fn every_prefix_of_an_item_is_refused() {
        let bytes = [0xa2, 0x61, b'a', 0x82, 0x18, 24, 0xf6, 0x61, b'b', 0x42, 1, 2];
        assert!(item(&bytes).is_ok());
        for length in 0..bytes.len() {
            assert!(item(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn a_misfit_says_where_and_what() {
        let mut reader = Reader::new(&[0xa1, 0x61, b'b', 0]);
        assert!(reader.record(2).is_err());
        assert_eq!(reader.misfit().words(), "byte 1: expected all fields and no others");
        let mut reader = Reader::new(&[0x61, b'b']);
        assert!(reader.field(b"\x65cents").is_err());
        assert_eq!(reader.misfit().words(), "byte 0: expected cents");
    }
}
