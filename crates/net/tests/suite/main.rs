//! The tests of `pario-net`: real spaces over every kind of link, and peers that mean harm.

mod contract;
mod credit_breach;
mod descriptors;
mod forgery;
mod gate;
mod link_memory;
mod processes;
mod protocols;
mod reconnecting;
mod recv_buffer;
mod rpc;
mod send_buffer;
mod sender_turns;
mod senders;
mod shortage;
mod silence;
mod simulation;
mod stranger;
mod strangers;
mod users;
mod wire;
