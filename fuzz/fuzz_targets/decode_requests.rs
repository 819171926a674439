//! Decodes any bytes as messages of clients and nodes and as files of a node: decoding never
//! panics, and a decoded value encodes to bytes that decode to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pario_proto::{
    ClusterMap, DescriptorRequest, FileRecord, KnownFile, ReplyMessage, RequestMessage,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(question) = postcard::from_bytes::<RequestMessage<Vec<u8>>>(bytes) {
        let again = postcard::to_allocvec(&question).expect("it was decoded");
        let same: RequestMessage<Vec<u8>> = postcard::from_bytes(&again).expect("it was encoded");
        assert_eq!(same.request, question.request);
        assert_eq!(same.data, question.data);
    }
    if let Ok(message) = postcard::from_bytes::<ReplyMessage<Vec<u8>>>(bytes) {
        let again = postcard::to_allocvec(&message).expect("it was decoded");
        let same: ReplyMessage<Vec<u8>> = postcard::from_bytes(&again).expect("it was encoded");
        assert_eq!(same.result, message.result);
    }
    let _ = postcard::from_bytes::<DescriptorRequest>(bytes);
    let _ = postcard::from_bytes::<ClusterMap>(bytes);
    let _ = postcard::from_bytes::<FileRecord>(bytes);
    let _ = postcard::from_bytes::<KnownFile>(bytes);
});
