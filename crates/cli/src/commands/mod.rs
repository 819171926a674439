//! The commands, one file or folder each: what it takes, what it does, what it prints.

pub mod cat;
pub mod chmod;
pub mod chown;
pub mod completions;
pub mod cp;
pub mod df;
pub mod fsck;
pub mod image;
pub mod ls;
pub mod man;
pub mod mkdir;
pub mod mv;
pub mod reset;
pub mod rm;
pub mod rmdir;
pub mod run;
pub mod serve;
pub mod stat;
pub mod status;
pub mod stop;
pub mod top;
pub mod view;
pub mod volume;
pub mod why;
