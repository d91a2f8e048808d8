//! Plays the requests of a recording against a fake, in their order, and compares the answers.

use std::{collections::BTreeMap, path::Path, time::Duration};

use scheduler_nomad_fake::{FakeNomad, Node, Options, Pace};
use serde_json::{Value, json};

use crate::{
    compare::{Mapping, compare},
    support::{Answer, Http},
};

/// How far the clock is moved to see the next state.
const STEP: Duration = Duration::from_millis(4);
/// How much later than recorded a state may come.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Player {
    pub(crate) nomad: FakeNomad,
    http: Http,
    pub(crate) mapping: Mapping,
    exchanges: Vec<Value>,
    /// Milliseconds by the cluster's clock.
    now: u64,
    played: usize,
    /// The token of what a test asks beside the recording.
    pub(crate) secret: Option<String>,
    left_out: BTreeMap<usize, &'static str>,
    file: String,
}

impl Player {
    pub(crate) fn new(file: &str) -> Self {
        Self::with(file, |options| options)
    }

    pub(crate) fn with(file: &str, options: impl FnOnce(Options) -> Options) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let recording: Value = serde_json::from_str(&text).expect("recordings are JSON");
        let node = Node::new("node-1").cpu(40_000).memory_mb(24_000);
        let options = options(Options::default().nodes([node]).pace(Pace::Manual));
        let nomad = FakeNomad::start(options).expect("a fake starts");
        Self {
            http: Http::new(nomad.address()),
            nomad,
            mapping: Mapping::default(),
            exchanges: recording["exchanges"].as_array().expect("a list of exchanges").clone(),
            now: 0,
            played: 0,
            secret: None,
            left_out: BTreeMap::new(),
            file: file.to_owned(),
        }
    }

    /// A recording in which other jobs were written at the same time, so that indexes are shared in ways that no two
    /// runs have in common.
    pub(crate) fn loose_indexes(mut self) -> Self {
        self.mapping.loose_indexes = true;
        self
    }

    pub(crate) fn exchange(&self, position: usize) -> &Value {
        &self.exchanges[position]
    }

    /// Changes what is sent. The recorder wrote some bodies down only after the scenario had changed them for a later
    /// request.
    pub(crate) fn correct(&mut self, position: usize, correct: impl FnOnce(&mut Value)) {
        correct(&mut self.exchanges[position]["request"]["body"]);
    }

    /// Sends the job that was read after a registration as that registration.
    pub(crate) fn register_what_is_read_at(&mut self, registration: usize, read: usize) {
        let job = self.exchanges[read]["response"]["body"].clone();
        self.exchanges[registration]["request"]["body"]["Job"] = job;
    }

    /// Changes every exchange, what is sent and what is expected.
    pub(crate) fn rewrite(&mut self, rewrite: impl Fn(&mut Value)) {
        self.exchanges.iter_mut().for_each(rewrite);
    }

    /// Learns the ID of something that the recording names before it is read: that of the first item of a list.
    pub(crate) async fn learn(&mut self, recorded: &str, list: &str) {
        self.learn_which(recorded, list, |items| items.first().cloned()).await;
    }

    /// The same of the item that was made last.
    pub(crate) async fn learn_newest(&mut self, recorded: &str, list: &str) {
        let newest = |items: Vec<Value>| items.into_iter().max_by_key(|item| item["CreateIndex"].as_u64());
        self.learn_which(recorded, list, newest).await;
    }

    /// The same of the item with this name.
    pub(crate) async fn learn_named(&mut self, recorded: &str, list: &str, name: &str) {
        let named = |items: Vec<Value>| items.into_iter().find(|item| item["Name"] == name);
        self.learn_which(recorded, list, named).await;
    }

    async fn learn_which(&mut self, recorded: &str, list: &str, which: impl FnOnce(Vec<Value>) -> Option<Value>) {
        let mut http = self.http.clone();
        http.token.clone_from(&self.secret);
        let answer = http.get(list).await.json();
        let item = which(answer.as_array().expect("a list").clone()).expect("an item");
        self.mapping.learn_id(recorded, item["ID"].as_str().expect("an ID"));
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.nomad.advance(by);
        self.now += u64::try_from(by.as_millis()).expect("a short time");
    }

    /// Lets the clients tell for the first time of an allocation so many milliseconds after the scenario begins. They do
    /// that once a second, and a recording shows whether it was sooner or later.
    pub(crate) fn beat_after(&self, milliseconds: u64) {
        self.nomad.advance(Duration::from_millis(1000 - milliseconds));
    }

    /// Moves the clock to a time of the recording.
    pub(crate) fn advance_to(&mut self, at: u64) {
        self.advance(Duration::from_millis(at.saturating_sub(self.now)));
    }

    /// A request that the recording does not list, because it only prepared something.
    pub(crate) async fn prepare(&self, method: &str, path: &str, body: Value) {
        self.http.write(method, path, body).await;
    }

    /// Registers the job that an exchange read: what the server set in it is ignored.
    pub(crate) async fn prepare_job_read_at(&self, position: usize) {
        let job = self.exchanges[position]["response"]["body"].clone();
        self.prepare("PUT", "/v1/jobs", json!({"Job": job})).await;
    }

    /// Leaves exchanges out, with the reason.
    pub(crate) fn leave_out(&mut self, positions: impl IntoIterator<Item = usize>, reason: &'static str) {
        self.left_out.extend(positions.into_iter().map(|position| (position, reason)));
    }

    /// Plays the exchanges from the last one played up to this one, this one excluded.
    pub(crate) async fn play_to(&mut self, end: usize) {
        while self.played < end {
            if !self.left_out.contains_key(&self.played) {
                self.play(self.played).await;
            }
            self.played += 1;
        }
    }

    /// Plays what is left, and says what was not played.
    #[expect(clippy::print_stdout, reason = "the report of a test")]
    pub(crate) async fn play_all(mut self) -> Self {
        self.play_to(self.exchanges.len()).await;
        let (all, left_out) = (self.exchanges.len(), self.left_out.len());
        println!("{}: {} of {all} exchanges replayed", self.file, all - left_out);
        for (position, reason) in &self.left_out {
            let request = &self.exchanges[*position]["request"];
            println!("  left out: {position} {} {}: {reason}", request["method"], request["path"]);
        }
        self
    }

    async fn play(&mut self, position: usize) {
        let exchange = self.exchanges[position].clone();
        let (request, recorded) = (&exchange["request"], &exchange["response"]);
        let method = request["method"].as_str().expect("a method");
        let at = exchange["at_ms"].as_u64().unwrap_or(0);
        let path = self.path(request);
        let reads = method == "GET" || path.starts_with("/v1/jobs/statuses");
        // The recorder waited without saying so. What reads is not played at its very time, lest it miss a state.
        let early = if reads { 1000 } else { 0 };
        if at > self.now + early {
            self.advance(Duration::from_millis(at - self.now - early));
        }
        let headers: Vec<_> = request["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), self.mapping.text(value.as_str().expect("a header"))))
            .collect();
        let body = self.body(&request["body"]);
        let note = exchange["note"].as_str().unwrap_or("");
        if path.starts_with("/v1/event/stream") && recorded["body"].is_array() {
            return self.play_stream(position, &path, &headers).await;
        }
        let started = self.now.max(at);
        let limit = if reads { started + u64::try_from(PATIENCE.as_millis()).expect("short") } else { self.now };
        let mut misses: Vec<String> = Vec::new();
        loop {
            let answer = self.http.send(method, &path, &headers, body.clone()).await;
            match self.check(recorded, &answer, method) {
                Ok(learned) => {
                    self.mapping = learned;
                    return;
                }
                Err(why) if self.now >= limit => {
                    misses.push(why);
                    misses.dedup();
                    let misses = misses.join("\n  then: ");
                    panic!("exchange {position} ({note}): {method} {path}\n  at first: {misses}");
                }
                Err(why) => misses.push(why),
            }
            // Long after the recorded time there is no hurry to see every state.
            let step = if self.now > started + 2000 { STEP * 12 } else { STEP };
            self.advance(step);
        }
    }

    /// A stream is compared line by line, up to the next heartbeat.
    async fn play_stream(&mut self, position: usize, path: &str, headers: &[(String, String)]) {
        let recorded = &self.exchanges[position]["response"];
        let tick = || self.nomad.advance(Duration::from_secs(31));
        let (status, mut lines) = self.http.lines(path, headers, tick).await;
        let mut wanted = recorded["body"].as_array().expect("lines").clone();
        assert_eq!(recorded["status"], status, "exchange {position}");
        for lines in [&mut lines, &mut wanted] {
            for line in lines.iter_mut() {
                // Events of nodes are cut down in the recordings, and not sent here.
                if let Some(events) = line.get_mut("Events").and_then(Value::as_array_mut) {
                    events.retain(|event| event["Topic"] != "Node");
                }
            }
            // Heartbeats beyond the first, and lines of which nothing is left.
            lines.retain(|line| line.get("Events").is_none_or(|events| events != &json!([])));
            let mut first = true;
            lines.retain(|line| line != &json!({}) || std::mem::take(&mut first));
        }
        match compare(&Value::Array(wanted), &Value::Array(lines), &self.mapping) {
            Ok(learned) => self.mapping = learned,
            Err(why) => panic!("exchange {position}: {path}: {why}"),
        }
    }

    fn path(&self, request: &Value) -> String {
        let path = self.mapping.text(request["path"].as_str().expect("a path"));
        let pair = |key: &str, value: &str| {
            let value = match key {
                "index" | "cas" => self.mapping.text(value),
                "prefix" => self.mapping.id_prefix(value).unwrap_or_else(|| value.to_owned()),
                _ => value.to_owned(),
            };
            format!("{key}={}", encode(&value))
        };
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let query: Vec<_> = match &request["query"] {
            Value::Object(query) => query.iter().map(|(key, value)| pair(key, &text(value))).collect(),
            Value::Array(query) => query.iter().map(|both| pair(&text(&both[0]), &text(&both[1]))).collect(),
            _ => Vec::new(),
        };
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    fn body(&self, body: &Value) -> Vec<u8> {
        match body {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            body => {
                let mut body = body.clone();
                if let Some(index) = body["JobModifyIndex"].as_u64() {
                    body["JobModifyIndex"] = json!(self.mapping.index(index));
                }
                let mut text = body.to_string();
                // IDs of what was made before.
                if ["DeploymentID", "/periodic-", "/dispatch-"].iter().any(|id| text.contains(id)) {
                    text = self.mapping.text(&text);
                }
                text.into_bytes()
            }
        }
    }

    fn check(&self, recorded: &Value, answer: &Answer, method: &str) -> Result<Mapping, String> {
        let status = u64::from(answer.status);
        if recorded["status"] != status {
            return Err(format!("recorded status {}, seen {status}: {}", recorded["status"], answer.text));
        }
        for name in ["Content-Type", "X-Nomad-Index", "X-Nomad-Knownleader", "X-Nomad-Nexttoken", "Location"] {
            let seen = answer.headers.get(name).map(|value| value.to_str().expect("a text").to_owned());
            let there = recorded["headers"][name].as_str();
            // Go says of an empty 405 to a HEAD that it is text.
            let exact = (name != "X-Nomad-Index" && method != "HEAD").then_some(there).flatten();
            if there.is_some() != seen.is_some() && method != "HEAD"
                || exact.is_some_and(|exact| Some(self.mapping.text(exact)) != seen && Some(exact) != seen.as_deref())
            {
                return Err(format!("the header {name}: recorded {there:?}, seen {seen:?}"));
            }
        }
        match &recorded["body"] {
            // JSON that is sent as a text.
            Value::String(text) if text.starts_with('{') && answer.text.starts_with('{') => {
                let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
                compare(&parse(text), &parse(&answer.text), &self.mapping)
            }
            Value::String(text) if text.starts_with('[') && text.ends_with(']') => Ok(self.mapping.clone()),
            Value::String(text) if !answer.text.starts_with('"') => {
                let wanted = self.mapping.text(text);
                if wanted == answer.text {
                    Ok(self.mapping.clone())
                } else {
                    Err(format!("recorded {wanted:?}, seen {:?}", answer.text))
                }
            }
            body => compare(body, &answer.json(), &self.mapping),
        }
    }
}

/// No program runs here that could ignore a signal; an image says that it does.
pub(crate) fn stubborn(value: &mut Value) {
    match value {
        Value::Object(map) if map.get("Driver") == Some(&json!("raw_exec")) => {
            map.insert("Driver".to_owned(), json!("docker"));
            map.insert("Config".to_owned(), json!({"image": "sim/stubborn"}));
        }
        Value::Object(map) => map.values_mut().for_each(stubborn),
        Value::Array(list) => list.iter_mut().for_each(stubborn),
        _ => {}
    }
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
