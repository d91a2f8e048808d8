//! What the tests share.

pub(crate) mod agent;
pub(crate) mod fates;
pub(crate) mod fault;
pub(crate) mod hands;
