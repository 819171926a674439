//! The process launcher: starts the other processes of a program.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::file::ProcessSpec;

/// Starts processes: by spawning on this machine, by `ssh` on others.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLauncher;

/// The reason why a process could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// The path of the running executable is unknown.
    #[error("process \"{process}\": cannot find the running executable: {error}")]
    Executable {
        /// The process.
        process: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The executable, or `ssh`, cannot be run.
    #[error("process \"{process}\": cannot start {program}: {error}")]
    Spawn {
        /// The process.
        process: String,
        /// The executable.
        program: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The remote shell ended before it read the secret.
    #[error("process \"{process}\": {host} did not read the key: {error}")]
    Secret {
        /// The process.
        process: String,
        /// The machine.
        host: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The secret, the host or the environment is invalid.
    #[error("process \"{process}\": {what}")]
    Unsuitable {
        /// The process.
        process: String,
        /// The problem.
        what: String,
    },
}

/// A started process. Dropping this kills it.
#[derive(Debug)]
pub struct StartedProcess {
    name: String,
    child: Child,
    /// The standard input of a process on another machine, open until the process is to end: the end
    /// of its input tells that process that the program has ended.
    stdin: Option<ChildStdin>,
}

impl ProcessLauncher {
    /// The variable with the secret, or with `stdin` if the secret is the first line of the standard
    /// input.
    pub const KEY_VARIABLE: &'static str = "PARIO_KEY";
    /// The variable with the path of a replacement for `ssh`.
    pub const SSH_VARIABLE: &'static str = "PARIO_SSH";

    /// Starts a process with additional environment variables.
    ///
    /// On this machine the process receives the secret in the variable `PARIO_KEY`. On other
    /// machines all users can read the command line, so `PARIO_KEY` is `stdin` and the secret is the
    /// first line of the standard input, which stays open until the process is stopped. The process
    /// inherits the standard output and standard error.
    pub fn start(
        process: &ProcessSpec,
        environment: &[(&str, String)],
        secret: &str,
    ) -> Result<StartedProcess, SpawnError> {
        let ssh = std::env::var_os(ProcessLauncher::SSH_VARIABLE)
            .filter(|program| !program.is_empty())
            .unwrap_or_else(|| "ssh".into());
        start(&ssh, process, environment, secret)
    }
}

impl StartedProcess {
    /// Returns the name of the process in the placement file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the exit status if the process has exited.
    pub fn try_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until the process exits, kills it after `timeout`, and returns its exit status.
    pub fn stop(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        const LONGEST_PAUSE: Duration = Duration::from_millis(20);
        self.stdin = None;
        let begin = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for StartedProcess {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(
    ssh: &OsStr,
    process: &ProcessSpec,
    environment: &[(&str, String)],
    secret: &str,
) -> Result<StartedProcess, SpawnError> {
    check(process, environment, secret)?;
    let executable = match &process.executable {
        Some(path) => path.clone().into_os_string(),
        None => std::env::current_exe()
            .map_err(|error| SpawnError::Executable { process: process.name.clone(), error })?
            .into_os_string(),
    };
    let arguments: Vec<OsString> = match &process.arguments {
        Some(arguments) => arguments.iter().map(OsString::from).collect(),
        None => std::env::args_os().skip(1).collect(),
    };
    match process.host.as_deref().filter(|host| !is_this_machine(host)) {
        None => start_here(process, &executable, &arguments, environment, secret),
        Some(host) => {
            let line = remote_command(&executable, &arguments, environment);
            start_by_ssh(ssh, process, host, &line, secret)
        }
    }
}

fn check(
    process: &ProcessSpec,
    environment: &[(&str, String)],
    secret: &str,
) -> Result<(), SpawnError> {
    let unsuitable =
        |what: String| Err(SpawnError::Unsuitable { process: process.name.clone(), what });
    if secret.is_empty() || secret.contains(['\n', '\r', '\0']) {
        return unsuitable("the key must be one line and not empty".into());
    }
    if process.host.as_ref().is_some_and(|host| host.is_empty() || host.starts_with('-')) {
        return unsuitable("the host name is empty or begins with a hyphen".into());
    }
    for (name, value) in environment {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            || !name.chars().all(word)
        {
            return unsuitable(format!("\"{name}\" is not the name of an environment variable"));
        }
        if value.contains('\0') {
            return unsuitable(format!("the value of {name} contains a zero byte"));
        }
    }
    Ok(())
}

fn start_here(
    process: &ProcessSpec,
    executable: &OsStr,
    arguments: &[OsString],
    environment: &[(&str, String)],
    secret: &str,
) -> Result<StartedProcess, SpawnError> {
    let child = Command::new(executable)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env(ProcessLauncher::KEY_VARIABLE, secret)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| SpawnError::Spawn {
            process: process.name.clone(),
            program: executable.to_string_lossy().into_owned(),
            error,
        })?;
    Ok(StartedProcess { name: process.name.clone(), child, stdin: None })
}

fn start_by_ssh(
    ssh: &OsStr,
    process: &ProcessSpec,
    host: &str,
    line: &OsStr,
    secret: &str,
) -> Result<StartedProcess, SpawnError> {
    let mut child = Command::new(ssh)
        .args(["-o", "BatchMode=yes", host])
        .arg(line)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| SpawnError::Spawn {
            process: process.name.clone(),
            program: ssh.to_string_lossy().into_owned(),
            error,
        })?;
    let stdin = child.stdin.take();
    // From here on an error kills the child.
    let mut started = StartedProcess { name: process.name.clone(), child, stdin };
    let sent = match &mut started.stdin {
        Some(stdin) => stdin.write_all(format!("{secret}\n").as_bytes()),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    match sent {
        Ok(()) => Ok(started),
        Err(error) => {
            Err(SpawnError::Secret { process: process.name.clone(), host: host.to_owned(), error })
        }
    }
}

/// Returns the command line for the shell of the other machine.
fn remote_command(
    executable: &OsStr,
    arguments: &[OsString],
    environment: &[(&str, String)],
) -> OsString {
    let mut line = b"env".to_vec();
    let mut add = |word: &[u8]| {
        line.push(b' ');
        line.extend(quoted(word));
    };
    for (name, value) in environment {
        add(format!("{name}={value}").as_bytes());
    }
    add(format!("{}=stdin", ProcessLauncher::KEY_VARIABLE).as_bytes());
    add(executable.as_bytes());
    for argument in arguments {
        add(argument.as_bytes());
    }
    OsString::from_vec(line)
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=:,./@%".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Returns whether a host name means this machine.
fn is_this_machine(host: &str) -> bool {
    let name = rustix::system::uname();
    let own = name.nodename().to_string_lossy();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let full_differ = host.contains('.') && own.contains('.');
    ["localhost", "127.0.0.1", "::1"].contains(&host)
        || host.eq_ignore_ascii_case(&own)
        || (!full_differ && short(host).eq_ignore_ascii_case(&short(&own)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> ProcessSpec {
        ProcessSpec {
            name: "B".into(),
            host: None,
            executable: Some("/bin/sh".into()),
            arguments: Some(vec!["-c".into(), script.into()]),
        }
    }

    fn output(folder: &Path) -> String {
        fs::read_to_string(folder.join("out")).unwrap()
    }

    /// Creates a script in place of ssh: it notes its arguments and runs the last of them here.
    ///
    /// `install` copies it to its path: a file that a process has open for writing cannot be
    /// executed, and a concurrent test may fork with all files open.
    fn fake_ssh(folder: &Path) -> PathBuf {
        let (text, path) = (folder.join("text"), folder.join("ssh"));
        let notes = folder.join("notes").display().to_string();
        let script = format!("#!/bin/sh\necho \"$1 $2 $3\" > '{notes}'\nexec /bin/sh -c \"$4\"\n");
        fs::write(&text, script).unwrap();
        let copied = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(copied.unwrap().success());
        path
    }

    #[test]
    fn on_this_machine_the_environment_has_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out").display().to_string();
        let environment = [("PARIO_OUT", out), ("PARIO_SPACE", "it's 1".into())];
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for host in [None, Some("localhost".to_owned()), Some(own)] {
            let process =
                ProcessSpec { host, ..shell("echo \"$PARIO_KEY/$PARIO_SPACE\" > \"$PARIO_OUT\"") };
            let ssh = OsStr::new("/does/not/exist");
            let mut started = start(ssh, &process, &environment, "secret").unwrap();
            assert_eq!(started.name(), "B");
            assert!(started.stop(TIMEOUT).unwrap().success());
            assert_eq!(output(folder.path()), "secret/it's 1\n");
        }
    }

    #[test]
    fn on_other_machines_the_key_comes_through_the_standard_input() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = fake_ssh(folder.path());
        let out = folder.path().join("out").display().to_string();
        let script = "read -r key; echo \"$PARIO_KEY/$key/$PARIO_SPACE/$1\" > \"$PARIO_OUT\"";
        let mut process = ProcessSpec { host: Some("n2.example".into()), ..shell(script) };
        process.arguments.as_mut().unwrap().extend(["sh".to_owned(), "a 'b' $c".to_owned()]);
        let environment = [("PARIO_OUT", out), ("PARIO_SPACE", "$HOME; \"x\"".into())];
        let mut started = start(ssh.as_os_str(), &process, &environment, "secret").unwrap();
        assert!(started.stop(TIMEOUT).unwrap().success());
        assert_eq!(output(folder.path()), "stdin/secret/$HOME; \"x\"/a 'b' $c\n");
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        assert_eq!(notes, "-o BatchMode=yes n2.example\n");
    }

    #[test]
    fn a_remote_process_sees_the_end_of_its_input_when_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = fake_ssh(folder.path());
        let process =
            ProcessSpec { host: Some("n2.example".into()), ..shell("read key; read more; exit 5") };
        let mut started = start(ssh.as_os_str(), &process, &[], "secret").unwrap();
        assert_eq!(started.try_status().unwrap(), None);
        assert_eq!(started.stop(TIMEOUT).unwrap().code(), Some(5));
    }

    #[test]
    fn a_process_that_does_not_exit_is_killed() {
        let mut started = start(OsStr::new("ssh"), &shell("exec sleep 600"), &[], "s").unwrap();
        assert_eq!(started.try_status().unwrap(), None);
        let status = started.stop(Duration::from_millis(20)).unwrap();
        assert!(!status.success());
        assert_eq!(started.try_status().unwrap(), Some(status));
        assert_eq!(started.stop(TIMEOUT).unwrap(), status, "stopping twice is the same");
    }

    #[test]
    fn a_dropped_process_is_killed_and_reaped() {
        let started = start(OsStr::new("ssh"), &shell("exec sleep 600"), &[], "s").unwrap();
        let entry = PathBuf::from(format!("/proc/{}", started.child.id()));
        assert!(entry.exists());
        drop(started);
        assert!(!entry.exists());
    }

    #[test]
    fn an_executable_that_cannot_start_is_named() {
        let missing = ProcessSpec { executable: Some("/no/such/sieve".into()), ..shell("") };
        let error = start(OsStr::new("ssh"), &missing, &[], "s").unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("process \"B\": cannot start /no/such/sieve: "), "{message}");
        let far = ProcessSpec { host: Some("n2.example".into()), ..shell("") };
        let error = start(OsStr::new("/no/such/ssh"), &far, &[], "s").unwrap_err();
        assert!(error.to_string().starts_with("process \"B\": cannot start /no/such/ssh: "));
    }

    #[test]
    fn invalid_keys_hosts_and_variables_are_refused() {
        let refused = |process: &ProcessSpec, name: &str, value: &str, secret: &str| {
            let environment = [(name, value.to_owned())];
            let result = start(OsStr::new("ssh"), process, &environment, secret);
            assert!(matches!(result, Err(SpawnError::Unsuitable { .. })), "{name} {value:?}");
        };
        refused(&shell(""), "A", "", "two\nlines");
        refused(&shell(""), "A", "", "");
        refused(&shell(""), "A B", "", "s");
        refused(&shell(""), "", "", "s");
        refused(&shell(""), "A", "\0", "s");
        let option = ProcessSpec { host: Some("-oProxyCommand=x".into()), ..shell("") };
        refused(&option, "A", "", "s");
    }

    #[test]
    fn this_machine_has_several_names() {
        assert!(["localhost", "127.0.0.1", "::1"].into_iter().all(is_this_machine));
        assert!(!is_this_machine("n2.example"));
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(is_this_machine(&own) && is_this_machine(&own.to_uppercase()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_shell_reads_quoted_words_back(words in prop::collection::vec("[^\0]{0,12}", 1..4)) {
            let mut line = b"printf '%s\\0'".to_vec();
            for word in &words {
                line.push(b' ');
                line.extend(quoted(word.as_bytes()));
            }
            let command = OsString::from_vec(line);
            let printed = Command::new("/bin/sh").arg("-c").arg(command).output().unwrap().stdout;
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(printed, expected.into_bytes());
        }
    }
}
