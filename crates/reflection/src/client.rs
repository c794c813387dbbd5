//! Asks a server for its services and messages, in the version that the server supports.

use petasos::{Code, Status};
use petasos_schema::{Files, Limits};

use super::{v1, v1alpha};
use petasos::Channel;
use petasos::{Sender, Streaming};

/// A call of a server's reflection.
#[derive(Debug)]
pub struct Conversation {
    version: Version,
}

#[derive(Debug)]
enum Version {
    V1(Sender<v1::ServerReflectionRequest>, Streaming<v1::ServerReflectionResponse>),
    V1Alpha(Sender<v1alpha::ServerReflectionRequest>, Streaming<v1alpha::ServerReflectionResponse>),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
enum Ask<'a> {
    Services,
    File(&'a str),
    Symbol(&'a str),
}

/// The answer to a request.
#[derive(Debug, Default)]
struct Reply {
    files: Vec<Vec<u8>>,
    services: Vec<String>,
}

impl Conversation {
    /// Begins a call, and returns it with the names of all services, sorted.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if the server has no reflection; otherwise the status of the call.
    pub async fn begin(channel: &Channel) -> Result<(Conversation, Vec<String>), Status> {
        match Conversation::begin_v1(channel).await {
            Err(status) if status.code() == Code::Unimplemented => {}
            result => return result,
        }
        let client = v1alpha::ServerReflectionClient::new(channel.clone());
        let (requests, responses) = client.server_reflection_info().await?;
        Conversation { version: Version::V1Alpha(requests, responses) }.listed().await
    }

    async fn begin_v1(channel: &Channel) -> Result<(Conversation, Vec<String>), Status> {
        let client = v1::ServerReflectionClient::new(channel.clone());
        let (requests, responses) = client.server_reflection_info().await?;
        Conversation { version: Version::V1(requests, responses) }.listed().await
    }

    async fn listed(mut self) -> Result<(Conversation, Vec<String>), Status> {
        let mut services = self.ask(Ask::Services).await?.services;
        services.sort();
        Ok((self, services))
    }

    /// Adds the file that declares a symbol (`package.Service`, `package.Message`, …) to `files`,
    /// with all files that it imports.
    ///
    /// # Errors
    /// `NOT_FOUND` if the server does not know the symbol; `INTERNAL` if its descriptors are
    /// invalid; otherwise the status of the call.
    pub async fn collect(&mut self, symbol: &str, files: &mut Files) -> Result<(), Status> {
        let reply = self.ask(Ask::Symbol(symbol)).await?;
        add(files, &reply)?;
        // A server may leave out files that it has already sent, or all imports.
        while let Some(name) = files.missing_import().map(str::to_owned) {
            let reply = self.ask(Ask::File(&name)).await?;
            add(files, &reply)?;
            if files.file(&name).is_none() {
                let what = format!("the server's reflection lacks the file `{name}`");
                return Err(Status::internal(what));
            }
        }
        Ok(())
    }

    async fn ask(&mut self, ask: Ask<'_>) -> Result<Reply, Status> {
        match &mut self.version {
            Version::V1(requests, responses) => ask_v1(requests, responses, ask).await,
            Version::V1Alpha(requests, responses) => ask_v1alpha(requests, responses, ask).await,
        }
    }
}

fn add(files: &mut Files, reply: &Reply) -> Result<(), Status> {
    let unreadable = |error| Status::internal(format!("the server's descriptors: {error}"));
    reply.files.iter().try_for_each(|file| files.add(file, &Limits::default()).map_err(unreadable))
}

/// Sends a request in one version. The messages of the versions differ only in their types.
macro_rules! ask {
    ($ask:ident, $read:ident, $version:ident) => {
        async fn $ask(
            requests: &mut Sender<$version::ServerReflectionRequest>,
            responses: &mut Streaming<$version::ServerReflectionResponse>,
            ask: Ask<'_>,
        ) -> Result<Reply, Status> {
            let mut request = $version::ServerReflectionRequest::new();
            match ask {
                Ask::Services => request.edit().set_list_services("*"),
                Ask::File(name) => request.edit().set_file_by_filename(name),
                Ask::Symbol(name) => request.edit().set_file_containing_symbol(name),
            };
            // If sending has failed, the responses have the reason, so their error comes first.
            let sent = requests.send(request).await;
            let response = responses.message().await?;
            sent?;
            let ended = || Status::unavailable("the server has ended its reflection");
            $read(&*response.ok_or_else(ended)?)
        }

        fn $read(response: &$version::ServerReflectionResponse) -> Result<Reply, Status> {
            use $version::server_reflection_response::MessageResponse as Told;
            match response.message_response() {
                Some(Told::FileDescriptorResponse(told)) => {
                    let files = told.file_descriptor_proto().iter().map(|file| file.to_vec());
                    Ok(Reply { files: files.collect(), ..Reply::default() })
                }
                Some(Told::ListServicesResponse(told)) => {
                    let services = told.service().iter().map(|service| service.name().to_owned());
                    Ok(Reply { services: services.collect(), ..Reply::default() })
                }
                Some(Told::ErrorResponse(told)) => {
                    let code = u32::try_from(told.error_code()).unwrap_or(u32::MAX);
                    Err(Status::new(Code::from_number(code), told.error_message().to_owned()))
                }
                _ => Err(Status::internal("the server's reflection sent another kind of answer")),
            }
        }
    };
}

ask!(ask_v1, read_v1, v1);
ask!(ask_v1alpha, read_v1alpha, v1alpha);
