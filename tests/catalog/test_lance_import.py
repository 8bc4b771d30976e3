"""LanceDB as the catalog imports it: its REST client checks what it is given, and pydantic is as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError, validate_call

from mmlake.catalog.lance_import import _at_first_call

IMPORT = """
import pydantic
before = pydantic.validate_call
from mmlake.catalog.lance_import import lancedb
assert lancedb().__name__ == "lancedb"
assert pydantic.validate_call is before
from lance_namespace_urllib3_client import ApiClient, Configuration, NamespaceApi
try:
    client = NamespaceApi(ApiClient(Configuration(host="http://127.0.0.1:9")))
    client.namespace_exists(id=7, namespace_exists_request=None)
except pydantic.ValidationError as error:
    print(error.error_count())
"""


def test_the_client_of_a_rest_catalog_still_checks_its_arguments() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_check_is_made_at_the_first_call() -> None:
    made = []

    def counted(function):
        made.append(function.__name__)
        return validate_call(function)

    @_at_first_call(counted)
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    assert (made, double.__doc__) == ([], "Twice the number.")
    assert (double(2), double("3"), made) == (4, 6, ["double"])
    with pytest.raises(ValidationError):
        double("no number")
    assert made == ["double"]
