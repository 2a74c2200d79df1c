//! Decide proposals, shadow reports, votes and withdrawals (spec/governance.md, GV-20 to GV-35;
//! `kernel/aos/core/decide/governed.py`).
//!
//! Nothing here changes the state, and the first broken rule is the answer.

use std::rc::Rc;

use crate::decide::answers::{refusal, Decided, NewBlobs, Refusal, Rule, Stop};
use crate::decide::approved::{found_proposal, mode_of, open_proposal};
use crate::decide::envelope::words;
use crate::decide::manifest_problems::change_problem;
use crate::decide::settle::described;
use crate::journal::governing::{GovernanceInput, ProposedChange, NOTE_BYTES_MAX};
use crate::journal::input_fields::{option, InputHash, InputNat, InputText};
use crate::journal::ports::{Blobs, Judge, Verify};
use crate::journal::records::{Governance, Record, Ref, Stamp};
use crate::journal::shadow_report::{read_report_head, ReportHead};
use crate::journal::vocabulary::{ApplyMode, GovernanceAction, Vote, Word};
use crate::manifest::governance::GovernanceBlock;
use crate::state::proposals::{Proposal, PROPOSALS_MAX, REPORTS_MAX};
use crate::state::state::State;
use crate::values::digests::{content_hash, hash_text, Hash, HASH_BYTES};
use crate::values::errors::{quoted, Failure, Outcome};

const STRICT: &str = "strict";

/// The fields of each action: those that it needs, and those that it may have.
fn fields_of(action: GovernanceAction) -> (&'static [&'static str], &'static [&'static str]) {
    match action {
        GovernanceAction::Propose => {
            (&["serial", "base", "document", "patch"], &["mode", "leaves", "note"])
        }
        GovernanceAction::Report => (&["proposal", "report"], &["note"]),
        GovernanceAction::Approve | GovernanceAction::Reject => (&["proposal"], &["seen", "note"]),
        GovernanceAction::Withdraw => (&["proposal"], &["note"]),
    }
}

/// Admit a proposal, a shadow report, a vote or a withdrawal. Damage if a blob of an open proposal is
/// missing or altered; nothing has changed then.
pub fn admit_governance(
    state: &State,
    input: &GovernanceInput,
    stamp: Stamp,
    blobs: &dyn Blobs,
    verify: &dyn Verify,
    judge: &dyn Judge,
) -> Result<Decided, Stop> {
    let manifest = state.manifest.as_ref();
    let Some(block) = manifest.and_then(|manifest| manifest.governance.as_ref()) else {
        return Err(refusal(
            Rule::WorldIsNotGoverned,
            "the manifest in force names no approvers: an operator applies the next one (aos \
             apply PATH)",
        )
        .into());
    };
    let keys = keys_of(state, block, input)?;
    if input.action.is(GovernanceAction::Propose.word()) {
        return propose(state, input, stamp, &keys, verify, judge);
    }
    let proposal = open_proposal(state, input.proposal.as_ref())?;
    check_signature(state, input, &change_of(proposal), &keys, verify)?;
    let action = check_fields(input)?;
    match action {
        GovernanceAction::Report => check_report(state, input, proposal)?,
        GovernanceAction::Approve => check_vote(state, input, proposal, Vote::Approve, blobs)?,
        GovernanceAction::Reject => check_vote(state, input, proposal, Vote::Reject, blobs)?,
        GovernanceAction::Withdraw | GovernanceAction::Propose => {}
    }
    Ok(decided(state, input, stamp, action)?)
}

/// The change that every vote on a proposal signs.
pub fn change_of(proposal: &Proposal) -> ProposedChange {
    ProposedChange {
        base: InputHash::Hash(proposal.base),
        document: proposal.document.hash,
        patch: proposal.patch.hash,
        mode: proposal.mode.map(|mode| InputText::Unicode(mode.word().into())),
        leaves: proposal.leaves.iter().cloned().map(InputText::Unicode).collect(),
    }
}

