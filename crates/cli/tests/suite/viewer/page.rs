//! The page of the viewer in a browser, compared with the volume.

use serde_json::Value;

use super::browser::Browser;
use super::{PhantomSpec, ViewerSession, place, reference};

/// Keyboard modifiers of mouse events.
pub const PLAIN: u32 = 0;
pub const CONTROL: u32 = 2;
pub const SHIFT: u32 = 8;

/// Condition: every view shows its newest picture, sharp, and no request is under way.
pub const IS_STILL: &str = "[...viewer.views.values()].every(({ slices }) => !slices.asked \
                        && slices.shown.path === slices.wish(viewer.state, true).path) \
                        && location.hash === viewer.state.toHash() \
                        && !viewer.isWaitingForValues && !viewer.focus.isAsking";

/// A page in a browser, and the viewer that serves it.
pub struct Page {
    pub session: ViewerSession,
    pub browser: Browser,
}

impl Page {
    /// Opens a page of phantoms, on a laptop or a phone.
    pub fn open(made: &[PhantomSpec<'_>], size: (u32, u32, bool)) -> Self {
        Self::of(ViewerSession::with_token(made, &[], |_, _| {}), size)
    }

    /// Opens the page of a viewer.
    pub fn of(session: ViewerSession, (width, height, is_phone): (u32, u32, bool)) -> Self {
        let mut browser = Browser::start();
        browser.resize(width, height, 1.0, is_phone);
        browser.open(&format!("http://{}/?token={}", session.address, session.token()));
        let mut page = Self { session, browser };
        page.settle();
        page
    }

    /// Waits until nothing moves, and asserts that there were no errors.
    pub fn settle(&mut self) {
        self.browser.wait_for(IS_STILL);
        assert!(self.browser.complaints.is_empty(), "{:?}", self.browser.complaints);
    }

    /// Returns numbers of the state.
    pub fn numbers(&mut self, script: &str) -> Vec<f64> {
        let found = self.browser.run(&format!("[{script}].flat()"));
        let found = found.as_array().unwrap_or_else(|| panic!("{script}: {found}"));
        found.iter().map(|number| number.as_f64().expect("a number")).collect()
    }

    /// Returns the point where all slices meet.
    pub fn at(&mut self) -> Vec<f64> {
        self.numbers("viewer.state.at")
    }

    /// Returns left, top, width and height of a view on the screen.
    pub fn frame(&mut self, view: &str) -> [f64; 4] {
        let script = format!(
            "(({{ x, y, width, height }}) => [x, y, width, height])(document.querySelector(\
             '[data-view={view}] canvas').getBoundingClientRect())"
        );
        self.numbers(&script).try_into().expect("four numbers")
    }

    /// Returns a point on the screen, in pixels from the centre of a view.
    pub fn near(&mut self, view: &str, x: f64, y: f64) -> [f64; 2] {
        let [left, top, width, height] = self.frame(view);
        [left + width / 2.0 + x, top + height / 2.0 + y]
    }

    /// Returns the last request of a view, and the pixels of its canvas: red, green and blue.
    pub fn shown(&mut self, view: &str) -> (String, Vec<u8>) {
        let script = format!(
            "(() => {{ const canvas = document.querySelector('[data-view={view}] canvas'); \
             const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, \
             canvas.height); let hex = ''; for (let at = 0; at < data.length; at += 1) \
             if (at % 4 < 3) hex += (data[at] + 256).toString(16).slice(1); \
             return [canvas.dataset.path, hex]; }})()"
        );
        let found = self.browser.run(&script);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let hex = text(&found[1]);
        let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (text(&found[0]), (0..hex.len()).step_by(2).map(pair).collect())
    }

    /// Asserts that every view shows the volume; returns the requests.
    pub fn check(&mut self) -> Vec<String> {
        self.settle();
        let (at, spacing) = (self.at(), self.session.volumes[0].spacing());
        let check = |view: &&str| {
            let (path, pixels) = self.shown(view);
            let expected = reference(&self.session.volumes[0], &path);
            assert_eq!(pixels.len(), expected.len(), "{view}");
            assert!(pixels == expected, "{view} shows something else: {path}");
            // The slice contains the point where all meet, or is the layer nearest to it.
            let origin = place(&path, "origin");
            let way = [0, 1, 2].map(|axis| at[axis] - origin[axis]);
            let distance: f64 = (0..3).map(|axis| way[axis] * normal(&path)[axis]).sum();
            let near = match *view {
                "axial" => spacing[2] / 2.0,
                "coronal" => spacing[1] / 2.0,
                "sagittal" => spacing[0] / 2.0,
                _ => 0.0,
            };
            assert!(distance.abs() <= near + 1e-6, "{view} is {distance} away");
            path
        };
        ["axial", "coronal", "sagittal", "oblique"].iter().map(check).collect()
    }
}

/// Returns the normal of the slice of a path.
pub fn normal(path: &str) -> [f64; 3] {
    let (a, b) = (place(path, "right"), place(path, "down"));
    unit([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
}

/// Returns the unit vector of a direction.
pub fn unit(direction: [f64; 3]) -> [f64; 3] {
    let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
    direction.map(|part| part / length)
}
