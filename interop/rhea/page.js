// The snippets of docs/clients/rhea.md.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import rhea from 'rhea';
import { Management, until } from './base.js';

async function connect(host, port) {
  const connection = rhea.create_container().connect({ host, port, username: 'guest', password: 'guest' });
  await once(connection, 'connection_open');
  return connection;
}

async function declare(connection, queue, dead) {
  const management = await Management.open(connection);
  await management.ask('PUT', `/queues/${dead}`, {}, [200, 201]);
  await management.ask('PUT', `/queues/${queue}`, {
    arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead },
  }, [200, 201]);
}

async function publish(connection, queue) {
  const sender = connection.open_sender(`/queues/${queue}`);
  await once(sender, 'sendable');
  sender.send({ body: 'order', durable: true });
  await once(sender, 'accepted'); // listen for 'rejected' and 'released' too
  sender.close();
}

async function reject(connection, queue) {
  const receiver = connection.open_receiver({
    source: `/queues/${queue}`, autoaccept: false, credit_window: 0,
  });
  receiver.add_credit(1);
  const [{ message, delivery }] = await once(receiver, 'message');
  delivery.reject({ condition: 'app:bad' }); // or accept(), release(), modified({ delivery_failed: true })
  receiver.close();
  await once(receiver, 'receiver_close');
  return message.body;
}

async function history(connection, dead) {
  const receiver = connection.open_receiver({
    source: `/queues/${dead}`, autoaccept: false, credit_window: 0,
  });
  receiver.add_credit(1);
  const [{ message, delivery }] = await once(receiver, 'message');
  delivery.accept();
  receiver.close();
  await once(receiver, 'receiver_close');
  return message.message_annotations['x-opt-deaths']
    .map((death) => `${death.queue} ${death.reason} ${death.count}`); // also 'first-time', a Date, ...
}

export default {
  async page(scene) {
    const dead = await scene.queue('-dead');
    const queue = await scene.queue();
    await scene.management.ask('DELETE', `/queues/${queue}`);
    const connection = await connect(scene.setting.host, scene.setting.amqp);
    scene.connections.push(connection);
    await declare(connection, queue, dead);
    await publish(connection, queue);
    assert.equal(await reject(connection, queue), 'order');
    await until('it is not dead-lettered', async () => await scene.count(dead) === 1);
    assert.deepEqual(await history(connection, dead), [`${queue} rejected 1`]);
  },
};
