//! Whatever fails in between: what is in memory at the end is what would be there if nothing had failed.
//!
//! Operations that memory refuses are refused either way, so that each counts as soon as memory has it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use proptest::prelude::*;
use scheduler_core::layer::{Chaos, ChaosOptions, ChaosScript, Mishap, Retry, RetryPolicy};
use scheduler_core::memory::MemoryCluster;
use scheduler_core::{
    Container, Delete, DeleteNamespace, EnsureNamespace, ErrorKind, Expose, Filter, FromOps, Guard, Launch, List,
    MarkHealthy, Namespace, OpService, OwnerId, PutConfig, Rollout, RolloutAction, Route, Run, RunKey, Scale,
    Scheduler, SchedulerOp, Target, ToOps, Unexpose, Verdict, Watch, WatchState, Workload,
};

fn web(name: &str, tag: u32, replicas: u32) -> Workload {
    let container = Container::new("web", format!("web:{tag}")).port("http", 8080);
    Workload::service("shop", name).replicas(replicas).container(container)
}

fn launch(name: &str, tag: u32, replicas: u32) -> Launch {
    Launch::new(web(name, tag, replicas).check().unwrap())
}

fn target(name: &str) -> Target {
    Target::new("shop", name).unwrap()
}

/// A cluster, and a scheduler through layers.
struct World {
    cluster: MemoryCluster,
    service: Arc<dyn OpService>,
}

impl World {
    fn new(layers: impl FnOnce(Arc<dyn OpService>) -> Arc<dyn OpService>) -> Self {
        let cluster = MemoryCluster::builder().namespace("shop").build();
        let memory = cluster.scheduler(OwnerId::new("me").unwrap());
        Self { cluster, service: layers(Arc::new(ToOps::new(Arc::new(memory)))) }
    }

    fn plain() -> Self {
        Self::new(|service| service)
    }

    fn chaotic(chaos: impl FnOnce(Arc<dyn OpService>) -> Chaos) -> Self {
        let policy = RetryPolicy::default().attempts(50).total(Duration::from_secs(3600)).seed(1);
        Self::new(|service| Arc::new(Retry::new(Arc::new(chaos(service)), policy)))
    }

    /// Plays an operation and lets the dust settle. The kind of the error.
    async fn play(&self, op: SchedulerOp) -> Option<ErrorKind> {
        let answer = self.service.call(op).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        answer.err().map(|error| error.kind().clone())
    }

    /// What there is, as text: without times and versions, which differ.
    async fn state(&self) -> Vec<String> {
        let shop = Namespace::new("shop").unwrap();
        let memory = self.cluster.scheduler(OwnerId::new("me").unwrap());
        let listed = memory.list(List::new(Filter::namespace(shop.clone()))).await.unwrap();
        let workloads = listed.workloads.into_iter().map(|seen| {
            assert!(!matches!(seen.verdict(), Verdict::Progressing(_)), "{seen:?}");
            let (verdict, counts) = (seen.verdict(), seen.counts);
            format!("{} {:?} {:?} {verdict} {counts:?} {}", seen.target, seen.kind, seen.revision, seen.paused)
        });
        let objects = self.cluster.objects(&shop).into_iter().map(|(name, _)| name);
        workloads.chain(objects).collect()
    }
}

/// One of each operation that changes something, after what it needs.
fn each() -> Vec<Vec<SchedulerOp>> {
    let one = |op: SchedulerOp| vec![launch("a", 1, 2).into(), op];
    let key = RunKey::new("7").unwrap();
    let job = Workload::job("shop", "migrate").container(Container::new("main", "sim/done:1")).check().unwrap();
    let revision = launch("a", 1, 2).workload.revision().clone();
    let other = || Namespace::new("other").unwrap();
    vec![
        one(launch("b", 1, 1).into()),
        one(launch("b", 1, 1).guard(Guard::IfAbsent).into()),
        one(launch("a", 2, 3).into()),
        one(launch("a", 2, 3).guard(Guard::Adopt).into()),
        one(Delete::new(target("a")).into()),
        one(Scale::new(target("a"), 4).into()),
        one(Rollout::new(target("a"), RolloutAction::Restart).into()),
        one(MarkHealthy::new(target("a"), revision).into()),
        one(Run::one_off(job, key).into()),
        one(PutConfig::new(target("a"), "app").entry("A", "1").into()),
        one(Expose::new(target("a"), [Route::new("shop.example", "http")]).into()),
        vec![
            launch("a", 1, 2).into(),
            Expose::new(target("a"), [Route::new("shop.example", "http")]).into(),
            Unexpose::new(target("a")).into(),
        ],
        one(EnsureNamespace::new(other()).into()),
        vec![EnsureNamespace::new(other()).into(), DeleteNamespace::new(other()).into()],
    ]
}

