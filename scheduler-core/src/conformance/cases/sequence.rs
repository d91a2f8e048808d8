//! All clauses together: generated sequences, compared with the memory scheduler.

use super::cases;
use crate::conformance::Outcome;
use crate::conformance::ctx::Ctx;
use crate::conformance::sequence::compare;

cases! {
    /// A generated sequence does what it does in memory.
    0 "sequence/1" => one;
    /// A generated sequence does what it does in memory.
    0 "sequence/2" => two;
    /// A generated sequence does what it does in memory.
    0 "sequence/3" => three;
    /// A generated sequence does what it does in memory.
    0 "sequence/4" => four;
    /// A generated sequence does what it does in memory.
    0 "sequence/5" => five;
}

async fn one(ctx: Ctx) -> Outcome {
    compare(&ctx, 1).await
}

async fn two(ctx: Ctx) -> Outcome {
    compare(&ctx, 2).await
}

async fn three(ctx: Ctx) -> Outcome {
    compare(&ctx, 3).await
}

async fn four(ctx: Ctx) -> Outcome {
    compare(&ctx, 4).await
}

async fn five(ctx: Ctx) -> Outcome {
    compare(&ctx, 5).await
}
