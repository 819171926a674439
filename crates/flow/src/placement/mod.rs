//! Which thread lives in which process, and how the processes are started.
