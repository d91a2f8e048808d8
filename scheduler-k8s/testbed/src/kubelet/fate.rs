//! What the name of an image says about the container that runs it. The grammar is on the crate's page.

use std::time::Duration;

/// What becomes of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// Runs until it is told to stop.
    Run,
    /// Is pulled for that long, then runs.
    Slow(Duration),
    /// Cannot be pulled.
    PullError,
    /// Has a name that no registry would take.
    InvalidImage,
    /// Ends like this after that long.
    Ends(Duration, Exit),
    /// Runs without ever passing a probe.
    NeverReady,
    /// Runs, and ignores SIGTERM.
    Stubborn,
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) reason: &'static str,
}

impl Exit {
    /// Ended by itself.
    pub(super) fn code(code: i32) -> Self {
        Self { code, signal: None, reason: if code == 0 { "Completed" } else { "Error" } }
    }

    /// Was asked to stop in the middle of its work, and did: what a shell reports of a SIGTERM.
    pub(super) fn interrupted() -> Self {
        Self::code(143)
    }

    /// Was killed from outside, or by its own fault.
    pub(super) fn signal(signal: i32) -> Self {
        Self { code: 128 + signal, signal: Some(signal), reason: "Error" }
    }

    /// Was killed by the kernel for the memory that it took.
    pub(super) fn out_of_memory() -> Self {
        Self { reason: "OOMKilled", ..Self::signal(9) }
    }

    /// Was killed by the kubelet when its grace was over. A container runtime reports the code alone.
    pub(super) fn killed() -> Self {
        Self::code(137)
    }
}

/// The parameters of a fate, each given at most once.
#[derive(Default)]
struct Parameters {
    after: Option<Duration>,
    exit: Option<i32>,
    signal: Option<i32>,
}

impl Fate {
    /// Reads the name of an image.
    pub(super) fn of(image: &str) -> Self {
        match image.strip_prefix("sim/") {
            Some(rest) => Self::parse(rest).unwrap_or(Self::InvalidImage),
            None => Self::Run,
        }
    }

    fn parse(rest: &str) -> Option<Self> {
        let untagged = rest.split([':', '@']).next()?;
        let mut parts = untagged.split('/');
        let fate = parts.next()?;
        let parameters = Parameters::parse(parts)?;
        let after = parameters.after.unwrap_or(Duration::from_secs(1));
        match (fate, parameters) {
            ("run", Parameters { after: None, exit: None, signal: None }) => Some(Self::Run),
            ("slow", Parameters { exit: None, signal: None, .. }) => Some(Self::Slow(after)),
            ("pull-error", Parameters { after: None, exit: None, signal: None }) => Some(Self::PullError),
            ("never-ready", Parameters { after: None, exit: None, signal: None }) => Some(Self::NeverReady),
            ("stubborn", Parameters { after: None, exit: None, signal: None }) => Some(Self::Stubborn),
            ("done", Parameters { exit, signal: None, .. }) => Some(Self::Ends(after, Exit::code(exit.unwrap_or(0)))),
            ("oom", Parameters { exit: None, signal: None, .. }) => Some(Self::Ends(after, Exit::out_of_memory())),
            ("crash", Parameters { exit, signal: None, .. }) => Some(Self::Ends(after, Exit::code(exit.unwrap_or(1)))),
            ("crash", Parameters { exit: None, signal: Some(signal), .. }) => {
                Some(Self::Ends(after, Exit::signal(signal)))
            }
            _ => None,
        }
    }
}

impl Parameters {
    fn parse<'a>(parts: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut parameters = Self::default();
        for part in parts {
            let (name, number) = part.split_once('-')?;
            let number: u16 = number.parse().ok()?;
            let given_before = match name {
                "after" => parameters.after.replace(Duration::from_secs(number.into())).is_some(),
                "exit" if number <= 255 => parameters.exit.replace(number.into()).is_some(),
                "signal" if (1..=64).contains(&number) => parameters.signal.replace(number.into()).is_some(),
                _ => return None,
            };
            if given_before {
                return None;
            }
        }
        Some(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let seconds = Duration::from_secs;
        let error = |code, signal| Exit { code, signal, reason: "Error" };
        let oom = Exit { code: 137, signal: Some(9), reason: "OOMKilled" };
        let completed = Exit { code: 0, signal: None, reason: "Completed" };
        for (image, fate) in [
            ("sim/run", Fate::Run),
            ("sim/run:2", Fate::Run),
            ("sim/run@sha256:0123", Fate::Run),
            ("nginx:1.29", Fate::Run),
            ("registry.example.com/sim/crash", Fate::Run),
            ("sim/slow/after-3:1", Fate::Slow(seconds(3))),
            ("sim/pull-error", Fate::PullError),
            ("sim/invalid-image:1", Fate::InvalidImage),
            ("sim/crash", Fate::Ends(seconds(1), error(1, None))),
            ("sim/crash/after-5", Fate::Ends(seconds(5), error(1, None))),
            ("sim/crash/exit-7:a", Fate::Ends(seconds(1), error(7, None))),
            ("sim/crash/after-0/exit-0", Fate::Ends(seconds(0), completed)),
            ("sim/crash/after-2/signal-11", Fate::Ends(seconds(2), error(139, Some(11)))),
            ("sim/done", Fate::Ends(seconds(1), completed)),
            ("sim/done/after-0:2", Fate::Ends(seconds(0), completed)),
            ("sim/done/after-2/exit-4", Fate::Ends(seconds(2), error(4, None))),
            ("sim/oom", Fate::Ends(seconds(1), oom)),
            ("sim/oom/after-4", Fate::Ends(seconds(4), oom)),
            ("sim/never-ready:x", Fate::NeverReady),
            ("sim/stubborn", Fate::Stubborn),
        ] {
            assert_eq!(Fate::of(image), fate, "{image}");
        }
    }

    #[test]
    fn what_is_not_in_the_grammar_is_an_invalid_image() {
        for image in [
            "sim/",
            "sim/fly",
            "sim/run/after-1",
            "sim/crash/often-2",
            "sim/crash/after-",
            "sim/crash/after-x",
            "sim/crash/after-1/after-2",
            "sim/crash/exit-1/signal-9",
            "sim/crash/exit-256",
            "sim/crash/signal-0",
            "sim/oom/exit-1",
            "sim/done/signal-9",
            "sim/slow/after-1/",
            "sim/slow/after--1",
            "sim/pull-error/after-1",
        ] {
            assert_eq!(Fate::of(image), Fate::InvalidImage, "{image}");
        }
    }
}
