//! Code with holes.

use proc_macro::{Group, TokenStream, TokenTree};

/// The code of `template`, in which each identifier that names a hole is replaced by its tokens.
/// These keep their places in the author's text, so that the compiler's complaints point there.
pub fn fill(template: &str, holes: &[(&str, TokenStream)]) -> TokenStream {
    let code: TokenStream = template
        .parse()
        .unwrap_or_else(|_| panic!("a template of this crate is no Rust: {template}"));
    replace(code, holes)
}

fn replace(code: TokenStream, holes: &[(&str, TokenStream)]) -> TokenStream {
    code.into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => {
                let mut filled = Group::new(group.delimiter(), replace(group.stream(), holes));
                filled.set_span(group.span());
                TokenStream::from(TokenTree::from(filled))
            }
            TokenTree::Ident(ref word) => {
                let word = word.to_string();
                match holes.iter().find(|(name, _)| *name == word) {
                    Some((_, tokens)) => tokens.clone(),
                    None => TokenStream::from(token),
                }
            }
            token => TokenStream::from(token),
        })
        .collect()
}

/// The tokens of an expression of ours.
pub fn code(text: &str) -> TokenStream {
    fill(text, &[])
}
