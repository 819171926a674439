//! The time, as a parameter.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What tells the time of day.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn system() -> Clock {
        Clock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
    }

    /// A clock that tells nanoseconds since 1970.
    pub fn new(now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now_ns))
    }

    /// Nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({} ns)", self.now_ns())
    }
}
