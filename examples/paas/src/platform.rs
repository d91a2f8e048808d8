//! The platform: changes of the models, and the hooks to which the outbox tells them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lifecycle_hooks::deliver::{Deadlines, HookSets, Proposal};
use lifecycle_hooks::outbox::{Outbox as _, OutboxFilter, SqliteOutbox, Waiting};
use lifecycle_hooks::pipeline::{DeployId, DeployRecord, Deployer};
use scheduler_core::hooks::{AppName, Event, EventId, EventKind, HookName};
use scheduler_core::{Detail, Filter, List, Scheduler, Status, WatchState};
use serde_json::{Value, json};
use sqlx::SqlitePool;

use crate::change::{Change, Made};
use crate::feed::Feed;
use crate::hooks::RECONCILE;
use crate::live::Notices;
use crate::model::{self, ReleaseRow, ReleaseState};
use crate::refusal::{Refusal, RefusalKind};
use crate::view::{AppView, WorkloadView};

/// What the API works on.
#[derive(Debug)]
pub struct Platform {
    pub pool: SqlitePool,
    pub outbox: Arc<SqliteOutbox>,
    pub deployer: Deployer,
    pub hooks: HookSets,
    pub scheduler: Arc<dyn Scheduler>,
    pub feed: Arc<Feed>,
    pub notices: Notices,
    /// What the backend's watch adds up to.
    pub seen: Mutex<WatchState>,
}

impl Platform {
    /// Changes an app: tries it, asks the hooks, then commits it together with the event of it.
    ///
    /// Hooks may ask the backend, and take their time. So they are asked while no transaction is open; and if somebody else
    /// changed the app meanwhile, what they said does not count and nothing is changed.
    pub async fn change(&self, name: &AppName, change: &Change) -> Result<AppView, Refusal> {
        let id = self.new_id().await?;
        let mut trial = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let tried = change.make(&mut trial, name, &id).await?;
        trial.rollback().await?;
        self.ask(&tried).await?;

        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let made = change.make(&mut transaction, name, &id).await?;
        if made.rev != tried.rev {
            let hint = "look at it again, and repeat the request if it still makes sense";
            return Err(Refusal::conflict(format!("{name} was changed by somebody else at the same time"), hint));
        }
        let event = made.fact.map(|fact| Event::new(EventId::new(id), model::now(), fact, made.app));
        if let Some(event) = &event {
            self.outbox.append(&mut transaction, event).await?;
        }
        transaction.commit().await?;
        if let Some(event) = &event {
            self.announce(event).await;
        }
        self.notices.changed(name);
        self.app(name).await
    }

    /// Lets a deploy that goes on make way for what comes behind it. If that fails, that comes all the same, but later.
    async fn announce(&self, event: &Event) {
        let announced = match (&event.kind, &event.app.release) {
            (EventKind::ReleaseCreated, Some(release)) => {
                self.deployer.announce(&event.app.name, release.version).await
            }
            (EventKind::AppDestroyed, _) => self.deployer.announce_end(&event.app.name).await,
            _ => Ok(()),
        };
        if let Err(error) = announced {
            eprintln!("{}: {error}", event.app.name);
        }
    }

    /// Whether no hook speaks against it.
    async fn ask(&self, made: &Made) -> Result<(), Refusal> {
        let app = &made.app;
        let proposal = match &made.fact {
            Some(EventKind::AppCreated) => Proposal::AppCreate(app),
            Some(EventKind::ReleaseCreated) => Proposal::ReleaseCreate(app),
            Some(EventKind::FormationChanged { .. }) => Proposal::FormationChange(app),
            Some(EventKind::DomainAdded(domain)) => Proposal::DomainAdd(app, domain),
            _ => return Ok(()),
        };
        Ok(self.hooks.validate(&proposal, &Deadlines::default()).await?)
    }

    /// A name that nothing else has.
    pub async fn new_id(&self) -> Result<String, Refusal> {
        Ok(sqlx::query_scalar("SELECT lower(hex(randomblob(16)))").fetch_one(&self.pool).await?)
    }

    /// An app as it is shown, if there is one.
    pub async fn find(&self, app: &AppName) -> Result<Option<AppView>, Refusal> {
        let model = model::find(&mut *self.pool.acquire().await?, app).await?;
        let Some(model) = model else { return Ok(None) };
        let deploy = match model.releases.first() {
            Some(newest) => self.deploy(newest).await?,
            None => None,
        };
        let waiting = self.waiting(&OutboxFilter::default().app(app.clone())).await?;
        Ok(Some(AppView::new(&model, deploy.as_ref(), waiting)))
    }

    /// The deploy of a release, if it has begun.
    async fn deploy(&self, row: &ReleaseRow) -> Result<Option<DeployRecord>, Refusal> {
        let id = DeployId::new(row.event.as_str())
            .map_err(|error| Refusal::new(RefusalKind::Internal, error.to_string(), "report it"))?;
        Ok(self.deployer.store().load(&id).await?.map(|(record, _)| record))
    }

    async fn names(&self) -> Result<Vec<AppName>, Refusal> {
        model::names(&mut *self.pool.acquire().await?).await
    }

    /// An app that must be there.
    pub async fn app(&self, app: &AppName) -> Result<AppView, Refusal> {
        self.find(app).await?.ok_or_else(|| Refusal::not_found(format!("there is no app {app}")))
    }

    pub async fn apps(&self) -> Result<Vec<AppView>, Refusal> {
        let mut views = Vec::new();
        for name in self.names().await? {
            views.extend(self.find(&name).await?);
        }
        Ok(views)
    }

