//! The controls of the viewer in a real browser: windows, values under the cursor, distances,
//! focus, screenshots, and accessibility.

use std::fs;
use std::path::{Path, PathBuf};

use crate::viewer::browser::Browser;
use crate::viewer::page::{IS_STILL, PLAIN, Page};
use crate::viewer::{TIMEOUT, ViewerSession};
use pario::Cluster;
use pario_image::{LengthUnit, Pixel, Sample, ValueUnit, Volume, VolumeOptions, VoxelUnits};
use pario_proto::TilePosition;
use serde_json::{Value, json};

const LAPTOP: (u32, u32, bool) = (1200, 800, false);
const SIDES: [u64; 3] = [24, 20, 16];

/// Creates a volume of one box whose voxels have values computed from their positions.
fn volume(
    cluster: &Cluster,
    path: &str,
    sample: Sample,
    options: impl FnOnce(VolumeOptions) -> VolumeOptions,
    value: impl Fn([u64; 3]) -> f64,
) -> Volume {
    let pixel = Pixel::new(sample, 1).expect("grey");
    let wanted = options(VolumeOptions::new(SIDES, pixel).boxes(SIDES, [false; 3]));
    let volume = wanted.create(cluster, path).expect("a volume");
    let mut voxels = Vec::new();
    for z in 0..SIDES[2] {
        for y in 0..SIDES[1] {
            for x in 0..SIDES[0] {
                sample.append(value([x, y, z]), &mut voxels);
            }
        }
    }
    volume.write_box(TilePosition { x: 0, y: 0, z: 0 }, &voxels).expect("written");
    volume
}

/// Creates a volume of Hounsfield units that grow along x, with spacing in millimetres.
fn ct(cluster: &Cluster) -> Volume {
    let units = VoxelUnits { values: ValueUnit::Hounsfield, lengths: LengthUnit::Millimetre };
    let options = |options: VolumeOptions| options.spacing([0.5, 0.5, 2.0]).units(units);
    let ct = volume(cluster, "/ct", Sample::I16, options, hounsfield);
    ct.record_statistics().expect("statistics");
    ct
}

fn hounsfield([x, y, z]: [u64; 3]) -> f64 {
    let number = |count: u64| f64::from(u32::try_from(count).expect("a few"));
    -1000.0 + 90.0 * number(x) + 3.0 * number(y) + number(z)
}

/// Opens a page with one volume.
fn page_of(create: impl FnOnce(&Cluster) -> Volume, size: (u32, u32, bool)) -> Page {
    Page::of(ViewerSession::showing(|cluster| vec![create(cluster)], &[], |_, _| {}), size)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn window(page: &mut Page) -> Vec<f64> {
    page.numbers("[viewer.state.low, viewer.state.high]")
}

fn is_near(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-3)
}

