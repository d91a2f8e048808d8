//! A real Kubernetes control plane for tests, with everything below it simulated.
//!
//! [`Testbed::start`] runs `etcd`, `kube-apiserver`, `kube-controller-manager` and `kube-scheduler` as processes of their
//! own on loopback, registers a few [`Node`]s and plays their kubelets: Pods are scheduled by the real scheduler, get
//! statuses, Events, restarts, logs and a graceful end, but no container ever runs. What becomes of a container is decided
//! by the name of its image ([image fates](#image-fates)). So a test sees rollouts, crash loops, evictions and failed pulls
//! through the API that a cluster offers, in seconds and without root. Jobs, CronJobs, DaemonSets and StatefulSets are the
//! real controllers' work too.
//!
//! ```no_run
//! use scheduler_k8s_testbed::{Options, Testbed, User};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let testbed = Testbed::start(Options::default()).await?;
//! let namespace = testbed.create_namespace("shop").await?;
//! let client = testbed.client(User::Admin)?;
//! // … create a Deployment in `namespace` with the image `sim/crash/after-2/exit-3` and watch what happens …
//! assert!(testbed.kubectl().args(["get", "pods", "-n", &namespace]).status()?.success());
//! testbed.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Which servers
//!
//! The programs come from the folder that `KUBEBUILDER_ASSETS` names (the convention of envtest);
//! `.ci/kubernetes-servers` builds them. [`Availability::check`] tells whether they are there, so that a test can be
//! skipped loudly. One control plane is enough for a test binary: put a [`LazyTestbed`] in a static and give every test
//! a namespace of its own.
//!
//! # However the test ends
//!
//! The servers live in a process group that a small guard process kills as soon as the test process closes a pipe to
//! it. The kernel closes that pipe when the process ends for whatever reason, SIGKILL included, and the guard is out of
//! reach of a Ctrl-C in the test's terminal. The servers are ended by SIGKILL: nothing of theirs is worth a graceful
//! stop, and their folder is removed.
//!
//! # Image fates
//!
//! `sim/<fate>{/<parameter>-<n>}[:tag]`. The tag is free: from `sim/run:1` to `sim/run:2` is an update with the same
//! fate. An image outside `sim/` behaves like `sim/run`; an unknown fate or parameter like `sim/invalid-image`.
//!
//! | image | what happens |
//! |---|---|
//! | `sim/run` | runs, passes its probes, stops at once on SIGTERM (see below) |
//! | `sim/slow/after-N` | is pulled for N seconds, then like `run` |
//! | `sim/pull-error` | ErrImagePull and ImagePullBackOff, for ever |
//! | `sim/invalid-image` | InvalidImageName, for ever |
//! | `sim/done/after-N/exit-C` | does its work for N seconds and exits with C (`after-1`, `exit-0` when left out) |
//! | `sim/crash/after-N/exit-C` | exits with C after N seconds (`after-1`, `exit-1` when left out) |
//! | `sim/crash/after-N/signal-S` | is killed by signal S after N seconds: exit code 128 + S |
//! | `sim/oom/after-N` | is OOMKilled after N seconds: exit code 137, signal 9 |
//! | `sim/never-ready` | runs, but its startup or readiness probe never passes; without either, like `run` |
//! | `sim/stubborn` | runs and ignores SIGTERM: its end takes the whole grace period |
//!
//! What ends is started again as the Pod's `restartPolicy` says, and the Pod succeeds or fails by it. On SIGTERM a container
//! that may run for ever (`Always`) exits with 0; one that was to end has its work cut short and exits with 143, so that no
//! Job counts it. `activeDeadlineSeconds` of a Pod ends it with the reason DeadlineExceeded.
//!
//! # Logs
//!
//! The API server reads them from the kubelets over HTTPS, as on any cluster, so `pods/log` with all its parameters goes the
//! whole way. Each run of a container writes, in a time that its image sets:
//!
//! ```text
//! start 1      the number of restarts before
//! tick 0       at once, and on every half second of the run
//! tick 1
//! end          only a container that exits by itself, not one that is stopped or killed
//! ```
//!
//! The latest run and the one before can be read (`previous`), in a real kubelet's words where there is none. While a node
//! is lost, its logs break off and requests for them fail.
//!
//! # Volumes
//!
//! Claims get the StorageClass `testbed` unless they name another, and are bound at once to a volume that is only a name. It
//! is deleted with its claim. A claim of a class that is not there stays pending, and so do its Pods.
//!
//! # Where the simulated kubelet differs from a real one
//!
//! - Back-off between restarts is 1 s, 2 s, 4 s, 8 s, then 10 s, instead of 10 s to 5 minutes.
//! - A probe passes (or, for `never-ready`, fails) once, `initialDelaySeconds` after its container started; its type,
//!   period and thresholds are not looked at. Liveness probes pass. A startup probe that fails for ever does not kill
//!   its container.
//! - An init container that does not crash completes at once with exit code 0, whatever its image would do as a main
//!   container. With `restartPolicy: Always` it is a sidecar, runs before the main containers and ends after them.
//! - References to absent ConfigMaps and Secrets matter in `env` and `envFrom` (CreateContainerConfigError); volumes
//!   are taken as mounted.
//! - The routine Events (Pulling, Pulled, Created, Started) are left out. There is no `exec`.
//! - The endpoint for logs asks nobody who they are, and a lost node refuses to answer where a real one would be silent.

mod availability;
mod credentials;
mod error;
mod guard;
mod kubelet;
mod lazy;
mod nodes;
mod options;
mod servers;
mod storage;
mod testbed;

pub use availability::{Availability, AvailabilityError};
pub use error::TestbedError;
pub use lazy::LazyTestbed;
pub use options::{Node, Options, User};
pub use testbed::Testbed;
