//! `dec128`: decimal numbers of at most 34 digits, never rounded.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::air::Type;
use crate::cbor::{self, Reader, Stop};
use crate::schema::Schema;

/// At most this many significant digits, digits before the point, and digits after it.
const DIGITS_MAX: i64 = 34;

/// A decimal number: exactly what was written, at most 34 digits before the point and after it.
///
/// Sums, differences and products are exact, or `None` when the exact number does not fit. There is
/// no division: how to round is the author's to say.
///
/// ```
/// use aos_sdk::Decimal;
///
/// let price = Decimal::parse("19.90").unwrap();
/// assert_eq!(price.text(), "19.9");
/// let total = price.checked_mul(Decimal::from(3u64)).unwrap();
/// assert_eq!(total, Decimal::parse("59.7").unwrap());
/// assert!(total > price);
/// assert_eq!(Decimal::parse("1e34"), None);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Never of zero.
    negative: bool,
    /// Below 10³⁴; its last digit is not 0 unless `scale` is 0.
    coefficient: u128,
    /// Digits after the point.
    scale: u8,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { negative: false, coefficient: 0, scale: 0 };

    /// Of `[+-] digits [. digits] [e [+-] 1 to 3 digits]`. None for any other form, and for a
    /// number of more than 34 digits.
    pub fn parse(text: &str) -> Option<Decimal> {
        let mut digits = Digits { left: text.as_bytes() };
        let negative = digits.sign();
        let mut number = Unscaled::default();
        let whole = digits.run(|digit| number.push(digit))?;
        let mut fraction = 0;
        if digits.skip(b'.') {
            fraction = digits.run(|digit| number.push(digit))?;
        }
        let exponent = if whole > 0 { digits.exponent()? } else { return None };
        (digits.left.is_empty() && !number.overflows).then(|| {
            Decimal::new(negative, number.coefficient, exponent - fraction + number.zeros)
        })?
    }

    /// `coefficient` × 10^`exponent`, if that fits.
    fn new(negative: bool, mut coefficient: u128, mut exponent: i64) -> Option<Decimal> {
        if coefficient == 0 {
            return Some(Decimal::ZERO);
        }
        while coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        let length = count_digits(coefficient);
        if length > DIGITS_MAX || length + exponent > DIGITS_MAX || exponent < -DIGITS_MAX {
            return None;
        }
        while exponent > 0 {
            coefficient *= 10;
            exponent -= 1;
        }
        Some(Decimal { negative, coefficient, scale: -exponent as u8 })
    }

    /// The normal form: no exponent, no zeros that say nothing.
    pub fn text(&self) -> String {
        let mut digits = [b'0'; DIGITS_MAX as usize + 1];
        let mut at = digits.len();
        let mut left = self.coefficient;
        let least = self.scale as usize + 1;
        while left > 0 || digits.len() - at < least {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        let point = digits.len() - self.scale as usize;
        let mut text = String::with_capacity(digits.len() + 2);
        if self.negative {
            text.push('-');
        }
        for (index, digit) in digits.iter().enumerate().skip(at) {
            if index == point {
                text.push('.');
            }
            text.push(*digit as char);
        }
        text
    }

    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        // A number that does not fit 128 bits here has more than 34 digits: its last one is not 0.
        let (one, two) = (self.widened(scale)?, other.widened(scale)?);
        let exponent = -(scale as i64);
        if self.negative == other.negative {
            return Decimal::new(self.negative, one.checked_add(two)?, exponent);
        }
        match one.cmp(&two) {
            Ordering::Less => Decimal::new(other.negative, two - one, exponent),
            _ => Decimal::new(self.negative, one - two, exponent),
        }
    }

    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        self.checked_add(other.negated())
    }

    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let (mut one, mut two) = (self.coefficient, other.coefficient);
        let mut exponent = -(self.scale as i64) - other.scale as i64;
        if one == 0 || two == 0 {
            return Some(Decimal::ZERO);
        }
        // First divide each ten of the product out of its factors: a rest that does not fit 128 bits
        // has more than 34 digits.
        while one % 10 == 0 {
            one /= 10;
            exponent += 1;
        }
        while two % 10 == 0 {
            two /= 10;
            exponent += 1;
        }
        while one % 5 == 0 && two % 2 == 0 {
            (one, two) = (one / 5, two / 2);
            exponent += 1;
        }
        while one % 2 == 0 && two % 5 == 0 {
            (one, two) = (one / 2, two / 5);
            exponent += 1;
        }
        Decimal::new(self.negative != other.negative, one.checked_mul(two)?, exponent)
    }

    pub fn negated(self) -> Decimal {
        Decimal { negative: !self.negative && self.coefficient > 0, ..self }
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    fn widened(&self, scale: u8) -> Option<u128> {
        let mut coefficient = self.coefficient;
        for _ in self.scale..scale {
            coefficient = coefficient.checked_mul(10)?;
        }
        Some(coefficient)
    }

    /// Compare without sign.
    fn magnitude(&self, other: &Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        match (self.widened(scale), other.widened(scale)) {
            (Some(one), Some(two)) => one.cmp(&two),
            // Only the one of fewer decimals is widened; past 128 bits it is the greater one.
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
        }
    }
}

fn count_digits(mut number: u128) -> i64 {
    let mut count = 0;
    while number > 0 {
        number /= 10;
        count += 1;
    }
    count
}

