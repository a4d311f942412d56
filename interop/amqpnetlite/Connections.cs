using System;
using Amqp;
using Amqp.Framing;
using Amqp.Sasl;
using Amqp.Types;

namespace Interop
{
    /// <summary>SASL, TLS, vhosts, frames, management.</summary>
    static class Connections
    {
        public static readonly Scenarios Scenarios = new Scenarios
        {
            { "plain", Plain }, { "anonymous", Anonymous }, { "scram", Scram }, { "tls", OverTls },
            { "external", External }, { "no-sasl", NoSasl }, { "vhost", Vhost }, { "frames", Frames },
            { "declare", Declare },
        };

        static void Plain(Scene scene)
        {
            // What the client throws for a SASL outcome that is not ok.
            Check.Refused("amqp:unauthorized-access", () => scene.Connect(password: "wrong"));
            scene.Connect();
        }

        /// <summary>Publishes on a connection of its own, and receives on that of the scene.</summary>
        static void Through(Scene scene, Connection connection, string user = null)
        {
            string queue = scene.Queue();
            SenderLink sender = scene.Sender("/queues/" + queue, session: new Session(connection));
            Message message = Scene.Text("through");
            if (user != null)
            {
                // The broker takes a user-id only from the user of that name.
                message.Properties = new Properties { UserId = System.Text.Encoding.UTF8.GetBytes(user) };
            }
            Scene.Accept(sender, message);
            Scene.BodyIs("through", scene.Receiver(queue));
        }

        static void Anonymous(Scene scene)
        {
            Through(scene, scene.Connect(SaslProfile.Anonymous, scene.Setting.Amqp));
        }

        static void Scram(Scene scene)
        {
            throw new Skip(Client.Version + " has PLAIN, ANONYMOUS and EXTERNAL only");
        }

        static void OverTls(Scene scene)
        {
            var address = new Address("localhost", scene.Setting.Amqps, scene.Setting.User,
                scene.Setting.Password, "/", "amqps");
            Through(scene, scene.Connect(address, factory => Tls.Verify(factory, scene.Setting)));
        }

        static void External(Scene scene)
        {
            Connection connection = scene.Connect(SaslProfile.External, scene.Setting.Amqps, factory =>
            {
                Tls.Verify(factory, scene.Setting);
                Tls.ShowCertificate(factory, scene.Setting);
            });
            Through(scene, connection, scene.Setting.ClientUser);
        }

        static void NoSasl(Scene scene)
        {
            Through(scene, scene.Connect(null, scene.Setting.Bare));
        }

        static void Vhost(Scene scene)
        {
            Connection other = scene.Connect(factory => factory.AMQP.HostName = "vhost:" + scene.Setting.Vhost);
            var management = new Management(other);
            string path = "/queues/" + scene.Name;
            management.Ask("PUT", path, new Map(), 201, 200);
            Check.Refused("amqp:not-found", () => scene.Receiver(scene.Name));
            scene.Receiver(new Attach { Source = new Source { Address = path } }, new Session(other)).Close();
            management.Ask("DELETE", path, null, 200);
            // The broker opens before it closes.
            Check.Closes("amqp:not-found",
                scene.Connect(factory => factory.AMQP.HostName = "vhost:interop-missing"));
        }

        static void Frames(Scene scene)
        {
            string queue = scene.Queue();
            var session = new Session(scene.Connect(factory => factory.AMQP.MaxFrameSize = 512));
            byte[] body = Messages.Bytes(20000);
            Scene.Accept(scene.Sender("/queues/" + queue, session: session), Messages.Data(body));
            ReceiverLink receiver = scene.Receiver(
                new Attach { Source = new Source { Address = "/queues/" + queue } }, session);
            Message message = Scene.Receive(receiver);
            Check.Equal("body", ((Data)message.BodySection).Binary, body);
            receiver.Accept(message);
        }

        static Map Limited(int length)
        {
            return new Map { { "arguments", new Map { { "x-max-length", length } } } };
        }

        static void Declare(Scene scene)
        {
            Management management = scene.Management;
            string name = scene.Name, queue = "/queues/" + name, exchange = name + "-exchange";
            management.Ask("DELETE", queue, null);
            scene.Forget(name);
            management.Ask("PUT", queue, Limited(5), 201);
            management.Ask("PUT", queue, Limited(5), 200);
            management.Ask("PUT", queue, Limited(6), 409);
            var info = (Map)management.Ask("GET", queue, null, 200);
            Check.Equal("name", info["name"], name);
            Check.Equal("type", info["type"], "classic");
            Check.Equal("message_count", info["message_count"], 0UL);
            management.Ask("PUT", "/exchanges/" + exchange, new Map { { "type", "topic" } }, 204);
            management.Ask("POST", "/bindings", Binding(exchange, name, "a.#"), 204);
            string path = "/bindings?src=" + exchange + "&dstq=" + name + "&key=a.%23";
            var bindings = (List)management.Ask("GET", path, null, 200);
            Check.Equal("bindings", bindings.Count, 1);
            management.Ask("DELETE", (string)((Map)bindings[0])["location"], null, 204);
            Check.Equal("bindings", management.Ask("GET", path, null, 200), new List());
            scene.Publish(name, "1", "2");
            var purged = (Map)management.Ask("DELETE", queue + "/messages", null, 200);
            Check.Equal("purged", purged["message_count"], 2UL);
            management.Ask("DELETE", "/exchanges/" + exchange, null, 204);
            management.Ask("DELETE", queue, null, 200);
            management.Ask("GET", queue, null, 404);
        }

        public static Map Binding(string exchange, string queue, string key)
        {
            return new Map
            {
                { "source", exchange }, { "destination_queue", queue }, { "binding_key", key },
                { "arguments", new Map() },
            };
        }
    }
}
