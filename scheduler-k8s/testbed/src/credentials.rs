//! Keys, certificates, tokens and kubeconfigs of one control plane. All of them live in its folder and end with it.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use kube::config::AuthInfo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;
use tokio_rustls::rustls::{
    self, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use crate::{TestbedError, User};

/// Who may do what, and how the API server proves to be itself. The secrets stay out of `Debug`.
pub(crate) struct Credentials {
    folder: PathBuf,
    /// The certificate of the authority that signed the API server's one: as PEM and as DER.
    pub(crate) authority: String,
    authority_der: Vec<u8>,
    /// Of everything that listens on loopback.
    certificate: CertificateDer<'static>,
    key: KeyPair,
    tokens: [(User, String); User::ALL.len()],
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes all of them anew and writes the files that the servers read.
    pub(crate) fn new(folder: &Path) -> Result<Self, TestbedError> {
        let authority_key = KeyPair::generate().map_err(no_certificate)?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "testbed authority");
        let authority = params.self_signed(&authority_key).map_err(no_certificate)?;
        let issuer = Issuer::new(params, authority_key);

        let key = KeyPair::generate().map_err(no_certificate)?;
        let mut params =
            CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).map_err(no_certificate)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name.push(DnType::CommonName, "testbed");
        let certificate = params.signed_by(&key, &issuer).map_err(no_certificate)?;

        let service_accounts = KeyPair::generate().map_err(no_certificate)?;
        let mut tokens = User::ALL.map(|user| (user, String::new()));
        for (_, token) in &mut tokens {
            *token = random_hex().map_err(TestbedError::machine("read /dev/urandom"))?;
        }

        let credentials = Self {
            folder: folder.to_owned(),
            authority: authority.pem(),
            authority_der: authority.der().to_vec(),
            certificate: certificate.der().clone(),
            key,
            tokens,
        };
        credentials.write("authority.crt", &credentials.authority)?;
        credentials.write("server.crt", &certificate.pem())?;
        credentials.write("server.key", &credentials.key.serialize_pem())?;
        credentials.write("service-accounts.key", &service_accounts.serialize_pem())?;
        credentials.write("service-accounts.pub", &service_accounts.public_key_pem())?;
        credentials.write("tokens.csv", &credentials.token_file())?;
        Ok(credentials)
    }

    /// Writes one kubeconfig per user, as soon as the port of the API server is known.
    pub(crate) fn write_kubeconfigs(&self, url: &str) -> Result<(), TestbedError> {
        for (user, token) in &self.tokens {
            // JSON is YAML, and needs no quoting of ours.
            let kubeconfig = json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "testbed", "cluster": {"server": url, "certificate-authority": self.file("authority.crt")}}],
                "users": [{"name": user.name(), "user": {"token": token}}],
                "contexts": [{"name": user.name(), "context": {"cluster": "testbed", "user": user.name()}}],
                "current-context": user.name(),
            });
            self.write(&kubeconfig_name(*user), &format!("{kubeconfig:#}\n"))?;
        }
        Ok(())
    }

    pub(crate) fn kubeconfig(&self, user: User) -> PathBuf {
        self.file(&kubeconfig_name(user))
    }

    pub(crate) fn token(&self, user: User) -> &str {
        self.tokens.iter().find(|(known, _)| *known == user).map_or("", |(_, token)| token)
    }

    /// A client configuration without implicit retries: a test wants to see what the server answers.
    pub(crate) fn config(&self, user: User, url: &http::Uri) -> kube::Config {
        let mut config = kube::Config::new(url.clone());
        config.root_cert = Some(vec![self.authority_der.clone()]);
        config.auth_info = AuthInfo { token: Some(self.token(user).to_owned().into()), ..AuthInfo::default() };
        config.default_retry = false;
        config
    }

    /// What a server of ours needs to prove to be itself.
    pub(crate) fn server_tls(&self) -> Result<ServerConfig, TestbedError> {
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![self.certificate.clone()], key))
            .map_err(|error| TestbedError::machine("set up TLS")(io::Error::other(error)))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `token,user,uid,"group"` a line.
    fn token_file(&self) -> String {
        let line = |(user, token): &(User, String)| {
            let group = if *user == User::Admin { ",\"system:masters\"" } else { "" };
            let name = user.name();
            format!("{token},{name},{name}{group}\n")
        };
        self.tokens.iter().map(line).collect()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), TestbedError> {
        let path = self.file(name);
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(TestbedError::machine(format!("write {}", path.display())))
    }
}

fn no_certificate(error: rcgen::Error) -> TestbedError {
    TestbedError::machine("make the certificates of the API server")(io::Error::other(error))
}

fn kubeconfig_name(user: User) -> String {
    format!("kubeconfig-{}", user.name())
}

/// 128 random bits.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
