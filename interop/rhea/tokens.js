// Logs in with a token by XOAUTH2: node tokens.js PORT TOKEN QUEUE. Publishes one message and takes it back.
import assert from 'node:assert/strict';
import rhea from 'rhea';
import { once } from './base.js';

const [port, token, queue] = process.argv.slice(2);
const connection = rhea.create_container().connect({
  host: '127.0.0.1', port: Number(port), username: 'any', token, reconnect: false,
});
await once(connection, 'connection_open', ['connection_error', 'disconnected']);
const address = `/queues/${queue}`;
const sender = connection.open_sender(address);
await once(sender, 'sendable');
sender.send({ body: 'hello' });
await once(sender, 'accepted', ['rejected', 'released']);
const receiver = connection.open_receiver(address);
const { message } = await once(receiver, 'message');
assert.equal(message.body, 'hello');
connection.close();
await once(connection, 'connection_close');
