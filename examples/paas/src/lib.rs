//! The parts of the small platform; its program says how it is used.

pub mod api;
pub mod backend;
pub mod change;
pub mod feed;
pub mod hooks;
pub mod live;
pub mod model;
pub mod platform;
pub mod refusal;
pub mod serve;
pub mod view;
