//! Tests of the examples and of the programs in the documents.

mod attaching;
mod document_programs;
#[path = "../../src/fences.rs"]
mod fences;
mod flow_document;
mod flow_snippets;
mod programs;
