// HTTP with JSON: `sys/http.request@1`.

import { Json } from "./json";
import { parseJson } from "./json_reader";
import { HttpRequestEffect, HttpRequestParams, HttpRequestReceipt, TextOrSecretRef } from "./system";

/** A POST of a JSON document, with its content type. Further headers go into `params.headers`. */
export function postJson(url: string, body: Json): HttpRequestEffect {
  const headers = new Map<string, TextOrSecretRef>();
  headers.set("content-type", TextOrSecretRef.literal("application/json"));
  return new HttpRequestEffect(new HttpRequestParams("POST", url, headers, null, body.bytes));
}

/**
 * The body as a JSON document, whatever the status and the content type. A response without a body, or with a large
 * one that is only in `body_ref`, has a `problem` as empty bytes do.
 */
export function responseJson(response: HttpRequestReceipt): Json {
  const body = response.body;
  return parseJson(body === null ? new Uint8Array(0) : body);
}
