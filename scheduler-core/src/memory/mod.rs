//! The in-memory reference scheduler.

mod fate;
mod mutation;

pub use fate::Fate;
#[cfg(feature = "mutation")]
pub use mutation::Mutation;