fn decided(
    state: &State,
    input: &GovernanceInput,
    stamp: Stamp,
    action: GovernanceAction,
) -> Outcome<Decided> {
    let mut blobs = NewBlobs::default();
    let mut ref_of = |data: &Option<Rc<[u8]>>| {
        data.as_ref().map(|data| {
            let hash = content_hash(data);
            blobs.add(hash, data.clone());
            Ref { hash, size: data.len() as u64 }
        })
    };
    let (document, patch) = (ref_of(&input.document), ref_of(&input.patch));
    let report = ref_of(&input.report);
    let record = Governance {
        seq: state.next_seq,
        stamp,
        action,
        principal: input.principal.written()?.clone(),
        signature: input.signature.clone(),
        proposal: input.proposal.as_ref().and_then(InputNat::nat),
        serial: input.serial.as_ref().and_then(InputNat::nat),
        base: option(&input.base, InputHash::written)?,
        document,
        patch,
        mode: ApplyMode::of(input.mode.written()?).filter(|mode| *mode != ApplyMode::Strict),
        leaves: input.left_names()?,
        report,
        seen: option(&input.seen, InputHash::written)?,
        note: option(&input.note, |note| note.written().cloned())?,
    };
    Ok(Decided { record: Record::Governance(record), blobs })
}

// Authority

/// The keys of which one must have signed. An operator and an approver may have one name.
fn keys_of(
    state: &State,
    block: &GovernanceBlock,
    input: &GovernanceInput,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let approvers: Vec<&str> = block.approvers.iter().map(|one| &*one.name).collect();
    let named = block.approvers.iter().filter(|one| input.principal.is(&one.name));
    let mut keys: Vec<Vec<u8>> = named.map(|one| one.public_key.to_vec()).collect();
    let is_vote = input.action.text().is_some_and(|action| Vote::of(action).is_some());
    let mut expected = if is_vote {
        format!("an approver in force, {}", approvers.join(" or "))
    } else {
        let named = state.operators.iter().filter(|one| input.principal.is(&one.name));
        keys.extend(named.map(|one| one.key.to_vec()));
        let mut names: Vec<&str> = Vec::new();
        for name in state.operators.iter().map(|one| &*one.name).chain(approvers) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("an operator or approver, {}", names.join(" or "))
    };
    if input.action.is(GovernanceAction::Withdraw.word()) {
        if let Some(proposal) = found_proposal(state, input.proposal.as_ref()) {
            if !input.principal.is(&proposal.principal) {
                keys.clear();
            }
            expected = format!("{}, who proposed it", quoted(&proposal.principal));
        }
    }
    if !keys.is_empty() {
        return Ok(keys);
    }
    Err(refusal(
        Rule::GovernancePrincipalIsUnknown,
        format!(
            "{} may not {}: expected {expected}",
            input.principal.quoted(),
            input.action.quoted()
        ),
    ))
}

fn check_signature(
    state: &State,
    input: &GovernanceInput,
    change: &ProposedChange,
    keys: &[Vec<u8>],
    verify: &dyn Verify,
) -> Result<(), Stop> {
    let principal = input.principal.written()?;
    let message = match input.message(state.world(), change) {
        Err(Failure::Unwritable) => {
            let message = "expected UTF-8 text, and numbers below 2^64";
            return Err(invalid(input.action.written()?, message).into());
        }
        message => message?,
    };
    for key in keys {
        if verify.verify(&message, &input.signature, key)? {
            return Ok(());
        }
    }
    Err(refusal(
        Rule::GovernanceSignatureIsWrong,
        format!(
            "the signature is not {principal}'s over this {} in this world (look at the proposal \
             and sign again)",
            input.action.written()?
        ),
    )
    .into())
}

