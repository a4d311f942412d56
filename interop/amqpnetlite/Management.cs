using System.Linq;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>Requests to /management: a method, a path and a body; the answer is a code and a body.</summary>
    sealed class Management
    {
        readonly SenderLink requests;
        readonly ReceiverLink answers;

        public Management(Connection connection)
        {
            var session = new Session(connection);
            requests = Scene.Opened(done => new SenderLink(session, "management", Pair(), done));
            answers = Scene.Opened(done => new ReceiverLink(session, "management", Pair(), done));
            answers.SetCredit(10, true);
        }

        static Attach Pair()
        {
            return new Attach
            {
                Source = new Source { Address = "/management" },
                Target = new Target { Address = "/management" },
                SndSettleMode = SenderSettleMode.Settled,
                Properties = new Fields { { new Symbol("paired"), true } },
            };
        }

        public object Ask(string method, string path, object body, params int[] codes)
        {
            requests.Send(new Message
            {
                Properties = new Properties { MessageId = "request", Subject = method, To = path, ReplyTo = "$me" },
                BodySection = new AmqpValue { Value = body },
            }, null, null);
            Message answer = Scene.Receive(answers);
            answers.Accept(answer);
            object found = Scene.Value(answer);
            int code = int.Parse(answer.Properties.Subject);
            Check.That(method + " " + path + ": " + code + " " + found, codes.Length == 0 || codes.Contains(code));
            return found;
        }
    }
}
