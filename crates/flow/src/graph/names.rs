//! Short names of types and functions.

/// Removes the module paths from a type name, also within its parameters.
///
/// ```
/// use pario_flow::graph::short_name;
/// assert_eq!(short_name("alloc::vec::Vec<my::path::Slice<u8>>"), "Vec<Slice<u8>>");
/// ```
pub fn short_name(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    // The begin of the current word in `short`.
    let mut word = 0;
    let mut rest = name.trim();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::")
            && word < short.len()
        {
            short.truncate(word);
            rest = after;
            continue;
        }
        short.push(first);
        rest = &rest[first.len_utf8()..];
        let part_of_word = first.is_alphanumeric() || "_{}#".contains(first);
        if !part_of_word {
            word = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn modules_are_left_out() {
        let cases = [
            ("u32", "u32"),
            ("", ""),
            ("my::path::Slice<u8>", "Slice<u8>"),
            ("(alloc::string::String, a::B)", "(String, B)"),
            ("&'static [core::option::Option<x::Y>; 4]", "&'static [Option<Y>; 4]"),
            ("my::op::{{closure}}", "{{closure}}"),
            ("<T as a::Trait>::Item", "<T as Trait>::Item"),
            ("alloc::boxed::Box<dyn a::b::C + core::marker::Send>", "Box<dyn C + Send>"),
            ("größe::Länge", "Länge"),
        ];
        for (name, short) in cases {
            assert_eq!(short_name(name), short);
        }
    }
}
