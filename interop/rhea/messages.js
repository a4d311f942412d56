// Every type and section goes out and comes back the same.
import assert from 'node:assert/strict';
import rhea from 'rhea';

const { types } = rhea;
const uuid = Buffer.from('00112233445566778899aabbccddeeff', 'hex');

// As it is written, and as rhea gives it back: it has no type of its own for most of them.
export const SIMPLE = {
  boolean: [types.wrap_boolean(true), true],
  ubyte: [types.wrap_ubyte(255), 255],
  ushort: [types.wrap_ushort(65_535), 65_535],
  uint: [types.wrap_uint(4_294_967_295), 4_294_967_295],
  ulong: [types.wrap_ulong(Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER],
  byte: [types.wrap_byte(-128), -128],
  short: [types.wrap_short(-32_768), -32_768],
  int: [types.wrap_int(-2_147_483_648), -2_147_483_648],
  long: [types.wrap_long(Number.MIN_SAFE_INTEGER), Number.MIN_SAFE_INTEGER],
  float: [types.wrap_float(1.5), 1.5],
  double: [types.wrap_double(2.5), 2.5],
  char: [types.wrap_char(0x20ac), 0x20ac],
  timestamp: [types.wrap_timestamp(1_700_000_000_123), new Date(1_700_000_000_123)],
  uuid: [types.wrap_uuid(uuid), uuid],
  binary: [types.wrap_binary(Buffer.from([0, 255])), Buffer.from([0, 255])],
  string: [types.wrap_string('grüße'), 'grüße'],
  symbol: [types.wrap_symbol('sym'), 'sym'],
};
export const COMPOUND = {
  list: [types.wrap_list([1, 'two', [3]]), [1, 'two', [3]]],
  map: [types.wrap_map({ a: 1, b: null }), { a: 1, b: null }],
  array: [types.wrap_array([1, 2], 0x71), [1, 2]],
};

export const written = (cases) => Object.fromEntries(Object.entries(cases).map(([name, [sent]]) => [name, sent]));
export const read = (cases) => Object.fromEntries(Object.entries(cases).map(([name, [, got]]) => [name, got]));

async function through(scene, message, suffix = '') {
  const queue = await scene.queue(suffix);
  await scene.publish(queue, message);
  const receiver = await scene.receiver(queue);
  const { message: received, delivery } = await receiver.inbox.next();
  delivery.accept();
  return received;
}

export default {
  async sections(scene) {
    // No footer: rhea 3.0.5 writes its keys as strings, which only symbols and ulongs may be.
    const sent = {
      message_id: 'id-1', user_id: Buffer.from(scene.setting.user), to: '/somewhere',
      subject: 'subject', reply_to: '/answers', correlation_id: 7, content_type: 'text/plain',
      content_encoding: 'gzip', absolute_expiry_time: new Date(4_102_444_800_000),
      creation_time: new Date(1_700_000_000_000), group_id: 'group', group_sequence: 3,
      reply_to_group_id: 'answers', durable: true, priority: 7, ttl: 600_000,
      application_properties: { n: 7, s: 'text' }, body: 'body',
    };
    const annotations = { 'x-opt-text': 'note', 'x-opt-list': [1, 'two'] };
    const received = await through(scene, { ...sent, message_annotations: annotations });
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(received[name], value, name);
    for (const [name, value] of Object.entries(annotations)) {
      assert.deepEqual(received.message_annotations[name], value, name);
    }
  },

  async types(scene) {
    const received = await through(scene, {
      application_properties: written(SIMPLE),
      body: types.wrap_map({ ...written(SIMPLE), ...written(COMPOUND), null: null }),
    });
    assert.deepEqual(received.application_properties, read(SIMPLE));
    assert.deepEqual(received.body, { ...read(SIMPLE), ...read(COMPOUND), null: null });
    const described = types.wrap_described('value', 'app:thing');
    const { body } = await through(scene, { body: described }, '-described');
    assert.equal(body.value ?? body, 'value');
    assert.equal(body.descriptor ?? 'app:thing', 'app:thing');
  },

  async bodies(scene) {
    const data = [Buffer.from('one'), Buffer.from('two')];
    const { message } = rhea;
    const cases = [
      ['-value', 'one value', (body) => assert.equal(body, 'one value')],
      ['-data', message.data_section(Buffer.alloc(0)), (body) => assert.equal(body.content.length, 0)],
      ['-datas', message.data_sections(data), (body) => {
        assert.ok(Buffer.concat(data).equals(Buffer.concat([body.content].flat())));
      }],
      ['-sequence', message.sequence_section([1, 'two']), (body) => {
        assert.deepEqual(body.content, [1, 'two']);
      }],
      ['-sequences', message.sequence_sections([[1], [2, 3]]), (body) => {
        assert.deepEqual(body.content, [[1], [2, 3]]);
      }],
    ];
    for (const [suffix, sent, check] of cases) {
      check((await through(scene, { body: sent }, suffix)).body);
    }
  },

  async large(scene) {
    const body = Buffer.alloc(10 * 1024 * 1024, 'a large body ');
    assert.ok(body.equals((await through(scene, { body })).body));
  },
};
