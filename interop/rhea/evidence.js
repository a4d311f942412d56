// What a consumer says when it rejects stays with the dead letter. rhea gives symbols as strings and every
// integer as a number, so that of the types only those are seen that it has.
import assert from 'node:assert/strict';
import rhea from 'rhea';
import { restart, until } from './base.js';
import { COMPOUND, SIMPLE, read, written } from './messages.js';

const ERROR = { condition: 'app:schema', description: 'no price, grüße' };
const FULL = { properties: { 'x-opt-death-evidence': 'full' } };

function checkLast(annotations, error, by) {
  assert.equal(annotations['x-opt-last-death-condition'], error.condition);
  assert.equal(annotations['x-opt-last-death-description'], error.description);
  checkBy(annotations['x-opt-last-death-by'], by);
}

function checkEntry(entry, error, by) {
  assert.equal(entry['error-condition'], error.condition);
  assert.equal(entry['error-description'], error.description);
  checkBy(entry.by, by);
}

/** Who caused a death; its port is the one thing that nobody knows before. */
function checkBy({ address, ...by }, expected) {
  assert.match(address, /^127\.0\.0\.1:\d+$/);
  assert.deepEqual(by, expected);
}

export default {
  async evidence(scene) {
    const to = (queue) => ({ 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': queue });
    const last = await scene.queue('-last');
    const dead = await scene.queue('-dead', to(last));
    const queue = await scene.queue('', to(dead));
    const safe = await scene.queue('-safe');
    await scene.publish(queue, { body: 'order', durable: true });
    const described = rhea.types.wrap_described('value', rhea.types.wrap_symbol('app:thing'));
    const info = { ...written(SIMPLE), ...written(COMPOUND), null: null, described };
    const receiver = await scene.receiver(queue, 10, { name: 'first-consumer' });
    (await receiver.inbox.next()).delivery.reject({ ...ERROR, info });
    await until('it is dead-lettered', async () => await scene.count(dead) === 1);
    const who = { container: scene.connection.container.id, user: scene.setting.user };
    const first = { how: 'rejected', link: 'first-consumer', ...who };
    // What is confirmed now makes all before it safe, the rejection too.
    await scene.publish(safe, { body: 'safe', durable: true });
    await restart();
    await scene.again();

    const reader = await scene.receiver(dead, 10, { name: 'second-consumer', ...FULL });
    const { message, delivery } = await reader.inbox.next();
    checkLast(message.message_annotations, ERROR, first);
    const entries = message.message_annotations['x-opt-deaths'];
    assert.equal(entries.length, 1);
    checkEntry(entries[0], ERROR, first);
    checkInfo(entries[0]['error-info']);

    const error = { condition: 'app:again', description: 'once more' };
    delivery.modified({ undeliverable_here: true, message_annotations: {
      'x-opt-dead-letter-category': error.condition, 'x-opt-dead-letter-reason': error.description } });
    const { message: letter } = await (await scene.receiver(last, 10, FULL)).inbox.next();
    const second = { how: 'undeliverable-here', link: 'second-consumer', container: scene.connection.container.id,
      user: scene.setting.user };
    checkLast(letter.message_annotations, error, second);
    const [again, before] = letter.message_annotations['x-opt-deaths'];
    checkEntry(again, error, second);
    assert.ok(!('error-info' in again), 'the second death has no info');
    checkEntry(before, ERROR, first);
    checkInfo(before['error-info']);
  },
};

function checkInfo({ described, ...info }) {
  assert.equal(described.value ?? described, 'value');
  assert.deepEqual(info, { ...read(SIMPLE), ...read(COMPOUND), null: null });
}
