//! What becomes of a container, by the name of its image.

use std::fmt;

/// What becomes of a container in a simulation.
///
/// A simulated node reads it from the image's name, `sim/<fate>{/<parameter>-<n>}[:tag]`, so that a workload file needs
/// nothing else, and the tag stays free for updates: `sim/run:1` and `sim/run:2` have one fate. Every other image
/// [runs](Self::Run), and in a job ends well after a second.
///
/// ```
/// use scheduler_core::memory::Fate;
/// let image = Fate::Crash { after: 2, exit_code: 3 }.image("7");
/// assert_eq!(image, "sim/crash/after-2/exit-3:7");
/// assert_eq!(Fate::of_image(&image), Fate::Crash { after: 2, exit_code: 3 });
/// assert_eq!(Fate::of_image("registry.example/shop/web:1"), Fate::Run);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It starts, passes its probes, and stops at once when asked to.
    Run,
    /// It is pulled for so many seconds, then runs.
    Slow {
        /// How long the pull takes, in seconds.
        after: u32,
    },
    /// Its image can never be pulled.
    PullError,
    /// Its image reference is not one.
    InvalidImage,
    /// It ends by itself again and again.
    Crash {
        /// How long it runs each time, in seconds.
        after: u32,
        /// With which exit code it ends.
        exit_code: u8,
    },
    /// It is killed by a signal again and again.
    Killed {
        /// How long it runs each time, in seconds.
        after: u32,
        /// By which signal.
        signal: u8,
    },
    /// It is killed for using too much memory, again and again.
    OutOfMemory {
        /// How long it runs each time, in seconds.
        after: u32,
    },
    /// It runs to its end. In a job that is what it is for; in a service it is started again, as after a
    /// [crash](Self::Crash).
    Done {
        /// How long it runs, in seconds.
        after: u32,
        /// With which exit code it ends.
        exit_code: u8,
    },
    /// It runs, and its readiness or startup probe never passes. Without such a probe it runs.
    NeverReady,
    /// It runs, and ignores being asked to stop: it takes the whole termination grace.
    Stubborn,
}

impl Fate {
    /// The image name that stands for it.
    #[must_use]
    pub fn image(self, tag: &str) -> String {
        format!("sim/{self}:{tag}")
    }

    /// The fate of an image. What stands under `sim/` and is not understood is an [invalid image](Self::InvalidImage).
    #[must_use]
    pub fn of_image(image: &str) -> Self {
        let Some(rest) = image.strip_prefix("sim/") else { return Self::Run };
        let path = rest.split_once(':').map_or(rest, |(path, _)| path);
        Self::parse(path).unwrap_or(Self::InvalidImage)
    }

    /// Whether an image's name says which fate it has.
    pub(super) fn is_named_by(image: &str) -> bool {
        image.starts_with("sim/")
    }

    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let fate = parts.next()?;
        let (mut after, mut exit, mut signal) = (None, None, None);
        for part in parts {
            let (name, number) = part.split_once('-')?;
            let slot = match name {
                "after" => &mut after,
                "exit" => &mut exit,
                "signal" => &mut signal,
                _ => return None,
            };
            if slot.replace(number.parse::<u32>().ok()?).is_some() {
                return None;
            }
        }
        let seconds = after.unwrap_or(1);
        match (fate, after, exit, signal) {
            ("run", None, None, None) => Some(Self::Run),
            ("slow", _, None, None) => Some(Self::Slow { after: seconds }),
            ("pull-error", None, None, None) => Some(Self::PullError),
            ("invalid-image", None, None, None) => Some(Self::InvalidImage),
            ("crash", _, None, Some(signal)) => Some(Self::Killed { after: seconds, signal: signal.try_into().ok()? }),
            ("crash", _, exit, None) => {
                Some(Self::Crash { after: seconds, exit_code: exit.unwrap_or(1).try_into().ok()? })
            }
            ("done", _, exit, None) => {
                Some(Self::Done { after: seconds, exit_code: exit.unwrap_or(0).try_into().ok()? })
            }
            ("oom", _, None, None) => Some(Self::OutOfMemory { after: seconds }),
            ("never-ready", None, None, None) => Some(Self::NeverReady),
            ("stubborn", None, None, None) => Some(Self::Stubborn),
            _ => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("run"),
            Self::Slow { after } => write!(f, "slow/after-{after}"),
            Self::PullError => f.write_str("pull-error"),
            Self::InvalidImage => f.write_str("invalid-image"),
            Self::Crash { after, exit_code } => write!(f, "crash/after-{after}/exit-{exit_code}"),
            Self::Killed { after, signal } => write!(f, "crash/after-{after}/signal-{signal}"),
            Self::Done { after, exit_code } => write!(f, "done/after-{after}/exit-{exit_code}"),
            Self::OutOfMemory { after } => write!(f, "oom/after-{after}"),
            Self::NeverReady => f.write_str("never-ready"),
            Self::Stubborn => f.write_str("stubborn"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fate;

    #[test]
    fn every_fate_is_read_from_its_image() {
        for fate in [
            Fate::Run,
            Fate::Slow { after: 30 },
            Fate::PullError,
            Fate::InvalidImage,
            Fate::Crash { after: 0, exit_code: 255 },
            Fate::Killed { after: 1, signal: 9 },
            Fate::Done { after: 3, exit_code: 7 },
            Fate::OutOfMemory { after: 2 },
            Fate::NeverReady,
            Fate::Stubborn,
        ] {
            assert_eq!(Fate::of_image(&fate.image("x")), fate);
        }
        assert_eq!(Fate::of_image("sim/crash"), Fate::Crash { after: 1, exit_code: 1 });
        assert_eq!(Fate::of_image("sim/done"), Fate::Done { after: 1, exit_code: 0 });
        for odd in ["sim/", "sim/fly", "sim/run/after-1", "sim/crash/exit-256", "sim/crash/after-1/after-2"] {
            assert_eq!(Fate::of_image(odd), Fate::InvalidImage, "{odd}");
        }
    }
}
