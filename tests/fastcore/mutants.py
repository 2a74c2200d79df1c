"""Defects on purpose, in decisions of the second kernel, for one build with a switch.

    crate = altered_crate(CRATE, folder)   a copy of the crate with all defects, none switched on
    switched(core, number)                 switches one of them on

The sources that are shipped have no switch: ``altered_crate`` writes it into the copy.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.fastcore.fold_core import FoldCore

SWITCH: Final = 120
"""The operation of an altered core that switches a defect on."""


@dataclass(frozen=True)
class Mutant:
    """A defect: the expression between ``[[`` and ``]]`` in the text of a file becomes another.

    ``test`` is the test of ``tests/core/test_kernel_protocol.py`` that finds it; without a name,
    lockstep with other worlds does.
    """

    file: str
    text: str
    altered: str
    test: str = ""

    def written_into(self, source: str, number: int) -> str:
        """The source with both expressions, and the question which of them holds."""
        start, _, rest = self.text.partition("[[")
        expression, _, end = rest.partition("]]")
        whole = f"{start}{expression}{end}"
        assert source.count(whole) == 1, f"{self.file}: {whole!r} is there {source.count(whole)} x"
        choice = (
            f"(if crate::mutants::is_on({number}) {{ {self.altered} }} else {{ {expression} }})"
        )
        return source.replace(whole, f"{start}{choice}{end}")


STEP, FOLD, OWED = "decide/step.rs", "state/fold.rs", "decide/owed.rs"
SETTLE, ADMIT, ROUTING = "decide/settle.rs", "decide/admit.rs", "decide/routing.rs"
IDENTITY, CONTROL = "journal/identity.rs", "decide/control.rs"
DECIDING, OPERATIONS, KERNEL = "deciding.rs", "operations.rs", "kernel.rs"
REDECIDING = "redeciding.rs"
SIGNING, INTENTS = "journal/signing.rs", "state/open_intents.rs"
PLACEMENT, PROBLEMS = "manifest/placement.rs", "decide/manifest_problems.rs"

ADMITS = "test_an_input_is_admitted_with_the_answer_that_its_record_gives"
REACHES_TWO = "test_an_event_to_two_cells_is_answered_with_both_in_the_order_of_its_record"
ENDS_STEP = "test_a_step_is_ended_and_entered_by_one_call"
FAILS_STEP = "test_the_record_of_a_failed_step_is_returned"
TOGETHER = "test_inputs_are_admitted_by_one_call_until_the_frame_is_full"
FAILS_LATER = "test_an_input_that_fails_leaves_those_before_it_in_the_frame"
NEXT_STEP = "test_a_step_that_ended_is_followed_by_the_head_of_the_ring"
WRONG_AGAIN = "test_a_wrong_signature_is_refused_each_time"
HAS_BLOBS = "test_the_blobs_of_the_frame_that_is_being_filled_are_counted_until_it_is_sealed"
OWED_FIRST = "test_an_owed_receipt_comes_before_a_step_and_needs_no_runner"
AGAIN = "test_recorded_records_are_decided_again_and_lead_to_the_same_frame"
DIFFERENT = "test_a_record_that_comes_out_different_is_left_and_has_changed_nothing"
OF_MACHINE = "test_a_fault_of_the_machine_is_left_and_does_not_run"
TIMERS = "test_open_timers_are_listed_by_their_time"
SHARD = "test_a_shard_takes_and_reads_only_what_is_its_own"
HOST_FAILS = "test_an_exception_of_a_function_of_the_host_has_changed_nothing"

ONE_CALL: Final = (
    # The answer, which is written before the record is entered.
    Mutant(DECIDING, "ADMITTED);\n    put_u64(out, [[record.seq()]]);", "record.seq() + 1", ADMITS),
    Mutant(DECIDING, "Record::Event(event) => [[&event.to]],", "&[]", ADMITS),
    Mutant(
        DECIDING,
        "put_list(out, [[to]], put_cell_id);\n    let outcome",
        "&*to.iter().rev().cloned().collect::<Vec<_>>().leak()",
        REACHES_TWO,
    ),
    Mutant(DECIDING, "Record::Receipt(receipt) => [[Some(receipt.outcome)]],", "None", ADMITS),
    Mutant(DECIDING, "Control(control) => ([[control.dropped.unwrap_or(0)]],", "0", ADMITS),
    Mutant(DECIDING, "[[control.abandoned.len()]]),\n        _ => (0, 0)", "0", ADMITS),
    Mutant(
        DECIDING,
        "let failed = [[matches!(record, Record::Faulted(_))]].then(",
        "false",
        FAILS_STEP,
    ),
    Mutant(
        DECIDING,
        "put_list(out, [[failed]], |out, data| put_data(out, &data));",
        "Some(to_bytes(record))",
        ENDS_STEP,
    ),
    # The status after it: one of before the record, or of another record.
    Mutant(OPERATIONS, "[[self.kernel().enter()?]];", "()", ENDS_STEP),
    Mutant(
        OPERATIONS,
        "[[put_status(out, kernel)]];\n                put_next",
        "{ let at = out.len(); put_status(out, kernel); out[at] += 1; }",
        ENDS_STEP,
    ),
    Mutant(
        OPERATIONS,
        "[[put_status(out, self.kernel())]];\n        Ok(())",
        "{ let at = out.len(); put_status(out, self.kernel()); out[at] += 1; }",
        ADMITS,
    ),
    # Several inputs of one call, and the step that is begun when one ends.
    Mutant(OPERATIONS, "if [[bytes as u64 >= bytes_max]] ||", "false", TOGETHER),
    Mutant(OPERATIONS, "self.is_changing = [[false]];\n        Ok(())", "true", FAILS_LATER),
    Mutant(OPERATIONS, "match kernel.next([[true]]) {", "false", NEXT_STEP),
    Mutant(SIGNING, "if [[is_valid]] {\n            let mut valid", "true", WRONG_AGAIN),
    Mutant(OPERATIONS, "self.is_changing = [[false]];\n        answer", "true", HOST_FAILS),
    # The order in which records are decided and entered.
    Mutant(
        KERNEL,
        "if [[!self.state.owed.is_empty()]] {\n            let decided",
        "false",
        OWED_FIRST,
    ),
    Mutant(
        KERNEL,
        "let decided = [[self.decided.take()]].expect",
        "self.decided.take().map(|it| Decided::of(it.record))",
        HAS_BLOBS,
    ),
)
"""Defects of inputs or a step that are decided and entered by one call of the core (CR-2): in the
answers to their senders, in the status, in the order, and in the step that comes next."""

DECIDED_AGAIN: Final = (
    Mutant(
        REDECIDING, "Ok(Decision::Decided) if [[is_decided(kernel, data)]] =>", "true", DIFFERENT
    ),
    Mutant(REDECIDING, "[[state.ring.front() != Some(cell)]] {", "false", DIFFERENT),
    Mutant(REDECIDING, "Ok([[first == Some(entry)]])", "true", DIFFERENT),
    Mutant(REDECIDING, "if [[!is_environmental(faulted.fault.kind)]]", "true", OF_MACHINE),
    Mutant(
        REDECIDING,
        "Record::Faulted(faulted) => {\n                self.steps += [[1]];",
        "0",
        AGAIN,
    ),
    Mutant(REDECIDING, "self.emitted += [[step.events.len() as u64]];", "1", AGAIN),
    Mutant(REDECIDING, "self.intents += [[step.intents.len() as u64]];", "0", AGAIN),
    Mutant(
        REDECIDING, "attempt: InputNat::Nat([[receipt.attempt]]),", "receipt.attempt + 1", AGAIN
    ),
)
"""Defects of records that are decided again by one call (CR-5a)."""

IN_GROUP: Final = (
    Mutant(PLACEMENT, "[[number << 8 | u64::from(*byte)]]);", "number + u64::from(*byte)", SHARD),
    Mutant(PLACEMENT, "text.split_once([[BEFORE_BAR]])", "'/'", SHARD),
    Mutant(PLACEMENT, "match [[is_keyed && workflow != SCHEDULE]] {", "is_keyed", SHARD),
    Mutant(ROUTING, "index.filter(|index| [[*index != shard.index]])", "*index > 1", SHARD),
    Mutant(OWED, "if [[key_problem(workflow, &id.key).is_none()]] {", "false", SHARD),
    Mutant(PROBLEMS, "if [[effective.shard != in_force.shard]] {", "false", SHARD),
    Mutant(PROBLEMS, "if [[old.placement != workflow.placement]] {", "false", SHARD),
)
"""Defects of a world that is a shard of a group (K-40a, K-85a)."""

MUTANTS: Final = (
    *ONE_CALL,
    *DECIDED_AGAIN,
    *IN_GROUP,
    Mutant(STEP, "pages: [[ran.pages]],", "ran.pages + 1"),
    Mutant(STEP, "fuel: [[ran.fuel]],", "ran.fuel + 1"),
    Mutant(STEP, "output: [[content_hash(data)]],", "content_hash(&data[1..])"),
    Mutant(STEP, "root: [[self.run.mail.root.seq]],", "self.run.mail.root.seq + 1"),
    Mutant(STEP, "depth: [[self.run.mail.depth]],", "self.run.mail.depth + 1"),
    Mutant(
        STEP,
        "entry: [[self.run.mail.entry]],",
        "(self.run.mail.entry.0, self.run.mail.entry.1 + 1)",
    ),
    Mutant(STEP, "status(&cell, &output, [[!intents.is_empty()]])", "intents.is_empty()"),
    Mutant(STEP, "pages: [[ran.map_or(0, |ran| ran.pages)]]", "1000"),
    Mutant(STEP, "fuel: [[workflow.limits.fuel]],", "workflow.limits.fuel + 1"),
    Mutant(STEP, "memory_bytes: [[workflow.limits.memory_bytes]],", "1 << 16"),
    Mutant(FOLD, "if [[stamp.ns > state.clock_ns]] {", "stamp.ns < state.clock_ns"),
    Mutant(FOLD, "depth: [[0]],\n        content: Content::Event { schema: record.schema", "1"),
    Mutant(FOLD, "depth: [[cause.depth + 1]],", "cause.depth"),
    Mutant(FOLD, "cell.last_seq = [[seq]];\n        cell.last_active_ns", "seq - 1"),
    Mutant(FOLD, "CellStatus::Completed => [[Some(TerminalStatus::Completed)]],", "None"),
    Mutant(FOLD, "CellStatus::Failed => [[Some(TerminalStatus::Failed)]],", "None"),
    Mutant(FOLD, "state.serial += [[1]];", "2"),
    Mutant(FOLD, "cell.module_hash = [[workflow.module.hash]];", "workflow.hash"),
    Mutant(
        FOLD,
        "cell.runs = false;\n        if [[!cell.mailbox.is_empty()]] {",
        "false",
    ),
    Mutant(FOLD, "entry: [[(record.seq, 0)]],", "(record.seq, 1)"),
    Mutant(FOLD, "at_ns: [[state.window_ns]] }", "state.window_ns + 1"),
    Mutant(ROUTING, "let mailbox_max = [[state.effective().limits.mailbox as i64]];", "0"),
    Mutant(ROUTING, "if [[cell.is_none() && !route.creates && count == 0]] {", "cell.is_none()"),
    Mutant(OWED, "root: [[self.owed.root.seq]],", "self.owed.root.seq + 1"),
    Mutant(OWED, "depth: [[self.owed.depth]],", "self.owed.depth + 1"),
    Mutant(OWED, '[[format!("{} canceled it", intent.cell.workflow)]]', '"canceled".to_string()'),
    Mutant(OWED, "Ok(None) if [[self.owed.canceled > 0]] =>", "self.owed.canceled > 1"),
    Mutant(SETTLE, "let least = [[state.attempt(intent).max(1)]];", "state.attempt(intent).max(2)"),
    Mutant(SETTLE, "if [[started_ns <= finished_ns]] &&", "started_ns < finished_ns"),
    Mutant(SETTLE, "if [[!is_signed]] {", "is_signed"),
    Mutant(SETTLE, "outcome: [[settled.outcome]],", "ReceiptOutcome::Rejected"),
    Mutant(SETTLE, ".filter(|last| [[frame_seq <= *last]])", "frame_seq < *last"),
    Mutant(SETTLE, "finished_ns: [[shape.finished_ns]],\n        cost", "shape.finished_ns + 1"),
    Mutant(ADMIT, "serial: [[state.serial]],\n        signature", "state.serial + 1"),
    Mutant(ADMIT, "to: [[placed.to]],", "Vec::new()"),
    Mutant(
        ADMIT, "seq: [[state.next_seq]],\n        stamp,\n        schema:", "state.next_seq + 1"
    ),
    Mutant(IDENTITY, "put_nat(out, [[parts.index]]);", "parts.index + 1"),
    Mutant(IDENTITY, "put_bytes(out, [[parts.params_hash]]);", "parts.effect_hash"),
    Mutant(IDENTITY, 'digest([["aos/submission/1"]], 2', '"aos/submission/2"'),
    Mutant("snapshot/take.rs", "Value::Int([[shelf.count]]),", "shelf.count + 1"),
    Mutant("journal/merkle.rs", "self.size += [[1]];", "2"),
    Mutant(
        "journal/statements.rs", "put_text(&mut out, [[statement.status]]);", "statement.effect"
    ),
    Mutant(CONTROL, "serial: [[state.controls]],", "state.controls + 1"),
    Mutant(CONTROL, "restamp: [[control.restamp]],\n        dropped", "!control.restamp"),
    Mutant("state/cells.rs", "self.shelf(&id.workflow).count += [[1]];", "2"),
    Mutant(
        INTENTS,
        "(Some((key, _)), Some((base_key, _))) => [[base_key < key]],",
        "base_key > key",
        TIMERS,
    ),
    Mutant(INTENTS, "if [[!self.hides_base(&id)]] {\n                return Ok", "true", TIMERS),
    Mutant(INTENTS, "if [[is_timer(&intent)]] {\n                order.add", "false", TIMERS),
    Mutant(
        INTENTS,
        "let is_listed = |intent: &OpenIntent| [[but != Some(&*intent.effect.name)]];",
        "true",
        TIMERS,
    ),
    Mutant(INTENTS, 'count.expect("an open intent is counted") -= [[1]];', "0", TIMERS),
    Mutant(
        "state/timer_order.rs",
        "Bound::Unbounded, |after| [[Bound::Excluded(*after)]])",
        "Bound::Included(*after)",
        TIMERS,
    ),
    Mutant("values/digests.rs", '[[format!("blake3:{}", hex(hash))]]', "hex(hash)"),
)

_MODULE: Final = """//! Which defect is on.
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub fn switch(number: u32) {
    NUMBER.store(number, Ordering::Relaxed);
}

