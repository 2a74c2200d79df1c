//! The types of `spec/vectors/`, read and written by the SDK's codec; and the SDK's own schemas of
//! the kernel, to compare with the kernel's.
//!
//! `ask` takes a `Question` and gives an `Answer`, both in canonical CBOR.

#![no_std]
// Deep types are written by calls within calls.
#![recursion_limit = "512"]

use aos_sdk::air::{length, render, Json};
use aos_sdk::cbor::Reader;
use aos_sdk::introspect::{
    CellInfo, CellsListed, JournalHead, JournalHeadRead, ListCells, Manifest, ManifestRead,
    ReadMeta, WorkflowState, WorkflowStateRead,
};
use aos_sdk::prelude::*;
use aos_sdk::{host, llm, portal, vault, workspace};
use aos_sdk::{BlobGetResult, BlobPutResult, SecretRef, TextOrSecretRef, TimerFired};

#[derive(Schema)]
enum Question {
    /// The type expressions, as JSON.
    Types,
    /// The schemas of the kernel that the SDK has, as JSON.
    Definitions,
    /// The effects of the kernel that the SDK has: name, params, receipt.
    Effects,
    /// Read these bytes as that type and write them again.
    Recode { index: u64, bytes: Vec<u8> },
    /// Check that these bytes are one item.
    Item(Vec<u8>),
    /// Read these bytes as a JSON document and write it again.
    Json(Vec<u8>),
    /// Read a JSON number as a nat, an int and a decimal.
    Number(Vec<u8>),
    /// The day this many days after 1970-01-01: its text, weekday, and days again; then its text
    /// after so many months.
    Day { days: i64, months: i64 },
    /// This time after so many months, if there is one.
    Move { time_ns: i64, months: i64 },
}

#[derive(Schema)]
enum Answer {
    Texts(Vec<String>),
    Bytes(Vec<u8>),
    Misfit(String),
}

#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
extern "C" fn ask(pointer: u32, size: u32) -> u64 {
    aos_sdk::memory::call(pointer, size, |bytes| {
        encode(&match decode(bytes) {
            Ok(question) => answer(question),
            Err(misfit) => Answer::Misfit(format!("{misfit:?}")),
        })
    })
}

fn answer(question: Question) -> Answer {
    match question {
        Question::Types => texts(TYPES),
        Question::Definitions => texts(DEFINITIONS),
        Question::Effects => texts(EFFECTS),
        Question::Recode { index, bytes } => RECODE[index as usize](&bytes),
        Question::Item(bytes) => {
            let mut reader = Reader::new(&bytes);
            match reader.item().and_then(|_| reader.end()) {
                Ok(()) => Answer::Bytes(bytes),
                Err(_) => Answer::Misfit(format!("{:?}", reader.misfit())),
            }
        }
        Question::Json(bytes) => match json::parse(&bytes) {
            Ok(value) => Answer::Bytes(value.into()),
            Err(misfit) => Answer::Misfit(format!("{misfit:?}")),
        },
        Question::Number(bytes) => match json::parse(&bytes) {
            Ok(value) => Answer::Texts(vec![
                value.as_u64().map_or_else(String::new, |number| number.to_string()),
                value.as_i64().map_or_else(String::new, |number| number.to_string()),
                value.as_decimal().map_or_else(String::new, |number| number.text()),
            ]),
            Err(misfit) => Answer::Misfit(format!("{misfit:?}")),
        },
        Question::Day { days, months } => Answer::Texts(match Date::from_days(days) {
            Some(date) => vec![
                date.text(),
                date.weekday().to_string(),
                date.days().to_string(),
                date.add_months(months).map_or_else(String::new, Date::text),
            ],
            None => Vec::new(),
        }),
        Question::Move { time_ns, months } => Answer::Texts(
            Time::from_ns(time_ns)
                .add_months(months)
                .iter()
                .map(|time| time.ns().to_string())
                .collect(),
        ),
    }
}

fn texts(lines: &[&[u8]]) -> Answer {
    Answer::Texts(lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect())
}