#[test]
fn sliders_reach_over_the_values_of_every_kind_of_voxel() {
    let small = |[x, _, _]: [u64; 3]| f64::from(u32::try_from(x).expect("a few"));
    let same = |options: VolumeOptions| options;
    let create = |cluster: &Cluster| {
        vec![
            volume(cluster, "/u8", Sample::U8, same, |at| 100.0 + small(at)),
            volume(cluster, "/u16", Sample::U16, same, |at| 300.0 + 100.0 * small(at)),
            volume(cluster, "/i8", Sample::I8, same, |at| small(at) - 90.0),
            volume(cluster, "/i16", Sample::I16, same, hounsfield),
            volume(cluster, "/f32", Sample::F32, same, |at| (small(at) - 12.0) / 1000.0),
        ]
    };
    let mut page = Page::of(ViewerSession::showing(create, &[], |_, _| {}), LAPTOP);
    for number in 0..5 {
        page.browser.wait_for(&format!("viewer.state.facts.number === {number}"));
        page.settle();
        // No header records the range; the nodes have computed it.
        let known = page.session.volumes[number].compute_statistics().unwrap().unwrap();
        let name = page.browser.run("viewer.state.facts.name");
        let shown = window(&mut page);
        assert!(is_near(&shown, &[known.percentile_1, known.percentile_99]), "{name} {shown:?}");
        let ends = page.numbers("[...'01'].map((at) => +level[['min', 'max'][at]])");
        assert!(is_near(&ends, &[known.minimum, known.maximum]), "{name} {ends:?}");
        let widest = page.numbers("+width.max");
        assert!(is_near(&widest, &[known.maximum - known.minimum]), "{name} {widest:?}");
        let slid =
            page.numbers("[+level.value, +width.value, viewer.state.level, viewer.state.width]");
        let step = page.numbers("viewer.state.windowStep")[0];
        let is_slid = |at: usize| (slid[at] - slid[at + 2]).abs() <= step;
        assert!(is_slid(0) && is_slid(1), "{name} {slid:?}");
        let level = f64::midpoint(known.percentile_1, known.percentile_99);
        let boxed = page.numbers("+document.getElementById('level-number').value");
        assert!((boxed[0] - level).abs() <= step, "{name} {boxed:?} {level}");

        // A typed number sets the window, and Auto resets it.
        page.browser.run(
            "(() => { const box = document.getElementById('width-number'); \
             box.value = '10'; box.dispatchEvent(new Event('change')); return 0; })()",
        );
        page.settle();
        let typed = window(&mut page);
        assert!(is_near(&[typed[1] - typed[0]], &[10.0]), "{name} {typed:?}");
        assert_eq!(page.browser.run("preset.value"), "own", "{name}");
        page.browser.run("auto.click()");
        page.settle();
        assert!(is_near(&window(&mut page), &shown), "{name}");
        assert_eq!(page.browser.run("preset.value"), "auto", "{name}");
        page.browser.run("preset.value = 'full'; preset.dispatchEvent(new Event('change')); 0");
        page.settle();
        assert!(is_near(&window(&mut page), &[known.minimum, known.maximum]), "{name}");
        // CT windows are offered where values can be Hounsfield units.
        let has_bone =
            page.browser.run("[...preset.options].some(({ value }) => value === 'bone')");
        assert_eq!(has_bone, number == 3, "{name}");
        page.browser.run("document.activeElement.blur()");
        page.browser.key("v", PLAIN);
    }
}

#[test]
fn a_page_says_that_it_waits_for_values_that_no_header_has() {
    let create = |cluster: &Cluster| {
        vec![volume(cluster, "/old", Sample::I16, |options| options, hounsfield)]
    };
    let mut session = ViewerSession::showing(create, &[], |_, command| {
        command.stderr(std::process::Stdio::piped());
    });
    let mut line = String::new();
    std::io::BufRead::read_line(&mut session.viewer.stderr(), &mut line).unwrap();
    assert!(
        line.starts_with("pario: /old: its header does not record the range of values"),
        "{line}"
    );
    session.node.pause();
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/?token={}", session.address, session.token()));
    let notice = "document.getElementById('notice')";
    browser.wait_for(&format!("!{notice}.hidden && {notice}.textContent.includes('percentiles')"));
    assert!(session.volumes[0].statistics().is_none());
    session.node.resume();
    browser.wait_for(IS_STILL);
    browser.wait_for(&format!("{notice}.hidden"));
    let known = session.volumes[0].compute_statistics().unwrap().unwrap();
    let shown = ["low", "high"].map(|end| browser.run(&format!("viewer.state.{end}")).as_f64());
    assert_eq!(shown, [Some(known.percentile_1), Some(known.percentile_99)]);
}

#[test]
fn a_ct_has_hounsfield_units_and_presets_and_nothing_is_grey_outside() {
    let mut page = page_of(ct, LAPTOP);
    assert_eq!(page.browser.run("document.getElementById('window-unit').textContent"), "in HU");
    for (preset, low, high) in
        [("bone", -500, 1300), ("lung", -1350, 150), ("soft", -160, 240), ("brain", 0, 80)]
    {
        page.browser.run(&format!(
            "preset.value = '{preset}'; preset.dispatchEvent(new Event('change')); 0"
        ));
        page.settle();
        let (path, _) = page.shown("axial");
        assert!(path.contains(&format!("low={low}&high={high}")), "{preset}: {path}");
    }
    // The corner of a view is outside the volume: there the background of the canvas is visible,
    // also with coarse pictures during a movement.
    let corner = "[...document.querySelectorAll('canvas.picture')].map((canvas) => \
                  canvas.getContext('2d').getImageData(1, 1, 1, 1).data[3])";
    assert_eq!(page.numbers(corner), [0.0; 4]);
    page.browser.run(
        "window.corners = []; for (const { slices } of viewer.views.values()) { \
         const draw = slices.draw; slices.draw = function (picture, asked, ...rest) { \
         draw.call(this, picture, asked, ...rest); window.corners.push([asked.isSharp, \
         this.context.getImageData(1, 1, 1, 1).data[3]]); }; } 0",
    );
    page.browser.run("viewer.state.moveTo([3, 3, 4]); viewer.draw(); viewer.changed()");
    page.settle();
    let seen = page.browser.run("window.corners");
    let seen = seen.as_array().unwrap();
    assert!(seen.iter().any(|one| one[0] == false), "no coarse picture: {seen:?}");
    assert!(seen.iter().all(|one| one[1] == 0), "{seen:?}");
}

