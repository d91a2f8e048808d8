//! What a second one of the same operation does. Pure.

use crate::op::{InstanceAction, RolloutAction, SchedulerOp};
use crate::version::Guard;

/// What an operation does, and does again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changes nothing.
    Reads,
    /// After one that took effect, a second one changes nothing further and is not refused.
    Repeatable,
    /// A second one does harm, or is refused since it finds what the first one did.
    Once,
}

pub(super) fn effect(op: &SchedulerOp) -> Effect {
    match op {
        SchedulerOp::Status(_)
        | SchedulerOp::List(_)
        | SchedulerOp::Ping(_)
        | SchedulerOp::History(_)
        | SchedulerOp::Plan(_)
        | SchedulerOp::Endpoints(_) => Effect::Reads,
        SchedulerOp::Launch(op) => guarded(&op.guard),
        SchedulerOp::Delete(op) => guarded(&op.guard),
        SchedulerOp::Scale(op) => guarded(&op.guard),
        SchedulerOp::Expose(op) => guarded(&op.guard),
        SchedulerOp::Rollout(op) => match op.action {
            RolloutAction::Pause | RolloutAction::Resume | RolloutAction::Promote => guarded(&op.guard),
            RolloutAction::Restart | RolloutAction::Abort => Effect::Once,
        },
        SchedulerOp::OnInstance(op) => match op.action {
            InstanceAction::Stop => Effect::Repeatable,
            InstanceAction::Restart => Effect::Once,
        },
        SchedulerOp::MarkHealthy(_)
        | SchedulerOp::Run(_)
        | SchedulerOp::PutConfig(_)
        | SchedulerOp::Unexpose(_)
        | SchedulerOp::EnsureNamespace(_)
        | SchedulerOp::DeleteNamespace(_) => Effect::Repeatable,
    }
}

fn guarded(guard: &Guard) -> Effect {
    match guard {
        Guard::IfOwned => Effect::Repeatable,
        // The first one makes untrue what these suppose.
        Guard::IfAbsent | Guard::IfVersion(_) | Guard::IfPlan(_) => Effect::Once,
        // Whoever took it back in between would lose it a second time, and the answer would not say from whom.
        Guard::Adopt => Effect::Once,
    }
}
