//! What becomes of a task. No program runs: the driver and its configuration decide.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::{job::Task, time::parse_go_duration};

/// The drivers that every node has.
pub(crate) const DRIVERS: [&str; 6] = ["docker", "exec", "java", "mock_driver", "podman", "raw_exec"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How long the start takes.
    pub(crate) start_takes: Duration,
    pub(crate) start: Start,
    /// When and how it ends by itself.
    pub(crate) ends: Option<(Duration, Exit)>,
    /// How it ends when it is told to. None: it does not.
    pub(crate) obeys: Option<Exit>,
    /// Its checks pass.
    pub(crate) passes_checks: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    Works,
    /// It fails; another attempt may help.
    Fails(String),
    /// It fails for good.
    Impossible(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i64,
    pub(crate) signal: i64,
    pub(crate) oom: bool,
}

impl Exit {
    /// How a task ends that is killed after its kill timeout.
    pub(crate) const KILLED: Self = Self { code: 137, signal: 9, oom: false };
    /// How a program ends that does nothing about an interrupt.
    const INTERRUPTED: Self = Self { code: 130, signal: 2, oom: false };
}

impl Default for Fate {
    fn default() -> Self {
        Self {
            start_takes: Duration::ZERO,
            start: Start::Works,
            ends: None,
            obeys: Some(Exit::default()),
            passes_checks: true,
        }
    }
}

impl Fate {
    pub(crate) fn of(task: &Task) -> Self {
        let text = |key: &str| task.config.get(key).and_then(Value::as_str);
        match task.driver.as_str() {
            "docker" | "podman" => text("image").map_or_else(Self::default, Self::of_image),
            "mock_driver" => {
                let number = |key: &str| task.config.get(key).and_then(Value::as_f64).map_or(0, whole);
                let duration = |key: &str| text(key).and_then(parse_go_duration);
                let exit = Exit { code: number("exit_code"), signal: number("exit_signal"), oom: false };
                let start = match text("start_error") {
                    None => Start::Works,
                    Some(why) if task.config.get("start_error_recoverable") == Some(&Value::Bool(true)) => {
                        Start::Fails(why.to_owned())
                    }
                    Some(why) => Start::Impossible(why.to_owned()),
                };
                Self {
                    start_takes: duration("start_block_for").unwrap_or_default(),
                    start,
                    ends: Some((duration("run_for").unwrap_or_default(), exit)),
                    ..Self::default()
                }
            }
            _ => Self { obeys: Some(Exit::INTERRUPTED), ..Self::default() },
        }
    }

    /// The fate that the name of an image says. See the crate's page.
    fn of_image(image: &str) -> Self {
        let Some(path) = image.strip_prefix("sim/") else { return Self::default() };
        // The tag is after the last colon, and no part of the fate.
        let path = path.rsplit_once(':').map_or(path, |(path, _)| path);
        let mut parts = path.split('/');
        let fate = parts.next().unwrap_or_default();
        let numbered = |part: &str| {
            let (name, number) = part.rsplit_once('-')?;
            Some((name.to_owned(), number.parse::<u32>().ok()?))
        };
        let parameters: Option<BTreeMap<_, _>> = parts.map(numbered).collect();
        let allowed: &[&str] = match fate {
            "slow" | "oom" => &["after"],
            "done" => &["after", "exit"],
            "crash" => &["after", "exit", "signal"],
            _ => &[],
        };
        let parameters = parameters.filter(|all| all.keys().all(|name| allowed.contains(&name.as_str())));
        let Some(parameters) = parameters else { return Self::invalid(image) };
        let number = |name: &str| parameters.get(name).copied();
        let after = Duration::from_secs(number("after").unwrap_or(1).into());
        match fate {
            "run" => Self::default(),
            "slow" => Self { start_takes: after, ..Self::default() },
            "pull-error" => {
                let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
                let why = format!("API error (404): pull access denied for {name}, repository does not exist");
                Self::not_pulled(image, &why)
            }
            "crash" => {
                let exit = match number("signal") {
                    Some(signal) => Exit { code: i64::from(signal) + 128, signal: signal.into(), oom: false },
                    None => Exit { code: number("exit").unwrap_or(1).into(), ..Exit::default() },
                };
                Self { ends: Some((after, exit)), ..Self::default() }
            }
            "done" => {
                let exit = Exit { code: number("exit").unwrap_or(0).into(), ..Exit::default() };
                Self { ends: Some((after, exit)), ..Self::default() }
            }
            "oom" => Self { ends: Some((after, Exit { oom: true, ..Exit::KILLED })), ..Self::default() },
            "never-ready" => Self { passes_checks: false, ..Self::default() },
            "stubborn" => Self { obeys: None, ..Self::default() },
            _ => Self::invalid(image),
        }
    }

    fn invalid(image: &str) -> Self {
        Self::not_pulled(image, "API error (400): invalid reference format")
    }

    fn not_pulled(image: &str, why: &str) -> Self {
        Self { start: Start::Fails(format!("Failed to pull `{image}`: {why}")), ..Self::default() }
    }
}

/// Exit codes and signals are small; what is not is as good as none.
#[expect(clippy::cast_possible_truncation, reason = "a float is cut to the nearest integer, which is what is wanted")]
fn whole(number: f64) -> i64 {
    number as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_its_fate() {
        let run = Fate::default();
        for image in ["nginx", "nginx:1.27", "registry:5000/sim/crash", "sim/run", "sim/run:7"] {
            assert_eq!(Fate::of_image(image), run, "{image}");
        }
        let crash = |seconds, code, signal, oom| Fate {
            ends: Some((Duration::from_secs(seconds), Exit { code, signal, oom })),
            ..Fate::default()
        };
        assert_eq!(Fate::of_image("sim/crash"), crash(1, 1, 0, false));
        assert_eq!(Fate::of_image("sim/crash/after-20/exit-3:2"), crash(20, 3, 0, false));
        assert_eq!(Fate::of_image("sim/crash/signal-11"), crash(1, 139, 11, false));
        assert_eq!(Fate::of_image("sim/oom/after-4"), crash(4, 137, 9, true));
        assert_eq!(Fate::of_image("sim/done"), crash(1, 0, 0, false));
        assert_eq!(Fate::of_image("sim/done/after-2/exit-4:9"), crash(2, 4, 0, false));
        assert_eq!(Fate::of_image("sim/slow/after-3").start_takes, Duration::from_secs(3));
        assert!(Fate::of_image("sim/stubborn:1").obeys.is_none());
        assert!(!Fate::of_image("sim/never-ready").passes_checks);
        assert!(matches!(Fate::of_image("sim/pull-error").start, Start::Fails(_)));
        for image in ["sim/invalid-image", "sim/dance", "sim/run/after-1", "sim/crash/after-x", "sim/crash/before-1"] {
            let invalid = Start::Fails(format!("Failed to pull `{image}`: API error (400): invalid reference format"));
            assert_eq!(Fate::of_image(image).start, invalid);
        }
    }
}
