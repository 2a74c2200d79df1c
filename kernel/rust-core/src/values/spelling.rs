//! The text forms of dec128, uuid and hash (`kernel/aos/values/spelling.py`, V-32 to V-38).
//!
//! A `normal_…` function takes any accepted spelling and gives the one normal form; None means that
//! the text is not a spelling of that type.

pub const DECIMAL_DIGITS_MAX: i64 = 34;

/// `[-]digits[.digits]` without leading zeros, trailing zeros, exponent or `-0`.
///
/// None too where the normal form has more than 34 significant digits, or more than 34 on one side
/// of the point.
pub fn normal_decimal(text: &str) -> Option<String> {
    let spelled = Decimal::read(text)?;
    // The value is 0.<digits> times ten to the power of `point`.
    let digits = [spelled.integer, spelled.fraction].concat();
    let bare = digits.trim_start_matches('0');
    let leading = digits.len() - bare.len();
    let point = spelled.integer.len() as i64 + spelled.exponent - leading as i64;
    let bare = bare.trim_end_matches('0');
    if bare.is_empty() {
        return Some("0".to_string());
    }
    let count = bare.len() as i64;
    // With at most 34 digits on each side, at most 34 of all are significant.
    if count > DECIMAL_DIGITS_MAX
        || point > DECIMAL_DIGITS_MAX
        || count - point > DECIMAL_DIGITS_MAX
    {
        return None;
    }
    let sign = if spelled.is_negative { "-" } else { "" };
    Some(if point <= 0 {
        format!("{sign}0.{}{bare}", "0".repeat(-point as usize))
    } else if count <= point {
        format!("{sign}{bare}{}", "0".repeat((point - count) as usize))
    } else {
        let (integer, fraction) = bare.split_at(point as usize);
        format!("{sign}{integer}.{fraction}")
    })
}

/// The parts of `[+-]digits[.digits][e[+-]1 to 3 digits]`.
struct Decimal<'a> {
    is_negative: bool,
    integer: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (is_negative, unsigned) = sign(text);
        let (integer, mut rest) = digits(unsigned);
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = digits(after);
            if fraction.is_empty() {
                return None;
            }
        }
        let mut exponent = 0;
        if let Some(after) = rest.strip_prefix(['e', 'E']) {
            let (is_below, unsigned) = sign(after);
            let (exponent_digits, end) = digits(unsigned);
            if !(1..=3).contains(&exponent_digits.len()) {
                return None;
            }
            exponent = exponent_digits.parse().ok()?;
            if is_below {
                exponent = -exponent;
            }
            rest = end;
        }
        (!integer.is_empty() && rest.is_empty()).then_some(Decimal {
            is_negative,
            integer,
            fraction,
            exponent,
        })
    }
}

/// (whether it begins with a minus, the text after a sign).
fn sign(text: &str) -> (bool, &str) {
    (text.starts_with('-'), text.strip_prefix(['+', '-']).unwrap_or(text))
}

/// (the ASCII digits at the beginning, the text after them).
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Lower case, with its four hyphens.
pub fn normal_uuid(text: &str) -> Option<String> {
    is_uuid(text).then(|| text.to_ascii_lowercase())
}

/// Whether text is a UUID in lower or upper case.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether text is a UUID in its normal form.
pub fn is_normal_uuid(text: &str) -> bool {
    is_uuid(text) && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Whether text is `algorithm:hex` of a known algorithm, in lower case and with its length. A hash
/// has no other spelling.
pub fn is_hash(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "blake3" | "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

pub fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
