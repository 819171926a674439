//! The integration tests of the `pario` command: one program with one module per subject.
//!
//! `command` runs the built binary in a temporary directory; `viewer` starts `pario view` and speaks
//! HTTP to it, directly or through a browser.

mod administer_guide;
mod bad_input;
#[path = "../../../module/tests/suite/clang.rs"]
#[allow(dead_code, reason = "the tests of other crates use more of it")]
mod clang;
mod client_sockets;
mod cluster_creation;
mod command;
mod compact;
mod completion;
mod copy;
mod copy_trees;
mod copy_volumes;
mod demo;
mod dependencies;
mod disk_usage;
mod document_examples;
mod document_paths;
mod help;
mod image;
mod import_formats;
mod json_fields;
#[path = "../../../pario/tests/suite/namespaces/lab.rs"]
#[allow(dead_code, reason = "the tests of another crate use more of it")]
mod lab;
mod launchers;
mod metrics;
mod missing_namespace;
mod namespace;
mod node_discovery;
mod operation;
mod permissions;
mod private_files;
mod run;
mod second_machine;
mod serve;
mod status_and_logs;
mod systemd;
mod timeouts;
mod viewer;
mod viewer_controls;
mod viewer_crowds;
mod viewer_http;
mod viewer_page;
mod volume;
mod why;
