"""The RabbitMQ Python AMQP 1.0 client through the scenarios of ../SCENARIOS.md.

    client.py SETTING.json [SCENARIO ...]
"""
import sys

import connections
import deaths
import links
import messages
import page
from base import run

SCENARIOS = {**connections.SCENARIOS, **messages.SCENARIOS, **links.SCENARIOS, **deaths.SCENARIOS,
             **page.SCENARIOS}

if __name__ == "__main__":
    sys.exit(run(SCENARIOS))
