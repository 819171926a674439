//! The boxes of a timing diagram. Executions too short to be visible share a box, which bounds the
//! number of boxes per thread.

use super::span::Span;

/// One box: an execution, or consecutive short ones.
#[derive(Debug)]
pub(super) struct SpanBox<'t> {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The longest of its executions, which gives the name.
    pub longest: &'t Span,
    /// The number of executions.
    pub count: usize,
    /// The sum of their lengths.
    pub sum_ns: u64,
    /// Whether all executions have the same name and kind.
    pub is_uniform: bool,
}

/// Returns the boxes of one thread, whose spans are in order of their begins. An execution shorter
/// than `narrowest_ns` joins the short one before it if the gap between them is shorter as well.
pub(super) fn boxes<'t>(spans: &[&'t Span], narrowest_ns: u64) -> Vec<SpanBox<'t>> {
    let mut boxes: Vec<SpanBox<'t>> = Vec::new();
    for span in spans {
        match boxes.last_mut() {
            Some(last) if last.takes(span, narrowest_ns) => last.add(span),
            _ => boxes.push(SpanBox::of(span)),
        }
    }
    boxes
}

/// Returns the length of a span; 0 if it ends before it begins.
pub(super) fn length_ns(span: &Span) -> u64 {
    span.end_ns.saturating_sub(span.begin_ns)
}

impl<'t> SpanBox<'t> {
    fn of(span: &'t Span) -> Self {
        Self {
            begin_ns: span.begin_ns,
            end_ns: span.end_ns.max(span.begin_ns),
            longest: span,
            count: 1,
            sum_ns: length_ns(span),
            is_uniform: true,
        }
    }

    /// Returns whether a span joins this box: both are short, no visible gap lies between them, and
    /// a visible box keeps one name.
    fn takes(&self, span: &Span, narrowest_ns: u64) -> bool {
        let is_short = length_ns(span) < narrowest_ns && length_ns(self.longest) < narrowest_ns;
        let is_near = span.begin_ns.saturating_sub(self.end_ns) < narrowest_ns;
        let is_alike = span.name == self.longest.name && span.kind == self.longest.kind;
        let is_visible = self.end_ns - self.begin_ns >= narrowest_ns;
        is_short && is_near && (is_alike && self.is_uniform || !is_visible)
    }

    fn add(&mut self, span: &'t Span) {
        let is_alike = span.name == self.longest.name && span.kind == self.longest.kind;
        self.is_uniform &= is_alike;
        self.end_ns = self.end_ns.max(span.end_ns);
        self.count += 1;
        self.sum_ns += length_ns(span);
        if length_ns(span) > length_ns(self.longest) {
            self.longest = span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::SpanKind;
    use super::*;

    fn span(name: &str, begin_ns: u64, end_ns: u64) -> Span {
        Span {
            process: "A".into(),
            thread: "T".into(),
            name: name.into(),
            note: String::new(),
            kind: SpanKind::Run,
            call: 1,
            token: 0,
            begin_ns,
            end_ns,
            waited_ns: 0,
        }
    }

    fn summary(spans: &[Span], narrowest_ns: u64) -> Vec<(u64, u64, usize, bool)> {
        let spans: Vec<&Span> = spans.iter().collect();
        let boxes = boxes(&spans, narrowest_ns);
        boxes.iter().map(|b| (b.begin_ns, b.end_ns, b.count, b.is_uniform)).collect()
    }

    #[test]
    fn short_executions_of_one_name_share_a_box() {
        let spans: Vec<Span> = (0..100).map(|n| span("read", n * 10, n * 10 + 8)).collect();
        assert_eq!(summary(&spans, 20), [(0, 998, 100, true)]);
        assert_eq!(summary(&spans, 1).len(), 100);
    }

    #[test]
    fn a_gap_that_can_be_seen_stays() {
        let spans = [span("read", 0, 5), span("read", 30, 35)];
        assert_eq!(summary(&spans, 20).len(), 2);
    }

    #[test]
    fn a_visible_box_has_one_name() {
        let spans = [span("a", 0, 15), span("a", 15, 30), span("b", 31, 35), span("b", 36, 50)];
        assert_eq!(summary(&spans, 20), [(0, 30, 2, true), (31, 50, 2, true)]);
        let tiny = [span("a", 0, 3), span("b", 4, 8), span("a", 9, 12)];
        assert_eq!(summary(&tiny, 20), [(0, 12, 3, false)]);
    }

    #[test]
    fn there_are_never_more_boxes_than_fit() {
        let mut spans = Vec::new();
        for n in 0..20_000u64 {
            let name = if n % 3 == 0 { "a" } else { "b" };
            spans.push(span(name, n * 10, n * 10 + n % 10));
        }
        let most = 2 * 200_000 / 400;
        assert!(summary(&spans, 400).len() <= most);
    }
}
