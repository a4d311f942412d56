// Outcomes, credit, drain, termini, filters.
import assert from 'node:assert/strict';
import rhea from 'rhea';
import { Skip, once, pause, refusal, send, until } from './base.js';

const numbered = (count) => Array.from({ length: count }, (_, n) => ({ body: n }));
const bodies = (contexts) => contexts.map(({ message }) => message.body);

async function several(receiver, count) {
  const contexts = [];
  for (let n = 0; n < count; n += 1) contexts.push(await receiver.inbox.next());
  return contexts;
}

export default {
  async outcomes(scene) {
    const dead = await scene.queue('-dead');
    const queue = await scene.queue('',
      { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead });
    await scene.publish(queue, ...['accepted', 'released', 'modified', 'rejected', 'undeliverable']
      .map((name) => ({ message_id: name, body: name })));
    const receiver = await scene.receiver(queue);
    const comes = async (name, count, first) => {
      await pause(50); // rhea would send one disposition for both outcomes, see ../README.md
      const { message, delivery } = await receiver.inbox.next();
      assert.deepEqual([message.message_id, message.delivery_count ?? 0, message.first_acquirer ?? false],
        [name, count, first]);
      return { message, delivery };
    };
    (await comes('accepted', 0, true)).delivery.accept();
    (await comes('released', 0, true)).delivery.release();
    (await comes('modified', 0, true)).delivery.modified(
      { delivery_failed: true, message_annotations: { 'x-opt-note': 'seen' } });
    (await comes('rejected', 0, true)).delivery.reject(
      { condition: 'app:bad', description: 'cannot be read' });
    (await comes('undeliverable', 0, true)).delivery.modified({ undeliverable_here: true });
    (await comes('released', 0, false)).delivery.accept();
    const { message, delivery } = await comes('modified', 1, false);
    assert.equal(message.message_annotations['x-opt-note'], 'seen');
    delivery.accept();
    const reader = await scene.receiver(dead);
    assert.deepEqual(bodies(await several(reader, 2)), ['rejected', 'undeliverable']);
    assert.equal(await scene.count(queue), 0);
  },

  async refusals(scene) {
    const exchange = `${scene.prefix}-exchange`;
    await scene.management.ask('PUT', `/exchanges/${exchange}`, { type: 'direct' }, [204]);
    const nowhere = await scene.sender(`/exchanges/${exchange}/nowhere`);
    assert.equal(await send(nowhere, { body: 1 }), 'released');
    await scene.management.ask('DELETE', `/exchanges/${exchange}`, null, [204]);
    const queue = await scene.queue('', { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
    const sender = await scene.sender(`/queues/${queue}`);
    assert.equal(await send(sender, { body: 1 }), 'accepted');
    assert.equal(await send(sender, { body: 2 }), 'rejected');
    const { error } = sender.last.delivery.remote_state;
    assert.equal(error.condition, 'amqp:resource-limit-exceeded');
    assert.deepEqual({ ...error.info }, { queue, reason: 'maxlen' });
  },

  async credit() {
    throw new Skip('rhea 3.0.5 takes the initial-delivery-count of a sender for 0: '
      + 'from a broker that begins elsewhere it gets more than it asked for');
  },

  async drain(scene) {
    const queue = await scene.queue();
    await scene.publish(queue, ...numbered(3));
    const receiver = await scene.receiver(queue, 0);
    receiver.add_credit(10);
    receiver.drain_credit();
    await once(receiver, 'receiver_drained');
    assert.equal(receiver.inbox.arrived.length, 3);
    assert.equal(receiver.credit, 0);
  },

  async presettled(scene) {
    const queue = await scene.queue();
    const sender = await scene.sender(`/queues/${queue}`, { snd_settle_mode: 1 });
    sender.send({ body: 'settled' });
    await until('it arrives', async () => await scene.count(queue) === 1);
    const receiver = await scene.receiver(queue, 10, { snd_settle_mode: 1 });
    const { message, delivery } = await receiver.inbox.next();
    assert.deepEqual([message.body, delivery.remote_settled], ['settled', true]);
    receiver.close();
    assert.equal(await scene.count(queue), 0);
  },

  async 'anonymous-terminus'(scene) {
    const [one, two, bound] = [await scene.queue('-one'), await scene.queue('-two'), await scene.queue('-bound')];
    const exchange = `${scene.prefix}-exchange`;
    await scene.management.ask('PUT', `/exchanges/${exchange}`, { type: 'fanout' }, [204]);
    await scene.management.ask('POST', '/bindings', {
      source: exchange, destination_queue: bound, binding_key: '', arguments: {},
    }, [204]);
    const sender = await scene.sender({});
    for (const to of [`/queues/${one}`, `/queues/${two}`, `/exchanges/${exchange}`]) {
      assert.equal(await send(sender, { to, body: to }), 'accepted');
    }
    for (const queue of [one, two, bound]) assert.equal(await scene.count(queue), 1);
    assert.equal(await send(sender, { body: 'to nobody' }), 'rejected');
    await scene.management.ask('DELETE', `/exchanges/${exchange}`, null, [204]);
  },

  async 'attach-refused'(scene) {
    const missing = `${scene.prefix}-missing`;
    assert.equal(await refusal(() => scene.receiver(missing)), 'amqp:not-found');
    assert.equal(await refusal(() => scene.sender(`/queues/${missing}`)), 'amqp:not-found');
    assert.equal(await refusal(() => scene.sender('/nonsense/x')), 'amqp:invalid-field');
    const queue = await scene.queue();
    const alone = await scene.receiver(queue, 0, { properties: { exclusive: true } });
    assert.equal(await refusal(() => scene.receiver(queue)), 'amqp:resource-locked');
    alone.close();
    await once(alone, 'receiver_close');
    await scene.publish(queue, { body: 'the session lives' });
    const receiver = await scene.receiver(queue);
    assert.equal((await receiver.inbox.next()).message.body, 'the session lives');
  },

  async deleted(scene) {
    const queue = await scene.queue();
    const receiver = await scene.receiver(queue);
    const detached = once(receiver, 'receiver_error');
    await scene.management.ask('DELETE', `/queues/${queue}`, null, [200]);
    await detached;
    assert.equal(receiver.error.condition, 'amqp:resource-deleted');
  },

  async dynamic(scene) {
    const receiver = await scene.receiver(null);
    const { address } = receiver.source;
    const other = await scene.connect();
    const sender = await scene.sender(address, {}, other);
    assert.equal(await send(sender, { body: 'answer' }), 'accepted');
    assert.equal((await receiver.inbox.next()).message.body, 'answer');
    sender.close();
    receiver.close();
    await once(receiver, 'receiver_close');
    assert.equal(await refusal(() => scene.sender(address, {}, other)), 'amqp:not-found');
  },

  async selector(scene) {
    const queue = await scene.queue();
    const colours = ['red', 'blue', 'red', 'green', 'red', 'blue'];
    await scene.publish(queue, ...colours.map((colour, n) => (
      { message_id: n, application_properties: { colour }, body: colour })));
    const red = await scene.receiver(queue, 10, { filter: rhea.filter.selector("colour = 'red'") });
    const found = await several(red, 3);
    assert.deepEqual(found.map(({ message }) => message.message_id), [0, 2, 4]);
    await red.inbox.nothing();
    for (const { delivery } of found) delivery.accept();
    const rest = await scene.receiver(queue);
    assert.deepEqual(bodies(await several(rest, 3)), ['blue', 'green', 'blue']);
  },
};
