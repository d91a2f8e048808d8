//! Certificates: theirs and ours.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use scheduler_k8s_client::{Client, ConnectOptions, Effect, Error, ErrorKind, Resource};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

use crate::recorded;
use crate::server::{Reply, Server};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
}

struct Identity {
    der: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    pem: String,
    key_pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { der: certificate.der().clone(), pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose, until: i32) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
            key_pem: key.serialize_pem(),
        }
    }

    fn server(&self, name: &str, until: i32) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth, until)
    }

    fn client(&self, until: i32) -> Identity {
        self.sign("somebody", ExtendedKeyUsagePurpose::ClientAuth, until)
    }

    /// Serves as `identity`, and wants clients to have certificates of `clients`.
    async fn serve(identity: Identity, clients: Option<&Self>, script: Vec<Reply>) -> Server {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let config = builder.with_single_cert(vec![identity.der], identity.key.into()).unwrap();
        Server::start_with(script, Some(TlsAcceptor::from(Arc::new(config)))).await
    }
}

fn options(server: &Server, authority: &Authority) -> ConnectOptions {
    ConnectOptions::explicit(format!("https://127.0.0.1:{}", server.port)).certificate_authority(authority.pem.as_str())
}

async fn refused(options: ConnectOptions, kind: ErrorKind, effect: Effect, told: &str) -> Error {
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error:?}");
    assert!(error.to_string().contains(told), "{error}");
    assert!(!error.is_transient());
    error
}

#[tokio::test]
async fn the_servers_certificate_is_verified() {
    let authority = Authority::new("ours");
    let good = Authority::serve(authority.server("127.0.0.1", 2100), None, Vec::new()).await;
    let client = Client::connect(options(&good, &authority)).await.unwrap();
    assert_eq!(client.server_version().unwrap().minor, 36);

    let tls = |options, told| refused(options, ErrorKind::Tls, Effect::NotSent, told);
    let stranger = Authority::new("theirs");
    tls(options(&good, &stranger), "of an authority that is not trusted").await;
    // The operating system's authorities do not know it either.
    tls(ConnectOptions::explicit(format!("https://127.0.0.1:{}", good.port)), "no secure connection to https://").await;

    let old = Authority::serve(authority.server("127.0.0.1", 2020), None, Vec::new()).await;
    tls(options(&old, &authority), "certificate expired at 2020-01-01T00:00:00Z").await;

    let other = Authority::serve(authority.server("kubernetes.example", 2100), None, Vec::new()).await;
    tls(options(&other, &authority), "for another name").await;
    Client::connect(options(&other, &authority).tls_server_name("kubernetes.example")).await.unwrap();

    // Only when told so, loudly.
    Client::connect(options(&old, &stranger).danger_accept_invalid_certificates()).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Reads until the client leaves.
        while socket.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    });
    let options =
        ConnectOptions::explicit(format!("https://{address}")).certificate_authority(Authority::new("ours").pem);
    refused(options, ErrorKind::Tls, Effect::NotSent, "no secure connection").await;
}

#[tokio::test]
async fn our_certificate_is_asked_for() {
    let authority = Authority::new("ours");
    let serve = || Authority::serve(authority.server("127.0.0.1", 2100), Some(&authority), Vec::new());
    let server = serve().await;
    let with = |identity: &Identity| {
        options(&server, &authority).client_certificate(identity.pem.as_str(), identity.key_pem.as_str())
    };
    Client::connect(with(&authority.client(2100))).await.unwrap();

    let unauthenticated = |options, told| refused(options, ErrorKind::Unauthenticated, Effect::Refused, told);
    unauthenticated(options(&server, &authority), "the server wants a client certificate").await;
    unauthenticated(
        with(&Authority::new("theirs").client(2100)),
        "does not know the authority of our client certificate",
    )
    .await;
    let error = unauthenticated(with(&authority.client(2020)), "our client certificate expired").await;
    assert!(error.to_string().contains("the client certificate expired at 2020-01-01T00:00:00Z"), "{error}");
}

/// An API server does not look at a certificate while shaking hands; it answers 401 and does not say why. BR-105.
#[tokio::test]
async fn an_embedded_certificate_that_expired() {
    let authority = Authority::new("ours");
    for (until, expired) in [(2020, true), (2100, false)] {
        let script = vec![Reply::json(401, recorded::UNAUTHORIZED)];
        let server = Authority::serve(authority.server("127.0.0.1", 2100), None, script).await;
        let identity = authority.client(until);
        let options = options(&server, &authority).client_certificate(identity.pem, identity.key_pem);
        let client = Client::connect(options).await.unwrap();
        let error = client.get::<Value>(&Resource::POD, Some("shop"), "p").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert_eq!(error.to_string().contains("expired"), expired, "{error}");
        assert_eq!(error.to_string().contains("the client certificate expired at 2020-01-01T00:00:00Z"), expired);
    }
}

#[tokio::test]
async fn through_a_proxy() {
    // What the proxy is asked for, it refuses; nothing reaches the server itself.
    let proxy = Server::start([Reply::new(403, &[], "")]).await;
    let options = ConnectOptions::explicit("https://kubernetes.example:6443")
        .proxy(format!("http://me:pass@127.0.0.1:{}", proxy.port))
        .connect_timeout(Duration::from_secs(5));
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::NotSent));
    let request = &proxy.requests()[0];
    assert_eq!(request.line(), "CONNECT kubernetes.example:6443");
    // RFC 7617: base64 of me:pass.
    assert_eq!(request.header("proxy-authorization"), Some("Basic bWU6cGFzcw=="));
}
