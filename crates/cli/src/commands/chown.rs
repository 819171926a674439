//! `pario chown`: changes owner and group.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::owners::{self, Owners};
use crate::{paths, reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str =
    "pario chown ada /runs/7\n  pario chown ada:physics /runs\n  pario chown :100 /runs";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// OWNER, OWNER:GROUP or :GROUP, as names or numbers
    owner: String,

    /// The files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let (uid, gid) = owner_and_group(&options.owner, &Owners::new()).map_err(UsageError)?;
    let paths = paths::all_in_cluster(&options.paths)?;
    let cluster = reach::cluster(global)?;
    let mut untold = BTreeSet::new();
    for path in &paths {
        let outcome = cluster.set_owner(path.as_str(), uid, gid)?;
        owners::warn_unacknowledged(path, &outcome);
        untold.extend(outcome.untold);
    }
    if global.json {
        let changed = json!({ "changed": paths, "uid": uid, "gid": gid, "untold": untold });
        terminal::print_json(&changed)?;
    }
    Ok(())
}

fn owner_and_group(text: &str, owners: &Owners) -> Result<(Option<u32>, Option<u32>), String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    if user.is_empty() && group.is_empty() {
        return Err(
            "name an owner, a group after a colon, or both: ada, ada:physics, :physics".into()
        );
    }
    let find = |name: &str, found: Option<u32>, what: &str| match found {
        _ if name.is_empty() => Ok(None),
        None => Err(format!("this machine has no {what} {name:?}; give the number instead")),
        known => Ok(known),
    };
    Ok((find(user, owners.uid(user), "user")?, find(group, owners.gid(group), "group")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_group_are_names_or_numbers() {
        let owners = Owners::new();
        for (text, expected) in [
            ("root", (Some(0), None)),
            ("17:18", (Some(17), Some(18))),
            (":root", (None, Some(0))),
            ("5:", (Some(5), None)),
        ] {
            assert_eq!(owner_and_group(text, &owners), Ok(expected), "{text}");
        }
        for text in ["", ":", "no such user", "root:no such group"] {
            assert!(owner_and_group(text, &owners).is_err(), "{text}");
        }
    }
}
