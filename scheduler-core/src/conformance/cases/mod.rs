//! The cases, by topic.

use super::Case;

mod cancel;
mod config;
mod delete;
mod diagnosis;
mod faults;
mod fields;
mod guard;
mod history;
mod job;
mod launch;
mod logs;
mod moves;
mod namespace;
mod ops;
mod owner;
mod plan;
mod replicas;
mod revision;
mod rollout;
mod route;
mod run;
mod scale;
mod schedule;
mod sequence;
mod status;
mod sweep;
mod wait;
mod watch;

/// The list of a topic: for each case its sentence, clause, id, what it needs of the backend `[…]` and of the harness
/// `{…}`, and what tries it.
macro_rules! cases {
    ($(#[doc = $about:literal] $clause:literal $id:literal $([$($feature:ident),*])? $({$($hand:ident),*})? => $body:expr;)*) => {
        pub(super) const CASES: &[$crate::conformance::Case] = &[$(
            $crate::conformance::Case {
                id: $id,
                clause: $clause,
                about: $about.trim_ascii_start(),
                needs: &[$($($crate::Feature::$feature),*)?],
                hands: &[$($($crate::conformance::Hand::$hand),*)?],
                body: |ctx| Box::pin($body(ctx)),
            },
        )*];
    };
}
use cases;

/// Every topic.
pub(super) const ALL: &[&[Case]] = &[
    owner::CASES,
    guard::CASES,
    revision::CASES,
    launch::CASES,
    replicas::CASES,
    scale::CASES,
    rollout::CASES,
    history::CASES,
    run::CASES,
    plan::CASES,
    config::CASES,
    route::CASES,
    moves::CASES,
    namespace::CASES,
    logs::CASES,
    sweep::CASES,
    schedule::CASES,
    delete::CASES,
    job::CASES,
    status::CASES,
    diagnosis::CASES,
    wait::CASES,
    watch::CASES,
    faults::CASES,
    cancel::CASES,
    ops::CASES,
    sequence::CASES,
    fields::CASES,
];
