"""A consumer that takes one message and holds it until it is killed.

    holder.py URL QUEUE CONTAINER LINK

Says `holding` once it has one.
"""
import sys
import time

from proton.reactor import AtLeastOnce, Container
from proton.utils import BlockingConnection

HOLD_S = 60


def main():
    url, queue, name, link = sys.argv[1:]
    container = Container()
    container.container_id = name
    connection = BlockingConnection(url, timeout=10, allowed_mechs="PLAIN", user="guest", password="guest",
                                    container=container)
    connection.create_receiver("/queues/" + queue, credit=1, name=link, options=AtLeastOnce()).receive()
    print("holding", flush=True)
    time.sleep(HOLD_S)


if __name__ == "__main__":
    main()
