//! Tokens between processes: named ports, links, coalescing, credits.
