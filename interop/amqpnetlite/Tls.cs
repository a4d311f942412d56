using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using Amqp;

namespace Interop
{
    /// <summary>Trusts who signed the broker's certificate, and no other.</summary>
    static class Tls
    {
        public static void Verify(ConnectionFactory factory, Setting setting)
        {
            factory.SSL.Protocols = SslProtocols.Tls12 | SslProtocols.Tls13;
            factory.SSL.RemoteCertificateValidationCallback = (sender, certificate, given, errors) =>
            {
                using (var chain = new X509Chain())
                {
                    chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
                    chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
                    chain.ChainPolicy.CustomTrustStore.ImportFromPemFile(setting.Ca);
                    return chain.Build(new X509Certificate2(certificate))
                        && (errors & SslPolicyErrors.RemoteCertificateNameMismatch) == 0;
                }
            };
        }

        public static void ShowCertificate(ConnectionFactory factory, Setting setting)
        {
            factory.SSL.ClientCertificates.Add(
                X509Certificate2.CreateFromPemFile(setting.Certificate, setting.Key));
        }
    }
}
