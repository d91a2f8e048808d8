//! What is shown of an app: its model, and what the backend says of its workloads.

use std::collections::BTreeMap;

use lifecycle_hooks::desired::process_of;
use lifecycle_hooks::outbox::Waiting;
use lifecycle_hooks::pipeline::{DeployRecord, DeployState, PipelineName, StageName, StageReport};
use scheduler_core::hooks::{AppName, Front, Release};
use scheduler_core::{
    Counts, Diagnosis, Instance, Observation, Role, RunId, RunKey, Target, Timestamp, Verdict, Workload, WorkloadName,
};
use serde::Serialize;

use crate::model::{Model, ReleaseRow, ReleaseState, RunRow};

/// An app's model, and what is on its way to the hooks.
#[derive(Debug, Serialize)]
pub struct AppView {
    pub name: AppName,
    pub namespace: String,
    pub destroyed: bool,
    pub created: Timestamp,
    /// The process and the port that requests go to.
    pub front: Option<Front>,
    pub domains: Vec<String>,
    /// How many instances each process is to have, where somebody said so.
    pub formation: BTreeMap<WorkloadName, u32>,
    /// The newest first.
    pub releases: Vec<ReleaseView>,
    /// The deploy of the newest release, stage by stage.
    pub deploy: Option<DeployView>,
    pub runs: Vec<RunView>,
    /// Events that the hooks have not dealt with yet. A parked one holds up those after it.
    pub waiting: Vec<Waiting>,
}

#[derive(Debug, Serialize)]
pub struct ReleaseView {
    pub version: u64,
    pub state: ReleaseState,
    pub reason: Option<String>,
    pub created: Timestamp,
    pub rollback_of: Option<u64>,
    /// What each process runs.
    pub images: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
pub struct DeployView {
    pub release: u64,
    pub pipeline: PipelineName,
    pub state: DeployState,
    /// The stages that the pipeline has.
    pub plan: &'static [StageName],
    /// Those that were begun, with their verdicts and the evidence for them.
    pub stages: Vec<StageReport>,
    /// What failed, in words.
    pub failures: Vec<String>,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub struct RunView {
    pub key: String,
    pub command: Vec<String>,
    pub created: Timestamp,
    /// The name of its workload.
    pub workload: Option<WorkloadName>,
}

/// A workload as it is on the backend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadView {
    pub app: String,
    pub name: WorkloadName,
    /// Which process of the app it is. Its name may be another, where each release runs beside the last.
    pub process: String,
    pub verdict: Verdict,
    /// The verdict in words.
    pub words: String,
    pub counts: Counts,
    pub diagnoses: Vec<DiagnosisView>,
    /// Only when it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagnosisView {
    /// All of it, in words.
    pub words: String,
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
}

impl AppView {
    pub fn new(model: &Model, deploy: Option<&DeployRecord>, waiting: Vec<Waiting>) -> Self {
        let app = &model.app;
        Self {
            name: app.name.clone(),
            namespace: app.namespace.to_string(),
            destroyed: model.destroyed,
            created: model.created,
            front: app.front.clone(),
            domains: app.domains.iter().map(|domain| domain.host.clone()).collect(),
            formation: app.formation.clone(),
            releases: model.releases.iter().map(ReleaseView::new).collect(),
            deploy: deploy.map(DeployView::new),
            runs: model.runs.iter().map(|row| RunView::new(model, row)).collect(),
            waiting,
        }
    }
}

impl ReleaseView {
    fn new(row: &ReleaseRow) -> Self {
        Self {
            version: row.release.version,
            state: row.state,
            reason: row.reason.clone(),
            created: row.created,
            rollback_of: row.release.rollback_of,
            images: images(&row.release),
        }
    }
}

impl DeployView {
    fn new(record: &DeployRecord) -> Self {
        let pipeline = record.deploy.pipeline;
        Self {
            release: record.version(),
            pipeline,
            state: record.state.clone(),
            plan: pipeline.stages(),
            stages: record.stages.clone(),
            failures: record.failures().iter().map(ToString::to_string).collect(),
            started: record.started,
            ended: record.ended,
        }
    }
}

fn images(release: &Release) -> BTreeMap<String, String> {
    let image = |process: &Workload| {
        let main = process.containers.iter().find(|container| container.role == Role::Main)?;
        Some((process.name.clone(), main.image.clone()))
    };
    release.processes.iter().filter_map(image).collect()
}

impl RunView {
    fn new(model: &Model, row: &RunRow) -> Self {
        let name = WorkloadName::new(row.job.name.as_str()).ok();
        let base = name.map(|name| Target { namespace: model.app.namespace.clone(), name });
        let run = base.zip(RunKey::new(row.key.as_str()).ok()).map(|(base, key)| RunId::of(&base, &key));
        let main = row.job.containers.first();
        Self {
            key: row.key.clone(),
            command: main.map_or_else(Vec::new, |container| container.command.clone()),
            created: row.created,
            workload: run.map(|run| Target::from(run).name),
        }
    }
}

impl WorkloadView {
    /// Of a workload that bears the name of an app.
    pub fn new(seen: &Observation) -> Option<Self> {
        let verdict = seen.verdict();
        let view = |diagnosis: &Diagnosis| DiagnosisView { words: diagnosis.to_string(), diagnosis: diagnosis.clone() };
        Some(Self {
            app: seen.marks.unit.clone()?,
            name: seen.target.name.clone(),
            process: process_of(seen).to_owned(),
            verdict,
            words: verdict.to_string(),
            counts: seen.counts,
            diagnoses: seen.diagnoses.iter().map(view).collect(),
            instances: seen.instances.clone(),
        })
    }
}
