//! Generated sequences of operations, whose effects are compared with those in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ctx::{Ctx, DONE, check, checked};
use super::{Disturbance, Failure, Hand, Harness, Injection, MemoryHarness, Outcome};
use crate::memory::Fate;
use crate::{
    Change, Effect, Expose, Feature, MarkHealthy, MarkedHealthy, PutConfig, Replicas, Revision, Rollout, RolloutAction,
    Route, Run, RunKey, Scale, Unexpose, Unexposed, Verdict, Workload,
};

/// How many operations a sequence has.
const STEPS: usize = 12;

/// Runs the generated sequence of this seed, in a new world of this harness, and compares it with the memory scheduler.
/// The suite runs a few of them; a soak runs many more.
///
/// # Errors
/// [`Failure`] with the seed, the steps, and what differs after the last of them.
pub fn run_sequence(harness: &Arc<dyn Harness>, seed: u64) -> Outcome {
    let own = Arc::clone(harness);
    harness.run(Box::pin(async move { compare(&Ctx::new(own).await?, seed).await }))
}

/// Compares the sequence of this seed with the memory scheduler.
pub(super) async fn compare(ctx: &Ctx, seed: u64) -> Outcome {
    let mut steps = generate(seed);
    if ctx.harness.lacks(Hand::RemoveService).is_some() {
        steps.retain(|step| !matches!(step, Step::Disturb(_, Outside::RemoveService)));
    }
    let capabilities = ctx.harness.capabilities();
    steps.retain(|step| step.needs().iter().all(|feature| capabilities.has(*feature)));
    let wanted = in_memory({
        let steps = steps.clone();
        move |ctx| Box::pin(trace(ctx, steps))
    })?;
    let mut tracer = Tracer::new(ctx.clone());
    for (at, step) in steps.iter().enumerate() {
        let seen = tracer.play(step).await.map_err(|Failure(e)| Failure(format!("{}\n{e}", told(seed, &steps, at))))?;
        let wanted = wanted.get(at);
        check!(Some(&seen) == wanted, "{}\nseen   {seen:?}\nwanted {wanted:?}", told(seed, &steps, at));
    }
    Ok(())
}

fn told(seed: u64, steps: &[Step], at: usize) -> String {
    let steps: Vec<String> = steps.iter().take(at + 1).map(Step::to_string).collect();
    format!("seed {seed}: after {}", steps.join(", then "))
}

async fn trace(ctx: Ctx, steps: Vec<Step>) -> Result<Vec<Record>, Failure> {
    let mut tracer = Tracer::new(ctx);
    let mut records = Vec::new();
    for step in &steps {
        records.push(tracer.play(step).await?);
    }
    Ok(records)
}

/// What comes of something in a world in memory: what is to come of it elsewhere.
///
/// On a thread of its own, since its clock is paused and the caller's may not be. To wait for it without yielding is
/// right: if the caller's clock is paused as well, it must not run on meanwhile.
pub(super) fn in_memory<T: Send + 'static>(
    trace: impl FnOnce(Ctx) -> BoxFuture<'static, Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let oracle = std::thread::spawn(move || {
        let harness = Arc::new(MemoryHarness::new());
        let (send, receive) = std::sync::mpsc::channel();
        harness.run(Box::pin({
            let harness = Arc::clone(&harness);
            async move {
                let traced = trace(Ctx::new(harness).await?).await?;
                send.send(traced).map_err(|e| Failure(e.to_string()))
            }
        }))?;
        receive.recv().map_err(|e| Failure(e.to_string()))
    });
    oracle.join().map_err(|_| Failure("the memory scheduler panicked".to_owned()))?
}

