"""How the clients of `interop/matrix` are installed and called."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(HERE)
INSTALL_MAX_S = 900


class Missing(Exception):
    """a client cannot be installed or run here; the text says why"""


class NotHere(Missing):
    """what a client needs cannot be installed from here: it is skipped, and the table says so"""


class Proton:
    """Qpid Proton for Python (PyPI python-qpid-proton): needs Python 3 and its headers, a C compiler,
    and for SCRAM the headers and modules of Cyrus SASL, which apt installs where they are missing"""

    @staticmethod
    def prepare():
        if not os.path.exists("/usr/include/sasl/sasl.h") and shutil.which("apt-get"):
            debian(["libsasl2-dev", "libsasl2-modules-gssapi-mit", "pkg-config"])
        python = python_with("proton", "proton.reactor", "python-qpid-proton==0.40.0")
        return [python, os.path.join(HERE, "proton", "client.py")], HERE


class ProtonCpp:
    """Qpid Proton C++ (Debian libqpid-proton-cpp12-dev): needs g++, and apt where it is not installed"""

    @staticmethod
    def prepare():
        if not os.path.exists("/usr/include/proton/container.hpp"):
            debian(["g++", "make", "libqpid-proton-cpp12-dev"])
        folder = os.path.join(HERE, "proton-cpp")
        install(["make", "--silent", "-j2", "PROGRAM=" + program_path("proton-cpp")], folder)
        return [program_path("proton-cpp")], folder


class Rhea:
    """rhea (npm): needs Node.js 18 or newer with npm"""

    @staticmethod
    def prepare():
        folder = os.path.join(HERE, "rhea")
        needed = (os.path.join(folder, "node_modules", name) for name in ("rhea", "ws"))
        if not all(map(os.path.isdir, needed)):
            install(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
        return ["node", os.path.join(folder, "client.js")], folder


class GoAmqp:
    """go-amqp (Go modules): needs Go 1.25 or newer"""

    @staticmethod
    def prepare():
        return [go_program("go-amqp")], HERE


class QpidJms:
    """Qpid JMS (Maven Central): needs Java 17 or newer and Maven"""

    @staticmethod
    def prepare():
        return java_program("qpid-jms")


class RabbitmqGo:
    """RabbitMQ Go AMQP 1.0 client (Go modules): needs Go 1.25 or newer"""

    @staticmethod
    def prepare():
        return [go_program("rabbitmq-go")], HERE


class RabbitmqPython:
    """RabbitMQ Python AMQP 1.0 client (PyPI rabbitmq-amqp-python-client): needs what Qpid Proton needs"""

    @staticmethod
    def prepare():
        python = python_with("rabbitmq-python", "rabbitmq_amqp_python_client",
                             "rabbitmq-amqp-python-client==1.0.1")
        return [python, os.path.join(HERE, "rabbitmq-python", "client.py")], HERE


class ProtonJ2:
    """Qpid ProtonJ2 (Maven Central): needs Java 17 or newer and Maven"""

    @staticmethod
    def prepare():
        return java_program("protonj2")


class RabbitmqJava:
    """RabbitMQ AMQP 1.0 client for Java (Maven Central): needs Java 17 or newer and Maven"""

    @staticmethod
    def prepare():
        return java_program("rabbitmq-java")


class Fe2o3:
    """fe2o3-amqp (Rust): an example of this package, needs what the broker needs"""

    @staticmethod
    def prepare():
        install(["cargo", "build", "--locked", "--quiet", "--example", "interop"], REPOSITORY)
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
        return [os.path.join(target, "debug", "examples", "interop")], REPOSITORY


class AmqpNetLite:
    """AMQPNetLite (NuGet): needs a .NET SDK 8 or newer; skipped where there is none"""

    @staticmethod
    def prepare():
        if shutil.which("dotnet") is None:
            raise NotHere("no .NET SDK on this machine (dotnet)")
        built = program_path("amqpnetlite")
        install(["dotnet", "build", "--configuration", "Release", "--nologo", "--verbosity", "quiet",
                 "--output", built], os.path.join(HERE, "amqpnetlite"))
        return ["dotnet", os.path.join(built, "amqpnetlite.dll")], HERE


CLIENTS = {"proton": Proton, "proton-cpp": ProtonCpp, "rhea": Rhea, "go-amqp": GoAmqp,
           "rabbitmq-go": RabbitmqGo, "rabbitmq-python": RabbitmqPython, "protonj2": ProtonJ2,
           "qpid-jms": QpidJms, "rabbitmq-java": RabbitmqJava, "fe2o3-amqp": Fe2o3,
           "amqpnetlite": AmqpNetLite}


def java_program(name):
    """builds the Maven project in the folder of this name; pom.xml pins what it needs"""
    folder = os.path.join(HERE, name)
    install(["mvn", "--batch-mode", "--quiet", "package"], folder)
    built = program_path(name)
    classes = os.pathsep.join([os.path.join(built, "classes"), os.path.join(built, "lib", "*")])
    return ["java", "-cp", classes, "interop.%s.Client" % name.replace("-", "")], folder


def go_program(name):
    """builds the program in the folder of this name; go.mod and go.sum pin what it needs"""
    install(["go", "build", "-o", program_path(name), "."], os.path.join(HERE, name))
    return program_path(name)


def program_path(name):
    folder = os.path.join(REPOSITORY, "target", "interop")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


def debian(packages):
    """installs packages of a Debian or Ubuntu system, as root or through sudo"""
    if shutil.which("apt-get") is None:
        raise Missing("%s: this is no Debian" % " ".join(packages))
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    install(sudo + ["apt-get", "update", "-qq"])
    install(sudo + ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qq", "-y",
                    "--no-install-recommends", *packages])


def python_with(name, module, requirement):
    """the Python of an environment that has a module; made if there is none"""
    environment = os.path.join(HERE, ".venv-" + name)
    python = os.path.join(environment, "bin", "python")
    if not works(python, "import " + module):
        shutil.rmtree(environment, ignore_errors=True)
        install([sys.executable, "-m", "venv", environment])
        install([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", requirement])
    return python


def works(python, statement):
    return os.path.exists(python) and \
        subprocess.run([python, "-c", statement], capture_output=True).returncode == 0


def install(command, folder=HERE, limit=INSTALL_MAX_S):
    try:
        done = subprocess.run(command, cwd=folder, timeout=limit, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError as e:
        raise Missing("%s is not installed" % command[0]) from e
    except subprocess.TimeoutExpired as e:
        raise Missing("%s takes longer than %d s" % (" ".join(command), limit)) from e
    if done.returncode != 0:
        raise Missing("%s: %s" % (" ".join(command[:4]), done.stdout.strip()[-600:]))
