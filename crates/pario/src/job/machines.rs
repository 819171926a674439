//! How the machines of a job find each other, as the launcher and the environment variables say.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use pario_team::{Endpoint, Key, MultiMachine, Rendezvous};

use super::environment;
use super::node_broker::NodeBroker;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::key;

/// The value of PARIO_TEAM that makes the machines ask a node.
const BY_CLUSTER: &str = "cluster";
/// The ports that names of jobs give: below those that the system assigns to programs.
const PORTS: std::ops::Range<u16> = 16_384..32_768;

/// Returns how the machines of a job find each other; `None` if the job runs on one machine. Without
/// an address in PARIO_TEAM, they ask a node: of the given cluster, or of the one that PARIO_CLUSTER
/// names. The name of a job must be the same on all machines: `is_named_by_node` says that a node has
/// given it.
pub fn multi_machine(
    (job, is_named_by_node): (&str, bool),
    variable: impl Fn(&str) -> Option<String>,
    cluster: Option<&Cluster>,
) -> Result<Option<MultiMachine>, Error> {
    let place = variable("PARIO_TEAM").filter(|place| !place.is_empty());
    let elsewhere = environment::elsewhere(&variable);
    let rendezvous = match place.as_deref() {
        None if elsewhere.is_none() => return Ok(None),
        Some(place) if place != BY_CLUSTER => {
            let job = (job, is_named_by_node);
            Rendezvous::Known(known_endpoint(place, job, &variable, elsewhere.is_some())?)
        }
        _ => {
            check_named(is_named_by_node, &variable)?;
            let why = elsewhere.map_or(String::new(), |elsewhere| format!(" ({elsewhere})"));
            let advice = format!(
                "the job spans machines{why}, and these have to find each other: set PARIO_CLUSTER \
                 to a node of a cluster that all can reach, or PARIO_TEAM to the address of the \
                 first machine and PARIO_KEY to the file with a key that all have"
            );
            let broker = match cluster {
                Some(cluster) => NodeBroker::new(cluster),
                None => NodeBroker::from_env(advice),
            };
            Rendezvous::Brokered(Arc::new(broker))
        }
    };
    Ok(Some(MultiMachine { rendezvous, machine: name_of_machine(variable) }))
}

/// The name that PARIO_MACHINE gives this machine; usually empty.
pub fn name_of_machine(variable: impl Fn(&str) -> Option<String>) -> String {
    variable("PARIO_MACHINE").unwrap_or_default()
}

/// Fails if the name of the job may differ between machines.
fn check_named(
    is_named_by_node: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    match is_named_by_node || environment::is_named(variable) {
        true => Ok(()),
        false => Err(Error::invalid(
            "the job spans machines, and its launcher gives it no name that is the same on all of \
             them: set PARIO_JOB, or give PARIO_TEAM a port too, like 10.0.0.1:7777",
        )),
    }
}

/// Returns the endpoint that PARIO_TEAM names. Without a port, the port and the key follow from the
/// name of the job, so that a machine of another job that listens there is refused.
fn known_endpoint(
    place: &str,
    (job, is_named_by_node): (&str, bool),
    variable: &impl Fn(&str) -> Option<String>,
    is_spread: bool,
) -> Result<Endpoint, Error> {
    let first = |found: std::io::Result<std::vec::IntoIter<SocketAddr>>| found.ok()?.next();
    if let Some(address) = first(place.to_socket_addrs()).filter(|address| address.port() > 0) {
        return Ok(Endpoint { address, key: team_key(variable)? });
    }
    let Some(address) = first((place, PORTS.start).to_socket_addrs()) else {
        return Err(Error::invalid(format!(
            "PARIO_TEAM: {place:?} is no address; it should be that of the first machine, like \
             10.0.0.1 or 10.0.0.1:7777, or `{BY_CLUSTER}`"
        )));
    };
    check_named(is_named_by_node, variable)?;
    if is_spread && address.ip().is_loopback() {
        return Err(Error::invalid(format!(
            "PARIO_TEAM: {place} is {} on this machine, which others cannot reach: give the \
             address by which they know it",
            address.ip()
        )));
    }
    let key = team_key(variable)?;
    let address = SocketAddr::new(address.ip(), port_of(job, &key));
    Ok(Endpoint { address, key: key.for_purpose(job) })
}

/// Returns the port of a job, for machines that have the key.
fn port_of(job: &str, key: &Key) -> u16 {
    let digits = key.for_purpose(&format!("the port of {job}")).to_hex();
    let number = u16::from_str_radix(&digits[..4], 16).unwrap_or(0);
    PORTS.start + number % (PORTS.end - PORTS.start)
}

