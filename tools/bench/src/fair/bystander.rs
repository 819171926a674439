//! A bystander: a process beside the measured client that floods the node, or only keeps a
//! processor busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use super::requests::RequestClient;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};

/// The process of a bystander.
pub const ROLE: PartnerRole = PartnerRole { name: "fair-bystander", run: stand_by };

/// The load of a bystander.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BystanderLoad {
    /// Sends the node as many cheap requests as it accepts.
    Flood,
    /// Keeps a processor busy.
    Spin,
}

/// A bystander, seen from the process that measures.
pub struct Bystander(PartnerProcess);

impl Bystander {
    /// Starts a bystander, which does nothing yet.
    pub fn start(deed: BystanderLoad, address: &str) -> Result<Self> {
        let word = match deed {
            BystanderLoad::Flood => "flood",
            BystanderLoad::Spin => "spin",
        };
        let mut partner = PartnerProcess::start(ROLE.name, &[word, address])?;
        partner.receive_line()?;
        Ok(Self(partner))
    }

    /// Lets it begin.
    pub fn begin(&mut self) -> Result<()> {
        self.0.send_line("begin")?;
        self.0.receive_line()?;
        Ok(())
    }

    /// Lets it end; returns the number of its requests.
    pub fn end(&mut self) -> Result<u64> {
        self.0.send_line("end")?;
        self.0.receive_value()
    }
}

fn stand_by(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [deed, address] = words else { bail!("needs a deed and an address") };
    let client = (deed == "flood").then(|| RequestClient::connect(address)).transpose()?;
    let client = Arc::new(client);
    parent.send_line("ready")?;
    loop {
        parent.receive_line()?;
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
        parent.send_line("begun")?;
        parent.receive_line()?;
        is_over.store(true, Ordering::SeqCst);
        let Ok(asked) = working.join() else { bail!("a bystander panicked") };
        parent.send_line(asked.to_string())?;
    }
}
