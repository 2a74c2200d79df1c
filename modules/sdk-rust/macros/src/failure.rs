//! An error in the author's source, with its place.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

pub struct Failure {
    span: Span,
    message: String,
}

impl Failure {
    pub fn at(span: Span, message: impl Into<String>) -> Failure {
        Failure { span, message: message.into() }
    }

    /// `::core::compile_error! { "message" }`, underlining the place.
    pub fn into_tokens(self) -> TokenStream {
        let punct = |character, spacing| TokenTree::from(Punct::new(character, spacing));
        let word = |name| TokenTree::from(Ident::new(name, self.span));
        let message = TokenTree::from(Literal::string(&self.message));
        let tokens = [
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            word("core"),
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            word("compile_error"),
            punct('!', Spacing::Alone),
            TokenTree::from(Group::new(Delimiter::Brace, TokenStream::from(message))),
        ];
        tokens
            .into_iter()
            .map(|mut token| {
                token.set_span(self.span);
                token
            })
            .collect()
    }
}
