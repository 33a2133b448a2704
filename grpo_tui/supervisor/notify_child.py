"""Send one message to the webhook and the command, each with a time limit.

Started by `notify` with the message on standard input. A failure is one line in the run's log, with the
webhook's URL masked.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from grpo_tui.config.section import masked_url
from grpo_tui.config.section_parts import is_web, variable_of
from grpo_tui.core.text import one_line

LIMIT_S = 10.0
LONGEST = 200
VARIABLES = {
    "GRPO_TUI_TITLE": "title",
    "GRPO_TUI_TEXT": "message",
    "GRPO_TUI_RUN_DIR": "run",
    "GRPO_TUI_STATE": "state",
    "GRPO_TUI_STEP": "step",
    "GRPO_TUI_FINDING": "finding",
}


def main() -> None:
    """Run the child."""
    told = json.load(sys.stdin)
    message = told["message"]
    sending = [
        threading.Thread(target=each, args=(told[name], message), daemon=True)
        for name, each in (("webhook", _post), ("command", _run))
        if told[name]
    ]
    for thread in sending:
        thread.start()
    for thread in sending:
        thread.join(LIMIT_S + 2)  # the only way to limit a hanging name lookup


def _post(webhook: str, message: Mapping[str, Any]) -> None:
    name = variable_of(webhook)
    url = webhook if name is None else os.environ.get(name, "")
    if not is_web(url):
        _say(f"the environment variable {name} does not hold an http or https URL")
        return
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "grpo-tui"}
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=LIMIT_S):
            return
    except urllib.error.HTTPError as error:
        why = f"answered {error.code}"
    except OSError as error:
        reason = getattr(error, "reason", error)
        why = f"could not be reached: {getattr(reason, 'strerror', None) or reason}"
    except (ValueError, http.client.HTTPException) as error:  # its message may contain the URL
        why = f"could not be used: {type(error).__name__}"
    _say(f"the webhook {masked_url(url)} {why}")


def _run(command: str, message: Mapping[str, Any]) -> None:
    shown = {name: "" if message[key] is None else str(message[key]) for name, key in VARIABLES.items()}
    # Files, not pipes: a background process of the command may keep a pipe open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(json.dumps(message).encode())
        given.seek(0)
        try:
            child = subprocess.Popen(
                command,
                shell=True,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **shown},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            _say(f"the command could not be started: {error}")
            return
        try:
            code = child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            _say(f"the command was killed after {LIMIT_S:g} s")
            return
        if code:
            said.seek(0)
            last = said.read(1 << 16).decode(errors="replace").strip().rpartition("\n")[2]
            _say(f"the command exited with {code}{': ' if last else ''}{one_line(last, LONGEST)}")


def _say(text: str) -> None:
    print(f"grpo-tui: notify: {one_line(text, 2 * LONGEST)}", flush=True)


if __name__ == "__main__":
    main()