/// One operation.
#[derive(Clone, Debug)]
enum Step {
    Launch(Variant),
    Delete(&'static str),
    Disturb(&'static str, Outside),
    Scale(&'static str, u32),
    Restart(&'static str),
    MarkHealthy(&'static str),
    PutConfig(&'static str, u64),
    Expose(&'static str),
    Unexpose(&'static str),
    Run(u64),
    /// The operation meets this fault at its request of this number, and is repeated.
    Faulty(Box<Self>, u32, Injection),
}

impl Step {
    /// What it needs of a backend.
    fn needs(&self) -> &'static [Feature] {
        match self {
            Self::Launch(_) | Self::Delete(_) | Self::Disturb(..) => &[],
            Self::Scale(..) => &[Feature::Scale],
            Self::Restart(_) => &[Feature::Restart],
            Self::MarkHealthy(_) => &[Feature::MarkHealthy, Feature::History],
            Self::PutConfig(..) => &[Feature::PutConfig],
            Self::Expose(_) | Self::Unexpose(_) => &[Feature::Expose],
            Self::Run(_) => &[Feature::RunOneOff, Feature::Jobs],
            Self::Faulty(step, ..) => step.needs(),
        }
    }
}

/// What somebody else does.
#[derive(Clone, Copy, Debug)]
enum Outside {
    Scale(u32),
    SetImage,
    RemoveService,
}

/// A workload.
#[derive(Clone, Debug)]
struct Variant {
    name: &'static str,
    fate: Fate,
    tag: u64,
    replicas: Replicas,
    ports: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(Variant { name, fate, tag, replicas, ports }) => {
                write!(f, "launch {name} ({fate}:{tag}, {replicas:?}, {} port)", if *ports { "a" } else { "no" })
            }
            Self::Delete(name) => write!(f, "delete {name}"),
            Self::Scale(name, count) => write!(f, "scale {name} to {count}"),
            Self::Restart(name) => write!(f, "restart {name}"),
            Self::MarkHealthy(name) => write!(f, "mark {name} healthy"),
            Self::PutConfig(name, content) => write!(f, "store configuration {content} of {name}"),
            Self::Expose(name) => write!(f, "expose {name}"),
            Self::Unexpose(name) => write!(f, "unexpose {name}"),
            Self::Run(key) => write!(f, "run {key}"),
            Self::Faulty(step, nth, fault) => write!(f, "{step} ({fault:?} at request {nth}, then again)"),
            Self::Disturb(name, outside) => write!(f, "{outside:?} of {name} from outside"),
        }
    }
}

/// What is compared after each step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    answer: Answer,
    /// By which step the revision that is told now was launched first.
    revision: Option<usize>,
    desired: Option<u32>,
    verdict: Option<Verdict>,
    objects: Objects,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Created,
    Unchanged,
    Updated,
    Replaced,
    Gone,
    WasAbsent,
    Disturbed,
    /// Whether it did anything.
    Done(bool),
    /// It was repeated after a fault; what it found then depends on how far it had come.
    Repeated,
}

/// How many native objects there are of the workload. Backends make different ones; each is measured by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Objects {
    None,
    /// As many as a workload like this, with ports or without, had when it was new.
    Whole,
    Other,
}

/// Xorshift64*, by Vigna (2016): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % bound
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).unwrap_or(0)
    }
}

fn generate(seed: u64) -> Vec<Step> {
    // No seed gives the state zero, from which there is no way out.
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut live = BTreeMap::new();
    (0..STEPS).map(|_| step(&mut random, &mut live)).collect()
}

/// What was launched last of a name, and what became of it since.
struct Live {
    last: Variant,
    /// Whether its Service is there.
    service: bool,
    exposed: bool,
    /// Whether the main object is as it was launched.
    untouched: bool,
}

fn step(random: &mut Random, live: &mut BTreeMap<&'static str, Live>) -> Step {
    let step = sound_step(random, live);
    // What somebody else does is no operation of ours.
    if random.below(5) > 0 || matches!(step, Step::Disturb(..)) {
        return step;
    }
    let fault = match random.below(4) {
        0 => Injection::Refuse,
        1 => Injection::Fail,
        2 => Injection::Reset,
        _ => Injection::LoseAnswer,
    };
    Step::Faulty(Box::new(step), random.small(4) + 1, fault)
}

fn sound_step(random: &mut Random, live: &mut BTreeMap<&'static str, Live>) -> Step {
    let name = if random.below(3) == 0 { "b" } else { "a" };
    let kind = random.below(22);
    match kind {
        0 => {
            live.remove(name);
            return Step::Delete(name);
        }
        1 => return Step::PutConfig(name, random.below(3)),
        2 => return Step::Run(random.below(3)),
        _ => {}
    }
    if let Some(now) = live.get_mut(name)
        && kind > 8
    {
        // What has failed and is scaled may be given up again or be judged anew: platforms differ.
        let runs = matches!(now.last.fate, Fate::Run | Fate::Slow { .. });
        return match kind {
            9 | 10 if runs => Step::Disturb(name, Outside::Scale(random.small(3))),
            11 => {
                now.untouched = false;
                Step::Disturb(name, Outside::SetImage)
            }
            12 | 13 if now.service => {
                now.service = false;
                Step::Disturb(name, Outside::RemoveService)
            }
            14 | 15 if runs => Step::Scale(name, random.small(3)),
            16 if runs && now.untouched => Step::Restart(name),
            17 if now.untouched => Step::MarkHealthy(name),
            18 | 20 if now.service && !now.exposed => {
                now.exposed = true;
                Step::Expose(name)
            }
            19..=21 if now.exposed => {
                now.exposed = false;
                Step::Unexpose(name)
            }
            _ => {
                (now.service, now.untouched) = (now.last.ports, true);
                Step::Launch(now.last.clone())
            }
        };
    }
    let exposed = live.get(name).is_some_and(|now| now.exposed);
    let variant = Variant {
        name,
        fate: match random.below(6) {
            0 => Fate::PullError,
            1 => Fate::InvalidImage,
            2 => Fate::Slow { after: 1 },
            _ => Fate::Run,
        },
        tag: random.below(3),
        replicas: match random.small(5) {
            count @ 0..=2 => Replicas::Exactly(count),
            other => Replicas::Keep(other - 2),
        },
        // A route needs its port.
        ports: exposed || random.below(3) != 0,
    };
    live.insert(name, Live { last: variant.clone(), service: variant.ports, exposed, untouched: true });
    Step::Launch(variant)
}

