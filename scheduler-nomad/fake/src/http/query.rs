//! What a request asks for beside its path.

use std::{borrow::Cow, time::Duration};

use crate::{cluster::Refusal, time::parse_go_duration};

/// The longest wait of a blocking query, and the one when none is given.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The decoded query of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// A blocking query: wait until the index is greater.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocking {
    pub(crate) index: u64,
    pub(crate) wait: Duration,
}

/// Which part of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) per_page: i64,
    pub(crate) next_token: String,
    pub(crate) reverse: bool,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decode = |text: &str| decode(&text.replace('+', " ")).into_owned();
        Self(
            pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (decode(k), decode(v))).collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    pub(crate) fn namespace(&self) -> &str {
        self.get("namespace").filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// Whether any server may answer, with or without a leader.
    pub(crate) fn stale(&self) -> Result<bool, Refusal> {
        match self.get("stale") {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Refusal::new(400, "Expect `true` or `false` for `stale` query string parameter")),
        }
    }

    pub(crate) fn blocking(&self) -> Result<Option<Blocking>, Refusal> {
        let wait = match self.get("wait") {
            None | Some("") => Duration::ZERO,
            Some(wait) => parse_go_duration(wait).ok_or_else(|| Refusal::new(400, "Invalid wait time"))?,
        };
        let index = match self.get("index") {
            None | Some("") => 0,
            Some(index) => index.parse().map_err(|_| Refusal::new(400, "Invalid index"))?,
        };
        let wait = if wait.is_zero() { MAX_WAIT } else { wait.min(MAX_WAIT) };
        // A server adds up to a sixteenth, so that not all come back at once.
        Ok((index > 0).then_some(Blocking { index, wait: wait + wait / 16 }))
    }

    pub(crate) fn page(&self) -> Result<Page, Refusal> {
        let wrong = |_| Refusal::new(400, "Expect a number for `per_page` query string parameter");
        let per_page = match self.get("per_page") {
            None | Some("") => 0,
            Some(number) => number.parse::<i32>().map_err(wrong)?.into(),
        };
        Ok(Page { per_page, next_token: self.text("next_token").to_owned(), reverse: self.is_true("reverse") })
    }
}

impl Page {
    /// The page of a sorted list, and the token of the next one.
    pub(crate) fn cut<T>(&self, mut items: Vec<T>, token: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
        if self.reverse {
            items.reverse();
        }
        if !self.next_token.is_empty() {
            items.retain(|item| {
                let token = token(item);
                if self.reverse { token <= self.next_token } else { token >= self.next_token }
            });
        }
        if self.per_page == 0 {
            return (items, None);
        }
        let size = usize::try_from(self.per_page).unwrap_or(0);
        let next = items.get(size).map(token);
        items.truncate(size);
        (items, next)
    }
}

/// Removes percent encoding. What is no valid encoding stays as it is.
pub(crate) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        let decoded = match (*byte, digit(bytes.get(position + 1)), digit(bytes.get(position + 2))) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        out.push(decoded.unwrap_or(*byte));
        position += if decoded.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}
