//! stub
use std::sync::Arc;
pub(crate) struct Route {
    peer: Arc<str>,
}
impl Route {
    pub fn peer(&self) -> &Arc<str> {
        &self.peer
    }
    pub fn step(&self) -> i64 {
        i64::MAX
    }
    pub fn give_back(&self, _bytes: i64) {}
    pub fn give_back_urgent(&self) {}
}
