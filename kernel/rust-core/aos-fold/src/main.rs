//! `aos-fold FILE`: check a bundle and fold its journal with the second kernel, without Python
//! (spec/bundle.md, B-53 and B-54).
//!
//! Exit codes are those of `aos`: 0 sound, 2 usage, 3 damaged, 4 the file cannot be read now, 70 a
//! defect of this program.

mod bundle;
mod folding;
mod problem;
mod report;
mod signature;
mod words;

use std::io::Write;
use std::process::ExitCode;

use crate::problem::Problem;

const USAGE: &str = "\
Usage: aos-fold [--json] FILE

Check a bundle of a world (made by aos export) and fold its journal from the first record on:
the chain of frames, the signed head, every value's hash, and the snapshots that the journal names.

Options:
  --json  Print the result as one JSON document.
  --help  Print this text.
";

const DEFECT: i32 = 70;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|defect| {
        let advice = "report it, and check the file with aos verify FILE";
        let _ = writeln!(std::io::stderr(), "aos-fold: a defect of aos-fold: {defect} ({advice})");
        std::process::exit(DEFECT);
    }));
    let mut file = None;
    let mut is_json = false;
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--help" | "-h") => return print(USAGE, 0),
            Some("--json") => is_json = true,
            Some(text) if text.starts_with('-') => {
                return fail(&Problem::Usage(format!("{text}: there is no such option\n\n{USAGE}")))
            }
            Some(text) if file.is_none() => file = Some(text.to_string()),
            Some(_) => {
                return fail(&Problem::Usage(format!("expected one FILE, found more\n\n{USAGE}")))
            }
            None => return fail(&Problem::Usage("expected the name of FILE in UTF-8".into())),
        }
    }
    let Some(file) = file else {
        return fail(&Problem::Usage(format!("expected the name of a FILE\n\n{USAGE}")));
    };
    match folding::fold_bundle(&file) {
        Ok(folded) if is_json => print(&report::json(&folded), 0),
        Ok(folded) => print(&report::text(&folded), 0),
        Err(problem @ (Problem::Damage(_) | Problem::Erased(_))) if is_json => {
            print(&report::json_of_damage(problem.text()), problem.exit_code())
        }
        Err(problem) => fail(&problem),
    }
}

/// Print to stdout. A reader that has gone away is no error.
fn print(text: &str, code: u8) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}

fn fail(problem: &Problem) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "aos-fold: {}", problem.text().trim_end());
    ExitCode::from(problem.exit_code())
}
