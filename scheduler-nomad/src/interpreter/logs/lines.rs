//! Frames of one output, as lines.

use scheduler_nomad_client::{FileEvent, LogFrame};

/// What is longer is told in pieces.
const LONGEST: usize = 1 << 20;

/// What frames say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Line(String),
    /// Something is missing here.
    Gap(&'static str),
}

/// How far an output was read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// How many bytes, from the first that was asked for.
    pub(super) bytes: u64,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// The number of the file; the node begins another one when one is full.
    file: Option<u64>,
}

impl Lines {
    /// Takes in a frame. A line goes on from one file to the next, unless one between them is missing
    /// (hashicorp/nomad#11653): then the halves of two lines are not glued.
    pub(super) fn take(&mut self, frame: &LogFrame) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let file = frame.file.rsplit_once('.').and_then(|(_, number)| number.parse().ok());
        let skipped = matches!((self.file, file), (Some(last), Some(file)) if file > last + 1);
        if skipped || matches!(frame.event, Some(FileEvent::Deleted | FileEvent::Truncated)) {
            self.rest.clear();
            pieces.push(Piece::Gap("the node removed output before it was read"));
        }
        self.file = file.or(self.file);
        self.bytes += frame.data.len() as u64;
        for part in frame.data.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") || self.rest.len() >= LONGEST {
                pieces.extend(self.end());
            }
        }
        pieces
    }

    /// What there is of a line, as a line.
    pub(super) fn end(&mut self) -> Option<Piece> {
        if self.rest.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(&self.rest);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let line = text.strip_suffix('\r').unwrap_or(text).to_owned();
        self.rest.clear();
        Some(Piece::Line(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, data: &[u8], event: Option<FileEvent>) -> LogFrame {
        let mut frame = LogFrame::default();
        (frame.file, frame.data, frame.event) = (file.to_owned(), data.to_vec().into(), event);
        frame
    }

    fn line(text: &str) -> Piece {
        Piece::Line(text.to_owned())
    }

    const GAP: Piece = Piece::Gap("the node removed output before it was read");

    #[test]
    fn lines_go_on_over_frames_and_files() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(&frame("alloc/logs/web.stdout.0", b"a\r\nb", None)), [line("a")]);
        assert_eq!(lines.take(&frame("alloc/logs/web.stdout.0", b"", None)), []);
        assert_eq!(lines.take(&frame("alloc/logs/web.stdout.1", b"c\n\nd", None)), [line("bc"), line("")]);
        assert_eq!((lines.end(), lines.end(), lines.bytes), (Some(line("d")), None, 8));
    }

    /// A character may be cut by a frame, and what is none is replaced.
    #[test]
    fn bytes_become_text_by_the_line() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(&frame("x.0", &"é".as_bytes()[..1], None)), []);
        let rest = [&"é".as_bytes()[1..], b"\n\xff\n"].concat();
        assert_eq!(lines.take(&frame("x.0", &rest, None)), [line("é"), line("\u{fffd}")]);
    }

    /// hashicorp/nomad#11653.
    #[test]
    fn halves_of_different_lines_are_not_glued() {
        let mut lines = Lines::default();
        lines.take(&frame("x.0", b"first ha", None));
        assert_eq!(lines.take(&frame("x.2", b"lf\nwhole\n", None)), [GAP, line("lf"), line("whole")]);
        lines.take(&frame("x.2", b"first ha", None));
        assert_eq!(lines.take(&frame("x.2", b"", Some(FileEvent::Truncated))), [GAP]);
        assert_eq!(lines.take(&frame("x.2", b"new\n", None)), [line("new")]);
    }
}
