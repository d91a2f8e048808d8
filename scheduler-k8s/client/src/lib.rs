//! TODO
pub use kube;

mod apply;
mod client;
mod connect;
mod credentials;
mod date;
mod delete;
mod error;
mod failure;
mod kubeconfig;
mod lines;
mod resource;
mod status;
mod transport;
mod watch;

pub use apply::{Applied, Apply, Condition};
pub use client::{Client, List, ListOptions, ServerVersion};
pub use connect::ConnectOptions;
pub use delete::{Delete, Deleted, Deletion, Propagation};
pub use error::{Effect, Error, ErrorKind, Missing, Operation, Verb};
pub use resource::Resource;
pub use status::FieldCause;
pub use watch::{WatchEvent, WatchOptions};
