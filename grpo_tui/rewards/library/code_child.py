"""What runs in the child process of a test of `PassesTests`: limits first, then the code, then the test.

The proof of passing is read from stdin before the code is run and kept in the frame of a function that the
code does not see by name; it is written to a pipe once the test has run to its end.
"""

from __future__ import annotations

LIMITED = """
import os, resource, sys
seconds, memory, pipe = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
proof = os.read(0, 64)
for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory),
                   (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)):
    resource.setrlimit(what, (most, most))
sys.argv = ["code.py"]
def main(proof, pipe, write):
    here = os.getpid()
    names = {"__name__": "code"}
    code = open("code.py", encoding="utf-8").read()
    test = open("test.py", encoding="utf-8").read()
    exec(compile(code, "code.py", "exec"), names)
    exec(compile(test, "test.py", "exec"), names)
    if os.getpid() == here:
        write(pipe, proof)
main(proof, pipe, os.write)
"""
"""A program for `python -c`; its arguments: seconds of processor time, bytes of address space, the pipe."""
