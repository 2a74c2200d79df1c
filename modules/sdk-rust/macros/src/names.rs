//! Names of AIR.

use proc_macro::Span;

use crate::failure::Failure;

/// `namespace/name@version` (`spec/manifest.md`, M-10).
pub fn check(name: &str, span: Span) -> Result<(), Failure> {
    if is_name(name) {
        return Ok(());
    }
    Err(Failure::at(
        span,
        format!(
            "\"{name}\" is no name of AIR: expected \"namespace/name@1\", such as \"shop/OrderPlaced@1\""
        ),
    ))
}

fn is_name(name: &str) -> bool {
    let Some((namespace, rest)) = name.split_once('/') else { return false };
    let Some((short, version)) = rest.split_once('@') else { return false };
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    name.len() <= 256
        && namespace.starts_with(|first: char| first.is_ascii_lowercase())
        && namespace.chars().all(|character| plain(character) && !character.is_ascii_uppercase())
        && short.starts_with(|first: char| first.is_ascii_alphabetic())
        && short.chars().all(plain)
        && !version.starts_with('0')
        && !version.is_empty()
        && version.bytes().all(|digit| digit.is_ascii_digit())
}

/// The name of a field or an arm (`spec/values.md`, V-22).
pub fn check_part(name: &str, span: Span) -> Result<(), Failure> {
    if name.is_empty() || name.len() > 255 || name.starts_with('$') {
        let message = format!(
            "\"{name}\" is no name of a field or an arm: expected 1 to 255 bytes that do not begin with $"
        );
        return Err(Failure::at(span, message));
    }
    Ok(())
}

pub fn namespace(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// `shop/card.charge@1` and `Params` -> `shop/CardChargeParams@1`.
pub fn derived(name: &str, suffix: &str) -> String {
    let (namespace, rest) = name.split_once('/').unwrap_or_default();
    let (short, version) = rest.split_once('@').unwrap_or_default();
    format!("{namespace}/{}{suffix}@{version}", pascal(short))
}

/// `card.charge` -> `CardCharge`.
pub fn pascal(name: &str) -> String {
    let words = name.split(['.', '_', '-']).map(|word| {
        let mut characters = word.chars();
        characters.next().map_or(String::new(), |first| {
            first.to_ascii_uppercase().to_string() + characters.as_str()
        })
    });
    words.collect()
}

/// The canonical CBOR of a text of at most 255 bytes.
pub fn encoded(text: &str) -> Vec<u8> {
    let mut bytes = match text.len() {
        length @ 0..=23 => vec![0x60 | length as u8],
        length => vec![0x78, length as u8],
    };
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
