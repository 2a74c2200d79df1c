//! HTTP: `sys/http.request@1`. The node says which hosts may be reached.
//!
//! ```
//! # use aos_sdk::prelude::*;
//! # #[derive(Schema, Default)] #[schema("demo/State@1")]
//! # struct State { page: Pending<http::Request> }
//! fn fetch(state: &mut State, cx: &mut Context) {
//!     let request = http::get("https://example.com/")
//!         .header("accept", "text/plain")
//!         .secret_header("authorization", "demo/token", 1);
//!     state.page = cx.effect(request).start();
//! }
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::Misfit;
use crate::json;
use crate::sys::{SecretRef, TextOrSecretRef};
use crate::types::{Hash, Map};
use crate::{Effect, Schema};

#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/http.request@1", receipt = Response, executor = "node", params = "sys/HttpRequestParams@1")]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Map<String, TextOrSecretRef>,
    /// A blob to send, instead of `body`.
    pub body_ref: Option<Hash>,
    pub body: Option<Vec<u8>>,
}

/// A request of any method.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    Request {
        method: method.into(),
        url: url.into(),
        headers: Map::default(),
        body_ref: None,
        body: None,
    }
}

pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

pub fn post(url: impl Into<String>, body: impl Into<Vec<u8>>) -> Request {
    request("POST", url).body(body)
}

/// A POST of a JSON document, with its content type.
///
/// ```
/// use aos_sdk::prelude::*;
///
/// let request = http::post_json("https://example.com/charges", json!({"cents": 1250}));
/// assert_eq!(request.body.as_deref(), Some(br#"{"cents":1250}"#.as_slice()));
/// ```
pub fn post_json(url: impl Into<String>, body: json::Value) -> Request {
    post(url, body).header("content-type", "application/json")
}

impl Request {
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.insert(name.into(), TextOrSecretRef::Literal(value.into()));
        self
    }

    /// A header whose value is the secret `alias@version` of the manifest.
    pub fn secret_header(
        mut self,
        name: impl Into<String>,
        alias: impl Into<String>,
        version: u64,
    ) -> Request {
        let secret = SecretRef { alias: alias.into(), version };
        self.headers.insert(name.into(), TextOrSecretRef::Secret(secret));
        self
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Request {
        Request { body: Some(body.into()), ..self }
    }

    pub fn body_ref(self, blob: Hash) -> Request {
        Request { body_ref: Some(blob), ..self }
    }
}

/// Any status is an answer, 404 too: the outcome is `Ok`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HttpRequestReceipt@1")]
pub struct Response {
    pub status: i64,
    pub headers: Map<String, String>,
    /// Where a large body is kept.
    pub body_ref: Option<Hash>,
    pub body: Option<Vec<u8>>,
    pub timings: Timings,
}

impl Response {
    /// The body as a JSON document, whatever the status and the content type. A response without a
    /// body, or with a large one that is only in `body_ref`, is a misfit as empty bytes are.
    pub fn json(&self) -> Result<json::Value, Misfit> {
        json::parse(self.body.as_deref().unwrap_or_default())
    }
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct Timings {
    pub start_ns: u64,
    pub end_ns: u64,
}