#[test]
fn the_value_and_the_position_under_the_cursor_are_told() {
    let mut page = page_of(ct, LAPTOP);
    let readout = "document.querySelector('[data-view=axial] .readout').textContent";
    for voxel in [[3u64, 4], [20, 10], [0, 0]] {
        // The point of the voxel on the screen.
        let [x, y] = voxel;
        let script = format!(
            "viewer.state.point('axial', [{x} * 0.5, {y} * 0.5, viewer.state.at[2]], \
             viewer.pixels('axial'))"
        );
        let offset = page.numbers(&script);
        let at = page.near("axial", offset[0], offset[1]);
        page.browser.hover(at);
        let z = 8;
        let value = hounsfield([x, y, z]);
        let [mm_x, mm_y] = voxel.map(|side| f64::from(u32::try_from(side).unwrap()) / 2.0);
        let expected = format!("x {x}  y {y}  z {z} · {mm_x}, {mm_y}, 16 mm · {value} HU");
        page.browser.wait_for(&format!("{readout} === '{expected}'"));
    }
    let [left, top, ..] = page.frame("axial");
    page.browser.hover([left + 3.0, top + 30.0]);
    page.browser.wait_for(&format!("{readout} === 'outside of the volume'"));
    // The panel shows the point where all slices meet, for which keys are enough.
    let told = "document.getElementById('place').textContent";
    page.browser.run("document.querySelector('[data-view=axial]').focus()");
    page.browser.key("ArrowRight", PLAIN);
    page.settle();
    let at = page.at();
    assert!(is_near(&at, &[6.5, 5.0, 16.0]), "{at:?}");
    let value = hounsfield([13, 10, 8]);
    page.browser.wait_for(&format!("{told}.includes('value{value} HU')"));
}

#[test]
fn the_scale_bar_is_as_long_as_it_says() {
    let mut page = page_of(ct, LAPTOP);
    for zoom in [1, 3, 17] {
        page.browser.run(&format!("viewer.state.zoom = {zoom}; viewer.changed()"));
        page.settle();
        // The longest run of white in the lowest row of the bar, in CSS pixels, and its text.
        let found = page.browser.run(
            "import('./lengths.js').then(({ scaleBar }) => { \
             const canvas = document.querySelector('[data-view=axial] .lines'); \
             const row = Math.round((canvas.clientHeight - 11) * devicePixelRatio); \
             const { data } = canvas.getContext('2d').getImageData(0, row, canvas.width, 1); \
             let [run, longest] = [0, 0]; \
             for (let at = 0; at < data.length; at += 4) { \
               run = data[at] > 200 && data[at + 3] > 200 ? run + 1 : 0; \
               longest = Math.max(longest, run); } \
             const pixels = viewer.pixels('axial'); \
             const room = Math.min(Math.max(canvas.clientWidth * 0.3, 40), 160); \
             return [longest / devicePixelRatio, scaleBar(pixels, 'mm', room).text, pixels]; })",
        );
        let (run, pixels) = (found[0].as_f64().unwrap(), found[2].as_f64().unwrap());
        let (number, unit) = text(&found[1]).split_once(' ').unwrap();
        assert_eq!(unit, "mm");
        let length: f64 = number.parse().unwrap();
        assert!((run - length * pixels).abs() <= 3.0, "{found}");
        assert!(
            ["1", "2", "5"].iter().any(|digit| number.trim_start_matches("0.").starts_with(digit))
        );
    }
    let texts = page.browser.run(
        "import('./lengths.js').then(({ scaleBar, lengthText }) => [scaleBar(1e5, 'mm', 100).text, \
         scaleBar(0.05, 'mm', 100).text, scaleBar(4, null, 100).text, lengthText(1, null), \
         lengthText(12.3456, 'mm')])",
    );
    assert_eq!(texts, json!(["1 µm", "2 m", "20 voxels", "1 voxel", "12.35 mm"]));
}

