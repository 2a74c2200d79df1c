//! Walking over tokens.

use std::iter::Peekable;

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree, token_stream};

use crate::failure::Failure;

pub struct Cursor {
    tokens: Peekable<token_stream::IntoIter>,
    /// Of the last token, for what is missing after it.
    last: Span,
}

impl Cursor {
    /// `around` is the place of the whole, for when it is empty.
    pub fn new(tokens: TokenStream, around: Span) -> Cursor {
        Cursor { tokens: tokens.into_iter().peekable(), last: around }
    }

    pub fn next(&mut self) -> Option<TokenTree> {
        let token = self.tokens.next()?;
        self.last = token.span();
        Some(token)
    }

    pub fn peek(&mut self) -> Option<&TokenTree> {
        self.tokens.peek()
    }

    pub fn at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The place of what comes next, or of what came last.
    pub fn span(&mut self) -> Span {
        let last = self.last;
        self.peek().map_or(last, TokenTree::span)
    }

    pub fn failure(&mut self, message: impl Into<String>) -> Failure {
        Failure::at(self.span(), message)
    }

    pub fn is_punct(&mut self, character: char) -> bool {
        matches!(self.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == character)
    }

    /// Whether this character comes next; it is taken then.
    pub fn take_punct(&mut self, character: char) -> bool {
        let found = self.is_punct(character);
        if found {
            self.next();
        }
        found
    }

    pub fn is_word(&mut self, word: &str) -> bool {
        matches!(self.peek(), Some(TokenTree::Ident(ident)) if ident.to_string() == word)
    }

    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub fn ident(&mut self, expected: &str) -> Result<Ident, Failure> {
        match self.peek() {
            Some(TokenTree::Ident(ident)) => {
                let ident = ident.clone();
                self.next();
                Ok(ident)
            }
            _ => Err(self.failure(format!("expected {expected}"))),
        }
    }

    pub fn group(&mut self, delimiter: Delimiter) -> Option<Group> {
        match self.peek() {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
                let group = group.clone();
                self.next();
                Some(group)
            }
            _ => None,
        }
    }

    pub fn literal(&mut self) -> Option<Literal> {
        match self.peek() {
            Some(TokenTree::Literal(literal)) => {
                let literal = literal.clone();
                self.next();
                Some(literal)
            }
            _ => None,
        }
    }

    /// Everything up to a comma outside of angle brackets; consumes the comma.
    pub fn until_comma(&mut self) -> TokenStream {
        let mut tokens = Vec::new();
        let (mut depth, mut after_dash) = (0, false);
        while let Some(token) = self.next() {
            if let TokenTree::Punct(punct) = &token {
                match punct.as_char() {
                    ',' if depth == 0 => break,
                    '<' => depth += 1,
                    '>' if !after_dash => depth -= 1,
                    _ => {}
                }
                after_dash = punct.as_char() == '-';
            } else {
                after_dash = false;
            }
            tokens.push(token);
        }
        tokens.into_iter().collect()
    }

    pub fn rest(&mut self) -> TokenStream {
        let mut tokens = Vec::new();
        while let Some(token) = self.next() {
            tokens.push(token);
        }
        tokens.into_iter().collect()
    }
}

/// The text of a string literal; none for any other literal.
pub fn string(literal: &Literal) -> Option<String> {
    let text = literal.to_string();
    if let Some(raw) = text.strip_prefix('r') {
        let raw = raw.trim_start_matches('#').trim_end_matches('#');
        return Some(raw.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let mut characters = text.strip_prefix('"')?.strip_suffix('"')?.chars().peekable();
    let mut unescaped = String::new();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unescaped.push(character);
            continue;
        }
        match characters.next()? {
            'n' => unescaped.push('\n'),
            't' => unescaped.push('\t'),
            'r' => unescaped.push('\r'),
            '0' => unescaped.push('\0'),
            'x' => {
                let digits: String = characters.by_ref().take(2).collect();
                unescaped.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
            }
            'u' => {
                let digits: String = characters
                    .by_ref()
                    .skip(1)
                    .take_while(|digit| *digit != '}')
                    .filter(|digit| *digit != '_')
                    .collect();
                unescaped.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
            }
            '\n' => while characters.next_if(|next| next.is_whitespace()).is_some() {},
            same => unescaped.push(same),
        }
    }
    Some(unescaped)
}
