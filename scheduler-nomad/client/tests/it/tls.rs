//! Certificates: theirs and ours.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use scheduler_nomad_client::{Client, ConnectOptions, Effect, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

use crate::server::Server;

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
    async fn serve(identity: Identity, clients: Option<&Self>) -> Server {
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
        Server::start_with([], Some(TlsAcceptor::from(Arc::new(config)))).await
    }
}

fn address(server: &Server) -> ConnectOptions {
    ConnectOptions::explicit(format!("https://127.0.0.1:{}", server.port))
}

fn options(server: &Server, authority: &Authority) -> ConnectOptions {
    address(server).certificate_authority(authority.pem.as_str())
}

async fn refused(options: ConnectOptions, kind: ErrorKind, effect: Effect, told: &str) {
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error:?}");
    assert!(error.to_string().contains(told), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn the_servers_certificate_is_verified() {
    let authority = Authority::new("ours");
    let good = Authority::serve(authority.server("127.0.0.1", 2100), None).await;
    let client = Client::connect(options(&good, &authority)).await.unwrap();
    assert_eq!(client.server_version().unwrap().text, "2.0.6-dev");

    let tls = |options, told| refused(options, ErrorKind::Tls, Effect::NotSent, told);
    tls(options(&good, &Authority::new("theirs")), "of an authority that is not trusted").await;

    let old = Authority::serve(authority.server("127.0.0.1", 2020), None).await;
    tls(options(&old, &authority), "the server's certificate expired").await;

    // As Nomad's own certificates are, when one connects by address.
    let other = Authority::serve(authority.server("server.global.nomad", 2100), None).await;
    tls(options(&other, &authority), "for another name").await;
    Client::connect(options(&other, &authority).tls_server_name("server.global.nomad")).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_and_a_client_without() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Reads until the client leaves.
        while socket.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    });
    let options =
        ConnectOptions::explicit(format!("https://{plain}")).certificate_authority(Authority::new("ours").pem);
    refused(options, ErrorKind::Tls, Effect::NotSent, "no secure connection").await;

    // What a server with TLS answers to plain HTTP.
    let told = "Client sent an HTTP request to an HTTPS server.\n";
    let service = tower::service_fn(move |_: http::Request<http_body_util::Full<bytes::Bytes>>| async move {
        http::Response::builder()
            .status(400)
            .body(http_body_util::Full::new(bytes::Bytes::from_static(told.as_bytes())))
    });
    let options = ConnectOptions::explicit("http://127.0.0.1:1").service(service);
    refused(options, ErrorKind::Tls, Effect::Refused, "Client sent an HTTP request").await;
}

#[tokio::test]
async fn our_certificate_is_asked_for() {
    let authority = Authority::new("ours");
    let server = Authority::serve(authority.server("127.0.0.1", 2100), Some(&authority)).await;
    let with = |identity: &Identity| {
        options(&server, &authority).client_certificate(identity.pem.as_str(), identity.key_pem.as_str())
    };
    Client::connect(with(&authority.client(2100))).await.unwrap();

    let unauthenticated = |options, told| refused(options, ErrorKind::Unauthenticated, Effect::Refused, told);
    unauthenticated(options(&server, &authority), "the server wants a client certificate").await;
    unauthenticated(with(&authority.client(2020)), "our client certificate expired").await;
    unauthenticated(
        with(&Authority::new("theirs").client(2100)),
        "does not know the authority of our client certificate",
    )
    .await;
}

#[tokio::test]
async fn certificates_that_make_no_sense() {
    let authority = Authority::new("ours");
    let server = Authority::serve(authority.server("127.0.0.1", 2100), None).await;
    let configuration = |options, told| refused(options, ErrorKind::Configuration, Effect::NotSent, told);
    let here = || options(&server, &authority);
    let (one, two) = (authority.client(2100), authority.client(2100));
    configuration(address(&server).certificate_authority("x"), "authority has no certificate in PEM").await;
    configuration(here().client_certificate("x", one.key_pem.as_str()), "client certificate has no certificate").await;
    configuration(here().client_certificate(one.pem.as_str(), "hush"), "client key is no private key").await;
    configuration(here().client_certificate(one.pem.as_str(), two.key_pem), "do not fit together").await;
    configuration(here().tls_server_name("a b"), "neither a host name nor an address").await;
}
