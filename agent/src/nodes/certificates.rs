//! The certificates of one session on several machines. The key of their issuer exists only while they are made, in
//! memory: no process can make another one for the same session.

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};

/// A certificate with its key, and the certificate of the issuer, in DER as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credential {
    pub(super) issuer: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// All certificates of a session.
pub(super) struct Certificates {
    pub(super) server: Credential,
    pub(super) coordinator: Credential,
    /// By node, from 1.
    pub(super) nodes: Vec<Credential>,
}

/// The name by which the server knows the holder of a certificate.
pub(super) fn name_of(node: Option<u32>) -> String {
    match node {
        Some(node) => format!("node{node}.tuneagent"),
        None => "coordinator.tuneagent".to_owned(),
    }
}

/// Makes the certificates of a session for this many nodes. `names` are those under which nodes reach the server.
pub(super) fn make(names: Vec<String>, nodes: u32) -> Result<Certificates, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let own = params.self_signed(&key)?;
    let issuer = (Issuer::new(params, key), STANDARD.encode(own.der()));
    let client = |node| issued(&issuer, vec![name_of(node)], ExtendedKeyUsagePurpose::ClientAuth);
    Ok(Certificates {
        server: issued(&issuer, names, ExtendedKeyUsagePurpose::ServerAuth)?,
        coordinator: client(None)?,
        nodes: (1..=nodes)
            .map(|node| client(Some(node)))
            .collect::<Result<_, _>>()?,
    })
}

fn issued(
    (issuer, certificate): &(Issuer<'_, KeyPair>, String),
    names: Vec<String>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Credential, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    let own = params.signed_by(&key, issuer)?;
    Ok(Credential {
        issuer: certificate.clone(),
        certificate: STANDARD.encode(own.der()),
        key: STANDARD.encode(key.serialize_der()),
    })
}

/// The form in which the server reads certificates and keys (RFC 7468).
pub(super) fn pem(kind: &str, base64: &str) -> String {
    let mut text = format!("-----BEGIN {kind}-----\n");
    let mut rest = base64;
    while !rest.is_empty() {
        let (line, others) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = others;
    }
    text + &format!("-----END {kind}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_credential_of_its_own_by_the_same_issuer() {
        let made = make(vec!["10.77.0.1".to_owned(), "a".to_owned()], 2).unwrap();
        let [one, two] = &made.nodes[..] else { panic!() };
        assert_ne!(one.key, two.key);
        assert_eq!(one.issuer, made.server.issuer);
        let text = pem("CERTIFICATE", &one.certificate);
        assert!(text.lines().all(|line| line.len() <= 64) && text.ends_with("-----END CERTIFICATE-----\n"));
    }
}
