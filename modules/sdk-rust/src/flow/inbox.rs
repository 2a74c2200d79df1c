//! The messages that no operation has consumed (`spec/flow.md`, FL-14).
//!
//! A flow may get thousands of messages before it listens for them. So the messages of earlier
//! turns stay bytes until an operation looks for one.

use alloc::vec::Vec;

use crate::cbor::{self, Reader, Stop};
use crate::schema::whole;

use super::history::{Bytes, put};

/// An inbox to which no message has come: `[0, []]`.
pub(super) const EMPTY: Bytes = b"\x82\x00\x80";

/// A message that waits to be consumed, or that an operation has consumed.
#[derive(Clone, Copy)]
pub(super) struct Message {
    /// How many messages came before it.
    pub number: u64,
    pub schema: &'static str,
    pub value: Bytes,
}

impl Message {
    pub fn write(&self, out: &mut Vec<u8>) {
        cbor::write_list(3, out);
        cbor::write_nat(self.number, out);
        cbor::write_text(self.schema, out);
        cbor::write_bytes(self.value, out);
    }

    pub fn read(from: &mut Reader<'static>) -> Result<Message, Stop> {
        if from.list()? != 3 {
            return Err(from.stop("a message"));
        }
        Ok(Message { number: from.nat()?, schema: from.text()?, value: from.bytes()? })
    }
}

/// Write a list of messages, with its head.
pub(super) fn write_messages(messages: &[Message], out: &mut Vec<u8>) {
    cbor::write_list(messages.len(), out);
    messages.iter().for_each(|message| message.write(out));
}

/// The messages of a flow, in order of their numbers.
#[derive(Default)]
pub(super) struct Inbox {
    received: u64,
    /// The messages that were stored, and how many. They come before `messages`.
    stored: Bytes,
    stored_count: usize,
    messages: Vec<Message>,
    /// As it was read; empty where it has to be written again.
    recorded: Bytes,
}

impl Inbox {
    /// None if the bytes are no inbox. The messages are not read yet.
    pub fn read(bytes: Bytes) -> Option<Inbox> {
        let mut from = Reader::new(bytes);
        let (Ok(2), Ok(received), Ok(stored_count)) = (from.list(), from.nat(), from.list()) else {
            return None;
        };
        let stored = &bytes[from.position()..];
        Some(Inbox { received, stored, stored_count, messages: Vec::new(), recorded: bytes })
    }

    pub fn bytes(&self) -> Bytes {
        if !self.recorded.is_empty() {
            return self.recorded;
        }
        let added: usize = self.messages.iter().map(|message| message.value.len() + 64).sum();
        let mut out = Vec::with_capacity(self.stored.len() + added + 16);
        cbor::write_list(2, &mut out);
        cbor::write_nat(self.received, &mut out);
        cbor::write_list(self.stored_count + self.messages.len(), &mut out);
        put(&mut out, self.stored);
        self.messages.iter().for_each(|message| message.write(&mut out));
        out.leak()
    }

    pub fn receive(&mut self, schema: &'static str, value: Bytes) {
        self.recorded = &[];
        self.messages.push(Message { number: self.received, schema, value });
        self.received += 1;
    }

    pub fn clear(&mut self) {
        (self.stored, self.stored_count, self.recorded) = (&[], 0, &[]);
        self.messages.clear();
    }

    /// All messages, oldest first. None if they cannot be read.
    fn open(&mut self) -> Option<&mut Vec<Message>> {
        if self.stored_count > 0 {
            let count = self.stored_count;
            let mut messages = whole(self.stored, |from| {
                let mut messages = Vec::with_capacity(count + self.messages.len());
                for _ in 0..count {
                    messages.push(Message::read(from)?);
                }
                Ok(messages)
            })
            .ok()?;
            messages.append(&mut self.messages);
            self.clear();
            self.messages = messages;
        }
        Some(&mut self.messages)
    }

