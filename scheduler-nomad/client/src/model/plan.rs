//! What a registration would do.

use std::collections::BTreeMap;

use super::{AllocMetric, Evaluation, model, words};

words! {
    /// What changes.
    DiffType {
        /// Nothing.
        None = "None",
        /// It is new.
        Added = "Added",
        /// It goes.
        Deleted = "Deleted",
        /// It is another.
        Edited = "Edited",
    }
}

model! {
    /// The answer to a plan.
    Planned shows [job_modify_index, diff, annotations, warnings] {
        /// What happens to the instances.
        annotations: Option<PlanAnnotations>,
        /// What changes, if it was asked for.
        diff: Option<JobDiff>,
        /// The check index for a registration that takes effect only if nothing changes in between. Zero if the job is
        /// absent.
        job_modify_index: u64,
        /// Why instances would not be placed, by group. Empty when all would.
        #[serde(rename = "FailedTGAllocs")]
        failed_tg_allocs: BTreeMap<String, AllocMetric>,
        /// What would wait for capacity. Nothing of it is stored.
        created_evals: Vec<Evaluation>,
        /// When a periodic job would run next, RFC 3339.
        next_periodic_launch: String,
        /// What the server warns of. Empty when of nothing.
        warnings: String,
    }
}

model! {
    /// What happens to the instances.
    PlanAnnotations shows [desired_tg_updates] {
        /// By group. Of an update with `max_parallel` only the first batch is counted.
        #[serde(rename = "DesiredTGUpdates")]
        desired_tg_updates: BTreeMap<String, DesiredUpdates>,
    }
}

model! {
    /// What happens to the instances of a group.
    DesiredUpdates shows [ignore, place, migrate, stop, in_place_update, destructive_update, canary, preemptions] {
        /// Stay as they are.
        ignore: u64,
        /// Are placed.
        place: u64,
        /// Move to another node.
        migrate: u64,
        /// End.
        stop: u64,
        /// Go on running under the new version.
        in_place_update: u64,
        /// Are replaced.
        destructive_update: u64,
        /// Are placed beside the old ones.
        canary: u64,
        /// Instances of other jobs that make room.
        preemptions: u64,
    }
}

model! {
    /// What changes in a job.
    JobDiff shows [id, r#type, task_groups] {
        /// The job.
        #[serde(rename = "ID")]
        id: String,
        /// What changes; [`DiffType::None`] when nothing at all does.
        r#type: DiffType,
        /// Plain fields.
        fields: Vec<FieldDiff>,
        /// Blocks.
        objects: Vec<ObjectDiff>,
        /// Groups, the unchanged ones included.
        task_groups: Vec<TaskGroupDiff>,
    }
}

model! {
    /// What changes in a group.
    TaskGroupDiff shows [name, r#type, updates] {
        /// The group.
        name: String,
        /// What changes.
        r#type: DiffType,
        /// Plain fields.
        fields: Vec<FieldDiff>,
        /// Blocks.
        objects: Vec<ObjectDiff>,
        /// Tasks, the unchanged ones included.
        tasks: Vec<TaskDiff>,
        /// How many instances meet what, in words.
        updates: BTreeMap<String, u64>,
    }
}

model! {
    /// What changes in a task.
    TaskDiff shows [name, r#type, annotations] {
        /// The task.
        name: String,
        /// What changes.
        r#type: DiffType,
        /// Plain fields.
        fields: Vec<FieldDiff>,
        /// Blocks.
        objects: Vec<ObjectDiff>,
        /// What it leads to, in words, such as `forces create/destroy update`.
        annotations: Vec<String>,
    }
}

model! {
    /// What changes in a block.
    ObjectDiff shows [name, r#type] {
        /// The block.
        name: String,
        /// What changes.
        r#type: DiffType,
        /// Plain fields.
        fields: Vec<FieldDiff>,
        /// Blocks inside.
        objects: Vec<ObjectDiff>,
    }
}

model! {
    /// What changes in a field. `Debug` leaves the values out.
    FieldDiff shows [name, r#type, annotations] {
        /// The field. A map's entry is `Meta[key]`, a block's field `Config.key` or the like.
        name: String,
        /// What changes.
        r#type: DiffType,
        /// The value before.
        old: String,
        /// The value after.
        new: String,
        /// What it leads to, in words.
        annotations: Vec<String>,
    }
}