#[tokio::test(start_paused = true)]
async fn each_operation_survives_each_failure() {
    let span = Duration::from_secs(2);
    for ops in each() {
        let last = ops.len() as u64;
        let plain = World::plain();
        let mut expected = None;
        for op in ops.clone() {
            expected = plain.play(op).await;
        }
        for mishap in [Mishap::Refuse, Mishap::RefuseFor(span), Mishap::LoseAnswer, Mishap::Delay(span)] {
            for mishaps in 1..=2 {
                let script = (0..mishaps).fold(ChaosScript::new(), |script, n| script.call(last + n, mishap));
                let world = World::chaotic(|service| Chaos::scripted(service, script));
                let mut answer = None;
                for op in ops.clone() {
                    answer = world.play(op).await;
                }
                let last = ops.last();
                // Of what cannot be done twice the caller is told that it may have been done.
                let untold = mishap == Mishap::LoseAnswer && answer == Some(ErrorKind::OutcomeUnknown);
                assert!(untold || answer == expected, "{last:?} under {mishaps} × {mishap:?}: {answer:?}");
                assert_eq!(world.state().await, plain.state().await, "{last:?} under {mishaps} × {mishap:?}");
            }
        }
    }
}

fn any_op() -> impl Strategy<Value = SchedulerOp> {
    let name = prop_oneof![Just("a"), Just("b")];
    (name, 0..9_u8, 1..3_u32, 0..3_u32).prop_map(|(name, kind, tag, count)| match kind {
        0..=3 => launch(name, tag, count).into(),
        4 => Delete::new(target(name)).into(),
        5 | 6 => Scale::new(target(name), count).into(),
        7 => {
            let container = Container::new("main", format!("sim/done:{tag}"));
            let job = Workload::job("shop", "migrate").container(container).check().unwrap();
            Run::one_off(job, RunKey::new(count.to_string()).unwrap()).into()
        }
        _ => PutConfig::new(target(name), "app").entry("A", tag.to_string()).into(),
    })
}

fn paused<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(run)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sequence_comes_to_the_same(ops in proptest::collection::vec(any_op(), 1..12), seed: u64) {
        let (expected, found) = paused(async {
            let plain = World::plain();
            let options = ChaosOptions::new(seed).refuse(150).refuse_for(100).lose_answer(250).delay(200);
            let world = World::chaotic(|service| Chaos::seeded(service, options));
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            for op in ops {
                expected.push(plain.play(op.clone()).await);
                found.push(world.play(op).await);
            }
            ((expected, plain.state().await), (found, world.state().await))
        });
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_watch_with_gaps_tells_what_a_list_does(ops in proptest::collection::vec(any_op(), 1..12), seed: u64) {
        paused(async {
            let options = ChaosOptions::new(seed).gap(300);
            let world = World::chaotic(|service| Chaos::seeded(service, options));
            let mut watch = FromOps::new(Arc::clone(&world.service)).watch(Watch::default());
            let mut state = WatchState::new();
            for op in ops {
                drop(world.service.call(op).await);
                // Some of what is told now is read now, the rest later.
                if let Some(Some(item)) = watch.next().now_or_never() {
                    state.apply(item.unwrap());
                }
            }
            while let Ok(Some(item)) = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await {
                state.apply(item.unwrap());
            }
            assert!(state.synced());
            let memory = world.cluster.scheduler(OwnerId::new("me").unwrap());
            let listed = memory.list(List::default()).await.unwrap().workloads;
            let short = |seen: &scheduler_core::Observation| {
                (seen.target.clone(), seen.incarnation.clone(), seen.revision.clone(), seen.verdict())
            };
            assert_eq!(state.iter().map(short).collect::<Vec<_>>(), listed.iter().map(short).collect::<Vec<_>>());
        });
    }
}