fn recode<T: Schema>(bytes: &[u8]) -> Answer {
    match decode::<T>(bytes) {
        Ok(value) => Answer::Bytes(encode(&value)),
        Err(misfit) => Answer::Misfit(format!("{misfit:?}")),
    }
}

/// A line of JSON that is made while this is compiled.
macro_rules! line {
    ($node:expr) => {{
        const NODE: Json = $node;
        const LINE: [u8; length(&NODE)] = render(&NODE);
        &LINE
    }};
}

macro_rules! types {
    ($($ty:ty,)*) => {
        const TYPES: &[&[u8]] = &[$(line!(Json::Type(&<$ty as Schema>::TYPE)),)*];
        const RECODE: &[fn(&[u8]) -> Answer] = &[$(recode::<$ty>,)*];
    };
}

macro_rules! definitions {
    ($($ty:ty,)*) => {
        const DEFINITIONS: &[&[u8]] = &[$(line!(Json::Object(&[
            ("name", Json::Text(<$ty as Named>::NAME)),
            ("type", Json::Type(&<$ty as Named>::DEFINITION.of)),
        ])),)*];
    };
}

macro_rules! effects {
    ($($ty:ty,)*) => {
        const EFFECTS: &[&[u8]] = &[$(line!(Json::Object(&[
            ("name", Json::Text(<$ty as Effect>::EFFECT)),
            ("params", Json::Text(<$ty as Named>::NAME)),
            ("receipt", Json::Text(<<$ty as Effect>::Receipt as Named>::NAME)),
        ])),)*];
    };
}

types! {
    bool, i64, u64, Decimal, Vec<u8>, String, Time, Duration, Hash, Uuid, (),
    Vec<i64>, Vec<u64>, Vec<Option<String>>, Deep64<Vec<u64>>, Deep64<u64>,
    Set<i64>, Set<String>, Set<Decimal>, Set<Sold>,
    Map<Hash, u64>, Map<i64, Map<String, Vec<Vec<u8>>>>, Map<i64, String>, Map<u64, bool>, Map<String, u64>,
    Map<Uuid, ()>, Map<Uuid, u64>, Option<Decimal>,
    Lengths, Optional, One, Nothing, Light, OnlyA, Pinged,
    Event, Item, Order, Vec<Event>,
}

type Deep4<T> = Vec<Vec<Vec<Vec<T>>>>;
type Deep16<T> = Deep4<Deep4<Deep4<Deep4<T>>>>;
type Deep64<T> = Deep16<Deep16<Deep16<Deep16<T>>>>;

#[derive(Schema)]
struct Sold {
    qty: u64,
    sku: String,
}

#[derive(Schema)]
struct Lengths {
    xxxxxxxxxxxxxxxxxxxxxxxx: u64,
    #[schema(rename = "é")]
    e: u64,
    aa: u64,
    b: u64,
    a: u64,
}

#[derive(Schema)]
struct Optional {
    a: Option<u64>,
    b: String,
}

#[derive(Schema)]
struct One {
    a: u64,
}

#[derive(Schema)]
struct Nothing {}

#[derive(Schema)]
enum Light {
    Off,
    Dim(u64),
    Named(Option<String>),
    #[schema(rename = "AAAAAAAAAAAAAAAAAAAAAAAA")]
    Bright(bool),
}

#[derive(Schema)]
enum OnlyA {
    A(u64),
}

#[derive(Schema)]
#[schema("t/Ping@1")]
struct Ping(());

#[derive(Schema)]
enum Pinged {
    Ping(Ping),
}

#[derive(Schema)]
#[schema("com.acme/Event@1")]
enum Event {
    OrderPlaced(Order),
    Restocked(Item),
    Tick,
}

#[derive(Schema)]
#[schema("com.acme/Order@1")]
struct Order {
    order_id: String,
    items: Vec<Item>,
    amount_cents: u64,
    price: Decimal,
    placed_at: Time,
    tags: Set<String>,
    note: Option<String>,
}

