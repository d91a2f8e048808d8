//! What is left when a request of an operation fails, and the operation is repeated.

use std::time::Duration;

use super::cases;
use crate::conformance::changing::{self, Attempt, Changing};
use crate::conformance::ctx::{Ctx, MOST_REQUESTS, check, check_eq, error_of, too_many_requests};
use crate::conformance::{Failure, Injection, Outcome};
use crate::{Error, ErrorKind, Retry};

cases! {
    /// A launch that failed at any request is completed by the next, and leaves what it would have left at once.
    4 "faults/launch" => |ctx| repeated(ctx, changing::LAUNCH, FAULTS);
    /// The same for a launch that changes every object.
    4 "faults/update" => |ctx| repeated(ctx, changing::UPDATE, FAULTS);
    /// The same for a launch of what was planned.
    13 "faults/planned-update" [Plan] => |ctx| repeated(ctx, changing::PLANNED, FAULTS);
    /// The same for a delete.
    8 "faults/delete" [PutConfig, Expose] => |ctx| repeated(ctx, changing::DELETE, FAULTS);
    /// The same for a scale.
    5 "faults/scale" [Scale] => |ctx| repeated(ctx, changing::SCALE, FAULTS);
    /// The same for a restart.
    6 "faults/restart" [Restart] => |ctx| repeated(ctx, changing::RESTART, FAULTS);
    /// The same for a pause.
    6 "faults/pause" [Pause] => |ctx| repeated(ctx, changing::PAUSE, FAULTS);
    /// A stop that failed at any request stops, when it is repeated, that instance and no other.
    6 "faults/stop" [StopInstance] => |ctx| repeated(ctx, changing::STOP, FAULTS);
    /// A mark that failed at any request is set by the next try.
    7 "faults/mark-healthy" [MarkHealthy, History] => |ctx| repeated(ctx, changing::MARK, FAULTS);
    /// A run that failed at any request is one run when it is repeated.
    14 "faults/run" [RunOneOff, Jobs] => |ctx| repeated(ctx, changing::RUN, FAULTS);
    /// A run of a periodic job that failed at any request is one run when it is repeated.
    14 "faults/run-now" [RunNow, PeriodicJobs] => |ctx| repeated(ctx, changing::RUN_NOW, FAULTS);
    /// A configuration that failed to be stored at any request is stored once by the next try.
    15 "faults/put-config" [PutConfig] => |ctx| repeated(ctx, changing::PUT_CONFIG, FAULTS);
    /// Routes that failed to be made at any request are made by the next try.
    16 "faults/expose" [Expose] => |ctx| repeated(ctx, changing::EXPOSE, FAULTS);
    /// Routes that failed to be taken away at any request are taken away by the next try.
    16 "faults/unexpose" [Expose] => |ctx| repeated(ctx, changing::UNEXPOSE, FAULTS);
    /// A namespace that failed to be made at any request is made by the next try, and is ours.
    17 "faults/ensure-namespace" [Namespaces] => |ctx| repeated(ctx, changing::ENSURE_NAMESPACE, FAULTS);
    /// A namespace that failed to be deleted at any request is deleted by the next try.
    17 "faults/delete-namespace" [Namespaces] => |ctx| repeated(ctx, changing::DELETE_NAMESPACE, FAULTS);
    /// A server that asks for patience is heard, at whichever request.
    0 "faults/too-many-requests" => |ctx| repeated(ctx, changing::UPDATE, &[Injection::Throttle]);
}

/// What can happen to any request, and passes.
const FAULTS: &[Injection] = &[Injection::Fail, Injection::Refuse, Injection::Reset, Injection::LoseAnswer];

/// Lets each request of an operation meet each fault in turn, and repeats the operation as its error says.
async fn repeated(ctx: Ctx, operation: Changing, faults: &[Injection]) -> Outcome {
    let wanted = operation.undisturbed(&ctx).await?;
    let (mut number, mut requests) = (0, MOST_REQUESTS);
    for fault in faults {
        for nth in 1..=requests {
            number += 1;
            let attempt = operation.prepare(&ctx, number).await?;
            ctx.world.inject(nth, *fault);
            let answer = operation.act(&ctx, &attempt).await?;
            let met = ctx.world.injected();
            ctx.inject_nothing();
            if !met {
                answer?;
                requests = nth - 1;
                break;
            }
            let ended = async {
                judge(&ctx, *fault, &error_of("the operation", answer)?, &attempt).await?;
                operation.act(&ctx, &attempt).await??;
                check_eq!(operation.left(&ctx, &attempt).await?, wanted, "what is left when it was repeated");
                Ok(())
            };
            ended.await.map_err(|Failure(e)| Failure(format!("request {nth} met {fault:?}: {e}")))?;
        }
    }
    if requests == MOST_REQUESTS {
        return too_many_requests();
    }
    check!(requests > 0, "the operation sends no request");
    Ok(())
}

/// That an error tells what a caller needs for the next step, and that it is true.
async fn judge(ctx: &Ctx, fault: Injection, error: &Error, attempt: &Attempt) -> Outcome {
    let is_known = if fault == Injection::Throttle { ErrorKind::RateLimited } else { ErrorKind::Unavailable };
    let retry = match error.kind() {
        kind if *kind == is_known => {
            attempt.changed_nothing(ctx).await.map_err(|Failure(e)| Failure(format!("it failed with {error}; {e}")))?;
            Retry::SameRequest
        }
        ErrorKind::OutcomeUnknown => Retry::AfterReread,
        _ => return Err(Failure(format!("it failed with {error}"))),
    };
    check_eq!(error.retry(), retry, "whether to try again after {error}");
    let patience = matches!(fault, Injection::Refuse | Injection::Throttle).then_some(Duration::from_secs(1));
    check_eq!(error.retry_after(), patience, "how long to wait after {error}");
    Ok(())
}
