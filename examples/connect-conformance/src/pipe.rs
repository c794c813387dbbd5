//! Messages on pipes: four bytes of length, big-endian, and the message.

use std::io;

use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads the next message; `None` at the end of the pipe.
///
/// # Errors
/// If the pipe fails or ends within a message, or if the bytes are not such a message.
pub async fn read<M: Message + Default>(
    input: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<M>> {
    let length = match input.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes).await?;
    Ok(Some(M::decode(&bytes[..]).map_err(io::Error::other)?))
}

/// Writes a message.
///
/// If the pipe fails.
/// The pipe fails.
pub async fn write(
    output: &mut (impl AsyncWrite + Unpin),
    message: &impl Message,
) -> io::Result<()> {
    let body = message.encode_to_vec();
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    output.write_all(&bytes).await?;
    output.flush().await
}
