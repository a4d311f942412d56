// node websocket.js URL QUEUE [CA]: messages over AMQP over WebSocket, one rejected with an error, one larger
// than a frame; ends with 0 if all came back as they were sent.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import rhea from 'rhea';
import WebSocket from 'ws';
import { once } from './base.js';

const [url, queue, ca] = process.argv.slice(2);
const container = rhea.create_container();
const options = ca ? { ca: fs.readFileSync(ca) } : {};
const connect = container.websocket_connect(WebSocket);

function open(idle_time_out) {
  return container.connect({
    connection_details: connect(url, ['amqp'], options),
    username: 'guest', password: 'guest', reconnect: false, idle_time_out,
  });
}

const connection = open(2_000);
await once(connection, 'connection_open', ['connection_error', 'disconnected']);
const sender = connection.open_sender(`/queues/${queue}`);
await once(sender, 'sendable');
const large = Buffer.alloc(3_000_000, 'websocket ');
sender.send({ body: 'refuse me' });
sender.send({ body: large });
let accepted = 0;
sender.on('accepted', () => { accepted += 1; });

const receiver = connection.open_receiver({ source: `/queues/${queue}`, autoaccept: false, credit_window: 0 });
receiver.add_credit(1);
const first = await once(receiver, 'message');
assert.equal(first.message.body, 'refuse me');
first.delivery.reject({ condition: 'app:websocket', description: 'over a WebSocket' });
receiver.add_credit(1);
const second = await once(receiver, 'message');
assert.ok(large.equals(second.message.body), 'the large one is as it was sent');
second.delivery.accept();

const dead = connection.open_receiver({ source: `/queues/${queue}.dead` });
const { message } = await once(dead, 'message');
assert.equal(message.message_annotations['x-opt-last-death-condition'], 'app:websocket');
assert.equal(accepted, 2);

// Longer than the idle time-out: heartbeats go both ways.
await new Promise((resolve) => { setTimeout(resolve, 5_000); });
assert.ok(connection.is_open());
const closed = once(connection, 'connection_close', ['connection_error']);
connection.close();
await closed;
