//! Lines of JSON over a stream, with a bound on their length.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The next message; `None` at the end of the stream. A line without an end is not a message: its sender died
/// while sending.
pub(super) fn read<T: DeserializeOwned>(
    reader: &mut impl BufRead,
    bytes_max: usize,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    reader.take(bytes_max as u64 + 1).read_until(b'\n', &mut line)?;
    if line.len() > bytes_max {
        return Err(invalid(format!("a line is longer than {bytes_max} bytes")));
    }
    match line.strip_suffix(b"\n") {
        None => Ok(None),
        Some(line) => serde_json::from_slice(line)
            .map(Some)
            .map_err(|error| invalid(error.to_string())),
    }
}

/// Sends a message as one line.
pub(super) fn write(writer: &mut impl Write, message: &impl Serialize, bytes_max: usize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    if line.len() > bytes_max {
        return Err(invalid(format!("the message is longer than {bytes_max} bytes")));
    }
    writer.write_all(&line)
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_bound_is_refused_without_reading_all_of_it() {
        let mut long = io::repeat(b'1');
        let error = read::<u64>(&mut io::BufReader::new(&mut long), 100).unwrap_err();
        assert_eq!(error.to_string(), "a line is longer than 100 bytes");
        assert!(write(&mut Vec::new(), &"x".repeat(100), 100).is_err());
    }

    #[test]
    fn a_line_without_an_end_is_the_end_of_the_stream() {
        assert_eq!(read::<u64>(&mut &b"12"[..], 100).unwrap(), None);
        assert_eq!(read::<u64>(&mut &b"12\n"[..], 100).unwrap(), Some(12));
        assert!(read::<u64>(&mut &b"nonsense\n"[..], 100).is_err());
    }
}
