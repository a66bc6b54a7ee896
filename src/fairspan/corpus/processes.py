"""Processes that end with the one that started them."""

import os
import signal
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it is gone, however it ended."""

    def watch() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
