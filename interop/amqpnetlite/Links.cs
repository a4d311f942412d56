using System;
using System.Linq;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>Outcomes, credit, drain, termini, filters.</summary>
    static class Links
    {
        public static readonly Scenarios Scenarios = new Scenarios
        {
            { "outcomes", Outcomes }, { "refusals", Refusals }, { "credit", Credit }, { "drain", Drain },
            { "presettled", Presettled }, { "anonymous-terminus", AnonymousTerminus },
            { "attach-refused", AttachRefused }, { "deleted", Deleted }, { "dynamic", Dynamic },
            { "selector", Selector },
        };

        static readonly Symbol Note = new Symbol("x-opt-note");

        /// <summary>The next message, for a credit of its own, once the outcome before it has arrived.</summary>
        static Message Comes(Scene scene, ReceiverLink receiver, string text, uint count, bool first)
        {
            scene.Count(scene.Name);
            receiver.SetCredit(1, CreditMode.Manual);
            Message message = Scene.Receive(receiver);
            Check.Equal("body", Scene.Value(message), text);
            Check.Equal("delivery-count of " + text, message.Header.DeliveryCount, count);
            Check.Equal("first-acquirer of " + text, message.Header.FirstAcquirer, first);
            return message;
        }

        static void Outcomes(Scene scene)
        {
            string dead = scene.Queue("-dead"), queue = scene.Queue("", Deaths.To(dead));
            scene.Publish(queue, "accepted", "released", "modified", "rejected", "undeliverable");
            ReceiverLink receiver = scene.Receiver(queue, 0);
            receiver.Accept(Comes(scene, receiver, "accepted", 0, true));
            receiver.Release(Comes(scene, receiver, "released", 0, true));
            receiver.Accept(Comes(scene, receiver, "released", 0, false));
            receiver.Modify(Comes(scene, receiver, "modified", 0, true), true, false, new Fields { { Note, "seen" } });
            Message modified = Comes(scene, receiver, "modified", 1, false);
            Check.Equal("annotation", modified.MessageAnnotations.Map[Note], "seen");
            receiver.Accept(modified);
            var error = new Error(new Symbol("app:bad")) { Description = "cannot be read" };
            receiver.Reject(Comes(scene, receiver, "rejected", 0, true), error);
            receiver.Modify(Comes(scene, receiver, "undeliverable", 0, true), false, true);
            ReceiverLink reader = scene.Receiver(dead);
            Scene.BodyIs("rejected", reader);
            Scene.BodyIs("undeliverable", reader);
            Check.Equal("left in the queue", scene.Count(queue), 0UL);
        }

        static void Refusals(Scene scene)
        {
            string exchange = "/exchanges/" + scene.Name + "-exchange";
            scene.Management.Ask("PUT", exchange, new Map { { "type", "direct" } }, 204);
            SenderLink nowhere = scene.Sender(exchange + "/nowhere");
            Check.That("not released", Scene.Send(nowhere, Scene.Text("x")) is Released);
            scene.Management.Ask("DELETE", exchange, null, 204);
            string queue = scene.Queue("", new Map { { "x-max-length", 1 }, { "x-overflow", "reject-publish" } });
            scene.Publish(queue, "x");
            var rejected = Scene.Send(scene.Sender("/queues/" + queue), Scene.Text("x")) as Rejected;
            Check.That("not rejected", rejected != null);
            Check.Equal("condition", rejected.Error.Condition.ToString(), "amqp:resource-limit-exceeded");
            Check.Equal("queue", rejected.Error.Info[new Symbol("queue")], queue);
            Check.Equal("reason", rejected.Error.Info[new Symbol("reason")], new Symbol("maxlen"));
        }

        static void Credit(Scene scene)
        {
            string queue = scene.Queue();
            scene.Publish(queue, "0", "1", "2", "3", "4");
            ReceiverLink receiver = scene.Receiver(queue, 0);
            Scene.Nothing(receiver);
            receiver.SetCredit(2, CreditMode.Manual);
            Message[] first = { Scene.Receive(receiver), Scene.Receive(receiver) };
            Scene.Nothing(receiver);
            foreach (Message message in first)
            {
                receiver.Accept(message);
            }
            receiver.SetCredit(3, CreditMode.Manual);
            foreach (string text in new[] { "2", "3", "4" })
            {
                Scene.BodyIs(text, receiver);
            }
            scene.Publish(queue, "late");
            Scene.Nothing(receiver);
        }

        static void Drain(Scene scene)
        {
            string queue = scene.Queue();
            scene.Publish(queue, "0", "1", "2");
            ReceiverLink receiver = scene.Receiver(queue, 0);
            receiver.SetCredit(10, CreditMode.Drain);
            foreach (string text in new[] { "0", "1", "2" })
            {
                Scene.BodyIs(text, receiver);
            }
            scene.Publish(queue, "late");
            Scene.Nothing(receiver);
            Check.Equal("left in the queue", scene.Count(queue), 1UL);
        }

        static void Presettled(Scene scene)
        {
            string queue = scene.Queue();
            SenderLink sender = scene.Sender("/queues/" + queue,
                new Attach { SndSettleMode = SenderSettleMode.Settled });
            sender.Send(Scene.Text("settled"), null, null);
            Check.Until("it does not arrive", () => scene.Count(queue) == 1);
            ReceiverLink receiver = scene.Receiver(new Attach
            {
                Source = new Source { Address = "/queues/" + queue }, SndSettleMode = SenderSettleMode.Settled,
            });
            Check.Equal("body", Scene.Value(Scene.Receive(receiver)), "settled");
            receiver.Close();
            Check.Equal("left in the queue", scene.Count(queue), 0UL);
        }

        static void AnonymousTerminus(Scene scene)
        {
            string[] queues = { scene.Queue("-one"), scene.Queue("-two"), scene.Queue("-bound") };
            string exchange = scene.Name + "-exchange", path = "/exchanges/" + exchange;
            scene.Management.Ask("PUT", path, new Map { { "type", "fanout" } }, 204);
            scene.Management.Ask("POST", "/bindings", Connections.Binding(exchange, queues[2], ""), 204);
            SenderLink sender = scene.Sender(null);
            foreach (string to in new[] { "/queues/" + queues[0], "/queues/" + queues[1], path })
            {
                Message message = Scene.Text(to);
                message.Properties = new Properties { To = to };
                Scene.Accept(sender, message);
            }
            foreach (string queue in queues)
            {
                Check.Equal(queue, scene.Count(queue), 1UL);
            }
            Check.That("not rejected", Scene.Send(sender, Scene.Text("to nobody")) is Rejected);
            scene.Management.Ask("DELETE", path, null, 204);
        }

        static void AttachRefused(Scene scene)
        {
            string missing = scene.Name + "-missing", queue = scene.Queue();
            Check.Refused("amqp:not-found", () => scene.Receiver(missing));
            Check.Refused("amqp:not-found", () => scene.Sender("/queues/" + missing));
            Check.Refused("amqp:invalid-field",
                () => scene.Receiver(new Attach { Source = new Source { Address = "/nonsense/x" } }));
            ReceiverLink alone = scene.Receiver(new Attach
            {
                Source = new Source { Address = "/queues/" + queue },
                Properties = new Fields { { new Symbol("exclusive"), true } },
            });
            Check.Refused("amqp:resource-locked", () => scene.Receiver(queue));
            alone.Close();
            scene.Publish(queue, "the session lives");
            Scene.BodyIs("the session lives", scene.Receiver(queue));
        }

        static void Deleted(Scene scene)
        {
            string queue = scene.Queue();
            ReceiverLink receiver = scene.Receiver(queue);
            scene.Management.Ask("DELETE", "/queues/" + queue, null, 200);
            Check.Closes("amqp:resource-deleted", receiver);
        }

        static void Dynamic(Scene scene)
        {
            string address = null;
            ReceiverLink receiver = scene.Receiver(new Attach { Source = new Source { Dynamic = true } },
                onAttached: (link, attached) => address = ((Source)attached.Source).Address);
            Check.Until("no address", () => address != null);
            receiver.SetCredit(10, CreditMode.Manual);
            var other = new Session(scene.Connect());
            SenderLink sender = scene.Sender(address, session: other);
            Scene.Accept(sender, Scene.Text("answer"));
            Scene.BodyIs("answer", receiver);
            sender.Close();
            receiver.Close();
            Check.Refused("amqp:not-found", () => scene.Sender(address, session: other));
        }

        static void Selector(Scene scene)
        {
            string queue = scene.Queue();
            string[] colours = { "red", "blue", "red", "green", "red", "blue" };
            scene.Publish(queue, colours.Select((colour, id) => Coloured(colour, (ulong)id)).ToArray());
            var name = new Symbol("apache.org:selector-filter:string");
            ReceiverLink red = scene.Receiver(new Attach
            {
                Source = new Source
                {
                    Address = "/queues/" + queue,
                    FilterSet = new Map { { name, new DescribedValue(name, "colour = 'red'") } },
                },
            });
            red.SetCredit(10, CreditMode.Manual);
            foreach (ulong id in new ulong[] { 0, 2, 4 })
            {
                Message message = Scene.Receive(red);
                Check.Equal("message-id", message.Properties.GetMessageId(), id);
                red.Accept(message);
            }
            Scene.Nothing(red);
            ReceiverLink rest = scene.Receiver(queue);
            foreach (string colour in new[] { "blue", "green", "blue" })
            {
                Scene.BodyIs(colour, rest);
            }
        }

        static Message Coloured(string colour, ulong id)
        {
            Message message = Scene.Text(colour);
            message.Properties = new Properties();
            message.Properties.SetMessageId(id);
            message.ApplicationProperties = new ApplicationProperties();
            message.ApplicationProperties.Map["colour"] = colour;
            return message;
        }
    }
}
