//! The border to the host: raw exports and imports of the WASM module. Nothing else in this crate
//! is unsafe.
//!
//! One instance holds one world, and one thread of the host calls it. A call takes its request from
//! this memory and leaves its answer there; `operations` says what the bytes are.
//!
//!     reserve(size) -> address          where the host writes a request of that size
//!     call(operation, size) -> answer   its address in the low half, its size in the high half
//!
//! The answer is valid until the next call. Imports return a status and never unwind:
//!
//!     read(hash) -> status              FOUND: `take` then gives the bytes
//!     find(id, size, seq) -> status     FOUND: the host wrote eight bytes, little-endian, at `seq`
//!     ask(question, request, size)      FOUND or ABSENT, as `ask` says
//!     put(data, size) -> status         FOUND: the host has the bytes
//!     taken() -> size, take(address)    what the host has to give: bytes, or the words of damage
//!     panicked(text, size)              why the core is about to trap
//!
//! A trap is a defect of the core: the host does not call this instance again.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::journal::ports::{Blobs, Find, Judge, Sink, Verify};
use crate::operations::{put_data, Core, Host};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// The standard allocator; it counts live bytes and allocates none above a limit.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: every call goes to the standard allocator with the arguments that it was made with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !has_room(layout.size()) {
            return full();
        }
        let address = unsafe { System.alloc(layout) };
        if address.is_null() {
            return full();
        }
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !has_room(size - layout.size()) {
            return full();
        }
        let moved = unsafe { System.realloc(address, layout, size) };
        if moved.is_null() {
            return full();
        }
        LIVE.fetch_add(size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        moved
    }
}

fn has_room(size: usize) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    LIVE.load(Ordering::Relaxed).checked_add(size).is_some_and(|sum| sum <= limit)
}

/// Give the host the words: the standard library traps without any. Nothing in this crate lives on
/// after an allocation that failed.
fn full() -> *mut u8 {
    const WORDS: &str = "its memory is full";
    // SAFETY: the host reads `len` bytes at this address.
    unsafe { host_panicked(WORDS.as_ptr(), WORDS.len()) };
    std::ptr::null_mut()
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[link(wasm_import_module = "aos")]
extern "C" {
    #[link_name = "read"]
    fn host_read(hash: *const u8) -> u32;
    #[link_name = "find"]
    fn host_find(id: *const u8, size: usize, seq: *mut u8) -> u32;
    #[link_name = "ask"]
    fn host_ask(question: u32, request: *const u8, size: usize) -> u32;
    #[link_name = "put"]
    fn host_put(data: *const u8, size: usize) -> u32;
    #[link_name = "taken"]
    fn host_taken() -> usize;
    #[link_name = "take"]
    fn host_take(address: *mut u8);
    #[link_name = "panicked"]
    fn host_panicked(text: *const u8, size: usize);
}

/// Statuses of imports.
const FOUND: u32 = 0;
const ABSENT: u32 = 1;
const DAMAGED: u32 = 2;
const ERASED: u32 = 4;

struct Imports;

impl Blobs for Imports {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        // SAFETY: the host reads the 32 bytes of a hash at this address.
        match unsafe { host_read(hash.as_ptr()) } {
            FOUND => Ok(taken()),
            DAMAGED => Err(damaged()),
            ERASED => Err(Failure::Erased),
            _ => Err(Failure::Host),
        }
    }
}

impl Find for Imports {
    fn find(&self, submission_id: &str) -> Outcome<Option<u64>> {
        let mut seq = [0u8; 8];
        // SAFETY: the host reads `len` bytes at the first address and writes eight at the last.
        match unsafe { host_find(submission_id.as_ptr(), submission_id.len(), seq.as_mut_ptr()) } {
            FOUND => Ok(Some(u64::from_le_bytes(seq))),
            ABSENT => Ok(None),
            DAMAGED => Err(damaged()),
            _ => Err(Failure::Host),
        }
    }
}

impl Sink for Imports {
    fn put(&self, data: &[u8]) -> Outcome<()> {
        // SAFETY: the host reads `len` bytes at this address.
        match unsafe { host_put(data.as_ptr(), data.len()) } {
            FOUND => Ok(()),
            _ => Err(Failure::Host),
        }
    }
}

