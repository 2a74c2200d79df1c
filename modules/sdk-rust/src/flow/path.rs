//! Names and paths of operations.

use alloc::string::String;

use crate::number::{HEX, hex_digit};

pub(super) const NAME_MAX: usize = 128;
pub(super) const PATH_MAX: usize = 200;

/// Append a name as a part of a path: `%`, `/` and a leading `~` are escaped. The name of an
/// iteration, which begins with `~`, is not.
pub(super) fn escape(name: &str, is_iteration: bool, path: &mut String) {
    for (at, character) in name.char_indices() {
        let is_plain = match character {
            '%' | '/' => false,
            '~' => at > 0 || is_iteration,
            _ => true,
        };
        if is_plain {
            path.push(character);
            continue;
        }
        path.push('%');
        path.push(HEX[character as usize >> 4].to_ascii_uppercase() as char);
        path.push(HEX[character as usize & 15].to_ascii_uppercase() as char);
    }
}

/// Whether a part of a path is this name.
pub(super) fn is_part(part: &[u8], name: &str, is_iteration: bool) -> bool {
    if part.starts_with(b"~") != is_iteration {
        return false;
    }
    let mut escaped = part.iter().copied();
    for byte in name.bytes() {
        let found = match escaped.next() {
            Some(b'%') => match (digit(&mut escaped), digit(&mut escaped)) {
                (Some(high), Some(low)) => Some(high << 4 | low),
                _ => None,
            },
            plain => plain,
        };
        if found != Some(byte) {
            return false;
        }
    }
    escaped.next().is_none()
}

fn digit(from: &mut impl Iterator<Item = u8>) -> Option<u8> {
    from.next().and_then(hex_digit)
}

/// Decimal digits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number = number.checked_mul(10)?.checked_add(digit as u64)?;
    }
    (!digits.is_empty()).then_some(number)
}

/// The name of iteration `number`.
pub(super) fn iteration(number: u64) -> String {
    let mut name = String::from("~");
    crate::number::decimal(number, &mut name);
    name
}

/// An issuer reference `flow:PATH#ATTEMPT` with `:ROLE` behind it for a timer.
pub(super) fn reference(path: &str, attempt: u64, role: &str) -> String {
    let mut text = String::from("flow:");
    text.push_str(path);
    text.push('#');
    crate::number::decimal(attempt, &mut text);
    if !role.is_empty() {
        text.push(':');
        text.push_str(role);
    }
    text
}

/// Path, attempt and role of an issuer reference; None for any other.
pub(super) fn read_reference(text: &str) -> Option<(&str, u64, &str)> {
    let bytes = text.as_bytes();
    // A path may contain `#` and `:`. An attempt and a role contain no `#`.
    let hash = bytes.iter().rposition(|byte| *byte == b'#')?;
    let behind = bytes.get(hash + 1..)?;
    let colon = behind.iter().position(|byte| *byte == b':');
    let attempt = number(behind.get(..colon.unwrap_or(behind.len()))?)?;
    let role = match colon {
        Some(colon) => text.get(hash + colon + 2..)?,
        None => "",
    };
    bytes.starts_with(b"flow:").then_some((text.get(5..hash)?, attempt, role))
}

/// Whether a text can be the name of a schema, as far as a flow can tell: `namespace/Name@1`.
pub(super) fn is_schema_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let slash = bytes.iter().position(|byte| *byte == b'/');
    let at = bytes.iter().rposition(|byte| *byte == b'@');
    let (Some(slash), Some(at)) = (slash, at) else { return false };
    slash > 0
        && slash + 1 < at
        && bytes.iter().all(u8::is_ascii_graphic)
        && bytes.get(at + 1..).and_then(number).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, is_iteration: bool) -> String {
        let mut path = String::new();
        escape(name, is_iteration, &mut path);
        path
    }

    #[test]
    fn a_name_is_escaped_where_a_path_could_not_be_read() {
        assert_eq!(part("a/b%c", false), "a%2Fb%25c");
        assert_eq!(part("~1", false), "%7E1");
        assert_eq!(part("a~1", false), "a~1");
        assert_eq!(part("~1", true), "~1");
    }

    #[test]
    fn a_part_is_the_name_that_it_was_made_of_and_no_other() {
        for name in ["a", "a/b", "%", "~1", "é", "~undo", "a:b#2"] {
            assert!(is_part(part(name, false).as_bytes(), name, false), "{name}");
            assert!(!is_part(part(name, false).as_bytes(), "other", false));
        }
        assert!(is_part(b"~1", "~1", true));
        assert!(!is_part(b"~1", "~1", false));
        assert!(!is_part(b"%7E1", "~1", true));
        assert!(!is_part(b"a%2", "a/", false));
    }

    #[test]
    fn a_schema_name_has_a_namespace_and_a_version() {
        assert!(is_schema_name("shop/OrderReturn@1"));
        for other in
            ["", "nothing", "/Name@1", "shop/@1", "shop/Name", "shop/Name@", "shop/Na me@1"]
        {
            assert!(!is_schema_name(other), "{other}");
        }
    }

    #[test]
    fn a_reference_is_read_as_it_was_written() {
        for (path, attempt, role) in
            [("a/~3/b", 2, ""), ("a#1:x", 1, "sleep"), ("x/~undo", 12, "retry")]
        {
            assert_eq!(
                read_reference(&reference(path, attempt, role)),
                Some((path, attempt, role))
            );
        }
        for other in
            ["", "flow:", "flow:a", "flow:a#", "flow:a#x", "aos:3:1", "flow:a#99999999999999999999"]
        {
            assert_eq!(read_reference(other), None, "{other}");
        }
    }
}
