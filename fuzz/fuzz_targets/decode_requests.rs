//! What clients, nodes and files of a node may contain: no bytes make decoding panic, and what was
//! decoded encodes to something that decodes to the same.
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
    if let Ok(answer) = postcard::from_bytes::<ReplyMessage<Vec<u8>>>(bytes) {
        let again = postcard::to_allocvec(&answer).expect("it was decoded");
        let same: ReplyMessage<Vec<u8>> = postcard::from_bytes(&again).expect("it was encoded");
        assert_eq!(same.result, answer.result);
    }
    let _ = postcard::from_bytes::<DescriptorRequest>(bytes);
    let _ = postcard::from_bytes::<ClusterMap>(bytes);
    let _ = postcard::from_bytes::<FileRecord>(bytes);
    let _ = postcard::from_bytes::<KnownFile>(bytes);
});
