//! Compares pictures of the pages of three sessions pixel by pixel with committed ones. `pictures/NAME.json`
//! has the sessions, as `/api/page` returned them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tuneagent_e2e::browser::Browser;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, programs, require};

use crate::{PageModel, file};

const SESSIONS: [(&str, &str); 3] = [
    ("healthy", include_str!("pictures/healthy.json")),
    ("repaired", include_str!("pictures/repaired.json")),
    ("nothing", include_str!("pictures/nothing.json")),
];

/// Path from the folder of pictures to the one that README.md and docs/web.md show.
const DOCUMENTED: &str = "../../../../../docs/pictures/page.png";

/// Maximum share of pixels that may differ.
const DIFFERENT_MAX: f64 = 0.001;

/// Widths of the page, each with the compared height from the top. The height is bounded so that the files
/// stay small.
const SIZES: [(u32, u32); 2] = [(1280, 2400), (360, 1600)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/pictures")
}

/// Versions of the browser and of the fonts: the look of texts depends on them.
fn versions() -> Outcome<String> {
    let mut text = String::new();
    let font = |family| ["-f", "%{family} %{style} %{fontversion}", family];
    for (program, words) in [
        ("chromedriver", &["--version"][..]),
        ("fc-match", &font("system-ui")),
        ("fc-match", &font("ui-monospace")),
        ("fc-match", &font("monospace")),
    ] {
        let output = Command::new(program).args(words).output().context(program)?;
        text += String::from_utf8_lossy(&output.stdout).trim();
        text.push('\n');
    }
    Ok(text)
}

/// A picture with sixteen levels for each colour channel, so that the files are small.
#[derive(PartialEq)]
struct Picture {
    width: u32,
    rows: Vec<Vec<[u8; 3]>>,
}

impl Picture {
    fn read(bytes: &[u8]) -> Outcome<Picture> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
        let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
        let mut pixels = vec![0; reader.output_buffer_size().ok_or("a large picture")?];
        let frame = reader
            .next_frame(&mut pixels)
            .map_err(|error| error.to_string())?;
        let samples = frame.color_type.samples();
        let steps: [u8; 256] = std::array::from_fn(|channel| (channel * 15).div_ceil(255) as u8 * 17);
        let step = |channel: u8| steps[usize::from(channel)];
        let pixel = |pixel: &[u8]| [step(pixel[0]), step(pixel[1]), step(pixel[2])];
        let rows = pixels[..frame.buffer_size()].chunks(frame.width as usize * samples);
        Ok(Picture {
            width: frame.width,
            rows: rows.map(|row| row.chunks(samples).map(pixel).collect()).collect(),
        })
    }

    fn write(&self, path: &Path) -> Outcome {
        let pixels: Vec<[u8; 3]> = self.rows.concat();
        let mut colours = pixels.clone();
        colours.sort_unstable();
        colours.dedup();
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.rows.len() as u32);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let data = match colours.len() <= 256 {
            true => {
                encoder.set_color(png::ColorType::Indexed);
                encoder.set_palette(colours.concat());
                encoder.set_filter(png::Filter::NoFilter);
                let place = |pixel| colours.binary_search(pixel).unwrap_or_default() as u8;
                pixels.iter().map(place).collect()
            }
            false => {
                encoder.set_color(png::ColorType::Rgb);
                pixels.concat()
            }
        };
        let written = encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&data));
        written.map_err(|error| error.to_string())?;
        Ok(fs::write(path, bytes)?)
    }

    /// Counts the pixels that differ, and draws them red on white. Rows that only one picture has count as
    /// different.
    fn difference(&self, other: &Picture) -> (usize, Picture) {
        let width = self.width.max(other.width) as usize;
        let at = |of: &Picture, x: usize, y: usize| of.rows.get(y).and_then(|row| row.get(x)).copied();
        let mut count = 0;
        let mut rows = Vec::new();
        for y in 0..self.rows.len().max(other.rows.len()) {
            let row = (0..width).map(|x| match at(self, x, y) == at(other, x, y) {
                true => [255; 3],
                false => [255, 0, 0],
            });
            rows.push(row.collect::<Vec<_>>());
            count += rows[y].iter().filter(|pixel| pixel[1] == 0).count();
        }
        let width = width as u32;
        (count, Picture { width, rows })
    }
}

