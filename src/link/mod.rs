//! Floor 4: the AMQP 1.0 link engine: connection, session, link and delivery machines. Sans-IO.
//!
//! CONTRACT (helper B). Methods come in four kinds: state questions, `handle_*` (input), commands
//! (output asked for), `poll_*` (output). One engine serves both roles (client role for tests).
//! ```text
//! Connection::server(now, Options) / Connection::client(now, ClientOptions)
//! handle_bytes(&mut self, now: Now, input: &mut BytesMut)      // consumes whole frames it may read now
//! handle_timeout(&mut self, now)      next_deadline(&self) -> Option<Millis>
//! poll_event(&mut self) -> Option<Event>
//! poll_transmit(&mut self, now, out: &mut Vec<u8> /* or BytesMut */) -> bool
//! is_closed(&self) -> bool         // both closes done or failed: drop the socket after flushing
//! wants_input(&self) -> bool       // false while own control output is over its bound
//!
//! pub enum Event {
//!   SaslInit { mechanism: String, response: Option<Bytes>, hostname: Option<String> },
//!   SaslResponse { response: Bytes },
//!   Opened(Box<Open>),                                    // answer: open(..) or refuse_open(error)
//!   SessionBegun { session: SessionHandle },              // begin was answered by the engine
//!   SessionFlow { session },                              // peer's incoming window changed; ask session_window()
//!   SessionEnded { session, error: Option<Error> },       // by either side; links of it are gone
//!   Attached { link: LinkHandle, session, role: Role /* OUR role */, attach: Box<Attach> },
//!                                                        // answer: accept_attach(..) or refuse_attach(error)
//!   LinkFlow { link, limit: u64, drain: bool, echo },      // we send: cumulative credit limit since attach
//!   Detached { link, closed: bool, error: Option<Error> }, // by the peer; detach was answered by the engine
//!   Delivery { link, delivery_id: Serial, settled: bool, message_format: u32, payload: Bytes },
//!   Outcome { link, session, token: u64, delivery_id: Serial, state: DeliveryState, settled: bool },
//!                                                        // peer's disposition of a delivery we sent;
//!                                                        // !settled terminal => answer settle_sent(..) later
//!   Closed { error: Option<Error> },                       // peer closed, or engine failed
//! }
//! Commands: sasl_mechanisms set in Options; sasl_challenge(Bytes), sasl_outcome(SaslCode), open(Open),
//!   refuse_open(Error), accept_attach(link, AttachAnswer{source, target, max_message_size, properties,
//!   snd/rcv settle mode..}), refuse_attach(link, Error), set_credit(link, credit: u32),
//!   send(link, Sending{ token, settled, message_format, prefix: &[u8], bare: &[u8] }, owner: FnOnce()->Bytes)
//!        -> Result<(), Unsendable>   // no credit / detached: gateway returns the delivery unsent
//!   drained(link)                     // advance delivery-count to the limit, send the flow with drain
//!   settle_received(link, delivery_id, DeliveryState)      // coalesced into ranges
//!   settle_sent(link, delivery_id, DeliveryState)
//!   detach(link, closed, Option<Error>), end(session, Option<Error>), close(Option<Error>)
//!   session_window(session) -> u32 ; unsent(link) -> iterator of tokens assigned but not yet encoded
//!   bytes_pending() for the outbox bound
//! ```
