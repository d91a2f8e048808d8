//! The variables of Nomad's own command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::connect::{ConnectOptions, DEFAULT_ADDRESS, Pem};

/// Reads the options from variables. The look-up is an argument, since an environment belongs to the whole process.
pub(crate) fn read(look_up: impl Fn(&str) -> Option<OsString>) -> Result<ConnectOptions, String> {
    let raw = |name: &str| look_up(name).filter(|value| !value.is_empty());
    let text = |name: &str| match raw(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => Err(format!("{name} is no text")),
    };
    if raw("NOMAD_HTTP_AUTH").is_some() {
        return Err("NOMAD_HTTP_AUTH is set, and this client has no basic authentication".to_owned());
    }
    // The forms that Nomad's own client takes for false.
    let skip = text("NOMAD_SKIP_VERIFY")?;
    if skip.is_some_and(|value| !matches!(value.as_str(), "0" | "f" | "F" | "false" | "FALSE" | "False")) {
        return Err("NOMAD_SKIP_VERIFY is set, and this client verifies certificates always: set NOMAD_CACERT to the \
                    server's authority instead"
            .to_owned());
    }
    let mut options = ConnectOptions::explicit(text("NOMAD_ADDR")?.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()));
    if let Some(token) = text("NOMAD_TOKEN")? {
        options = options.token(token);
    }
    if let Some(namespace) = text("NOMAD_NAMESPACE")? {
        options = options.default_namespace(namespace);
    }
    if let Some(region) = text("NOMAD_REGION")? {
        options = options.region(region);
    }
    if let Some(name) = text("NOMAD_TLS_SERVER_NAME")? {
        options = options.tls_server_name(name);
    }
    let file = |name: &str| raw(name).map(PathBuf::from).map(Pem::File);
    options.tls.authorities = file("NOMAD_CACERT").into_iter().chain(file("NOMAD_CAPATH")).collect();
    options.tls.certificate = file("NOMAD_CLIENT_CERT");
    options.tls.key = file("NOMAD_CLIENT_KEY");
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<ConnectOptions, String> {
        read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(*value)))
    }

    #[test]
    fn nothing_is_set() {
        for variables in [vec![], vec![("NOMAD_ADDR", ""), ("NOMAD_TOKEN", ""), ("NOMAD_SKIP_VERIFY", "")]] {
            let (transport, namespace) = from(&variables).unwrap().into_parts().unwrap();
            assert_eq!((transport.base.as_str(), namespace.as_str()), ("http://127.0.0.1:4646", "default"));
            assert!(transport.token.is_none() && transport.region.is_none());
        }
    }

    #[test]
    fn all_is_set() {
        let variables = [
            ("NOMAD_ADDR", "https://nomad.example:4646/base/"),
            ("NOMAD_TOKEN", "  secret\n"),
            ("NOMAD_NAMESPACE", "shop"),
            ("NOMAD_REGION", "eu"),
            ("NOMAD_CACERT", "/ca.pem"),
            ("NOMAD_CAPATH", "/cas"),
            ("NOMAD_CLIENT_CERT", "/cert.pem"),
            ("NOMAD_CLIENT_KEY", "/key.pem"),
            ("NOMAD_TLS_SERVER_NAME", "server.eu.nomad"),
            ("NOMAD_SKIP_VERIFY", "false"),
        ];
        let options = from(&variables).unwrap();
        let path = |pem: &Pem| match pem {
            Pem::File(path) => path.display().to_string(),
            Pem::Text(_) => "text".to_owned(),
        };
        let tls = &options.tls;
        assert_eq!(tls.authorities.iter().map(path).collect::<Vec<_>>(), ["/ca.pem", "/cas"]);
        let pair = (tls.certificate.as_ref().map(path), tls.key.as_ref().map(path));
        assert_eq!(pair, (Some("/cert.pem".to_owned()), Some("/key.pem".to_owned())));
        assert_eq!(tls.server_name.as_deref(), Some("server.eu.nomad"));

        // What is set after wins. A ready service, since the files are not there.
        let never = tower::service_fn(|_: http::Request<http_body_util::Full<bytes::Bytes>>| {
            std::future::pending::<Result<http::Response<http_body_util::Full<bytes::Bytes>>, std::io::Error>>()
        });
        let (transport, namespace) = options.region("us").service(never).into_parts().unwrap();
        assert_eq!(transport.base, "https://nomad.example:4646/base");
        assert_eq!(transport.token.unwrap(), "secret");
        assert_eq!((transport.region.as_deref(), namespace.as_str()), (Some("us"), "shop"));
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for value in ["true", "1", "yes"] {
            assert!(from(&[("NOMAD_SKIP_VERIFY", value)]).unwrap_err().contains("NOMAD_CACERT"));
        }
        let told = from(&[("NOMAD_HTTP_AUTH", "me:secret")]).unwrap_err();
        assert!(told.contains("NOMAD_HTTP_AUTH") && !told.contains("secret"), "{told}");
    }
}
