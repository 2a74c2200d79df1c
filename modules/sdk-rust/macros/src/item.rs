//! The author's struct or enum.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::arguments::{Argument, inside, named};
use crate::cursor::{Cursor, string};
use crate::failure::Failure;
use crate::names;

pub struct Item {
    pub name: Ident,
    pub attributes: Vec<Attribute>,
    pub shape: Shape,
}

pub enum Shape {
    Record(Vec<Field>),
    /// A struct around one value.
    Newtype(TokenStream),
    Variant(Vec<Arm>),
}

pub struct Field {
    pub ident: Ident,
    /// As AIR spells it.
    pub name: String,
    pub ty: TokenStream,
}

pub struct Arm {
    pub ident: Ident,
    pub name: String,
    pub inside: Inside,
}

pub enum Inside {
    Unit,
    One(TokenStream),
    Record(Vec<Field>),
}

pub struct Attribute {
    pub name: String,
    pub span: Span,
    pub group: Option<Group>,
    /// Of a doc comment.
    text: Option<String>,
}

pub fn item(tokens: TokenStream) -> Result<Item, Failure> {
    let mut cursor = Cursor::new(tokens, Span::call_site());
    let attributes = attributes(&mut cursor)?;
    visibility(&mut cursor);
    let is_enum = cursor.is_word("enum");
    if !is_enum && !cursor.is_word("struct") {
        return Err(cursor.failure("expected a struct or an enum"));
    }
    cursor.next();
    let name = cursor.ident("a name")?;
    if cursor.is_punct('<') || cursor.is_word("where") {
        return Err(cursor.failure("a schema has no parameters: AIR knows one type under one name"));
    }
    let shape = match is_enum {
        true => Shape::Variant(arms(&mut cursor)?),
        false => structure(&mut cursor, &name)?,
    };
    Ok(Item { name, attributes, shape })
}

fn structure(cursor: &mut Cursor, name: &Ident) -> Result<Shape, Failure> {
    if let Some(group) = cursor.group(Delimiter::Brace) {
        return Ok(Shape::Record(fields(group)?));
    }
    let Some(group) = cursor.group(Delimiter::Parenthesis) else {
        let message = format!("a record without fields is written `struct {name} {{}}`");
        return Err(Failure::at(name.span(), message));
    };
    let mut types = tuple(&group)?;
    match (types.pop(), types.is_empty()) {
        (Some(ty), true) => Ok(Shape::Newtype(ty)),
        _ => Err(Failure::at(
            group.span(),
            "AIR has no tuples: name the fields, as in `{ left: u64, right: u64 }`",
        )),
    }
}

/// The types between the parentheses.
fn tuple(group: &Group) -> Result<Vec<TokenStream>, Failure> {
    let mut cursor = Cursor::new(group.stream(), group.span());
    let mut types = Vec::new();
    while !cursor.at_end() {
        attributes(&mut cursor)?;
        visibility(&mut cursor);
        types.push(cursor.until_comma());
    }
    Ok(types)
}

fn fields(group: Group) -> Result<Vec<Field>, Failure> {
    let mut cursor = Cursor::new(group.stream(), group.span());
    let mut fields: Vec<Field> = Vec::new();
    while !cursor.at_end() {
        let attributes = attributes(&mut cursor)?;
        visibility(&mut cursor);
        let ident = cursor.ident("a field")?;
        if !cursor.take_punct(':') {
            return Err(cursor.failure("expected `:` and a type"));
        }
        let name = part_name(&ident, &attributes)?;
        if fields.iter().any(|other| other.name == name) {
            return Err(Failure::at(
                ident.span(),
                format!("two fields are called \"{name}\" in AIR"),
            ));
        }
        fields.push(Field { ident, name, ty: cursor.until_comma() });
    }
    Ok(fields)
}

