//! Whether a text is a certificate with those that vouch for it, and a key belongs to it.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use scheduler_core::ConfigValue;

/// What is wrong with a chain: it holds no certificate, something else than certificates, or one that cannot be read.
/// Whether it has expired, is for this host, and who vouches for it, is not looked at: whoever calls may know better.
pub(super) fn chain(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut chain = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
        // The words of the error may quote the text.
        let (kind, der) = section.map_err(|_| format!("it is no PEM after {} certificates", chain.len()))?;
        if kind != SectionKind::Certificate {
            return Err("it holds something else than certificates, which would be handed out with them".to_owned());
        }
        let certificate = CertificateDer::from(der);
        if ParsedCertificate::try_from(&certificate).is_err() {
            return Err(format!("its certificate number {} cannot be read", chain.len() + 1));
        }
        chain.push(certificate);
    }
    if chain.is_empty() {
        return Err("it holds no certificate in PEM".to_owned());
    }
    Ok(chain)
}

/// What is wrong with the key of this chain: it is none, or that of another certificate. Of a kind of key that the crypto
/// provider of rustls does not know, or without a provider, it is only seen that it is one.
pub(super) fn key(chain: Vec<CertificateDer<'static>>, key: &ConfigValue) -> Result<(), &'static str> {
    let Ok(key) = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()) else {
        return Err("it is no private key in PEM (an encrypted one cannot be used)");
    };
    let Some(provider) = provider() else { return Ok(()) };
    match CertifiedKey::from_der(chain, key, &provider) {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err("it belongs to another certificate"),
        _ => Ok(()),
    }
}

/// The process' own, else the one that this crate's features name.
fn provider() -> Option<Arc<CryptoProvider>> {
    let installed = CryptoProvider::get_default().map(Arc::clone);
    #[cfg(feature = "aws-lc-rs")]
    let installed = installed.or_else(|| Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider())));
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    let installed = installed.or_else(|| Some(Arc::new(rustls::crypto::ring::default_provider())));
    installed
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};

    use super::*;

    fn generate() -> (String, ConfigValue) {
        let Generated { cert, signing_key } = generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
        (cert.pem(), ConfigValue::new(signing_key.serialize_pem()))
    }

    #[test]
    fn a_key_belongs_to_its_certificate_alone() {
        let ((first, first_key), (second, second_key)) = (generate(), generate());
        let both = format!("{first}\n{second}");
        assert_eq!(chain(&both).unwrap().len(), 2);
        assert_eq!(key(chain(&both).unwrap(), &first_key), Ok(()), "that of the first counts");
        assert!(key(chain(&both).unwrap(), &second_key).unwrap_err().contains("another"));
        let cut = ConfigValue::new(first_key.expose().split_at(60).0);
        assert!(key(chain(&first).unwrap(), &cut).unwrap_err().contains("no private key"));
        assert!(key(chain(&first).unwrap(), &ConfigValue::new(&first)).unwrap_err().contains("no private key"));
    }

    #[test]
    fn what_is_no_chain_is_said_without_its_text() {
        let (certificate, key) = generate();
        let garbage = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
        for (text, expected) in [
            ("", "no certificate"),
            ("s3cret", "no certificate"),
            (garbage, "number 1 cannot be read"),
            (&format!("{certificate}{garbage}"), "number 2 cannot be read"),
            (&format!("{certificate}{}", key.expose()), "something else"),
            (&format!("{certificate}-----BEGIN CERTIFICATE-----\ns3cret"), "no PEM after 1"),
        ] {
            let problem = chain(text).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains("s3cret"), "{problem}");
        }
    }
}
