"""Find who uses a port and which port is free, and explain failed starts caused by a port."""

from __future__ import annotations

import re
import socket
from itertools import chain

import psutil

from grpo_tui.supervisor.run_processes import process_name

TAKEN = re.compile(r"EADDRINUSE|address already in use|another process is utilizing it", re.IGNORECASE)
NUMBER = re.compile(r"port[:=\s`]+(\d{2,5})\b|:(\d{2,5})\b|\b(\d{4,5})\b", re.IGNORECASE)
LOWEST, HIGHEST = 1024, 65_535


def port_in_use(port: int) -> bool:
    """Return whether a port of this machine is in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def free_port(after: int) -> int:
    """Return the next free port. The search continues with the lowest unprivileged port after the highest."""
    ports = chain(range(after + 1, HIGHEST + 1), range(LOWEST, after))
    return next(port for port in ports if not port_in_use(port))


def unused_port() -> int:
    """Return a free port that the system chooses, another one at each call."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def port_holder(port: int) -> str:
    """Describe who listens on a port. Another user's process is not visible."""
    unseen = "a process not visible from here"
    try:
        listening = [
            found.pid
            for found in psutil.net_connections("tcp")
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port
        ]
        pid = next((pid for pid in listening if pid), None)
        if pid is None:
            return unseen
        process = psutil.Process(pid)
        return f"process {pid} ({process_name(process)} of {process.username()})"
    except (psutil.Error, OSError, KeyError):
        return unseen


def port_trouble(text: str) -> str:
    """Explain output of a process that failed because a port is in use; empty for any other output."""
    for line in reversed(text.splitlines()):
        if TAKEN.search(line):
            number = NUMBER.search(line)
            if number is None:
                return "a port is in use on this machine"
            port = int(next(filter(None, number.groups())))
            return f"port {port} is in use by {port_holder(port)}; {free_port(port)} is free"
    return ""
