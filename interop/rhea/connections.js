// SASL, TLS, vhosts, frames, management.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Management, Skip, refusal, until } from './base.js';

const tlsOptions = ({ ca }) => ({
  transport: 'tls', host: 'localhost', servername: 'localhost', ca: [fs.readFileSync(ca)],
});

async function goesThrough(scene, connection) {
  const queue = await scene.queue();
  const sender = await scene.sender(`/queues/${queue}`, {}, connection);
  sender.send({ body: 'through' });
  const receiver = await scene.receiver(queue);
  assert.equal((await receiver.inbox.next()).message.body, 'through');
}

export default {
  async plain(scene) {
    const wrong = await refusal(() => scene.connect({ password: 'wrong' }));
    assert.match(wrong, /auth/i);
    await scene.connect();
  },

  async anonymous(scene) {
    await goesThrough(scene, await scene.connect({ username: 'anonymous', password: undefined }));
  },

  async scram() {
    throw new Skip('rhea 3.0.5 has PLAIN, ANONYMOUS, EXTERNAL and XOAUTH2 only');
  },

  async tls(scene) {
    await scene.connect(tlsOptions(scene.setting), 'amqps');
  },

  async external(scene) {
    const { certificate, key } = scene.setting;
    await scene.connect({
      ...tlsOptions(scene.setting), username: undefined, password: undefined,
      enable_sasl_external: true, cert: fs.readFileSync(certificate), key: fs.readFileSync(key),
    }, 'amqps');
  },

  async 'no-sasl'(scene) {
    await goesThrough(scene, await scene.connect({ username: undefined, password: undefined }, 'bare'));
  },

  async vhost(scene) {
    const connection = await scene.connect({ hostname: `vhost:${scene.setting.vhost}` });
    const management = await Management.open(connection);
    const name = scene.prefix;
    await management.ask('PUT', `/queues/${name}`, {}, [200, 201]);
    assert.equal(await refusal(() => scene.receiver(name)), 'amqp:not-found');
    await scene.sender(`/queues/${name}`, {}, connection);
    await management.ask('DELETE', `/queues/${name}`, null, [200]);
    // The broker opens before it closes.
    const unknown = await scene.connect({ hostname: 'vhost:interop-missing' });
    await until('it is closed', () => unknown.error !== undefined);
    assert.equal(unknown.error.condition, 'amqp:not-found');
  },

  async frames(scene) {
    const queue = await scene.queue();
    const connection = await scene.connect({ max_frame_size: 512 });
    const sender = await scene.sender(`/queues/${queue}`, {}, connection);
    const body = Buffer.alloc(20_000, 'frames ');
    sender.send({ body });
    const receiver = await scene.receiver(queue, 1, {}, connection);
    assert.ok(body.equals((await receiver.inbox.next()).message.body));
  },

  async declare(scene) {
    const name = scene.prefix;
    const exchange = `${name}-exchange`;
    const ask = (...request) => scene.management.ask(...request);
    await ask('DELETE', `/queues/${name}`);
    scene.queues.push(name);
    await ask('PUT', `/queues/${name}`, { arguments: { 'x-max-length': 5 } }, [201]);
    await ask('PUT', `/queues/${name}`, { arguments: { 'x-max-length': 5 } }, [200]);
    await ask('PUT', `/queues/${name}`, { arguments: { 'x-max-length': 6 } }, [409]);
    const { body: info } = await ask('GET', `/queues/${name}`, null, [200]);
    assert.deepEqual([info.name, info.type, info.message_count], [name, 'classic', 0]);
    await ask('PUT', `/exchanges/${exchange}`, { type: 'topic' }, [204]);
    await ask('POST', '/bindings', {
      source: exchange, destination_queue: name, binding_key: 'a.#', arguments: {},
    }, [204]);
    const path = `/bindings?src=${exchange}&dstq=${name}&key=a.%23`;
    const { body: found } = await ask('GET', path, null, [200]);
    assert.equal(found.length, 1);
    await ask('DELETE', found[0].location, null, [204]);
    assert.deepEqual((await ask('GET', path, null, [200])).body, []);
    await scene.publish(name, { body: 1 }, { body: 2 });
    const purged = await ask('DELETE', `/queues/${name}/messages`, null, [200]);
    assert.equal(purged.body.message_count, 2);
    await ask('DELETE', `/exchanges/${exchange}`, null, [204]);
    await ask('DELETE', `/queues/${name}`, null, [200]);
    await ask('GET', `/queues/${name}`, null, [404]);
  },
};
