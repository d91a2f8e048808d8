//! Clause 1 and 17: whose it is, finding it again, and namespaces.

use std::collections::BTreeSet;

use super::cases;
use crate::conformance::ctx::{Ctx, check, check_eq, refused};
use crate::conformance::{Failure, Outcome};
use crate::{ErrorKind, Filter, Guard, List, Marks, Missing, Namespace, Target, Workload, mark_label};

cases! {
    /// A list has our workloads and nobody else's.
    1 "owner/list-is-ours" => list_is_ours;
    /// A list goes across namespaces unless told not to.
    1 "owner/list-crosses-namespaces" => list_crosses_namespaces;
    /// A name in two namespaces is two workloads.
    1 "owner/names-may-repeat" => names_may_repeat;
    /// Marks come back as they were given, whatever their text.
    1 "owner/marks-are-told" => marks_are_told;
    /// A list filters by every mark, and by several at once.
    1 "owner/filter-by-each-mark" => filter_by_each_mark;
    /// A filter compares the texts of marks, not their label values.
    1 "owner/filter-by-text" => filter_by_text;
    /// A list filters by the labels of workloads.
    1 "owner/filter-by-label" => filter_by_label;
    /// A list is in the order of targets and says what status says.
    1 "owner/list-is-in-order" => list_is_in_order;
    /// Launch never makes a namespace.
    17 "namespace/launch-makes-none" => launch_makes_none;
}

async fn listed(ctx: &Ctx, filter: Filter) -> Result<Vec<Target>, Failure> {
    let listed = ctx.scheduler.list(List::new(filter)).await?;
    Ok(listed.workloads.into_iter().map(|seen| seen.target).collect())
}

fn in_namespace(mut workload: Workload, namespace: &Namespace) -> Workload {
    workload.namespace = namespace.to_string();
    workload
}

fn marks(text: &str) -> Marks {
    Marks { namespace: Some(text.to_owned()), ..Marks::default() }
}

async fn list_is_ours(ctx: Ctx) -> Outcome {
    let theirs = ctx.theirs();
    ctx.launch(ctx.idle("ours")).await?;
    theirs.launch(theirs.idle("theirs")).await?;
    check_eq!(listed(&ctx, Filter::default()).await?, [ctx.target("ours")?], "our list");
    check_eq!(listed(&theirs, Filter::default()).await?, [ctx.target("theirs")?], "their list");
    Ok(())
}

async fn list_crosses_namespaces(ctx: Ctx) -> Outcome {
    let second = ctx.world.second_namespace().await?;
    ctx.launch(ctx.idle("one")).await?;
    ctx.launch(in_namespace(ctx.idle("two"), &second)).await?;
    let one = ctx.target("one")?;
    let two = Target { namespace: second.clone(), name: ctx.target("two")?.name };
    let all = BTreeSet::from_iter(listed(&ctx, Filter::default()).await?);
    check_eq!(all, BTreeSet::from([one.clone(), two.clone()]), "the list of all namespaces");
    check_eq!(listed(&ctx, Filter::namespace(second)).await?, std::slice::from_ref(&two), "the list of the second");
    check_eq!(listed(&ctx, Filter::target(one.clone())).await?, [one], "the list of one target");
    Ok(())
}

async fn names_may_repeat(ctx: Ctx) -> Outcome {
    let second = ctx.world.second_namespace().await?;
    let here = ctx.launch(ctx.service("web")).await?;
    let there = ctx.launch(in_namespace(ctx.service("web"), &second).replicas(0)).await?;
    check_eq!(there.change, crate::Change::Created, "the launch in the second namespace");
    check!(here.version != there.version, "two workloads have the version {}", here.version);
    ctx.healthy("web").await?;
    check_eq!(listed(&ctx, Filter::default()).await?.len(), 2, "the number of workloads");
    Ok(())
}

