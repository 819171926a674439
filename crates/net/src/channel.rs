//! stub
use crate::{SendError, Token};
pub(crate) enum Channel {}
impl Channel {
    pub fn send<T: Token>(&self, _token: T) -> Result<(), SendError<T>> {
        match *self {}
    }
    pub fn send_urgent<T: Token>(&self, _token: T) -> Result<(), SendError<T>> {
        match *self {}
    }
    pub fn flush(&self) {
        match *self {}
    }
    pub fn peer(&self) -> &str {
        match *self {}
    }
    pub fn port(&self) -> &str {
        match *self {}
    }
}
