"""The RabbitMQ Python AMQP 1.0 client through the scenarios of ../SCENARIOS.md.

    client.py SETTING.json [SCENARIO ...]
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import connections  # noqa: E402
import deaths  # noqa: E402
import evidence  # noqa: E402
import links  # noqa: E402
import messages  # noqa: E402
from base import ERRORS, Scene  # noqa: E402
from shared import run  # noqa: E402

SCENARIOS = {**connections.SCENARIOS, **messages.SCENARIOS, **links.SCENARIOS, **deaths.SCENARIOS,
             **evidence.SCENARIOS}

if __name__ == "__main__":
    sys.exit(run(SCENARIOS, Scene, ERRORS))