/// Digits as they come: trailing zeros are counted apart, since they may say nothing.
#[derive(Default)]
struct Unscaled {
    coefficient: u128,
    zeros: i64,
    overflows: bool,
}

impl Unscaled {
    fn push(&mut self, digit: u8) {
        if digit == 0 {
            self.zeros += (self.coefficient > 0) as i64;
            return;
        }
        for _ in 0..=self.zeros.min(DIGITS_MAX) {
            self.coefficient = self.coefficient.saturating_mul(10);
        }
        self.coefficient = self.coefficient.saturating_add(digit as u128);
        self.overflows |= count_digits(self.coefficient) > DIGITS_MAX;
        self.zeros = 0;
    }
}

struct Digits<'a> {
    left: &'a [u8],
}

impl Digits<'_> {
    fn skip(&mut self, byte: u8) -> bool {
        let found = self.left.first() == Some(&byte);
        self.left = &self.left[found as usize..];
        found
    }

    /// Whether it is minus.
    fn sign(&mut self) -> bool {
        self.skip(b'-') || {
            self.skip(b'+');
            false
        }
    }

    /// At least one digit; how many there were.
    fn run(&mut self, mut each: impl FnMut(u8)) -> Option<i64> {
        let mut count = 0;
        while let Some(digit @ b'0'..=b'9') = self.left.first() {
            each(digit - b'0');
            self.left = &self.left[1..];
            count += 1;
        }
        (count > 0).then_some(count)
    }

    fn exponent(&mut self) -> Option<i64> {
        if !self.skip(b'e') && !self.skip(b'E') {
            return Some(0);
        }
        let negative = self.sign();
        let mut exponent = 0;
        let count = self.run(|digit| exponent = (exponent * 10 + digit as i64).min(1_000))?;
        (count <= 3).then_some(if negative { -exponent } else { exponent })
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal { negative: false, coefficient: number as u128, scale: 0 }
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Decimal {
        Decimal { negative: number < 0, ..Decimal::from(number.unsigned_abs()) }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl Schema for Decimal {
    const TYPE: Type = Type::Dec128;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_text(&self.text(), out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Decimal, Stop> {
        let text = from.text()?;
        match Decimal::parse(text) {
            Some(decimal) if decimal.text() == text => Ok(decimal),
            _ => Err(from.stop("a dec128 in normal form before here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_of_equal_value_have_one_form() {
        let cases = [
            ("0", "0"),
            ("-0.00e5", "0"),
            ("0e-999", "0"),
            ("+001.500e1", "15"),
            ("1.5E-3", "0.0015"),
            ("1e33", "1000000000000000000000000000000000"),
            ("1e-34", "0.0000000000000000000000000000000001"),
            ("9999999999999999999999999999999999", "9999999999999999999999999999999999"),
            ("-12.5", "-12.5"),
            ("0000000000000000000000000000000000000000000000012", "12"),
            ("1.000000000000000000000000000000000000000000000", "1"),
        ];
        for (text, normal) in cases {
            assert_eq!(decimal(text).text(), normal);
        }
    }

    #[test]
    fn another_form_and_too_many_digits_are_refused() {
        let cases = [
            "",
            "-",
            ".5",
            "5.",
            "1e",
            "1e+",
            "1e1234",
            " 1",
            "1 ",
            "0x1",
            "1_0",
            "--1",
            "1e34",
            "1e-35",
            "10000000000000000000000000000000001e1",
            "99999999999999999999999999999999999",
            "1.0000000000000000000000000000000001",
            "100000000000000000000000000000000000000000000000000001",
        ];
        for text in cases {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sums_and_products_are_exact_or_nothing() {
        let add =
            |one: &str, two: &str| decimal(one).checked_add(decimal(two)).map(|sum| sum.text());
        let mul = |one: &str, two: &str| {
            decimal(one).checked_mul(decimal(two)).map(|product| product.text())
        };
        assert_eq!(add("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(add("1.5", "-1.5").as_deref(), Some("0"));
        assert_eq!(add("-3", "1.25").as_deref(), Some("-1.75"));
        assert_eq!(add("1e33", "1e-34"), None);
        assert_eq!(add("9999999999999999999999999999999999", "1"), None);
        assert_eq!(mul("-2.5", "4").as_deref(), Some("-10"));
        assert_eq!(mul("0", "-4").as_deref(), Some("0"));
        assert_eq!(mul("1e33", "10"), None);
        // 2¹¹² and 5⁴⁸ with 34 decimals each: the product is 2⁶⁴ with 20.
        let two = "0.5192296858534827628530496329220096";
        let five = "0.3552713678800500929355621337890625";
        assert_eq!(mul(two, five).as_deref(), Some("0.18446744073709551616"));
        assert_eq!(
            decimal("1").checked_sub(decimal("0.999")).map(|left| left.text()).as_deref(),
            Some("0.001")
        );
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let ascending = ["-1e33", "-1.5", "-1e-34", "0", "1e-34", "0.9", "1", "1.01", "1e33"];
        for (at, one) in ascending.iter().enumerate() {
            for (place, other) in ascending.iter().enumerate() {
                assert_eq!(decimal(one).cmp(&decimal(other)), at.cmp(&place), "{one} {other}");
            }
        }
        assert!(Decimal::from(u64::MAX) > Decimal::from(i64::MIN));
    }
}
