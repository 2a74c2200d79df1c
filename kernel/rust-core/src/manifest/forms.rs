//! Defaults of definitions, and the ABIs of modules (`kernel/aos/manifest/forms.py`).

pub const ABI_DEFAULT: &str = "aos/1";
pub const AGENTOS: &str = "agentos";
pub const ATTEMPTS_DEFAULT: u64 = 1;
pub const BASE_MS_DEFAULT: u64 = 1_000;
pub const CAP_MS_DEFAULT: u64 = 60_000;
pub const TIMEOUT_MS_DEFAULT: u64 = 30_000;