    /// Take the oldest messages for which `take` returns true: it is asked about each message until
    /// it has taken `most`. None if the inbox cannot be read.
    pub fn take(&mut self, most: u64, take: &mut dyn FnMut(&Message) -> bool) -> Option<()> {
        let messages = self.open()?;
        let (mut at, mut kept, mut taken) = (0, 0, 0);
        while at < messages.len() && taken < most {
            let message = messages[at];
            if take(&message) {
                taken += 1;
            } else {
                messages[kept] = message;
                kept += 1;
            }
            at += 1;
        }
        if kept < at {
            messages.copy_within(at.., kept);
            messages.truncate(messages.len() - (at - kept));
        }
        if taken > 0 {
            self.recorded = &[];
        }
        Some(())
    }

    /// Put messages back to where they were. None if the inbox cannot be read.
    pub fn give_back(&mut self, given: &[Message]) -> Option<()> {
        if given.is_empty() {
            return Some(());
        }
        self.recorded = &[];
        let messages = self.open()?;
        let mut at = 0;
        for message in given {
            // Most of them come in order, so that the search continues where it was.
            if at > 0 && messages[at - 1].number > message.number {
                at = 0;
            }
            while at < messages.len() && messages[at].number < message.number {
                at += 1;
            }
            messages.insert(at, *message);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Inbox {
        Inbox::read(bytes.to_vec().leak()).unwrap()
    }

    fn with(count: u64) -> Inbox {
        let mut inbox = read(EMPTY);
        for _ in 0..count {
            inbox.receive("t/Note@1", b"\xf6");
        }
        inbox
    }

    fn numbers(inbox: &mut Inbox) -> Vec<u64> {
        inbox.open().unwrap().iter().map(|message| message.number).collect()
    }

    #[test]
    fn an_inbox_is_read_as_it_was_written() {
        let mut bytes = vec![0x82, 2, 0x82]; // two came, two are there
        for number in [0, 1] {
            bytes.extend([0x83, number, 0x68]);
            bytes.extend(b"t/Note@1");
            bytes.extend([0x41, 0xf6]);
        }

        assert_eq!(with(2).bytes(), bytes);
        assert_eq!(read(&bytes).bytes(), bytes);
        assert_eq!(with(0).bytes(), EMPTY);
    }

    #[test]
    fn messages_are_taken_oldest_first_and_the_others_stay_in_order() {
        let mut inbox = read(with(6).bytes());
        inbox.receive("t/Note@1", b"\xf6");

        let mut taken = Vec::new();
        inbox.take(2, &mut |message| {
            let takes = message.number % 2 == 1;
            taken.extend(takes.then_some(message.number));
            takes
        });

        assert_eq!(taken, [1, 3]);
        assert_eq!(numbers(&mut inbox), [0, 2, 4, 5, 6]);
    }

    #[test]
    fn messages_go_back_to_where_they_were_in_whatever_order_they_come() {
        let mut inbox = read(with(7).bytes());
        let mut taken = Vec::new();
        inbox.take(7, &mut |message| {
            let takes = [0, 3, 4, 6].contains(&message.number);
            taken.extend(takes.then_some(*message));
            takes
        });

        let [a, b, c, d] = taken[..] else { panic!("four were taken") };
        inbox.give_back(&[c, d, a, b]);

        assert_eq!(numbers(&mut inbox), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_next_message_has_a_number_of_its_own_even_if_the_inbox_is_empty() {
        let mut inbox = with(3);
        inbox.take(3, &mut |_| true);

        let mut inbox = read(inbox.bytes());
        inbox.receive("t/Note@1", b"\xf6");

        assert_eq!(numbers(&mut inbox), [3]);
    }

    #[test]
    fn messages_that_cannot_be_read_are_no_messages() {
        let bytes = with(1).bytes();
        assert!(read(&bytes[..bytes.len() - 1]).open().is_none());
        assert!(Inbox::read(b"\x80").is_none());
    }
}
