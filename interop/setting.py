"""What the clients of `interop/matrix` connect to: a broker with every door open, and its certificates."""
import json
import os
import shutil
import subprocess
import tempfile

from broker import Broker

USER, PASSWORD, VHOST, CLIENT_USER = "guest", "guest", "interop", "interop-client"
DAYS = "30"


class Setting:
    """A durable broker in a directory of its own, listening with and without TLS and SASL.

    `restart` kills it and starts it again on the same ports and the same directory.
    """

    def __init__(self, binary):
        self.folder = tempfile.mkdtemp(prefix="interop-")
        self.binary = binary
        try:
            self.files = certificates(self.folder)
            self.broker = self._start({"amqp": 0, "amqps": 0})
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def _start(self, ports):
        where = {name: "127.0.0.1:%d" % port for name, port in ports.items()}
        broker = Broker(
            self.binary, "--data", os.path.join(self.folder, "data"), "--http", "off",
            "--amqps", where["amqps"], "--tls-certificate", self.files["server.pem"],
            "--tls-key", self.files["server.key"], "--tls-client-ca", self.files["ca.pem"],
            "--announce-rabbitmq",
            "--user", USER + ":" + PASSWORD, "--user", CLIENT_USER + ":unused",
            "--anonymous-user", USER, "--require-sasl=false", "--vhost", VHOST, amqp=where["amqp"])
        self.ports = {"amqp": broker.port, "amqps": broker.tls_port, "bare": broker.port}
        return broker

    def restart(self):
        self.broker.kill()
        self.broker = self._start(self.ports)

    def write(self, client):
        """the file a client is called with"""
        path = os.path.join(self.folder, client + ".json")
        with open(path, "w") as out:
            json.dump({"host": "127.0.0.1", **self.ports, "user": USER, "password": PASSWORD,
                       "vhost": VHOST, "ca": self.files["ca.pem"],
                       "certificate": self.files["client.pem"], "key": self.files["client.key"],
                       "client_user": CLIENT_USER, "prefix": "interop-%s-" % client,
                       "rabbitmq": False}, out)
        return path

    def stop(self):
        try:
            self.broker.stop()
        finally:
            shutil.rmtree(self.folder)


def certificates(folder):
    """an authority, a certificate for localhost and one for a client, made by openssl"""
    files = {}

    def path(name):
        files[name] = os.path.join(folder, name)
        return files[name]

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    openssl("req", "-x509", *key, "-keyout", path("ca.key"), "-out", path("ca.pem"), "-days", DAYS,
            "-subj", "/CN=interop authority", "-addext", "keyUsage=keyCertSign")
    for name, common_name, usage in (("server", "localhost", "serverAuth"),
                                     ("client", CLIENT_USER, "clientAuth")):
        extensions = path(name + ".ext")
        with open(extensions, "w") as out:
            out.write("basicConstraints=CA:FALSE\nextendedKeyUsage=%s\n"
                      "subjectAltName=DNS:%s,IP:127.0.0.1\n" % (usage, common_name))
        request = path(name + ".csr")
        openssl("req", *key, "-keyout", path(name + ".key"), "-out", request, "-subj", "/CN=" + common_name)
        openssl("x509", "-req", "-in", request, "-CA", files["ca.pem"], "-CAkey", files["ca.key"],
                "-CAcreateserial", "-out", path(name + ".pem"), "-days", DAYS, "-extfile", extensions)
    return files
