//! Fees, and the transactions of a lane that landed.
//!
//! Rule 1: a bump raises both fees by an eighth, rounded up, and never above the policy's `max_fee`.
//! A bump that the cap makes smaller than a tenth would be refused by every node, so there is none.
//!
//! Rule 2: the last eight transactions that landed are kept: when a reorganisation takes one back,
//! the same bytes are published again. An older nonce is filled with an empty transaction.

use aos_sdk::prelude::*;

use crate::evm::Submit;
use crate::flight::{keys, Turn, EMPTY_GAS};
use crate::lane::{InFlight, Landed, LaneDoing};

const LANDED_MAX: usize = 8;

/// The most that a unit of gas costs, and the part of it for the block's producer, in wei.
#[derive(Clone, Copy, PartialEq)]
pub struct Fees {
    pub max_fee: u64,
    pub max_tip: u64,
}

impl Fees {
    /// The fees of a first attempt. None while a unit of gas costs more than the policy allows.
    pub fn first(base_fee: u64, tip: u64, cap: u64) -> Option<Fees> {
        let needed = base_fee.checked_add(tip).filter(|needed| *needed <= cap)?;
        let max_fee = needed.saturating_add(base_fee).min(cap);
        Some(Fees { max_fee, max_tip: tip.min(max_fee) })
    }

    /// Higher fees that replace these in a node's pool (rule 1).
    pub fn bumped(self, cap: u64) -> Option<Fees> {
        let max_fee = raised(self.max_fee).min(cap);
        let max_tip = raised(self.max_tip).min(max_fee);
        let is_enough = |new: u64, old: u64| new as u128 * 10 >= old as u128 * 11;
        let is_accepted = is_enough(max_fee, self.max_fee) && is_enough(max_tip, self.max_tip);
        is_accepted.then_some(Fees { max_fee, max_tip })
    }
}

/// An eighth more, rounded up, and at least one.
fn raised(fee: u64) -> u64 {
    let raised = (fee as u128 * 9).div_ceil(8).max(fee as u128 + 1);
    raised.min(u64::MAX as u128) as u64
}

impl Turn<'_, '_> {
    /// Remember the transaction that consumed the current nonce. It is one of this lane.
    pub fn landed(&mut self, current: &InFlight, nonce: u64, hash: &str, is_cancel: bool) {
        self.consumed(nonce);
        let of_kind = || current.attempts.iter().filter(|attempt| attempt.is_cancel == is_cancel);
        let attempt = of_kind().find(|attempt| attempt.hash == hash).or(of_kind().last());
        // Another sender with this key may have sent the same: its fees are not known.
        let Some(attempt) = attempt.or(current.attempts.last()) else { return };
        let request = &current.request;
        let landed = Landed {
            nonce,
            hash: hash.into(),
            owner: request.owner.clone(),
            request: request.request,
            since: current.since,
            to: if is_cancel { self.lane.signer_address.clone() } else { request.to.clone() },
            data: if is_cancel { Vec::new() } else { request.data.clone() },
            value: if is_cancel { Decimal::ZERO } else { request.value },
            gas: if is_cancel { EMPTY_GAS } else { current.gas },
            max_fee: attempt.max_fee,
            max_tip: attempt.max_tip,
        };
        let landeds = &mut self.lane.landed;
        landeds.retain(|other| other.nonce != nonce);
        landeds.push(landed);
        if landeds.len() > LANDED_MAX {
            landeds.remove(0);
        }
    }

    pub fn consumed(&mut self, nonce: u64) {
        let next = self.lane.next_nonce.unwrap_or(0).max(nonce.saturating_add(1));
        self.lane.next_nonce = Some(next);
    }

    /// Fill a nonce that a reorganisation has freed (rule 2).
    pub fn mend(&mut self, nonce: u64, fees: Fees) {
        let landed = self.lane.landed.iter().find(|landed| landed.nonce == nonce).cloned();
        let (chain, signer) = (self.lane.chain, self.lane.signer_address.clone());
        let submit = match landed {
            Some(landed) => {
                self.note(&format!("nonce {nonce} is free again: the same bytes as before"));
                Submit {
                    keys: keys(),
                    chain,
                    signer,
                    nonce,
                    to: landed.to,
                    data: landed.data,
                    value: landed.value,
                    gas: landed.gas,
                    max_fee: landed.max_fee,
                    max_tip: landed.max_tip,
                }
            }
            None => {
                self.note(&format!(
                    "nonce {nonce} is free again: filled with an empty transaction"
                ));
                self.empty(nonce, fees)
            }
        };
        self.open(submit, LaneDoing::Mending);
    }

    /// An empty transaction of the signer to itself.
    pub fn empty(&self, nonce: u64, fees: Fees) -> Submit {
        let signer = self.lane.signer_address.clone();
        Submit {
            keys: keys(),
            chain: self.lane.chain,
            signer: signer.clone(),
            nonce,
            to: signer,
            data: Vec::new(),
            value: Decimal::ZERO,
            gas: EMPTY_GAS,
            max_fee: fees.max_fee,
            max_tip: fees.max_tip,
        }
    }
}
