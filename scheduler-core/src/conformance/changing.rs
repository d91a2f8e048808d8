//! The operations that change something, as the cases try them that let each of their requests fail.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;

use super::ctx::{Ctx, DONE, check, check_eq, checked, ids};
use super::{Failure, Outcome};
use crate::memory::Fate;
use crate::{
    Change, Conflict, DeleteNamespace, Deleted, EnsureNamespace, ErrorKind, Expose, Guard, History, InstanceAction,
    InstanceAnswer, InstanceState, MarkHealthy, MarkedHealthy, Missing, Namespace, NamespaceDeleted, NamespaceEnsured,
    Observation, OnInstance, Plan, PlanToken, PutConfig, Result as OpResult, Revision, Rollout, RolloutAction, Route,
    Run, RunKey, Scale, Unexpose, Unexposed, Verdict, Workload,
};

/// What an operation is about in one attempt, where that is not always the same: a revision, an instance, a key.
type About = String;

/// What comes of a step.
type Step<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// An operation that changes something.
#[derive(Clone, Copy)]
pub(super) struct Changing {
    /// Brings about what the operation finds in the attempt of this number, whatever the last one left.
    prepare: for<'a> fn(&'a Ctx, u32) -> Step<'a, About>,
    /// The operation, and whether it changed anything.
    act: for<'a> fn(&'a Ctx, &'a str) -> Step<'a, OpResult<bool>>,
    /// What is true afterwards beside the native objects, in words that are the same for each attempt.
    afterwards: for<'a> fn(&'a Ctx, &'a str) -> Step<'a, String>,
    /// Whether it finds nothing to do when it is done once more.
    settles: bool,
}

/// What an operation leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// How many native objects of each kind were made, rewritten and taken away.
    objects: BTreeMap<(String, &'static str), usize>,
    afterwards: String,
}

/// An attempt that is prepared.
#[derive(Debug)]
pub(super) struct Attempt {
    about: About,
    before: Vec<(String, String)>,
}

impl Changing {
    pub(super) async fn prepare(&self, ctx: &Ctx, number: u32) -> Result<Attempt, Failure> {
        let about = (self.prepare)(ctx, number).await?;
        Ok(Attempt { about, before: ctx.objects().await? })
    }

    pub(super) async fn act(&self, ctx: &Ctx, attempt: &Attempt) -> Result<OpResult<bool>, Failure> {
        (self.act)(ctx, &attempt.about).await
    }

    /// What the operation leaves when nothing fails. Its attempt is that of number zero.
    pub(super) async fn undisturbed(&self, ctx: &Ctx) -> Result<Left, Failure> {
        let attempt = self.prepare(ctx, 0).await?;
        check!(self.act(ctx, &attempt).await??, "it changes nothing, so that the case says nothing");
        self.left(ctx, &attempt).await
    }

    /// What the attempt left.
    pub(super) async fn left(&self, ctx: &Ctx, attempt: &Attempt) -> Result<Left, Failure> {
        let afterwards = (self.afterwards)(ctx, &attempt.about).await?;
        if self.settles {
            let done = ctx.objects().await?;
            check!(!self.act(ctx, attempt).await??, "it finds something to do when it was done");
            check_eq!(ctx.objects().await?, done, "the objects after it was done once more");
        }
        let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (attempt.before.iter().cloned().collect(), ctx.objects().await?.into_iter().collect());
        let mut objects = BTreeMap::new();
        let mut count = |name: &str, what| {
            let kind = name.split('/').next().unwrap_or_default().to_owned();
            *objects.entry((kind, what)).or_insert(0) += 1;
        };
        for (name, token) in &after {
            match before.get(name) {
                None => count(name, "made"),
                Some(earlier) if earlier != token => count(name, "rewritten"),
                Some(_) => {}
            }
        }
        before.keys().filter(|name| !after.contains_key(*name)).for_each(|name| count(name, "taken away"));
        Ok(Left { objects, afterwards })
    }
}

impl Attempt {
    /// That no object is other than it was.
    pub(super) async fn changed_nothing(&self, ctx: &Ctx) -> Outcome {
        let now = ctx.objects().await?;
        let other = now.iter().filter(|object| !self.before.contains(object));
        let gone = self.before.iter().filter(|object| !now.contains(object));
        let names: BTreeSet<&str> = other.chain(gone).map(|(name, _)| name.as_str()).collect();
        check!(names.is_empty(), "{names:?} are not what they were");
        Ok(())
    }
}

fn nothing_more<'a>(_: &'a Ctx, _: &'a str) -> Step<'a, String> {
    Box::pin(async { Ok(String::new()) })
}

fn changed(ctx: &Ctx) -> Workload {
    ctx.with_other_port(ctx.with_tag(ctx.idle("web"), "2"))
}

