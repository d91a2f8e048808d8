//! The examples are the files beside `Cargo.toml`; this library is empty.
