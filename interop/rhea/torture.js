// rhea (Node.js) as a producer and a consumer that `../torture --rhea` runs until the broker dies.
//
//     node torture.js PORT QUEUE NAME
//
// Prints what it knows, a line each, before and after: `sent ID`, `accepted ID`, and `maybe ID` for
// what it is about to accept: rhea settles at once and is not told when that has arrived.
import rhea from 'rhea';

const OUTSTANDING_MAX = 20;
const CREDIT = 5;
const [port, queue, name] = process.argv.slice(2);
const container = rhea.create_container();
const waiting = new Map();
const arrived = [];
let number = 0;

const say = (line) => process.stdout.write(`${line}\n`);
const end = () => process.exit(0);

/** Settles one message in each turn: rhea sends one disposition for neighbours, whatever their outcomes. */
function settle() {
  const context = arrived.shift();
  if (context !== undefined) {
    const id = context.message.message_id;
    const dice = Math.random();
    if (dice < 0.3) {
      say(`maybe ${id}`);
      context.delivery.accept();
    } else if (dice < 0.7) {
      context.delivery.reject();
    } else if (dice < 0.85) {
      context.delivery.release();
    } else {
      context.delivery.modified({ delivery_failed: true });
    }
    context.receiver.add_credit(1);
  }
  setTimeout(settle, 2);
}

function send(sender) {
  while (sender.sendable() && waiting.size < OUTSTANDING_MAX) {
    const id = `${queue}/${name}/${number}`;
    number += 1;
    say(`sent ${id}`);
    waiting.set(sender.send({ message_id: id, durable: true, body: 'x'.repeat(100) }), id);
  }
}

const connection = container.connect({
  port: Number(port), host: '127.0.0.1', hostname: 'vhost:/', username: 'guest', password: 'guest',
  reconnect: false,
});
const sender = connection.open_sender(`/queues/${queue}`);
const receiver = connection.open_receiver(
  { source: `/queues/${queue}`, autoaccept: false, credit_window: 0 });
receiver.on('receiver_open', () => receiver.add_credit(CREDIT));
receiver.on('message', (context) => arrived.push(context));
settle();
sender.on('sendable', () => send(sender));
sender.on('accepted', (context) => {
  const id = waiting.get(context.delivery);
  waiting.delete(context.delivery);
  say(`accepted ${id}`);
  setTimeout(() => send(sender), 5);
});
for (const gone of ['disconnected', 'connection_close', 'connection_error', 'error']) {
  container.on(gone, end);
}