/// Plays steps and writes down what came of them.
struct Tracer {
    ctx: Ctx,
    /// The revision of each step's workload.
    revisions: Vec<Option<Revision>>,
    /// Whether each workload has ports, and a route.
    shape: BTreeMap<&'static str, (bool, bool)>,
    /// How many objects a workload of each shape has.
    whole: BTreeMap<(bool, bool), usize>,
}

impl Tracer {
    fn new(ctx: Ctx) -> Self {
        Self { ctx, revisions: Vec::new(), shape: BTreeMap::new(), whole: BTreeMap::new() }
    }

    fn workload(&self, variant: &Variant) -> Workload {
        let mut workload = self.ctx.with_fate(self.ctx.service(variant.name), variant.fate, &variant.tag.to_string());
        if !variant.ports {
            for container in &mut workload.containers {
                container.ports.clear();
            }
        }
        match variant.replicas {
            Replicas::Exactly(count) => workload.replicas(count),
            Replicas::Keep(count) => workload.keep_replicas(count),
        }
    }

    async fn play(&mut self, step: &Step) -> Result<Record, Failure> {
        let (step, answer) = match step {
            Step::Faulty(step, nth, fault) => {
                self.ctx.world.inject(*nth, *fault);
                // Whether it fails depends on how many requests the backend needs.
                let _ = self.perform(step).await;
                self.ctx.inject_nothing();
                self.perform(step).await?;
                (&**step, Answer::Repeated)
            }
            step => (step, self.perform(step).await?),
        };
        let name = self.name(step)?;
        let mut launched = None;
        if let Step::Launch(variant) = step {
            launched = Some(checked(self.workload(variant))?.revision().clone());
        }
        self.note_shape(step);
        self.revisions.push(launched);
        let at_rest = |verdict| matches!(verdict, Verdict::Healthy | Verdict::Failed | Verdict::Complete);
        let seen = self.ctx.look(&name, "at rest", |seen| Ok(seen.is_none_or(|seen| at_rest(seen.verdict())))).await?;
        let told = seen.as_ref().and_then(|seen| seen.revision.clone());
        Ok(Record {
            revision: told.and_then(|told| self.revisions.iter().position(|known| known.as_ref() == Some(&told))),
            desired: seen.as_ref().map(|seen| seen.counts.desired),
            verdict: seen.as_ref().map(crate::Observation::verdict),
            objects: self.objects(step, answer == Answer::Created).await?,
            answer,
        })
    }

    /// The name of what a step is about.
    fn name(&self, step: &Step) -> Result<String, Failure> {
        Ok(match step {
            Step::Launch(Variant { name, .. })
            | Step::Delete(name)
            | Step::Disturb(name, _)
            | Step::Scale(name, _)
            | Step::Restart(name)
            | Step::MarkHealthy(name)
            | Step::PutConfig(name, _)
            | Step::Expose(name)
            | Step::Unexpose(name) => (*name).to_owned(),
            Step::Run(key) => self.run(*key)?.id().target().name.to_string(),
            Step::Faulty(step, ..) => self.name(step)?,
        })
    }

    fn run(&self, key: u64) -> Result<Run, Failure> {
        let key = RunKey::new(key.to_string()).map_err(|e| Failure(e.to_string()))?;
        Ok(Run::one_off(checked(self.ctx.job("work", DONE))?, key))
    }

    fn note_shape(&mut self, step: &Step) {
        match step {
            Step::Launch(variant) => self.shape.entry(variant.name).or_default().0 = variant.ports,
            Step::Expose(name) => self.shape.entry(name).or_default().1 = true,
            Step::Unexpose(name) => self.shape.entry(name).or_default().1 = false,
            Step::Delete(name) => {
                self.shape.remove(name);
            }
            _ => {}
        }
    }

