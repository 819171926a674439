//! Asking and answering: requests and their replies over ports.
//!
//! A question is a token with a number and the channel on which its answer is wanted. The asker
//! makes that channel itself, over the link on which it asks, and says its number with each
//! question: so the answerer opens nothing, looks nothing up and waits for nobody, and an answer
//! cannot go anywhere but back to where the question came from.

mod answerer;
mod asker;
mod question;
mod slots;

pub use answerer::{AnswerPort, Asked, Responder};
pub use asker::{Asker, Pending};
