// rhea (Node.js) against a broker: declare, publish, consume, reject, read the history.
//
//     node client.js PORT
//
// Prints `ok SCENARIO` or `fail SCENARIO REASON` for each scenario.
import assert from 'node:assert/strict';
import rhea from 'rhea';

const TIMEOUT_MS = 10_000;
const SOURCE = 'interop-rhea';
const DEAD = 'interop-rhea-dead';
const port = Number(process.argv[2]);

/** The next event of this name, or an error once the time is up or the peer says no. */
function once(emitter, name) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${name}`)), TIMEOUT_MS);
    emitter.once(name, (context) => { clearTimeout(timer); resolve(context); });
    for (const bad of ['rejected', 'released', 'receiver_error', 'sender_error', 'session_error']) {
      if (bad !== name) {
        emitter.once(bad, (context) => {
          clearTimeout(timer);
          const link = context.receiver ?? context.sender;
          reject(new Error(`${bad} ${link?.error ?? context.session?.error ?? ''}`));
        });
      }
    }
  });
}

/** The messages of a receiver in order; two may arrive in one turn of the event loop. */
class Inbox {
  constructor(receiver) {
    this.receiver = receiver;
    this.arrived = [];
    receiver.on('message', (context) => {
      this.arrived.push(context);
      receiver.emit('arrival');
    });
  }

  async next() {
    if (this.arrived.length === 0) await once(this.receiver, 'arrival');
    return this.arrived.shift();
  }
}

/**
 * The management node: a pair of links of one name.
 *
 * rhea finds links by name alone, so the first must be open before the second is begun.
 */
class Management {
  static async open(connection) {
    const pair = new Management();
    const common = { name: 'management', properties: { paired: true }, snd_settle_mode: 1 };
    pair.sender = connection.open_sender(
      { ...common, target: '/management', source: { address: 'me' } });
    await once(pair.sender, 'sendable');
    pair.receiver = connection.open_receiver(
      { ...common, source: '/management', target: { address: 'me' }, credit_window: 8, autoaccept: false });
    await once(pair.receiver, 'receiver_open');
    return pair;
  }

  async ask(method, path, body) {
    const answer = once(this.receiver, 'message');
    this.sender.send({ message_id: 'request', subject: method, to: path, reply_to: '$me', body });
    const { message } = await answer;
    return { code: Number(message.subject), body: message.body };
  }
}

const state = {};

const scenarios = {
  async connect() {
    state.connection = rhea.connect(
      { host: '127.0.0.1', port, username: 'guest', password: 'guest', reconnect: false });
    await once(state.connection, 'connection_open');
  },

  async declare() {
    const management = await Management.open(state.connection);
    const target = { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': DEAD };
    for (const [name, args] of [[DEAD, {}], [SOURCE, target]]) {
      const { code, body } = await management.ask('PUT', `/queues/${name}`, { arguments: args });
      assert.ok(code === 201 || code === 200, `code ${code}: ${body}`);
      assert.equal(body.name, name);
    }
  },

  async publish() {
    const sender = state.connection.open_sender(`/queues/${SOURCE}`);
    await once(sender, 'sendable');
    for (const text of ['good', 'bad']) {
      sender.send({
        message_id: text, durable: true, ttl: 60_000, subject: 'greeting',
        application_properties: { n: 7 }, body: { text },
      });
      await once(sender, 'accepted');
    }
    sender.close();
  },

  async consume() {
    state.receiver = state.connection.open_receiver(
      { source: `/queues/${SOURCE}`, credit_window: 2, autoaccept: false });
    state.inbox = new Inbox(state.receiver);
    const { message, delivery } = await state.inbox.next();
    assert.equal(message.message_id, 'good');
    assert.deepEqual(message.application_properties, { n: 7 });
    assert.deepEqual(message.body, { text: 'good' });
    assert.equal(message.durable, true);
    delivery.accept();
    // rhea sends one disposition for neighbours settled in one turn, whatever their outcomes.
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  },

  async reject() {
    const { message, delivery } = await state.inbox.next();
    assert.equal(message.message_id, 'bad');
    delivery.reject({ condition: 'app:poison', description: 'cannot be read' });
    state.receiver.close();
    await once(state.receiver, 'receiver_close');
  },

  async history() {
    const receiver = state.connection.open_receiver(
      { source: `/queues/${DEAD}`, credit_window: 1, autoaccept: true });
    const { message } = await once(receiver, 'message');
    assert.equal(message.message_id, 'bad');
    assert.deepEqual(message.body, { text: 'bad' });
    assert.equal(message.ttl ?? null, null);
    const annotations = message.message_annotations;
    for (const when of ['first', 'last']) {
      assert.equal(annotations[`x-${when}-death-queue`], SOURCE);
      assert.equal(annotations[`x-${when}-death-reason`], 'rejected');
      assert.equal(annotations[`x-${when}-death-exchange`], '');
    }
    const deaths = annotations['x-opt-deaths'];
    assert.equal(deaths.length, 1);
    const { 'first-time': first, 'last-time': last, ...entry } = deaths[0];
    assert.deepEqual(entry, {
      queue: SOURCE, reason: 'rejected', count: 1, exchange: '', 'routing-keys': [SOURCE], ttl: 60_000,
    });
    assert.equal(Number(first), Number(last));
    assert.ok(Math.abs(Date.now() - Number(last)) < 60_000, 'last-time is now');
    state.connection.close();
  },
};

for (const [name, run] of Object.entries(scenarios)) {
  try {
    await run();
  } catch (error) {
    console.log(`fail ${name} ${String(error.message).replaceAll('\n', ' ')}`);
    process.exit(1);
  }
  console.log(`ok ${name}`);
}
process.exit(0);