    /// An app, with what the backend says of its workloads now, and the evidence for it.
    pub async fn details(&self, app: &AppName) -> Result<Value, Refusal> {
        let view = self.app(app).await?;
        let filter = Filter::namespace(model::namespace(app)?);
        let mut workloads = Vec::new();
        for listed in self.scheduler.list(List::new(filter)).await?.workloads {
            let status = Status::new(listed.target, Detail::Evidence);
            workloads.extend(self.scheduler.status(status).await?.0.and_then(|seen| WorkloadView::new(&seen)));
        }
        Ok(with_workloads(&view, &workloads))
    }

    /// What a follower begins with: one app or all, as they were seen last.
    pub async fn snapshot(&self, app: Option<&AppName>) -> Value {
        let views = match app {
            Some(app) => self.find(app).await.map(|view| view.into_iter().collect()),
            None => self.apps().await,
        };
        match views {
            Ok(views) => {
                let seen: Vec<WorkloadView> = self.picture(|seen| seen.iter().filter_map(WorkloadView::new).collect());
                let of =
                    |view: &AppView| seen.iter().filter(|w| w.app == view.name.as_str()).cloned().collect::<Vec<_>>();
                let apps: Vec<Value> = views.iter().map(|view| with_workloads(view, &of(view))).collect();
                json!({ "backend": self.backend(), "apps": apps })
            }
            Err(refusal) => json!({ "backend": self.backend(), "apps": [], "error": refusal.message }),
        }
    }

    /// Looks at, or adds to, what the watch has told.
    pub fn picture<T>(&self, look: impl FnOnce(&mut WatchState) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn backend(&self) -> &str {
        self.scheduler.capabilities().backend().as_str()
    }

    /// Which hooks do anything, in which set, and why the others do not.
    pub fn supports(&self) -> Value {
        let one = |hook: &HookName| {
            let sets: BTreeMap<_, _> = self.hooks.supports(*hook).into_iter().collect();
            (hook.to_string(), json!(sets))
        };
        HookName::ALL.iter().map(one).collect::<serde_json::Map<_, _>>().into()
    }

    pub async fn waiting(&self, filter: &OutboxFilter) -> Result<Vec<Waiting>, Refusal> {
        Ok(self.outbox.list(filter).await?)
    }

    /// Lets an event be told at once.
    pub async fn retry(&self, event: &EventId) -> Result<(), Refusal> {
        let waiting = self.waits(event).await?;
        self.outbox.retry(event).await?;
        self.notices.changed(&waiting.app);
        Ok(())
    }

    /// Takes an event out, untold. The model then must not say what nobody was told.
    pub async fn drop_event(&self, event: &EventId) -> Result<(), Refusal> {
        let waiting = self.waits(event).await?;
        if waiting.hook == Some(HookName::PostAppDestroy) {
            let hint = "mend what its error names, and retry it";
            return Err(Refusal::conflict("without it the app would be neither there nor gone", hint));
        }
        if self.outbox.drop_event(event).await? {
            model::give_up(&mut *self.pool.acquire().await?, &waiting).await?;
        }
        self.notices.changed(&waiting.app);
        Ok(())
    }

    async fn waits(&self, event: &EventId) -> Result<Waiting, Refusal> {
        let waiting = self.waiting(&OutboxFilter::default()).await?;
        let found = waiting.into_iter().find(|waiting| waiting.id == *event);
        found.ok_or_else(|| Refusal::not_found(format!("no event {event} waits")))
    }

    /// Asks for every app to be compared with its model, but those that are being deployed.
    pub async fn reconcile(&self) -> Result<(), Refusal> {
        let waiting = self.waiting(&OutboxFilter::default()).await?;
        let asked = |app: &AppName| waiting.iter().any(|w| w.app == *app && w.hook == Some(HookName::Other));
        for name in self.names().await? {
            let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
            let Some(model) = model::find(&mut transaction, &name).await? else { continue };
            if model.destroyed || model.is_deploying() || asked(&name) {
                continue;
            }
            let fact = EventKind::Other { name: RECONCILE.to_owned(), data: Value::Null };
            let event = Event::new(EventId::new(self.new_id().await?), model::now(), fact, model.app);
            self.outbox.append(&mut transaction, &event).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    /// Mends what a platform left that was killed, before anything is told.
    pub async fn recover(&self) {
        let recovered = async {
            for name in self.names().await? {
                self.recover_app(&name).await?;
            }
            Ok::<_, Refusal>(())
        };
        if let Err(refusal) = recovered.await {
            eprintln!("recovery: {}", refusal.message);
        }
    }

    async fn recover_app(&self, name: &AppName) -> Result<(), Refusal> {
        let model = model::load(&mut *self.pool.acquire().await?, name).await?;
        // The end of a deploy is told once. Whoever missed it reads its record.
        for row in model.releases.iter().filter(|row| row.state == ReleaseState::Deploying) {
            if let Some(end) = self.deploy(row).await?.and_then(|record| record.end()) {
                model::end_release(&mut *self.pool.acquire().await?, name, &end).await?;
            }
        }
        // In memory nothing outlived the process, and an event that waits needs what earlier ones had made.
        let waiting = self.waiting(&OutboxFilter::default().app(name.clone())).await?;
        let made = waiting.first().is_some_and(|first| first.hook != Some(HookName::PostAppCreate));
        if made && !model.destroyed {
            let event = Event::new(EventId::new(self.new_id().await?), model::now(), EventKind::AppCreated, model.app);
            if let Err(error) = self.hooks.tell(&event, &Deadlines::default()).await.verdict() {
                eprintln!("{name}: {error}");
            }
        }
        Ok(())
    }
}

fn with_workloads(view: &AppView, workloads: &[WorkloadView]) -> Value {
    let mut value = json!(view);
    value["workloads"] = json!(workloads);
    value
}
