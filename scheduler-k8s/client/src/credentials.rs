//! Certificates and their texts.

use http::HeaderValue;
use kube::Config;
use kube::config::AuthInfo;

use crate::transport::CredentialsNote;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64, the form in which kube takes embedded certificates.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (group >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

/// Refuses a token that no header can hold, for which kube would panic. Serializing is the one way to see it that needs
/// no further crate; nothing of it is kept.
pub(crate) fn check_token(auth: &AuthInfo) -> Result<(), String> {
    let auth = serde_json::to_value(auth).map_err(|_| "the user's part of the kubeconfig makes no sense".to_owned())?;
    match auth["token"].as_str() {
        Some(token) if HeaderValue::try_from(token).is_err() => {
            Err("the token has a character that no header can hold, such as a line end".to_owned())
        }
        _ => Ok(()),
    }
}

/// The certificates in a PEM text, as DER.
#[cfg(feature = "rustls-tls")]
pub(crate) fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(list) if list.is_empty() => Err("the certificate authority has no certificate in PEM".to_owned()),
        Ok(list) => Ok(list.iter().map(|certificate| certificate.to_vec()).collect()),
        Err(_) => Err("the certificate authority is no PEM".to_owned()),
    }
}

#[cfg(not(feature = "rustls-tls"))]
pub(crate) fn authorities(_: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    Err("a certificate authority is of use with the feature rustls-tls only".to_owned())
}

/// Sees to it that rustls has its process-wide crypto provider. kube would panic where it is ambiguous, which is the
/// case as soon as two crates of one program enable different ones.
#[cfg(feature = "rustls-tls")]
pub(crate) fn ensure_crypto_provider() -> Result<(), String> {
    if rustls::crypto::CryptoProvider::get_default().is_some() {
        return Ok(());
    }
    // An error means that somebody else was faster, which is as good.
    #[cfg(feature = "aws-lc-rs")]
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    let _ = rustls::crypto::ring::default_provider().install_default();
    if rustls::crypto::CryptoProvider::get_default().is_some() {
        Ok(())
    } else {
        Err("rustls has no crypto provider: enable the feature ring or aws-lc-rs, or install one".to_owned())
    }
}

#[cfg(not(feature = "rustls-tls"))]
pub(crate) fn ensure_crypto_provider() -> Result<(), String> {
    Ok(())
}

#[cfg(not(feature = "rustls-tls"))]
pub(crate) fn note(_: &Config) -> Option<CredentialsNote> {
    None
}

/// When the configured client certificate expires. `None` if there is none, or if it comes from a plugin, which would
/// have to run once more.
#[cfg(feature = "rustls-tls")]
pub(crate) fn note(config: &Config) -> Option<CredentialsNote> {
    use kube::client::ConfigExt;
    if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
        return None;
    }
    let tls = config.rustls_client_config().ok()?;
    let schemes = tls.crypto_provider().signature_verification_algorithms.supported_schemes();
    let identity = tls.client_auth_cert_resolver.resolve(&[], &schemes)?;
    let not_after = not_after(identity.cert.first()?)?;
    Some(CredentialsNote { not_after })
}

/// `notAfter` of an X.509 certificate, in seconds since 1970 (RFC 5280 §4.1).
#[cfg(feature = "rustls-tls")]
fn not_after(certificate: &[u8]) -> Option<u64> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xA0;
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut rest, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if let Some((VERSION, _, after)) = element(rest) {
        rest = after;
    }
    // Serial number, signature algorithm and issuer stand before the validity.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    time(tag, text)
}

/// Splits the first DER element off: tag, content, and what follows.
#[cfg(feature = "rustls-tls")]
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = der.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let bytes = usize::from(first & 0x7F);
        if bytes > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(bytes)?;
        length = digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

/// `YYMMDDhhmmssZ` (UTCTime: years 1950 to 2049) or `YYYYMMDDhhmmssZ` (GeneralizedTime).
#[cfg(feature = "rustls-tls")]
fn time(tag: u8, text: &[u8]) -> Option<u64> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => match number(&digits[..2]) {
            year if year < 50 => (2000 + year, &digits[2..]),
            year => (1900 + year, &digits[2..]),
        },
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let mut parts = rest.chunks(2).map(number);
    let mut next = || parts.next();
    crate::date::from_civil(year, next()?, next()?, next()?, next()?, next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10.
    #[test]
    fn base64_vectors() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xFB, 0xEF, 0xFF]), "++//");
    }

    #[cfg(feature = "rustls-tls")]
    #[test]
    fn reads_the_end_of_a_certificate() {
        // 1 January 2049 is a UTCTime, 1 January 2051 a GeneralizedTime.
        for (year, seconds) in [(2049, 2_493_072_000), (2051, 2_556_144_000)] {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let der = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(not_after(der.der()), Some(seconds));
            // Cut anywhere, it is no certificate and no panic either.
            for length in 0..der.der().len() {
                assert_eq!(not_after(&der.der()[..length]), None, "{length}");
            }
        }
    }
}