    async fn perform(&self, step: &Step) -> Result<Answer, Failure> {
        let (ctx, scheduler) = (&self.ctx, &self.ctx.scheduler);
        Ok(match step {
            Step::Launch(variant) => match ctx.launch(self.workload(variant)).await?.change {
                Change::Created => Answer::Created,
                Change::Unchanged => Answer::Unchanged,
                Change::Updated(Effect::Replaced) => Answer::Replaced,
                Change::Updated(_) => Answer::Updated,
            },
            Step::Delete(name) => {
                if ctx.delete_whole(name).await? {
                    Answer::Gone
                } else {
                    Answer::WasAbsent
                }
            }
            Step::Disturb(name, outside) => {
                let disturbance = match outside {
                    Outside::Scale(count) => Disturbance::SetReplicas(*count),
                    Outside::SetImage => Disturbance::SetImage(ctx.image("outside")),
                    Outside::RemoveService => Disturbance::RemoveService,
                };
                ctx.disturb(name, disturbance).await?;
                Answer::Disturbed
            }
            Step::Scale(name, count) => {
                let scaled = scheduler.scale(Scale::new(ctx.target(name)?, *count)).await?;
                Answer::Done(scaled.from != scaled.to)
            }
            Step::Restart(name) => {
                Answer::Done(scheduler.rollout(Rollout::new(ctx.target(name)?, RolloutAction::Restart)).await?.changed)
            }
            Step::MarkHealthy(name) => {
                let Some(revision) = ctx.seen(name).await?.revision else { return Ok(Answer::Done(false)) };
                let marked = scheduler.mark_healthy(MarkHealthy::new(ctx.target(name)?, revision)).await?;
                Answer::Done(marked == MarkedHealthy::Now)
            }
            Step::PutConfig(name, content) => {
                let put = PutConfig::new(ctx.target(name)?, "app").entry("CONTENT", content.to_string());
                Answer::Done(scheduler.put_config(put).await?.created)
            }
            Step::Expose(name) => {
                let host = format!("{name}.{}.example", ctx.world.namespace());
                let exposed = scheduler.expose(Expose::new(ctx.target(name)?, [Route::new(host, "http")])).await?;
                Answer::Done(exposed.changed)
            }
            Step::Unexpose(name) => {
                Answer::Done(scheduler.unexpose(Unexpose::new(ctx.target(name)?)).await? == Unexposed::Gone)
            }
            Step::Run(key) => Answer::Done(scheduler.run(self.run(*key)?).await?.created),
            Step::Faulty(..) => return Err(Failure("a fault within a fault".to_owned())),
        })
    }

    /// Counts the objects of a workload. One that was made anew, or got or lost its route, shows how many it should have.
    async fn objects(&mut self, step: &Step, new: bool) -> Result<Objects, Failure> {
        let name = self.name(step)?;
        let own = |object: &&String| object.split_once('/').is_some_and(|(_, rest)| rest == name);
        let count = self.ctx.object_names().await?.iter().filter(own).count();
        let shape = self.shape.get(name.as_str()).copied().unwrap_or_default();
        if new || matches!(step, Step::Expose(_) | Step::Unexpose(_)) {
            self.whole.entry(shape).or_insert(count);
        }
        Ok(match self.whole.get(&shape) {
            _ if count == 0 => Objects::None,
            // A run is none of these shapes.
            _ if matches!(step, Step::Run(_)) => Objects::Whole,
            Some(whole) if *whole != count => Objects::Other,
            _ => Objects::Whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Outside, Step, Variant, generate};

    #[test]
    fn the_seeds_of_the_suite_have_every_kind_of_step() {
        let steps: Vec<Step> = [20, 30, 32, 34, 36].into_iter().flat_map(generate).collect();
        let whole = |step: &Step| match step {
            Step::Faulty(step, ..) => (**step).clone(),
            step => step.clone(),
        };
        let kinds: [fn(&Step) -> bool; 14] = [
            |step| matches!(step, Step::Launch(Variant { fate: Fate::PullError, .. })),
            |step| matches!(step, Step::Launch(_)),
            |step| matches!(step, Step::Delete(_)),
            |step| matches!(step, Step::Disturb(_, Outside::Scale(_))),
            |step| matches!(step, Step::Disturb(_, Outside::SetImage)),
            |step| matches!(step, Step::Disturb(_, Outside::RemoveService)),
            |step| matches!(step, Step::Scale(..)),
            |step| matches!(step, Step::Restart(_)),
            |step| matches!(step, Step::MarkHealthy(_)),
            |step| matches!(step, Step::PutConfig(..)),
            |step| matches!(step, Step::Expose(_)),
            |step| matches!(step, Step::Unexpose(_)),
            |step| matches!(step, Step::Run(_)),
            |step| !matches!(step, Step::Faulty(..)),
        ];
        assert!(steps.iter().any(|step| matches!(step, Step::Faulty(..))));
        let steps: Vec<Step> = steps.iter().map(whole).collect();
        for (at, kind) in kinds.into_iter().enumerate() {
            assert!(steps.iter().any(kind), "no step is of kind {at}: {steps:?}");
        }
    }
}
