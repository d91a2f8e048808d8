//! Cuts a body into lines.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;

use crate::error::{Effect, Error, ErrorKind, Operation};
use crate::failure;

/// The longest line that is read. The server stores no object above some 3 MiB.
const MAX_LINE: usize = 16 << 20;

pub(crate) struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the front of the buffer that hold no line end.
    searched: usize,
    ended: bool,
}

#[derive(Debug)]
pub(crate) enum Line {
    Whole(Bytes),
    /// The body ended properly, but not at the end of a line: this is the rest.
    Torn(Bytes),
    End,
}

impl Lines {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line that is not blank. Loses nothing when it is dropped and called again.
    pub(crate) async fn next(&mut self, operation: &Operation) -> Result<Line, Error> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Line::Whole(line));
            }
            self.searched = self.buffer.len();
            if self.ended {
                let rest = self.buffer.split().freeze();
                self.searched = 0;
                return Ok(if rest.trim_ascii().is_empty() { Line::End } else { Line::Torn(rest) });
            }
            if self.buffer.len() > MAX_LINE {
                let detail = format!("a line is longer than {MAX_LINE} bytes");
                return Err(Error::new(ErrorKind::MalformedAnswer, Effect::Unknown, operation.clone(), detail));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    return Err(failure::of_body(error, operation.clone(), self.buffer.len()));
                }
                None => self.ended = true,
            }
        }
    }
}
