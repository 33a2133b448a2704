"""A port that is taken: whose it is, and which one is free."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from grpo_tui.supervisor.ports import free_port, port_holder, port_in_use, port_trouble


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_the_holder_of_a_port_is_named_and_another_is_free(port: int) -> None:
    assert port_in_use(port)
    assert port_holder(port).startswith(f"process {os.getpid()} (")
    assert free_port(port - 1) > port
    assert not port_in_use(free_port(port))


def test_the_highest_port_counts_and_above_it_the_search_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = {65_534}
    monkeypatch.setattr("grpo_tui.supervisor.ports.port_in_use", taken.__contains__)
    assert free_port(65_533) == 65_535
    taken |= {65_535, 1024}
    assert free_port(65_533) == 1025


@pytest.mark.parametrize(
    "said",
    [
        "DistNetworkError: failed to listen. port: {port}, useIpv6: false, code: -98, name: EADDRINUSE",
        "ConnectionError: Tried to launch on port `{port}`, but another process is utilizing it. Please",
        "OSError: [Errno 98] attempting to bind on address ('0.0.0.0', {port}): address already in use",
        "RuntimeError: [/pytorch/third_party/gloo] bind: Address already in use: 0.0.0.0:{port}",
    ],
)
def test_every_way_to_say_that_a_port_is_taken_names_its_holder(said: str, port: int) -> None:
    told = port_trouble("step 1\n" + said.format(port=port) + "\nend")
    assert told.startswith(f"port {port} is in use by process {os.getpid()} (")
    assert port_trouble("step 1: 29500 tokens") == ""
    assert port_trouble("bind: Address already in use") == "a port is in use on this machine"
    earlier = said.format(port=port + 1 if port < 65_535 else port - 1)
    assert port_trouble(f"{earlier}\n{said.format(port=port)}") == told, "the last attempt counts"