fn team_key(variable: &impl Fn(&str) -> Option<String>) -> Result<Key, Error> {
    let Some(file) = variable("PARIO_KEY") else {
        return Err(Error::invalid(
            "PARIO_TEAM is set and PARIO_KEY is not: machines know each other by a key; make \
             one with `(umask 077; head -c 32 /dev/urandom | xxd -p -c 32 > key)`",
        ));
    };
    let found = key::from_variable(file.as_ref());
    found.map(|found| found.key).map_err(|error| Error::invalid(format!("PARIO_KEY: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    fn found_for(variables: Variables<'_>) -> Result<Option<MultiMachine>, Error> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        multi_machine(("a job", false), find, None)
    }

    fn known(variables: Variables<'_>) -> Endpoint {
        match found_for(variables).unwrap().unwrap().rendezvous {
            Rendezvous::Known(endpoint) => endpoint,
            Rendezvous::Brokered(_) => panic!("the machines ask a node"),
        }
    }

    fn error_of(variables: Variables<'_>) -> String {
        found_for(variables).unwrap_err().to_string()
    }

    /// Two of four processes are on this machine.
    const OPEN_MPI: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("PMIX_NAMESPACE", "x@1"),
    ];

    fn key_file() -> (tempfile::TempDir, String, Key) {
        let dir = tempfile::tempdir().unwrap();
        let (file, key) = (dir.path().join("key"), Key::random());
        pario_net::write_private_file(&file, format!("{}\n", key.to_hex())).unwrap();
        let file = file.to_str().unwrap().to_owned();
        (dir, file, key)
    }

    #[test]
    fn machines_meet_at_an_address_with_a_port() {
        let (_dir, file, key) = key_file();
        let place = ("PARIO_TEAM", "127.0.0.1:7777");
        let found = known(&[place, ("PARIO_KEY", &file)]);
        assert_eq!(found, Endpoint { address: "127.0.0.1:7777".parse().unwrap(), key });
        assert!(error_of(&[place]).contains("PARIO_TEAM is set and PARIO_KEY is not"));
        let text = error_of(&[place, ("PARIO_KEY", "/nowhere/key")]);
        assert!(text.starts_with("PARIO_KEY: the key in /nowhere/key: "), "{text}");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&file, open).unwrap();
        let text = error_of(&[place, ("PARIO_KEY", &file)]);
        assert!(text.contains("other users can read it (mode 0644); chmod 600 it"), "{text}");
    }

    #[test]
    fn one_machine_needs_no_variable() {
        assert!(found_for(&[]).unwrap().is_none());
        assert!(found_for(&[("PARIO_TEAM", "")]).unwrap().is_none());
        let mut all_here = OPEN_MPI;
        all_here[2].1 = "4";
        assert!(found_for(&all_here).unwrap().is_none());
    }

    #[test]
    fn the_name_of_the_job_gives_a_port_and_a_key() {
        let (_dir, file, key) = key_file();
        let mut variables = OPEN_MPI.to_vec();
        variables.extend([("PARIO_TEAM", "10.0.0.1"), ("PARIO_KEY", file.as_str())]);
        let found = known(&variables);
        assert_eq!(found.address.ip().to_string(), "10.0.0.1");
        assert!(PORTS.contains(&found.address.port()), "{found:?}");
        assert_eq!(found.key, key.for_purpose("a job"));
        assert_ne!(found.key, key.for_purpose("another job"));
        variables[4].1 = "127.0.1.1";
        assert!(error_of(&variables).contains("which others cannot reach"));
        variables[4].1 = "127.0.1.1:0";
        assert!(error_of(&variables).contains("\"127.0.1.1:0\" is no address"));
        // Hydra names no job.
        let hydra = [
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("PARIO_TEAM", "10.0.0.1"),
            ("PARIO_KEY", file.as_str()),
        ];
        assert!(error_of(&hydra).contains("set PARIO_JOB"), "{}", error_of(&hydra));
    }

    #[test]
    fn ports_are_spread() {
        let key = Key::random();
        let ports: std::collections::BTreeSet<u16> =
            (0..1000).map(|number| port_of(&format!("{number}@1"), &key)).collect();
        assert!(ports.len() > 900, "{}", ports.len());
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }

    #[test]
    fn machines_ask_a_node_without_an_address() {
        for variables in [&OPEN_MPI[..], &[("PARIO_TEAM", "cluster"), ("PARIO_JOB", "7")]] {
            let found = found_for(variables).unwrap().unwrap();
            let Rendezvous::Brokered(broker) = found.rendezvous else { panic!("{found:?}") };
            // The tests have no cluster.
            let why = broker.common_address().unwrap_err();
            assert!(why.contains("set PARIO_CLUSTER to a node"), "{why}");
        }
        assert!(error_of(&[("PARIO_TEAM", "cluster")]).contains("set PARIO_JOB"));
    }
}
