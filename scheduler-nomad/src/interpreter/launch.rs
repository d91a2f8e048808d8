//! `launch` and `plan`: by reading, decide; and then write what differs, or say it.

use scheduler_core::{
    BackendName, Change, CheckedWorkload, Conflict, Effect, Error, ErrorKind, Guard, Identities, Kind, KindName,
    Launch, Launched, ObjectAction, ObjectChange, Plan, PlanToken, Planned, Result, Service, Version,
};
use scheduler_nomad_client::model::{self, DesiredUpdates, DiffType, Job, Submission};
use scheduler_nomad_client::{Condition, Query, Register};
use serde_json::{Value, json};

use super::live::{Live, check_guard, deleting, moved};
use super::{NomadScheduler, fields};
use crate::error::{lost_a_race, translate};
use crate::render::{RenderContext, Rendered};
use crate::{carry, compare, meta, observe, source};

pub(super) async fn launch(scheduler: &NomadScheduler, op: &Launch) -> Result<Launched> {
    scheduler.capabilities.require(&op.features())?;
    let launcher = Launcher::new(scheduler, &op.workload, &op.guard)?;
    let live = launcher.read().await?;
    launcher.carry_out(launcher.decide(live).await?).await
}

pub(super) async fn plan(scheduler: &NomadScheduler, op: &Plan) -> Result<Planned> {
    scheduler.capabilities.require(&op.features())?;
    if matches!(op.guard, Guard::IfPlan(_)) {
        return Err(Error::invalid_argument("a plan cannot be bound to a plan"));
    }
    let launcher = Launcher::new(scheduler, &op.workload, &op.guard)?;
    let live = launcher.read().await?;
    let token = PlanToken::new(&BackendName::nomad(), &op.workload, live.versions().as_ref());
    launcher.tell(launcher.decide(live).await?, token).await
}

struct Launcher<'a> {
    scheduler: &'a NomadScheduler,
    workload: &'a CheckedWorkload,
    guard: &'a Guard,
    source: Submission,
}

/// What is to be done, and with what.
struct Decision {
    step: Step,
    rendered: Rendered,
    /// The live job; also one that was stopped and has ended.
    live: Option<Box<Job>>,
    /// What the server says of it, if it was asked.
    plan: Option<model::Planned>,
    warnings: Vec<String>,
}

enum Step {
    Create,
    Leave,
    Update(Effect),
    /// It cannot be done to what is there.
    Replace(&'static str),
}

impl<'a> Launcher<'a> {
    /// Refuses what cannot be a job before anything is sent.
    fn new(scheduler: &'a NomadScheduler, workload: &'a CheckedWorkload, guard: &'a Guard) -> Result<Self> {
        let source = source::of(workload)?;
        scheduler.render(workload, &RenderContext::new(0))?;
        if let Guard::IfPlan(token) = guard
            && !token.is_for(&BackendName::nomad(), workload)
        {
            return Err(Error::invalid_argument("the plan was made for another workload, count, or backend"));
        }
        Ok(Self { scheduler, workload, guard, source })
    }

    async fn read(&self) -> Result<Live> {
        let live = self.scheduler.read(self.workload.target()).await?;
        self.check(&live)?;
        Ok(live)
    }

    fn check(&self, live: &Live) -> Result<()> {
        if matches!(live, Live::Deleting(_)) && *self.guard != Guard::IfAbsent {
            return Err(deleting());
        }
        check_guard(self.guard, live, &self.scheduler.owner)?;
        if let Guard::IfPlan(token) = self.guard
            && !token.holds(&BackendName::nomad(), self.workload, live.versions().as_ref())
        {
            let now = live.versions();
            let words = "it is not as it was when the plan was made";
            return Err(Error::new(ErrorKind::Conflict(Conflict::Moved { now }), words));
        }
        Ok(())
    }

    async fn decide(&self, live: Live) -> Result<Decision> {
        match live {
            Live::Absent => self.create(None).await,
            Live::Gone(job) => self.create(Some(job)).await,
            Live::Present(job) | Live::Deleting(job) => self.update(job).await,
        }
    }

    /// A job where there is none, or over one that has ended.
    async fn create(&self, gone: Option<Box<Job>>) -> Result<Decision> {
        let mut rendered = self.render(None).await?;
        if let Some(gone) = &gone {
            rendered.job.meta.insert(meta::BORN.to_owned(), gone.job_modify_index.to_string());
        }
        let warnings = self.warnings(&rendered);
        Ok(Decision { step: Step::Create, rendered, live: gone, plan: None, warnings })
    }

