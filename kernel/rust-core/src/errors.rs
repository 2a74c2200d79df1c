//! The texts of errors (`kernel/aos/errors.py`).

/// The parts of an error, which `text` joins into one line:
/// `location: problem: expected X, found Y (hint)`.
#[derive(Clone, Copy, Default)]
pub struct Sentence<'a> {
    pub problem: &'a str,
    pub location: Option<&'a str>,
    pub expected: Option<&'a str>,
    pub actual: Option<&'a str>,
    pub hint: Option<&'a str>,
}

impl Sentence<'_> {
    pub fn text(&self) -> String {
        let mut text = match self.location {
            Some(location) => format!("{location}: {}", self.problem),
            None => self.problem.to_string(),
        };
        match (self.expected, self.actual) {
            (Some(expected), Some(actual)) => {
                text.push_str(&format!(": expected {expected}, found {actual}"));
            }
            (Some(expected), None) => text.push_str(&format!(": expected {expected}")),
            (None, Some(actual)) => text.push_str(&format!(": found {actual}")),
            (None, None) => {}
        }
        if let Some(hint) = self.hint {
            text.push_str(&format!(" ({hint})"));
        }
        text
    }
}

/// The words of a choice: `a`, `a or b`, `a, b or c`.
pub fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => only.to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
