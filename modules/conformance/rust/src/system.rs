//! `system`: every built-in effect.

use aos_sdk::introspect::{CellsListed, JournalHeadRead, ManifestRead, WorkflowStateRead};
use aos_sdk::prelude::*;

#[derive(Schema)]
pub enum What {
    TimerSet,
    TimerSetKeyed,
    TimerCancel,
    EffectCancelIntent(Hash),
    EffectCancelTimer,
    HttpGet,
    HttpPost,
    BlobPut,
    BlobPutRefs,
    BlobGet,
    Manifest,
    WorkflowState,
    JournalHead,
    ListCells,
}

#[derive(Schema)]
#[schema("conformance/Use@1")]
pub struct Use {
    what: What,
}

#[derive(Event)]
#[schema("conformance/SystemEvent@1")]
pub enum SystemEvent {
    Use(Use),
    Receipt(Receipt),
}

#[derive(Schema)]
pub enum Answer {
    Timer(timer::Fired),
    TimerCancel(timer::Cancelled),
    EffectCancel(effect::Cancelled),
    Http(http::Response),
    BlobPut(blob::Stored),
    BlobGet(blob::Fetched),
    Manifest(ManifestRead),
    WorkflowState(WorkflowStateRead),
    JournalHead(JournalHeadRead),
    ListCells(CellsListed),
    Error(EffectError),
    Timeout,
    Canceled,
}

#[derive(Schema, Default)]
#[schema("conformance/SystemState@1")]
pub struct SystemState {
    timer: Pending<timer::Set>,
    timer_cancel: Pending<timer::Cancel>,
    effect_cancel: Pending<effect::Cancel>,
    http: Pending<http::Request>,
    blob_put: Pending<blob::Put>,
    blob_get: Pending<blob::Get>,
    manifest: Pending<introspect::Manifest>,
    workflow_state: Pending<introspect::WorkflowState>,
    journal_head: Pending<introspect::JournalHead>,
    list_cells: Pending<introspect::ListCells>,
    answers: Vec<Answer>,
}

#[workflow(
    "conformance/system@1",
    module = "conformance/module@1",
    effects(
        timer::Set,
        timer::Cancel,
        effect::Cancel,
        http::Request,
        blob::Put,
        blob::Get,
        introspect::Manifest,
        introspect::WorkflowState,
        introspect::JournalHead,
        introspect::ListCells
    ),
    routes(Use)
)]
fn system(state: &mut SystemState, event: SystemEvent, cx: &mut Context) -> Result<(), Fault> {
    match event {
        SystemEvent::Use(Use { what }) => state.start(what, cx),
        SystemEvent::Receipt(receipt) => state.receipt(&receipt),
    }
}

const CELLS: &str = "conformance/status@1";

impl SystemState {
    fn start(&mut self, what: What, cx: &mut Context) -> Result<(), Fault> {
        let timer = self.timer.issuer_ref().unwrap_or("nobody").to_string();
        match what {
            What::TimerSet => {
                self.timer = cx.effect(timer::after(cx, Duration::seconds(1))).start();
            }
            What::TimerSetKeyed => {
                self.timer = cx.effect(timer::after(cx, Duration::seconds(1)).key("tea")).start();
            }
            What::TimerCancel => {
                self.timer_cancel = cx.effect(timer::Cancel::by_reference(timer)).start();
            }
            What::EffectCancelIntent(intent) => {
                self.effect_cancel = cx.effect(effect::Cancel::by_intent(intent)).start();
            }
            What::EffectCancelTimer => {
                self.effect_cancel = cx.effect(effect::Cancel::by_reference(timer)).start();
            }
            What::HttpGet => {
                let get = http::get("https://example.com/a?b=c")
                    .header("accept", "text/plain")
                    .secret_header("authorization", "conformance/token", 1);
                self.http = cx.effect(get).start();
            }
            What::HttpPost => {
                self.http = cx.effect(http::post("https://example.com/", *b"hello")).start();
            }
            What::BlobPut => self.blob_put = cx.effect(blob::put(*b"blob")).start(),
            What::BlobPutRefs => {
                let put = blob::put(*b"blob").refs(vec![hash_of("1")?]);
                self.blob_put = cx.effect(put).start();
            }
            What::BlobGet => self.blob_get = cx.effect(blob::get(hash_of("2")?)).start(),
            What::Manifest => self.manifest = cx.effect(introspect::manifest()).start(),
            What::WorkflowState => {
                self.workflow_state = cx.effect(introspect::cell_state(CELLS, &1u64)).start();
            }
            What::JournalHead => self.journal_head = cx.effect(introspect::journal_head()).start(),
            What::ListCells => {
                self.list_cells = cx.effect(introspect::list_cells(CELLS, None, 10)).start();
            }
        }
        Ok(())
    }

    fn receipt(&mut self, receipt: &Receipt) -> Result<(), Fault> {
        macro_rules! settle {
            ($($handle:ident: $arm:ident,)*) => {
                $(if let Some(outcome) = self.$handle.settle(receipt)? {
                    self.answers.push(answer_of(outcome, Answer::$arm));
                })*
            };
        }
        settle!(
            timer: Timer,
            timer_cancel: TimerCancel,
            effect_cancel: EffectCancel,
            http: Http,
            blob_put: BlobPut,
            blob_get: BlobGet,
            manifest: Manifest,
            workflow_state: WorkflowState,
            journal_head: JournalHead,
            list_cells: ListCells,
        );
        Ok(())
    }
}

fn answer_of<R>(outcome: Outcome<R>, ok: fn(R) -> Answer) -> Answer {
    match outcome {
        Outcome::Ok(receipt) => ok(receipt),
        Outcome::Error(error) => Answer::Error(error),
        Outcome::Timeout => Answer::Timeout,
        Outcome::Canceled => Answer::Canceled,
        // The workflow has no arm for it.
        Outcome::Rejected(_) => unreachable!(),
    }
}

/// BLAKE3's name and one digit 64 times.
pub fn hash_of(digit: &str) -> Result<Hash, Fault> {
    let hash = Hash::parse(&["blake3:", &digit.repeat(64)].concat());
    hash.ok_or_else(|| Fault::new("conformance", "this is no hash"))
}
