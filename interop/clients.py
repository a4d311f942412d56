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


class Proton:
    """Qpid Proton for Python (PyPI python-qpid-proton): needs Python 3, a C compiler, Python's headers"""

    @staticmethod
    def prepare():
        python = python_with("proton", "proton.reactor", "python-qpid-proton==0.40.0")
        return [python, os.path.join(HERE, "proton", "client.py")], HERE


class Rhea:
    """rhea (npm): needs Node.js 18 or newer with npm"""

    @staticmethod
    def prepare():
        folder = os.path.join(HERE, "rhea")
        if not os.path.isdir(os.path.join(folder, "node_modules", "rhea")):
            install(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
        return ["node", os.path.join(folder, "client.js")], folder


class GoAmqp:
    """go-amqp (Go modules): needs Go 1.25 or newer"""

    @staticmethod
    def prepare():
        return [go_program("go-amqp")], HERE


CLIENTS = {"proton": Proton, "rhea": Rhea, "go-amqp": GoAmqp}


def go_program(name):
    """builds the program in the folder of this name; go.mod and go.sum pin what it needs"""
    program = os.path.join(REPOSITORY, "target", "interop-" + name)
    os.makedirs(os.path.dirname(program), exist_ok=True)
    install(["go", "build", "-o", program, "."], os.path.join(HERE, name))
    return program


def python_with(name, module, requirement):
    """the Python of an environment that has a module; made if there is none"""
    environment = os.path.join(HERE, ".venv-" + name)
    python = os.path.join(environment, "bin", "python")
    if not works(python, "import " + module):
        shutil.rmtree(environment, ignore_errors=True)
        install([sys.executable, "-m", "venv", environment])
        install([python, "-m", "pip", "install", "--quiet", requirement])
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
