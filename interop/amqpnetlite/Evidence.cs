using System;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>What a consumer says when it rejects stays with the dead letter, to the last type.</summary>
    static class Evidence
    {
        public static readonly Scenarios Scenarios = new Scenarios { { "evidence", Run } };

        const string Why = "no price, gr\u00fc\u00dfe";

        static Fields Info()
        {
            var info = new Fields();
            Map simple = Messages.Simple();
            foreach (object name in simple.Keys)
            {
                info[new Symbol((string)name)] = simple[name];
            }
            info[new Symbol("null")] = null;
            info[new Symbol("list")] = new List { 1L, "two", new List { 3L } };
            info[new Symbol("map")] = new Map { { "a", 1L } };
            info[new Symbol("array")] = new[] { 1, 2 };
            info[new Symbol("described")] = new DescribedValue(new Symbol("app:thing"), "value");
            return info;
        }

        /// <summary>A receiver that asks for all that is known of each death.</summary>
        static ReceiverLink Full(Scene scene, string queue)
        {
            ReceiverLink receiver = scene.Receiver(new Attach
            {
                Source = new Source { Address = "/queues/" + queue },
                Properties = new Fields { { new Symbol("x-opt-death-evidence"), new Symbol("full") } },
            });
            receiver.SetCredit(1, CreditMode.Manual);
            return receiver;
        }

        static object Of(Map map, string key)
        {
            return map[new Symbol(key)];
        }

        /// <summary>Who caused a death; the port is the one thing that nobody knows before.</summary>
        static void By(object observed, string how, string container, string link, string user)
        {
            var by = (Map)observed;
            Check.Equal("fields", by.Count, 5);
            Check.Equal("how", Of(by, "how"), new Symbol(how));
            Check.Equal("container", Of(by, "container"), container);
            Check.Equal("link", Of(by, "link"), link);
            Check.Equal("user", Of(by, "user"), user);
            Check.That("address", ((string)Of(by, "address")).StartsWith("127.0.0.1:"));
        }

        static void Reason(Map entry, string condition, string description)
        {
            Check.Equal("condition", Of(entry, "error-condition"), new Symbol(condition));
            Check.Equal("description", Of(entry, "error-description"), description);
        }

        static void InfoIsIn(Map entry)
        {
            var observed = (Map)Of(entry, "error-info");
            Fields sent = Info();
            Check.Equal("values of the info", observed.Count, sent.Count);
            foreach (object name in sent.Keys)
            {
                Check.That("no " + name, observed.ContainsKey(name));
                Check.Equal(name.ToString(), observed[name], sent[name]);
            }
        }

        static void LastDeath(Message letter, string condition, string description)
        {
            Map annotations = letter.MessageAnnotations.Map;
            Check.Equal("condition", Of(annotations, "x-opt-last-death-condition"), new Symbol(condition));
            Check.Equal("description", Of(annotations, "x-opt-last-death-description"), description);
        }

        static Message Durable()
        {
            Message message = Scene.Text("order");
            message.Header = new Header { Durable = true };
            return message;
        }

        static void Run(Scene scene)
        {
            string last = scene.Queue("-last"), dead = scene.Queue("-dead", Deaths.To(last));
            string queue = scene.Queue("", Deaths.To(dead)), user = scene.Setting.User;
            scene.AgainAs("first-container");
            scene.Publish(queue, Durable());
            ReceiverLink receiver = Full(scene, queue);
            string firstLink = receiver.Name;
            receiver.Reject(Scene.Receive(receiver),
                new Error(new Symbol("app:schema")) { Description = Why, Info = Info() });
            Check.Until("it is not dead-lettered", () => scene.Count(dead) == 1);
            // What is confirmed now makes all before it safe, the rejection too.
            scene.Publish(scene.Queue("-safe"), Durable());
            Console.WriteLine("restart");
            Check.Equal("the answer to restart", Console.ReadLine(), "restarted");
            scene.AgainAs("second-container");

            ReceiverLink reader = Full(scene, dead);
            Message letter = Scene.Receive(reader);
            LastDeath(letter, "app:schema", Why);
            object by = Of(letter.MessageAnnotations.Map, "x-opt-last-death-by");
            By(by, "rejected", "first-container", firstLink, user);
            var entries = (Map[])Of(letter.MessageAnnotations.Map, "x-opt-deaths");
            Check.Equal("entries", entries.Length, 1);
            Reason(entries[0], "app:schema", Why);
            InfoIsIn(entries[0]);
            reader.Modify(letter, false, true, new Fields
            {
                { new Symbol("x-opt-dead-letter-category"), "app:again" },
                { new Symbol("x-opt-dead-letter-reason"), "once more" },
            });
            letter = Scene.Receive(Full(scene, last));
            LastDeath(letter, "app:again", "once more");
            entries = (Map[])Of(letter.MessageAnnotations.Map, "x-opt-deaths");
            Check.Equal("entries", entries.Length, 2);
            Reason(entries[0], "app:again", "once more");
            By(Of(entries[0], "by"), "undeliverable-here", "second-container", reader.Name, user);
            Reason(entries[1], "app:schema", Why);
            InfoIsIn(entries[1]);
            By(Of(entries[1], "by"), "rejected", "first-container", firstLink, user);
        }
    }
}