#[test]
fn a_distance_is_measured_by_two_clicks_or_by_keys() {
    let mut page = page_of(ct, LAPTOP);
    let told = "document.getElementById('place').textContent";
    page.browser.run("document.getElementById('measure').click()");
    page.browser.wait_for("viewer.distance.isOn");
    let pixels = page.numbers("viewer.pixels('axial')")[0];
    let at = page.at();
    let (first, second) = (page.near("axial", -60.0, -30.0), page.near("axial", 60.0, 20.0));
    page.browser.click(first);
    page.browser.hover(second);
    page.browser.click(second);
    page.settle();
    let expected = 120.0_f64.hypot(50.0) / pixels;
    let found = page.browser.run("viewer.distance.text(viewer.state)");
    let found: f64 = text(&found).strip_suffix(" mm").expect("millimetres").parse().unwrap();
    assert!((found - expected).abs() < expected / 500.0, "{found} {expected}");
    page.browser.wait_for(&format!("{told}.includes('distance{found} mm')"));
    assert_eq!(page.at(), at, "the slices stay where they are");
    // The line is drawn: nothing else is yellow.
    let yellow = "(() => { const canvas = document.querySelector('[data-view=axial] .lines'); \
                  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, \
                  canvas.height); let count = 0; for (let at = 0; at < data.length; at += 4) \
                  count += data[at] > 150 && data[at + 1] > 0.82 * data[at] && data[at + 2] < 0.5 * data[at] \
                  && data[at + 3] > 200; \
                  return count; })()";
    page.browser.wait_for(&format!("{yellow} > 100"));
    page.browser.key("Escape", PLAIN);
    page.browser.wait_for(&format!("!{told}.includes('distance') && {yellow} === 0"));
    assert_eq!(page.browser.run("viewer.distance.isOn"), false);

    // With keys alone: three voxels to the right, two slices down.
    page.browser.run("document.querySelector('[data-view=axial]').focus()");
    for key in ["m", "Enter", "ArrowRight", "ArrowRight", "ArrowRight", "PageDown", "PageDown"] {
        page.browser.key(key, PLAIN);
    }
    page.browser.key("Enter", PLAIN);
    page.settle();
    let found = page.browser.run("viewer.distance.text(viewer.state)");
    assert_eq!(text(&found), "4.272 mm");
    let spoken = "document.getElementById('spoken').textContent";
    page.browser.wait_for(&format!("{spoken}.endsWith('distance 4.272 mm')"));
}

#[test]
fn keys_and_the_wheel_are_for_the_view_that_is_marked() {
    let mut page = page_of(ct, LAPTOP);
    let marked = "[document.activeElement.dataset.view, viewer.active, \
                  document.querySelector('.view.active').dataset.view]";
    for (view, axis, spacing) in [("coronal", 1, 0.5), ("sagittal", 0, 0.5), ("axial", 2, 2.0)] {
        let before = page.at();
        let over = page.near(view, 5.0, 5.0);
        page.browser.wheel(over, 120.0, PLAIN);
        page.browser.wait_for(&format!("viewer.state.at[{axis}] !== {}", before[axis]));
        page.settle();
        assert_eq!(page.browser.run(marked), json!([view, view, view]));
        // The keys continue where the wheel has ended.
        page.browser.key("PageDown", PLAIN);
        page.settle();
        let at = page.at();
        for other in 0..3 {
            let moved = if other == axis { 2.0 * spacing } else { 0.0 };
            assert!(is_near(&[at[other]], &[before[other] + moved]), "{view} {before:?} {at:?}");
        }
        // All views show the new point.
        let lines = page.numbers(
            "['axial', 'coronal', 'sagittal'].map((view) => viewer.state.middle(view)[\
             { axial: 2, coronal: 1, sagittal: 0 }[view]])",
        );
        assert!(is_near(&lines, &[at[2], at[1], at[0]]), "{lines:?} {at:?}");
    }
    page.browser.key("Tab", PLAIN);
    page.browser.wait_for("viewer.active === 'coronal'");
    assert_eq!(page.browser.run(marked), json!(["coronal", "coronal", "coronal"]));
    // The mouse does not take the focus from a box that is being edited.
    page.browser.run("document.getElementById('level-number').focus()");
    let over = page.near("sagittal", 3.0, 3.0);
    page.browser.hover(over);
    page.browser.wait_for("viewer.active === 'sagittal'");
    assert_eq!(page.browser.run("document.activeElement.id"), "level-number");
    page.browser.key("Escape", PLAIN);
    page.browser.wait_for("document.activeElement.dataset.view === 'sagittal'");
}

