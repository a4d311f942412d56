using System;
using System.Collections.Generic;
using System.Linq;

namespace Interop
{
    /// <summary>AMQPNetLite through the scenarios of ../SCENARIOS.md: SETTING.json [SCENARIO ...]</summary>
    static class Client
    {
        public const string Version = "AMQPNetLite 2.4.11";

        static int Main(string[] arguments)
        {
            Setting setting = Setting.Read(arguments[0]);
            var scenarios = new[]
            {
                Connections.Scenarios, Messages.Scenarios, Links.Scenarios, Deaths.Scenarios, Evidence.Scenarios,
            }.SelectMany(part => part).ToDictionary(one => one.Key, one => one.Value);
            int status = 0;
            foreach (string name in arguments.Length > 1 ? arguments.Skip(1) : scenarios.Keys)
            {
                try
                {
                    if (!scenarios.ContainsKey(name))
                    {
                        throw new Skip("not written for this client");
                    }
                    using (Scene scene = new Scene(setting, name))
                    {
                        scenarios[name](scene);
                    }
                    Say("ok " + name);
                }
                catch (Skip why)
                {
                    Say("skip " + name + " " + why.Message);
                }
                catch (Exception why)
                {
                    status = 1;
                    Console.Error.WriteLine(why);
                    Say("fail " + name + " " + why.GetType().Name + ": " + why.Message);
                }
            }
            return status;
        }

        static void Say(string line)
        {
            Console.WriteLine(line.Replace('\r', ' ').Replace('\n', ' '));
        }
    }

    /// <summary>What runs a scenario, by its name in SCENARIOS.md.</summary>
    sealed class Scenarios : Dictionary<string, Action<Scene>>
    {
    }

    /// <summary>This client cannot do that; the text says what is missing.</summary>
    sealed class Skip : Exception
    {
        public Skip(string why) : base(why)
        {
        }
    }
}
