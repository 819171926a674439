//! The directory: which space has which port. A state machine without I/O: it is told what
//! happened, and says who is to be answered.

use std::collections::HashMap;

use crate::address::Address;
use crate::control::{Found, PortInfo};
use crate::key::SpaceId;

#[derive(Default)]
pub(crate) struct Directory {
    spaces: HashMap<SpaceId, SpaceEntry>,
    ports: HashMap<String, (SpaceId, PortInfo)>,
    /// Who waits for which name.
    askers: HashMap<String, Vec<Asker>>,
}

struct SpaceEntry {
    name: String,
    address: Address,
}

/// Who asked, and the number of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub space: SpaceId,
    pub request: u64,
}

impl Directory {
    /// A space wants to be known; otherwise, where the one is that has its name.
    pub fn join(&mut self, id: SpaceId, name: &str, address: Address) -> Result<(), String> {
        let owner = self.spaces.iter().find(|(other, entry)| **other != id && entry.name == name);
        if let Some((_, owner)) = owner {
            return Err(owner.address.to_string());
        }
        self.spaces.insert(id, SpaceEntry { name: name.to_owned(), address });
        Ok(())
    }

    /// A port wants to be known. Gives those who waited for it; otherwise the name of the space
    /// that has a port of this name.
    pub fn announce(&mut self, id: SpaceId, port: PortInfo) -> Result<Vec<Asker>, String> {
        if let Some((owner, _)) = self.ports.get(&port.name) {
            return Err(self.name_of(*owner));
        }
        let askers = self.askers.remove(&port.name).unwrap_or_default();
        self.ports.insert(port.name.clone(), (id, port));
        Ok(askers)
    }

    /// A port is gone.
    pub fn withdraw(&mut self, id: SpaceId, port: &str) {
        if self.ports.get(port).is_some_and(|(owner, _)| *owner == id) {
            self.ports.remove(port);
        }
    }

    /// Where a port is.
    pub fn find(&self, port: &str) -> Option<Found> {
        let (space, info) = self.ports.get(port)?;
        let entry = self.spaces.get(space)?;
        Some(Found {
            port: info.clone(),
            space: *space,
            space_name: entry.name.clone(),
            address: entry.address.clone(),
        })
    }

    /// Somebody waits for a name.
    pub fn wait_for(&mut self, port: &str, asker: Asker) {
        self.askers.entry(port.to_owned()).or_default().push(asker);
    }

    /// Somebody waits no longer.
    pub fn forget(&mut self, asker: Asker) {
        self.askers.retain(|_, askers| {
            askers.retain(|known| *known != asker);
            !askers.is_empty()
        });
    }

    /// A space is gone, and all it had.
    pub fn lost(&mut self, id: SpaceId) {
        self.spaces.remove(&id);
        self.ports.retain(|_, (owner, _)| *owner != id);
        self.askers.retain(|_, askers| {
            askers.retain(|known| known.space != id);
            !askers.is_empty()
        });
    }

    fn name_of(&self, id: SpaceId) -> String {
        self.spaces.get(&id).map_or_else(|| id.to_string(), |entry| entry.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn port(name: &str) -> PortInfo {
        PortInfo { name: name.to_owned(), number: 1, kind: "u8".to_owned(), fingerprint: 7 }
    }

    #[test]
    fn names_are_unique_waited_for_and_go_with_their_space() {
        let mut directory = Directory::default();
        directory.join(id(1), "one", Address::unix("/one")).unwrap();
        directory.join(id(2), "two", Address::default()).unwrap();
        assert_eq!(directory.join(id(3), "one", Address::default()).unwrap_err(), "unix=/one");

        let asker = |request| Asker { space: id(2), request };
        directory.wait_for("port", asker(1));
        directory.wait_for("port", asker(2));
        directory.wait_for("port", Asker { space: id(9), request: 3 });
        directory.forget(asker(1));
        directory.lost(id(9));
        assert_eq!(directory.announce(id(1), port("port")).unwrap(), [asker(2)]);
        assert_eq!(directory.announce(id(2), port("port")).unwrap_err(), "one");
        assert_eq!(directory.find("port").unwrap().space_name, "one");

        directory.withdraw(id(2), "port");
        assert!(directory.find("port").is_some());
        directory.lost(id(1));
        assert!(directory.find("port").is_none());
        assert!(directory.announce(id(2), port("port")).unwrap().is_empty());
    }
}
