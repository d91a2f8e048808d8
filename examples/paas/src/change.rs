//! What can happen to an app: a change of the tables, and the facts that follow from it.
//!
//! A change is made within the caller's transaction and knows no backend. So it can be tried first and taken back, to hear
//! whether any hook speaks against what would come of it.

use std::collections::BTreeMap;

use scheduler_core::hooks::{App, AppName, Domain, EventKind, Front, OneOff, Release};
use scheduler_core::{Container, Fault, Probe, Protocol, Role, RunKey, Seconds, Workload, WorkloadName};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use crate::model::{self, Model, ReleaseState};
use crate::refusal::Refusal;

/// The process that an image alone is deployed as.
const WEB: &str = "web";
/// For how long a run is kept after its end, to be looked at.
const KEEP_RUNS: Seconds = Seconds::new(3600);

/// A change of one app.
#[derive(Clone, Debug)]
pub enum Change {
    Create,
    Release(NewRelease),
    /// A new release with the content of an earlier one: of the last good one before the present, if none is named.
    RollBack(Option<u64>),
    Scale(BTreeMap<WorkloadName, u32>),
    AddDomain(String),
    RemoveDomain(String),
    Run(RunKey, NewRun),
    Restart(Option<WorkloadName>),
    Destroy,
}

/// What is to be released: an image, or whole processes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewRelease {
    /// The image of the process `web`. All else is as in the present release.
    pub image: Option<String>,
    /// The port that the image listens on.
    pub port: Option<u32>,
    /// For how many seconds the rollout may make no progress.
    pub patience: Option<u32>,
    /// All processes, as in a workload file. They live in the app's namespace, whatever they say.
    pub processes: Vec<Workload>,
    /// Jobs that must end well before.
    pub before: Vec<Workload>,
}

/// A command to run once in what a process runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewRun {
    /// The command and its arguments; the image's own if empty.
    pub command: Vec<String>,
    /// Whose image and environment it runs in; those of the process that takes requests if absent.
    pub process: Option<WorkloadName>,
    /// Another image.
    pub image: Option<String>,
    /// The same key twice is one run. One is made up if it is absent.
    pub key: Option<RunKey>,
}

/// What a change came to.
#[derive(Debug)]
pub struct Made {
    /// Counts the changes of the app. The same change of the same state comes to the same number.
    pub rev: i64,
    /// What happened, for the hooks; nothing if everything was so already.
    pub fact: Option<EventKind>,
    /// The app afterwards.
    pub app: App,
}

impl Change {
    /// Makes it in the tables. `event` is the name that the event of it will have.
    pub async fn make(&self, conn: &mut SqliteConnection, name: &AppName, event: &str) -> Result<Made, Refusal> {
        if let Self::Create = self {
            create(conn, name).await?;
        }
        let before = model::load(conn, name).await?;
        if before.destroyed {
            let hint = "wait until GET /apps shows it no more";
            return Err(Refusal::conflict(format!("{name} is being destroyed"), hint));
        }
        let fact = match self {
            Self::Create => Some(EventKind::AppCreated),
            Self::Release(new) => {
                let release = new.compose(&before.app, before.next_version())?;
                Some(put_release(conn, &before.app, &release, event).await?)
            }
            Self::RollBack(to) => {
                let release = before.earlier(*to)?;
                Some(put_release(conn, &before.app, &release, event).await?)
            }
            Self::Scale(counts) => {
                scale(conn, name, counts).await?;
                let from = before.app.formation.clone();
                counts.iter().any(|(p, n)| from.get(p) != Some(n)).then_some(EventKind::FormationChanged { from })
            }
            Self::AddDomain(host) => {
                add_domain(conn, name, host).await?;
                Some(EventKind::DomainAdded(Domain::new(host)))
            }
            Self::RemoveDomain(host) => {
                let sql = "DELETE FROM domains WHERE app = ? AND host = ?";
                if sqlx::query(sql).bind(name.as_str()).bind(host).execute(&mut *conn).await?.rows_affected() == 0 {
                    return Err(Refusal::not_found(format!("{name} has no domain {host}")));
                }
                Some(EventKind::DomainRemoved(Domain::new(host)))
            }
            Self::Run(key, new) => {
                let job = new.job(&before.app)?;
                let fact = EventKind::RunRequested(Box::new(OneOff::new(key.clone(), job.clone())));
                put_run(conn, name, key, &job).await?.then_some(fact)
            }
            Self::Restart(process) => {
                before.process(process.as_ref())?;
                Some(EventKind::RestartRequested { process: process.clone() })
            }
            Self::Destroy => {
                let sql = "UPDATE apps SET destroyed = ? WHERE name = ?";
                sqlx::query(sql).bind(model::now().millis()).bind(name.as_str()).execute(&mut *conn).await?;
                Some(EventKind::AppDestroyed)
            }
        };
        let sql = "UPDATE apps SET rev = rev + 1 WHERE name = ?";
        sqlx::query(sql).bind(name.as_str()).execute(&mut *conn).await?;
        let after = model::load(conn, name).await?;
        Ok(Made { rev: after.rev, fact, app: after.app })
    }
}

