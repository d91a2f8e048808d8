//! What a transport failure means. Decided from types, never from texts.

use std::error::Error as StdError;
use std::io;

use hyper_util::client::legacy;
use tower::buffer;

use crate::error::{Effect, Error, ErrorKind, Operation};

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

/// A request that got no answer.
pub(crate) fn of_transport(error: kube::Error, operation: Operation, server: Option<&str>) -> Error {
    // The token or the plugin's output may be in such an error, so its text and source are dropped.
    if let Some(auth) = find::<kube::client::AuthError>(&error) {
        return Error::new(ErrorKind::Unauthenticated, Effect::NotSent, operation, describe_auth(auth));
    }
    let server = server.unwrap_or("the server");
    let (kind, effect, detail) = if find::<buffer::error::Closed>(&error).is_some() {
        (ErrorKind::Closed, Effect::NotSent, "the client's worker has ended".to_owned())
    } else if let Some((kind, effect, why)) = tls(&error) {
        (kind, effect, format!("no secure connection to {server}: {why}"))
    } else if never_connected(&error) {
        (ErrorKind::Unreachable, Effect::NotSent, format!("cannot connect to {server}: {}", deepest(&error)))
    } else if find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse) {
        let detail = format!("{server} does not speak HTTP as expected: {}", deepest(&error));
        (ErrorKind::MalformedAnswer, Effect::Unknown, detail)
    } else {
        let detail = format!("the connection to {server} broke before an answer came: {}", deepest(&error));
        (ErrorKind::Interrupted, Effect::Unknown, detail)
    };
    Error::new(kind, effect, operation, detail).with_source(error)
}

/// An answer whose body broke off.
pub(crate) fn of_body(error: kube::Error, operation: Operation, received: usize) -> Error {
    let detail = format!("the answer broke off after {received} bytes: {}", deepest(&error));
    Error::new(ErrorKind::Interrupted, Effect::Unknown, operation, detail).with_source(error)
}

/// The kind of a JSON fault. serde_json's own text may quote the value that it met.
pub(crate) fn describe_json(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it has another shape than asked for",
        serde_json::error::Category::Io => "it cannot be read",
    }
}

/// Why there is no token, without what a plugin printed.
pub(crate) fn describe_auth(error: &kube::client::AuthError) -> String {
    use kube::client::AuthError as Auth;
    match error {
        Auth::ReadTokenFile(error, path) => {
            format!("cannot read the token file {}: {error}", path.display())
        }
        Auth::InvalidBearerToken(_) => {
            "the token has a character that no header can hold, such as a line end at its end".to_owned()
        }
        Auth::InvalidBasicAuth(_) => "the user name or password has a character that no header can hold".to_owned(),
        Auth::AuthExecStart(error) => {
            format!("the credential plugin could not be started: {error}")
        }
        Auth::AuthExecRun { cmd, out } => {
            format!("the credential plugin `{cmd}` failed with {}", out.status)
        }
        Auth::AuthExecParse(_) | Auth::ExecPluginFailed => "the credential plugin's output makes no sense".to_owned(),
        Auth::MissingCommand => "the kubeconfig's credential plugin names no command".to_owned(),
        Auth::MalformedTokenExpirationDate(_) => "the credential plugin's expiry date makes no sense".to_owned(),
        _ => "the configured way to get a token failed or is not supported".to_owned(),
    }
}

fn deepest(error: &Cause) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

fn never_connected(error: &Cause) -> bool {
    if let Some(error) = find::<legacy::Error>(error) {
        return error.is_connect();
    }
    // A ready client may have another stack below. These kinds come before a connection only.
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

/// A TLS failure. With TLS 1.3 the server's alert about our certificate arrives after the handshake, when the request
/// is on its way already; the server reads none of it.
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

    use crate::date::format;
    match fault {
        Fault::Expired => "the server's certificate expired".to_owned(),
        Fault::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired at {}", format(not_after.as_secs()))
        }
        Fault::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        Fault::NotValidYetContext { not_before, .. } => {
            format!("the server's certificate is not valid before {}", format(not_before.as_secs()))
        }
        Fault::UnknownIssuer => "the server's certificate is of an authority that is not trusted".to_owned(),
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            format!("the server's certificate is for another name: {fault}")
        }
        other => format!("the server's certificate is refused: {other}"),
    }
}
