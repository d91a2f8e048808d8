//! Certificates and what is made of them.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::connect::{Pem, TlsOptions};

pub(crate) fn server_name(name: String) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name).map_err(|_| "the TLS server name is neither a host name nor an address".to_owned())
}

pub(crate) fn config(options: TlsOptions) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider()?)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("the crypto provider does not do: {error}"))?;
    let builder = if options.authorities.is_empty() {
        builder.with_native_roots().map_err(|error| format!("the system's authorities cannot be read: {error}"))?
    } else {
        builder.with_root_certificates(authorities(&options.authorities)?)
    };
    match (options.certificate, options.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let chain = certificates(&certificate.read("the client certificate")?, "the client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(&key.read("the client key")?)
                .map_err(|_| "the client key is no private key in PEM".to_owned())?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|_| "the client certificate and its key do not fit together".to_owned())
        }
        _ => Err("a client certificate needs its key, and the key its certificate".to_owned()),
    }
}

/// What the program installed, or else what the features of this crate choose.
fn provider() -> Result<Arc<CryptoProvider>, String> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(feature = "aws-lc-rs")]
    let chosen = Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    let chosen = Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    let chosen = Err("rustls has no crypto provider: enable the feature ring or aws-lc-rs, or install one".to_owned());
    chosen
}

/// The certificates of all files, and of all files in a folder.
fn authorities(sources: &[Pem]) -> Result<RootCertStore, String> {
    const WHAT: &str = "the certificate authority";
    let mut store = RootCertStore::empty();
    for source in sources {
        let folder = match source {
            Pem::File(path) if path.is_dir() => Some(files(path)?),
            _ => None,
        };
        for source in folder.as_deref().unwrap_or(std::slice::from_ref(source)) {
            for certificate in certificates(&source.read(WHAT)?, WHAT)? {
                store.add(certificate).map_err(|_| format!("{WHAT} has a certificate that makes no sense"))?;
            }
        }
    }
    Ok(store)
}

fn files(folder: &Path) -> Result<Vec<Pem>, String> {
    let refuse = |error| format!("cannot read the folder {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        if path.is_file() {
            files.push(Pem::File(path));
        }
    }
    Ok(files)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match list {
        Ok(list) if list.is_empty() => Err(format!("{what} has no certificate in PEM")),
        Ok(list) => Ok(list),
        Err(_) => Err(format!("{what} is no PEM")),
    }
}

impl Pem {
    fn read(&self, what: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                std::fs::read(path).map_err(|error| format!("cannot read {what} from {}: {error}", path.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// As `NOMAD_CACERT`, `NOMAD_CAPATH`, `NOMAD_CLIENT_CERT` and `NOMAD_CLIENT_KEY` name them.
    #[test]
    fn from_files_and_folders() {
        let folder = std::env::temp_dir().join(format!("scheduler-nomad-client-{}-tls", std::process::id()));
        std::fs::create_dir_all(folder.join("cas/deeper")).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            Pem::File(path)
        };
        let one = write("one.pem", &certificate().0);
        write("cas/two.pem", &format!("{}{}", certificate().0, certificate().0));
        let cas = Pem::File(folder.join("cas"));
        assert_eq!(authorities(&[one.clone(), cas.clone()]).unwrap().len(), 3);

        let (pem, key_pem) = certificate();
        let (pem, key) = (write("cert.pem", &pem), write("key.pem", &key_pem));
        let options =
            |key| TlsOptions { authorities: vec![cas.clone()], certificate: Some(pem.clone()), key, server_name: None };
        assert!(config(options(Some(key))).unwrap().client_auth_cert_resolver.has_certs());
        assert!(config(options(None)).unwrap_err().contains("needs its key"));
        let absent = Pem::File(folder.join("absent.pem"));
        let told = config(options(Some(absent))).unwrap_err();
        assert!(told.contains("cannot read the client key from") && told.contains("absent.pem"), "{told}");

        write("cas/three.pem", "no PEM");
        assert!(authorities(&[one, cas]).unwrap_err().contains("no certificate in PEM"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