/// Message, signature and public key: FOUND if it is the key's signature.
const VERIFY: u32 = 0;
/// A document: ABSENT if it is a manifest; FOUND: `take` gives the words of its problem.
const DOCUMENT: u32 = 1;
/// Document, patch, document: as `DOCUMENT`, of the patch between the two.
const PATCH: u32 = 2;
/// As `DOCUMENT`, of a document that a journal has, which may be forged.
const RECORDED: u32 = 3;

/// Ask a question about a list of `data`.
fn ask(question: u32, parts: &[&[u8]]) -> Outcome<bool> {
    let mut request = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
    for part in parts {
        put_data(&mut request, part);
    }
    // SAFETY: the host reads `len` bytes at this address.
    match unsafe { host_ask(question, request.as_ptr(), request.len()) } {
        FOUND => Ok(true),
        ABSENT => Ok(false),
        DAMAGED => Err(damaged()),
        _ => Err(Failure::Host),
    }
}

fn problem(question: u32, parts: &[&[u8]]) -> Outcome<Option<String>> {
    let has_one = ask(question, parts)?;
    Ok(has_one.then(|| String::from_utf8_lossy(&taken()).into_owned()))
}

impl Verify for Imports {
    fn verify(&self, message: &[u8], signature: &[u8], public_key: &[u8]) -> Outcome<bool> {
        ask(VERIFY, &[message, signature, public_key])
    }
}

impl Judge for Imports {
    fn problem(&self, document: &[u8]) -> Outcome<Option<String>> {
        problem(DOCUMENT, &[document])
    }

    fn recorded_problem(&self, document: &[u8]) -> Outcome<Option<String>> {
        problem(RECORDED, &[document])
    }

    fn patch_problem(&self, base: &[u8], patch: &[u8], next: &[u8]) -> Outcome<Option<String>> {
        problem(PATCH, &[base, patch, next])
    }
}

fn taken() -> Vec<u8> {
    // SAFETY: the host writes as many bytes at the address as it said.
    unsafe {
        let mut data = vec![0; host_taken()];
        host_take(data.as_mut_ptr());
        data
    }
}

fn damaged() -> Failure {
    Failure::Damage(String::from_utf8_lossy(&taken()).into_owned())
}

/// A request of at most so many bytes is always at the same address.
const SMALL: usize = 64 * 1024;

struct Border {
    small: Vec<u8>,
    large: Vec<u8>,
    answer: Vec<u8>,
    core: Core,
}

thread_local! {
    static BORDER: RefCell<Border> = RefCell::new({
        std::panic::set_hook(Box::new(|info| {
            let text = info.to_string();
            // SAFETY: the host reads `len` bytes at this address.
            unsafe { host_panicked(text.as_ptr(), text.len()) };
        }));
        let host = Host {
            blobs: Rc::new(Imports),
            find: Rc::new(Imports),
            verify: Rc::new(Imports),
            judge: Rc::new(Imports),
            sink: Rc::new(Imports),
            memory: || {
                let memory = core::arch::wasm32::memory_size(0) * 65_536;
                (LIVE.load(Ordering::Relaxed), memory)
            },
            bound_memory: |limit| LIMIT.store(limit, Ordering::Relaxed),
        };
        Border { small: vec![0; SMALL], large: Vec::new(), answer: Vec::new(), core: Core::new(host) }
    });
}

#[no_mangle]
pub extern "C" fn reserve(size: usize) -> *mut u8 {
    BORDER.with_borrow_mut(|border| {
        if size <= SMALL {
            return border.small.as_mut_ptr();
        }
        border.large = vec![0; size];
        border.large.as_mut_ptr()
    })
}

#[no_mangle]
pub extern "C" fn call(operation: u32, size: usize) -> u64 {
    BORDER.with_borrow_mut(|border| {
        border.answer = Vec::new();
        border.answer = if size <= SMALL {
            border.core.call(operation, &border.small[..size])
        } else {
            let large = std::mem::take(&mut border.large);
            border.core.call(operation, &large[..size])
        };
        (border.answer.len() as u64) << 32 | border.answer.as_ptr() as u64
    })
}