#[derive(Schema)]
#[schema("com.acme/Item@1")]
struct Item {
    sku: String,
    qty: u64,
}

definitions! {
    Receipt, Rejected, StreamFrame, EffectError, SecretRef, TextOrSecretRef,
    TimerFired, BlobPutResult, BlobGetResult,
    timer::Set, timer::Fired, timer::Cancel, timer::Cancelled,
    effect::Cancel, effect::Cancelled,
    http::Request, http::Response,
    blob::Put, blob::Stored, blob::Get, blob::Fetched,
    cron::Next, cron::Times, world::Send, world::Sent,
    ReadMeta, Manifest, ManifestRead, WorkflowState, WorkflowStateRead, JournalHead, JournalHeadRead,
    ListCells, CellsListed, CellInfo,
    workspace::Resolve, workspace::ResolveReceipt, workspace::EmptyRoot,
    workspace::EmptyRootReceipt, workspace::List, workspace::ListReceipt, workspace::ReadRef,
    workspace::ReadRefReceipt, workspace::ReadBytes, workspace::ReadBytesReceipt,
    workspace::WriteBytes, workspace::WriteBytesReceipt, workspace::WriteRef,
    workspace::WriteRefReceipt, workspace::Remove, workspace::RemoveReceipt, workspace::Diff,
    workspace::DiffReceipt, workspace::AnnotationsGet, workspace::AnnotationsGetReceipt,
    workspace::AnnotationsSet, workspace::AnnotationsSetReceipt, workspace::Commit,
    workspace::History, workspace::ListEntry, workspace::RefEntry, workspace::DiffChange,
    workspace::Annotations, workspace::AnnotationsPatch, workspace::CommitMeta,
    host::SessionOpen, host::SessionOpenReceipt, host::SessionSignal, host::SessionSignalReceipt,
    host::Exec, host::ExecReceipt, host::FsReadFile, host::FsReadFileReceipt, host::FsWriteFile,
    host::FsWriteFileReceipt, host::FsEditFile, host::FsEditFileReceipt, host::FsApplyPatch,
    host::FsApplyPatchReceipt, host::FsGrep, host::FsGrepReceipt, host::FsGlob,
    host::FsGlobReceipt, host::FsStat, host::FsStatReceipt, host::FsExists,
    host::FsExistsReceipt, host::FsListDir, host::FsListDirReceipt, host::ExecProgressFrame,
    host::Target, host::Output, host::FileContentInput, host::PatchInput, host::PatchOpsSummary,
    host::TextOutput, host::LocalTarget, host::SandboxTarget, host::BlobRefInput, host::Mount,
    llm::Generate, llm::GenerateReceipt, llm::CountTokens, llm::CountTokensReceipt, llm::Compact,
    llm::CompactReceipt, llm::WindowItem, llm::ToolChoice, llm::TokenCountByRef,
    llm::TokenCountQuality, llm::CompactStrategy, llm::TranscriptRange,
    llm::CompactionArtifactKind, llm::TokenUsage, llm::WindowItemKind,
    llm::ProviderCompatibility, vault::Put, vault::PutReceipt, vault::Rotate,
    vault::RotateReceipt, portal::Send, portal::SendReceipt,
}

effects! {
    timer::Set, timer::Cancel, effect::Cancel, http::Request, blob::Put, blob::Get,
    cron::Next, world::Send,
    Manifest, WorkflowState, JournalHead, ListCells,
    workspace::Resolve, workspace::EmptyRoot, workspace::List, workspace::ReadRef,
    workspace::ReadBytes, workspace::WriteBytes, workspace::WriteRef, workspace::Remove,
    workspace::Diff, workspace::AnnotationsGet, workspace::AnnotationsSet, host::SessionOpen,
    host::SessionSignal, host::Exec, host::FsReadFile, host::FsWriteFile, host::FsEditFile,
    host::FsApplyPatch, host::FsGrep, host::FsGlob, host::FsStat, host::FsExists,
    host::FsListDir, llm::Generate, llm::CountTokens, llm::Compact, vault::Put, vault::Rotate,
    portal::Send,
}