/// The input has the fields of its action and no others, each well-formed.
fn check_fields(input: &GovernanceInput) -> Result<GovernanceAction, Refusal> {
    let Some(action) = input.action.text().and_then(|action| GovernanceAction::of(action)) else {
        let actual = input.action.quoted();
        let message = format!("expected {}, found {actual}", words::<GovernanceAction>());
        return Err(invalid("action", &message));
    };
    let (required, options) = fields_of(action);
    let presence = [
        ("proposal", input.proposal.is_some()),
        ("serial", input.serial.is_some()),
        ("base", input.base.is_some()),
        ("document", input.document.is_some()),
        ("patch", input.patch.is_some()),
        ("mode", !input.mode.is(STRICT)),
        ("leaves", !input.leaves.is_empty()),
        ("report", input.report.is_some()),
        ("seen", input.seen.is_some()),
        ("note", input.note.is_some()),
    ];
    let is_well_formed = presence.iter().all(|(name, is_there)| match is_there {
        true => required.contains(name) || options.contains(name),
        false => !required.contains(name),
    });
    if !is_well_formed {
        let message = format!(
            "expected {}, and of others at most {}",
            required.join(" and "),
            options.join(", ")
        );
        return Err(invalid(action.word(), &message));
    }
    for (name, field) in [("base", &input.base), ("seen", &input.seen)] {
        if field.as_ref().is_some_and(|hash| hash.hash().is_none()) {
            return Err(invalid(name, &format!("expected a hash of {HASH_BYTES} bytes")));
        }
    }
    if input.note.as_ref().is_some_and(|note| !(1..=NOTE_BYTES_MAX).contains(&note.size())) {
        let message = format!("expected 1 to {NOTE_BYTES_MAX} bytes of UTF-8");
        return Err(invalid("note", &message));
    }
    Ok(action)
}

fn invalid(subject: &str, message: &str) -> Refusal {
    refusal(Rule::ProposalIsInvalid, format!("{subject}: {message}"))
}

// Propose

fn propose(
    state: &State,
    input: &GovernanceInput,
    stamp: Stamp,
    keys: &[Vec<u8>],
    verify: &dyn Verify,
    judge: &dyn Judge,
) -> Result<Decided, Stop> {
    let expected = state.proposals.count;
    if !input.serial.as_ref().is_some_and(|serial| serial.is(expected)) {
        return Err(refusal(
            Rule::GovernanceSerialIsWrong,
            format!(
                "proposal serial: expected {expected}, found {} (another proposal came in \
                 meanwhile: look and try again)",
                described(input.serial.as_ref())
            ),
        )
        .into());
    }
    let Some(change) = input.change() else {
        check_fields(input)?;
        return Err(Failure::damage("a proposal has the fields of one").into());
    };
    check_signature(state, input, &change, keys, verify)?;
    let action = check_fields(input)?;
    let in_force = state.effective().hash;
    let base = change.base.written()?;
    if base != in_force {
        return Err(refusal(
            Rule::ProposalIsStale,
            format!(
                "base: expected {}, the manifest in force, found {} (make the patch again)",
                hash_text(&in_force),
                hash_text(&base)
            ),
        )
        .into());
    }
    if let Some(problem) = change_problem(state, input, judge)? {
        return Err(refusal(Rule::ProposalIsInvalid, problem).into());
    }
    if state.proposals.open.len() >= PROPOSALS_MAX {
        return Err(refusal(
            Rule::TooManyProposals,
            format!(
                "{PROPOSALS_MAX} proposals are open, the most that may be (apply, reject or \
                 withdraw one)"
            ),
        )
        .into());
    }
    Ok(decided(state, input, stamp, action)?)
}

// Report

