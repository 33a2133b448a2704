"""Say in one sentence why this interpreter cannot build the environment, or print "ok".

Parses on every Python since 2.7, for it has to run on the ones that are too old.
"""

import sys

FOUND = "%s is Python %d.%d" % (sys.executable, sys.version_info[0], sys.version_info[1])
AGAIN = "choose another with `make PYTHON=python3.12`"


def verdict():
    """Return "ok", or the sentence to show."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return "grpo-tui needs Python 3.11, 3.12 or 3.13 and %s: %s" % (FOUND, AGAIN)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as missing:
        module = missing.name
        return "%s without the module `%s`: install python%d.%d-venv, or %s" % (
            FOUND,
            module,
            sys.version_info[0],
            sys.version_info[1],
            AGAIN,
        )
    return "ok"


print(verdict())
