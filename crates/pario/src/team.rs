//! The memory of a job's processes, which needs no cluster: a [`Team`] of them, what they allocate
//! together, and what they call together.
//!
//! ```
//! # fn main() -> Result<(), pario::Error> {
//! let team = pario::team::from_env()?; // pario run, mpirun, srun: rank 2 of 8
//! let hits = team.segments(8)?; // eight bytes of each rank
//! hits.fetch_add(0, 0, 1_u64)?; // rank 0 does not have to look
//! team.barrier()?;
//! # Ok(())
//! # }
//! ```

use std::net::ToSocketAddrs;

pub use pario_team::*;

use crate::error::Error;
use crate::group::Group;

/// Meets the other processes of the job, as its launcher says: `pario run`, mpirun of Open MPI or
/// MPICH, or srun. A process that nobody has launched is a team of its own.
///
/// If the job spans machines, PARIO_TEAM says where they meet: an address of the first machine, with
/// a port that is free there, and PARIO_KEY names the file with the key that all have. Ranks of
/// one machine find each other by themselves.
pub fn from_env() -> Result<Team, Error> {
    let seat = Group::seat_of_environment()?;
    meet(&seat.job, seat.size, seat.rank)
}

/// The same for who knows job, size and rank.
pub fn meet(job: &str, size: u32, rank: u32) -> Result<Team, Error> {
    let across = across(|name| std::env::var(name).ok())?;
    let options = TeamOptions { across, ..TeamOptions::default() };
    Ok(Team::meet_with(job, size, rank, &options)?)
}

/// Where machines meet, as variables say.
fn across(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Across>, Error> {
    let Some(place) = variable("PARIO_TEAM").filter(|place| !place.is_empty()) else {
        return Ok(None);
    };
    let address = place.to_socket_addrs().ok().and_then(|mut found| found.next());
    let Some(address) = address.filter(|address| address.port() > 0) else {
        return Err(Error::invalid(format!(
            "PARIO_TEAM: {place:?} is no address; it should be one of the first machine, and a \
             port, like 10.0.0.1:7777"
        )));
    };
    let Some(file) = variable("PARIO_KEY") else {
        return Err(Error::invalid(
            "PARIO_TEAM is set and PARIO_KEY is not: machines know each other by a key; make \
             one with `head -c 32 /dev/urandom | xxd -p -c 32 > key`, for you alone to read",
        ));
    };
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Error::invalid(format!("PARIO_KEY: {file}: {error}")))?;
    let key = Key::from_hex(text.trim())
        .map_err(|error| Error::invalid(format!("PARIO_KEY: {file}: {error}")))?;
    Ok(Some(Across { address, key, machine: variable("PARIO_MACHINE").unwrap_or_default() }))
}

impl Group {
    /// The memory of the processes of this job. Collective: all call it.
    pub fn team(&self) -> Result<Team, Error> {
        meet(self.job(), self.size(), self.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_machines_meet_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let key = Key::random();
        std::fs::write(&file, format!("{}\n", key.to_hex())).unwrap();
        let file = file.to_str().unwrap();
        let said = |variables: &[(&str, &str)]| {
            across(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(said(&[]).unwrap().is_none());
        assert!(said(&[("PARIO_TEAM", "")]).unwrap().is_none());
        let place = ("PARIO_TEAM", "127.0.0.1:7777");
        let found = said(&[place, ("PARIO_KEY", file)]).unwrap().unwrap();
        assert_eq!(found.address, "127.0.0.1:7777".parse().unwrap());
        assert_eq!((found.key.to_hex(), found.machine.as_str()), (key.to_hex(), ""));
        let wrong = |variables: &[(&str, &str)]| said(variables).unwrap_err().to_string();
        assert!(wrong(&[place]).contains("PARIO_TEAM is set and PARIO_KEY is not"));
        assert!(wrong(&[("PARIO_TEAM", "nowhere")]).contains("\"nowhere\" is no address"));
        let text = wrong(&[place, ("PARIO_KEY", "/nowhere/key")]);
        assert!(text.starts_with("PARIO_KEY: /nowhere/key: "), "{text}");
    }
}
