//! A process beside a client that is measured: it floods the node, or only uses a processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use super::questions::RawClient;
use crate::partner::{Partner, Role, Starter};

/// The process of a bystander.
pub const ROLE: Role = Role { name: "fair-bystander", run: stand_by };

/// What a bystander does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Asks the node as many cheap questions as it takes.
    Flood,
    /// Uses a processor.
    Spin,
}

/// A bystander, seen from the process that measures.
pub struct Bystander(Partner);

impl Bystander {
    /// Starts one; it does nothing yet.
    pub fn start(deed: Deed, address: &str) -> Result<Self> {
        let word = match deed {
            Deed::Flood => "flood",
            Deed::Spin => "spin",
        };
        let mut partner = Partner::start(ROLE.name, &[word, address])?;
        partner.hear()?;
        Ok(Self(partner))
    }

    /// Has it begin.
    pub fn begin(&mut self) -> Result<()> {
        self.0.tell("begin")?;
        self.0.hear()?;
        Ok(())
    }

    /// Has it end; how many questions it has asked.
    pub fn end(&mut self) -> Result<u64> {
        self.0.tell("end")?;
        self.0.hear_value()
    }
}

fn stand_by(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [deed, address] = words else { bail!("needs a deed and an address") };
    let client = (deed == "flood").then(|| RawClient::connect(address)).transpose()?;
    let client = Arc::new(client);
    starter.say("ready")?;
    loop {
        starter.hear()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let working = {
            let (client, is_over) = (client.clone(), is_over.clone());
            std::thread::spawn(move || match &*client {
                Some(client) => client.flood(&is_over),
                None => {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    0
                }
            })
        };
        starter.say("begun")?;
        starter.hear()?;
        is_over.store(true, Ordering::SeqCst);
        let Ok(asked) = working.join() else { bail!("a bystander panicked") };
        starter.say(asked.to_string())?;
    }
}