#[test]
fn the_list_of_keys_comes_and_goes_and_gives_back_the_focus() {
    let mut page = page_of(ct, LAPTOP);
    for focused in ["[data-view=coronal]", "#share"] {
        page.browser.run(&format!("document.querySelector('{focused}').focus()"));
        page.browser.key("?", PLAIN);
        page.browser.wait_for("document.getElementById('keys').open");
        assert_eq!(page.browser.run("!!document.activeElement.closest('dialog')"), true);
        page.browser.key("Escape", PLAIN);
        page.browser.wait_for("!document.getElementById('keys').open");
        page.browser.wait_for(&format!("document.activeElement.matches('{focused}')"));
    }
    // Every key of the list has an effect.
    let listed = page.browser.run(
        "[...document.querySelectorAll('#key-table kbd, #more-keys kbd')].map((key) => key.textContent)",
    );
    for key in ["A", "W", "M", "Enter", "S", "?", "Esc"] {
        assert!(listed.as_array().unwrap().contains(&json!(key)), "{key}: {listed}");
    }
}

#[test]
fn a_screenshot_has_all_views_as_they_are() {
    let mut page = page_of(ct, LAPTOP);
    let directory = tempfile::tempdir().unwrap();
    page.browser.save_to(directory.path());
    page.browser.run("document.getElementById('screenshot').click()");
    let path = directory.path().join("ct.png");
    let begin = std::time::Instant::now();
    // The file has its name before it is complete.
    let file = loop {
        match fs::read(&path) {
            Ok(bytes) if bytes.ends_with(b"IEND\xaeB`\x82") => break bytes,
            _ => assert!(begin.elapsed() < TIMEOUT, "there is no screenshot"),
        }
        std::thread::yield_now();
    };
    let decoder = png::Decoder::new(std::io::Cursor::new(file));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let size =
        page.numbers("(({ width, height }) => [width, height])(views.getBoundingClientRect())");
    assert!(is_near(&[info.width.into(), info.height.into()], &[size[0], size[1] + 22.0]));
    // Beside the lines, each pixel is that of the canvas of its view; bars are white.
    let corner = page.numbers("(({ x, y }) => [x, y])(views.getBoundingClientRect())");
    for view in ["axial", "coronal", "sagittal", "oblique"] {
        let place = page.frame(view);
        let script = format!(
            "[...document.querySelector('[data-view={view}] canvas').getContext('2d')\
             .getImageData({} + 20, {} + 20, 1, 1).data]",
            place[2] / 2.0,
            place[3] / 2.0
        );
        let expected = page.numbers(&script);
        let [x, y] = [0, 1].map(|axis| place[axis] - corner[axis] + place[axis + 2] / 2.0 + 20.0);
        let at = (whole(y) * info.width as usize + whole(x)) * info.color_type.samples();
        let found: Vec<f64> = pixels[at..at + 3].iter().map(|byte| f64::from(*byte)).collect();
        let is_like = found.iter().zip(&expected).all(|(one, other)| (one - other).abs() < 40.0);
        assert!(expected[3] == 255.0 && is_like, "{view} {found:?} {expected:?}");
        let bar = (whole(place[1] - corner[1] + place[3] - 11.0) * info.width as usize
            + whole(place[0] - corner[0] + 25.0))
            * info.color_type.samples();
        assert!(pixels[bar..bar + 3].iter().all(|byte| *byte > 200), "{view}");
    }
}

/// Rounds down to a number of pixels.
fn whole(number: f64) -> usize {
    format!("{:.0}", number.floor()).parse().expect("a number of pixels")
}

