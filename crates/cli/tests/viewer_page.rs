//! The page of the viewer in a real browser: what its canvases show is what the volume has there.
//!
//! With `PARIO_PICTURES=DIRECTORY`, pictures of the page for the documents are written there.

mod command;
mod viewing;

use std::fs::write;
use std::path::Path;

use pario_image::Pixel;
use serde_json::Value;
use viewing::browser::Browser;
use viewing::{Made, Viewing, place, reference};

const BODY: Made<'_> = ("/body", [128, 128, 96], [1.0, 1.0, 1.5], Pixel::RGB);
const SCAN: Made<'_> = ("/scan", [64, 64, 80], [1.0; 3], Pixel::GREY);

/// Modifiers of the mouse.
const PLAIN: u32 = 0;
const CONTROL: u32 = 2;
const SHIFT: u32 = 8;

/// Every view shows its newest picture, sharp, and nothing is under way.
const IS_STILL: &str = "[...viewer.views.values()].every(({ slices }) => !slices.asked \
                        && slices.shown.path === slices.wish(viewer.state, true).path) \
                        && location.hash === viewer.state.toHash()";

struct Page {
    viewing: Viewing,
    browser: Browser,
}

impl Page {
    fn open(made: &[Made<'_>], (width, height, is_phone): (u32, u32, bool)) -> Self {
        let viewing = Viewing::with_token(made, &[], |_, _| {});
        let mut browser = Browser::start();
        browser.resize(width, height, 1.0, is_phone);
        browser.open(&format!("http://{}/?token={}", viewing.address, viewing.token()));
        let mut page = Self { viewing, browser };
        page.settle();
        page
    }

    fn settle(&mut self) {
        self.browser.wait_for(IS_STILL);
        assert!(self.browser.complaints.is_empty(), "{:?}", self.browser.complaints);
    }

    /// A number or some of the state.
    fn numbers(&mut self, script: &str) -> Vec<f64> {
        let found = self.browser.run(&format!("[{script}].flat()"));
        let found = found.as_array().unwrap_or_else(|| panic!("{script}: {found}"));
        found.iter().map(|number| number.as_f64().expect("a number")).collect()
    }

    /// The place where all slices meet.
    fn at(&mut self) -> Vec<f64> {
        self.numbers("viewer.state.at")
    }

    /// Left, top, width and height of a view on the screen.
    fn frame(&mut self, view: &str) -> [f64; 4] {
        let script = format!(
            "(({{ x, y, width, height }}) => [x, y, width, height])(document.querySelector(\
             '[data-view={view}] canvas').getBoundingClientRect())"
        );
        self.numbers(&script).try_into().expect("four numbers")
    }

    /// A place on the screen, so many pixels from the middle of a view.
    fn near(&mut self, view: &str, x: f64, y: f64) -> [f64; 2] {
        let [left, top, width, height] = self.frame(view);
        [left + width / 2.0 + x, top + height / 2.0 + y]
    }

    /// What a view was asked for last, and the pixels of its canvas: red, green and blue.
    fn shown(&mut self, view: &str) -> (String, Vec<u8>) {
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

    /// Every view shows what the volume has there; gives where that is.
    fn check(&mut self) -> Vec<String> {
        self.settle();
        let (at, spacing) = (self.at(), self.viewing.volumes[0].spacing());
        let check = |view: &&str| {
            let (path, pixels) = self.shown(view);
            let expected = reference(&self.viewing.volumes[0], &path);
            assert_eq!(pixels.len(), expected.len(), "{view}");
            assert!(pixels == expected, "{view} shows something else: {path}");
            // The slice goes through the place where all meet, or is the layer nearest to it.
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

/// The direction across the slice of a path.
fn normal(path: &str) -> [f64; 3] {
    let (a, b) = (place(path, "right"), place(path, "down"));
    unit([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
}

fn unit(direction: [f64; 3]) -> [f64; 3] {
    let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
    direction.map(|part| part / length)
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-3
}

#[test]
fn views_show_the_volume_and_follow_the_mouse() {
    let mut page = Page::open(&[BODY, SCAN], (1200, 800, false));
    let first = page.check();
    assert_eq!(page.at(), [64.0, 64.0, 72.0]);

    // A drag in one view moves the slices of the others.
    let [_, _, width, height] = page.frame("axial");
    let pixels = 0.94 * (width / 128.0).min(height / 128.0);
    let (from, to) = (page.near("axial", 10.0, 10.0), page.near("axial", 80.0, -50.0));
    page.browser.drag(from, to, PLAIN);
    let moved = page.check();
    let at = page.at();
    assert!(close(at[0], 63.5 + 80.0 / pixels) && close(at[1], 63.5 - 50.0 / pixels), "{at:?}");
    assert_eq!(moved[0], first[0], "the axial slice is the same");
    assert!((1..4).all(|view| moved[view] != first[view]), "all others are not");

    // Shift turns the oblique slice, and only that one.
    let right = |path: &str| unit(place(path, "right"));
    let (from, to) = (page.near("oblique", -30.0, 0.0), page.near("oblique", 30.0, 0.0));
    page.browser.drag(from, to, SHIFT);
    let turned = page.check();
    assert_eq!(turned[..3], moved[..3]);
    let (before, now) = (right(&moved[3]), right(&turned[3]));
    let cosine: f64 = (0..3).map(|axis| before[axis] * now[axis]).sum();
    assert!(close(cosine, (60.0_f64 * 0.008).cos()), "{cosine}");

    // The wheel steps, with Control it zooms.
    let over = page.near("coronal", 0.0, 0.0);
    page.browser.wheel(over, 120.0, PLAIN);
    page.check();
    assert!(close(page.at()[1], at[1] + 1.0));
    page.browser.wheel(over, -120.0, CONTROL);
    page.browser.wait_for("viewer.state.zoom > 1.2");
    page.check();

    // Another page at the same address shows the same.
    let state = page.browser.run("location.href");
    page.browser.open("about:blank");
    page.browser.open(state.as_str().expect("text"));
    page.browser.wait_for("window.viewer?.state");
    page.settle();
    assert_eq!(page.browser.run("location.href"), state);
    page.check();
}

#[test]
fn keys_do_everything() {
    let mut page = Page::open(&[BODY, SCAN], (1000, 700, false));
    page.browser.run("document.querySelector('[data-view=axial]').focus()");
    page.browser.key("ArrowRight", PLAIN);
    page.browser.key("ArrowDown", PLAIN);
    page.browser.key("PageDown", PLAIN);
    assert_eq!(page.at(), [65.0, 65.0, 73.5]);
    page.check();
    page.browser.key("Home", PLAIN);
    assert_eq!(page.at()[2], 0.0);
    page.browser.key("c", PLAIN);
    assert_eq!(page.at(), [64.0, 64.0, 72.0]);
    let turn = page.numbers("viewer.state.turn");
    page.browser.key("ArrowLeft", SHIFT);
    page.browser.key("e", PLAIN);
    assert_ne!(page.numbers("viewer.state.turn"), turn);
    page.browser.key("+", PLAIN);
    assert_eq!(page.numbers("viewer.state.zoom"), [1.25]);
    page.browser.key("i", PLAIN);
    assert!(page.check().iter().all(|path| path.contains("interpolation=nearest")));
    page.browser.key("2", PLAIN);
    page.check();
    let ([_, _, large, _], [_, _, small, _]) = (page.frame("coronal"), page.frame("axial"));
    assert!(large > 2.0 * small, "{large} {small}");
    page.browser.key("Escape", PLAIN);
    page.browser.key("r", PLAIN);
    page.check();
    page.browser.key("?", PLAIN);
    page.browser.wait_for("document.getElementById('keys').open");
    page.browser.key("Escape", PLAIN);
    page.browser.wait_for("!document.getElementById('keys').open");
    // The other volume is grey: it has a window.
    page.browser.key("v", PLAIN);
    page.browser.wait_for("viewer.state.facts.name === 'scan'");
    page.settle();
    assert_eq!(page.browser.run("document.getElementById('window').hidden"), false);
    page.browser.key("[", PLAIN);
    page.settle();
    let (path, _) = page.shown("axial");
    assert!(path.contains("low=19.125&high=235.875"), "{path}");
}

#[test]
fn fingers_move_turn_and_zoom() {
    let mut page = Page::open(&[BODY], (390, 844, true));
    page.check();
    // The oblique view is the large one. One finger moves.
    let at = page.at();
    let (from, to) = (page.near("oblique", 0.0, 0.0), page.near("oblique", 40.0, 30.0));
    page.browser.touch("touchStart", &[from]);
    page.browser.touch("touchMove", &[to]);
    page.browser.touch("touchEnd", &[]);
    page.check();
    assert_ne!(page.at(), at);
    // Two turn the slice when they go together, and zoom when they part.
    let turn = page.numbers("viewer.state.turn");
    let at = page.at();
    let fingers = |page: &mut Page, apart: f64, aside: f64| {
        [page.near("oblique", aside - apart, 0.0), page.near("oblique", aside + apart, 0.0)]
    };
    let (before, behind) = (fingers(&mut page, 40.0, 0.0), fingers(&mut page, 80.0, 30.0));
    page.browser.touch("touchStart", &before);
    page.browser.touch("touchMove", &behind);
    page.browser.touch("touchEnd", &[]);
    page.check();
    assert_eq!(page.at(), at);
    assert_ne!(page.numbers("viewer.state.turn"), turn);
    assert!(close(page.numbers("viewer.state.zoom")[0], 2.0));
    // The title of a small view makes it the large one.
    page.browser.run("document.querySelector('[data-view=sagittal] .title').click()");
    page.check();
    assert!(page.frame("sagittal")[2] > 380.0);
}

#[test]
fn the_token_leaves_the_address_and_becomes_a_cookie_that_no_script_sees() {
    let mut page = Page::open(&[SCAN], (1000, 700, false));
    let token = page.viewing.token().to_owned();
    let href = page.browser.run("location.href");
    let href = href.as_str().unwrap();
    assert!(href.starts_with(&format!("http://{}/#", page.viewing.address)), "{href}");
    assert_eq!(page.browser.run("document.cookie"), "");
    let known = page.browser.call("Network.getCookies", serde_json::json!({}));
    let [cookie] = &known["cookies"].as_array().unwrap()[..] else { panic!("{known}") };
    assert_eq!(cookie["httpOnly"], true);
    assert_eq!(cookie["sameSite"], "Strict");
    assert_eq!(cookie["session"], true);
    assert!(!cookie["value"].as_str().unwrap().contains(&token));
    // It is in no entry of the history either.
    let history = page.browser.call("Page.getNavigationHistory", serde_json::json!({}));
    let mut visited = history["entries"].as_array().unwrap().iter();
    let has_token = |entry: &Value| entry["url"].as_str().unwrap().contains(&token);
    assert!(!visited.any(has_token), "{history}");
    // The page is loaded again without the token in its address.
    page.browser.call("Page.reload", serde_json::json!({}));
    page.browser.wait_for("window.viewer?.state");
    page.settle();
}

#[test]
fn the_token_is_asked_for() {
    let viewing = Viewing::with_token(&[SCAN], &[], |_, _| {});
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", viewing.address));
    let enter = |browser: &mut Browser, token: &str| {
        browser.wait_for("document.getElementById('token').open");
        browser.run(&format!(
            "document.getElementById('token-text').value = '{token}'; \
             document.querySelector('#token button').click(); 0"
        ));
    };
    enter(&mut browser, "a-wrong-token");
    browser.wait_for("performance.getEntriesByType('navigation')[0].redirectCount === 1");
    enter(&mut browser, viewing.token());
    browser.wait_for(IS_STILL);
    assert_eq!(browser.run("location.search"), "");
}

#[test]
fn the_page_can_be_looked_at() {
    let (body, scan) = match std::env::var_os("PARIO_PICTURES") {
        Some(_) => (("/body", [256, 256, 192], [1.0; 3], Pixel::RGB), SCAN),
        None => (BODY, SCAN),
    };
    let mut page = Page::open(&[body, scan], (1440, 900, false));
    let take = |page: &mut Page, name: &str| {
        page.settle();
        let picture = page.browser.screenshot();
        assert!(picture.starts_with(b"\x89PNG"));
        if let Some(directory) = std::env::var_os("PARIO_PICTURES") {
            write(Path::new(&directory).join(name), picture).expect("the picture can be written");
        }
    };
    take(&mut page, "viewer-laptop.png");
    page.browser.resize(390, 844, 2.0, true);
    take(&mut page, "viewer-phone.png");
}
