using System.IO;
using System.Text.Json;

namespace Interop
{
    /// <summary>What interop/matrix writes for its clients; SCENARIOS.md says what each field is.</summary>
    sealed class Setting
    {
        readonly JsonElement fields;

        Setting(JsonElement fields)
        {
            this.fields = fields;
        }

        public string Host { get { return Text("host"); } }
        public int Amqp { get { return Number("amqp"); } }
        public int Amqps { get { return Number("amqps"); } }
        public int Bare { get { return Number("bare"); } }
        public string User { get { return Text("user"); } }
        public string Password { get { return Text("password"); } }
        public string Vhost { get { return Text("vhost"); } }
        public string Ca { get { return Text("ca"); } }
        public string Certificate { get { return Text("certificate"); } }
        public string Key { get { return Text("key"); } }
        public string ClientUser { get { return Text("client_user"); } }
        public string Prefix { get { return Text("prefix"); } }

        public static Setting Read(string path)
        {
            return new Setting(JsonDocument.Parse(File.ReadAllText(path)).RootElement);
        }

        string Text(string name)
        {
            return fields.GetProperty(name).GetString();
        }

        int Number(string name)
        {
            return fields.GetProperty(name).GetInt32();
        }
    }
}
