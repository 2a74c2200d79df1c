//! The head of the author's function.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::item::{attributes, doc, visibility};

pub struct Signature {
    pub doc: String,
    pub visibility: TokenStream,
    /// `async`, `unsafe` and the like, before `fn`.
    pub qualifiers: Vec<TokenTree>,
    pub name: Ident,
    /// None where something else follows the name.
    parameters: Option<Group>,
    /// The type behind `->`; empty without one.
    pub returns: TokenStream,
}

impl Signature {
    /// `message` is the failure where the item is no function.
    pub fn read(item: TokenStream, message: &str) -> Result<Signature, Failure> {
        let mut cursor = Cursor::new(item, Span::call_site());
        let doc = doc(&attributes(&mut cursor)?);
        let visibility = visibility(&mut cursor);
        let start = cursor.span();
        let mut qualifiers = Vec::new();
        while !cursor.take_word("fn") {
            let Some(token) = cursor.next() else { return Err(Failure::at(start, message)) };
            qualifiers.push(token);
        }
        let name = cursor.ident("a name")?;
        let parameters = cursor.group(Delimiter::Parenthesis);
        let mut returns = TokenStream::new();
        if cursor.take_punct('-') && cursor.take_punct('>') {
            while !cursor.is_word("where") && cursor.group(Delimiter::Brace).is_none() {
                let Some(token) = cursor.next() else { break };
                returns.extend([token]);
            }
        }
        Ok(Signature { doc, visibility, qualifiers, name, parameters, returns })
    }

    /// The types of its parameters, and the place of them all. `shape` is the failure for others.
    pub fn parameters(&self, shape: &str) -> Result<(Vec<TokenStream>, Span), Failure> {
        let Some(group) = &self.parameters else {
            return Err(Failure::at(self.name.span(), shape));
        };
        let mut cursor = Cursor::new(group.stream(), group.span());
        let mut types = Vec::new();
        while !cursor.at_end() {
            types.push(parameter(cursor.until_comma(), shape)?);
        }
        Ok((types, group.span()))
    }
}

/// The type of one parameter.
fn parameter(tokens: TokenStream, shape: &str) -> Result<TokenStream, Failure> {
    let mut cursor = Cursor::new(tokens, Span::call_site());
    attributes(&mut cursor)?;
    while !cursor.at_end() {
        if cursor.take_punct(':') {
            return Ok(cursor.rest());
        }
        cursor.next();
    }
    Err(cursor.failure(shape))
}
