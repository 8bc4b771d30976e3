"""What is imported: when, and at which cost."""

from __future__ import annotations

import subprocess
import sys

LATER = """
import sys
from mmlake.optional import defer
defer("pack")
import pack.inner
assert pack.inner.VALUE == 1 and "begun" not in vars(pack), vars(pack)
assert pack.begun == 2 and pack.inner.VALUE == 1
try:
    pack.absent
except AttributeError as error:
    assert "absent" in str(error)
else:
    raise AssertionError
defer("pack"), defer("nowhere_to_be_found")
"""


def test_the_code_of_a_package_runs_when_it_is_first_asked_for_something(tmp_path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("begun = 2\n")
    (tmp_path / "pack/inner.py").write_text("VALUE = 1\n")
    env = {"PYTHONPATH": f"{tmp_path}:{':'.join(filter(None, sys.path))}"}
    subprocess.run([sys.executable, "-c", LATER], env=env, check=True)


OPENED = """
import sys
from pathlib import Path
from mmlake.catalog.opened import connect
connect(Path(sys.argv[1]))
assert "lancedb" in sys.modules
print(sorted(name for name in sys.modules if name.startswith("lance_namespace_urllib3_client.api.")))
import lance_namespace_urllib3_client
print(lance_namespace_urllib3_client.TableApi.__name__)
"""


def test_a_catalog_opens_without_the_rest_client_which_is_there_for_who_asks(tmp_path) -> None:
    """It is half of what lancedb imports, .5 CPU s in each process."""
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "catalog")], env=env, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["[]", "TableApi"]


KEPT = """
import gc
from mmlake.optional import kept_imports
searches = []
gc.callbacks.append(lambda phase, info: searches.append(phase))
with kept_imports():
    import mmlake.catalog
    assert not searches and not gc.isenabled()
assert gc.isenabled() and gc.get_freeze_count() > 10_000
gc.disable()
with kept_imports():
    pass
assert not gc.isenabled()
"""


def test_what_a_program_imports_is_not_searched_for_garbage() -> None:
    """A tenth of the CPU time of a run that finds nothing new."""
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", KEPT], env=env, check=True)


def test_a_command_puts_the_graph_together_for_its_own_lake_alone(tmp_path) -> None:
    """It was built twice: also for the lake and the settings of the environment, which need not be readable."""
    (tmp_path / "broken.toml").write_text("[")
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "MMLAKE_SETTINGS": str(tmp_path / "broken.toml")}
    subprocess.run([sys.executable, "-c", "import mmlake_assets.run"], env=env, check=True)
