//! A panic -> its message, in the place where the kernel reads it (spec/sandbox.md, S-47).

use core::arch::wasm32::unreachable;
use core::cell::{Cell, UnsafeCell};
use core::fmt::{self, Write};
#[cfg(feature = "std")]
use core::panic::Location;
#[cfg(not(feature = "std"))]
use core::panic::PanicInfo;

const WORDS_MAX: usize = 512;

/// The kernel reads this after a trap: the length, then as many bytes of UTF-8.
#[repr(C)]
struct Place {
    length: Cell<u32>,
    words: UnsafeCell<[u8; WORDS_MAX]>,
}

// A guest has one thread; the sandbox offers no others.
unsafe impl Sync for Place {}

/// The linker exports the address of what is exported as an immutable global.
#[unsafe(export_name = "aos_panic")]
static PLACE: Place = Place { length: Cell::new(0), words: UnsafeCell::new([0; WORDS_MAX]) };

/// A panic is a trap, with `file:line:column: message` for the kernel to put into the fault.
#[cfg(not(feature = "std"))]
#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    // If formatting the message panics, the part that is there already must suffice.
    if PLACE.length.get() == 0 {
        if let Some(place) = info.location() {
            PLACE.say(place.file());
            PLACE.say(":");
            PLACE.say_number(place.line());
            PLACE.say(":");
            PLACE.say_number(place.column());
            PLACE.say(": ");
        }
        match info.message().as_str() {
            Some(words) => PLACE.say(words),
            None => drop(write!(&PLACE, "{}", info.message())),
        }
    }
    unreachable()
}

// Written by hand, without code that can panic itself: no sum exceeds WORDS_MAX. The library's
// functions for this would add a kilobyte to a counter.
impl Place {
    /// Add as many whole characters as there is room for.
    #[inline(never)]
    fn say(&self, text: &str) {
        let start = self.length.get() as usize;
        let mut size = text.len().min(WORDS_MAX.wrapping_sub(start));
        while !text.is_char_boundary(size) {
            size = size.wrapping_sub(1);
        }
        // `size` is at most the free room, and there is no other reference to these bytes.
        unsafe {
            let to = self.words.get().cast::<u8>().add(start);
            core::ptr::copy_nonoverlapping(text.as_ptr(), to, size);
        }
        self.length.set(start.wrapping_add(size) as u32);
    }

    #[inline(never)]
    fn say_number(&self, number: u32) {
        if number >= 10 {
            self.say_number(number / 10);
        }
        let at = number as usize % 10;
        self.say("0123456789".get(at..at.wrapping_add(1)).unwrap_or(""));
    }
}

impl Write for &Place {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.say(text);
        Ok(())
    }
}

/// The panic of a module with the standard library, whose panic hook calls this.
#[cfg(feature = "std")]
pub fn trap(location: Option<&Location<'_>>, words: &str) -> ! {
    if PLACE.length.get() == 0 {
        if let Some(place) = location {
            PLACE.say(place.file());
            PLACE.say(":");
            PLACE.say_number(place.line());
            PLACE.say(":");
            PLACE.say_number(place.column());
            PLACE.say(": ");
        }
        PLACE.say(words);
    }
    unreachable()
}