fn check_report(state: &State, input: &GovernanceInput, proposal: &Proposal) -> Result<(), Stop> {
    let Some(report) = &input.report else {
        return Err(Failure::damage("a report has the fields of one").into());
    };
    if let Some(earlier) = proposal.reports.get(&content_hash(report)) {
        return Err(Stop::Duplicate { seq: earlier.seq });
    }
    let problem = match read_report_head(report) {
        Err(problem) => Some(format!("this is no shadow report: {problem}")),
        Ok(head) => lie(state, &head, proposal),
    };
    if let Some(problem) = problem {
        return Err(refusal(Rule::ReportIsInvalid, problem).into());
    }
    if proposal.reports.len() >= REPORTS_MAX {
        let message = format!("proposal {} has {REPORTS_MAX} reports, the most", proposal.seq);
        return Err(refusal(Rule::TooManyReports, message).into());
    }
    Ok(())
}

/// The first part of a report that cannot be true of this proposal and this journal.
fn lie(state: &State, head: &ReportHead, proposal: &Proposal) -> Option<String> {
    for (field, actual, expected) in [
        ("world", &head.world, state.world()),
        ("base", &head.base, &proposal.base),
        ("document", &head.document, &proposal.document.hash),
    ] {
        if actual != expected {
            let (expected, actual) = (hash_text(expected), hash_text(actual));
            return Some(format!("{field}: expected {expected}, found {actual}"));
        }
    }
    let mode = mode_of(proposal);
    if &*head.mode != mode {
        return Some(format!("mode: expected {mode}, found {}", quoted(&head.mode)));
    }
    if head.leaves != proposal.leaves {
        return Some(format!("leaves: expected those of proposal {}", proposal.seq));
    }
    let is_known =
        state.manifest_seq <= head.first && head.first <= head.last && head.last < state.next_seq;
    (!is_known).then(|| {
        format!(
            "from and to: expected records {} to {}, found {} to {}",
            state.manifest_seq,
            state.next_seq - 1,
            head.first,
            head.last
        )
    })
}

// Vote

fn check_vote(
    state: &State,
    input: &GovernanceInput,
    proposal: &Proposal,
    vote: Vote,
    blobs: &dyn Blobs,
) -> Result<(), Stop> {
    let principal = input.principal.written()?;
    if let Some(cast) = proposal.votes.get(principal) {
        if !(cast.vote == Vote::Approve && vote == Vote::Reject) {
            return Err(refusal(
                Rule::VoteIsTaken,
                format!(
                    "{principal} has voted on proposal {} already: {}, in record {} (an approval \
                     may be taken back once, with reject)",
                    proposal.seq,
                    cast.vote.word(),
                    cast.seq
                ),
            )
            .into());
        }
    }
    let report = option(&input.seen, InputHash::written)?;
    if let Some(seen) = report.filter(|seen| !proposal.reports.contains_key(seen)) {
        return Err(refusal(
            Rule::ReportIsNeeded,
            format!(
                "seen: expected a journaled report of proposal {}, found {}",
                proposal.seq,
                hash_text(&seen)
            ),
        )
        .into());
    }
    let block = state.effective().governance.as_ref();
    let records_min = match vote {
        Vote::Approve => block.map_or(0, |block| block.shadow_records),
        Vote::Reject => 0,
    };
    if records_min > 0 && !covers(state, proposal, report, records_min, blobs)? {
        return Err(refusal(
            Rule::ReportIsNeeded,
            format!(
                "seen: an approval needs a journaled report of {records_min} records, or of all \
                 from record {} to the proposal (aos gov shadow {} --record)",
                state.manifest_seq, proposal.seq
            ),
        )
        .into());
    }
    Ok(())
}

/// Whether the report that the approver has seen covers enough records (GV-32).
fn covers(
    state: &State,
    proposal: &Proposal,
    report: Option<Hash>,
    records_min: u64,
    blobs: &dyn Blobs,
) -> Result<bool, Failure> {
    let Some(report) = report else { return Ok(false) };
    let head = read_report_head(&blobs.read(&report)?).map_err(Failure::Damage)?;
    let is_whole = head.first == state.manifest_seq && head.last >= proposal.seq - 1;
    Ok(is_whole || head.records() >= i64::try_from(records_min).unwrap_or(i64::MAX))
}
