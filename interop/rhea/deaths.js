// Dead letters with their history, and what survives a restart. rhea gives symbols as strings and
// every integer as a number.
import assert from 'node:assert/strict';
import { restart, until } from './base.js';

const LETTER = {
  message_id: 'letter', subject: 'greeting', application_properties: { n: 7 }, body: { text: 'dear' },
};

function checkUnchanged(message) {
  for (const [name, value] of Object.entries(LETTER)) assert.deepEqual(message[name], value, name);
}

/** The whole history: entries newest first; `first` is the first death. */
function checkDeaths(message, entries, first = entries[0]) {
  const annotations = message.message_annotations;
  for (const [when, death] of [['first', first], ['last', entries[0]]]) {
    assert.equal(annotations[`x-${when}-death-queue`], death.queue);
    assert.equal(annotations[`x-${when}-death-reason`], death.reason);
    assert.equal(annotations[`x-${when}-death-exchange`], '');
  }
  const deaths = annotations['x-opt-deaths'];
  assert.equal(deaths.length, entries.length);
  for (const [at, expected] of entries.entries()) {
    const { 'first-time': firstTime, 'last-time': lastTime, ...entry } = deaths[at];
    assert.deepEqual(entry, { count: 1, exchange: '', 'routing-keys': [expected.queue], ...expected });
    for (const time of [firstTime, lastTime]) {
      assert.ok(time instanceof Date && Math.abs(Date.now() - time) < 60_000, 'the time is now');
    }
    assert.ok(firstTime <= lastTime);
  }
}

async function pair(scene, args = {}) {
  const dead = await scene.queue('-dead');
  const queue = await scene.queue('',
    { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead, ...args });
  return [queue, dead];
}

const next = async (scene, queue) => (await scene.receiver(queue)).inbox.next();

export default {
  async rejected(scene) {
    const last = await scene.queue('-last');
    const to = (queue) => ({ 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': queue });
    const dead = await scene.queue('-dead', to(last));
    const queue = await scene.queue('', to(dead));
    await scene.publish(queue, { ...LETTER, ttl: 60_000 });
    (await next(scene, queue)).delivery.reject();
    const { message, delivery } = await next(scene, dead);
    checkUnchanged(message);
    assert.equal(message.ttl ?? null, null);
    const once = { queue, reason: 'rejected', ttl: 60_000 };
    checkDeaths(message, [once]);
    delivery.reject();
    const { message: again } = await next(scene, last);
    checkUnchanged(again);
    checkDeaths(again, [{ queue: dead, reason: 'rejected' }, once], once);
  },

  async expired(scene) {
    const [queue, dead] = await pair(scene, { 'x-message-ttl': 100 });
    const receiver = await scene.receiver(dead);
    const begun = Date.now();
    await scene.publish(queue, LETTER);
    const { message } = await receiver.inbox.next();
    assert.ok(Date.now() - begun < 5_000);
    checkUnchanged(message);
    checkDeaths(message, [{ queue, reason: 'expired' }]);
  },

  async maxlen(scene) {
    const [queue, dead] = await pair(scene, { 'x-max-length': 1 });
    await scene.publish(queue, LETTER, { message_id: 'second', body: 2 });
    const { message } = await next(scene, dead);
    checkUnchanged(message);
    checkDeaths(message, [{ queue, reason: 'maxlen' }]);
    assert.equal(await scene.count(queue), 1);
  },

  async 'delivery-limit'(scene) {
    const [queue, dead] = await pair(scene, { 'x-queue-type': 'quorum', 'x-delivery-limit': 1 });
    await scene.publish(queue, LETTER);
    const receiver = await scene.receiver(queue);
    for (const count of [0, 1]) {
      const { message, delivery } = await receiver.inbox.next();
      assert.equal(message.delivery_count ?? 0, count);
      delivery.modified({ delivery_failed: true });
    }
    const { message } = await next(scene, dead);
    checkUnchanged(message);
    checkDeaths(message, [{ queue, reason: 'delivery_limit' }]);
  },

  async cycle(scene) {
    const alone = await scene.queue('-alone', { 'x-message-ttl': 50, 'x-dead-letter-exchange': '' });
    await scene.publish(alone, LETTER);
    await until('it turns no more', async () => await scene.count(alone) === 0);
    const queue = await scene.queue('-rejected', { 'x-dead-letter-exchange': '' });
    await scene.publish(queue, LETTER);
    const receiver = await scene.receiver(queue);
    for (let n = 0; n < 2; n += 1) (await receiver.inbox.next()).delivery.reject();
    const { message } = await receiver.inbox.next();
    checkDeaths(message, [{ queue, reason: 'rejected', count: 2 }]);
  },

  async restart(scene) {
    const classic = await scene.queue('-classic');
    const quorum = await scene.queue('-quorum', { 'x-queue-type': 'quorum' });
    const [queue, dead] = await pair(scene, { 'x-queue-type': 'quorum' });
    await scene.publish(queue, { ...LETTER, durable: true });
    const error = { condition: 'app:bad', description: 'cannot be read', info: { line: 3 } };
    (await next(scene, queue)).delivery.reject(error);
    await until('it is dead-lettered', async () => await scene.count(dead) === 1);
    // What is confirmed now makes all before it safe, the rejection too.
    await scene.publish(classic,
      { message_id: 'kept', durable: true, body: 1 }, { message_id: 'lost', durable: false, body: 2 });
    await scene.publish(quorum, { message_id: 'quorum', durable: false, body: 3 });
    await restart();
    await scene.again();
    for (const kept of [classic, quorum, dead]) assert.equal(await scene.count(kept), 1, kept);
    assert.equal((await next(scene, classic)).message.message_id, 'kept');
    assert.equal((await next(scene, quorum)).message.message_id, 'quorum');
    const { message } = await next(scene, dead);
    checkUnchanged(message);
    checkDeaths(message, [{ queue, reason: 'rejected' }]);
    const { 'x-opt-last-death-condition': condition, 'x-opt-last-death-description': description } =
      message.message_annotations;
    assert.deepEqual({ condition, description }, { condition: 'app:bad', description: 'cannot be read' });
  },
};
