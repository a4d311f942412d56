using System;
using System.Text;
using System.Threading.Tasks;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>The snippets of docs/clients/amqpnetlite.md.</summary>
    static class Page
    {
        public static readonly Scenarios Scenarios = new Scenarios
        {
            { "page", scene => Check.That("the page took too long", Run(scene).Wait(Check.Limit)) },
        };

        static async Task Run(Scene scene)
        {
            string dead = scene.Queue("-dead"), queue = scene.Name;
            scene.Management.Ask("DELETE", "/queues/" + queue, null);
            scene.Forget(queue);
            Connection connection = await Connect(scene.Setting.Host, scene.Setting.Amqp);
            var session = new Session(connection);
            Check.Equal("code", await Declare(connection, queue, dead), "201");
            await Publish(session, queue);
            await Reject(session, queue);
            Check.Until("it is not dead-lettered", () => scene.Count(dead) == 1);
            Check.Equal("history", await History(session, dead), queue + " rejected 1 times; ");
            await connection.CloseAsync();
        }

        static async Task<Connection> Connect(string host, int port)
        {
            var factory = new ConnectionFactory();
            factory.AMQP.HostName = "vhost:/"; // or vhost:NAME
            return await factory.CreateAsync(new Address(host, port, "guest", "guest", "/", "amqp"));
        }

        static async Task<string> Declare(Connection connection, string queue, string dead)
        {
            Func<Attach> pair = () => new Attach
            {
                Source = new Source { Address = "/management" },
                Target = new Target { Address = "/management" },
                SndSettleMode = SenderSettleMode.Settled,
                Properties = new Fields { { new Symbol("paired"), true } },
            };
            var session = new Session(connection);
            var attached = new TaskCompletionSource<bool>();
            var requests = new SenderLink(session, "management", pair(), (link, attach) => attached.SetResult(true));
            await attached.Task; // one after the other: the links of a pair have one name
            var answers = new ReceiverLink(session, "management", pair(), null);
            answers.SetCredit(10);
            await requests.SendAsync(new Message
            {
                Properties = new Properties
                {
                    MessageId = "request", Subject = "PUT", To = "/queues/" + queue, ReplyTo = "$me",
                },
                BodySection = new AmqpValue
                {
                    Value = new Map
                    {
                        {
                            "arguments", new Map
                            {
                                { "x-dead-letter-exchange", "" }, { "x-dead-letter-routing-key", dead },
                            }
                        },
                    },
                },
            });
            Message answer = await answers.ReceiveAsync(TimeSpan.FromSeconds(10));
            await session.CloseAsync();
            return answer.Properties.Subject; // 201: it is new, 200: it was there, 409: it was there and differs
        }

        static async Task Publish(Session session, string queue)
        {
            var sender = new SenderLink(session, "publisher", "/queues/" + queue);
            var message = new Message
            {
                Header = new Header { Durable = true },
                BodySection = new AmqpValue { Value = "hello" },
            };
            await sender.SendAsync(message); // throws AmqpException when it is released or rejected
            await sender.CloseAsync();
        }

        static async Task Reject(Session session, string queue)
        {
            var receiver = new ReceiverLink(session, "consumer", "/queues/" + queue);
            receiver.SetCredit(10);
            Message message = await receiver.ReceiveAsync(TimeSpan.FromSeconds(10)); // null if none came
            // or Accept, Release, Modify(message, deliveryFailed, undeliverableHere, annotations)
            receiver.Reject(message, new Error(new Symbol("app:bad")) { Description = "cannot be read" });
            await receiver.CloseAsync();
        }

        static async Task<string> History(Session session, string dead)
        {
            var text = new StringBuilder();
            var receiver = new ReceiverLink(session, "reader", "/queues/" + dead);
            Message message = await receiver.ReceiveAsync(TimeSpan.FromSeconds(10));
            // the newest death first
            foreach (Map death in (Map[])message.MessageAnnotations.Map[new Symbol("x-opt-deaths")])
            {
                text.Append(death[new Symbol("queue")]).Append(' ')
                    .Append(death[new Symbol("reason")]).Append(' ')
                    .Append(death[new Symbol("count")]).Append(" times; ");
            }
            receiver.Accept(message);
            await receiver.CloseAsync();
            return text.ToString();
        }
    }
}