/// Returns the accessibility rules (axe-core), as a script.
fn axe() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_pario"));
    let target = program.parent().and_then(Path::parent).expect("a target directory");
    let path = match std::env::var_os("PARIO_AXE") {
        Some(path) => PathBuf::from(path),
        None => target.join("npm/node_modules/axe-core/axe.min.js"),
    };
    fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "axe-core is missing ({}: {error}): install it with npm install --prefix {} axe-core",
            path.display(),
            target.join("npm").display()
        )
    })
}

/// Returns the violations of WCAG 2 (A and AA), and undecided contrast.
fn violations(browser: &mut Browser) -> Value {
    browser.run(
        "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })\
         .then(({ violations, passes }) => passes.length < 10 ? 'axe has checked nothing' : \
         violations.map(({ id, nodes }) => [id, nodes.map(({ target, failureSummary }) => \
         `${target} ${failureSummary}`)]))",
    )
}

#[test]
fn everybody_can_use_every_control_in_both_themes() {
    let axe = axe();
    let mut page = page_of(ct, LAPTOP);
    page.browser.run(&format!("{axe}; 0"));
    for scheme in ["dark", "light"] {
        page.browser.prefer(scheme);
        for (width, height, is_phone) in [LAPTOP, (390, 844, true)] {
            page.browser.resize(width, height, 1.0, is_phone);
            page.settle();
            let over = page.near("oblique", 10.0, 10.0);
            page.browser.hover(over);
            let found = violations(&mut page.browser);
            assert_eq!(found, json!([]), "{scheme}, {width} pixels wide");
            page.browser.run("viewer.measure(); viewer.help()");
            let found = violations(&mut page.browser);
            assert_eq!(found, json!([]), "{scheme}, {width} pixels wide, the list of keys");
            page.browser.run("keys.close(); viewer.measure()");
            // Nothing extends beyond the screen.
            let sides = page.numbers("[document.documentElement.scrollWidth, innerWidth]");
            assert!(sides[0] <= sides[1], "{sides:?}");
        }
        page.browser.resize(1200, 800, 1.0, false);
        page.settle();
    }
    // Without a name axe complains.
    page.browser.run(
        "document.getElementById('preset').removeAttribute('aria-label'); \
                      document.getElementById('preset').removeAttribute('title'); 0",
    );
    assert_eq!(violations(&mut page.browser)[0][0], "select-name");
}

#[test]
fn the_theme_is_the_one_that_the_system_asks_for() {
    let mut page = page_of(ct, LAPTOP);
    let mut ground = |scheme: &str| {
        page.browser.prefer(scheme);
        page.settle();
        let colour = page.browser.run("getComputedStyle(document.body).backgroundColor");
        let parts = text(&colour).trim_start_matches("rgb(").trim_end_matches(')').split(", ");
        parts.map(|part| part.parse::<u32>().unwrap()).sum::<u32>()
    };
    assert!(ground("light") > 3 * 230);
    assert!(ground("dark") < 3 * 30);
}

#[test]
fn every_control_is_reached_by_the_keyboard() {
    let mut page = page_of(ct, LAPTOP);
    page.browser.run("document.querySelector('[data-view=axial]').focus()");
    let mut reached = Vec::new();
    for _ in 0..40 {
        let focused = page
            .browser
            .run("document.activeElement.id || document.activeElement.dataset.view || 'body'");
        reached.push(text(&focused).to_owned());
        page.browser.key("Tab", PLAIN);
    }
    for control in [
        "axial",
        "coronal",
        "sagittal",
        "oblique",
        "box",
        "preset",
        "auto",
        "level",
        "level-number",
        "width",
        "width-number",
        "smooth",
        "lines",
        "measure",
        "screenshot",
        "share",
        "reset",
        "help",
    ] {
        assert!(reached.iter().any(|id| id == control), "{control}: {reached:?}");
    }
    // Arrows turn the box; the slices stay.
    let at = page.at();
    let aside = page.numbers("viewer.box.aside")[0];
    page.browser.run("document.getElementById('box').focus()");
    page.browser.key("ArrowLeft", PLAIN);
    page.settle();
    assert_ne!(page.numbers("viewer.box.aside")[0], aside);
    assert_eq!(page.at(), at);
}
