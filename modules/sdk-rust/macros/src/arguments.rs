//! The inside of an attribute: `"name", key = value, list(a, b)`.

use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};

use crate::cursor::{Cursor, string};
use crate::failure::Failure;

/// Arguments that are only there or not.
const FLAGS: [&str; 1] = ["callable"];

pub struct Argument {
    /// None for a value without a name.
    pub name: Option<String>,
    pub span: Span,
    /// The tokens after `=` or inside `( )`, or the value without a name.
    pub value: TokenStream,
    pub is_group: bool,
}

/// Every argument once and no unknown one: `known` are their names.
pub fn arguments(
    tokens: TokenStream,
    around: Span,
    known: &[&str],
) -> Result<Vec<Argument>, Failure> {
    let mut cursor = Cursor::new(tokens, around);
    let mut found: Vec<Argument> = Vec::new();
    while !cursor.at_end() {
        let argument = argument(&mut cursor)?;
        if let Some(name) = &argument.name {
            if !known.contains(&name.as_str()) {
                let known = known.join("`, `");
                return Err(Failure::at(
                    argument.span,
                    format!("unknown argument `{name}`: expected one of `{known}`"),
                ));
            }
            if found.iter().any(|other| other.name == argument.name) {
                return Err(Failure::at(argument.span, format!("`{name}` is said twice")));
            }
        }
        found.push(argument);
    }
    Ok(found)
}

fn argument(cursor: &mut Cursor) -> Result<Argument, Failure> {
    let span = cursor.span();
    if !matches!(cursor.peek(), Some(TokenTree::Ident(_))) {
        return Ok(Argument { name: None, span, value: cursor.until_comma(), is_group: false });
    }
    let name = Some(cursor.ident("a name")?.to_string());
    if let Some(group) = cursor.group(Delimiter::Parenthesis) {
        if !cursor.at_end() && !cursor.take_punct(',') {
            return Err(cursor.failure("expected a comma"));
        }
        return Ok(Argument { name, span, value: group.stream(), is_group: true });
    }
    let is_flag = name.as_deref().is_some_and(|name| FLAGS.contains(&name));
    if is_flag && (cursor.at_end() || cursor.take_punct(',')) {
        return Ok(Argument { name, span, value: TokenStream::new(), is_group: false });
    }
    if is_flag || !cursor.take_punct('=') {
        let expected = if is_flag { "expected a comma" } else { "expected `= …` or `( … )`" };
        return Err(cursor.failure(expected));
    }
    Ok(Argument { name, span, value: cursor.until_comma(), is_group: false })
}

impl Argument {
    /// A string literal.
    pub fn text(&self) -> Result<String, Failure> {
        let mut cursor = Cursor::new(self.value.clone(), self.span);
        let text = cursor.literal().and_then(|literal| string(&literal));
        match (text, cursor.at_end()) {
            (Some(text), true) => Ok(text),
            _ => Err(Failure::at(self.span, "expected text in quotes")),
        }
    }

    /// A whole number.
    pub fn number(&self) -> Result<u64, Failure> {
        let mut cursor = Cursor::new(self.value.clone(), self.span);
        let number =
            cursor.literal().and_then(|literal| literal.to_string().replace('_', "").parse().ok());
        match (number, cursor.at_end()) {
            (Some(number), true) => Ok(number),
            _ => Err(Failure::at(self.span, "expected a whole number")),
        }
    }

    /// One of these texts.
    pub fn one_of(&self, choices: &[&str]) -> Result<String, Failure> {
        let text = self.text()?;
        if choices.contains(&text.as_str()) {
            return Ok(text);
        }
        Err(Failure::at(self.span, format!("expected one of \"{}\"", choices.join("\", \""))))
    }

    /// A type.
    pub fn ty(&self) -> Result<TokenStream, Failure> {
        if self.value.is_empty() {
            return Err(Failure::at(self.span, "expected a type"));
        }
        Ok(self.value.clone())
    }

    /// The items between the commas of a group.
    pub fn items(&self) -> Vec<TokenStream> {
        let mut cursor = Cursor::new(self.value.clone(), self.span);
        let mut items = Vec::new();
        while !cursor.at_end() {
            items.push(cursor.until_comma());
        }
        items
    }
}

/// The argument of this name.
pub fn named<'a>(arguments: &'a [Argument], name: &str) -> Option<&'a Argument> {
    arguments.iter().find(|argument| argument.name.as_deref() == Some(name))
}

/// The value without a name at the front; there is at most one.
pub fn first(arguments: &[Argument]) -> Result<Option<&Argument>, Failure> {
    for (place, argument) in arguments.iter().enumerate() {
        if argument.name.is_none() && place > 0 {
            return Err(Failure::at(argument.span, "expected `name = …`"));
        }
    }
    Ok(arguments.first().filter(|argument| argument.name.is_none()))
}

/// The arguments of an attribute that needs some.
pub fn inside(group: Option<Group>, span: Span, known: &[&str]) -> Result<Vec<Argument>, Failure> {
    match group {
        Some(group) => arguments(group.stream(), group.span(), known),
        None => Err(Failure::at(span, "expected `( … )`")),
    }
}
