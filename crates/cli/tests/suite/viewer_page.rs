//! The page of the viewer in a real browser: its canvases show the volume.
//!
//! With `PARIO_PICTURES=DIRECTORY`, the test writes pictures of the page for the documents there.

use std::fs::write;
use std::path::Path;

use crate::viewer::browser::Browser;
use crate::viewer::page::{CONTROL, IS_STILL, PLAIN, Page, SHIFT, unit};
use crate::viewer::{PhantomSpec, ViewerSession, place};
use pario_image::{Pixel, Sample};
use serde_json::Value;

const BODY: PhantomSpec<'_> = ("/body", [128, 128, 96], [1.0, 1.0, 1.5], Pixel::RGB);
const SCAN: PhantomSpec<'_> = ("/scan", [64, 64, 80], [1.0; 3], Pixel::GREY);

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
    // The other volume is grey, so it has a window.
    page.browser.key("v", PLAIN);
    page.browser.wait_for("viewer.state.facts.name === 'scan'");
    page.settle();
    assert_eq!(page.browser.run("document.getElementById('window').hidden"), false);
    let scan = page.session.volumes[1].compute_statistics().unwrap().unwrap();
    let [low, high] = scan.window().expect("a body has several values");
    assert_eq!(page.numbers("[viewer.state.low, viewer.state.high]"), [low, high]);
    page.browser.key("[", PLAIN);
    page.settle();
    let cut = (high - low) * 0.075;
    let narrower = page.numbers("[viewer.state.low, viewer.state.high]");
    assert!(close(narrower[0], low + cut) && close(narrower[1], high - cut), "{narrower:?}");
    page.browser.key("a", PLAIN);
    page.settle();
    let (path, _) = page.shown("axial");
    assert!(path.contains(&format!("low={low}&high={high}")), "{path}");
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
    // Two fingers turn the slice when they move together, and zoom when they part.
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
    // A click on the title of a small view enlarges it.
    page.browser.run("document.querySelector('[data-view=sagittal] .title').click()");
    page.check();
    assert!(page.frame("sagittal")[2] > 380.0);
}

#[test]
fn the_token_leaves_the_address_and_becomes_a_cookie_that_no_script_sees() {
    let mut page = Page::open(&[SCAN], (1000, 700, false));
    let token = page.session.token().to_owned();
    let href = page.browser.run("location.href");
    let href = href.as_str().unwrap();
    assert!(href.starts_with(&format!("http://{}/#", page.session.address)), "{href}");
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
    // The page reloads without the token in its address.
    page.browser.call("Page.reload", serde_json::json!({}));
    page.browser.wait_for("window.viewer?.state");
    page.settle();
}

#[test]
fn the_token_is_asked_for() {
    let session = ViewerSession::with_token(&[SCAN], &[], |_, _| {});
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/", session.address));
    let enter = |browser: &mut Browser, token: &str| {
        browser.wait_for("document.getElementById('token').open");
        browser.run(&format!(
            "document.getElementById('token-text').value = '{token}'; \
             document.querySelector('#token button').click(); 0"
        ));
    };
    enter(&mut browser, "a-wrong-token");
    browser.wait_for("performance.getEntriesByType('navigation')[0].redirectCount === 1");
    enter(&mut browser, session.token());
    browser.wait_for(IS_STILL);
    assert_eq!(browser.run("location.search"), "");
}

#[test]
fn the_page_can_be_looked_at() {
    let (body, scan) = match std::env::var_os("PARIO_PICTURES") {
        Some(_) => (
            ("/body", [256, 256, 192], [1.0; 3], Pixel::RGB),
            ("/scan", [256, 256, 192], [1.5, 1.5, 2.0], Pixel::new(Sample::I16, 1).unwrap()),
        ),
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
    page.browser.prefer("dark");
    take(&mut page, "viewer-laptop.png");
    page.browser.resize(390, 844, 2.0, true);
    take(&mut page, "viewer-phone.png");
    // A scan of grey values in the light theme, with a distance and the value under the cursor.
    page.browser.prefer("light");
    page.browser.resize(1440, 900, 1.0, false);
    page.browser.key("v", PLAIN);
    page.browser.wait_for("viewer.state.facts.name === 'scan'");
    page.settle();
    page.browser.key("m", PLAIN);
    let (from, to) = (page.near("coronal", -90.0, -60.0), page.near("coronal", 70.0, 40.0));
    page.browser.click(from);
    page.browser.click(to);
    page.settle();
    let over = page.near("coronal", 30.0, -30.0);
    page.browser.hover(over);
    let notice = "document.getElementById('notice').hidden";
    page.browser.wait_for(&format!("{notice} && !viewer.cursor.isAsking"));
    take(&mut page, "viewer-light.png");
}