fn arms(cursor: &mut Cursor) -> Result<Vec<Arm>, Failure> {
    let group = cursor.group(Delimiter::Brace).ok_or_else(|| cursor.failure("expected `{ … }`"))?;
    let mut cursor = Cursor::new(group.stream(), group.span());
    let mut arms: Vec<Arm> = Vec::new();
    while !cursor.at_end() {
        let attributes = attributes(&mut cursor)?;
        let ident = cursor.ident("an arm")?;
        let name = part_name(&ident, &attributes)?;
        if arms.iter().any(|other| other.name == name) {
            return Err(Failure::at(
                ident.span(),
                format!("two arms are called \"{name}\" in AIR"),
            ));
        }
        let inside = arm(&mut cursor)?;
        if cursor.is_punct('=') {
            return Err(cursor.failure("an arm of AIR has a name and no number"));
        }
        cursor.take_punct(',');
        arms.push(Arm { ident, name, inside });
    }
    if arms.is_empty() {
        return Err(Failure::at(group.span(), "a variant has at least one arm"));
    }
    Ok(arms)
}

fn arm(cursor: &mut Cursor) -> Result<Inside, Failure> {
    if let Some(group) = cursor.group(Delimiter::Brace) {
        return Ok(Inside::Record(fields(group)?));
    }
    let Some(group) = cursor.group(Delimiter::Parenthesis) else { return Ok(Inside::Unit) };
    let mut types = tuple(&group)?;
    match (types.pop(), types.is_empty()) {
        (Some(ty), true) => Ok(Inside::One(ty)),
        _ => Err(Failure::at(
            group.span(),
            "an arm holds one value: name its parts, as in `Arm { left: u64, right: u64 }`",
        )),
    }
}

fn part_name(ident: &Ident, attributes: &[Attribute]) -> Result<String, Failure> {
    let mut name = ident.to_string().trim_start_matches("r#").to_owned();
    for attribute in attributes.iter().filter(|attribute| attribute.name == "schema") {
        let arguments = inside(attribute.group.clone(), attribute.span, &["rename"])?;
        match named(&arguments, "rename") {
            Some(argument) if arguments.len() == 1 => name = argument.text()?,
            _ => return Err(Failure::at(attribute.span, "expected `#[schema(rename = \"…\")]`")),
        }
    }
    names::check_part(&name, ident.span())?;
    Ok(name)
}

pub fn attributes(cursor: &mut Cursor) -> Result<Vec<Attribute>, Failure> {
    let mut attributes = Vec::new();
    while cursor.take_punct('#') {
        let Some(group) = cursor.group(Delimiter::Bracket) else {
            return Err(cursor.failure("expected an attribute"));
        };
        let mut content = Cursor::new(group.stream(), group.span());
        let name = content.ident("the name of an attribute")?;
        let inside = content.group(Delimiter::Parenthesis);
        let text = match content.take_punct('=') {
            true => content.literal().and_then(|literal| string(&literal)),
            false => None,
        };
        attributes.push(Attribute {
            name: name.to_string(),
            span: name.span(),
            group: inside,
            text,
        });
    }
    Ok(attributes)
}

/// `pub`, `pub(crate)` or nothing.
pub fn visibility(cursor: &mut Cursor) -> TokenStream {
    let mut tokens = TokenStream::new();
    if cursor.is_word("pub") {
        tokens.extend(cursor.next());
        tokens.extend(cursor.group(Delimiter::Parenthesis).map(TokenTree::from));
    }
    tokens
}

/// The first paragraph of a doc comment.
pub fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter(|attribute| attribute.name == "doc")
        .filter_map(|attribute| attribute.text.as_deref());
    let first: Vec<&str> = lines
        .flat_map(str::lines)
        .map(str::trim)
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty())
        .collect();
    first.join(" ")
}

impl Item {
    /// The arguments of `#[name(…)]` next to the derive; none if it is missing.
    pub fn arguments(&self, name: &str, known: &[&str]) -> Result<Option<Vec<Argument>>, Failure> {
        let mut found = self.attributes.iter().filter(|attribute| attribute.name == name);
        let Some(attribute) = found.next() else { return Ok(None) };
        if let Some(second) = found.next() {
            return Err(Failure::at(second.span, format!("`#[{name}]` is said twice")));
        }
        inside(attribute.group.clone(), attribute.span, known).map(Some)
    }

    pub fn doc(&self) -> String {
        doc(&self.attributes)
    }
}
