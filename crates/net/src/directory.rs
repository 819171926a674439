//! The directory: which space has which port. A state machine without I/O.
//!
//! Members are identified by the link over which they joined, never by the id that they announce:
//! that id is public, and a stranger could announce it too.

use std::collections::HashMap;

use crate::address::Address;
use crate::control::{PortInfo, PortLocation};
use crate::key::SpaceId;

/// A member of the directory: the id of its link, or [`OWN`].
pub(crate) type MemberId = u64;

/// The space that hosts the directory.
pub(crate) const OWN: MemberId = 0;

#[derive(Default)]
pub(crate) struct PortDirectory {
    spaces: HashMap<MemberId, SpaceEntry>,
    ports: HashMap<String, (MemberId, PortInfo)>,
    /// Members that wait for a name.
    waiters: HashMap<String, Vec<NameWaiter>>,
}

struct SpaceEntry {
    /// The id that the space announces.
    space: SpaceId,
    name: String,
    address: Address,
}

/// A waiting member and the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameWaiter {
    pub member: MemberId,
    pub request: u64,
}

impl PortDirectory {
    /// Adds a space. The error is the address of the space that has its name.
    pub fn join(
        &mut self,
        id: MemberId,
        space: SpaceId,
        name: &str,
        address: Address,
    ) -> Result<(), String> {
        let owner = self.spaces.iter().find(|(other, entry)| **other != id && entry.name == name);
        if let Some((_, owner)) = owner {
            return Err(owner.address.to_string());
        }
        self.spaces.insert(id, SpaceEntry { space, name: name.to_owned(), address });
        Ok(())
    }

    /// Adds a port. Returns the members that waited for it. The error is the name of the space that
    /// has a port of this name.
    pub fn announce(&mut self, id: MemberId, port: PortInfo) -> Result<Vec<NameWaiter>, String> {
        if let Some((owner, _)) = self.ports.get(&port.name) {
            return Err(self.name_of(*owner));
        }
        let waiters = self.waiters.remove(&port.name).unwrap_or_default();
        self.ports.insert(port.name.clone(), (id, port));
        Ok(waiters)
    }

    /// Removes a port.
    pub fn withdraw(&mut self, id: MemberId, port: &str) {
        if self.ports.get(port).is_some_and(|(owner, _)| *owner == id) {
            self.ports.remove(port);
        }
    }

    /// Where a port is.
    pub fn find(&self, port: &str) -> Option<PortLocation> {
        let (owner, info) = self.ports.get(port)?;
        let entry = self.spaces.get(owner)?;
        Some(PortLocation {
            port: info.clone(),
            space: entry.space,
            space_name: entry.name.clone(),
            address: entry.address.clone(),
        })
    }

    /// Adds a member that waits for a name.
    pub fn wait_for(&mut self, port: &str, waiter: NameWaiter) {
        self.waiters.entry(port.to_owned()).or_default().push(waiter);
    }

    /// Removes a waiting member.
    pub fn forget(&mut self, waiter: NameWaiter) {
        self.waiters.retain(|_, waiters| {
            waiters.retain(|known| *known != waiter);
            !waiters.is_empty()
        });
    }

    /// Removes a member with all its ports and waits.
    pub fn remove_member(&mut self, id: MemberId) {
        self.spaces.remove(&id);
        self.ports.retain(|_, (owner, _)| *owner != id);
        self.waiters.retain(|_, waiters| {
            waiters.retain(|known| known.member != id);
            !waiters.is_empty()
        });
    }

    /// How many ports a member has announced.
    pub fn port_count(&self, id: MemberId) -> usize {
        self.ports.values().filter(|(owner, _)| *owner == id).count()
    }

    /// How many names a member waits for.
    pub fn wait_count(&self, id: MemberId) -> usize {
        self.waiters.values().flatten().filter(|waiter| waiter.member == id).count()
    }

    fn name_of(&self, id: MemberId) -> String {
        self.spaces.get(&id).map_or_else(|| id.to_string(), |entry| entry.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn port(name: &str) -> PortInfo {
        PortInfo { name: name.to_owned(), number: 1, kind: "u8".to_owned(), fingerprint: 7 }
    }

    #[test]
    fn names_are_unique_waited_for_and_go_with_their_space() {
        let mut directory = PortDirectory::default();
        directory.join(1, space(1), "one", Address::unix("/one")).unwrap();
        directory.join(2, space(2), "two", Address::default()).unwrap();
        let taken = directory.join(3, space(1), "one", Address::default()).unwrap_err();
        assert_eq!(taken, "unix=/one", "whatever id it announces");

        let waiter = |request| NameWaiter { member: 2, request };
        directory.wait_for("port", waiter(1));
        directory.wait_for("port", waiter(2));
        directory.wait_for("port", NameWaiter { member: 9, request: 3 });
        directory.forget(waiter(1));
        directory.remove_member(9);
        assert_eq!(directory.announce(1, port("port")).unwrap(), [waiter(2)]);
        assert_eq!(directory.announce(2, port("port")).unwrap_err(), "one");
        let found = directory.find("port").unwrap();
        assert_eq!((found.space_name.as_str(), found.space), ("one", space(1)));
        assert_eq!((directory.port_count(1), directory.port_count(2)), (1, 0));

        directory.withdraw(2, "port");
        assert!(directory.find("port").is_some());
        directory.remove_member(1);
        assert!(directory.find("port").is_none());
        assert!(directory.announce(2, port("port")).unwrap().is_empty());
    }
}
