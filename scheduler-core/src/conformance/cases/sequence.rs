//! All clauses together: generated sequences, compared with the memory scheduler.

use super::cases;
use crate::conformance::Outcome;
use crate::conformance::ctx::Ctx;
use crate::conformance::sequence::compare;

cases! {
    /// A generated sequence does what it does in memory.
    0 "sequence/20" => twenty;
    /// A generated sequence does what it does in memory.
    0 "sequence/30" => thirty;
    /// A generated sequence does what it does in memory.
    0 "sequence/32" => thirty_two;
    /// A generated sequence does what it does in memory.
    0 "sequence/34" => thirty_four;
    /// A generated sequence does what it does in memory.
    0 "sequence/36" => thirty_six;
}

async fn twenty(ctx: Ctx) -> Outcome {
    compare(&ctx, 20).await
}

async fn thirty(ctx: Ctx) -> Outcome {
    compare(&ctx, 30).await
}

async fn thirty_two(ctx: Ctx) -> Outcome {
    compare(&ctx, 32).await
}

async fn thirty_four(ctx: Ctx) -> Outcome {
    compare(&ctx, 34).await
}

async fn thirty_six(ctx: Ctx) -> Outcome {
    compare(&ctx, 36).await
}