    /// A job that is there, to be as rendered.
    async fn update(&self, live: Box<Job>) -> Result<Decision> {
        let (scheduler, workload) = (self.scheduler, self.workload);
        let target = workload.target();
        let submission = Query::submission(target.namespace.as_str(), target.name.as_str(), live.version);
        let before = scheduler.query(&submission).await?.and_then(|submission| source::read(&submission, target));
        let mut rendered = self.render(Some(&live)).await?;
        let lost = carry::over(&live, &mut rendered.job);
        let ours = scheduler.is_ours(&live);
        let same = ours && before.as_ref().is_some_and(|before| before.revision() == workload.revision());
        let mut warnings = self.warnings(&rendered);
        let decided =
            |rendered, step, plan, warnings| Decision { step, rendered, live: Some(live.clone()), plan, warnings };
        if let Some(why) = cannot_become(&live, workload) {
            return Ok(decided(rendered, Step::Replace(why), None, warnings));
        }
        if same && compare::drift(&rendered.job, &live).is_empty() {
            return Ok(decided(rendered, Step::Leave, None, warnings));
        }
        let is_job = matches!(workload.kind, Kind::Job(_));
        if is_job && before.as_ref().is_some_and(|before| before.revision() != workload.revision()) {
            return Ok(decided(rendered, Step::Replace("a job runs what it was launched with"), None, warnings));
        }
        // As the server sees it, nothing may differ: it has its own ways to write some fields.
        let mut planned = rendered.job.clone();
        planned.extra.extend(live.extra.get("UI").map(|ui| ("UI".to_owned(), ui.clone())));
        let plan = scheduler.client.plan(&planned, true).await.map_err(|error| translate(&error))?;
        if same && plan.diff.as_ref().is_some_and(|diff| diff.r#type == DiffType::None) {
            return Ok(decided(rendered, Step::Leave, Some(plan), warnings));
        }
        if is_job && runs_again(&plan) {
            return Ok(decided(
                rendered,
                Step::Replace("what differs would make the job run again"),
                Some(plan),
                warnings,
            ));
        }
        let last = before.and_then(|before| scheduler.render(&before, &self.context(Some(&live))).ok());
        let dropped = compare::dropped(&rendered.job, last.as_ref().map(|last| &last.job), &live);
        warnings.extend(dropped.iter().map(|entry| format!("dropped {entry}, which somebody else set")));
        warnings.extend(lost.iter().map(|port| format!("the port {port} is gone, and its routes with it")));
        let effect = effect(&plan, target.name.as_str());
        Ok(decided(rendered, Step::Update(effect), Some(plan), warnings))
    }

    /// Writes what was decided.
    async fn carry_out(&self, decision: Decision) -> Result<Launched> {
        let Decision { step, rendered, live, warnings, .. } = decision;
        let (change, action) = match step {
            Step::Create => (Change::Created, ObjectAction::Created),
            Step::Leave => (Change::Unchanged, ObjectAction::Unchanged),
            Step::Update(effect) => (Change::Updated(effect), ObjectAction::Updated),
            Step::Replace(why) => return Err(Error::new(ErrorKind::MustReplace, why)),
        };
        let revision = self.workload.revision().clone();
        let mut launched = match (change, &live) {
            (Change::Unchanged, Some(live)) => Launched::new(change, revision, observe::version(live)),
            _ => {
                let (version, said) = self.register(rendered.job, live.as_deref()).await?;
                let mut launched = Launched::new(change, revision, version);
                launched.warnings.extend(said);
                launched
            }
        };
        launched.warnings.splice(0..0, warnings);
        launched.objects.push(ObjectChange::new("Job", self.workload.target().name.as_str(), action));
        launched.adopted_from = live
            .filter(|live| change != Change::Created && !self.scheduler.is_ours(live))
            .map(|live| meta::owner_of(&live.meta));
        Ok(launched)
    }

