// What all scenarios share: connections, management, waiting.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import readline from 'node:readline';
import rhea from 'rhea';

export const TIMEOUT_MS = 10_000;
export class Skip extends Error {}

/** The next event of this name, or an error once the time is up or the peer says no. */
export function once(emitter, name, bad = ['receiver_error', 'sender_error', 'session_error']) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${name}`)), TIMEOUT_MS);
    emitter.once(name, (context) => { clearTimeout(timer); resolve(context); });
    for (const other of bad.filter((event) => event !== name)) {
      emitter.once(other, (context) => {
        clearTimeout(timer);
        const error = context.receiver?.error ?? context.sender?.error ?? context.session?.error;
        reject(Object.assign(new Error(`${other} ${error}`), { condition: error?.condition }));
      });
    }
  });
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

export async function until(what, holds) {
  const deadline = Date.now() + TIMEOUT_MS;
  while (!await holds()) {
    assert.ok(Date.now() < deadline, what);
    await pause(20);
  }
}

/** The messages of a receiver in order; several may arrive in one turn of the event loop. */
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

  async nothing() {
    await pause(300);
    assert.deepEqual(this.arrived.map(({ message }) => message.body), [], 'nothing more comes');
  }
}

/**
 * The management node: a pair of links of one name.
 *
 * rhea finds links by name alone, so the first must be open before the second is begun.
 */
export class Management {
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

  async ask(method, path, body = null, codes = []) {
    const answer = once(this.receiver, 'message');
    this.sender.send({ message_id: 'request', subject: method, to: path, reply_to: '$me', body });
    const { message } = await answer;
    const code = Number(message.subject);
    assert.ok(codes.length === 0 || codes.includes(code), `${method} ${path}: ${code} ${message.body}`);
    return { code, body: message.body };
  }
}

/** The setting, one connection with its management pair, and the queues of one scenario. */
export class Scene {
  static async open(setting, scenario) {
    const scene = new Scene();
    Object.assign(scene, { setting, prefix: setting.prefix + scenario, queues: [], connections: [] });
    await scene.again();
    return scene;
  }

  /** Connects, anew after a restart. */
  async again() {
    this.connection = await this.connect();
    this.management = await Management.open(this.connection);
  }

  async connect(options = {}, port = 'amqp') {
    const { host, user: username, password } = this.setting;
    const connection = rhea.create_container().connect(
      { host, port: this.setting[port], username, password, reconnect: false, ...options });
    this.connections.push(connection);
    // Without a listener rhea throws what a test wants to see.
    for (const event of ['connection_error', 'disconnected', 'error', 'session_error',
      'receiver_error', 'sender_error']) connection.on(event, () => {});
    const refused = ['connection_error', 'disconnected'].map((event) => new Promise((_, reject) => {
      connection.once(event, ({ error }) => {
        const why = connection.error ?? error;
        reject(Object.assign(new Error(`${event} ${why?.message ?? why}`), { condition: why?.condition }));
      });
    }));
    for (const each of refused) each.catch(() => {});
    await Promise.race([once(connection, 'connection_open'), ...refused]);
    return connection;
  }

  async queue(suffix = '', args = {}) {
    const name = this.prefix + suffix;
    await this.management.ask('DELETE', `/queues/${name}`);
    await this.management.ask('PUT', `/queues/${name}`, { arguments: args }, [201]);
    this.queues.push(name);
    return name;
  }

  async count(queue) {
    const { body } = await this.management.ask('GET', `/queues/${queue}`, null, [200]);
    return body.message_count;
  }

  async sender(target, options = {}, connection = this.connection) {
    const sender = connection.open_sender({ target, ...options });
    await once(sender, 'sendable');
    return sender;
  }

  /** A receiver without credit of its own, unless it is told so. */
  async receiver(queue, credit = 10, options = {}, connection = this.connection) {
    const source = queue === null ? { dynamic: true } : { address: `/queues/${queue}` };
    const { filter, ...rest } = options;
    if (filter !== undefined) source.filter = filter;
    const receiver = connection.open_receiver(
      { source, credit_window: 0, autoaccept: false, autosettle: true, ...rest });
    receiver.inbox = new Inbox(receiver);
    // A refused attach is answered by an attach first: wait for what comes behind it.
    await once(receiver, 'receiver_open');
    await this.management.ask('GET', '/queues/no-such-queue');
    if (receiver.is_remote_open() === false) {
      throw Object.assign(new Error(`${receiver.error}`), { condition: receiver.error?.condition });
    }
    if (credit > 0) receiver.add_credit(credit);
    return receiver;
  }

  async publish(queue, ...messages) {
    const sender = await this.sender(`/queues/${queue}`);
    for (const message of messages) assert.equal(await send(sender, message), 'accepted');
    sender.close();
  }

  async close() {
    for (const queue of this.queues) await this.management.ask('DELETE', `/queues/${queue}`);
    for (const connection of this.connections) connection.close();
  }
}

/** Sends a message and waits for its outcome; the context is kept in `sender.last`. */
export function send(sender, message) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('no outcome')), TIMEOUT_MS);
    for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
      sender.once(outcome, (context) => {
        clearTimeout(timer);
        sender.last = context;
        resolve(outcome);
      });
    }
    sender.send(message);
  });
}

/** The condition with which an attempt fails. */
export async function refusal(attempt) {
  try {
    await attempt();
  } catch (error) {
    return error.condition ?? String(error.message);
  }
  return 'not refused';
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks for a restart of the broker and waits for it. */
export async function restart() {
  console.log('restart');
  const { value } = await lines.next();
  assert.equal(value, 'restarted');
}

/** Calls each scenario that was asked for; the process's status. */
export async function run(scenarios) {
  const [path, ...wanted] = process.argv.slice(2);
  const setting = JSON.parse(fs.readFileSync(path));
  let failed = false;
  for (const name of wanted.length > 0 ? wanted : Object.keys(scenarios)) {
    let scene;
    try {
      if (!(name in scenarios)) throw new Skip('not written for this client');
      scene = await Scene.open(setting, name);
      await scenarios[name](scene);
      console.log(`ok ${name}`);
    } catch (error) {
      failed ||= !(error instanceof Skip);
      const word = error instanceof Skip ? 'skip' : 'fail';
      console.log(`${word} ${name} ${String(error.message).replaceAll('\n', ' ')}`);
    } finally {
      await scene?.close().catch((error) => console.error(`${name}: closing: ${error.message}`));
    }
  }
  return failed ? 1 : 0;
}
