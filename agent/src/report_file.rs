//! A report file, written by a separate process that parses nothing: a session gives up the right to name,
//! rename and remove files long before its report is complete. The process begins the file, waits for the
//! text, and gives the file its name. If no text comes because the session was killed, no file remains.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use report::console;

use crate::{atomic_file::AtomicFile, output_name, rights};

/// A longer text is considered an internal error.
const TEXT_BYTES_MAX: u64 = 1 << 32;

const DONE: &str = "done";

/// The session's handle to the file.
#[derive(Debug)]
pub(crate) struct ReportFile {
    child: Child,
    text: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ReportFile {
    /// Begins the file. Errors come from the other process.
    pub(crate) fn create(name: &str) -> io::Result<ReportFile> {
        let mut child = Command::new("/proc/self/exe")
            .args(["write-report", "--", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A separate process group, so that Ctrl-C on the terminal reaches only the session, which then
            // ends the text.
            .process_group(0)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (text, answers) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let mut file = ReportFile {
            child,
            text,
            answers: BufReader::new(answers),
        };
        file.answer()?;
        Ok(file)
    }

    /// Writes the complete text, and makes the file visible.
    pub(crate) fn complete(mut self, text: &[u8]) -> io::Result<()> {
        self.text.write_all(&(text.len() as u64).to_le_bytes())?;
        self.text.write_all(text)?;
        self.answer()?;
        self.child.wait()?;
        Ok(())
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            DONE => Ok(()),
            "" => Err(io::Error::other("the process that writes it has ended")),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

/// The main function of the writer process. It sends the reason if it fails.
pub(crate) fn serve(name: &str) {
    say(written(name).err().as_ref());
}

fn written(name: &str) -> io::Result<()> {
    let file =
        AtomicFile::create(name).map_err(|error| io::Error::other(output_name::reason(name, &error)))?;
    rights::only_complete_files().map_err(io::Error::other)?;
    say(None);
    let mut input = io::stdin().lock();
    let mut length = [0; 8];
    // End of input: the session has ended before its report was complete.
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > TEXT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = Vec::new();
    input.take(length).read_to_end(&mut text)?;
    if text.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.complete(&text)
}

/// Writes a line. A session that has ended does not read it.
fn say(error: Option<&io::Error>) {
    let text = error.map_or_else(|| DONE.to_owned(), |error| error.to_string().replace('\n', " "));
    console::line(format_args!("{text}"));
}
