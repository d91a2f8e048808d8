//! Requests about the registrations of services.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{access::Need, answer::Answer, post::Post, read::Look};
use crate::cluster::{Refusal, Registration};

type Outcome = Result<Answer, Refusal>;

impl Look<'_> {
    /// The names of all services, with all their tags.
    pub(crate) fn services(&self) -> Outcome {
        let namespace = self.query.namespace();
        self.caller.need_list(namespace)?;
        let mut named: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
        for of in self.state.services.values() {
            if of.namespace == namespace || (namespace == "*" && self.caller.may(Need::Read, &of.namespace)) {
                let tags = named.entry(&of.namespace).or_default().entry(&of.service).or_default();
                for tag in of.tags.iter().map(String::as_str) {
                    if !tags.contains(&tag) {
                        tags.push(tag);
                    }
                }
            }
        }
        let json: Vec<_> = named
            .into_iter()
            .map(|(namespace, services)| {
                let services = services.into_iter().map(|(name, tags)| json!({"ServiceName": name, "Tags": tags}));
                json!({"Namespace": namespace, "Services": services.collect::<Vec<_>>()})
            })
            .collect();
        Ok(Answer::json(self.state.tables.services, json))
    }

    /// The registrations of one service.
    pub(crate) fn service(&self, name: &str) -> Outcome {
        let namespace = self.query.namespace();
        self.caller.need(Need::Read, namespace)?;
        let all = self.registrations(|of| of.service == name && of.namespace == namespace);
        let mut kept = Vec::new();
        let filter = self.filter()?;
        for item in all {
            if filter.as_ref().map_or(Ok(true), |filter| filter.accepts(&item))? {
                kept.push(item);
            }
        }
        if let Some(choose) = self.query.get("choose") {
            let parts = choose.split_once('|').and_then(|(count, key)| Some((count.parse::<usize>().ok()?, key)));
            let Some((count, key)) = parts else {
                let why = "Parameter for choose must be in form '<number>|<key>'";
                return Err(Refusal::new(400, format!("failed to choose services: {why}")));
            };
            // Always the same for a key: those whose ID and the key have the least in common with others.
            kept.sort_by_key(|item| weight(item["ID"].as_str().unwrap_or_default(), key));
            kept.truncate(count);
        }
        let id = |item: &Value| format!("{namespace}.{}", item["ID"].as_str().unwrap_or_default());
        let (kept, next) = self.query.page()?.cut(kept, id);
        Ok(Answer::json(self.state.tables.services, kept).next(next))
    }

    pub(crate) fn registrations(&self, wanted: impl Fn(&Registration) -> bool) -> Vec<Value> {
        let all = self.state.services.iter().filter(|(_, of)| wanted(of));
        all.map(|(id, of)| of.to_json(id)).collect()
    }
}

impl Post<'_> {
    /// Removes a registration: `<service>/<id>`.
    pub(crate) fn delete_service(&mut self, rest: &str) -> Outcome {
        let (name, id) = rest.split_once('/').unwrap_or((rest, ""));
        let namespace = self.query.namespace();
        self.caller.need(Need::Write, namespace)?;
        let index = self.state.delete_service(namespace, name, id);
        index.map(Answer::empty).ok_or_else(|| Refusal::new(500, "service registration not found"))
    }
}

/// A number that depends on both texts (FNV-1a).
fn weight(id: &str, key: &str) -> u64 {
    let bytes = id.bytes().chain(key.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
