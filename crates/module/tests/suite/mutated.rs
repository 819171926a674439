//! A thousand modules with changed bytes: each is refused, or runs within its limits.

use std::sync::Arc;

use pario_module::{ModuleEngine, Unlimited};

use crate::clang::example;
use crate::sandbox::process;

#[test]
fn a_thousand_damaged_modules_harm_nobody() {
    let engine = ModuleEngine::new().unwrap();
    let originals = ["threshold", "histogram", "grep", "stencil"].map(example);
    let mut random = fastrand::Rng::with_seed(20);
    let mut accepted = 0;
    for number in 0..1000 {
        let mut bytes = originals[number % originals.len()].clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let Ok(module) = engine.compile(&bytes) else { continue };
        accepted += 1;
        let operation = module.operation("damaged@1", Arc::new(Unlimited));
        // Any outcome is fine that is an outcome.
        drop(process(
            &operation,
            b"level=7\npattern=a\nwidth=4\nheight=4\ncolumns=1\nrows=1",
            &[97; 16],
        ));
    }
    assert!((100..900).contains(&accepted), "{accepted} of 1000 are still modules");
}
