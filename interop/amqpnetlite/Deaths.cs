using System;
using System.Collections.Generic;
using System.Linq;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>Dead letters with their history, and what survives a restart.</summary>
    static class Deaths
    {
        public static readonly Scenarios Scenarios = new Scenarios
        {
            { "rejected", Rejected }, { "expired", Expired }, { "maxlen", Maxlen },
            { "delivery-limit", DeliveryLimit }, { "cycle", Cycle }, { "restart", Restart },
        };

        /// <summary>One entry of x-opt-deaths.</summary>
        sealed class Death
        {
            public string Queue;
            public string Reason;
            public ulong Count = 1;
            public uint? Ttl;

            /// <summary>All fields but the two times.</summary>
            public Map Fields()
            {
                var fields = new Map
                {
                    { new Symbol("queue"), Queue }, { new Symbol("reason"), new Symbol(Reason) },
                    { new Symbol("count"), Count }, { new Symbol("exchange"), "" },
                    { new Symbol("routing-keys"), new[] { Queue } },
                };
                if (Ttl != null)
                {
                    fields[new Symbol("ttl")] = Ttl.Value;
                }
                return fields;
            }
        }

        static Message Letter(Header header = null)
        {
            var letter = new Message { BodySection = new AmqpValue { Value = new Map { { "text", "dear" } } } };
            letter.Header = header ?? new Header();
            letter.Properties = new Properties { MessageId = "letter", Subject = "greeting" };
            letter.ApplicationProperties = new ApplicationProperties();
            letter.ApplicationProperties.Map["n"] = 7L;
            return letter;
        }

        /// <summary>The message is unchanged but for its whole history: entries newest first.</summary>
        static void History(Message message, Death first, params Death[] entries)
        {
            Message sent = Letter();
            Check.Equal("message-id", message.Properties.MessageId, "letter");
            Check.Equal("subject", message.Properties.Subject, "greeting");
            Check.Equal("application properties", message.ApplicationProperties.Map, sent.ApplicationProperties.Map);
            Check.Equal("body", Scene.Value(message), Scene.Value(sent));
            Map annotations = message.MessageAnnotations.Map;
            foreach (KeyValuePair<string, Death> one in new Dictionary<string, Death>
                { { "first", first }, { "last", entries[0] } })
            {
                string prefix = "x-" + one.Key + "-death-";
                Check.Equal(prefix + "queue", annotations[new Symbol(prefix + "queue")], one.Value.Queue);
                Check.Equal(prefix + "reason", annotations[new Symbol(prefix + "reason")], one.Value.Reason);
                Check.Equal(prefix + "exchange", annotations[new Symbol(prefix + "exchange")], "");
            }
            var deaths = (Map[])annotations[new Symbol("x-opt-deaths")];
            Check.Equal("entries", deaths.Length, entries.Length);
            for (int at = 0; at < entries.Length; at++)
            {
                var begun = (DateTime)deaths[at][new Symbol("first-time")];
                var ended = (DateTime)deaths[at][new Symbol("last-time")];
                Check.That("times", begun <= ended && Math.Abs((DateTime.UtcNow - ended).TotalSeconds) < 60);
                deaths[at].Remove(new Symbol("first-time"));
                deaths[at].Remove(new Symbol("last-time"));
                Check.Equal("entry", deaths[at], entries[at].Fields());
            }
        }

        public static Map To(string queue)
        {
            return new Map { { "x-dead-letter-exchange", "" }, { "x-dead-letter-routing-key", queue } };
        }

        static Map To(string queue, string argument, object value)
        {
            Map arguments = To(queue);
            arguments[argument] = value;
            return arguments;
        }

        static void Reject(ReceiverLink receiver)
        {
            receiver.Reject(Scene.Receive(receiver));
        }

        static void Rejected(Scene scene)
        {
            string last = scene.Queue("-last"), dead = scene.Queue("-dead", To(last));
            string queue = scene.Queue("", To(dead));
            scene.Publish(queue, Letter(new Header { Ttl = 60000 }));
            Reject(scene.Receiver(queue));
            ReceiverLink reader = scene.Receiver(dead);
            Message message = Scene.Receive(reader);
            var once = new Death { Queue = queue, Reason = "rejected", Ttl = 60000 };
            History(message, once, once);
            reader.Reject(message);
            History(Scene.Receive(scene.Receiver(last)), once, new Death { Queue = dead, Reason = "rejected" }, once);
        }

        static void Expired(Scene scene)
        {
            string dead = scene.Queue("-dead"), queue = scene.Queue("", To(dead, "x-message-ttl", 100));
            ReceiverLink receiver = scene.Receiver(dead);
            DateTime begun = DateTime.UtcNow;
            scene.Publish(queue, Letter());
            Message message = Scene.Receive(receiver);
            Check.That("it took more than 5 s", DateTime.UtcNow - begun < TimeSpan.FromSeconds(5));
            var once = new Death { Queue = queue, Reason = "expired" };
            History(message, once, once);
        }

        static void Maxlen(Scene scene)
        {
            string dead = scene.Queue("-dead"), queue = scene.Queue("", To(dead, "x-max-length", 1));
            scene.Publish(queue, Letter(), Scene.Text("second"));
            var once = new Death { Queue = queue, Reason = "maxlen" };
            History(Scene.Receive(scene.Receiver(dead)), once, once);
            Check.Equal("left in the queue", scene.Count(queue), 1UL);
        }

        static void DeliveryLimit(Scene scene)
        {
            string dead = scene.Queue("-dead");
            Map arguments = To(dead, "x-queue-type", "quorum");
            arguments["x-delivery-limit"] = 1;
            string queue = scene.Queue("", arguments);
            scene.Publish(queue, Letter());
            ReceiverLink receiver = scene.Receiver(queue);
            for (uint count = 0; count < 2; count++)
            {
                Message message = Scene.Receive(receiver);
                Check.Equal("delivery-count", message.Header.DeliveryCount, count);
                receiver.Modify(message, true);
            }
            var once = new Death { Queue = queue, Reason = "delivery_limit" };
            History(Scene.Receive(scene.Receiver(dead)), once, once);
        }

        static void Cycle(Scene scene)
        {
            string alone = scene.Queue("-alone",
                new Map { { "x-message-ttl", 50 }, { "x-dead-letter-exchange", "" } });
            scene.Publish(alone, Letter());
            Check.Until("it still turns", () => scene.Count(alone) == 0);
            string queue = scene.Queue("-rejected", new Map { { "x-dead-letter-exchange", "" } });
            scene.Publish(queue, Letter());
            ReceiverLink receiver = scene.Receiver(queue);
            Reject(receiver);
            Reject(receiver);
            var twice = new Death { Queue = queue, Reason = "rejected", Count = 2 };
            History(Scene.Receive(receiver), twice, twice);
        }

        static void Restart(Scene scene)
        {
            string dead = scene.Queue("-dead", new Map { { "x-queue-type", "quorum" } });
            string queue = scene.Queue("", To(dead, "x-queue-type", "quorum"));
            string classic = scene.Queue("-classic");
            string quorum = scene.Queue("-quorum", new Map { { "x-queue-type", "quorum" } });
            scene.Publish(queue, Letter(new Header { Durable = true }));
            Reject(scene.Receiver(queue));
            Check.Until("it is not dead-lettered", () => scene.Count(dead) == 1);
            // What is confirmed now makes all before it safe, the rejection too.
            Message kept = Scene.Text("kept");
            kept.Header = new Header { Durable = true };
            Message lost = Scene.Text("lost");
            lost.Header = new Header { Durable = false }; // a message without a header is durable
            scene.Publish(classic, kept, lost);
            Message stays = Scene.Text("quorum");
            stays.Header = new Header { Durable = false };
            scene.Publish(quorum, stays);
            Console.WriteLine("restart");
            Check.Equal("the answer to restart", Console.ReadLine(), "restarted");
            scene.Again();
            foreach (string name in new[] { classic, quorum, dead })
            {
                Check.Equal(name, scene.Count(name), 1UL);
            }
            Scene.BodyIs("kept", scene.Receiver(classic));
            Scene.BodyIs("quorum", scene.Receiver(quorum));
            var once = new Death { Queue = queue, Reason = "rejected" };
            History(Scene.Receive(scene.Receiver(dead)), once, once);
        }
    }
}