    /// Says what was decided.
    async fn tell(&self, decision: Decision, token: PlanToken) -> Result<Planned> {
        let Decision { step, mut rendered, live, plan, mut warnings } = decision;
        let (change, action) = match step {
            Step::Create => (Change::Created, ObjectAction::Created),
            Step::Leave => (Change::Unchanged, ObjectAction::Unchanged),
            Step::Update(effect) => (Change::Updated(effect), ObjectAction::Updated),
            Step::Replace(_) => (Change::Updated(Effect::Replaced), ObjectAction::Updated),
        };
        let mut told = Planned::new(change, token);
        let name = self.workload.target().name.as_str();
        told.objects.push(ObjectChange::new("Job", name, action));
        if change != Change::Unchanged {
            let plan = match plan {
                Some(plan) => plan,
                // Of a job that must be replaced the server only says what differs; it would not take it.
                None => {
                    let live = live.as_ref().and_then(|live| live.extra.get("UI"));
                    rendered.job.extra.extend(live.map(|ui| ("UI".to_owned(), ui.clone())));
                    self.scheduler.client.plan(&rendered.job, true).await.map_err(|error| translate(&error))?
                }
            };
            told.fields = plan.diff.as_ref().map(|diff| fields::of(diff, name)).unwrap_or_default();
            warnings.extend(Some(plan.warnings.clone()).filter(|words| !words.is_empty()));
            warnings.extend(fields::unplaceable(&plan));
        }
        told.warnings = warnings;
        Ok(told)
    }

    /// Registers a job in the place of this one, if it is still as it was read.
    async fn register(&self, mut job: Job, live: Option<&Job>) -> Result<(Version, Option<String>)> {
        let index = live.map_or(0, |live| live.job_modify_index);
        let revision = self.workload.revision();
        let mut ui =
            live.and_then(|live| live.extra.get("UI")).filter(|ui| ui.is_object()).cloned().unwrap_or(json!({}));
        ui["Description"] = Value::from(format!("Launched as {revision} over index {index}"));
        job.extra.insert("UI".to_owned(), ui);
        let condition = match live {
            None => Condition::Absent,
            Some(live) => Condition::Unchanged { job_modify_index: live.job_modify_index },
        };
        let registered = self.scheduler.client.register(Register::new(&job, condition).submission(&self.source)).await;
        match registered {
            // The job is never what it was, so that the index is that of a new version.
            Ok(registered) => {
                let created = live.map_or(registered.job_modify_index, |live| live.create_index);
                let said = Some(registered.warnings).filter(|warnings| !warnings.is_empty());
                Ok((observe::version_of(created, registered.job_modify_index), said))
            }
            Err(error) if lost_a_race(&error) => {
                let now = self.read().await?;
                Err(match &now {
                    Live::Present(job) => moved(job, error.message().unwrap_or_default()),
                    _ => translate(&error),
                })
            }
            Err(error) => Err(translate(&error)),
        }
    }

    async fn render(&self, live: Option<&Job>) -> Result<Rendered> {
        let context = self.scheduler.with_configs(self.context(live), self.workload).await?;
        self.scheduler.render(self.workload, &context)
    }

    fn context(&self, live: Option<&Job>) -> RenderContext {
        let live = live.and_then(|live| carry::own_group(live, self.workload.target().name.as_str()));
        RenderContext::new(match &self.workload.kind {
            Kind::Service(service) => service.replicas.resolve(live.map(|group| group.count.unwrap_or(1))),
            _ => 0,
        })
    }

    fn warnings(&self, rendered: &Rendered) -> Vec<String> {
        let backend = BackendName::nomad();
        let others = self.workload.extensions_for_others(&backend);
        let others = others.map(|name| format!("extensions.{name} means nothing on {backend} and was left out"));
        others.chain(rendered.warnings.iter().cloned()).collect()
    }
}

/// Why a live job can never be this workload, whatever differs.
fn cannot_become(live: &Job, workload: &CheckedWorkload) -> Option<&'static str> {
    if observe::kind_of(live) != workload.kind.name() {
        return Some("it is of another kind");
    }
    let stable = matches!(&workload.kind, Kind::Service(Service { identities: Identities::Stable, .. }));
    let is_service = workload.kind.name() == KindName::Service;
    (is_service && live.meta.contains_key(meta::IDENTITIES) != stable)
        .then_some("its instances have stable identities or not for as long as it is there")
}

/// Whether a job would run anything that ran already.
fn runs_again(plan: &model::Planned) -> bool {
    updates(plan).any(|(_, updates)| updates.place > 0 || updates.destructive_update > 0)
}

/// What a plan says of the instances. That some are placed or end is no replacement, unless it is another group that ends.
fn effect(plan: &model::Planned, own: &str) -> Effect {
    let replaces = |(name, updates): (&String, &DesiredUpdates)| {
        updates.destructive_update > 0 || updates.canary > 0 || (updates.stop > 0 && name != own)
    };
    if updates(plan).any(replaces) { Effect::Rolling } else { Effect::InPlace }
}

fn updates(plan: &model::Planned) -> impl Iterator<Item = (&String, &DesiredUpdates)> {
    plan.annotations.iter().flat_map(|annotations| &annotations.desired_tg_updates)
}
