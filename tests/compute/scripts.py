"""Scripts that a test runs in a process of their own: good ones and bad ones."""

from __future__ import annotations

from pathlib import Path

SUMS = """
import numpy
def load(config):
    def answer(request, samples):
        found = numpy.frombuffer(samples, numpy.float32)
        return {"name": request["name"], "num": len(found)}, (found * config["gain"]).tobytes()
    return answer
"""
LEAKS = """
held = []
def load(config):
    def answer(request, samples):
        held.append(b"1" * config["leak_bytes"])
        if request.get("alone_bytes"):
            held.append(b"1" * request["alone_bytes"])
        return {"name": request["name"], "num_held": len(held)}, b""
    return answer
"""
BAD = """
import os, sys, time
def load(config):
    done = []
    def answer(request, samples):
        done.append(1)
        kind = request["kind"]
        if kind == "crash":
            os.abort()
        if kind == "hang":
            time.sleep(600)
        if kind == "raise":
            raise ValueError("of the library")
        if kind == "noise":
            print("a library prints")
            os.write(1, b"and so does its C code")
        if kind == "large":
            return {"num_done": len(done)}, bytes(8 << 20)
        return {"num_done": len(done)}, b""
    return answer
"""
ABSENT = """
def load(config):
    import nothing_of_that_name
"""


def written(folder: Path, text: str) -> Path:
    """The path of a script with that text."""
    path = folder / "script.py"
    path.write_text(text)
    return path