async fn try_launch(ctx: &Ctx, workload: Workload, guard: Guard) -> Result<OpResult<bool>, Failure> {
    let launched = ctx.try_launch(workload, guard).await?;
    Ok(launched.map(|launched| launched.change != Change::Unchanged))
}

/// The workload of most operations, which has no instances, as it is launched. All attempts are about the same.
fn idle(ctx: &Ctx, _: u32) -> Step<'_, About> {
    Box::pin(async { ctx.launch(ctx.idle("web")).await.map(|_| About::new()) })
}

fn launched<'a>(ctx: &'a Ctx, _: &'a str) -> Step<'a, String> {
    Box::pin(async {
        let seen = ctx.seen("web").await?;
        Ok(format!("{:?}, {} instances", seen.revision, seen.counts.desired))
    })
}

/// A launch of what is not there.
pub(super) const LAUNCH: Changing = Changing {
    prepare: |ctx, _| Box::pin(async { ctx.delete_whole("web").await.map(|_| About::new()) }),
    act: |ctx, _| Box::pin(async { try_launch(ctx, ctx.idle("web"), Guard::IfOwned).await }),
    afterwards: launched,
    settles: true,
};

/// A launch that changes every object.
pub(super) const UPDATE: Changing = Changing {
    prepare: idle,
    act: |ctx, _| Box::pin(async { try_launch(ctx, changed(ctx), Guard::IfOwned).await }),
    afterwards: launched,
    settles: true,
};

async fn plan(ctx: &Ctx) -> Result<PlanToken, Failure> {
    Ok(ctx.scheduler.plan(Plan::new(checked(changed(ctx))?)).await?.token)
}

/// The same as it was planned. When the world has moved, by its own doing perhaps, it is planned anew.
pub(super) const PLANNED: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            idle(ctx, number).await?;
            Ok(plan(ctx).await?.to_string())
        })
    },
    act: |ctx, token| {
        Box::pin(async move {
            let token: PlanToken = token.parse().map_err(|e| Failure(format!("{token}: {e}")))?;
            match try_launch(ctx, changed(ctx), Guard::IfPlan(token)).await? {
                Err(error) if matches!(error.kind(), ErrorKind::Conflict(Conflict::Moved { .. })) => {
                    try_launch(ctx, changed(ctx), Guard::IfPlan(plan(ctx).await?)).await
                }
                answer => Ok(answer),
            }
        })
    },
    afterwards: launched,
    settles: true,
};

/// A delete of all that a workload can have.
pub(super) const DELETE: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            ctx.launch(ctx.idle("web")).await?;
            put_config(ctx, "0").await??;
            EXPOSE.act_once(ctx).await?;
            idle(ctx, number).await
        })
    },
    act: |ctx, _| {
        Box::pin(async { Ok(ctx.try_delete("web", Guard::IfOwned).await?.map(|step| step != Deleted::WasAbsent)) })
    },
    afterwards: |ctx, _| {
        Box::pin(async {
            ctx.delete_whole("web").await?;
            ctx.nothing_left().await?;
            Ok(format!("{:?}", ctx.status("web").await?.map(|seen| seen.target)))
        })
    },
    settles: true,
};

/// A change of the count. What would run is never pulled, so that nothing has to end.
pub(super) const SCALE: Changing = Changing {
    prepare: |ctx, _| Box::pin(async { ctx.launch(ctx.hopeful("web").replicas(0)).await.map(|_| About::new()) }),
    act: |ctx, _| {
        Box::pin(async {
            let scaled = ctx.scheduler.scale(Scale::new(ctx.target("web")?, 1)).await;
            Ok(scaled.map(|scaled| scaled.from != scaled.to))
        })
    },
    afterwards: launched,
    settles: true,
};

async fn steer(ctx: &Ctx, action: RolloutAction) -> Result<OpResult<bool>, Failure> {
    Ok(ctx.scheduler.rollout(Rollout::new(ctx.target("web")?, action)).await.map(|steered| steered.changed))
}

/// A restart, which restarts once more when it is done once more.
pub(super) const RESTART: Changing = Changing {
    prepare: idle,
    act: |ctx, _| Box::pin(steer(ctx, RolloutAction::Restart)),
    afterwards: |ctx, _| {
        Box::pin(async { Ok(format!("the same launch is {}", ctx.launch(ctx.idle("web")).await?.change)) })
    },
    settles: false,
};

/// A pause of a rollout that does not end by itself.
pub(super) const PAUSE: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            if number == 0 {
                ctx.launch_healthy(ctx.service("web").replicas(2)).await?;
                ctx.launch(ctx.hopeful("web").replicas(2)).await?;
                ctx.settle("web", "updating", |seen| Ok(seen.noticed && seen.counts.updated > 0)).await?;
            }
            steer(ctx, RolloutAction::Resume).await??;
            Ok(About::new())
        })
    },
    act: |ctx, _| Box::pin(steer(ctx, RolloutAction::Pause)),
    afterwards: nothing_more,
    settles: true,
};

