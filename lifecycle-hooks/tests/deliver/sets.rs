//! The order of sets, and what comes of their answers.

use std::sync::Arc;
use std::time::Duration;

use lifecycle_hooks::deliver::{Deadlines, HookSets, Proposal, Recorder, Refusal, Scripted};
use scheduler_core::hooks::{Domain, EventKind, HookError, HookName, LifecycleHooks, Outcome, Report};
use scheduler_core::{Fault, Support};

use super::{app, event, sets};

fn three() -> [Recorder; 3] {
    ["one", "two", "three"].map(Recorder::new)
}

fn names(told: &lifecycle_hooks::deliver::Told) -> Vec<&str> {
    told.sets.iter().map(|answer| answer.set.as_str()).collect()
}

#[tokio::test]
async fn what_takes_away_is_told_from_the_last_to_the_first() {
    let [one, two, three] = three();
    let sets = sets(&[&one, &two, &three]);
    let volume = scheduler_core::hooks::AppVolume::new("1Gi");
    let backwards = [
        EventKind::AppDestroyed,
        EventKind::DomainRemoved(Domain::new("shop.example")),
        EventKind::CertificateDetached { host: "shop.example".into(), certificate: "main".into() },
        EventKind::VolumeDeleted { name: "data".into(), volume },
    ];
    let forwards =
        [EventKind::AppCreated, EventKind::DomainAdded(Domain::new("shop.example")), EventKind::ReleaseCreated];
    for kind in backwards {
        let told = sets.tell(&event(1, app("shop"), kind), &Deadlines::default()).await;
        assert_eq!(names(&told), ["three", "two", "one"]);
    }
    for kind in forwards {
        let told = sets.tell(&event(1, app("shop"), kind), &Deadlines::default()).await;
        assert_eq!(names(&told), ["one", "two", "three"]);
    }
}

#[test]
fn two_sets_of_one_name_are_refused_and_each_says_what_it_supports() {
    let set = |name: &str| Arc::new(Recorder::new(name)) as Arc<dyn LifecycleHooks>;
    assert!(HookSets::new(vec![set("one"), set("two"), set("one")]).unwrap_err().to_string().contains("\"one\""));
    let sets = HookSets::new(vec![set("one"), set("two")]).unwrap();
    assert_eq!(sets.supports(HookName::Other), [("one".to_owned(), Support::Yes), ("two".to_owned(), Support::Yes)]);
}

#[tokio::test]
async fn the_verdict_is_the_first_error_or_what_weighs_most() {
    let answers = |answers: [Outcome; 2]| async move {
        let [one, two] = ["one", "two"].map(Recorder::new);
        let [first, second] = answers;
        let one = one.script(HookName::PostAppCreate, [Scripted::Answer(first)]);
        let two = two.script(HookName::PostAppCreate, [Scripted::Answer(second)]);
        let told = sets(&[&one, &two]).tell(&event(1, app("shop"), EventKind::AppCreated), &Deadlines::default()).await;
        told.verdict()
    };
    let no = || Outcome::NotSupported { reason: "no".into() };
    assert_eq!(answers([no(), Outcome::AlreadyInState]).await, Ok(Outcome::AlreadyInState));
    assert_eq!(answers([Outcome::Applied, no()]).await, Ok(Outcome::Applied));
    assert_eq!(answers([no(), no()]).await, Ok(no()));
    let none = HookSets::default().tell(&event(1, app("shop"), EventKind::AppCreated), &Deadlines::default()).await;
    assert!(matches!(none.verdict(), Ok(Outcome::NotSupported { .. })));
}

#[tokio::test]
async fn a_report_reaches_every_set_whatever_the_others_answer() {
    let [one, two, three] = three();
    let one = one.script(HookName::OnAppGone, [Scripted::Fail(HookError::permanent("mail is down"))]);
    let two = two.script(HookName::OnAppGone, [Scripted::Panic("defect".into())]);
    let told = sets(&[&one, &two, &three]).report(&app("shop"), &Report::AppGone, &Deadlines::default()).await;
    assert_eq!(names(&told), ["one", "two", "three"]);
    assert_eq!(told.verdict().unwrap_err().message, "one: mail is down");
    assert_eq!(three.hooks(), [HookName::OnAppGone]);
}

#[tokio::test(start_paused = true)]
async fn a_veto_at_any_place_refuses_and_every_set_is_asked() {
    let hook = HookName::ValidateDomainAdd;
    let (app, domain) = (app("shop"), Domain::new("shop.example"));
    for vetoing in [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 1, 2]] {
        let mut recorders = three();
        for at in &vetoing {
            recorders[*at] = recorders[*at].clone().script(hook, [Scripted::Veto(format!("because of {at}"))]);
        }
        let [one, two, three] = &recorders;
        let refusal = sets(&[one, two, three])
            .validate(&Proposal::DomainAdd(&app, &domain), &Deadlines::default())
            .await
            .unwrap_err();
        let Refusal::Vetoed(vetoes) = refusal else { panic!("{refusal}") };
        let expected: Vec<_> =
            vetoing.iter().map(|at| (["one", "two", "three"][*at], format!("because of {at}"))).collect();
        let found: Vec<_> = vetoes.iter().map(|veto| (veto.set.as_str(), veto.faults[0].problem.clone())).collect();
        assert_eq!(found, expected);
        assert!(recorders.iter().all(|recorder| recorder.hooks() == [hook]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_judge_never_passes_for_a_yes() {
    let hook = HookName::ValidateReleaseCreate;
    let deadlines = Deadlines::each(Duration::from_secs(5));
    let app = app("shop");
    let troubles =
        [Scripted::Fail(HookError::transient("no answer")), Scripted::Panic("defect".into()), Scripted::Hang];
    for at in 0..3 {
        for trouble in &troubles {
            let mut recorders = three();
            recorders[at] = recorders[at].clone().script(hook, [trouble.clone()]);
            let [one, two, three] = &recorders;
            let refusal = sets(&[one, two, three]).validate(&Proposal::ReleaseCreate(&app), &deadlines).await;
            assert!(matches!(&refusal, Err(Refusal::Unknown { set, .. }) if set == ["one", "two", "three"][at]));

            // A veto of another set outweighs it: the change is refused whatever the silent one would have said.
            let other = (at + 1) % 3;
            recorders[at] = Recorder::new(["one", "two", "three"][at]).script(hook, [trouble.clone()]);
            recorders[other] = recorders[other].clone().script(hook, [Scripted::Veto("no".into())]);
            let [one, two, three] = &recorders;
            let refusal = sets(&[one, two, three]).validate(&Proposal::ReleaseCreate(&app), &deadlines).await;
            let Err(Refusal::Vetoed(vetoes)) = refusal else { panic!("{refusal:?}") };
            assert_eq!(vetoes[0].faults, [Fault::new("validate_release_create", "no")]);
        }
    }
    let [one, two, three] = three();
    let accepted = sets(&[&one, &two, &three]).validate(&Proposal::ReleaseCreate(&app), &deadlines).await;
    assert_eq!(accepted, Ok(()));
}
