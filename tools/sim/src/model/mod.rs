//! TicketPurpose must come out: plain arithmetic and plain bytes, without the code that is looked at.

mod contents;
mod pointers;

pub use contents::{Contents, Read};
pub use pointers::{Expected, Pointers};