/// The end of an instance, which is the first of several. Each attempt is about another one.
pub(super) const STOP: Changing = Changing {
    prepare: |ctx, _| {
        Box::pin(async {
            ctx.launch(ctx.service("web").replicas(4)).await?;
            let seen = ctx.settle("web", "complete", |seen| Ok(staying(seen).len() == 4)).await?;
            Ok(staying(&seen).join(" "))
        })
    },
    act: |ctx, all| {
        Box::pin(async move {
            let instance = all.split(' ').next().unwrap_or_default();
            let stop = OnInstance::new(ctx.target("web")?, instance, InstanceAction::Stop);
            Ok(match ctx.scheduler.instance(stop).await {
                Err(error) if *error.kind() == ErrorKind::NotFound(Missing::Instance) => Ok(false),
                answer => answer.map(|answer| answer == InstanceAnswer::Told),
            })
        })
    },
    afterwards: |ctx, all| {
        Box::pin(async move {
            let stays = |seen: &Observation, id: &str| staying(seen).iter().any(|left| left == id);
            let first = all.split(' ').next().unwrap_or_default();
            // The platform may take a moment to follow.
            let seen = ctx.settle("web", "without the instance", |seen| Ok(!stays(seen, first))).await?;
            let stays = all.split(' ').filter(|id| stays(&seen, id)).count();
            Ok(format!("{stays} of the instances stay"))
        })
    },
    settles: true,
};

/// The instances that are not on their way out.
fn staying(seen: &Observation) -> Vec<String> {
    let mut living = ids(seen);
    for instance in seen.instances.iter().filter(|instance| instance.state == InstanceState::Terminating) {
        living.remove(&instance.id);
    }
    living.into_iter().collect()
}

/// A mark of a revision that had none, and which is not the first of the workload. Each attempt is about another one.
pub(super) const MARK: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            if number == 0 {
                let first = ctx.launch(ctx.with_tag(ctx.idle("web"), "first")).await?;
                ctx.scheduler.mark_healthy(MarkHealthy::new(ctx.target("web")?, first.revision)).await?;
            }
            let launched = ctx.launch(ctx.with_tag(ctx.idle("web"), &format!("m{number}"))).await?;
            Ok(launched.revision.to_string())
        })
    },
    act: |ctx, revision| {
        Box::pin(async move {
            let revision: Revision = revision.parse().map_err(|e| Failure(format!("{revision}: {e}")))?;
            let marked = ctx.scheduler.mark_healthy(MarkHealthy::new(ctx.target("web")?, revision)).await;
            Ok(marked.map(|marked| marked == MarkedHealthy::Now))
        })
    },
    afterwards: |ctx, revision| {
        Box::pin(async move {
            let history = ctx.scheduler.history(History::new(ctx.target("web")?)).await?;
            let of = history.entries.iter().filter(|entry| entry.revision.as_str() == revision);
            Ok(format!("{:?}", of.map(|entry| (entry.healthy, entry.current)).collect::<Vec<_>>()))
        })
    },
    settles: true,
};

fn key(text: &str) -> Result<RunKey, Failure> {
    RunKey::new(text).map_err(|e| Failure(e.to_string()))
}

fn one_off(ctx: &Ctx) -> Result<Run, Failure> {
    Ok(Run::one_off(checked(ctx.job("migrate", DONE))?, key("r1")?))
}

/// A run of a job under the same key each time.
pub(super) const RUN: Changing = Changing {
    prepare: |ctx, _| {
        Box::pin(async {
            let name = one_off(ctx)?.id().target().name.to_string();
            ctx.delete_whole(&name).await?;
            Ok(name)
        })
    },
    act: |ctx, _| Box::pin(async { Ok(ctx.scheduler.run(one_off(ctx)?).await.map(|started| started.created)) }),
    afterwards: |ctx, name| {
        Box::pin(async move {
            let done = ctx.verdict(name, Verdict::Complete).await?;
            Ok(format!("{} completions", done.counts.succeeded))
        })
    },
    settles: true,
};

/// A run of a periodic job that is never due. It stays, and each attempt is about another one.
pub(super) const RUN_NOW: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            ctx.launch(ctx.with_fate(ctx.periodic("nightly"), Fate::PullError, "1")).await?;
            Ok(format!("r{number}"))
        })
    },
    act: |ctx, text| {
        Box::pin(async move {
            let run = Run::now(ctx.target("nightly")?, key(text)?);
            Ok(ctx.scheduler.run(run).await.map(|started| started.created))
        })
    },
    afterwards: |ctx, text| {
        Box::pin(async move {
            let run = Run::now(ctx.target("nightly")?, key(text)?).id();
            Ok(format!("a run of {:?}", ctx.seen(run.target().name.as_str()).await?.run_of))
        })
    },
    settles: true,
};

