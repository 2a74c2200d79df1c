//! The evidence of a work: into the world's blobs, to Arweave, and read back from there.

use aos_sdk::prelude::*;
use aos_sdk::SecretRef;

use crate::arweave::{
    AwaitStatus, Price, Priced, Tag, Upload, UploadFate, UploadState, UploadStatus, Uploaded,
};
use crate::record::{Doing, Posted, Step};
use crate::run::Run;

impl Run<'_, '_> {
    fn gateway(&self) -> String {
        self.record.input.arweave.clone().unwrap_or_default()
    }

    fn arweave_key() -> SecretRef {
        SecretRef { alias: "gw/arweave-key".into(), version: 1 }
    }

    /// Ask for anchor and reward of a new bundle. The item's id is the same in every bundle.
    pub fn price(&mut self) {
        self.record.step = Step::UploadEvidence;
        self.record.doing = Doing::PricingUpload;
        let bytes = self.record.input.evidence_bytes.unwrap_or(0);
        let price = Price { keys: Self::arweave_key(), gateway: self.gateway(), bytes };
        self.open(price);
    }

    pub fn await_arweave(&mut self) {
        if self.record.posted.is_none() {
            self.price();
            return;
        }
        self.record.step = Step::AwaitArweaveConfirm;
        self.record.doing = Doing::AwaitingArweave;
        self.look_at_arweave();
    }

    /// Ask for the state of the upload that was posted last.
    pub fn look_at_arweave(&mut self) {
        let Some(Posted { item, bundle }) = self.record.posted.clone() else { return };
        let policy = &self.record.policy;
        let (conf, wait_ms) = (policy.arweave_conf, policy.arweave_wait_ms);
        let look = AwaitStatus { gateway: self.gateway(), item, bundle, conf, wait_ms };
        self.open(look);
    }

    pub fn stored(&mut self, stored: blob::Stored) {
        self.record.progress.evidence = Some(stored.blob_ref);
        self.record.evidence = None;
        self.note("the evidence is stored");
        self.price();
    }

    pub fn priced(&mut self, priced: Priced) {
        let Priced { anchor, reward, balance, .. } = priced;
        if balance < reward {
            let message = format!(
                "the Arweave wallet has {} winston, and the upload costs {}",
                balance.text(),
                reward.text()
            );
            self.record.doing = Doing::PricingUpload;
            self.stall("ARWEAVE_NO_FUNDS", &message);
            return;
        }
        let Some(data) = self.record.progress.evidence.clone() else { return };
        let input = &self.record.input;
        let content_type = input.content_type.clone().unwrap_or_default();
        let tag = |name: &str, value: &str| Tag { name: name.into(), value: value.into() };
        let tags = vec![
            tag("App-Name", "AOS-Gateway"),
            tag("Data-Hash", input.data_hash.as_deref().unwrap_or_default()),
        ];
        let (keys, gateway) = (Self::arweave_key(), self.gateway());
        self.record.doing = Doing::Uploading;
        self.open(Upload { keys, gateway, data, content_type, tags, anchor, reward });
    }

    pub fn uploaded(&mut self, uploaded: Uploaded) {
        let Uploaded { item, bundle, fate, message, .. } = uploaded;
        if let (Some(item), Some(bundle)) = (item, bundle) {
            self.record.posted = Some(Posted { item, bundle });
        }
        self.record.doing = Doing::PricingUpload;
        match fate {
            UploadFate::Posted | UploadFate::Known | UploadFate::Unknown
                if self.record.posted.is_some() =>
            {
                self.note(&format!("uploaded: {fate:?}"));
                self.await_arweave();
            }
            UploadFate::Posted | UploadFate::Known | UploadFate::Unknown => {
                self.retry("ARWEAVE_UNAVAILABLE", "the upload has no id");
            }
            UploadFate::NoFunds => self.stall("ARWEAVE_NO_FUNDS", &message),
            UploadFate::NoKey => self.stall("ARWEAVE_NO_KEY", &message),
            // Usually the anchor is too old, after an outage. A bundle with a new one decides.
            UploadFate::Rejected if !self.was_rejected() => {
                self.retry("ARWEAVE_REJECTED", &message);
            }
            UploadFate::Rejected => self.fail("ARWEAVE_REJECTED", &message),
        }
    }

    /// Whether the last thing that went wrong was a rejection, too.
    fn was_rejected(&self) -> bool {
        self.record.error.as_ref().is_some_and(|error| error.code == "ARWEAVE_REJECTED")
    }

    pub fn looked_at_arweave(&mut self, status: UploadStatus) {
        match status.fate {
            UploadState::Confirmed { content, depth } => self.confirmed(content, depth),
            UploadState::Pending { depth } => {
                self.note(&format!("the upload has {depth} confirmations"));
                self.record.step_attempts = 0;
                self.await_arweave();
            }
            UploadState::NotFound => {
                // The same item in a bundle with a new anchor: the old one may never be mined.
                self.record.step = Step::UploadEvidence;
                self.record.doing = Doing::PricingUpload;
                self.retry("ARWEAVE_UNAVAILABLE", "Arweave does not have the upload");
            }
            UploadState::Rejected => {
                self.fail("ARWEAVE_REJECTED", "Arweave dropped the upload as invalid");
            }
        }
    }

    /// The id is only a name: the bytes that came back decide.
    fn confirmed(&mut self, content: Hash, depth: u64) {
        if Some(&content) != self.record.progress.evidence.as_ref() {
            let message = format!(
                "Arweave returned other bytes than the evidence: their hash is {}",
                content.text()
            );
            self.fail("EVIDENCE_MISMATCH", &message);
            return;
        }
        let Some(Posted { item, bundle }) = self.record.posted.clone() else { return };
        let progress = &mut self.record.progress;
        progress.arweave_tx_id.get_or_insert(item);
        progress.arweave_bundle_id.get_or_insert(bundle);
        progress.arweave_confirmed = Some(true);
        self.note(&format!("the upload has {depth} confirmations, and its bytes are the evidence"));
        self.advance(Some(Step::SubmitWorkOnchain));
    }
}
