//! Reads kubeconfig files, and says what is wrong with a configuration without quoting it: kubeconfigs hold secrets.

use std::ffi::OsStr;
use std::path::PathBuf;

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use crate::failure::describe_auth;

/// What `KUBECONFIG` lists, or else the file in the home folder.
pub(crate) fn default_paths(listed: Option<&OsStr>, home: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let listed: Vec<PathBuf> = listed
        .map(|list| std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    match home {
        _ if !listed.is_empty() => Ok(listed),
        Some(home) => Ok(vec![home.join(".kube").join("config")]),
        None => Err("KUBECONFIG is not set and there is no home folder to look into".to_owned()),
    }
}

pub(crate) async fn load(paths: &[PathBuf], context: Option<String>) -> Result<Config, String> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let next = Kubeconfig::read_from(path).map_err(|error| format!("{}: {}", path.display(), describe(&error)))?;
        merged = merged.merge(next).map_err(|error| format!("{}: {}", path.display(), describe(&error)))?;
    }
    let names: Vec<_> = merged.contexts.iter().map(|context| context.name.as_str()).collect();
    let there = if names.is_empty() {
        "there is no context at all".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    let Some(chosen) = context.as_ref().or(merged.current_context.as_ref()) else {
        return Err(format!("the kubeconfig has no current context and none was chosen; {there}"));
    };
    let Some(found) = merged.contexts.iter().find(|context| context.name == *chosen) else {
        return Err(format!("the kubeconfig has no context {chosen:?}; {there}"));
    };
    let cluster = found.context.as_ref().map(|context| context.cluster.clone()).unwrap_or_default();
    let proxy = merged
        .clusters
        .iter()
        .find(|named| named.name == cluster)
        .and_then(|named| named.cluster.as_ref()?.proxy_url.clone())
        .filter(|proxy| !proxy.is_empty());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(merged, &options).await.map_err(|error| describe(&error))?;
    // kube takes HTTPS_PROXY where the file names none, and looks up the proxy in NO_PROXY instead of the server.
    config.proxy_url = match proxy {
        Some(proxy) => Some(proxy.parse().map_err(|_| "the cluster's proxy-url is no URL".to_owned())?),
        None => None,
    };
    Ok(config)
}

/// What is wrong with a kubeconfig. kube's own texts may quote it.
fn describe(error: &KubeconfigError) -> String {
    use KubeconfigError as Fault;
    match error {
        Fault::ReadConfig(error, _) => format!("cannot be read: {error}"),
        Fault::Parse(error) => match error.location() {
            Some(at) => format!("is no kubeconfig: line {} column {} makes no sense", at.line(), at.column()),
            None => "is no kubeconfig".to_owned(),
        },
        Fault::LoadClusterOfContext(cluster) => {
            format!("the context's cluster {cluster:?} is not there")
        }
        Fault::MissingClusterUrl => "the context's cluster has no server".to_owned(),
        Fault::ParseClusterUrl(_) => "the cluster's server is no URL".to_owned(),
        Fault::ParseProxyUrl(_) => "the proxy (proxy-url or HTTPS_PROXY) is no URL".to_owned(),
        Fault::LoadCertificateAuthority(error) => {
            format!("the cluster's authority: {}", describe_data(error))
        }
        Fault::LoadClientCertificate(error) => {
            format!("the user's client certificate: {}", describe_data(error))
        }
        Fault::LoadClientKey(error) => format!("the user's client key: {}", describe_data(error)),
        Fault::ParseCertificates(_) => "the cluster's authority is no PEM".to_owned(),
        Fault::KindMismatch | Fault::ApiVersionMismatch => "is of another kind or version than the others".to_owned(),
        Fault::ParseNoProxy(_) => "NO_PROXY makes no sense".to_owned(),
        _ => "it makes no sense".to_owned(),
    }
}

fn describe_data(error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(error, path) => {
            format!("{} cannot be read: {error}", path.display())
        }
        LoadDataError::DecodeBase64(_) => "it is not base64".to_owned(),
        LoadDataError::NoBase64DataOrFile => "it is missing, while its other half is there".to_owned(),
    }
}

/// What keeps us from being a pod's service account.
pub(crate) fn describe_pod(error: &InClusterError) -> String {
    use InClusterError as Fault;
    match error {
        Fault::ReadEnvironmentVariable(_) | Fault::ParseClusterPort(_) | Fault::ParseClusterUrl(_) => {
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name a server; is this a pod?".to_owned()
        }
        Fault::ReadDefaultNamespace(error) => format!("the service account's namespace cannot be read: {error}"),
        Fault::ReadCertificateBundle(error) => format!("the service account's authority cannot be read: {error}"),
        Fault::ParseCertificates(_) => "the service account's authority is no PEM".to_owned(),
    }
}

/// What keeps kube from building a client.
pub(crate) fn describe_client(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => describe_auth(error),
        kube::Error::InferKubeconfig(error) => describe(error),
        kube::Error::TlsRequired => {
            "the server wants TLS, and this was built without the feature rustls-tls".to_owned()
        }
        kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
            "the proxy must begin with http:// or https://".to_owned()
        }
        kube::Error::HttpError(_) => "a user or group to impersonate cannot be put into a header".to_owned(),
        #[cfg(feature = "rustls-tls")]
        kube::Error::RustlsTls(error) => describe_tls(error),
        _ => "the client cannot be built".to_owned(),
    }
}

#[cfg(feature = "rustls-tls")]
fn describe_tls(error: &kube::client::RustlsTlsError) -> String {
    use kube::client::RustlsTlsError as Fault;
    match error {
        Fault::InvalidIdentityPem(_) => "the client certificate or key is no PEM".to_owned(),
        Fault::MissingPrivateKey | Fault::UnknownPrivateKeyFormat => {
            "the client key is missing, or in a form that is not supported".to_owned()
        }
        Fault::MissingCertificate => "the client certificate is missing".to_owned(),
        Fault::InvalidPrivateKey(_) => "the client key does not belong to the client certificate".to_owned(),
        Fault::AddRootCertificate(_) => "an authority's certificate cannot be used".to_owned(),
        Fault::InvalidServerName(_) => "the TLS server name is no host name".to_owned(),
        _ => "the TLS settings cannot be used".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_wins_over_the_home_folder() {
        let home = || Some(PathBuf::from("/home/me"));
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let list = std::env::join_paths(["/a", "", "/b"]).unwrap();
        assert_eq!(default_paths(Some(&list), home()), Ok(paths(&["/a", "/b"])));
        assert_eq!(default_paths(Some(OsStr::new("")), home()), Ok(paths(&["/home/me/.kube/config"])));
        assert_eq!(default_paths(None, home()), Ok(paths(&["/home/me/.kube/config"])));
        assert!(default_paths(None, None).unwrap_err().contains("KUBECONFIG"));
    }
}
