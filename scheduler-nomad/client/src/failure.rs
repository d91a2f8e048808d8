//! What a transport failure means. Decided from types, never from texts.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use hyper_util::client::legacy;

use crate::error::{Effect, Error, ErrorKind, Operation};

/// The error of a service below the client.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

type Cause = dyn StdError + 'static;

/// The error and its sources. An `io::Error` leaves the error that it wraps out of its own `source`, so ask it directly.
fn chain(error: &Cause) -> impl Iterator<Item = &Cause> {
    fn next(error: &Cause) -> Option<&Cause> {
        match error.downcast_ref::<io::Error>() {
            Some(error) => error.get_ref().map(|inner| inner as &Cause),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), |error| next(*error))
}

fn find<T: StdError + 'static>(error: &Cause) -> Option<&T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// The innermost cause, which says what really happened.
fn deepest(error: &Cause) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

/// A request that got no answer.
pub(crate) fn of_transport(error: BoxError, operation: Operation, server: &str) -> Error {
    let cause: &Cause = error.as_ref();
    let (kind, effect, detail) = if let Some((kind, effect, why)) = tls(cause) {
        (kind, effect, format!("no secure connection to {server}: {why}"))
    } else if never_connected(cause) {
        (ErrorKind::Unreachable, Effect::NotSent, format!("cannot connect to {server}: {}", deepest(cause)))
    } else if find::<hyper::Error>(cause).is_some_and(hyper::Error::is_parse) {
        let detail = format!("{server} does not speak HTTP as expected: {}", deepest(cause));
        (ErrorKind::MalformedAnswer, Effect::Unknown, detail)
    } else {
        let detail = format!("the connection to {server} broke before an answer came: {}", deepest(cause));
        (ErrorKind::Interrupted, Effect::Unknown, detail)
    };
    Error::new(kind, effect, operation, detail).with_source(Arc::from(error))
}

/// An answer whose body broke off.
pub(crate) fn of_body(error: BoxError, operation: Operation, received: usize) -> Error {
    let detail = format!("the answer broke off after {received} bytes: {}", deepest(error.as_ref()));
    Error::new(ErrorKind::Interrupted, Effect::Unknown, operation, detail).with_source(Arc::from(error))
}

/// The kind of a JSON fault. The fault's own text may quote the value that it met.
pub(crate) fn describe_json(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it has another shape than asked for",
        serde_json::error::Category::Io => "it cannot be read",
    }
}

fn never_connected(error: &Cause) -> bool {
    if let Some(error) = find::<legacy::Error>(error) {
        return error.is_connect();
    }
    // A ready service may have another stack below. These kinds come before a connection only.
    find::<io::Error>(error).is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable
        )
    })
}

#[cfg(not(feature = "rustls-tls"))]
fn tls(_: &Cause) -> Option<(ErrorKind, Effect, String)> {
    None
}

/// A TLS failure. With TLS 1.3 the server's alert about our certificate arrives after the handshake, when the request is
/// on its way already; the server reads none of it.
#[cfg(feature = "rustls-tls")]
fn tls(error: &Cause) -> Option<(ErrorKind, Effect, String)> {
    use rustls::{AlertDescription as Alert, Error as Tls};
    let tls: &Tls = find(error)?;
    match tls {
        Tls::AlertReceived(alert) => {
            let why = match alert {
                Alert::CertificateRequired => "the server wants a client certificate",
                Alert::CertificateExpired => "the server says that our client certificate expired",
                Alert::CertificateRevoked => "the server says that our client certificate is revoked",
                Alert::UnknownCA => "the server does not know the authority of our client certificate",
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateUnknown
                | Alert::AccessDenied
                | Alert::DecryptError => "the server refuses our client certificate",
                _ if never_connected(error) => {
                    return Some((ErrorKind::Tls, Effect::NotSent, tls.to_string()));
                }
                _ => return None,
            };
            let effect = if never_connected(error) { Effect::NotSent } else { Effect::Refused };
            Some((ErrorKind::Unauthenticated, effect, why.to_owned()))
        }
        Tls::InvalidCertificate(fault) => Some((ErrorKind::Tls, Effect::NotSent, describe_certificate(fault))),
        _ if never_connected(error) => Some((ErrorKind::Tls, Effect::NotSent, tls.to_string())),
        _ => None,
    }
}

#[cfg(feature = "rustls-tls")]
fn describe_certificate(fault: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Fault;
    match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "the server's certificate expired".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "the server's certificate is not valid yet".to_owned(),
        Fault::UnknownIssuer => "the server's certificate is of an authority that is not trusted".to_owned(),
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            format!("the server's certificate is for another name: {fault} (a TLS server name can be set)")
        }
        other => format!("the server's certificate is refused: {other}"),
    }
}