/// Compares `new` with the committed picture. If they differ, writes both and their difference to files for
/// the developer.
fn compared(name: &str, new: &Picture) -> Outcome<Option<String>> {
    let committed = Picture::read(&fs::read(folder().join(format!("{name}.png"))).context(name)?)?;
    if committed == *new {
        return Ok(None);
    }
    let (count, difference) = committed.difference(new);
    let all = difference.rows.len() * difference.width as usize;
    if count as f64 <= DIFFERENT_MAX * all as f64 {
        return Ok(None);
    }
    let left = programs::target_folder()?.join("pictures");
    fs::create_dir_all(&left)?;
    new.write(&left.join(format!("{name}.new.png")))?;
    committed.write(&left.join(format!("{name}.committed.png")))?;
    difference.write(&left.join(format!("{name}.difference.png")))?;
    let left = left.display();
    Ok(Some(format!(
        "{name}: {count} of {all} pixels differ: {left}/{name}.*.png"
    )))
}

#[test]
fn pages_look_as_they_are_committed() -> Outcome {
    let _shared = require!(shared: Browser);
    let is_update = std::env::var_os("TUNEAGENT_UPDATE").is_some();
    let (made_with, now) = (folder().join("made-with.txt"), versions()?);
    if is_update {
        fs::write(made_with, now)?;
    } else {
        let then = fs::read_to_string(made_with)?;
        if then != now {
            // The test runner would capture `eprintln!`.
            let mut said = std::io::stderr();
            writeln!(
                said,
                "skipped: the pictures were made with\n{then}and this machine has\n{now}"
            )?;
            return Ok(());
        }
    }
    let pages = tempfile::tempdir()?;
    let browser = Browser::start()?;
    let mut wrong = Vec::new();
    for (session, model) in SESSIONS {
        let page: PageModel = serde_json::from_str(model)?;
        let path = pages.path().join("page.html");
        fs::write(&path, file(&page).map_err(|error| error.to_string())?)?;
        browser.open(&format!("file://{}", path.display()))?;
        let schemes = SIZES
            .into_iter()
            .flat_map(|size| [("light", size), ("dark", size)]);
        for (scheme, (width, height_max)) in schemes {
            browser.prefer(scheme, (width, 800))?;
            let name = format!("{session}-{scheme}-{width}");
            let picture = Picture::read(&browser.picture(height_max)?)?;
            match is_update {
                true => picture.write(&folder().join(format!("{name}.png")))?,
                false => wrong.extend(compared(&name, &picture)?),
            }
        }
        if is_update && session == "repaired" {
            browser.prefer("light", (1000, 800))?;
            Picture::read(&browser.picture(1020)?)?.write(&folder().join(DOCUMENTED))?;
        }
    }
    let help =
        "look at them; TUNEAGENT_UPDATE=1 cargo test -p tuneagent-page pictures replaces the committed ones";
    assert!(wrong.is_empty(), "{}\n{help}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_picture_is_read_as_it_was_written_and_each_pixel_counts() -> Outcome {
    let mut picture = Picture {
        width: 3,
        rows: vec![vec![[0, 17, 255]; 3]; 2],
    };
    let file = tempfile::NamedTempFile::new()?;
    picture.write(file.path())?;
    let read = Picture::read(&fs::read(file.path())?)?;
    assert!(read == picture);
    picture.rows[1][2] = [0, 17, 238];
    picture.rows.push(vec![[0; 3]; 3]);
    assert_eq!(read.difference(&picture).0, 4);
    Ok(())
}
