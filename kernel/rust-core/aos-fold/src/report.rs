//! The result for people and for programs.

use aos_core::values::digests::hash_text;
use aos_core::values::errors::json_text;

use crate::folding::Report;
use crate::words::{count, thousands};

pub fn text(report: &Report) -> String {
    let mut lines = vec![
        format!("fold: sound to record {}", thousands(report.seq)),
        format!(
            "  {} and {} in one chain; the world's key signed its end",
            count(report.frames, "frame"),
            count(report.records, "record")
        ),
        format!("  {}, each with its hash", count(report.values, "value")),
    ];
    if report.erased > 0 {
        let erased = count(report.erased, "value");
        lines.push(format!("  {erased} erased, each by a record of an operator"));
    }
    let snapshots = count(report.snapshots, "snapshot");
    lines.push(format!("  {snapshots} taken again and equal to those that the journal names"));
    if let Some(at) = report.loaded {
        let at = thousands(at);
        lines.push(format!("  the snapshot after record {at} was loaded and gives the same world"));
    }
    lines.push(format!("  root {}", hash_text(&report.log_root)));
    lines.push(format!("  state {}", hash_text(&report.root)));
    lines.push(format!("  {:.1} s", report.seconds));
    lines.push(
        "  signatures of receipts and commands were not checked, nor values by their schemas: see \
         aos verify FILE"
            .to_string(),
    );
    lines.push(String::new());
    lines.join("\n")
}

pub fn json(report: &Report) -> String {
    let hash = |hash| json_text(&hash_text(hash));
    let fields = [
        ("sound", "true".to_string()),
        ("world", hash(&report.world)),
        ("seq", report.seq.to_string()),
        ("frame", hash(&report.frame)),
        ("log_root", hash(&report.log_root)),
        ("root", hash(&report.root)),
        ("frames", report.frames.to_string()),
        ("records", report.records.to_string()),
        ("values", report.values.to_string()),
        ("erased", report.erased.to_string()),
        ("snapshots", report.snapshots.to_string()),
        ("loaded", report.loaded.map_or("null".to_string(), |at| at.to_string())),
        ("seconds", format!("{:.6}", report.seconds)),
    ];
    object(&fields)
}

pub fn json_of_damage(problem: &str) -> String {
    object(&[("sound", "false".to_string()), ("problem", json_text(problem))])
}

fn object(fields: &[(&str, String)]) -> String {
    let rows: Vec<String> =
        fields.iter().map(|(name, value)| format!("  \"{name}\": {value}")).collect();
    format!("{{\n{}\n}}\n", rows.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_as_json_is_quoted() {
        assert_eq!(
            json_of_damage("a \"b\"\n"),
            "{\n  \"sound\": false,\n  \"problem\": \"a \\\"b\\\"\\n\"\n}\n"
        );
    }
}
