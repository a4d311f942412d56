using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Amqp;
using Amqp.Framing;
using Amqp.Sasl;
using Amqp.Types;

namespace Interop
{
    /// <summary>One connection, its management pair and the queues of one scenario.</summary>
    sealed class Scene : IDisposable
    {
        readonly List<string> queues = new List<string>();
        readonly List<Connection> connections = new List<Connection>();
        int links;

        public readonly Setting Setting;
        /// <summary>Begins the name of every queue of the scenario.</summary>
        public readonly string Name;
        public Connection Connection { get; private set; }
        public Session Session { get; private set; }
        public Management Management { get; private set; }

        public Scene(Setting setting, string scenario)
        {
            Setting = setting;
            Name = setting.Prefix + scenario;
            Again();
        }

        /// <summary>Connects, anew after a restart.</summary>
        public void Again()
        {
            AgainAs(null);
        }

        /// <summary>The same, with a container of this name; the client's own choice if it is null.</summary>
        public void AgainAs(string container)
        {
            connections.Clear();
            Connection = Connect(factory =>
            {
                factory.AMQP.ContainerId = container ?? factory.AMQP.ContainerId;
            });
            Session = new Session(Connection);
            Management = new Management(Connection);
        }

        public void Dispose()
        {
            try
            {
                foreach (string queue in queues)
                {
                    Management.Ask("DELETE", "/queues/" + queue, null);
                }
                foreach (Connection connection in connections)
                {
                    connection.Close(Check.Limit, null);
                }
            }
            catch (Exception why) // the scenario said already what failed
            {
                Console.Error.WriteLine(Name + ": closing: " + why.Message);
            }
        }

        /// <summary>A connection with SASL PLAIN.</summary>
        public Connection Connect(Action<ConnectionFactory> set = null, string password = null)
        {
            return Connect(new Address(Setting.Host, Setting.Amqp, Setting.User, password ?? Setting.Password,
                "/", "amqp"), set);
        }

        /// <summary>A connection with another mechanism; without a SASL layer where that is null.</summary>
        public Connection Connect(SaslProfile profile, int port, Action<ConnectionFactory> set = null)
        {
            string scheme = port == Setting.Amqps ? "amqps" : "amqp";
            string host = port == Setting.Amqps ? "localhost" : Setting.Host;
            return Connect(new Address(host, port, null, null, "/", scheme), factory =>
            {
                factory.SASL.Profile = profile;
                if (set != null)
                {
                    set(factory);
                }
            });
        }

        public Connection Connect(Address address, Action<ConnectionFactory> set)
        {
            var factory = new ConnectionFactory();
            if (set != null)
            {
                set(factory);
            }
            var opened = new TaskCompletionSource<bool>();
            Task<Connection> connecting =
                factory.CreateAsync(address, null, (connection, open) => opened.TrySetResult(true));
            try
            {
                connecting.Wait(Check.Limit);
            }
            catch (AggregateException why)
            {
                throw why.InnerException;
            }
            Check.Soon("open", opened.Task);
            connections.Add(connecting.Result);
            return connecting.Result;
        }

        /// <summary>A new queue; the scenario's end deletes it.</summary>
        public string Queue(string suffix = "", Map arguments = null)
        {
            string name = Name + suffix, path = "/queues/" + name;
            Management.Ask("DELETE", path, null);
            queues.Add(name);
            Management.Ask("PUT", path, new Map { { "arguments", arguments ?? new Map() } }, 201);
            return name;
        }

        public ulong Count(string queue)
        {
            return (ulong)((Map)Management.Ask("GET", "/queues/" + queue, null, 200))["message_count"];
        }

        public SenderLink Sender(string address, Attach attach = null, Session session = null)
        {
            attach = attach ?? new Attach();
            attach.Source = new Source();
            attach.Target = new Target { Address = address };
            return Opened(done => new SenderLink(session ?? Session, Name + "-" + links++, attach, done));
        }

        public ReceiverLink Receiver(string queue, int credit = 10)
        {
            var receiver = Receiver(new Attach { Source = new Source { Address = "/queues/" + queue } });
            receiver.SetCredit(credit, CreditMode.Manual);
            return receiver;
        }

        public ReceiverLink Receiver(Attach attach, Session session = null, OnAttached onAttached = null)
        {
            attach.Target = attach.Target ?? new Target();
            string name = Name + "-" + links++;
            return Opened(done => new ReceiverLink(session ?? Session, name, attach, done + onAttached));
        }

        /// <summary>A link that the broker has attached; the error it is refused with is thrown.</summary>
        public static T Opened<T>(Func<OnAttached, T> attach) where T : Link
        {
            var answer = new TaskCompletionSource<Error>();
            T link = attach((one, attached) =>
            {
                // A refused attach is answered by one without a terminus; the detach is behind it.
                if ((attached.Role ? attached.Target : attached.Source) != null)
                {
                    answer.TrySetResult(null);
                }
            });
            link.AddClosedCallback(
                (one, error) => answer.TrySetResult(error ?? new Error(ErrorCode.DetachForced)));
            Error refusal = Check.Soon("attach", answer.Task);
            if (refusal != null)
            {
                throw new AmqpException(refusal);
            }
            // A receiver notes the broker's delivery-count only after this callback: credit that is
            // sent before counts from 0 and is too much.
            Thread.Sleep(20);
            return link;
        }

        public static Outcome Send(SenderLink sender, Message message)
        {
            var answer = new TaskCompletionSource<Outcome>();
            sender.Send(message, (link, sent, outcome, state) => answer.TrySetResult(outcome), null);
            return Check.Soon("outcome", answer.Task);
        }

        public static void Accept(SenderLink sender, Message message)
        {
            Outcome outcome = Send(sender, message);
            Check.That("not accepted but " + outcome, outcome is Accepted);
        }

        public void Publish(string queue, params Message[] messages)
        {
            SenderLink sender = Sender("/queues/" + queue);
            foreach (Message message in messages)
            {
                Accept(sender, message);
            }
            sender.Close(Check.Limit, null);
        }

        public void Publish(string queue, params string[] texts)
        {
            Publish(queue, texts.Select(Text).ToArray());
        }

        public static Message Text(string text)
        {
            return new Message { BodySection = new AmqpValue { Value = text } };
        }

        public static Message Receive(ReceiverLink receiver)
        {
            Message message = receiver.Receive(Check.Limit);
            Check.That("no message came", message != null);
            return message;
        }

        /// <summary>The next message has this value as its body; it is accepted.</summary>
        public static void BodyIs(object value, ReceiverLink receiver)
        {
            Message message = Receive(receiver);
            Check.Equal("body", Value(message), value);
            receiver.Accept(message);
        }

        /// <summary>No message comes for the credit there is.</summary>
        public static void Nothing(ReceiverLink receiver)
        {
            Message message = receiver.Receive(Check.Silence);
            Check.That("unexpected message", message == null);
        }

        public static object Value(Message message)
        {
            return ((AmqpValue)message.BodySection).Value;
        }
    }
}