#[inline(never)]
pub fn is_on(number: u32) -> bool {
    NUMBER.load(Ordering::Relaxed) == number
}
"""
_CALL: Final = (
    "        let mut answer = Vec::with_capacity(64);\n        put_u32(&mut answer, OK);\n"
)
_SWITCHING: Final = f"""        if operation == {SWITCH} {{
            crate::mutants::switch(u32::from_le_bytes(request.try_into().expect("four bytes")));
            return answer;
        }}
"""


def altered_crate(crate: Path, into: Path) -> None:
    """Copy the crate into a folder, with all defects; the first has number 1."""
    shutil.copytree(crate, into, ignore=shutil.ignore_patterns("target"))
    source = into / "src"
    for number, mutant in enumerate(MUTANTS, 1):
        file = source / mutant.file
        file.write_text(mutant.written_into(file.read_text("utf-8"), number), "utf-8")
    (source / "mutants.rs").write_text(_MODULE, "utf-8")
    library = source / "lib.rs"
    library.write_text(
        f"#![allow(unused_parens)]\npub mod mutants;\n{_below_docs(library)}", "utf-8"
    )
    operations = source / "operations.rs"
    text = operations.read_text("utf-8")
    assert text.count(_CALL) == 1
    operations.write_text(text.replace(_CALL, _CALL + _SWITCHING), "utf-8")


def _below_docs(library: Path) -> str:
    lines = library.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("//!"))


def switched(core: FoldCore, number: int) -> None:
    """Switch a defect on. The caller owns the core, which is an altered one."""
    core._core.call("switch", SWITCH, struct.pack("<I", number))
