//! Why a bundle was not read, folded or accepted, with the exit codes of `aos`
//! (`kernel/aos/errors.py`).

use aos_core::values::errors::Failure;

#[derive(Debug)]
pub enum Problem {
    /// The input is not understood: no such file, no bundle.
    Usage(String),
    /// The bundle is inconsistent.
    Damage(String),
    /// The bytes of a value that is needed were erased, as a record says.
    Erased(String),
    /// The file cannot be read now.
    Unavailable(String),
}

impl Problem {
    pub fn exit_code(&self) -> u8 {
        match self {
            Problem::Usage(_) => 2,
            Problem::Damage(_) | Problem::Erased(_) => 3,
            Problem::Unavailable(_) => 4,
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Problem::Usage(text)
            | Problem::Damage(text)
            | Problem::Erased(text)
            | Problem::Unavailable(text) => text,
        }
    }
}

/// The text of a failure of a function of the core that calls no function of its host.
pub fn damage_text(failure: Failure) -> String {
    match failure {
        Failure::Damage(text) => text,
        Failure::Erased | Failure::Host | Failure::Unwritable => {
            unreachable!("no function of the host was called")
        }
    }
}
