//! Requests that launch children.

use std::collections::BTreeMap;

use serde_json::json;

use super::{access::Need, answer::Answer, post::Post};
use crate::cluster::{Dispatch, Refusal};

type Outcome = Result<Answer, Refusal>;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Post<'_> {
    /// A launch of a parameterized job. `raw` is a body that is the payload itself.
    pub(crate) fn dispatch(&mut self, id: &str, raw: bool) -> Outcome {
        let key = self.key(id);
        let body = if raw { json!({"Payload": encode(self.body)}) } else { self.json("JobDispatchRequest")? };
        let payload = body["Payload"].as_str().filter(|payload| !payload.is_empty());
        let payload_size = match payload {
            None => 0,
            Some(text) => {
                decoded_size(text).map_err(|at| Refusal::new(400, format!("illegal base64 data at input byte {at}")))?
            }
        };
        self.caller.need(Need::Write, &key.0)?;
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let meta = body["Meta"].as_object().into_iter().flatten();
        let meta: BTreeMap<_, _> =
            meta.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        let token = self.query.get("idempotency_token").map_or_else(|| text("IdempotencyToken"), str::to_owned);
        let dispatch = Dispatch {
            payload: payload.map(str::to_owned),
            payload_size,
            meta,
            prefix: text("IdPrefixTemplate"),
            priority: body["Priority"].as_i64().unwrap_or(0),
            token,
        };
        let dispatched = self.state.dispatch(&key, dispatch, &self.caller.accessor)?;
        let eval_index = if dispatched.eval.is_empty() { 0 } else { dispatched.index };
        let json = json!({
            "DispatchedJobID": dispatched.id, "EvalID": dispatched.eval, "EvalCreateIndex": eval_index,
            "Index": dispatched.index, "JobCreateIndex": dispatched.create_index,
        });
        Ok(Answer::written(dispatched.index, json))
    }

    /// A launch of a periodic job out of turn.
    pub(crate) fn force_launch(&mut self, id: &str) -> Outcome {
        let key = self.key(id);
        self.caller.need(Need::Write, &key.0)?;
        let (eval, index) = self.state.force(&key)?;
        Ok(Answer::written(index, json!({"EvalID": eval, "EvalCreateIndex": index, "Index": index})))
    }
}

/// How many bytes a text in base64 stands for, or where it goes wrong.
fn decoded_size(text: &str) -> Result<usize, usize> {
    let digits = text.trim_end_matches('=');
    if let Some(at) = digits.bytes().position(|byte| !ALPHABET.contains(&byte)) {
        return Err(at);
    }
    if text.len().is_multiple_of(4) { Ok(digits.len() * 3 / 4) } else { Err(text.len()) }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap_or(0);
            let present = usize::try_from(digit).unwrap_or(0) <= chunk.len();
            text.push(if present { char::from(ALPHABET.get(six).copied().unwrap_or(b'=')) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everywhere() {
        for (plain, text) in [("", ""), ("h", "aA=="), ("he", "aGU="), ("hel", "aGVs"), ("hello", "aGVsbG8=")] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decoded_size(text), Ok(plain.len()));
        }
        assert_eq!(decoded_size("!!!"), Err(0));
        assert_eq!(decoded_size("aG!="), Err(2));
    }
}
