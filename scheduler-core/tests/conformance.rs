//! The conformance suite on the memory scheduler, on which no case may be skipped.

use std::sync::Arc;

use scheduler_core::conformance::libtest_mimic::{Arguments, Trial};
use scheduler_core::conformance::{Failure, Harness, MemoryHarness, cases, libtest_mimic, soak, trials};

fn main() -> Result<(), Failure> {
    let arguments = Arguments::from_args();
    let harness: Arc<dyn Harness> = Arc::new(MemoryHarness::new());
    let mut trials = trials(Arc::clone(&harness));
    trials.extend(soak(&harness)?);
    trials.push(Trial::test("nothing-is-skipped", || {
        let harness = MemoryHarness::new();
        let skipped = cases().into_iter().filter_map(|case| Some((case.id(), case.skipped_with(&harness)?)));
        let skipped: Vec<_> = skipped.map(|(id, reason)| format!("{id}: {reason}")).collect();
        if skipped.is_empty() { Ok(()) } else { Err(skipped.join("\n").into()) }
    }));
    libtest_mimic::run(&arguments, trials).exit();
}