async fn marks_are_told(ctx: Ctx) -> Outcome {
    let given = Marks {
        unit: Some("web".into()),
        version: Some("1.2+build".into()),
        stack: Some("Ünïcode, and a comma".into()),
        namespace: Some("dev/sandbox".into()),
    };
    ctx.launch(ctx.idle("web").marks(given.clone()).label("team", "blue")).await?;
    let seen = ctx.seen("web").await?;
    check_eq!(seen.marks, given, "the marks in the status");
    check_eq!(seen.labels.get("team").map(String::as_str), Some("blue"), "the label in the status");
    check_eq!(seen.owner, ctx.owner, "the owner in the status");
    let list = ctx.scheduler.list(List::default()).await?;
    check_eq!(list.workloads.first().map(|seen| &seen.marks), Some(&given), "the marks in the list");
    Ok(())
}

async fn filter_by_each_mark(ctx: Ctx) -> Outcome {
    let qa = || Some("qa".to_owned());
    let each = [
        ("unit", Marks { unit: qa(), ..Marks::default() }),
        ("version", Marks { version: qa(), ..Marks::default() }),
        ("stack", Marks { stack: qa(), ..Marks::default() }),
        ("namespace", Marks { namespace: qa(), ..Marks::default() }),
    ];
    let all = Marks { unit: qa(), version: qa(), stack: qa(), namespace: qa() };
    for (name, marks) in &each {
        ctx.launch(ctx.idle(name).marks(marks.clone())).await?;
    }
    ctx.launch(ctx.idle("all").marks(all.clone())).await?;
    for (name, marks) in each {
        let found = listed(&ctx, Filter::marks(marks)).await?;
        check_eq!(found, [ctx.target("all")?, ctx.target(name)?], "those with the mark {name}");
    }
    check_eq!(listed(&ctx, Filter::marks(all)).await?, [ctx.target("all")?], "those with all marks");
    Ok(())
}

async fn filter_by_text(ctx: Ctx) -> Outcome {
    // The second text is the label value that stands for the first, so that only the texts tell them apart.
    let texts = [("text", "dev/sandbox".to_owned()), ("value", mark_label("dev/sandbox"))];
    for (name, text) in &texts {
        ctx.launch(ctx.idle(name).marks(marks(text))).await?;
    }
    for (name, text) in &texts {
        let found = listed(&ctx, Filter::marks(marks(text))).await?;
        check_eq!(found, [ctx.target(name)?], "those with the mark {text:?}");
    }
    check_eq!(listed(&ctx, Filter::marks(marks("dev-sandbox"))).await?, [], "those with another text");
    Ok(())
}

async fn filter_by_label(ctx: Ctx) -> Outcome {
    for (name, team) in [("one", "blue"), ("two", "red")] {
        ctx.launch(ctx.idle(name).label("team", team)).await?;
    }
    let mut filter = Filter::default();
    filter.labels.insert("team".into(), "red".into());
    check_eq!(listed(&ctx, filter).await?, [ctx.target("two")?], "those of the red team");
    Ok(())
}

async fn list_is_in_order(ctx: Ctx) -> Outcome {
    for name in ["b", "c", "a"] {
        ctx.launch(ctx.idle(name)).await?;
    }
    for name in ["a", "b", "c"] {
        ctx.healthy(name).await?;
    }
    let list = ctx.scheduler.list(List::default()).await?;
    let names: Vec<&str> = list.workloads.iter().map(|seen| seen.target.name.as_str()).collect();
    check_eq!(names, ["a", "b", "c"], "the order");
    for listed in &list.workloads {
        let seen = ctx.seen(listed.target.name.as_str()).await?;
        check_eq!(listed.version, seen.version, "the version of {}", listed.target);
        check_eq!(listed.revision, seen.revision, "the revision of {}", listed.target);
        check_eq!(listed.verdict(), seen.verdict(), "the verdict of {}", listed.target);
    }
    Ok(())
}

async fn launch_makes_none(ctx: Ctx) -> Outcome {
    let missing = Namespace::new(format!("{}-no", ctx.world.namespace())).map_err(|e| Failure(e.to_string()))?;
    for attempt in ["first", "second"] {
        let launched = ctx.try_launch(in_namespace(ctx.idle("web"), &missing), Guard::IfOwned).await?;
        let kind = refused(&format!("the {attempt} launch into a namespace that does not exist"), launched)?;
        check_eq!(kind, ErrorKind::NotFound(Missing::Namespace), "the {attempt} launch");
    }
    check_eq!(listed(&ctx, Filter::default()).await?, [], "our workloads");
    Ok(())
}
