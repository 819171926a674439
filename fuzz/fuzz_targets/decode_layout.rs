//! Decodes any bytes as a layout: an error, or a layout that encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pario_proto::Layout;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(layout) = Layout::decode(bytes) {
        assert_eq!(layout.encode(), bytes);
    }
});