async fn put_config(ctx: &Ctx, content: &str) -> Result<OpResult<bool>, Failure> {
    let put = PutConfig::new(ctx.target("web")?, "app").entry("CONTENT", content).entry("MORE", content);
    Ok(ctx.scheduler.put_config(put).await.map(|stored| stored.created))
}

/// A configuration whose name has as many versions as are kept, so that the oldest goes.
pub(super) const PUT_CONFIG: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            if number == 0 {
                ctx.launch(ctx.idle("web")).await?;
                for version in 0..10 {
                    put_config(ctx, &format!("early {version}")).await??;
                }
            }
            Ok(number.to_string())
        })
    },
    act: |ctx, content| Box::pin(put_config(ctx, content)),
    afterwards: nothing_more,
    settles: true,
};

impl Changing {
    async fn act_once(&self, ctx: &Ctx) -> Outcome {
        (self.act)(ctx, "").await??;
        Ok(())
    }
}

/// Routes for a workload that has none.
pub(super) const EXPOSE: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            idle(ctx, number).await?;
            UNEXPOSE.act_once(ctx).await?;
            Ok(About::new())
        })
    },
    act: |ctx, _| {
        Box::pin(async {
            let routes = ["a", "b"].map(|part| Route::new(format!("{part}.{}.example", ctx.world.namespace()), "http"));
            let exposed = ctx.scheduler.expose(Expose::new(ctx.target("web")?, routes)).await;
            Ok(exposed.map(|exposed| exposed.changed))
        })
    },
    afterwards: nothing_more,
    settles: true,
};

/// The end of all routes of a workload.
pub(super) const UNEXPOSE: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            idle(ctx, number).await?;
            EXPOSE.act_once(ctx).await?;
            Ok(About::new())
        })
    },
    act: |ctx, _| {
        Box::pin(async {
            let unexposed = ctx.scheduler.unexpose(Unexpose::new(ctx.target("web")?)).await;
            Ok(unexposed.map(|unexposed| unexposed == Unexposed::Gone))
        })
    },
    afterwards: nothing_more,
    settles: true,
};

fn namespace(ctx: &Ctx, part: &str) -> Result<Namespace, Failure> {
    Namespace::new(format!("{}{part}", ctx.world.namespace())).map_err(|e| Failure(e.to_string()))
}

async fn ensure(ctx: &Ctx, part: &str) -> Result<OpResult<NamespaceEnsured>, Failure> {
    Ok(ctx.scheduler.ensure_namespace(EnsureNamespace::new(namespace(ctx, part)?)).await)
}

async fn delete_namespace(ctx: &Ctx, part: &str) -> Result<OpResult<NamespaceDeleted>, Failure> {
    Ok(ctx.scheduler.delete_namespace(DeleteNamespace::new(namespace(ctx, part)?)).await)
}

/// A namespace that is not there. Each attempt is about another one, since they take their time to go.
pub(super) const ENSURE_NAMESPACE: Changing = Changing {
    prepare: |_, number| Box::pin(async move { Ok(format!("-{number}")) }),
    act: |ctx, part| {
        Box::pin(async move { Ok(ensure(ctx, part).await?.map(|ensured| ensured == NamespaceEnsured::Created)) })
    },
    afterwards: |ctx, part| {
        Box::pin(async move {
            let again = ensure(ctx, part).await??;
            delete_namespace(ctx, part).await??;
            Ok(format!("{again:?}"))
        })
    },
    settles: false,
};

/// The end of a namespace. Each attempt is about another one.
pub(super) const DELETE_NAMESPACE: Changing = Changing {
    prepare: |ctx, number| {
        Box::pin(async move {
            let part = format!("-{number}");
            ensure(ctx, &part).await??;
            Ok(part)
        })
    },
    act: |ctx, part| {
        Box::pin(async move { Ok(delete_namespace(ctx, part).await?.map(|step| step != NamespaceDeleted::WasAbsent)) })
    },
    afterwards: |ctx, part| {
        Box::pin(async move {
            match ensure(ctx, part).await? {
                // It was gone, so that this made another one.
                Ok(NamespaceEnsured::Created) => drop(delete_namespace(ctx, part).await??),
                Err(error) if *error.kind() == ErrorKind::Conflict(Conflict::Deleting) => {}
                other => check!(false, "it is there as before: {other:?}"),
            }
            Ok(String::new())
        })
    },
    settles: false,
};