async fn create(conn: &mut SqliteConnection, name: &AppName) -> Result<(), Refusal> {
    let sql = "INSERT INTO apps (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING";
    let made = sqlx::query(sql).bind(name.as_str()).bind(model::now().millis()).execute(&mut *conn).await?;
    if made.rows_affected() == 0 && !model::load(conn, name).await?.destroyed {
        return Err(Refusal::conflict(format!("there is an app {name} already"), "choose another name"));
    }
    Ok(())
}

async fn put_release(
    conn: &mut SqliteConnection,
    app: &App,
    release: &Release,
    event: &str,
) -> Result<EventKind, Refusal> {
    let sql = "INSERT INTO releases (app, version, content, created, event) VALUES (?, ?, ?, ?, ?)";
    let content = serde_json::to_string(release).map_err(|error| Refusal::fault("processes", error.to_string()))?;
    let query = sqlx::query(sql).bind(app.name.as_str()).bind(i64::try_from(release.version).unwrap_or(i64::MAX));
    query.bind(content).bind(model::now().millis()).bind(event).execute(&mut *conn).await?;
    let front = front_of(release, app.front.as_ref());
    let sql = "UPDATE apps SET front_process = ?, front_port = ? WHERE name = ?";
    let query = sqlx::query(sql).bind(front.as_ref().map(|front| front.process.as_str()));
    query.bind(front.as_ref().map(|front| front.port.as_str())).bind(app.name.as_str()).execute(conn).await?;
    Ok(EventKind::ReleaseCreated)
}

async fn scale(
    conn: &mut SqliteConnection,
    app: &AppName,
    counts: &BTreeMap<WorkloadName, u32>,
) -> Result<(), Refusal> {
    let sql = "INSERT INTO formations (app, process, count) VALUES (?, ?, ?)
               ON CONFLICT DO UPDATE SET count = excluded.count";
    for (process, count) in counts {
        sqlx::query(sql).bind(app.as_str()).bind(process.as_str()).bind(count).execute(&mut *conn).await?;
    }
    Ok(())
}

/// A domain is one app's, on the whole platform.
async fn add_domain(conn: &mut SqliteConnection, app: &AppName, host: &str) -> Result<(), Refusal> {
    let sql = "INSERT INTO domains (host, app) VALUES (?, ?) ON CONFLICT DO NOTHING";
    if sqlx::query(sql).bind(host).bind(app.as_str()).execute(&mut *conn).await?.rows_affected() > 0 {
        return Ok(());
    }
    let sql = "SELECT app FROM domains WHERE host = ?";
    let by: String = sqlx::query_scalar(sql).bind(host).fetch_one(conn).await?;
    Err(Refusal::conflict(format!("{host} is a domain of {by} already"), "remove it there, or choose another one"))
}

/// Writes a run down. `false`: it is there already.
async fn put_run(conn: &mut SqliteConnection, app: &AppName, key: &RunKey, job: &Workload) -> Result<bool, Refusal> {
    let sql = "INSERT INTO runs (app, key, job, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let job = serde_json::to_string(job).map_err(|error| Refusal::fault("command", error.to_string()))?;
    let query = sqlx::query(sql).bind(app.as_str()).bind(key.as_str()).bind(job).bind(model::now().millis());
    Ok(query.execute(conn).await?.rows_affected() > 0)
}

impl Model {
    /// Failed releases count too: a number is never used twice.
    fn next_version(&self) -> u64 {
        self.releases.first().map_or(0, |row| row.release.version) + 1
    }

    /// A new release with the content of an earlier good one.
    fn earlier(&self, to: Option<u64>) -> Result<Release, Refusal> {
        let now = self.app.release.as_ref().map_or(0, |release| release.version);
        let row = match to {
            Some(version) => self.releases.iter().find(|row| row.release.version == version),
            None => self.releases.iter().find(|row| row.state == ReleaseState::Good && row.release.version < now),
        };
        let hint = "GET /apps/{name} lists the releases and what became of them";
        let Some(row) = row else {
            let what =
                to.map_or("no good release before this one".to_owned(), |version| format!("no release {version}"));
            return Err(Refusal::conflict(format!("{} has {what}", self.app.name), hint));
        };
        let version = row.release.version;
        if row.state != ReleaseState::Good {
            return Err(Refusal::conflict(format!("release {version} was never good"), hint));
        }
        let mut release = row.release.clone();
        release.version = self.next_version();
        release.rollback_of = Some(version);
        Ok(release)
    }

