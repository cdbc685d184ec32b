//! NATS: the one module that knows it. It starts the private server of a session, and carries messages to and from
//! it by mutual TLS. A node may publish on its own subject and receive what is sent to it, nothing else: the server
//! checks that by the name in its certificate.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::{
        fs::{DirBuilderExt, OpenOptionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    pin::Pin,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectOptions, Message, ServerAddr, Subscriber,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures_core::Stream;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::certificates::{Certificates, Credential, name_of, pem};
use session::nodes::message::MESSAGE_MAX;

/// The name of the server's program.
const PROGRAM: &str = "nats-server";
/// Folders that are not in the PATH of every user, but where packages install the server.
const FURTHER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// How long the server may take to begin.
const BEGIN_WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause between two attempts to connect again, and by how much longer each is than the one before.
const RECONNECT_MAX: Duration = Duration::from_secs(2);
const RECONNECT_STEP: Duration = Duration::from_millis(50);
/// Connections beyond one for each node.
const FURTHER_CONNECTIONS: usize = 8;
/// Messages that wait in the client, in each direction.
const CAPACITY: usize = 256;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    #[error(
        "nodes need the program nats-server, which is not here: install the package nats-server (Debian, Ubuntu), or put the one \
         file of https://github.com/nats-io/nats-server/releases beside tuneagent or into a folder of PATH. Without it: record on \
         each node (--record) and replay the recordings together"
    )]
    NoServer,
    #[error("nats-server did not begin: {0}")]
    Server(String),
    #[error("{0}: no server of the session answers there: {1}; a firewall, or the session has ended")]
    Connect(String, String),
    #[error("a certificate cannot be used: {0}")]
    Certificate(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The private server of a session; it ends with this.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts a server for these holders of certificates, on a port of the kernel's choice. Its files are removed
    /// again as soon as it has read them.
    pub(super) fn start(certificates: &Certificates) -> Result<Server, NatsError> {
        let program = program().ok_or(NatsError::NoServer)?;
        let folder = private_folder()?;
        let started = Server::start_in(&folder, &program, certificates);
        fs::remove_dir_all(&folder)?;
        started
    }

    fn start_in(folder: &Path, program: &Path, certificates: &Certificates) -> Result<Server, NatsError> {
        let own = &certificates.server;
        write(folder, "ca.pem", &pem("CERTIFICATE", &own.issuer))?;
        write(folder, "server.pem", &pem("CERTIFICATE", &own.certificate))?;
        write(folder, "server.key", &pem("PRIVATE KEY", &own.key))?;
        write(
            folder,
            "server.conf",
            &configuration(folder, certificates.nodes.len()),
        )?;
        let mut child = Command::new("/proc/self/exe")
            .arg("carrier")
            .arg("--server")
            .arg(program)
            .arg(folder.join("server.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log"))?)
            .process_group(0)
            .spawn()?;
        let until = Instant::now() + BEGIN_WAIT;
        loop {
            if let Some(port) = port_in(folder) {
                return Ok(Server { child, port });
            }
            if child.try_wait()?.is_some() || Instant::now() > until {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                let _ = child.kill();
                let _ = child.wait();
                let why = log.lines().last().unwrap_or("it says nothing").to_owned();
                return Err(NatsError::Server(why));
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes the server, which then ends with the carrier, in whatever way that ends.
pub(crate) fn run_server(program: &Path, configuration: &Path) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    Command::new(program).arg("--config").arg(configuration).exec()
}

/// Whether a private server can be started here.
pub(crate) fn has_server() -> bool {
    program().is_some()
}

fn program() -> Option<PathBuf> {
    let beside = env::current_exe().ok();
    let beside = beside.and_then(|own| Some(own.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let further = FURTHER_FOLDERS.iter().map(PathBuf::from);
    let mut folders = beside.into_iter().chain(env::split_paths(&path)).chain(further);
    folders.find_map(|folder| Some(folder.join(PROGRAM)).filter(|file| file.is_file()))
}

/// A new folder that only its owner may enter.
fn private_folder() -> io::Result<PathBuf> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name = format!("tuneagent-nodes-{:016x}", u64::from_ne_bytes(random));
    let folder = env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(name))?;
    file.write_all(text.as_bytes())
}

/// Who may connect, and what each may say on which subject.
fn configuration(folder: &Path, nodes: usize) -> String {
    let folder = folder.display();
    let connections = nodes + FURTHER_CONNECTIONS;
    let mut text = format!(
        "host: \"0.0.0.0\"\nport: -1\nports_file_dir: \"{folder}\"\nmax_payload: {MESSAGE_MAX}\nmax_pending: {}\n\
         max_connections: {connections}\ntls {{\n  cert_file: \"{folder}/server.pem\"\n  key_file: \"{folder}/server.key\"\n  \
         ca_file: \"{folder}/ca.pem\"\n  verify_and_map: true\n  timeout: 5\n}}\nauthorization {{\n  users = [\n    \
         {{user: \"{}\", permissions: {{publish: \"down.*\", subscribe: \"up.*\"}}}}\n",
        2 * MESSAGE_MAX,
        name_of(None)
    );
    for node in (1u32..).take(nodes) {
        let name = name_of(Some(node));
        text += &format!(
            "    {{user: \"{name}\", permissions: {{publish: \"up.{node}\", subscribe: \"down.{node}\"}}}}\n"
        );
    }
    text + "  ]\n}\n"
}

/// The port in the file that the server writes once it listens.
fn port_in(folder: &Path) -> Option<u16> {
    let mut files = fs::read_dir(folder).ok()?.flatten();
    let file = files.find(|file| file.path().extension().is_some_and(|end| end == "ports"))?;
    let ports: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    let address = ports["nats"].get(0)?.as_str()?;
    address.rsplit(':').next()?.parse().ok()
}

/// A connection to a session's server: this machine's or another one's.
pub(super) struct Connection {
    client: Client,
    messages: Subscriber,
}

impl Connection {
    /// Connects to one of these addresses, and subscribes to `subject`. A connection that breaks is made again, for as long
    /// as this exists.
    pub(super) async fn open(
        addresses: &[String],
        credential: &Credential,
        subject: &str,
    ) -> Result<Connection, NatsError> {
        let all = addresses.join(", ");
        let failed = |error: &dyn std::fmt::Display| NatsError::Connect(all.clone(), error.to_string());
        let servers = addresses.iter().map(|address| format!("tls://{address}").parse());
        let servers: Result<Vec<ServerAddr>, io::Error> = servers.collect();
        let options = ConnectOptions::new()
            .tls_client_config(tls(credential)?)
            .require_tls(true)
            .connection_timeout(CONNECT_TIMEOUT)
            .client_capacity(CAPACITY)
            .subscription_capacity(CAPACITY)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
                RECONNECT_STEP.saturating_mul(attempts).min(RECONNECT_MAX)
            });
        let client = options.connect(servers?).await.map_err(|error| failed(&error))?;
        let messages = client.subscribe(subject.to_owned()).await;
        let messages = messages.map_err(|error| failed(&error))?;
        client.flush().await.map_err(|error| failed(&error))?;
        Ok(Connection { client, messages })
    }

    /// Sends a message; it is lost if the connection is broken for long.
    pub(super) async fn send(&self, subject: String, message: Vec<u8>) {
        if let Err(error) = self.client.publish(subject, message.into()).await {
            tracing::debug!(%error, "a message of nodes was not sent");
        }
    }

    /// Returns once everything that was sent has arrived at the server.
    pub(super) async fn flush(&self) {
        let flushed = tokio::time::timeout(CONNECT_TIMEOUT, self.client.flush()).await;
        tracing::debug!(?flushed, "messages of nodes");
    }

    /// The next message, with its subject; `None` if there will be none.
    pub(super) async fn next(&mut self) -> Option<(String, Vec<u8>)> {
        let next = std::future::poll_fn(|context| Pin::new(&mut self.messages).poll_next(context));
        let Message { subject, payload, .. } = next.await?;
        Some((subject.to_string(), payload.into()))
    }
}

fn tls(credential: &Credential) -> Result<ClientConfig, NatsError> {
    let failed = |error: &dyn std::fmt::Display| NatsError::Certificate(error.to_string());
    let decode = |text: &String| STANDARD.decode(text).map_err(|error| failed(&error));
    let mut issuers = RootCertStore::empty();
    let issuer = CertificateDer::from(decode(&credential.issuer)?);
    issuers.add(issuer).map_err(|error| failed(&error))?;
    let chain = vec![CertificateDer::from(decode(&credential.certificate)?)];
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(decode(&credential.key)?));
    let config = ClientConfig::builder().with_root_certificates(issuers);
    config
        .with_client_auth_cert(chain, key)
        .map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_publish_and_hear_on_its_own_subjects_only() {
        let text = configuration(Path::new("/f"), 2);
        assert!(text.contains("verify_and_map: true") && text.contains("max_connections: 10"));
        let own = "{user: \"node2.tuneagent\", permissions: {publish: \"up.2\", subscribe: \"down.2\"}}";
        assert_eq!(text.matches(own).count(), 1, "{text}");
        assert_eq!(
            text.matches('*').count(),
            2,
            "only the coordinator's have a wildcard: {text}"
        );
    }
}
