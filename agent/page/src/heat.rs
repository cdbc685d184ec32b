//! Heat maps as PNG: ranks over time (one row for each rank, one column for each part of the run), and bytes
//! between ranks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::{MessageMatrix, RankRow};

/// Size of the palette. Its first colour is transparent and represents cells without a measurement. The others are
/// steps of 1.6 %: readers cannot distinguish finer ones, and noise in them would be most of what a live page sends.
const COLOURS: usize = 64;

/// Samples of the colour map Cividis. Its lightness rises evenly, and it looks the same with the common kinds
/// of colour blindness (Nuñez, Anderton, Renslow, PLOS ONE 13(7), 2018).
const CIVIDIS: [[u8; 3]; 9] = [
    [0, 34, 78],
    [18, 53, 112],
    [59, 73, 107],
    [87, 93, 109],
    [112, 113, 115],
    [138, 134, 120],
    [165, 156, 116],
    [195, 179, 105],
    [254, 232, 56],
];

/// Encodes the cells of the ranks as a URL of an image: `data:image/png;base64,…`.
pub(crate) fn picture(rows: &[RankRow]) -> Result<String, png::EncodingError> {
    let width = rows.first().map_or(0, |row| row.cells.len());
    let cells = rows.iter().flat_map(|row| &row.cells);
    let pixels: Vec<u8> = cells.map(|cell| cell.map_or(0, index)).collect();
    encoded((width as u32, rows.len() as u32), &pixels)
}

/// Encodes the bytes that ranks sent to each other; each row is a sender.
pub(crate) fn matrix(matrix: &MessageMatrix) -> Result<String, png::EncodingError> {
    let mut pixels = vec![0; (matrix.side * matrix.side) as usize];
    for cell in &matrix.cells {
        let share = cell.bytes as f64 / matrix.most_bytes.max(1) as f64;
        pixels[(cell.from * matrix.side + cell.to) as usize] = index(share);
    }
    encoded((matrix.side, matrix.side), &pixels)
}

fn encoded((width, height): (u32, u32), pixels: &[u8]) -> Result<String, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    // Filters are for colours that change smoothly. Without them the picture is smaller, and made in less time.
    encoder.set_filter(png::Filter::NoFilter);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_palette(palette());
    // The first colour is transparent: the hatched background appears where nothing was measured.
    encoder.set_trns(vec![0]);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(format!("data:image/png;base64,{}", STANDARD.encode(bytes)))
}

/// Index of a share's colour. A share above 1, which several threads can have, has the colour of 1.
fn index(share: f64) -> u8 {
    1 + (share.clamp(0.0, 1.0) * (COLOURS - 2) as f64).round() as u8
}

fn palette() -> Vec<u8> {
    let mut palette = vec![0, 0, 0];
    for number in 0..COLOURS - 1 {
        let place = number as f64 / (COLOURS - 2) as f64 * (CIVIDIS.len() - 1) as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        let above = (below + 1).min(CIVIDIS.len() - 1);
        let channels = CIVIDIS[below].into_iter().zip(CIVIDIS[above]);
        palette.extend(channels.map(|(low, high)| {
            let (low, high) = (f64::from(low), f64::from(high));
            (low + (high - low) * part).round() as u8
        }));
    }
    palette
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_colour_of_its_share_and_none_where_it_was_not_measured() {
        let cells = vec![None, Some(0.0), Some(1.0), Some(3.0)];
        let rows = [RankRow {
            name: "rank 0".into(),
            cells,
        }];
        let address = picture(&rows).unwrap();
        let encoded = address.strip_prefix("data:image/png;base64,").unwrap();
        let bytes = STANDARD.decode(encoded).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; 4];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [0, 1, 63, 63]);
        let palette = palette();
        assert_eq!(palette.len(), 3 * COLOURS);
        assert_eq!(palette[3..6], CIVIDIS[0]);
        assert_eq!(palette[3 * COLOURS - 3..], CIVIDIS[8]);
    }
}
