//! All floods for five seconds: the node keeps serving, in bounded memory.

use std::process::Command;

#[test]
fn a_node_stands_all_floods_for_five_seconds() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pario-stress")).args(["--seconds", "5"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{text}{errors}");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: floods as another user, which need root; they ran as this user");
    }
    assert!(output.status.success(), "a check has failed:\n{text}{errors}");
    for flood in ["silent-connections", "requests", "handles", "locks", "numbers"] {
        assert!(text.contains(&format!("flood {flood}: ")), "{flood} has run:\n{text}");
    }
    assert_eq!(text.matches("check ").count(), 6, "{text}");
}
