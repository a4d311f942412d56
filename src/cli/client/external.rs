//! SASL EXTERNAL, for streams whose TLS has authenticated the client: the fe2o3-amqp client offers
//! it only over streams that it made itself. [AMQP 5.3.2]

use std::error::Error;
use std::io;

use fe2o3_amqp::types::primitives::{Binary, Symbol};
use fe2o3_amqp::types::sasl::{SaslCode, SaslInit, SaslMechanisms, SaslOutcome};
use serde_amqp::{from_slice, to_vec};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The protocol header of SASL. [AMQP 5.3.1]
const HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Bytes in front of a frame's body: size, data offset, type, two that SASL ignores. [AMQP 5.3.1]
const FRAME_HEADER: usize = 8;

/// Largest frame before anything was negotiated. [AMQP 5.3.1]
const FRAME_MAX: usize = 512;

/// The mechanism's name.
const EXTERNAL: &str = "EXTERNAL";

/// The result of the login.
pub(super) enum Ended {
    /// The login succeeded; the AMQP header is next.
    LoggedIn,
    /// The broker refused the user of the certificate.
    Refused(SaslCode),
    /// The broker does not offer EXTERNAL; the mechanisms that it offers.
    NotOffered(Vec<String>),
}

/// Logs in as the user that the certificate names.
pub(super) async fn log_in<S>(stream: &mut S, hostname: &str) -> io::Result<Ended>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(&HEADER).await?;
    stream.flush().await?;
    let mut header = [0; HEADER.len()];
    stream.read_exact(&mut header).await?;
    if header != HEADER {
        return Err(invalid("it does not speak SASL"));
    }
    let offered: SaslMechanisms = from_slice(&read(stream).await?).map_err(invalid)?;
    let offered = offered.sasl_server_mechanisms.0;
    let mut names = offered.iter().map(|name| name.as_str().to_owned());
    if !names.any(|name| name == EXTERNAL) {
        let offered = offered.iter().map(|name| name.as_str().to_owned());
        return Ok(Ended::NotOffered(offered.collect()));
    }
    let init = SaslInit {
        mechanism: Symbol::from(EXTERNAL),
        // Empty: as the user that the certificate names. (RFC 4422)
        initial_response: Some(Binary::from(Vec::new())),
        hostname: Some(hostname.to_owned()),
    };
    let body = to_vec(&init).map_err(invalid)?;
    let size = u32::try_from(FRAME_HEADER + body.len()).map_err(invalid)?;
    stream.write_all(&size.to_be_bytes()).await?;
    stream.write_all(&[2, 1, 0, 0]).await?;
    stream.write_all(&body).await?;
    stream.flush().await?;
    let outcome: SaslOutcome = from_slice(&read(stream).await?).map_err(invalid)?;
    Ok(match outcome.code {
        SaslCode::Ok => Ended::LoggedIn,
        code => Ended::Refused(code),
    })
}

/// The body of the next frame.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let size = stream.read_u32().await?;
    let rest = usize::try_from(size)
        .ok()
        .and_then(|size| size.checked_sub(4));
    let rest = rest.filter(|rest| (FRAME_HEADER - 4..=FRAME_MAX).contains(rest));
    let mut frame = vec![0; rest.ok_or_else(|| invalid("a frame of SASL has a wrong size"))?];
    stream.read_exact(&mut frame).await?;
    let offset = frame.first().map_or(0, |words| usize::from(*words) * 4);
    let body = offset.checked_sub(4).and_then(|start| frame.get(start..));
    Ok(body
        .ok_or_else(|| invalid("a frame of SASL has no body"))?
        .to_vec())
}

fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_but_a_whole_exchange_logs_in() {
        let check = async |broker: &[u8], expected: &str| {
            let (mut ours, mut theirs) = tokio::io::duplex(4_096);
            theirs.write_all(broker).await.unwrap();
            theirs.shutdown().await.unwrap();
            let ended = match log_in(&mut ours, "h").await {
                Ok(Ended::LoggedIn) => "in".to_owned(),
                Ok(Ended::Refused(code)) => format!("{code:?}"),
                Ok(Ended::NotOffered(names)) => names.join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(ended, expected, "{broker:?}");
        };
        let frame = |body: &[u8]| {
            let size = u8::try_from(FRAME_HEADER + body.len()).unwrap();
            [&[0, 0, 0, size, 2, 1, 0, 0], body].concat()
        };
        let offer = |name: &str| {
            let size = u8::try_from(name.len()).unwrap();
            let symbol = [&[0xa3, size], name.as_bytes()].concat();
            let list = [&[0xc0, size + 3, 1], symbol.as_slice()].concat();
            [
                &HEADER,
                frame(&[&[0, 0x53, 0x40], list.as_slice()].concat()).as_slice(),
            ]
            .concat()
        };
        let outcome = |code| frame(&[0, 0x53, 0x44, 0xc0, 3, 1, 0x50, code]);
        check(&[offer("EXTERNAL"), outcome(0)].concat(), "in").await;
        check(&[offer("EXTERNAL"), outcome(1)].concat(), "Auth").await;
        check(&offer("PLAIN"), "PLAIN").await;
        check(b"AMQP\x00\x01\x00\x00", "it does not speak SASL").await;
        let wrong_size = "a frame of SASL has a wrong size";
        check(&[&HEADER[..], &[0, 0, 0, 3]].concat(), wrong_size).await;
        check(&[&HEADER[..], &[255; 4]].concat(), wrong_size).await;
        check(
            &[&HEADER[..], &[0, 0, 0, 8, 9, 1, 0, 0]].concat(),
            "a frame of SASL has no body",
        )
        .await;
    }
}
