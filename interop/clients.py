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


CLIENTS = {"proton": Proton}


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