    fn process(&self, name: Option<&WorkloadName>) -> Result<(), Refusal> {
        let release = released(&self.app)?;
        match name {
            Some(name) => find_process(release, name).map(drop),
            None => Ok(()),
        }
    }
}

fn released(app: &App) -> Result<&Release, Refusal> {
    let none = || Refusal::conflict(format!("{} has no release yet", app.name), "POST /apps/{name}/releases first");
    app.release.as_ref().ok_or_else(none)
}

fn find_process<'a>(release: &'a Release, name: &WorkloadName) -> Result<&'a Workload, Refusal> {
    let known = || release.processes.iter().map(|process| process.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = release.processes.iter().find(|process| process.name == name.as_str());
    found.ok_or_else(|| Refusal::fault("process", format!("the release has no process {name}; it has: {}", known())))
}

impl NewRelease {
    /// The release that it comes to.
    fn compose(&self, app: &App, version: u64) -> Result<Release, Refusal> {
        let mut processes = match (&self.image, self.processes.is_empty()) {
            (Some(image), true) => self.with_image(app, image),
            (None, false) => self.processes.clone(),
            (Some(_), false) => return Err(Refusal::fault("image", "cannot stand beside processes")),
            (None, true) => return Err(Refusal::fault("image", "is missing, and so are processes; give one of them")),
        };
        let mut before = self.before.clone();
        for workload in processes.iter_mut().chain(&mut before) {
            workload.namespace = app.namespace.to_string();
        }
        let mut release = Release::new(version, processes);
        release.before = before;
        release.config.clone_from(&app.config);
        Ok(release)
    }

    /// The processes of the present release, with this image in `web`.
    fn with_image(&self, app: &App, image: &str) -> Vec<Workload> {
        let mut processes = app.release.as_ref().map_or_else(Vec::new, |release| release.processes.clone());
        if !processes.iter().any(|process| process.name == WEB) {
            processes.push(first(image));
        }
        for process in processes.iter_mut().filter(|process| process.name == WEB) {
            if let Some(seconds) = self.patience {
                process.progress_deadline = Seconds::new(seconds);
            }
            if let Some(container) = process.containers.iter_mut().find(|container| container.role == Role::Main) {
                image.clone_into(&mut container.image);
                if let (Some(port), Some(number)) = (container.ports.first_mut(), self.port) {
                    port.port = number;
                }
            }
        }
        processes
    }
}

/// An image of which nothing else is known.
fn first(image: &str) -> Workload {
    let container = Container::new(WEB, image)
        .port("http", 8080)
        .cpu("50m", "500m")
        .memory("64Mi", "256Mi")
        .readiness(Probe::tcp("http"));
    Workload::service("", WEB).progress_deadline(60).container(container)
}

/// The process that takes requests: the one that did, as long as it has the port; else `web`, or the first that has a port.
fn front_of(release: &Release, before: Option<&Front>) -> Option<Front> {
    let ports = |process: &Workload| -> Vec<String> {
        let ports = process.containers.iter().flat_map(|container| &container.ports);
        ports.filter(|port| port.protocol == Protocol::Tcp).map(|port| port.name.clone()).collect()
    };
    let same = |front: &&Front| {
        let is_it = |process: &&Workload| process.name == front.process.as_str();
        release.processes.iter().find(is_it).is_some_and(|process| ports(process).contains(&front.port))
    };
    if let Some(front) = before.filter(same) {
        return Some(front.clone());
    }
    let mut able: Vec<&Workload> = release.processes.iter().filter(|process| !ports(process).is_empty()).collect();
    able.sort_by_key(|process| process.name != WEB);
    let process = able.first()?;
    Some(Front::new(WorkloadName::new(process.name.as_str()).ok()?, ports(process).into_iter().next()?))
}

impl NewRun {
    /// The job that it comes to.
    fn job(&self, app: &App) -> Result<Workload, Refusal> {
        let release = released(app)?;
        let process = match self.process.as_ref().or(app.front.as_ref().map(|front| &front.process)) {
            Some(name) => Some(find_process(release, name)?),
            None => release.processes.first(),
        };
        let main = process.and_then(|p| Some((p, p.containers.iter().find(|container| container.role == Role::Main)?)));
        let Some((process, main)) = main else {
            return Err(Refusal::invalid("there is nothing to run", vec![Fault::new("process", "has no container")]));
        };
        let image = self.image.as_ref().unwrap_or(&main.image);
        let mut container = Container::new(main.name.as_str(), image.as_str()).command(self.command.clone());
        container.env.clone_from(&main.env);
        container.resources.clone_from(&main.resources);
        let job = Workload::job(app.namespace.as_str(), process.name.as_str()).container(container).marks(app.marks());
        Ok(job.with_job(|job| job.time_to_live = Some(KEEP_RUNS)))
    }
}
