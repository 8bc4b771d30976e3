"""An interrupt at any step of a download: it is raised, no thread is left, and the lake downloads on."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from mmlake.download.downloads import _FetchThread
from tests.interrupted_steps import interrupted_at
from tests.sources.source_builders import SETTINGS, png, sha
from tests.sources.web.site import downloads_at

_STEPS = {"after": _FetchThread.send, "until": (_FetchThread.stop, ExitStack.__exit__)}


def test_an_interrupt_at_any_step_ends_the_download_and_every_thread_of_it(tmp_path, site):
    step, known = 2, set(threading.enumerate())
    downloads = downloads_at(tmp_path)
    while True:
        url = site.serve(f"/{step}.png", png(1))
        try:
            with interrupted_at(step, **_STEPS) as seen:
                list(downloads.fetch([url], rules=SETTINGS))
        except KeyboardInterrupt:
            left = [thread.name for thread in set(threading.enumerate()) - known if thread.name.startswith("mmlake")]
            assert not left, f"step {step}: {left}"
        assert next(downloads.fetch([url], rules=SETTINGS)).digest == sha(png(1))
        if seen[0] < step:
            break  # the download was over before
        step += 1
    assert step > 30
    downloads.close()
