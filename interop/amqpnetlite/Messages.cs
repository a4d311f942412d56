using System;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>Every type and section goes out and comes back the same.</summary>
    static class Messages
    {
        public static readonly Scenarios Scenarios = new Scenarios
        {
            { "sections", Sections }, { "types", Types }, { "bodies", Bodies }, { "large", Large },
        };

        public static byte[] Bytes(int count)
        {
            var bytes = new byte[count];
            for (int at = 0; at < count; at++)
            {
                bytes[at] = (byte)(at * 7);
            }
            return bytes;
        }

        public static Message Data(byte[] bytes)
        {
            return new Message { BodySection = new Data { Binary = bytes } };
        }

        static Message Through(Scene scene, string suffix, Message message)
        {
            string queue = scene.Queue(suffix);
            scene.Publish(queue, message);
            ReceiverLink receiver = scene.Receiver(queue);
            Message received = Scene.Receive(receiver);
            receiver.Accept(received);
            return received;
        }

        static DateTime At(long seconds)
        {
            return DateTimeOffset.FromUnixTimeSeconds(seconds).UtcDateTime;
        }

        static void Sections(Scene scene)
        {
            var properties = new Properties
            {
                MessageId = "id-1", UserId = System.Text.Encoding.UTF8.GetBytes(scene.Setting.User),
                To = "/somewhere", Subject = "subject", ReplyTo = "/answers",
                ContentType = new Symbol("text/plain"), ContentEncoding = new Symbol("gzip"),
                AbsoluteExpiryTime = At(4102444800), CreationTime = At(1700000000),
                GroupId = "group", GroupSequence = 3, ReplyToGroupId = "answers",
            };
            properties.SetCorrelationId(7UL);
            Message sent = Scene.Text("body");
            sent.Header = new Header { Durable = true, Priority = 7, Ttl = 600000 };
            sent.Properties = properties;
            sent.MessageAnnotations = new MessageAnnotations();
            sent.MessageAnnotations.Map[new Symbol("x-opt-text")] = "note";
            sent.MessageAnnotations.Map[new Symbol("x-opt-list")] = new List { 1L, "two" };
            sent.ApplicationProperties = new ApplicationProperties();
            sent.ApplicationProperties.Map["n"] = 7L;
            sent.ApplicationProperties.Map["s"] = "text";
            sent.Footer = new Footer();
            sent.Footer.Map[new Symbol("x-opt-end")] = "last";
            Message received = Through(scene, "", sent);
            Check.Equal("durable", received.Header.Durable, true);
            Check.Equal("priority", received.Header.Priority, (byte)7);
            Check.Equal("ttl", received.Header.Ttl, 600000U);
            Same(received.Properties, properties);
            Check.Equal("application properties", received.ApplicationProperties.Map, sent.ApplicationProperties.Map);
            foreach (object key in sent.MessageAnnotations.Map.Keys)
            {
                Check.Equal("annotation", received.MessageAnnotations.Map[key], sent.MessageAnnotations.Map[key]);
            }
            Check.Equal("footer", received.Footer.Map, sent.Footer.Map);
            Check.Equal("body", Scene.Value(received), "body");
        }

        static void Same(Properties received, Properties sent)
        {
            Check.Equal("message-id", received.GetMessageId(), sent.GetMessageId());
            Check.Equal("user-id", received.UserId, sent.UserId);
            Check.Equal("to", received.To, sent.To);
            Check.Equal("subject", received.Subject, sent.Subject);
            Check.Equal("reply-to", received.ReplyTo, sent.ReplyTo);
            Check.Equal("correlation-id", received.GetCorrelationId(), sent.GetCorrelationId());
            Check.Equal("content-type", received.ContentType, sent.ContentType);
            Check.Equal("content-encoding", received.ContentEncoding, sent.ContentEncoding);
            Check.Equal("absolute-expiry-time", received.AbsoluteExpiryTime, sent.AbsoluteExpiryTime);
            Check.Equal("creation-time", received.CreationTime, sent.CreationTime);
            Check.Equal("group-id", received.GroupId, sent.GroupId);
            Check.Equal("group-sequence", received.GroupSequence, sent.GroupSequence);
            Check.Equal("reply-to-group-id", received.ReplyToGroupId, sent.ReplyToGroupId);
        }

        public static Map Simple()
        {
            return new Map
            {
                { "boolean", true }, { "ubyte", (byte)255 }, { "ushort", (ushort)65535 }, { "uint", uint.MaxValue },
                { "ulong", ulong.MaxValue }, { "byte", sbyte.MinValue }, { "short", short.MinValue },
                { "int", int.MinValue }, { "long", long.MinValue }, { "float", 1.5f }, { "double", 2.5 },
                { "decimal32", new Amqp.Types.Decimal(Bytes(4)) }, { "decimal64", new Amqp.Types.Decimal(Bytes(8)) },
                { "decimal128", new Amqp.Types.Decimal(Bytes(16)) }, { "char", '\u20ac' },
                { "timestamp", At(1700000000).AddMilliseconds(123) },
                { "uuid", new Guid("00010203-0405-0607-0809-0a0b0c0d0e0f") }, { "binary", new byte[] { 0, 255 } },
                { "string", "gr\u00fc\u00dfe" }, { "symbol", new Symbol("sym") },
            };
        }

        static void Types(Scene scene)
        {
            Map simple = Simple(), body = Simple();
            body["null"] = null;
            body["list"] = new List { 1L, "two", new List { 3L } };
            body["map"] = new Map { { "a", 1L } };
            body["array"] = new[] { 1, 2 };
            body["symbols"] = new[] { new Symbol("a"), new Symbol("b") };
            body["described"] = new DescribedValue(new Symbol("app:thing"), "value");
            var sent = new Message { BodySection = new AmqpValue { Value = body } };
            sent.ApplicationProperties = new ApplicationProperties();
            foreach (object name in simple.Keys)
            {
                sent.ApplicationProperties.Map[name] = simple[name];
            }
            Message received = Through(scene, "", sent);
            foreach (object name in simple.Keys)
            {
                Check.Equal("property " + name, received.ApplicationProperties.Map[name], simple[name]);
            }
            var values = (Map)Scene.Value(received);
            Check.Equal("values", values.Count, body.Count);
            foreach (object name in body.Keys)
            {
                Check.Equal((string)name, values[name], body[name]);
            }
        }

        static void Bodies(Scene scene)
        {
            var sent = new DataList();
            foreach (string part in new[] { "one", "two", "three" })
            {
                sent.Add(new Data { Binary = System.Text.Encoding.UTF8.GetBytes(part) });
            }
            var received = (DataList)Through(scene, "-datas", new Message { BodySection = sent }).BodySection;
            Check.Equal("sections", received.Count, sent.Count);
            for (int at = 0; at < sent.Count; at++)
            {
                Check.Equal("data", received[at].Binary, sent[at].Binary);
            }
            Message empty = Through(scene, "-data", Data(new byte[0]));
            Check.Equal("an empty section", ((Data)empty.BodySection).Binary, new byte[0]);
            var sequence = new AmqpSequence { List = new List { 1L, "two" } };
            Message list = Through(scene, "-sequence", new Message { BodySection = sequence });
            Check.Equal("sequence", ((AmqpSequence)list.BodySection).List, sequence.List);
            Check.Equal("value", Scene.Value(Through(scene, "-value", Scene.Text("one"))), "one");
        }

        static void Large(Scene scene)
        {
            byte[] body = Bytes(10 * 1024 * 1024);
            Message received = Through(scene, "", Data(body));
            Check.That("body", new ReadOnlySpan<byte>(((Data)received.BodySection).Binary).SequenceEqual(body));
        }
    }
}
