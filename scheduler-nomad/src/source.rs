//! The source of a job: the workload that was launched, as the server keeps it beside each version.

use scheduler_core::{CheckedWorkload, Error, Fault, Target};
use scheduler_nomad_client::model::Submission;

/// The server drops a longer source with a warning (`job_max_source_size`, 1 MB by default).
const LONGEST: usize = 1_000_000;

/// The source of a workload.
///
/// # Errors
/// If it is longer than the server keeps.
pub(crate) fn of(workload: &CheckedWorkload) -> Result<Submission, Error> {
    // It has only string keys and finite numbers, so that it always has a JSON form.
    let source = serde_json::to_string(workload).unwrap_or_default();
    if source.len() > LONGEST {
        let problem = format!("has {} bytes as JSON; Nomad keeps the source of a job up to {LONGEST}", source.len());
        return Err(Error::invalid_argument("the workload is too large").with_causes(vec![Fault::new("", problem)]));
    }
    Ok(Submission::new(source, "json"))
}

/// The workload in a source; `None` for any other source, also one that was written for another job.
pub(crate) fn read(submission: &Submission, target: &Target) -> Option<CheckedWorkload> {
    let workload: CheckedWorkload = serde_json::from_str(&submission.source).ok()?;
    (workload.target() == target).then_some(workload)
}

#[cfg(test)]
mod tests {
    use scheduler_core::{Container, Workload};

    use super::*;

    #[test]
    fn only_the_workload_of_this_job_is_read() {
        let web = Workload::service("shop", "web").container(Container::new("web", "web:1")).check().unwrap();
        let source = of(&web).unwrap();
        assert_eq!(read(&source, web.target()), Some(web.clone()));
        assert_eq!(read(&source, &Target::new("shop", "api").unwrap()), None);
        assert_eq!(read(&Submission::new("job \"web\" {}", "hcl2"), web.target()), None);
    }

    #[test]
    fn what_the_server_would_drop_is_refused() {
        let web = Container::new("web", "web:1").env("BIG", "x".repeat(LONGEST));
        assert!(of(&Workload::service("shop", "web").container(web).check().unwrap()).is_err());
    }
}
