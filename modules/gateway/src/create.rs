//! The first step of a record: the request that creates it, and the checks of its fields.

use aos_sdk::prelude::*;

use crate::events::{EpochCloseRequested, ScoreMode, ScoreRequested, WorkRequested};
use crate::hex::{self, record_id};
use crate::record::{Input, Record, RecordType, State, Step};
use crate::run::{Request, Run};
use crate::studio::first_score_step;

const EVIDENCE_BYTES_MAX: usize = 524_288;
const SCORES_MAX: usize = 32;
const SCORE_MAX: u64 = 65_535;
const NAME_BYTES_MAX: usize = 128;

impl Run<'_, '_> {
    pub fn create(&mut self, request: Request) -> Result<(), Fault> {
        match request {
            Request::Work(asked) => self.create_work(asked),
            Request::Score(asked) => self.create_score(asked),
            Request::Epoch(asked) => self.create_epoch(asked),
        }
    }

    fn create_work(&mut self, asked: WorkRequested) -> Result<(), Fault> {
        let WorkRequested { chain, studio_address, epoch, signer_address, data_hash, .. } = asked;
        let key = format!("{chain}/{studio_address}/{data_hash}");
        let bytes = asked.evidence.len();
        let mut checks = Checks::default();
        checks
            .addresses(&[("studio_address", &studio_address), ("signer_address", &signer_address)]);
        checks.data_hash(&data_hash);
        checks.that((1..=EVIDENCE_BYTES_MAX).contains(&bytes), || {
            format!("evidence: expected 1 to {EVIDENCE_BYTES_MAX} bytes, found {bytes}")
        });
        checks.name("arweave", &asked.arweave);
        checks.name("content_type", &asked.content_type);
        let input = Input {
            chain,
            studio_address,
            epoch,
            signer_address,
            data_hash: Some(data_hash),
            arweave: Some(asked.arweave),
            content_type: Some(asked.content_type),
            evidence_bytes: Some(bytes as u64),
            ..Input::default()
        };
        let record = Record {
            record_type: RecordType::WorkSubmission,
            step: Step::UploadEvidence,
            input,
            policy: asked.policy,
            evidence: Some(asked.evidence),
            ..Record::default()
        };
        self.create_checked(record, &key, checks)
    }

    fn create_score(&mut self, asked: ScoreRequested) -> Result<(), Fault> {
        let ScoreRequested { chain, studio_address, data_hash, worker_address, .. } = asked;
        let ScoreRequested { signer_address, admin_address, scores, mode, .. } = asked;
        let key = format!("{chain}/{studio_address}/{data_hash}/{worker_address}/{signer_address}");
        let mut checks = Checks::default();
        checks.addresses(&[
            ("studio_address", &studio_address),
            ("worker_address", &worker_address),
            ("signer_address", &signer_address),
            ("admin_address", &admin_address),
        ]);
        checks.data_hash(&data_hash);
        checks.that((1..=SCORES_MAX).contains(&scores.len()), || {
            format!("scores: expected 1 to {SCORES_MAX} numbers, found {}", scores.len())
        });
        checks.that(scores.iter().all(|score| *score <= SCORE_MAX), || {
            format!("scores: expected numbers from 0 to {SCORE_MAX}")
        });
        let input = Input {
            chain,
            studio_address,
            epoch: asked.epoch,
            signer_address,
            data_hash: Some(data_hash),
            worker_address: Some(worker_address),
            admin_address: Some(admin_address),
            scores: Some(scores),
            mode: Some(mode),
            ..Input::default()
        };
        let mut record = Record {
            record_type: RecordType::ScoreSubmission,
            step: first_score_step(mode),
            input,
            policy: asked.policy,
            ..Record::default()
        };
        if mode == ScoreMode::CommitReveal {
            record.progress.salt = Some(self.cx.random_bytes(32));
        }
        self.create_checked(record, &key, checks)
    }

    fn create_epoch(&mut self, asked: EpochCloseRequested) -> Result<(), Fault> {
        let EpochCloseRequested { chain, studio_address, epoch, signer_address, .. } = asked;
        let key = format!("{chain}/{studio_address}/{epoch}");
        let mut checks = Checks::default();
        checks
            .addresses(&[("studio_address", &studio_address), ("signer_address", &signer_address)]);
        let input = Input { chain, studio_address, epoch, signer_address, ..Input::default() };
        let record = Record {
            record_type: RecordType::CloseEpoch,
            step: Step::CheckPreconditions,
            input,
            policy: asked.policy,
            ..Record::default()
        };
        self.create_checked(record, &key, checks)
    }

    fn create_checked(
        &mut self,
        record: Record,
        key: &str,
        mut checks: Checks,
    ) -> Result<(), Fault> {
        let cell: String = self.cx.key()?;
        let chain = record.input.chain;
        checks.that(chain > 0, || "chain: expected a number from 1, found 0".into());
        checks.that(key == cell, || format!("key: expected {key}, found {cell}"));
        if let Some(problem) = record.policy.problem() {
            checks.that(false, || problem);
        }
        let now = self.cx.now();
        *self.record =
            Record { id: record_id(&cell), key: cell, created_at: now, updated_at: now, ..record };
        match checks.problem {
            Some(problem) => self.fail("INVALID_INPUT", &problem),
            None => {
                self.record.state = State::Running;
                self.note("created");
                self.begin();
            }
        }
        Ok(())
    }
}

/// The first thing that is wrong with a request.
#[derive(Default)]
struct Checks {
    problem: Option<String>,
}

impl Checks {
    fn that(&mut self, is_right: bool, problem: impl FnOnce() -> String) {
        if !is_right && self.problem.is_none() {
            self.problem = Some(problem());
        }
    }

    fn addresses(&mut self, found: &[(&str, &str)]) {
        for (field, address) in found {
            self.that(hex::parse::<20>(address).is_some(), || {
                format!("{field}: expected 0x and 40 lower-case hex digits, found {address:.64}")
            });
        }
    }

    fn data_hash(&mut self, found: &str) {
        self.that(hex::parse::<32>(found).is_some(), || {
            format!("data_hash: expected 0x and 64 lower-case hex digits, found {found:.80}")
        });
    }

    fn name(&mut self, field: &str, found: &str) {
        self.that((1..=NAME_BYTES_MAX).contains(&found.len()), || {
            format!("{field}: expected 1 to {NAME_BYTES_MAX} bytes, found {}", found.len())
        });
    }
}
